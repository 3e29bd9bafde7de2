/* result_collect: what the files that collect one run share. Others include result.h. */
#ifndef PIPELINES_RESULT_COLLECT_H
#define PIPELINES_RESULT_COLLECT_H

#include "base/buf.h"
#include "base/json.h"
#include "pipelines/result.h"

struct collector {
    struct result *r;
    const char *dir, *data_dir;
    struct stage *st;
    struct arena *a;
    double eval_seconds;
    struct str backend, device; /* that trained; empty: not told */
    int64_t ranks;
    struct buf missing; /* names of artefacts that the run file asks for and the folder lacks */
};

/* Notes an artefact that the run file asks for and the folder lacks. */
void collect_missing(struct collector *c, const char *name);
/* A path in the run folder. */
const char *collect_path(struct collector *c, const char *name);
/* The manifest of an artefact, registered as an input of the result. */
struct json *collect_manifest(struct collector *c, const char *artefact, struct err *e);
/* Whether an artefact, a path in the run folder, was made from a training or another artefact of the run
 * that is no longer there: that is said, and it belongs in no result. */
bool collect_stale(struct collector *c, const char *artefact);
/* A number of a manifest, volatile or not; NaN: it has none. */
double collect_fact(const struct json *m, const char *name);

/* The thinned curve of the training in `dir`. */
int collect_curve(struct collector *c, const char *dir, struct err *e);
/* Losses, choices, scores and verdicts. */
int collect_metrics(struct collector *c, struct err *e);

#endif
