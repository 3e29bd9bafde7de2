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

/* The whole folder `dir` (replacing nothing: it must not be there). state NULL: weights only, no
 * moments. key: what decided the weights, for the manifest. */
int checkpoint_save(const char *dir, struct gpt2 *m, int64_t eos, const struct train_state *state,
                    const char *key, struct err *e);
/* Moments of optimizer.safetensors; their names are the weights' with ".m" and ".v" behind. */
int checkpoint_load_moments(const char *dir, struct gpt2 *m, struct err *e);

/* Removes a folder so that no half of it is ever seen under its name. */
int checkpoint_remove(const char *dir, struct err *e);
/* Removes what killed writers and removers left in a folder of checkpoints. */
int checkpoint_sweep(const char *parent, struct err *e);

#endif
