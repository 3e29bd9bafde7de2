/* export: a checkpoint in other people's layouts.
 *
 * hf: a folder that transformers loads: model.safetensors, config.json, and with a vocabulary
 * tokenizer.json and tokenizer_config.json. gguf: one file for llama.cpp, float32; needs the
 * vocabulary. Rows of padding behind the vocabulary become unused tokens.
 */
#ifndef EVAL_EXPORT_H
#define EVAL_EXPORT_H

#include "base/err.h"
#include "eval/local.h"

enum export_format { EXPORT_HF, EXPORT_GGUF };
struct export_job {
    const char *model, *vocab, *out; /* vocab NULL: the folder's, if there is one */
    int format;                      /* enum export_format */
};
int export_model(const struct export_job *j, struct arena *a, struct err *e);

/* eval/export_gguf.c */
int export_gguf(const struct local_model *l, const struct vocab *v, const char *name,
                const char *path, struct err *e);

#endif
