/* runs_table: results as rows, with the columns that are asked for. */
#ifndef PIPELINES_RUNS_TABLE_H
#define PIPELINES_RUNS_TABLE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "formats/result.h"
#include "pipelines/table.h"

/* Names without commas out of words with or without: "a,b" "c" is a, b, c. */
struct strs listed_names(struct strs words, struct arena *a);

/* The table everyone wants first. */
void runs_table(const struct result *v, size_t n, enum table_format f, const char *indent,
                struct buf *out);
/* A column a field (pipelines/query.h), behind the run's name. digits: after the point, -1: four
 * figures. CSV has full precision, also in the usual columns. */
int runs_table_columns(const struct result *v, size_t n, struct strs columns, int digits,
                       enum table_format f, const char *indent, struct buf *out, struct err *e);
/* The columns' values as [{"run": ..., COLUMN: ...}]; without columns the heads of the results. */
int runs_json(const struct result *v, size_t n, struct strs columns, struct json **out,
              struct err *e);

/* Short texts for people, in the arena; unknown is "-". */
const char *show_count(struct arena *a, double v);   /* 3.2G, 10.1k, 512 */
const char *show_seconds(struct arena *a, double s); /* 4.1 h, 12.3 min, 82 s */
const char *show_str(struct arena *a, struct str s);
const char *show_cost(struct arena *a, double v, const struct result *r); /* 39.86 USD */
const char *show_p(struct arena *a, double p);                            /* 0.0123, <0.0001 */
const char *show_machine(struct arena *a, const struct result *r);

#endif
