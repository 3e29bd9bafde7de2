/* backend: what a device must do for the trainer. The contract between gpt2.c and the devices.
 *
 * Ops return nothing: they queue work on the backend's compute queue. The first failure stays in
 * b->fault, later ops do nothing, and sync() reports it. Callers use the checked op_*() calls of
 * trainer/ops.h, which test shapes once for all backends.
 *
 * Shapes: B sequences, T positions, C width, NH heads, HS = C / NH, V vocabulary, N = B * T rows.
 * Tensors are dense and row-major. A tensor's data lives on the device: only put() and get() cross.
 *
 * Dropout: element e of sequence s is dropped when word (e & 3) of rng_at(key, e >> 2, s)
 * (base/rng.h) is below p * 2^32, and scaled by 1 / (1 - p) otherwise. e counts within the sequence
 * (t * C + c; attention: (h * T + i) * T + j), s is the id of the sequence in the data, so a mask
 * depends on neither the micro-batch nor the threads nor the rank. The key is made from (seed,
 * step, layer, site).
 *
 * Reductions run in an order that does not depend on the number of threads: equal bits for any.
 * Ids, targets and positions that point outside their tables are a failure, never a wild read (the
 * CPU looks before it computes; a device may report it later, at sync). NaN and infinities go
 * through to the loss and the norm.
 *
 * A backend in a shared object: libassay_NAME.so beside the tool (or in $ASSAY_LIBDIR) exports
 * `const struct backend_ops *assay_backend(int abi)`, NULL when it was built for another
 * BACKEND_ABI, and uses err_*, mem_* and backend_fail of the tool.
 */
#ifndef TRAINER_BACKEND_H
#define TRAINER_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BACKEND_ABI 4

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32, DTYPE_U64 };
size_t dtype_size(enum dtype t);

struct tensor {
    void *data;
    enum dtype type;
    int ndim;
    int64_t dim[4];
};

struct dropout {
    float p; /* 0: none, the rest is not read */
    uint64_t key;
    const struct tensor *seq; /* U64 [B]: ids of the sequences */
};

/* Stochastic rounding: element e of the whole vector goes away from zero when the share of the step
 * between its two neighbours that it has passed is above (word >> 8) / 2^24, word (e & 3) of
 * rng_at(key, e >> 2, 0); towards zero otherwise. Never beyond the largest finite number. */
struct rounding {
    uint64_t key;
    int64_t first; /* e of the first element of this call; a multiple of 4 */
};

/* How a matrix of a linear layer lies: y = x w (Hugging Face GPT-2 Conv1D) or y = x w^T (head). */
enum weight_layout { WEIGHT_IN_OUT, WEIGHT_OUT_IN };

/* A run of the flat parameter vector with one treatment. */
struct adamw_segment {
    int64_t begin, end;
    bool decay;
};
struct adamw {
    float lr, beta1, beta2, eps, weight_decay;
    int64_t step;                         /* from 1, for the bias correction */
    const struct adamw_segment *segments; /* cover lo..hi */
    int nsegments;
    int64_t lo, hi; /* this rank's share of the flat vectors */
};

typedef uint64_t ticket; /* a point in a queue; 0 is "the beginning", always reached */

/* What a device says of itself; NaN and "": it does not say. */
struct device_reading {
    double memory_used, memory_total; /* bytes on the device, by anybody */
    double power_w;
    double energy_j; /* a counter since some start: differences count */
    char device[128], driver[64];
};

struct backend;
struct backend_ops {
    int abi;          /* BACKEND_ABI */
    const char *name; /* "cpu", "cuda" */

    /* device: ordinal, 0 of a CPU; threads: of a CPU, 0 = all usable. */
    int (*open)(struct backend *b, int device, int threads, struct err *e);
    void (*close)(struct backend *b); /* frees all of alloc() */
    bool (*supports)(const struct backend *b, enum dtype t);
    /* One line for results: "AMD EPYC ..., 2 threads, oneDNN 2.6.3 avx512_core". */
    const char *(*describe)(const struct backend *b);
    int64_t (*memory_free)(const struct backend *b); /* bytes, -1 unknown */
    /* May take milliseconds. Row NULL: the device is the host, and says nothing. */
    void (*reading)(struct backend *b, struct device_reading *r);
    /* What tells this device from all others, the same in every process: "GPU-" and its UUID. Row NULL:
     * ranks may share it. */
    const char *(*unit)(const struct backend *b);

    void *(*alloc)(struct backend *b, size_t n); /* zeroed, 64-byte aligned; NULL sets fault */
    void (*put)(struct backend *b, struct tensor *dst, const void *src); /* src is free on return */
    void (*get)(struct backend *b, void *dst, const struct tensor *src); /* dst valid after sync */
    int (*sync)(struct backend *b, struct err *e);
    ticket (*mark)(struct backend *b);         /* a point behind all queued so far */
    void (*wait)(struct backend *b, ticket t); /* the compute queue waits for t */

    void (*zero)(struct backend *b, struct tensor *x);

    /* y[b,t,:] = wte[ids[b,t],:] + wpe[pos[b] + t,:], then dropout. pos NULL: 0; pos[b] < 0: the
     * row is idle, y is 0. An id of -1 behind a sequence's first one is padding: it takes that one's
     * id and position, so that no row of a table is read that the sequence does not read itself.
     * y [B,T,C] ids I32 [B,T] wte [V,C] wpe [maxT,C] pos I32 [B] */
    void (*embed_fwd)(struct backend *b, struct tensor *y, const struct tensor *ids,
                      const struct tensor *wte, const struct tensor *wpe, const struct tensor *pos,
                      struct dropout drop);
    /* dwte += , dwpe += (pos 0). dy is changed when there is dropout. */
    void (*embed_bwd)(struct backend *b, struct tensor *dwte, struct tensor *dwpe,
                      struct tensor *dy, const struct tensor *ids, struct dropout drop);

    /* sum = x + dropout(r) (r NULL: sum is not written, x is the sum); y = norm(sum) * w + bias.
     * x r sum y [B,T,C], w bias [C], mean rstd [N] (NULL: not kept). sum may be x. */
    void (*add_norm_fwd)(struct backend *b, struct tensor *sum, struct tensor *y,
                         struct tensor *mean, struct tensor *rstd, const struct tensor *x,
                         const struct tensor *r, const struct tensor *w, const struct tensor *bias,
                         float eps, struct dropout drop);
    /* dsum += d norm / d sum of dy; then dr = dsum times the dropout mask if dr is not NULL (dr
     * may be dsum when there is no dropout).
     * dw +=, dbias +=. dsum holds the gradient that comes down the residual path. */
    void (*add_norm_bwd)(struct backend *b, struct tensor *dsum, struct tensor *dr,
                         struct tensor *dw, struct tensor *dbias, const struct tensor *dy,
                         const struct tensor *sum, const struct tensor *mean,
                         const struct tensor *rstd, const struct tensor *w, struct dropout drop);

    /* y[N,O] = x[N,I] w + bias. With pre not NULL: pre[N,O] = that, y = gelu_tanh(pre).
     * y may be pre's own storage only if pre is NULL. bias NULL: none. w is f32 or of x's type, bias
     * f32; without bias and pre y may be f32 whatever x is. */
    void (*linear_fwd)(struct backend *b, struct tensor *y, const struct tensor *x,
                       const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                       struct tensor *pre);
    /* With pre: dy is first multiplied by gelu'(pre), in place. dx = dy w^T (dx NULL: skipped),
     * dw += x^T dy, dbias += column sums (NULL: none). accumulate_dx: dx += instead of =. */
    void (*linear_bwd)(struct backend *b, struct tensor *dx, bool accumulate_dx, struct tensor *dw,
                       struct tensor *dbias, struct tensor *dy, const struct tensor *x,
                       const struct tensor *w, enum weight_layout layout, const struct tensor *pre);

    /* y = gelu_tanh(pre): the same y as linear_fwd made from it, on the CPU bit by bit. */
    void (*gelu_fwd)(struct backend *b, struct tensor *y, const struct tensor *pre);

    /* Causal softmax attention, scale 1/sqrt(HS). qkv [B,T,3C] (q | k | v, heads in order),
     * y [B,T,C], lse [B,NH,T]: log of the softmax's denominator. */
    void (*attention_fwd)(struct backend *b, struct tensor *y, struct tensor *lse,
                          const struct tensor *qkv, int heads, struct dropout drop);
    void (*attention_bwd)(struct backend *b, struct tensor *dqkv, const struct tensor *dy,
                          const struct tensor *y, const struct tensor *qkv,
                          const struct tensor *lse, int heads, struct dropout drop);

    /* Decoding. k v: [B,NH,maxT,HS] caches. kv_write stores the k and v of qkv[B,T,3C] at positions
     * pos[b] + t. attention_step: T = 1 queries at pos[b] against cache entries 0..pos[b], after
     * storing their own k and v; y [B,C], qkv [B,3C]. pos I32 [B]; pos[b] < 0: row is idle. */
    void (*kv_write)(struct backend *b, struct tensor *k, struct tensor *v,
                     const struct tensor *qkv, const struct tensor *pos, int heads);
    void (*attention_step)(struct backend *b, struct tensor *y, struct tensor *k, struct tensor *v,
                           const struct tensor *qkv, const struct tensor *pos, int heads);

    /* loss[N] = -log softmax(logits[N,V])[targets]; targets I32 [N], -1: ignored, loss 0.
     * If grad: logits become dlogits = (softmax - onehot) * scale, where scale F32 [1] on the
     * device is 1 / valid targets of the global batch. Rows that are ignored get 0. Only the first
     * vocab columns of a row are logits; those behind are not read and their gradient is 0. */
    void (*classifier)(struct backend *b, struct tensor *loss, struct tensor *logits,
                       const struct tensor *targets, const struct tensor *scale, bool grad,
                       int64_t vocab);

    /* dst F32 [1] += sum of squares of x, in double inside. */
    void (*sum_squares)(struct backend *b, struct tensor *dst, const struct tensor *x);
    /* AdamW (Loshchilov and Hutter, arXiv 1711.05101), torch's form: p -= lr * wd * p for decayed
     * segments; m, v updates; p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
     * params and grads are whole and indexed from lo to hi; m and v hold this share only, hi - lo
     * elements. grads are read times gscale F32 [1] (clipping). skip F32 [1]: not 0: nothing is
     * done. */
    void (*adamw)(struct backend *b, struct tensor *params, const struct tensor *grads,
                  struct tensor *m, struct tensor *v, const struct adamw *h,
                  const struct tensor *gscale, const struct tensor *skip);

    /* dst = src F32 in dst's type, to the nearest (ties to even) or, with r, stochastically. NULL:
     * this backend has f32 alone. */
    void (*cast)(struct backend *b, struct tensor *dst, const struct tensor *src,
                 const struct rounding *r);
    /* Whether products of f32 may round their factors to tf32 from here on. NULL: they can't. */
    void (*tf32)(struct backend *b, bool on);

    /* As linear_fwd, while decoding: few rows, each with the same bits whatever rows are beside it.
     * NULL: linear_fwd does it, and steps are padded to multiples of 8 rows. */
    void (*linear_step)(struct backend *b, struct tensor *y, const struct tensor *x,
                        const struct tensor *w, enum weight_layout layout,
                        const struct tensor *bias, struct tensor *pre);
    /* w of linear_fwd and linear_step may be bf16 (which cast makes) although supports() knows f32
     * alone. */
    bool bf16_weights;

    /* Tensors lie in this process's memory and may be written in place while nothing is queued. */
    bool host;
    /* What x holds is read no more: its memory may go back, and what it reads then is undefined. NULL:
     * it stays. */
    void (*forget)(struct backend *b, struct tensor *x);
};

/* What suits a kind of device: known without opening one, so that a plan for another machine is the
 * plan that is allocated there. */
struct backend_prefers {
    int64_t pass_rows;  /* rows (B x T) of a training pass; 0: as many as fit */
    int64_t grain_rows; /* rows that go back at once; 0: all of a pass */
    int64_t eval_rows;  /* rows of a pass without training */
    int64_t logits;     /* logits at once, elements */
    int64_t vocab_pad;  /* the head's rows are padded with zeros to a multiple of this */
    int64_t reserve;    /* bytes of free memory that the backend's own scratch may take */
    int64_t head_most;  /* the largest attention head; 0: any */
    int64_t width_most; /* the widest model; 0: any */
};
/* By the backend's name; of the CPU for names that are not known. */
const struct backend_prefers *backend_prefers(const char *name);
/* Refuses (usage) a model that this backend's kernels do not take, known without opening it; of auto and
 * names that are not known nothing is refused: gpt2_new() asks again. */
int backend_takes(const char *name, int64_t width, int64_t heads, struct err *e);

struct backend {
    const struct backend_ops *ops;
    void *impl;
    struct err fault;
    bool failed;
};

/* Registry (trainer/backends.c, the only place with #ifdef): best first. name NULL or "auto": the
 * first that opens; a wanted name that is missing fails with the list of those present. */
int backend_open(struct backend *b, const char *name, int device, int threads, struct err *e);
void backend_close(struct backend *b); /* accepts a zeroed one */
/* "cuda (why it does not open here)": every backend but this one, for a sentence. */
void backend_others(const char *name, char *out, size_t n);
/* Called by backends: keeps the first failure. */
void backend_fail(struct backend *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "cpu: AMD EPYC..." or why it is not there, a line each, for doctor. */
void backend_list(void (*line)(void *ctx, const char *name, const char *state), void *ctx);

#endif
