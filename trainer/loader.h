/* loader: the training data in an order that does not depend on the machine.
 *
 * The split is cut into disjoint windows: window w is tokens [w*T, w*T + T], T inputs and T targets
 * (the last target is the first token of the next window), so a split of n tokens has (n - 1) / T of
 * them. Sequence g = (step - 1) * batch + i of a run is window g % windows of epoch g / windows,
 * through a keyed permutation of that epoch when shuffled. So step s of seed k reads the same
 * sequences whatever the micro-batch, threads or ranks, and the state is the step alone. A rank
 * touches its own rows only: no page of the others' is read.
 * A thread reads ahead; time spent waiting for it is counted.
 */
#ifndef TRAINER_LOADER_H
#define TRAINER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/shard.h"

struct loader_options {
    int64_t batch, context, vocab; /* vocab: ids at or above are an error */
    int64_t lo, hi;                /* rows [lo, hi) of each batch are read, no others */
    int64_t first_step, last_step; /* steps counted from 1; inclusive */
    uint64_t seed;
    bool shuffle;
};
/* Rows of one global batch; valid until the next loader_next. */
struct loader_batch {
    int64_t step, n;              /* n: hi - lo; 0 where a batch has fewer rows than ranks */
    const int32_t *ids, *targets; /* [n * context] */
    const uint64_t *seq;          /* [n]: g, never the same twice in a run */
};
struct loader;

/* t is borrowed and must outlive the loader. A split without one whole window is an error. */
struct loader *loader_open(const struct tokens *t, const struct loader_options *o, struct err *e);
/* 1 got, 0 behind last_step, -1 error (again at each later call). */
int loader_next(struct loader *l, struct loader_batch *out, struct err *e);
int64_t loader_read(struct loader *l);         /* tokens taken out of the shards so far */
double loader_stalled(const struct loader *l); /* seconds loader_next has waited so far */
void loader_close(struct loader *l);           /* NULL is fine */

int64_t loader_windows(int64_t tokens, int64_t context);
/* Window of sequence g. */
int64_t loader_window(const struct loader_options *o, int64_t windows, int64_t g);

#endif
