/* train: pre-training, from token shards to a folder of checkpoints.
 *
 * The result is decided by [model], [train] (without threads, micro_batch, backend, keep,
 * max_hours, ranks, comm, zero) and the shards' hash; these make the key. A folder with a manifest of that key is up
 * to date; one with checkpoints of that key goes on from the newest; one of another key is put aside
 * with a sentence and removed when this one has its first checkpoint. A resumed run is bit-equal to a straight one with as many ranks; with others it is
 * the same but for rounding. Ranks read the same steps, each its part of the sequences.
 */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/run.h"
#include "trainer/gpt2.h"
#include "trainer/rendezvous.h"

struct train_options {
    const struct run *run; /* [model] and [train] are read */
    const char *shards, *out;
    bool resume; /* insist: an error if there is nothing to resume, or it is of another key */
    const struct hardware *hardware;    /* what segments.jsonl says of the machine; may be NULL */
    const struct rendezvous_seat *seat; /* of a launched rank; NULL: by the environment */
};
/* EXIT_DONE; or -1: EXIT_INCOMPLETE in e->code when interrupted or out of hours, behind a whole
 * checkpoint. The flag of base/thread.h is read once a step. Ranks but 0 return the status alone when
 * rank 0 says why. */
int train_run(const struct train_options *o, struct err *e);

/* Refuses (usage) options that do not go together. */
int train_config_check(const struct train_config *c, struct err *e);

/* Tokens that a run trains on, whole steps; -1 and e if train.tokens says none. The model must be
 * whole (vocab set) when tokens are given in parameters. */
int64_t train_tokens(const struct model_config *m, const struct train_config *c, struct err *e);

/* What the model is opened for with `micro` sequences at once, on a device that prefers this. */
struct gpt2_use train_use(const struct model_config *m, const struct train_config *c,
                          const struct backend_prefers *prefers, int64_t micro);
/* Sequences at once: c->micro_batch (up to a multiple of the use's grain), or when that is 0 the most that fit free_bytes (-1: unknown),
 * beside the backend's scratch, no more than the device prefers in a pass. -1 and e if not even one fits. */
int64_t train_micro_batch(const struct model_config *m, const struct train_config *c,
                          int64_t free_bytes, const struct backend_prefers *prefers, struct err *e);

#endif
