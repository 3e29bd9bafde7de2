/* compare: what may be said of the differences between runs.
 *
 * Comparability is decided per metric: two metrics compare when all their identity strings (slice,
 * vocabulary, context, window rule, precision, item and prompt hashes...) are equal and their units
 * have the same ids; else the metric is refused by name, or marked with `allow`.
 *
 * Each difference has two verdicts. "These checkpoints": paired over items, cluster jackknife, p by
 * sign flips, Holm over primary metrics x runs. "These recipes": seed noise, t over runs of a group
 * with pooled sd, Holm over primary metrics x recipes; with one seed in an arm it is not estimable
 * unless a group's sd is borrowed.
 */
#ifndef PIPELINES_COMPARE_H
#define PIPELINES_COMPARE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "formats/result.h"
#include "pipelines/table.h"
#include "scoring/stats.h"

enum verdict {
    VERDICT_NONE,
    VERDICT_BETTER,
    VERDICT_WORSE,
    VERDICT_NOT_SEEN,
    VERDICT_NOT_ESTIMABLE
};
extern const char *const verdict_names[];

/* One metric of one run against the baseline's. */
struct delta {
    size_t run;
    const struct metric *m;    /* NULL: this run has no such metric */
    const struct metric *base; /* NULL: the baseline has none */
    const char *refused;       /* why the two don't compare; NULL: they do */
    bool allowed;              /* refused, but asked for with allow */
    struct estimate est;       /* run minus baseline */
    double p_holm;             /* NaN: exploratory or not estimable */
    const char *same_as;       /* the metric of the same items that counts in its place, or NULL */
    bool again;   /* the baseline's own result once more, or another checkpoint of it */
    bool mcnemar; /* p is McNemar's, over `won` and `lost` items */
    int64_t won, lost;
    double mde;   /* difference that these items would show with 80% power; NaN: unknown */
    double above; /* text and end above the oracle floor, as a share of it; NaN: unknown */
    enum verdict verdict;
};
/* One group of runs against the baseline's group. */
struct recipe {
    struct str group;
    bool same; /* the baseline's own group: only its noise is told */
    int64_t seeds, base_seeds;
    struct estimate est;
    double p_holm;   /* over the primary metrics x recipes; NaN: exploratory or not estimable */
    const char *why; /* not estimable because... */
    enum verdict verdict;
    double sd; /* of seeds, pooled or borrowed; NaN: unknown */
    int64_t sd_df;
    struct str lender;  /* group whose sd was asked for; empty: none */
    int64_t lent_seeds; /* comparable seeds of it: below 2 there was nothing to borrow */
    double effect;      /* difference of the means */
    double mde;         /* that these numbers of seeds would show with 80% power; NaN: unknown */
    int64_t needed;     /* seeds an arm that would detect it; -1: more than 1000 */
};
struct compared_metric {
    struct str name, task;
    struct delta *delta;   /* nruns of them, in the order of the runs */
    struct recipe *recipe; /* nrecipes */
    size_t nrecipes;
    double *common; /* [nruns] values over the items that all comparable runs have a value for */
    double floor;   /* oracle bits per byte, of texts and ends; NaN: unknown */
};
struct compare_options {
    const char *baseline; /* name of a run; NULL: the first that was measured */
    const char *seed_sd;  /* group whose seed sd is borrowed; NULL: none */
    bool allow;
    bool first;          /* without a name the baseline is the first, measured or not */
    double level;        /* 0.95 */
    struct strs columns; /* of the table of runs; none: the usual ones */
};
struct comparison {
    const struct result *run;
    size_t nruns, baseline;
    struct compared_metric *metric;
    size_t nmetrics;
    size_t refused, compared; /* pairs */
    struct compare_options o;
    struct arena arena;
};

/* Where a recipe's sd is from, in words: "borrowed from base", "of base alone: new has 1 seed"; empty:
 * pooled over both arms. */
const char *compare_sd_source(const struct recipe *x, struct str base_group, struct arena *a);

/* Whether Holm's correction leaves the metric out: it is not primary, or counted as another. */
bool compare_exploratory(const struct comparison *c, const struct compared_metric *k);

int compare_runs(struct comparison *c, const struct result *runs, size_t n,
                 const struct compare_options *o, struct err *e);
void compare_release(struct comparison *c);

/* Text, Markdown or CSV for people; digits: after the point, -1: by the interval's width. */
int compare_print(const struct comparison *c, enum table_format f, int digits, struct buf *out,
                  struct err *e); /* fails if a column is unknown */
struct json *compare_json(const struct comparison *c);

/* Items without a value. */
int64_t compare_lacking(const struct metric *m);
/* The metric's value if all of them were worth least, or most; false: the unit has no borders. */
bool compare_range(const struct metric *m, double *lowest, double *highest, struct arena *a);
/* d again with every item that lacks a value at its worst for the run and at its best for the baseline. */
bool compare_worst(const struct delta *d, double level, struct delta *out, struct arena *a);

#endif
