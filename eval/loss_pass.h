/* loss_pass: sequences through the model for eval/loss.c: queues, the ranks' shares, what is kept.
 *
 * Rows wait in one queue for each padded length; a full queue is one forward pass. Units are summed
 * when all is done, in order of rows, so the batch never shows. A pass whose rows are all kept from
 * a run before this one is left out; the others are computed whole, so that every pass has the same
 * rows at the same places as in a run that was never killed.
 */
#ifndef EVAL_LOSS_PASS_H
#define EVAL_LOSS_PASS_H

#include "base/log.h"
#include "eval/loss.h"

struct pass_queue;
/* Sum of a row; added to its unit at the end, so the order of flushes never shows. */
struct row_sum {
    size_t unit;
    int64_t end; /* position whose target is a document's closing EOT; -1: none */
    double nats, nats_end;
};
struct pass {
    struct gpt2 *m;
    int64_t batch, most;  /* most: longest T */
    struct pass_queue *q; /* one for each multiple of 32 */
    int64_t nq;
    float *loss;
    struct row_sum *sum;
    size_t nsums, sums_cap;
    struct loss_units *units;
    int rank, world;
    struct progress *progress; /* NULL: none; of targets */
    double done;
};

void pass_init(struct pass *p, struct gpt2 *m, int64_t most, struct loss_units *units);
void pass_release(struct pass *p); /* accepts a zeroed one */
/* Queues n positions: x[n], targets y[n] with those before `from` not counted and the one at `end`
 * (-1: none) summed apart. */
int pass_row(struct pass *p, size_t unit, const int32_t *x, const int32_t *y, int64_t n,
             int64_t from, int64_t end, struct err *e);
/* Runs what still waits and gives the units their sums. */
int pass_finish(struct pass *p, struct err *e);

#endif
