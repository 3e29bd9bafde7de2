/* judge: a judging: who is asked what (single, joint, pairwise), and the scores and summary in the
 * end. The loop is pipelines/judge_ask.h, panels are pipelines/panel.h.
 *
 * DIR/verdicts.msgpack is the journal (formats/verdict.h). When every question was asked and no more
 * than max_failed of them have no verdict, there appear, and then DIR/manifest.json:
 *   one answer to each item, single:  DIR/scores.msgpack, in the order of the items
 *   several entrants:                 DIR/scores/NAME.msgpack each
 *   pairwise:                         DIR/scores/A-vs-B.msgpack: 1 if A's answer is better, 0 if B's,
 *                                     0.5 a tie; the mean of both orders, no value if one is missing
 */
#ifndef PIPELINES_JUDGE_H
#define PIPELINES_JUDGE_H

#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/manifest.h"
#include "pipelines/judge_ask.h"
#include "scoring/agreement.h"

enum judge_json { JSON_AUTO, JSON_ASK, JSON_FREE }; /* auto: by schema where it is needed: joint */
enum judge_pairs { PAIRS_BASELINE, PAIRS_ALL };

struct judge_job {
    const char *items, *out;      /* out: DIR */
    struct strs responses;        /* FILE or NAME=FILE */
    const char *labels;           /* pairs labelled by people: measures the judge; else NULL */
    struct judge_config c;        /* c.judge and c.prompt too */
    enum judge_protocol protocol; /* its default prompt, if c.prompt is empty */
    bool exact_tokens;
    enum judge_json structured;
    int64_t asks;   /* of one question, while its verdict can't be parsed */
    int64_t repeat; /* times everything is judged */
    enum judge_pairs pairs;
    struct str baseline; /* pairwise: an entrant; empty: the first */
    bool dry;            /* only say what would be asked */
    struct judge_caps caps;
    const struct price *price; /* NULL: unknown */
    struct clock *clock;       /* NULL: system */
};
/* The summary goes to `to`. EXIT_INCOMPLETE with a sentence: a cap, an interrupt, a judge that is
 * not there, or too many failures; what is judged is kept. */
int judge_run(const struct judge_job *j, FILE *to, struct arena *a, struct err *e);
/* The default prompt of a protocol. */
const char *judge_default_prompt(enum judge_protocol p);
/* Takes what a job says about the judge into a fresh asker. */
void judge_asker_init(struct judge_asker *g, const struct judge_job *j);

/* ---- judge_plan.c: who is asked what -------------------------------------------------------- */

/* Questions that many models' answers are shown in, in an order seeded by the item. */
void judge_plan(struct judge_asker *g, const struct judge_job *j);
void judge_shuffle(const struct judge_asker *g, int32_t item, int32_t *who, int32_t n);
/* Pair k of a job: its two entrants; false: there are no more. */
bool judge_pair(const struct judge_asker *g, const struct judge_job *j, size_t k, int32_t pair[2]);
int judge_plan_check(const struct judge_asker *g, const struct judge_job *j, struct err *e);

/* ---- judge_report.c: what came of it -------------------------------------------------------- */

/* One score an item, in their order, borrowed until fn returns (-1 ends it). */
typedef int judge_score_fn(void *ctx, int32_t item, const struct score *s, struct err *e);
/* Of entrant k: the mean over its verdicts. noise may be NULL. */
int judge_each(const struct judge_asker *g, int32_t k, judge_score_fn *fn, void *ctx,
               struct agree_noise *noise, struct err *e);
/* Of a pair; and what happened when the orders were swapped (may be NULL). */
struct judge_swaps {
    int64_t both, flips, ties; /* items with both orders; that name another winner; with a tie */
    int64_t first, decided;    /* verdicts for the answer shown first, of those that are no tie */
};
int judge_each_pair(const struct judge_asker *g, const int32_t pair[2], judge_score_fn *fn,
                    void *ctx, struct judge_swaps *swaps, struct err *e);
/* Summaries to `to`, facts and scores into the stage. */
int judge_print(const struct judge_asker *g, const struct judge_job *j, FILE *to, struct err *e);
int judge_write(const struct judge_asker *g, const struct judge_job *j, struct stage *st,
                struct arena *a, struct err *e);
int judge_save_scores(const struct score *v, size_t n, const char *path, struct err *e);

/* ---- judge_labels.c: a judge against people ------------------------------------------------- */

/* Rows {"instruction", "input"?, "output"?, "a", "b", "label": "a" | "b" | "tie"} of a JSON array or
 * JSONL as items and two entrants, a and b; label[i]: 1, 0, 0.5. */
int judge_labels_load(struct judge_asker *g, const char *path, double **label, struct arena *a,
                      struct err *e);
/* How often the judge agrees with the people, into `to` and a fact. */
struct json *judge_labels_report(const struct judge_asker *g, const double *label, FILE *to);

#endif
