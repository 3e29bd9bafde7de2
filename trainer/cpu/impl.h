/* impl: what the files of the CPU backend share; nobody outside trainer/cpu includes it.
 *
 * Work is cut into tasks whose number and borders come from shapes alone, never from the number of
 * threads, and one thread computes a task from start to end. Sums over tasks are taken afterwards,
 * in the order of the tasks. So every result has the same bits for any number of threads.
 */
#ifndef TRAINER_CPU_IMPL_H
#define TRAINER_CPU_IMPL_H

#include "trainer/backend.h"
#include "trainer/cpu/pool.h"
#include "trainer/cpu/vec/vec.h"

struct cpu_memory; /* one allocation; a list */

struct cpu {
    struct pool *pool;
    const struct vec *vec;
    struct cpu_memory *memory;
    float **scratch; /* of each worker: grown on demand, kept */
    size_t *scratch_n;
    float *partial; /* partial results of the tasks of one op */
    size_t partial_n;
    char describe[320];
};

struct cpu *cpu_of(const struct backend *b);
/* n floats of worker w, 64-byte aligned, with whatever was in them. */
float *cpu_scratch(struct cpu *c, int worker, size_t n);
/* n floats for the tasks of one op; call it before pool_run. */
float *cpu_partial(struct cpu *c, size_t n);

/* Rows a task takes: a function of the number of rows only. */
int64_t cpu_rows_per_task(int64_t rows);

/* Columns of partial sums, added in order: dst[j] += sum over k of partial[k * stride + j]. */
void cpu_add_partials(struct cpu *c, float *dst, const float *partial, int64_t stride,
                      int64_t partials, int64_t n);

enum { CPU_FEW = 16 }; /* rows that share a reading of the weights (linear_few.c) */
/* y[m,n] = x[m,k] w + bias, gelu = gelu_tanh(y): any m, CPU_FEW rows at a time. */
struct cpu_few {
    int64_t m, n, k;
    const float *x, *bias; /* bias NULL: none */
    const void *w;         /* [k,n] or, out_in, [n,k] */
    bool out_in, bf16;
    float *y, *gelu; /* gelu NULL: none */
};
void cpu_linear_few(struct cpu *c, const struct cpu_few *p);

/* Dropout of one op: p == 0 gives on = false. */
struct cpu_drop {
    bool on;
    uint64_t key;
    uint32_t below; /* a word below this drops the element */
    float keep;     /* 1 / (1 - p) */
    const uint64_t *seq;
};
struct cpu_drop cpu_drop(struct dropout d);
/* mask[i] = 0 or keep for element first + i of sequence s (index into the batch). */
void cpu_mask(const struct cpu *c, const struct cpu_drop *d, float *mask, int64_t s, uint64_t first,
              int64_t n);

/* The rows of the table, one file a group: embed.c norm.c linear.c cast.c attention.c decode.c
 * classifier.c adamw.c. */
void cpu_embed_fwd(struct backend *b, struct tensor *y, const struct tensor *ids,
                   const struct tensor *wte, const struct tensor *wpe, const struct tensor *pos,
                   struct dropout drop);
void cpu_embed_bwd(struct backend *b, struct tensor *dwte, struct tensor *dwpe, struct tensor *dy,
                   const struct tensor *ids, struct dropout drop);
void cpu_add_norm_fwd(struct backend *b, struct tensor *sum, struct tensor *y, struct tensor *mean,
                      struct tensor *rstd, const struct tensor *x, const struct tensor *r,
                      const struct tensor *w, const struct tensor *bias, float eps,
                      struct dropout drop);
void cpu_add_norm_bwd(struct backend *b, struct tensor *dsum, struct tensor *dr, struct tensor *dw,
                      struct tensor *dbias, const struct tensor *dy, const struct tensor *sum,
                      const struct tensor *mean, const struct tensor *rstd, const struct tensor *w,
                      struct dropout drop);
void cpu_linear_fwd(struct backend *b, struct tensor *y, const struct tensor *x,
                    const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                    struct tensor *pre);
void cpu_linear_step(struct backend *b, struct tensor *y, const struct tensor *x,
                     const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                     struct tensor *pre);
void cpu_cast(struct backend *b, struct tensor *dst, const struct tensor *src,
              const struct rounding *r);
void cpu_linear_bwd(struct backend *b, struct tensor *dx, bool accumulate_dx, struct tensor *dw,
                    struct tensor *dbias, struct tensor *dy, const struct tensor *x,
                    const struct tensor *w, enum weight_layout layout, const struct tensor *pre);
void cpu_gelu_fwd(struct backend *b, struct tensor *y, const struct tensor *pre);
void cpu_attention_fwd(struct backend *b, struct tensor *y, struct tensor *lse,
                       const struct tensor *qkv, int heads, struct dropout drop);
void cpu_attention_bwd(struct backend *b, struct tensor *dqkv, const struct tensor *dy,
                       const struct tensor *y, const struct tensor *qkv, const struct tensor *lse,
                       int heads, struct dropout drop);
void cpu_kv_write(struct backend *b, struct tensor *k, struct tensor *v, const struct tensor *qkv,
                  const struct tensor *pos, int heads);
void cpu_attention_step(struct backend *b, struct tensor *y, struct tensor *k, struct tensor *v,
                        const struct tensor *qkv, const struct tensor *pos, int heads);
void cpu_classifier(struct backend *b, struct tensor *loss, struct tensor *logits,
                    const struct tensor *targets, const struct tensor *scale, bool grad,
                    int64_t vocab);
void cpu_sum_squares(struct backend *b, struct tensor *dst, const struct tensor *x);
void cpu_adamw(struct backend *b, struct tensor *params, const struct tensor *grads,
               struct tensor *m, struct tensor *v, const struct adamw *h,
               const struct tensor *gscale, const struct tensor *skip);

#endif
