/* ops: each row of a backend behind its checks, see ops.h. Nothing here computes. */
#include "trainer/ops.h"

#include <stdlib.h>

#include "base/mem.h"
#include "trainer/ops_check.h"

void *op_alloc(struct backend *b, size_t n)
{
    return b->failed ? NULL : b->ops->alloc(b, n);
}

void op_put(struct backend *b, struct tensor *dst, const void *src)
{
    if (!b->failed && base_ok(b, "put", "the tensor", dst, 0))
        b->ops->put(b, dst, src);
}

void op_get(struct backend *b, void *dst, const struct tensor *src)
{
    if (!b->failed && base_ok(b, "get", "the tensor", src, 0))
        b->ops->get(b, dst, src);
}

int op_sync(struct backend *b, struct err *e)
{
    int rc = b->ops->sync(b, e);
    if (b->failed) {
        *e = b->fault;
        return err_wrap(e, "%s", b->ops->name);
    }
    return rc;
}

ticket op_mark(struct backend *b)
{
    return b->failed || !b->ops->mark ? 0 : b->ops->mark(b);
}

void op_wait(struct backend *b, ticket t)
{
    if (!b->failed && b->ops->wait)
        b->ops->wait(b, t);
}

void op_zero(struct backend *b, struct tensor *x)
{
    if (b->failed || !base_ok(b, "zero", "the tensor", x, 0))
        return;
    if (b->ops->zero) {
        b->ops->zero(b, x);
        return;
    }
    void *zeros = mem_zero(tensor_bytes(x));
    b->ops->put(b, x, zeros);
    free(zeros);
}

void op_embed_fwd(struct backend *b, struct tensor *y, const struct tensor *ids,
                  const struct tensor *wte, const struct tensor *wpe, const struct tensor *pos,
                  struct dropout drop)
{
    const char *op = "embed_fwd";
    if (b->failed || !base_ok(b, op, "y", y, 3) || !base_ok(b, op, "wte", wte, 2) ||
        !base_ok(b, op, "wpe", wpe, 2))
        return;
    int64_t B = y->dim[0], T = y->dim[1], C = y->dim[2];
    const struct arg a[] = {
        {"y", y, REAL, 3, {B, T, C}},
        {"ids", ids, I32, 2, {B, T}},
        {"wte", wte, REAL, 2, {wte->dim[0], C}},
        {"wpe", wpe, REAL, 2, {wpe->dim[0], C}},
        {"pos", pos ? pos : ids, I32, 0, {pos ? B : B * T}},
    };
    if (!ARGS_OK(b, op, a) || !drop_ok(b, op, drop, B))
        return;
    if (!pos && T > wpe->dim[0]) {
        backend_fail(b, "%s: %lld positions, the table has %lld", op, (long long)T,
                     (long long)wpe->dim[0]);
        return;
    }
    b->ops->embed_fwd(b, y, ids, wte, wpe, pos, drop);
}

void op_embed_bwd(struct backend *b, struct tensor *dwte, struct tensor *dwpe, struct tensor *dy,
                  const struct tensor *ids, struct dropout drop)
{
    const char *op = "embed_bwd";
    if (b->failed || !base_ok(b, op, "dy", dy, 3) || !base_ok(b, op, "dwte", dwte, 2) ||
        !base_ok(b, op, "dwpe", dwpe, 2))
        return;
    int64_t B = dy->dim[0], T = dy->dim[1], C = dy->dim[2];
    const struct arg a[] = {
        {"dy", dy, REAL, 3, {B, T, C}},
        {"ids", ids, I32, 2, {B, T}},
        {"dwte", dwte, REAL, 2, {dwte->dim[0], C}},
        {"dwpe", dwpe, REAL, 2, {dwpe->dim[0], C}},
    };
    if (!ARGS_OK(b, op, a) || !drop_ok(b, op, drop, B))
        return;
    if (T > dwpe->dim[0]) {
        backend_fail(b, "%s: %lld positions, the table has %lld", op, (long long)T,
                     (long long)dwpe->dim[0]);
        return;
    }
    b->ops->embed_bwd(b, dwte, dwpe, dy, ids, drop);
}

void op_add_norm_fwd(struct backend *b, struct tensor *sum, struct tensor *y, struct tensor *mean,
                     struct tensor *rstd, const struct tensor *x, const struct tensor *r,
                     const struct tensor *w, const struct tensor *bias, float eps,
                     struct dropout drop)
{
    const char *op = "add_norm_fwd";
    if (b->failed || !base_ok(b, op, "x", x, r && drop.p != 0 ? 3 : 0))
        return;
    int64_t n = tensor_count(x), C = last_dim(x), N = n / C;
    const struct arg a[] = {
        {"x", x, REAL, 0, {n}},
        {"y", y, REAL, 0, {n}},
        {"w", w, REAL, 1, {C}},
        {"bias", bias, REAL, 1, {C}},
        {"r", r ? r : x, REAL, 0, {n}},
        {"sum", r ? sum : x, REAL, 0, {n}},
        {"mean", mean ? mean : w, F32, 0, {mean ? N : C}},
        {"rstd", rstd ? rstd : w, F32, 0, {rstd ? N : C}},
    };
    if (!ARGS_OK(b, op, a) || (r && !drop_ok(b, op, drop, x->dim[0])))
        return;
    if (!(eps >= 0)) {
        backend_fail(b, "%s: eps is %g", op, (double)eps);
        return;
    }
    if (!r)
        drop.p = 0;
    b->ops->add_norm_fwd(b, sum, y, mean, rstd, x, r, w, bias, eps, drop);
}

void op_add_norm_bwd(struct backend *b, struct tensor *dsum, struct tensor *dr, struct tensor *dw,
                     struct tensor *dbias, const struct tensor *dy, const struct tensor *sum,
                     const struct tensor *mean, const struct tensor *rstd, const struct tensor *w,
                     struct dropout drop)
{
    const char *op = "add_norm_bwd";
    if (b->failed || !base_ok(b, op, "sum", sum, dr && drop.p != 0 ? 3 : 0))
        return;
    int64_t n = tensor_count(sum), C = last_dim(sum), N = n / C;
    const struct arg a[] = {
        {"sum", sum, REAL, 0, {n}},
        {"dsum", dsum, REAL, 0, {n}},
        {"dr", dr ? dr : dsum, REAL, 0, {n}},
        {"dw", dw, REAL, 1, {C}},
        {"dbias", dbias, REAL, 1, {C}},
        {"dy", dy, REAL, 0, {n}},
        {"mean", mean, F32, 0, {N}},
        {"rstd", rstd, F32, 0, {N}},
        {"w", w, REAL, 1, {C}},
    };
    if (!ARGS_OK(b, op, a) || (dr && !drop_ok(b, op, drop, sum->dim[0])))
        return;
    if (!dr)
        drop.p = 0;
    b->ops->add_norm_bwd(b, dsum, dr, dw, dbias, dy, sum, mean, rstd, w, drop);
}

/* The weight's rows and columns for I inputs and O outputs. */
static struct arg weight_arg(const char *name, const struct tensor *w, enum arg_kind kind,
                             enum weight_layout layout, int64_t I, int64_t O)
{
    return layout == WEIGHT_IN_OUT ? (struct arg){name, w, kind, 2, {I, O}}
                                   : (struct arg){name, w, kind, 2, {O, I}};
}

static bool forward_ok(struct backend *b, const char *op, const struct tensor *y,
                       const struct tensor *x, const struct tensor *w, enum weight_layout layout,
                       const struct tensor *bias, const struct tensor *pre)
{
    if (b->failed || !base_ok(b, op, "x", x, 0) || !base_ok(b, op, "y", y, 0))
        return false;
    int64_t I = last_dim(x), N = tensor_count(x) / I, O = last_dim(y);
    const struct arg a[] = {
        {"x", x, REAL, 0, {N * I}},
        {"y", y, REAL, 0, {N * O}},
        weight_arg("w", w, WEIGHT, layout, I, O),
        {"bias", bias ? bias : x, REAL, 0, {bias ? O : N * I}},
        {"pre", pre ? pre : y, REAL, 0, {N * O}},
    };
    if (!ARGS_OK(b, op, a))
        return false;
    bool shared = y->data == x->data || (pre && pre->data == y->data);
    if (shared)
        backend_fail(b, "%s: y shares its storage with %s", op, pre ? "pre or x" : "x");
    return !shared;
}

void op_linear_fwd(struct backend *b, struct tensor *y, const struct tensor *x,
                   const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                   struct tensor *pre)
{
    if (forward_ok(b, "linear_fwd", y, x, w, layout, bias, pre))
        b->ops->linear_fwd(b, y, x, w, layout, bias, pre);
}

void op_linear_step(struct backend *b, struct tensor *y, const struct tensor *x,
                    const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                    struct tensor *pre)
{
    if (forward_ok(b, "linear_step", y, x, w, layout, bias, pre))
        (b->ops->linear_step ? b->ops->linear_step : b->ops->linear_fwd)(b, y, x, w, layout, bias,
                                                                         pre);
}

void op_linear_bwd(struct backend *b, struct tensor *dx, bool accumulate_dx, struct tensor *dw,
                   struct tensor *dbias, struct tensor *dy, const struct tensor *x,
                   const struct tensor *w, enum weight_layout layout, const struct tensor *pre)
{
    const char *op = "linear_bwd";
    if (b->failed || !base_ok(b, op, "x", x, 0) || !base_ok(b, op, "dy", dy, 0))
        return;
    int64_t I = last_dim(x), N = tensor_count(x) / I, O = last_dim(dy);
    const struct arg a[] = {
        {"x", x, REAL, 0, {N * I}},
        {"dy", dy, REAL, 0, {N * O}},
        weight_arg("w", w, REAL, layout, I, O),
        weight_arg("dw", dw, REAL, layout, I, O),
        {"dx", dx ? dx : x, REAL, 0, {N * I}},
        {"dbias", dbias ? dbias : w, REAL, 0, {dbias ? O : I * O}},
        {"pre", pre ? pre : dy, REAL, 0, {N * O}},
    };
    if (!ARGS_OK(b, op, a))
        return;
    if (dx && dx->data == dy->data) {
        backend_fail(b, "%s: dx shares its storage with dy", op);
        return;
    }
    b->ops->linear_bwd(b, dx, accumulate_dx, dw, dbias, dy, x, w, layout, pre);
}

void op_gelu_fwd(struct backend *b, struct tensor *y, const struct tensor *pre)
{
    const char *op = "gelu_fwd";
    if (b->failed || !base_ok(b, op, "pre", pre, 0))
        return;
    const struct arg a[] = {
        {"pre", pre, REAL, 0, {tensor_count(pre)}},
        {"y", y, REAL, 0, {tensor_count(pre)}},
    };
    if (ARGS_OK(b, op, a))
        b->ops->gelu_fwd(b, y, pre);
}

void op_attention_fwd(struct backend *b, struct tensor *y, struct tensor *lse,
                      const struct tensor *qkv, int heads, struct dropout drop)
{
    const char *op = "attention_fwd";
    if (b->failed || !base_ok(b, op, "qkv", qkv, 3) || !heads_ok(b, op, qkv, heads))
        return;
    int64_t B = qkv->dim[0], T = qkv->dim[1], C = qkv->dim[2] / 3;
    const struct arg a[] = {
        {"qkv", qkv, REAL, 3, {B, T, 3 * C}},
        {"y", y, REAL, 3, {B, T, C}},
        {"lse", lse, F32, 3, {B, heads, T}},
    };
    if (ARGS_OK(b, op, a) && drop_ok(b, op, drop, B))
        b->ops->attention_fwd(b, y, lse, qkv, heads, drop);
}

void op_attention_bwd(struct backend *b, struct tensor *dqkv, const struct tensor *dy,
                      const struct tensor *y, const struct tensor *qkv, const struct tensor *lse,
                      int heads, struct dropout drop)
{
    const char *op = "attention_bwd";
    if (b->failed || !base_ok(b, op, "qkv", qkv, 3) || !heads_ok(b, op, qkv, heads))
        return;
    int64_t B = qkv->dim[0], T = qkv->dim[1], C = qkv->dim[2] / 3;
    const struct arg a[] = {
        {"qkv", qkv, REAL, 3, {B, T, 3 * C}}, {"dqkv", dqkv, REAL, 3, {B, T, 3 * C}},
        {"dy", dy, REAL, 3, {B, T, C}},       {"y", y, REAL, 3, {B, T, C}},
        {"lse", lse, F32, 3, {B, heads, T}},
    };
    if (!ARGS_OK(b, op, a) || !drop_ok(b, op, drop, B))
        return;
    if (dqkv->data == qkv->data) {
        backend_fail(b, "%s: dqkv shares its storage with qkv", op);
        return;
    }
    b->ops->attention_bwd(b, dqkv, dy, y, qkv, lse, heads, drop);
}

/* The caches k and v for B sequences of heads of HS. */
static bool cache_ok(struct backend *b, const char *op, const struct tensor *k,
                     const struct tensor *v, const struct tensor *pos, int64_t B, int heads,
                     int64_t HS)
{
    if (!base_ok(b, op, "k", k, 4))
        return false;
    const struct arg a[] = {
        {"k", k, REAL, 4, {B, heads, k->dim[2], HS}},
        {"v", v, REAL, 4, {B, heads, k->dim[2], HS}},
        {"pos", pos, I32, 0, {B}},
    };
    return ARGS_OK(b, op, a);
}

void op_kv_write(struct backend *b, struct tensor *k, struct tensor *v, const struct tensor *qkv,
                 const struct tensor *pos, int heads)
{
    const char *op = "kv_write";
    if (b->failed || !base_ok(b, op, "qkv", qkv, 3) || !heads_ok(b, op, qkv, heads))
        return;
    const struct arg a[] = {{"qkv", qkv, REAL, 0, {tensor_count(qkv)}}};
    if (ARGS_OK(b, op, a) &&
        cache_ok(b, op, k, v, pos, qkv->dim[0], heads, qkv->dim[2] / 3 / heads))
        b->ops->kv_write(b, k, v, qkv, pos, heads);
}

void op_attention_step(struct backend *b, struct tensor *y, struct tensor *k, struct tensor *v,
                       const struct tensor *qkv, const struct tensor *pos, int heads)
{
    const char *op = "attention_step";
    if (b->failed || !base_ok(b, op, "qkv", qkv, 0) || !heads_ok(b, op, qkv, heads))
        return;
    int64_t B = tensor_count(qkv) / last_dim(qkv), C = last_dim(qkv) / 3;
    const struct arg a[] = {
        {"qkv", qkv, REAL, 0, {B * 3 * C}},
        {"y", y, REAL, 0, {B * C}},
    };
    if (ARGS_OK(b, op, a) && cache_ok(b, op, k, v, pos, B, heads, C / heads))
        b->ops->attention_step(b, y, k, v, qkv, pos, heads);
}

void op_classifier(struct backend *b, struct tensor *loss, struct tensor *logits,
                   const struct tensor *targets, const struct tensor *scale, bool grad,
                   int64_t vocab)
{
    const char *op = "classifier";
    if (b->failed || !base_ok(b, op, "logits", logits, 0))
        return;
    int64_t V = last_dim(logits), N = tensor_count(logits) / V;
    const struct arg a[] = {
        {"logits", logits, REAL, 0, {N * V}},
        {"loss", loss, F32, 0, {N}},
        {"targets", targets, I32, 0, {N}},
        {"scale", grad ? scale : loss, F32, 0, {grad ? 1 : N}},
    };
    if (!ARGS_OK(b, op, a))
        return;
    if (vocab < 0 || vocab > V) {
        backend_fail(b, "%s: a vocabulary of %lld in %lld columns", op, (long long)vocab,
                     (long long)V);
        return;
    }
    b->ops->classifier(b, loss, logits, targets, scale, grad, vocab ? vocab : V);
}

void op_sum_squares(struct backend *b, struct tensor *dst, const struct tensor *x)
{
    const char *op = "sum_squares";
    if (b->failed || !base_ok(b, op, "x", x, 0))
        return;
    const struct arg a[] = {
        {"x", x, REAL, 0, {tensor_count(x)}},
        {"dst", dst, F32, 0, {1}},
    };
    if (ARGS_OK(b, op, a))
        b->ops->sum_squares(b, dst, x);
}

void op_adamw(struct backend *b, struct tensor *params, const struct tensor *grads,
              struct tensor *m, struct tensor *v, const struct adamw *h,
              const struct tensor *gscale, const struct tensor *skip)
{
    const char *op = "adamw";
    if (b->failed || !base_ok(b, op, "params", params, 0))
        return;
    int64_t n = tensor_count(params);
    if (h->lo < 0 || h->hi <= h->lo || h->hi > n || h->step < 1) {
        backend_fail(b, "%s: range %lld..%lld of %lld parameters, step %lld", op, (long long)h->lo,
                     (long long)h->hi, (long long)n, (long long)h->step);
        return;
    }
    const struct arg a[] = {
        {"params", params, F32, 0, {n}},   {"grads", grads, F32, 0, {n}},
        {"m", m, F32, 0, {h->hi - h->lo}}, {"v", v, F32, 0, {h->hi - h->lo}},
        {"gscale", gscale, F32, 0, {1}},   {"skip", skip, F32, 0, {1}},
    };
    if (ARGS_OK(b, op, a) && segments_ok(b, op, h))
        b->ops->adamw(b, params, grads, m, v, h, gscale, skip);
}

void op_cast(struct backend *b, struct tensor *dst, const struct tensor *src,
             const struct rounding *r)
{
    const char *op = "cast";
    if (b->failed || !base_ok(b, op, "src", src, 0))
        return;
    const struct arg a[] = {
        {"src", src, F32, 0, {tensor_count(src)}},
        {"dst", dst, WEIGHT, 0, {tensor_count(src)}},
    };
    if (!ARGS_OK(b, op, a))
        return;
    if (!b->ops->cast || dst->type == DTYPE_F32 || (r && r->first % 4)) {
        backend_fail(b, "%s: %s to %s%s", op, "f32", dtype_name(dst->type),
                     r && r->first % 4 ? ", from an element that is no multiple of 4" : "");
        return;
    }
    b->ops->cast(b, dst, src, r);
}

void op_tf32(struct backend *b, bool on)
{
    if (b->failed || (!b->ops->tf32 && !on))
        return;
    if (b->ops->tf32)
        b->ops->tf32(b, on);
    else
        backend_fail(b, "it has no tf32");
}
