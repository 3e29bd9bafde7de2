/* panel: models judged together, in joint questions of a fixed number of answers, in passes.
 *
 * DIR holds panel.ini (the design, written by the first pass), passes.msgpack (who was judged when:
 * a journal of formats/verdict.h), answers/HASH.msgpack (copies of what was judged), verdicts.msgpack,
 * scores/PASS/NAME.msgpack and manifest.json. A panel changes no run, and needs none once it has judged
 * its answers: a run that was answered anew is a new version of its name, the old one keeps its
 * verdicts as NAME@HASH. (Of an anchor the new one is NAME@HASH: they stand in one question.)
 *
 * The first pass judges all models and chooses the anchors: those given, else the ones in the middle
 * by word overlap with the references, which costs nothing. The reference itself and an empty answer
 * are judged with them as sanity checks; they never link. A later pass asks about new models, the
 * anchors and at least 3 models of before, which show how far the judge has moved
 * (scoring/link.h). Scores of two passes are compared through their anchors only. A pass that is not
 * whole (a cap, a kill, too many failures) is finished before another begins, and links nothing.
 */
#ifndef PIPELINES_PANEL_H
#define PIPELINES_PANEL_H

#include <stdio.h>

#include "formats/verdict.h"
#include "pipelines/judge.h"
#include "scoring/link.h"

struct panel_config {
    struct str items, judge, prompt;
    struct strs anchors;
    int64_t size, anchor_count, seed, max_tokens, context;
    double temperature;
    bool sanity;
};

struct panel_job {
    const char *dir;
    const char *items;     /* NULL: panel.ini's */
    struct strs responses; /* may be empty: go on with the last pass, or only report */
    struct strs anchors;   /* first pass: names; empty: chosen */
    /* Of the design, as given: FIELD_NONE_I64 or NaN if it was not. Later passes must agree. */
    int64_t size;    /* answers beside the anchors; 0: all of them in one question */
    int64_t context; /* tokens of the judge's context; 0: what the model says, or no limit */
    int64_t seed, max_tokens;
    double temperature;
    struct str prompt;
    bool sanity;
    int64_t rejudge;     /* models of before to judge again in a pass with new ones; -1: all */
    struct str baseline; /* of the report */
    struct judge_job judge;
};
int panel_run(const struct panel_job *j, FILE *to, struct arena *a, struct err *e);

/* ---- panel_plan.c: who stands beside whom --------------------------------------------------- */

/* The middle ones by mean word overlap with the reference, `want` of them. */
void panel_choose_anchors(const struct judge_asker *g, size_t want, struct strs *names,
                          struct arena *a);
/* The questions of a pass: blocks of `size` beside the anchors. role[k] of entrant k. */
void panel_questions(struct judge_asker *g, const struct panel_pass *pass);
/* Tokens of the longest planned question with its verdict, 3 bytes a token. */
int64_t panel_longest(const struct judge_asker *g);

/* ---- panel_table.c: what the journal says --------------------------------------------------- */

struct panel_table {
    struct panel_pass *pass;
    size_t passes, models, items, anchors, judged; /* judged: values in all */
    struct str *model, *item,
        *group;                  /* names (an older version: NAME@HASH), ids, clusters ("": none) */
    int32_t **at;                /* [pass][place in the pass]: the model */
    int32_t *cluster;            /* [items] */
    bool *is_anchor, *is_sanity; /* [models] */
    int64_t **outcome;           /* [pass][outcome]: questions; NOT_RUN: not asked yet */
    bool *whole;                 /* [pass] */
    double *value, *d;           /* [pass][model][item]: raw, and less the anchors beside it; NaN */
    struct link_table link;
    struct arena arena;
};
int panel_passes(const char *dir, struct panel_pass **v, size_t *n, struct arena *a, struct err *e);
/* From DIR alone; items may be NULL (then each is its own cluster). A pass with unasked questions or a
 * larger share of failed ones than max_failed is not whole. */
int panel_table_load(struct panel_table *t, const char *dir, const struct items *items,
                     double max_failed, struct err *e);
void panel_table_release(struct panel_table *t);
double panel_at(const struct panel_table *t, const double *v, size_t pass, size_t model,
                size_t item);
/* The newest whole pass in which a model was judged, else the newest; -1: none. */
int32_t panel_newest(const struct panel_table *t, size_t model);

/* ---- panel_report.c ------------------------------------------------------------------------- */

/* A table to people: means, distance from the anchors, differences from the baseline; lo, hi: the
 * scale, for the bounds of what has no value. */
int panel_print(const struct panel_table *t, struct str baseline, double lo, double hi, FILE *to,
                struct err *e);
/* Scores of every pass and model, and facts. */
int panel_write(const struct panel_table *t, const char *dir, struct stage *st, struct arena *a,
                struct err *e);

#endif
