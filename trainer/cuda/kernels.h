/* kernels: the launchers of the .cu files, as C sees them. Each queues work on a stream and returns
 * what the launch said; what kernels find wrong later is in the fault record.
 *
 * Pointers are device memory. `type` is that of activations (f32, bf16, f16); parameters, their
 * gradients, statistics and losses are f32 always. Shapes as in trainer/backend.h.
 */
#ifndef TRAINER_CUDA_KERNELS_H
#define TRAINER_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "trainer/backend.h"
#include "trainer/cuda/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel found in data that lives on the device: the first finding stays, and kernels that
 * index with such data, or change parameters, do nothing from then on. */
enum cuda_fault_code { FAULT_NONE, FAULT_ID, FAULT_TARGET, FAULT_POSITION };
struct cuda_fault {
    int32_t code, op; /* op: an enum cuda_op */
    int32_t value, length;
    int64_t row, limit;
};
enum cuda_op { OP_EMBED_FWD, OP_EMBED_BWD, OP_CLASSIFIER, OP_KV_WRITE, OP_ATTENTION_STEP };

struct cuda_drop { /* on 0: none */
    int32_t on;
    uint32_t below;
    float keep;
    uint64_t key;
    const uint64_t *seq;
};

/* ids [B, T] in [lowest, V), or with `padded` -1 behind a row's first one; rows with pos[b] < 0 are not
 * looked at (pos NULL: all are). */
cudaError_t cuda_check_ids(struct cuda_fault *f, int op, int code, const int32_t *ids,
                           const int32_t *pos, int64_t B, int64_t T, int32_t lowest, bool padded,
                           int64_t V, cudaStream_t s);
/* pos[b] + T <= positions for all pos[b] >= 0. */
cudaError_t cuda_check_pos(struct cuda_fault *f, int op, const int32_t *pos, int64_t B, int64_t T,
                           int64_t positions, cudaStream_t s);

cudaError_t cuda_embed_fwd(enum dtype type, void *y, const int32_t *ids, const float *wte,
                           const float *wpe, const int32_t *pos, int64_t B, int64_t T, int64_t C,
                           struct cuda_drop d, const struct cuda_fault *f, cudaStream_t s);
/* links: cuda_embed_links(B T) int32 of scratch. */
int64_t cuda_embed_links(int64_t N);
cudaError_t cuda_embed_bwd(enum dtype type, float *dwte, float *dwpe, void *dy, const int32_t *ids,
                           int32_t *links, int64_t B, int64_t T, int64_t C, struct cuda_drop d,
                           const struct cuda_fault *f, cudaStream_t s);

struct cuda_norm {
    enum dtype type;
    int64_t N, T, C;
    struct cuda_drop drop;
};
cudaError_t cuda_norm_fwd(const struct cuda_norm *n, void *sum, void *y, float *mean, float *rstd,
                          const void *x, const void *r, const float *w, const float *bias,
                          float eps, cudaStream_t s);
/* partial: cuda_norm_partials(N) * 2 C floats of scratch. */
int64_t cuda_norm_partials(int64_t N);
cudaError_t cuda_norm_bwd(const struct cuda_norm *n, void *dsum, void *dr, float *dw, float *dbias,
                          const void *dy, const void *sum, const float *mean, const float *rstd,
                          const float *w, float *partial, cudaStream_t s);

/* out[m, n] (+)= sum over k of a[m * a_m + k * a_k] * b[k * b_k + n * b_n]; strides in elements. */
struct cuda_product {
    enum dtype type, out_type; /* out_type: type or f32 */
    int64_t m, n, k, a_m, a_k, b_k, b_n;
    bool accumulate;
};
cudaError_t cuda_gemm(const struct cuda_product *g, void *out, const void *a, const void *b,
                      cudaStream_t s);
/* pre[N, O] += bias (NULL: none), y = gelu(pre); y NULL: bias alone. */
cudaError_t cuda_bias_gelu(enum dtype type, void *y, void *pre, const float *bias, int64_t N,
                           int64_t O, cudaStream_t s);
/* dy *= gelu'(pre) (pre NULL: not), and its column sums are added to dbias (NULL: not). partial:
 * cuda_column_partials(N) * O floats of scratch. */
int64_t cuda_column_partials(int64_t N);
cudaError_t cuda_gelu_grad(enum dtype type, void *dy, const void *pre, float *dbias, float *partial,
                           int64_t N, int64_t O, cudaStream_t s);
/* dst[j] += sum over k of partial[k][j], and second[j] += that of partial[k][n + j] (second NULL: the rows
 * of partial have n columns, else 2 n); in a fixed order. */
cudaError_t cuda_add_partials(float *dst, float *second, const float *partial, int64_t partials,
                              int64_t n, cudaStream_t s);
cudaError_t cuda_cast(enum dtype type, void *out, const float *in, int64_t n, cudaStream_t s);
/* Whether the device runs the code that this object holds. */
cudaError_t cuda_code_here(void);
/* Stochastically (struct rounding of backend.h); first: the number of in[0], a multiple of 4. */
cudaError_t cuda_cast_stochastic(enum dtype type, void *out, const float *in, int64_t n,
                                 uint64_t key, int64_t first, cudaStream_t s);

struct cuda_attention {
    enum dtype type;
    int64_t B, T, C;
    int heads;
    struct cuda_drop drop;
};
cudaError_t cuda_attention_fwd(const struct cuda_attention *a, void *y, float *lse, const void *qkv,
                               cudaStream_t s);
/* delta: B heads T floats of scratch. */
cudaError_t cuda_attention_bwd(const struct cuda_attention *a, void *dqkv, const void *dy,
                               const void *y, const void *qkv, const float *lse, float *delta,
                               cudaStream_t s);

struct cuda_cache {
    enum dtype type;
    int64_t B, T, C, positions;
    int heads;
};
cudaError_t cuda_kv_write(const struct cuda_cache *c, void *k, void *v, const void *qkv,
                          const int32_t *pos, const struct cuda_fault *f, cudaStream_t s);
cudaError_t cuda_attention_step(const struct cuda_cache *c, void *y, void *k, void *v,
                                const void *qkv, const int32_t *pos, const struct cuda_fault *f,
                                cudaStream_t s);

cudaError_t cuda_classifier(enum dtype type, float *loss, void *logits, const int32_t *targets,
                            const float *scale, bool grad, int64_t N, int64_t V, int64_t width,
                            const struct cuda_fault *f, cudaStream_t s); /* V of width columns */

/* dst += sum of squares. partial: cuda_square_partials(n) doubles of scratch. */
int64_t cuda_square_partials(int64_t n);
cudaError_t cuda_sum_squares(float *dst, const float *x, double *partial, int64_t n,
                             cudaStream_t s);

struct cuda_segment {
    int64_t begin, end;
    int32_t decay;
};
struct cuda_rates {
    float decay, b1, b2, rate, root, eps; /* decay: 1 - lr * weight decay; rate: lr / (1 - b1^t) */
    int64_t lo, hi;
    const struct cuda_segment *segments; /* device memory */
    int nsegments;
};
cudaError_t cuda_adamw(float *p, const float *g, float *m, float *v, const struct cuda_rates *h,
                       const float *gscale, const float *skip, const struct cuda_fault *f,
                       cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
