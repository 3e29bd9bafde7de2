/* weights: the tensors of somebody's checkpoint under the names of our table (params.c).
 *
 * - Hugging Face: model.safetensors, or the files of model.safetensors.index.json; names with or
 *   without "transformer.";
 * - LLMs-from-scratch (Raschka; the reference series' models): safetensors with trf_blocks.N...;
 *   linear weights are [out, in], query, key and value apart;
 * - llm.c: one .bin file.
 * "module." and "_orig_mod." in front (wrappers of PyTorch) are dropped.
 */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include "base/err.h"
#include "formats/checkpoint.h"
#include "formats/llmc.h"

struct weights_piece {
    const char *name;          /* in the table; NULL: no tensor of a GPT-2 */
    const struct st_tensor *t; /* t->name: as the file says */
    const char *file;          /* it lies in; NULL: the one file of llm.c */
    bool out_in;               /* to be transposed */
    int part, parts;           /* its share of the outputs; 0 of 1 is all */
    bool ignored;              /* a buffer that is no weight: causal masks */
};
struct weights {
    struct weights_piece *v;
    size_t n;
    struct safetensors *files;
    size_t nfiles;
    struct llmc_model bin;
    struct arena arena;
    const char *path; /* for sentences */
};
/* path: as checkpoint_resolve gives it. */
int weights_open(struct weights *w, const char *path, struct err *e);
void weights_close(struct weights *w); /* accepts a zeroed one */
const struct weights_piece *weights_find(const struct weights *w, const char *name);
/* Does any piece's name end like this? */
bool weights_any(const struct weights *w, const char *tail);

#endif
