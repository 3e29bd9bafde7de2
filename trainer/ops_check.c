/* ops_check: types, shapes and ranges of an op's arguments, see ops_check.h; and the rows that a
 * backend's table must have. */
#include "trainer/ops_check.h"

#include <stdio.h>

static void dims_text(char *out, size_t n, const int64_t *d, int ndim)
{
    size_t at = (size_t)snprintf(out, n, "[");
    for (int i = 0; i < ndim && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%lld", i ? ", " : "", (long long)d[i]);
    if (at < n)
        snprintf(out + at, n - at, "]");
}

static bool kind_ok(const struct backend *b, enum arg_kind k, enum dtype t)
{
    switch (k) {
    case REAL:
        return t != DTYPE_I32 && t != DTYPE_U64 && b->ops->supports(b, t);
    case WEIGHT:
        return (t == DTYPE_BF16 && b->ops->bf16_weights) || kind_ok(b, REAL, t);
    case F32:
        return t == DTYPE_F32;
    case I32:
        return t == DTYPE_I32;
    default:
        return t == DTYPE_U64;
    }
}

static bool arg_ok(struct backend *b, const char *op, const struct arg *a)
{
    const struct tensor *t = a->t;
    if (!t || !t->data) {
        backend_fail(b, "%s: %s is not there", op, a->name);
        return false;
    }
    if (!kind_ok(b, a->kind, t->type)) {
        backend_fail(b, "%s: %s has type %s", op, a->name, dtype_name(t->type));
        return false;
    }
    int64_t n = tensor_count(t);
    bool same = t->ndim >= 1 && t->ndim <= 4 && n >= 0;
    if (a->ndim == 0)
        same = same && n == a->d[0];
    else
        for (int i = 0; same && i < a->ndim; i++)
            same = t->ndim == a->ndim && t->dim[i] == a->d[i];
    if (!same) {
        char have[96], want[96];
        dims_text(have, sizeof have, t->dim, t->ndim < 0 || t->ndim > 4 ? 4 : t->ndim);
        dims_text(want, sizeof want, a->d, a->ndim ? a->ndim : 1);
        backend_fail(b, "%s: %s is %s, want %s%s", op, a->name, have, want,
                     a->ndim ? "" : " elements in any shape");
    }
    return same;
}

bool args_ok(struct backend *b, const char *op, const struct arg *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!arg_ok(b, op, &a[i]))
            return false;
    return true;
}

bool base_ok(struct backend *b, const char *op, const char *name, const struct tensor *t, int ndim)
{
    bool ok = t && t->data && t->ndim >= 1 && t->ndim <= 4 && (!ndim || t->ndim == ndim) &&
              tensor_count(t) > 0;
    if (!ok && ndim)
        backend_fail(b, "%s: %s must have %d dimensions, none empty", op, name, ndim);
    else if (!ok)
        backend_fail(b, "%s: %s is missing or empty", op, name);
    return ok;
}

bool drop_ok(struct backend *b, const char *op, struct dropout drop, int64_t B)
{
    if (drop.p == 0)
        return true;
    if (!(drop.p > 0 && drop.p < 1)) {
        backend_fail(b, "%s: dropout of %g is not in [0, 1)", op, (double)drop.p);
        return false;
    }
    const struct arg a[] = {{"dropout's sequence ids", drop.seq, U64, 0, {B}}};
    return ARGS_OK(b, op, a);
}

int64_t last_dim(const struct tensor *t)
{
    return t->dim[t->ndim - 1];
}

bool heads_ok(struct backend *b, const char *op, const struct tensor *qkv, int heads)
{
    if (heads > 0 && last_dim(qkv) % 3 == 0 && last_dim(qkv) / 3 % heads == 0)
        return true;
    backend_fail(b, "%s: %lld columns of qkv are not 3 x %d heads", op, (long long)last_dim(qkv),
                 heads);
    return false;
}

bool segments_ok(struct backend *b, const char *op, const struct adamw *h)
{
    int64_t at = h->lo;
    for (int i = 0; i < h->nsegments; i++) {
        const struct adamw_segment *s = &h->segments[i];
        if (s->end <= h->lo || s->begin >= h->hi)
            continue;
        if (at == h->lo ? s->begin > at : s->begin != at) {
            backend_fail(b, "%s: segment %d begins at %lld, want %lld", op, i, (long long)s->begin,
                         (long long)at);
            return false;
        }
        at = s->end;
    }
    if (at < h->hi)
        backend_fail(b, "%s: the segments end at %lld before %lld", op, (long long)at,
                     (long long)h->hi);
    return at >= h->hi;
}

const char *ops_missing(const struct backend_ops *o)
{
    const struct {
        const char *name;
        bool there;
    } rows[] = {
        {"open", o->open != NULL},
        {"close", o->close != NULL},
        {"supports", o->supports != NULL},
        {"describe", o->describe != NULL},
        {"memory_free", o->memory_free != NULL},
        {"alloc", o->alloc != NULL},
        {"put", o->put != NULL},
        {"get", o->get != NULL},
        {"sync", o->sync != NULL},
        {"embed_fwd", o->embed_fwd != NULL},
        {"embed_bwd", o->embed_bwd != NULL},
        {"add_norm_fwd", o->add_norm_fwd != NULL},
        {"add_norm_bwd", o->add_norm_bwd != NULL},
        {"linear_fwd", o->linear_fwd != NULL},
        {"linear_bwd", o->linear_bwd != NULL},
        {"gelu_fwd", o->gelu_fwd != NULL},
        {"attention_fwd", o->attention_fwd != NULL},
        {"attention_bwd", o->attention_bwd != NULL},
        {"kv_write", o->kv_write != NULL},
        {"attention_step", o->attention_step != NULL},
        {"classifier", o->classifier != NULL},
        {"sum_squares", o->sum_squares != NULL},
        {"adamw", o->adamw != NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].there)
            return rows[i].name;
    return NULL;
}
