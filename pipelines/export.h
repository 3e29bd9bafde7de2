/* export: results to the trackers that teams already have.
 *
 * What goes out of a result is one list of points and texts (export_flatten), so that every tracker gets
 * the same names: train/loss, train/lr, train/norm, train/tokens, train/seconds by step; eval/TASK/METRIC and its
 * interval _lo, _hi, cost/..., time/... at the last step; parameters are the run file's keys.
 */
#ifndef PIPELINES_EXPORT_H
#define PIPELINES_EXPORT_H

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "formats/result.h"

struct clock;

struct point {
    const char *key;
    double value; /* may be NaN or infinite */
    int64_t step;
    double wall; /* seconds since 1970; the same on every export */
};
struct flat {
    struct point *v;
    size_t n;
    struct strs param, value; /* section.key and its text */
    struct strs tag, tag_value;
    double start;  /* of the run, in seconds since 1970; 0: unknown */
    char hash[65]; /* SHA-256 of points and parameters */
};
/* In the arena. Points are ordered by key, then step. */
void export_flatten(struct flat *f, const struct result *r, struct arena *a);
/* "2026-11-30T09:40:31Z" as seconds since 1970; NaN if it is none. */
double export_time(struct str iso);

/* DIR/RUN/events.out.tfevents.assay, whole, in place of an older one of this run; one of another run (begun
 * at another time, of another group or seed) is refused unless `replace`. The format of TensorBoard's event
 * files: TFRecord framing (lengths and data with masked CRC-32C) around protobuf `Event` messages. */
int export_tensorboard(const struct result *r, const char *dir, bool replace, struct err *e);

struct mlflow_job {
    const char *url, *experiment;
    const char *report;  /* file that becomes the artefact report.html; NULL: none */
    struct clock *clock; /* NULL: the system's */
};
/* One MLflow run for each result, found again by its tag assay.run. Unchanged points are never sent twice;
 * a run whose points or parameters changed is deleted (it stays restorable) and made anew. files[i]:
 * the result file, an artefact as well. EXIT_INCOMPLETE in e->code: run it again, it goes on. */
int export_mlflow(const struct mlflow_job *j, const struct result *v, const char *const *files,
                  size_t n, FILE *to, struct err *e);

#endif
