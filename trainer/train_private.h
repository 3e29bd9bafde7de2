/* train_private: one run of train_run(), shared by train.c, train_open.c, train_ranks.c and train_end.c. */
#ifndef TRAINER_TRAIN_PRIVATE_H
#define TRAINER_TRAIN_PRIVATE_H

#include "base/file.h"
#include "base/log.h"
#include "formats/checkpoint.h"
#include "formats/manifest.h"
#include "formats/shard.h"
#include "trainer/gpt2.h"
#include "trainer/loader.h"
#include "trainer/metrics.h"
#include "trainer/ranks.h"
#include "trainer/telemetry.h"
#include "trainer/train.h"

struct trainer {
    const struct train_options *o;
    struct model_config model; /* vocab resolved */
    struct train_config c;
    struct arena arena;
    struct stage stage;
    struct file_lock lock;
    struct tokens tokens, val;
    struct backend backend;
    struct gpt2 *m;
    struct loader *loader;
    struct metrics metrics;
    struct telemetry telemetry;
    struct progress bar;
    struct train_state state;
    char key[SHA256_HEX];
    int64_t steps, micro, val_windows, val_step; /* val_step: that val_loss was measured at */
    double val_loss, begun, counted;             /* counted: clock up to which state.seconds runs */
    float *loss;                                 /* [micro * context] */
    bool interrupted;
    int64_t finite_step; /* the last whose loss was a number: weights before it were good */
    struct ranks ranks;
    int stop; /* of several ranks: enum stop bits that any of them raised in this step */
};
enum stop { STOP_SIGNAL = 1, STOP_HOURS = 2 };

bool train_out_of_hours(const struct trainer *t);

/* Before the first step (trainer/train_open.c). */
int train_prepare(struct trainer *t, struct err *e); /* options, shards, the key */
int train_open_model(struct trainer *t, struct err *e);
/* On rank 0, under the lock: a run that was put aside for one that came to nothing is back. */
int train_settle(struct trainer *t, struct err *e);
/* On rank 0: 1 goes on from a checkpoint, 0 afresh, -1 error. */
int train_start(struct trainer *t, struct err *e);
/* Which machine makes the steps from here on. Called while the journal still has the steps behind the
 * checkpoint, which a kill took. */
int train_begin_segment(struct trainer *t, const char *journal, struct err *e);

/* Of several ranks (trainer/train_ranks.c); with one they do nothing. */
int train_same(struct trainer *t,
               struct err *e); /* options, data and program are the same on all */
/* Rank 0 has weights and state, from a checkpoint (resumed) or fresh: now all have, and moments. */
int train_spread(struct trainer *t, int resumed, struct err *e);
/* Behind the last backward pass of a step: gradients are sums, loss the sum of all ranks, stalled the
 * most of any. */
int train_step_agreed(struct trainer *t, double *loss, double *stalled, struct err *e);
/* Before a checkpoint: weights are equal, energy is all ranks'. Ranks but 0 do their part of it. */
int train_checkpoint_agreed(struct trainer *t, double *energy, struct err *e);

/* Writes the checkpoint of t->state.step, moves the links, prunes. */
int train_checkpoint(struct trainer *t, struct err *e);
/* Mean loss over the validation windows into t->val_loss. */
int train_validate(struct trainer *t, struct err *e);
/* The manifest, from the metrics of the whole run. */
int train_finish(struct trainer *t, struct err *e);

#endif
