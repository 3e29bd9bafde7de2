/* gpt2_plan: what a model needs before it is allocated.
 *
 * gpt2_buffers() is the one list of buffers: the plan sums it and gpt2_new() allocates it, so the
 * two cannot differ. While training, each block keeps what its backward pass reads (16 C + 2 inner
 * - 8 C floats a row for the usual inner = 4 C); otherwise all blocks share one set. Logits exist
 * for a few rows at a time: rows x vocabulary would be the largest buffer of all.
 */
#include "trainer/gpt2_private.h"

#include <stdio.h>
#include <string.h>

/* Logits at once, in elements: 32 MiB, around the size of a last-level cache. */
#define LOGITS_ELEMENTS ((int64_t)8 << 20)
/* Rows of one pass while not training: enough to keep matrix products efficient. */
#define PASS_ROWS 4096

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
    return min64(all, max64(PASS_ROWS, max64(u->length, u->batch)));
}

int64_t gpt2_head_rows(const struct model_config *c, int64_t rows)
{
    int64_t n = max64(64, LOGITS_ELEMENTS / max64(1, c->vocab));
    if (n > 16)
        n -= n % 16;
    return min64(n, rows);
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

static void add_kept(struct list_of *l, const struct model_config *c, const struct gpt2_use *u,
                     int64_t rows)
{
    int64_t f = c->inner ? c->inner : 4 * c->width, row = rows * 4;
    int64_t w = row * c->width, copies = u->train ? c->layers : 1;
#define KEPT(member, bytes)                                                                        \
    add(l, BUFFER_ACTS, (bytes), copies, HOME_KEPT, offsetof(struct kept, member))
    KEPT(x, w);
    KEPT(norm1, w);
    KEPT(qkv, 3 * w);
    KEPT(att, w);
    KEPT(pre, row * f);
    KEPT(act, row * f);
    KEPT(lse, row * c->heads);
    if (u->train) {
        KEPT(mid, w);
        KEPT(norm2, w);
        KEPT(mean1, row);
        KEPT(rstd1, row);
        KEPT(mean2, row);
        KEPT(rstd2, row);
    }
#undef KEPT
}

int gpt2_buffers(const struct model_config *c, const struct gpt2_use *u, struct buffer *out)
{
    struct list_of l = {out, 0};
    int64_t rows = gpt2_rows(u), row = rows * 4, w = row * c->width;
    int64_t grain = u->grain > 0 && u->grain < u->batch ? u->grain : u->batch;
    int64_t back = grain * u->length * 4 * c->width;
    int64_t f = c->inner ? c->inner : 4 * c->width, flat = params_count(c) * 4;
#define ONE(kind, member, bytes)                                                                   \
    add(&l, (kind), (bytes), 1, HOME_MODEL, offsetof(struct gpt2, member))
    ONE(BUFFER_PARAMS, w.flat.data, flat);
    if (u->train) {
        ONE(BUFFER_GRADS, g.flat.data, flat);
        ONE(BUFFER_MOMENTS, m.data, flat);
        ONE(BUFFER_MOMENTS, v.data, flat);
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
    ONE(BUFFER_LOGITS, logits, gpt2_head_rows(c, rows) * c->vocab * 4);
    if (u->decode) {
        int64_t cache = u->batch * u->length * c->width * 4;
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
    int64_t *sum[] = {[BUFFER_PARAMS] = &out->params,   [BUFFER_GRADS] = &out->grads,
                      [BUFFER_MOMENTS] = &out->moments, [BUFFER_ACTS] = &out->activations,
                      [BUFFER_LOGITS] = &out->logits,   [BUFFER_KV] = &out->kv};
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
    } parts[] = {{"weights", p->params},          {"gradients", p->grads}, {"moments", p->moments},
                 {"activations", p->activations}, {"logits", p->logits},   {"KV cache", p->kv}};
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
