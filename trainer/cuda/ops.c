/* ops: rows of the table that are a launch or two: types, scratch, and the launcher. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/cuda/impl.h"
#include "trainer/tensor.h"

int64_t cuda_rows(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim - 1; i++)
        n *= t->dim[i];
    return n;
}

bool cuda_all_f32(struct backend *b, const char *op, const struct tensor *const *t, int n)
{
    for (int i = 0; i < n; i++)
        if (t[i] && t[i]->type != DTYPE_F32) {
            backend_fail(b, "%s: a parameter has type %s; on cuda parameters are f32", op,
                         dtype_name(t[i]->type));
            return false;
        }
    return true;
}

bool cuda_same_type(struct backend *b, const char *op, const struct tensor *const *t, int n)
{
    for (int i = 1; i < n; i++)
        if (t[i] && t[i]->type != t[0]->type) {
            backend_fail(b, "%s: activations of type %s beside %s", op, dtype_name(t[i]->type),
                         dtype_name(t[0]->type));
            return false;
        }
    return true;
}

/* word < p * 2^32 for an integer word means word < ceil(p * 2^32); p has 24 bits, so this is exact. */
struct cuda_drop cuda_drop_of(struct dropout d)
{
    if (d.p == 0)
        return (struct cuda_drop){0};
    return (struct cuda_drop){
        .on = 1,
        .below = (uint32_t)ceil((double)d.p * 4294967296.0),
        .keep = (float)(1.0 / (1.0 - (double)d.p)),
        .key = d.key,
        .seq = d.seq->data,
    };
}

/* ---- embedding ---- */

static void *data_of(const struct tensor *t)
{
    return t ? t->data : NULL;
}

void cuda_op_embed_fwd(struct backend *b, struct tensor *y, const struct tensor *ids,
                       const struct tensor *wte, const struct tensor *wpe, const struct tensor *pos,
                       struct dropout drop)
{
    const char *op = "embed_fwd";
    const struct tensor *params[] = {wte, wpe};
    struct cuda *c = cuda_of(b);
    int64_t B = y->dim[0], T = y->dim[1], C = y->dim[2];
    if (!cuda_all_f32(b, op, params, 2))
        return;
    if (!cuda_ok(b, op,
                 cuda_check_ids(c->fault, OP_EMBED_FWD, FAULT_ID, ids->data, data_of(pos), B, T, 0,
                                true, wte->dim[0], c->stream)))
        return;
    if (pos &&
        !cuda_ok(b, op,
                 cuda_check_pos(c->fault, OP_EMBED_FWD, pos->data, B, T, wpe->dim[0], c->stream)))
        return;
    cuda_ok(b, op,
            cuda_embed_fwd(y->type, y->data, ids->data, wte->data, wpe->data, data_of(pos), B, T, C,
                           cuda_drop_of(drop), c->fault, c->stream));
}

void cuda_op_embed_bwd(struct backend *b, struct tensor *dwte, struct tensor *dwpe,
                       struct tensor *dy, const struct tensor *ids, struct dropout drop)
{
    const char *op = "embed_bwd";
    const struct tensor *params[] = {dwte, dwpe};
    struct cuda *c = cuda_of(b);
    int64_t B = dy->dim[0], T = dy->dim[1], C = dy->dim[2];
    if (!cuda_all_f32(b, op, params, 2))
        return;
    if (B * T > INT32_MAX) {
        backend_fail(b, "%s: %lld tokens at once", op, (long long)(B * T));
        return;
    }
    int32_t *links =
        cuda_scratch(b, SCRATCH_PARTIAL, (size_t)cuda_embed_links(B * T) * sizeof *links);
    if (!links || !cuda_ok(b, op,
                           cuda_check_ids(c->fault, OP_EMBED_BWD, FAULT_ID, ids->data, NULL, B, T,
                                          0, false, dwte->dim[0], c->stream)))
        return;
    cuda_ok(b, op,
            cuda_embed_bwd(dy->type, dwte->data, dwpe->data, dy->data, ids->data, links, B, T, C,
                           cuda_drop_of(drop), c->fault, c->stream));
}

/* ---- norm ---- */

static bool norm_of(struct backend *b, const char *op, struct cuda_norm *n, const struct tensor *x,
                    struct dropout drop)
{
    *n = (struct cuda_norm){
        .type = x->type,
        .N = cuda_rows(x),
        .C = x->dim[x->ndim - 1],
        .drop = cuda_drop_of(drop),
    };
    n->T = x->ndim == 3 ? x->dim[1] : n->N;
    if (n->C > CUDA_NORM_WIDTH)
        backend_fail(b, "%s: rows of %lld columns, on cuda there may be %d", op, (long long)n->C,
                     CUDA_NORM_WIDTH);
    return !b->failed;
}

void cuda_op_add_norm_fwd(struct backend *b, struct tensor *sum, struct tensor *y,
                          struct tensor *mean, struct tensor *rstd, const struct tensor *x,
                          const struct tensor *r, const struct tensor *w, const struct tensor *bias,
                          float eps, struct dropout drop)
{
    const char *op = "add_norm_fwd";
    const struct tensor *params[] = {w, bias}, *acts[] = {x, y, r, r ? sum : NULL};
    struct cuda_norm n;
    if (!cuda_all_f32(b, op, params, 2) || !cuda_same_type(b, op, acts, 4) ||
        !norm_of(b, op, &n, x, drop))
        return;
    cuda_ok(b, op,
            cuda_norm_fwd(&n, r ? sum->data : NULL, y->data, data_of(mean), data_of(rstd), x->data,
                          data_of(r), w->data, bias->data, eps, cuda_of(b)->stream));
}

void cuda_op_add_norm_bwd(struct backend *b, struct tensor *dsum, struct tensor *dr,
                          struct tensor *dw, struct tensor *dbias, const struct tensor *dy,
                          const struct tensor *sum, const struct tensor *mean,
                          const struct tensor *rstd, const struct tensor *w, struct dropout drop)
{
    const char *op = "add_norm_bwd";
    const struct tensor *params[] = {w, dw, dbias}, *acts[] = {sum, dsum, dr, dy};
    struct cuda_norm n;
    if (!cuda_all_f32(b, op, params, 3) || !cuda_same_type(b, op, acts, 4) ||
        !norm_of(b, op, &n, sum, drop))
        return;
    float *partial = cuda_scratch(b, SCRATCH_PARTIAL,
                                  (size_t)(cuda_norm_partials(n.N) * 2 * n.C) * sizeof *partial);
    if (partial)
        cuda_ok(b, op,
                cuda_norm_bwd(&n, dsum->data, data_of(dr), dw->data, dbias->data, dy->data,
                              sum->data, mean->data, rstd->data, w->data, partial,
                              cuda_of(b)->stream));
}

/* ---- attention ---- */

static bool attention_of(struct backend *b, const char *op, struct cuda_attention *a,
                         const struct tensor *qkv, int heads, struct dropout drop)
{
    *a = (struct cuda_attention){
        .type = qkv->type,
        .B = qkv->dim[0],
        .T = qkv->dim[1],
        .C = qkv->dim[2] / 3,
        .heads = heads,
        .drop = cuda_drop_of(drop),
    };
    if (a->C / heads > CUDA_HEAD_SIZE)
        backend_fail(b, "%s: heads of %lld, on cuda there may be %d", op, (long long)(a->C / heads),
                     CUDA_HEAD_SIZE);
    return !b->failed;
}

void cuda_op_attention_fwd(struct backend *b, struct tensor *y, struct tensor *lse,
                           const struct tensor *qkv, int heads, struct dropout drop)
{
    const char *op = "attention_fwd";
    const struct tensor *acts[] = {qkv, y};
    struct cuda_attention a;
    if (cuda_same_type(b, op, acts, 2) && attention_of(b, op, &a, qkv, heads, drop))
        cuda_ok(b, op, cuda_attention_fwd(&a, y->data, lse->data, qkv->data, cuda_of(b)->stream));
}

void cuda_op_attention_bwd(struct backend *b, struct tensor *dqkv, const struct tensor *dy,
                           const struct tensor *y, const struct tensor *qkv,
                           const struct tensor *lse, int heads, struct dropout drop)
{
    const char *op = "attention_bwd";
    const struct tensor *acts[] = {qkv, dqkv, dy, y};
    struct cuda_attention a;
    if (!cuda_same_type(b, op, acts, 4) || !attention_of(b, op, &a, qkv, heads, drop))
        return;
    float *delta = cuda_scratch(b, SCRATCH_PARTIAL, (size_t)(a.B * heads * a.T) * sizeof *delta);
    if (delta)
        cuda_ok(b, op,
                cuda_attention_bwd(&a, dqkv->data, dy->data, y->data, qkv->data, lse->data, delta,
                                   cuda_of(b)->stream));
}

/* ---- decoding ---- */

static bool cache_of(struct backend *b, const char *op, enum cuda_op which, struct cuda_cache *c,
                     const struct tensor *k, const struct tensor *v, const struct tensor *qkv,
                     const struct tensor *pos, int heads, int64_t T)
{
    const struct tensor *acts[] = {qkv, k, v};
    *c = (struct cuda_cache){
        .type = qkv->type,
        .B = k->dim[0],
        .T = T,
        .C = qkv->dim[qkv->ndim - 1] / 3,
        .positions = k->dim[2],
        .heads = heads,
    };
    return cuda_same_type(b, op, acts, 3) &&
           cuda_ok(b, op,
                   cuda_check_pos(cuda_of(b)->fault, which, pos->data, c->B, T, c->positions,
                                  cuda_of(b)->stream));
}

void cuda_op_kv_write(struct backend *b, struct tensor *k, struct tensor *v,
                      const struct tensor *qkv, const struct tensor *pos, int heads)
{
    struct cuda *cu = cuda_of(b);
    struct cuda_cache c;
    if (cache_of(b, "kv_write", OP_KV_WRITE, &c, k, v, qkv, pos, heads, qkv->dim[1]))
        cuda_ok(b, "kv_write",
                cuda_kv_write(&c, k->data, v->data, qkv->data, pos->data, cu->fault, cu->stream));
}

void cuda_op_attention_step(struct backend *b, struct tensor *y, struct tensor *k, struct tensor *v,
                            const struct tensor *qkv, const struct tensor *pos, int heads)
{
    struct cuda *cu = cuda_of(b);
    struct cuda_cache c;
    const struct tensor *acts[] = {qkv, y};
    if (cuda_same_type(b, "attention_step", acts, 2) &&
        cache_of(b, "attention_step", OP_ATTENTION_STEP, &c, k, v, qkv, pos, heads, 1))
        cuda_ok(b, "attention_step",
                cuda_attention_step(&c, y->data, k->data, v->data, qkv->data, pos->data, cu->fault,
                                    cu->stream));
}

/* ---- loss and update ---- */

void cuda_op_classifier(struct backend *b, struct tensor *loss, struct tensor *logits,
                        const struct tensor *targets, const struct tensor *scale, bool grad,
                        int64_t vocab)
{
    struct cuda *c = cuda_of(b);
    int64_t N = cuda_rows(logits), width = logits->dim[logits->ndim - 1];
    if (cuda_ok(b, "classifier",
                cuda_check_ids(c->fault, OP_CLASSIFIER, FAULT_TARGET, targets->data, NULL, N, 1, -1,
                               false, vocab, c->stream)))
        cuda_ok(b, "classifier",
                cuda_classifier(logits->type, loss->data, logits->data, targets->data,
                                grad ? scale->data : NULL, grad, N, vocab, width, c->fault,
                                c->stream));
}

void cuda_op_sum_squares(struct backend *b, struct tensor *dst, const struct tensor *x)
{
    const struct tensor *all[] = {x};
    int64_t n = tensor_count(x);
    if (!cuda_all_f32(b, "sum_squares", all, 1))
        return;
    double *partial =
        cuda_scratch(b, SCRATCH_PARTIAL, (size_t)cuda_square_partials(n) * sizeof *partial);
    if (partial)
        cuda_ok(b, "sum_squares",
                cuda_sum_squares(dst->data, x->data, partial, n, cuda_of(b)->stream));
}

/* The segments are the same step after step: they go to the device only when they change. */
static bool put_segments(struct backend *b, const struct adamw *h)
{
    struct cuda *c = cuda_of(b);
    size_t n = (size_t)h->nsegments, bytes = n * sizeof(struct cuda_segment);
    struct cuda_segment *v = mem_array(n ? n : 1, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] =
            (struct cuda_segment){h->segments[i].begin, h->segments[i].end, h->segments[i].decay};
    if (c->nsegments == h->nsegments && memcmp(v, c->segments_host, bytes) == 0) {
        free(v);
        return true;
    }
    free(c->segments_host);
    c->segments_host = v;
    if (c->segments)
        cudaFree(c->segments);
    c->segments = NULL;
    c->nsegments = h->nsegments;
    return cuda_ok(b, "adamw", cudaMalloc((void **)&c->segments, bytes ? bytes : 1)) &&
           cuda_upload(b, "adamw", c->segments, v, bytes);
}

void cuda_op_adamw(struct backend *b, struct tensor *params, const struct tensor *grads,
                   struct tensor *m, struct tensor *v, const struct adamw *h,
                   const struct tensor *gscale, const struct tensor *skip)
{
    struct cuda *c = cuda_of(b);
    if (!put_segments(b, h))
        return;
    double c1 = 1 - pow((double)h->beta1, (double)h->step);
    double c2 = 1 - pow((double)h->beta2, (double)h->step);
    struct cuda_rates k = {
        .decay = (float)(1 - (double)h->lr * (double)h->weight_decay),
        .b1 = h->beta1,
        .b2 = h->beta2,
        .rate = (float)((double)h->lr / c1),
        .root = (float)(1 / sqrt(c2)),
        .eps = h->eps,
        .lo = h->lo,
        .hi = h->hi,
        .segments = c->segments,
        .nsegments = h->nsegments,
    };
    cuda_ok(b, "adamw",
            cuda_adamw(params->data, grads->data, m->data, v->data, &k, gscale->data, skip->data,
                       c->fault, c->stream));
}

void cuda_op_cast(struct backend *b, struct tensor *dst, const struct tensor *src,
                  const struct rounding *r)
{
    struct cuda *c = cuda_of(b);
    int64_t n = tensor_count(src);
    if (r)
        cuda_ok(
            b, "cast",
            cuda_cast_stochastic(dst->type, dst->data, src->data, n, r->key, r->first, c->stream));
    else
        cuda_ok(b, "cast", cuda_cast(dst->type, dst->data, src->data, n, c->stream));
}
