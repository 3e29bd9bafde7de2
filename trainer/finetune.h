/* finetune: instruction fine-tuning of a checkpoint on example shards.
 *
 * Reads [finetune] of the run file, what [train] says of the machine (backend, threads, ranks, comm,
 * zero, recompute, loss_scale_every), DIR/train.bin and DIR/val.bin (`assay shard --instruct`), and
 * writes OUT/checkpoint/ (weights of the epoch with the lowest validation loss), OUT/latest ->
 * checkpoint, OUT/metrics.jsonl and OUT/manifest.json. A run that was cut starts over and ends with
 * the same bytes.
 *
 * A batch is padded to its longest example; padding is no target and, attention being causal, no
 * context either. An epoch is a seeded permutation of all examples, the last batch as small as it
 * comes out: a step's loss is the mean over its valid targets. Validation is the mean over all
 * valid targets of all validation examples, after each epoch. It stops after `patience` epochs
 * without a better one, and puts the best epoch's weights back from a copy made then.
 *
 * Ranks read the same batches in the same order, each its part of the examples. The targets that a
 * step's loss is the mean of are counted over the whole batch by every rank, so a rank whose answers
 * are short weighs no more than one whose are long.
 */
#ifndef TRAINER_FINETUNE_H
#define TRAINER_FINETUNE_H

#include "base/err.h"
#include "formats/run.h"
#include "formats/shard.h"
#include "trainer/rendezvous.h"

struct finetune_options {
    const struct run *run;
    const char *init, *examples, *out;
    int64_t seed;                       /* -1: finetune.seed */
    const struct rendezvous_seat *seat; /* of a launched rank; NULL: by the environment */
};
/* EXIT_DONE; or -1, with EXIT_INCOMPLETE in e->code when interrupted. Ranks but 0 return the status alone
 * when rank 0 says why. */
int finetune_run(const struct finetune_options *o, struct err *e);

/* ---- examples as padded batches: pure, for the loop and its tests ---- */

struct example_set {
    const struct examples *x;
    int64_t *kept; /* examples that are trained on, by their number in the file */
    int64_t n;
    int64_t dropped, empty; /* longer than the limit; without a target */
    int64_t longest;        /* ids of the longest kept one */
    bool mask_prompt;
};
/* Sorts out what cannot be trained on. limit: most ids of an example. */
int example_set_make(struct example_set *s, const struct examples *x, int64_t limit, int64_t vocab,
                     bool mask_prompt, const char *path, struct err *e);
void example_set_release(struct example_set *s);
/* Rows which[0..B) of kept: T = longest - 1 of them. Returns the valid targets. */
int64_t example_shape(const struct example_set *s, const int64_t *which, int64_t B, int64_t *T);
/* The rows padded to T: ids and targets [B * T], seq [B] their numbers in the file. */
void example_fill(const struct example_set *s, const int64_t *which, int64_t B, int64_t T,
                  int32_t *ids, int32_t *targets, uint64_t *seq);

#endif
