/* llmc: model files of llm.c (github.com/karpathy/llm.c, train_gpt2.py write_model and
 * train_gpt2.cu gpt2_write_to_checkpoint).
 *
 * 256 int32: magic 20240326, version (3: float32, 5: bfloat16), most positions, vocabulary, layers,
 * heads, width, rows of the padded token embedding; then 16 tensors, each of all layers in a row.
 * Matrices of linear layers are [out, in]. The head is the token embedding. The size must fit to
 * the byte.
 */
#ifndef FORMATS_LLMC_H
#define FORMATS_LLMC_H

#include "base/err.h"
#include "formats/checkpoint.h"

/* Is this file's magic that of a model? Any other, or none: false. */
bool llmc_is_model(const char *path);

struct llmc_model {
    struct file_map map;
    struct model_config config;
    struct st_tensor *v; /* one a layer; Hugging Face names, padding rows left out */
    size_t n;
    struct arena arena;
};
int llmc_model_open(struct llmc_model *m, const char *path, struct err *e);
void llmc_model_close(struct llmc_model *m); /* accepts a zeroed one */

#endif
