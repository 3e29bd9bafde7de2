/* result: one run folder collected into one struct result. */
#ifndef PIPELINES_RESULT_H
#define PIPELINES_RESULT_H

#include "base/err.h"
#include "base/mem.h"
#include "formats/manifest.h"
#include "formats/result.h"

/* Reads run.ini, the manifests, metrics.jsonl, loss units and scores below `dir`; `data_dir` is the
 * run folder that data, vocabulary and shards come from ("" = dir). Everything it reads is added to
 * the stage as an input. Strings live in the arena. */
int result_collect(struct result *r, const char *dir, const struct hardware *hw, struct stage *st,
                   struct arena *a, struct err *e);

/* The machine, from the system: CPU, cores, memory, kernel. */
void result_machine(struct result_hardware *h, struct arena *a);
/* Commit, compiler, libraries of this binary. */
void result_software(struct result_software *s, struct arena *a);

/* Metrics of one evaluation (pipelines/result_metrics.c). */
struct metrics {
    struct metric *v;
    size_t n;
    struct arena *a;
};
/* Loss units: nll_token for windows; bits_byte, excess_bits_byte and bits_end for documents. */
int metrics_add_loss(struct metrics *m, const char *task, const char *path, struct err *e);
/* Scores of k fine-tuning seeds: one metric whose per-item values are means over the seeds. An item
 * without a value in any seed is invalid: it is counted and its value is NaN. */
int metrics_add_scores(struct metrics *m, const char *name, const char *task, struct strs paths,
                       const char *const *items, struct err *e);
/* Choices of one task: acc and its norms, or for items with one choice acc_greedy and nats_answer.
 * responses and items: as `assay eval --task choice` left them. */
int metrics_add_choice(struct metrics *m, const char *task, const char *responses,
                       const char *items, struct err *e);
/* Value, interval, counts from the per-unit values. */
void metric_finish(struct metric *m, struct arena *a);

#endif
