/* ops: the calls that gpt2.c makes: the rows of backend_ops behind one set of checks.
 *
 * Each op_x(b, ...) tests types, shapes and aliasing once for all backends, then calls b->ops->x.
 * A wrong call is a bug of the caller, but it must not become a wild write on a device: it stays in
 * b->fault ("linear_fwd: w is [768, 2304], x has 192 columns") and sync reports it. After a failure
 * every op does nothing. What the values mean, and which arguments may be NULL, is in backend.h.
 *
 * Shapes are taken loosely where the op only counts rows: linear takes x of any rank >= 1 as
 * [rows, last dimension], loss and targets any shape of N elements. Ops that know positions
 * (embed, attention, add_norm with dropout, kv_write) want B and T apart, as backend.h says.
 *
 * Rows that a backend may leave NULL, because they are composed here: zero (put of zeros), mark
 * (ticket 0), wait (nothing), linear_step (linear_fwd); and cast and tf32, which a backend of f32
 * alone lacks. All others must be there; backend_open() refuses a table that lacks one.
 */
#ifndef TRAINER_OPS_H
#define TRAINER_OPS_H

#include "trainer/backend.h"
#include "trainer/tensor.h"

/* Name of the first row that is NULL and may not be, or NULL if the table is whole. */
const char *ops_missing(const struct backend_ops *o);

void *op_alloc(struct backend *b, size_t n);
void op_put(struct backend *b, struct tensor *dst, const void *src);
void op_get(struct backend *b, void *dst, const struct tensor *src);
int op_sync(struct backend *b, struct err *e); /* "cpu: linear_fwd: ..." */
ticket op_mark(struct backend *b);
void op_wait(struct backend *b, ticket t);
void op_zero(struct backend *b, struct tensor *x);

void op_embed_fwd(struct backend *b, struct tensor *y, const struct tensor *ids,
                  const struct tensor *wte, const struct tensor *wpe, const struct tensor *pos,
                  struct dropout drop);
void op_embed_bwd(struct backend *b, struct tensor *dwte, struct tensor *dwpe, struct tensor *dy,
                  const struct tensor *ids, struct dropout drop);

void op_add_norm_fwd(struct backend *b, struct tensor *sum, struct tensor *y, struct tensor *mean,
                     struct tensor *rstd, const struct tensor *x, const struct tensor *r,
                     const struct tensor *w, const struct tensor *bias, float eps,
                     struct dropout drop);
void op_add_norm_bwd(struct backend *b, struct tensor *dsum, struct tensor *dr, struct tensor *dw,
                     struct tensor *dbias, const struct tensor *dy, const struct tensor *sum,
                     const struct tensor *mean, const struct tensor *rstd, const struct tensor *w,
                     struct dropout drop);

void op_linear_fwd(struct backend *b, struct tensor *y, const struct tensor *x,
                   const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                   struct tensor *pre);
void op_linear_step(struct backend *b, struct tensor *y, const struct tensor *x,
                    const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                    struct tensor *pre);
void op_linear_bwd(struct backend *b, struct tensor *dx, bool accumulate_dx, struct tensor *dw,
                   struct tensor *dbias, struct tensor *dy, const struct tensor *x,
                   const struct tensor *w, enum weight_layout layout, const struct tensor *pre);

void op_gelu_fwd(struct backend *b, struct tensor *y, const struct tensor *pre);

void op_attention_fwd(struct backend *b, struct tensor *y, struct tensor *lse,
                      const struct tensor *qkv, int heads, struct dropout drop);
void op_attention_bwd(struct backend *b, struct tensor *dqkv, const struct tensor *dy,
                      const struct tensor *y, const struct tensor *qkv, const struct tensor *lse,
                      int heads, struct dropout drop);
void op_kv_write(struct backend *b, struct tensor *k, struct tensor *v, const struct tensor *qkv,
                 const struct tensor *pos, int heads);
void op_attention_step(struct backend *b, struct tensor *y, struct tensor *k, struct tensor *v,
                       const struct tensor *qkv, const struct tensor *pos, int heads);

void op_classifier(struct backend *b, struct tensor *loss, struct tensor *logits,
                   const struct tensor *targets, const struct tensor *scale, bool grad,
                   int64_t vocab); /* vocab 0: all columns */
void op_sum_squares(struct backend *b, struct tensor *dst, const struct tensor *x);
void op_adamw(struct backend *b, struct tensor *params, const struct tensor *grads,
              struct tensor *m, struct tensor *v, const struct adamw *h,
              const struct tensor *gscale, const struct tensor *skip);
void op_cast(struct backend *b, struct tensor *dst, const struct tensor *src,
             const struct rounding *r);
void op_tf32(struct backend *b, bool on);

#endif
