/* query: results filtered, sorted and shown by any of their fields.
 *
 * A field is named by its path in the result's table ("timing.tokens_per_second",
 * "config.train.lr"), by the run file's ("train.lr"), by its last word where that is unique
 * ("lr" is not), or by a metric: "bits_byte", "nll_token/windows"; a metric without a task is the
 * first of that name.
 */
#ifndef PIPELINES_QUERY_H
#define PIPELINES_QUERY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/mem.h"
#include "formats/result.h"

struct query_field {
    const char *name;        /* as given */
    const struct field *row; /* NULL: a metric */
    size_t at;               /* of the row's value in struct result */
    struct str metric, task; /* task empty: any */
};
/* EXIT_USAGE with the near miss if there is no such field and no metric of this name in `v`. */
int query_field(struct query_field *f, struct str name, const struct result *v, size_t n,
                struct arena *a, struct err *e);

struct query_value {
    bool known;       /* set at all */
    double num;       /* NaN: not a number */
    const char *text; /* as field_text writes it */
};
struct query_value query_value(const struct query_field *f, const struct result *r,
                               struct arena *a);

/* Keeps the results for which all conditions hold: "FIELD OP VALUE" with = != < <= > >= and ~ (a
 * regular expression in the text). Lists (tags) equal a value when it is one of theirs. An unknown
 * value holds for != only. order[] gets the kept indices in the given order; returns how many. */
int query_where(struct strs conditions, const struct result *v, size_t n, size_t *order,
                size_t *kept, struct arena *a, struct err *e);
/* Sorts the indices by fields, first first; "-FIELD" is descending, unknown values come last.
 * Numbers compare as numbers, text bytewise; equal ones keep their order. */
int query_sort(struct strs by, const struct result *v, size_t n, size_t *order, size_t kept,
               struct arena *a, struct err *e);

#endif
