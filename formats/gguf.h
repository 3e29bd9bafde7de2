/* gguf: writing GGUF version 3, the model file of llama.cpp (github.com/ggml-org/ggml, docs/gguf.md).
 *
 * "GGUF", u32 version, u64 tensors, u64 key-values; key-values (string, type, value); tensors (name,
 * u32 dimensions, u64 each with the fastest first, type, offset); padding; data, each tensor at a
 * multiple of 32. All tensors here are float32.
 */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

struct gguf {
    struct buf meta, tensors;     /* key-values and tensor headers so far */
    uint64_t nmeta, ntensors, at; /* at: bytes of data declared */
    struct file_out out;
    uint64_t given;
};
void gguf_str(struct gguf *g, const char *key, struct str v);
void gguf_u32(struct gguf *g, const char *key, uint32_t v);
void gguf_f32(struct gguf *g, const char *key, float v);
void gguf_bool(struct gguf *g, const char *key, bool v);
void gguf_strs(struct gguf *g, const char *key, struct strs v);
void gguf_i32s(struct gguf *g, const char *key, const int32_t *v, size_t n);

/* A float32 tensor of rows x cols, row by row; cols 0: a vector of `rows`. */
void gguf_tensor(struct gguf *g, const char *name, int64_t rows, int64_t cols);
/* After all are declared: the head, then each tensor's data in that order. */
int gguf_create(struct gguf *g, const char *path, struct err *e);
int gguf_put(struct gguf *g, const float *v, int64_t n, struct err *e);
int gguf_commit(struct gguf *g, struct err *e);
void gguf_release(struct gguf *g); /* accepts a zeroed one; without commit no file appears */

#endif
