/* checkpoint: safetensors files, and the folder form of a model.
 *
 * safetensors (https://github.com/huggingface/safetensors): u64 length of a JSON header, the header
 * {"NAME": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {str: str}}, then the
 * bytes. Checked: header at most 100 MiB, offsets inside the file, without holes or overlap, size =
 * product of shape x dtype, at most 8 dimensions, no doubled name. Tensors are given in the order
 * of their bytes.
 *
 * A checkpoint folder {model.safetensors, config.json, optimizer.safetensors, state.msgpack,
 * manifest.json} has Hugging Face GPT-2 names, shapes ([in, out]) and config keys. It appears by
 * rename, so it is whole or absent.
 */
#ifndef FORMATS_CHECKPOINT_H
#define FORMATS_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/run.h"

enum st_dtype { ST_F32, ST_F16, ST_BF16, ST_F64, ST_I64, ST_I32, ST_U8, ST_BOOL, ST_OTHER };

struct st_tensor {
    const char *name;
    enum st_dtype dtype;
    int ndim;
    int64_t dim[8];
    const void *data; /* in the map */
    int64_t count;
    size_t bytes;
};
struct safetensors {
    struct file_map map;
    struct st_tensor *v;
    size_t n;
    struct json *header;
    struct arena arena;
    const char *path;
};
int safetensors_open(struct safetensors *s, const char *path, struct err *e);
const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name);
/* Metadata value or {NULL, 0}. */
struct str safetensors_meta(const struct safetensors *s, const char *key);
/* As float32, from F32, F16, BF16 or F64; count values are written. */
int st_to_f32(const struct st_tensor *t, float *out, struct err *e);
void safetensors_close(struct safetensors *s);

/* Writing: tensors are declared, then given in order. */
struct st_writer;
struct st_writer *safetensors_create(const char *path, struct err *e);
void safetensors_meta_set(struct st_writer *w, const char *key, const char *value);
void safetensors_declare(struct st_writer *w, const char *name, enum st_dtype t, int ndim,
                         const int64_t *dim);
/* The data of the next declared tensor; the header is written at the first. */
int safetensors_put(struct st_writer *w, const void *data, size_t bytes, struct err *e);
int safetensors_finish(struct st_writer *w, struct err *e); /* frees w in any case */
void safetensors_abort(struct st_writer *w);

/* config.json of the Hugging Face GPT-2 layout <-> model_config. Reads n_layer, n_head, n_embd,
 * n_positions (or n_ctx), n_inner, vocab_size, layer_norm_epsilon, *_pdrop, tie_word_embeddings,
 * activation_function (gelu_new, gelu_pytorch_tanh; others are refused). Writes those and
 * model_type, architectures, eos/bos ids (-1: left out) and "assay_qkv_bias". */
int hf_config_read(const char *dir, struct model_config *c, int64_t *eos, struct err *e);
int hf_config_write(const char *dir, const struct model_config *c, int64_t eos, struct err *e);

/* state.msgpack: what a resume needs beside weights and moments. O(1). */
struct train_state {
    int64_t step, tokens, updates, skipped, skipped_in_row;
    int64_t best_step;
    double best_loss, last_loss, interval_loss;
    int64_t interval_steps;
    double seconds;        /* volatile: training time so far */
    double energy_j;       /* volatile: joules of all devices so far; NaN: unknown */
    struct str config_key; /* SHA-256 of model and train options that must not change */
    struct str data_hash;
    double spike_mean_loss, spike_var_loss, spike_mean_norm, spike_var_norm;
    int64_t spike_n;
    double loss_scale; /* fp16: trainer/scaler.h; 0: none */
    int64_t loss_scale_good, overflows;
    struct str rest;
};
extern const struct schema train_state_schema;

/* DIR/latest or DIR itself, whichever is a checkpoint folder (has config.json, or the model.json of
 * LLMs-from-scratch); or a model file of llm.c itself. In the arena. */
const char *checkpoint_resolve(struct arena *a, const char *dir, struct err *e);
/* Hash of the vocabulary that the manifest of a checkpoint, of shards or of an export names: "vocab_hash"
 * or "vocab" of its facts. In the arena; empty: there is no manifest, or it does not say. */
struct str manifest_vocab(struct arena *a, const char *artefact);

#endif
