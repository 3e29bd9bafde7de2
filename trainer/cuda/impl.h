/* impl: what the C files of the CUDA backend share; nobody outside trainer/cuda includes it.
 *
 * One device, one compute stream. Scratch memory grows on demand and is used by one op at a time:
 * the stream's order keeps ops apart.
 */
#ifndef TRAINER_CUDA_IMPL_H
#define TRAINER_CUDA_IMPL_H

#include "trainer/backend.h"
#include "trainer/cuda/kernels.h"
#include "trainer/cuda/lt.h"

/* Pieces of scratch that an op may hold at the same time. */
enum scratch { SCRATCH_PARTIAL, SCRATCH_WEIGHT, SCRATCH_BIAS, SCRATCH_OUT, SCRATCH_PIECES };
enum { SLOTS = 16, SLOT_BYTES = 256 << 10, MARKS = 64, LT_WORKSPACE = 32 << 20 };
/* Whether products take bias and gelu with them: ASSAY_CUDA_TUNE, read when the device is opened. Own: the
 * library is left out and gemm.cu does all of them, slowly. */
enum tune { TUNE_MEASURE, TUNE_FUSED, TUNE_SEPARATE, TUNE_OWN };

struct cuda_memory; /* one allocation; a list */

struct cuda {
    int device;
    cudaStream_t stream;
    struct cuda_memory *memory;
    struct lt *lt;
    void *workspace; /* of the products */
    void *scratch[SCRATCH_PIECES];
    size_t scratch_n[SCRATCH_PIECES];
    struct cuda_fault *fault; /* on the device, and its copy here, page-locked */
    struct cuda_fault *found;
    /* Uploads go through page-locked slots, so that put() need not wait for the stream. */
    unsigned char *slot;
    cudaEvent_t slot_free[SLOTS];
    int slot_at;
    cudaEvent_t mark[MARKS];
    ticket marks;
    /* The segments that lie on the device, and what they were made from. */
    struct cuda_segment *segments, *segments_host;
    int nsegments;
    struct nvml *nvml;
    struct tuned *tuned; /* choices between fused and separate work, by shape; linear.c */
    enum tune tune;
    bool tf32; /* products of f32 may round their factors */
    char name[256], describe[512], unit[48];
};

struct cuda *cuda_of(const struct backend *b);
/* What a launch or call said; false after a failure, which stays in b->fault. */
bool cuda_ok(struct backend *b, const char *op, cudaError_t e);
/* n bytes for the op at hand; NULL after a failure. */
void *cuda_scratch(struct backend *b, enum scratch which, size_t n);
/* Copies to the device without waiting for it; src may be changed on return. */
bool cuda_upload(struct backend *b, const char *op, void *dst, const void *src, size_t n);
struct cuda_drop cuda_drop_of(struct dropout d);
int64_t cuda_rows(const struct tensor *t); /* all dimensions but the last */
/* Parameters and their gradients are f32 whatever the activations are. */
bool cuda_all_f32(struct backend *b, const char *op, const struct tensor *const *t, int n);
/* All of these (NULL: left out) have one type. */
bool cuda_same_type(struct backend *b, const char *op, const struct tensor *const *t, int n);

/* NVIDIA's management library, found at run time (nvml.c). NULL where it is not there or does not know
 * the device; all calls take NULL. describe: "driver 580.65, limit 700 W", or nothing. */
struct nvml *nvml_open(int device);
void nvml_close(struct nvml *n);
void nvml_describe(struct nvml *n, char *out, size_t size);
/* Leaves out what it does not know, and a card of which r->memory_total is only a part (MIG): power and
 * energy of the whole are not this part's. */
void nvml_read(struct nvml *n, struct device_reading *r);

void cuda_linear_release(struct cuda *c);
void cuda_op_linear_fwd(struct backend *b, struct tensor *y, const struct tensor *x,
                        const struct tensor *w, enum weight_layout layout,
                        const struct tensor *bias, struct tensor *pre);
void cuda_op_linear_bwd(struct backend *b, struct tensor *dx, bool accumulate_dx, struct tensor *dw,
                        struct tensor *dbias, struct tensor *dy, const struct tensor *x,
                        const struct tensor *w, enum weight_layout layout,
                        const struct tensor *pre);
void cuda_op_gelu_fwd(struct backend *b, struct tensor *y, const struct tensor *pre);
void cuda_op_embed_fwd(struct backend *b, struct tensor *y, const struct tensor *ids,
                       const struct tensor *wte, const struct tensor *wpe, const struct tensor *pos,
                       struct dropout drop);
void cuda_op_embed_bwd(struct backend *b, struct tensor *dwte, struct tensor *dwpe,
                       struct tensor *dy, const struct tensor *ids, struct dropout drop);
void cuda_op_add_norm_fwd(struct backend *b, struct tensor *sum, struct tensor *y,
                          struct tensor *mean, struct tensor *rstd, const struct tensor *x,
                          const struct tensor *r, const struct tensor *w, const struct tensor *bias,
                          float eps, struct dropout drop);
void cuda_op_add_norm_bwd(struct backend *b, struct tensor *dsum, struct tensor *dr,
                          struct tensor *dw, struct tensor *dbias, const struct tensor *dy,
                          const struct tensor *sum, const struct tensor *mean,
                          const struct tensor *rstd, const struct tensor *w, struct dropout drop);
void cuda_op_attention_fwd(struct backend *b, struct tensor *y, struct tensor *lse,
                           const struct tensor *qkv, int heads, struct dropout drop);
void cuda_op_attention_bwd(struct backend *b, struct tensor *dqkv, const struct tensor *dy,
                           const struct tensor *y, const struct tensor *qkv,
                           const struct tensor *lse, int heads, struct dropout drop);
void cuda_op_kv_write(struct backend *b, struct tensor *k, struct tensor *v,
                      const struct tensor *qkv, const struct tensor *pos, int heads);
void cuda_op_attention_step(struct backend *b, struct tensor *y, struct tensor *k, struct tensor *v,
                            const struct tensor *qkv, const struct tensor *pos, int heads);
void cuda_op_classifier(struct backend *b, struct tensor *loss, struct tensor *logits,
                        const struct tensor *targets, const struct tensor *scale, bool grad,
                        int64_t vocab);
void cuda_op_sum_squares(struct backend *b, struct tensor *dst, const struct tensor *x);
void cuda_op_adamw(struct backend *b, struct tensor *params, const struct tensor *grads,
                   struct tensor *m, struct tensor *v, const struct adamw *h,
                   const struct tensor *gscale, const struct tensor *skip);
void cuda_op_cast(struct backend *b, struct tensor *dst, const struct tensor *src,
                  const struct rounding *r);

#endif
