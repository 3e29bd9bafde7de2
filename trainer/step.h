/* step: what pre-training and fine-tuning share of a step, whatever its rows are: the device of a rank,
 * how many sequences go at once, gradients of this rank's part, what ranks then agree on, fp16's scale.
 *
 * Gradients are sums over the valid targets of the global batch: `valid` is counted over all ranks
 * before anybody computes, never by part.
 */
#ifndef TRAINER_STEP_H
#define TRAINER_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/metrics.h"
#include "trainer/ranks.h"
#include "trainer/scaler.h"

/* Most sequences of a batch that one rank takes. */
int64_t step_share(const struct ranks *r, int64_t batch);
/* Threads of this rank: as told, or its part of the machine's cores; 0: all. */
int64_t step_threads(const struct ranks *r, int64_t told);
/* Opens this rank's device, which must compute in the precision that key says. name: auto, cpu, cuda. */
int step_backend(struct backend *b, const struct ranks *r, const char *name, int64_t threads,
                 int precision, const char *key, struct err *e);

/* Sequences of use->length at once, of `most` in a step: `told` (up to a multiple of the grain), or when
 * that is 0 the most that fit free_bytes (-1: unknown) beside the backend's scratch, no more than the
 * device prefers in a pass. use->batch is not read. -1 and e if not even one fits. */
int64_t step_micro(const struct model_config *m, const struct gpt2_use *use, int64_t most,
                   int64_t told, int64_t free_bytes, struct err *e);
/* Sequences that reach this many rows, one at least. */
int64_t step_sequences(int64_t rows, int64_t length);

/* This rank's rows of a global batch. */
struct step_rows {
    const int32_t *ids, *targets; /* [n * T] */
    const uint64_t *seq;          /* [n] */
    int64_t n, T;
    int64_t valid; /* targets of the whole batch, on all ranks */
    uint64_t seed, step;
    double loss_scale; /* 0: none */
};
/* Zeroes the gradients and adds those of the rows, micro-batch by micro-batch; *sum gets the sum of
 * their losses. loss: room for [micro * T]. 1: alone, and a signal came between two of them. */
int step_gradients(struct gpt2 *m, struct ranks *r, const struct step_rows *b, int64_t micro,
                   float *loss, double *sum, struct err *e);
/* Behind it: gradients become those of all ranks, s->loss their sum, s->stop what any raised. With one
 * rank nothing happens. */
int step_agree(struct ranks *r, struct ranks_step *s, bool first, struct err *e);

/* fp16 (k->scale above 0), behind the update: fills r->loss_scale and moves the scale. True when the
 * step was left out because its gradients were scaled beyond what the format holds; what the least
 * scale does not help, and a loss (r->loss) that is no number, is the caller's. */
bool step_overflowed(struct scaler *k, double norm, int64_t grow_after, struct metrics_row *r);

#endif
