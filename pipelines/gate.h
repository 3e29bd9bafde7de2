/* gate: whether candidates may pass, by rules that were written down before. docs/gate.md.
 *
 * A rule, one a line, # starts a remark:
 *   METRIC[/TASK] not_worse_by MARGIN at LEVEL [over items|seeds]
 *   METRIC[/TASK] not_significantly_worse at LEVEL [over items|seeds]
 * MARGIN is in the metric's unit, or with % a share of the baseline's value. LEVEL is one-sided.
 *
 * "Worsening" is the difference in the bad direction. not_worse_by passes only when its upper bound
 * is below the margin and fails only when its lower bound is above it; not_significantly_worse fails
 * only when the lower bound is above 0. In between and where nothing is estimable it is undecided.
 * `looks` divides 1 - LEVEL: looking at ten checkpoints is asking ten times.
 */
#ifndef PIPELINES_GATE_H
#define PIPELINES_GATE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/result.h"
#include "pipelines/table.h"

enum gate_kind { GATE_MARGIN, GATE_SIGNIFICANT };
enum gate_over { GATE_ITEMS, GATE_SEEDS };
struct gate_rule {
    struct str text, metric, task; /* task empty: the first metric of that name */
    enum gate_kind kind;
    enum gate_over over;
    double margin, level;
    bool relative; /* margin is a share of the baseline's value */
};
int gate_rule_parse(struct gate_rule *r, struct str text, struct arena *a, struct err *e);
/* A file of rules; at least one. */
int gate_rules_load(struct gate_rule **rules, size_t *n, const char *path, struct arena *a,
                    struct err *e);

enum gate_outcome { GATE_PASS, GATE_FAIL, GATE_UNDECIDED };
extern const char *const gate_outcome_names[];

/* One rule on one candidate; over seeds on all candidates as one arm. */
struct gate_check {
    const struct gate_rule *rule;
    struct str candidate; /* its name, or "3 runs" */
    enum gate_outcome outcome;
    double worsening, lo, hi; /* one-sided bounds at 1 - alpha each; NaN: unknown */
    double margin, alpha;     /* margin in the metric's unit */
    int64_t n, needed;        /* items or seeds an arm: now, and to settle it; 0: unknown */
    const char *why;          /* a sentence */
};
struct gate {
    struct gate_check *v;
    size_t n;
    struct strs baseline; /* names */
    struct arena arena;
};
/* baseline: runs of the baseline (over items the first is the one). looks: as planned; 0: over items
 * one a candidate, over seeds one. Over seeds an arm of several groups is refused: their spread would
 * be the recipes', not the seeds'. */
int gate_run(struct gate *g, const struct gate_rule *rules, size_t nrules,
             const struct result *baseline, size_t nbaseline, const struct result *candidate,
             size_t ncandidates, int64_t looks, struct err *e);
void gate_release(struct gate *g);

/* Above it is worse: the margin, or 0. */
double gate_limit(const struct gate_check *k);
/* A number as its sentences show it, with a sign. */
const char *gate_number(struct arena *a, double v);
void gate_print(const struct gate *g, enum table_format f, struct buf *out);
struct json *gate_json(const struct gate *g);

#endif
