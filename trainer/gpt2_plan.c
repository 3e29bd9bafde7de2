/* gpt2_plan: what a model needs before it is allocated.
 *
 * gpt2_buffers() is the one list of buffers: the plan sums it and gpt2_new() allocates it, so the
 * two cannot differ. While training, each block keeps what its backward pass reads (8 C + 2 inner
 * elements a row) but for what it computes again, which all blocks share; otherwise all blocks share
 * one set. Logits exist for a part of the rows at a time: rows x vocabulary would be the largest
 * buffer of all. How many suits a device is in its prefers.
 */
#include "trainer/gpt2_private.h"
#include "trainer/reduce.h"

#include <stdio.h>
#include <string.h>

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t gpt2_rows(const struct gpt2_use *u)
{
    int64_t all = u->batch * u->length;
    if (u->train)
        return all;
    return min64(all, max64(u->prefers->eval_rows, max64(u->length, u->batch)));
}

int64_t gpt2_head_rows(const struct model_config *c, const struct gpt2_use *u)
{
    int64_t n = max64(64, u->prefers->logits / max64(1, gpt2_padded(c, u)));
    if (n > 16)
        n -= n % 16;
    return min64(n, gpt2_rows(u));
}

enum dtype gpt2_type(const struct gpt2_use *u)
{
    return u->precision == PRECISION_BF16   ? DTYPE_BF16
           : u->precision == PRECISION_FP16 ? DTYPE_F16
                                            : DTYPE_F32;
}

enum dtype gpt2_copy_type(const struct gpt2_use *u)
{
    enum dtype t = gpt2_type(u);
    return t == DTYPE_F32 && u->bf16_weights ? DTYPE_BF16 : t;
}

int64_t gpt2_padded(const struct model_config *c, const struct gpt2_use *u)
{
    int64_t m = u->prefers->vocab_pad;
    return (c->vocab + m - 1) / m * m;
}

struct list_of {
    struct buffer *v;
    int n;
};

static void add(struct list_of *l, enum buffer_kind kind, int64_t bytes, int64_t copies,
                enum buffer_home home, size_t at)
{
    l->v[l->n++] = (struct buffer){kind, bytes, copies, home, at};
}

/* Activations w and f wide are of the model's type, statistics f32. */
static void add_kept(struct list_of *l, const struct model_config *c, const struct gpt2_use *u,
                     int64_t rows)
{
    int64_t each = rows * (int64_t)dtype_size(gpt2_type(u)), row = rows * 4;
    int64_t w = each * c->width, f = each * (c->inner ? c->inner : 4 * c->width);
    int64_t all = u->train ? c->layers : 1;
    int64_t act = u->recompute == RECOMPUTE_NONE ? all : 1;
    int64_t rest = u->recompute == RECOMPUTE_LAYER ? 1 : all;
#define KEPT(member, bytes, copies)                                                                \
    add(l, BUFFER_ACTS, (bytes), (copies), HOME_KEPT, offsetof(struct kept, member))
    KEPT(x, w, all);
    KEPT(norm1, w, rest);
    KEPT(qkv, 3 * w, rest);
    KEPT(att, w, rest);
    KEPT(pre, f, rest);
    KEPT(act, f, act);
    KEPT(lse, row * c->heads, rest);
    if (u->train) {
        KEPT(mid, w, rest);
        KEPT(norm2, w, rest);
        KEPT(mean1, row, rest);
        KEPT(rstd1, row, rest);
        KEPT(mean2, row, rest);
        KEPT(rstd2, row, rest);
    }
#undef KEPT
}

/* Bytes of logits: f32 without training; else in the model's type, and f32 for validation in the same
 * place, at least one row. */
static int64_t logits_bytes(const struct model_config *c, const struct gpt2_use *u)
{
    int64_t each = u->train ? (int64_t)dtype_size(gpt2_type(u)) : 4;
    return max64(gpt2_head_rows(c, u) * each, 4) * gpt2_padded(c, u);
}

/* Elements of the flat vector. */
static int64_t flat_count(const struct model_config *c, const struct gpt2_use *u)
{
    return params_count(c) + (gpt2_padded(c, u) - c->vocab) * c->width;
}

int gpt2_buffers(const struct model_config *c, const struct gpt2_use *use, struct buffer *out)
{
    struct list_of l = {out, 0};
    struct gpt2_use on = gpt2_use_on(use, NULL), *u = &on;
    int64_t size = (int64_t)dtype_size(gpt2_type(u));
    int64_t rows = gpt2_rows(u), row = rows * 4, w = rows * size * c->width;
    int64_t grain = u->grain > 0 && u->grain < u->batch ? u->grain : u->batch;
    int64_t back = grain * u->length * size * c->width;
    int64_t f = c->inner ? c->inner : 4 * c->width;
    int64_t flat = reduce_extent(flat_count(c, u), u->ranks) * 4;
    int64_t moment = u->zero && u->ranks > 1 ? flat / u->ranks : flat;
#define ONE(kind, member, bytes)                                                                   \
    add(&l, (kind), (bytes), 1, HOME_MODEL, offsetof(struct gpt2, member))
    ONE(BUFFER_PARAMS, w.flat.data, flat);
    int64_t narrow = (int64_t)dtype_size(gpt2_copy_type(u));
    if (narrow < 4)
        ONE(BUFFER_COPY, copy.data, flat / 4 * narrow);
    if (u->train) {
        ONE(BUFFER_GRADS, g.flat.data, flat);
        ONE(BUFFER_MOMENTS, m.data, moment);
        ONE(BUFFER_MOMENTS, v.data, moment);
    }
    add_kept(&l, c, u, rows);
    ONE(BUFFER_ACTS, branch, w);
    ONE(BUFFER_ACTS, last_norm, w);
    if (u->train) {
        ONE(BUFFER_ACTS, last_x, w);
        ONE(BUFFER_ACTS, last_mean, row);
        ONE(BUFFER_ACTS, last_rstd, row);
        ONE(BUFFER_ACTS, d_res, back);
        ONE(BUFFER_ACTS, d_branch, back);
        ONE(BUFFER_ACTS, d_norm, back);
        ONE(BUFFER_ACTS, d_qkv, 3 * back);
        ONE(BUFFER_ACTS, d_act, back / c->width * f);
    }
    ONE(BUFFER_ACTS, loss, row);
    ONE(BUFFER_ACTS, ids, row);
    ONE(BUFFER_ACTS, targets, row);
    ONE(BUFFER_ACTS, pos, u->batch * 4);
    ONE(BUFFER_ACTS, seq, u->batch * 8);
    ONE(BUFFER_ACTS, scalars, 64);
    ONE(BUFFER_LOGITS, logits, logits_bytes(c, u));
    if (u->decode) {
        int64_t cache = u->batch * u->length * c->width * size;
        add(&l, BUFFER_KV, cache, c->layers, HOME_CACHE_K, 0);
        add(&l, BUFFER_KV, cache, c->layers, HOME_CACHE_V, 0);
    }
#undef ONE
    return l.n;
}

void gpt2_plan(const struct model_config *c, const struct gpt2_use *u, struct gpt2_plan *out)
{
    struct buffer list[BUFFERS];
    int n = gpt2_buffers(c, u, list);
    memset(out, 0, sizeof *out);
    int64_t *sum[] = {[BUFFER_PARAMS] = &out->params,
                      [BUFFER_COPY] = &out->copy,
                      [BUFFER_GRADS] = &out->grads,
                      [BUFFER_MOMENTS] = &out->moments,
                      [BUFFER_ACTS] = &out->activations,
                      [BUFFER_LOGITS] = &out->logits,
                      [BUFFER_KV] = &out->kv};
    for (int i = 0; i < n; i++) {
        *sum[list[i].kind] += list[i].bytes * list[i].copies;
        out->total += list[i].bytes * list[i].copies;
    }
}

void gpt2_size_text(int64_t bytes, char out[32])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    int k = 0;
    while (v >= 1024 && k < 5) {
        v /= 1024;
        k++;
    }
    snprintf(out, 32, k && v < 100 ? "%.1f %s" : "%.0f %s", v, unit[k]);
}

void gpt2_plan_text(const struct gpt2_plan *p, char *out, size_t n)
{
    const struct {
        const char *name;
        int64_t bytes;
    } parts[] = {{"weights", p->params},  {"their copy", p->copy},         {"gradients", p->grads},
                 {"moments", p->moments}, {"activations", p->activations}, {"logits", p->logits},
                 {"KV cache", p->kv}};
    char size[32];
    gpt2_size_text(p->total, size);
    size_t at = (size_t)snprintf(out, n, "%s", size);
    const char *before = " = ";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].bytes || at >= n)
            continue;
        gpt2_size_text(parts[i].bytes, size);
        at += (size_t)snprintf(out + at, n - at, "%s%s %s", before, parts[i].name, size);
        before = " + ";
    }
}
