/* checkpoint_io: a model <-> a checkpoint folder (formats/checkpoint.h has the layout).
 *
 * Loading is gpt2_load() and gpt2_config_of() of gpt2.h. A folder is built beside its place and
 * renamed, so it is whole or absent. Weights that are not finite are never written.
 */
#ifndef TRAINER_CHECKPOINT_IO_H
#define TRAINER_CHECKPOINT_IO_H

#include "formats/checkpoint.h"
#include "trainer/gpt2.h"

/* model.safetensors and config.json of the model into an existing folder. eos -1: not said. */
int checkpoint_put_model(const char *dir, struct gpt2 *m, int64_t eos, struct err *e);

/* For the manifest: what decided the weights; the same in words (may be NULL, copied); the hash of the
 * vocabulary whose ids the model was trained on (empty: not known). */
struct checkpoint_made {
    const char *by;
    const struct json *options;
    struct str vocab_hash;
};
/* The whole folder `dir` (replacing nothing: it must not be there). state NULL: weights only, no
 * moments. */
int checkpoint_save(const char *dir, struct gpt2 *m, int64_t eos, const struct train_state *state,
                    const struct checkpoint_made *made, struct err *e);
/* How the options that checkpoint `dir` was made with differ from these: "train.lr was 0.01, is
 * 0.5", the first few; empty when it does not know. */
void checkpoint_differs(const char *dir, const struct json *options, char *out, size_t n);
/* Moments of optimizer.safetensors; their names are the weights' with ".m" and ".v" behind. */
int checkpoint_load_moments(const char *dir, struct gpt2 *m, struct err *e);
/* The same, each into `flat` [params count] on the host; take() gets them in turn: 'm', 'v'. */
typedef int checkpoint_take_fn(void *ctx, char which, float *flat, struct err *e);
int checkpoint_read_moments(const char *dir, const struct gpt2 *m, checkpoint_take_fn *take,
                            void *ctx, struct err *e);

/* Removes a folder so that no half of it is ever seen under its name. */
int checkpoint_remove(const char *dir, struct err *e);
/* Removes what killed writers and removers left in a folder of checkpoints. */
int checkpoint_sweep(const char *parent, struct err *e);

#endif
