/* attention: causal softmax attention, a head of a sequence at a time.
 *
 * A task is one (sequence, head). It packs what the products need contiguously (keys and values
 * transposed in panels of 32 columns, all padded with zeros to multiples of 16) and walks over
 * strips of 32 queries; a strip's scores against the keys before it are all that ever exists of the
 * T x T matrix, so memory grows with T and the rate stays flat. The backward pass computes the
 * scores again from lse (Dao et al., "FlashAttention", arXiv 2205.14135), in tiles of 32 x 256 that
 * stay in the first two levels of cache.
 *
 * Products run over whole strips, so a NaN or inf in a value reaches up to 31 earlier queries of
 * its strip as NaN; finite values never do.
 */
#include <math.h>
#include <string.h>

#include "trainer/cpu/impl.h"

enum { STRIP = 32, PANEL = 32, TILE = 256, PAD = 16 };

struct attention_job {
    struct cpu *c;
    int64_t B, T, C, HS, heads;
    int64_t TP, HP; /* T and HS up to a multiple of 16 */
    float scale;
    const float *qkv, *y, *dy;
    float *out, *lse, *dqkv;
    struct cpu_drop drop;
};

static int64_t pad16(int64_t n)
{
    return (n + PAD - 1) / PAD * PAD;
}

/* to[T][HP] = columns `at` .. at + HS of rows of `width` floats; zeros behind. */
static void pack_rows(const struct attention_job *j, float *to, const float *from, int64_t width)
{
    for (int64_t t = 0; t < j->T; t++) {
        memcpy(to + t * j->HP, from + t * width, (size_t)j->HS * sizeof *to);
        memset(to + t * j->HP + j->HS, 0, (size_t)(j->HP - j->HS) * sizeof *to);
    }
}

/* Panels [TP / 32][HS][32] of the transposed rows times `by`; zeros behind T. */
static void pack_panels(const struct attention_job *j, float *to, const float *from, int64_t width,
                        float by)
{
    for (int64_t t = 0; t < j->TP; t += PANEL, to += j->HS * PANEL) {
        int64_t n = j->T - t < PANEL ? j->T - t : PANEL;
        if (n < PANEL)
            memset(to, 0, (size_t)(j->HS * PANEL) * sizeof *to);
        if (n > 0)
            j->c->vec->transpose(to, PANEL, from + t * width, width, n, j->HS, by);
    }
}

/* s[rows][..] (ld) = a[rows][HS] times the panels' columns from .. to (multiples of 16; from of
 * 32). */
static void times_panels(const struct attention_job *j, float *s, int64_t ld, const float *a,
                         int64_t lda, int64_t rows, const float *panels, int64_t from, int64_t to)
{
    for (int64_t p = from; p < to; p += PANEL)
        j->c->vec->mm(rows, to - p < PANEL ? to - p : PANEL, j->HS, a, lda, 1, panels + p * j->HS,
                      PANEL, false, s + (p - from), ld);
}

/* The mask of scores i, from .. from + n of head h. */
static void score_mask(const struct attention_job *j, float *mask, int64_t s, int64_t h, int64_t i,
                       int64_t from, int64_t n)
{
    cpu_mask(j->c, &j->drop, mask, s, (uint64_t)((h * j->T + i) * j->T + from), n);
}

/* Softmax of one row of scores, not yet divided by its sum; columns behind i become 0. */
static float softmax_row(const struct vec *v, float *s, int64_t i, int64_t columns, float *lse)
{
    int64_t end = pad16(i + 1);
    float max = v->max(s, i + 1);
    for (int64_t k = i + 1; k < end; k++)
        s[k] = -INFINITY;
    float sum = (float)v->exp_sum(s, s, max, end);
    memset(s + end, 0, (size_t)(columns - end) * sizeof *s);
    *lse = max + logf(sum);
    return sum;
}

static void fwd_task(void *ctx, int64_t task, int worker)
{
    const struct attention_job *j = ctx;
    const struct vec *v = j->c->vec;
    int64_t b = task / j->heads, h = task % j->heads, W = 3 * j->C, ld = j->TP + PAD;
    int64_t panels = (j->TP + PANEL - 1) / PANEL * PANEL;
    const float *q = j->qkv + b * j->T * W + h * j->HS;
    size_t n = (size_t)(panels * j->HS + j->T * j->HP + STRIP * (ld + j->HP) + ld);
    float *kt = cpu_scratch(j->c, worker, n), *vs = kt + panels * j->HS, *s = vs + j->T * j->HP;
    float *o = s + STRIP * ld, *mask = o + STRIP * j->HP;
    pack_panels(j, kt, q + j->C, W, j->scale);
    pack_rows(j, vs, q + 2 * j->C, W);
    for (int64_t i0 = 0; i0 < j->T; i0 += STRIP) {
        int64_t rows = j->T - i0 < STRIP ? j->T - i0 : STRIP, columns = pad16(i0 + rows);
        float sums[STRIP];
        times_panels(j, s, ld, q + i0 * W, W, rows, kt, 0, columns);
        for (int64_t r = 0; r < rows; r++) {
            int64_t i = i0 + r;
            sums[r] = softmax_row(v, s + r * ld, i, columns, &j->lse[task * j->T + i]);
            if (j->drop.on) {
                score_mask(j, mask, b, h, i, 0, i + 1);
                v->mul(s + r * ld, s + r * ld, mask, i + 1);
            }
        }
        int64_t inner = columns < j->T ? columns : j->T;
        v->mm(rows, j->HP, inner, s, ld, 1, vs, j->HP, false, o, j->HP);
        for (int64_t r = 0; r < rows; r++) {
            v->scale(o + r * j->HP, 1 / sums[r], j->HS);
            memcpy(j->out + (b * j->T + i0 + r) * j->C + h * j->HS, o + r * j->HP,
                   (size_t)j->HS * sizeof *o);
        }
    }
}

static struct attention_job job_of(struct backend *b, const struct tensor *qkv, int heads,
                                   struct dropout drop)
{
    int64_t C = qkv->dim[2] / 3, T = qkv->dim[1];
    return (struct attention_job){
        .c = cpu_of(b),
        .B = qkv->dim[0],
        .T = T,
        .C = C,
        .HS = C / heads,
        .heads = heads,
        .TP = pad16(T),
        .HP = pad16(C / heads),
        .scale = (float)(1 / sqrt((double)(C / heads))),
        .qkv = qkv->data,
        .drop = cpu_drop(drop),
    };
}

void cpu_attention_fwd(struct backend *b, struct tensor *y, struct tensor *lse,
                       const struct tensor *qkv, int heads, struct dropout drop)
{
    struct attention_job j = job_of(b, qkv, heads, drop);
    j.out = y->data;
    j.lse = lse->data;
    pool_run(j.c->pool, j.B * heads, fwd_task, &j);
}

/* What one task of the backward pass holds. */
struct head {
    float *kt, *vt;            /* panels, keys scaled */
    float *q, *k, *dout;       /* rows [T][HP] */
    float *dq, *dk, *dv;       /* rows [T][HP] */
    float *p, *dp, *pd, *mask; /* tiles [STRIP][TILE]; pd: p with dropout */
    const float *lse;
    int64_t b, h;
};

/* P, dropped P and dS of one tile: rows i0 .. + rows, columns j0 .. + columns. */
static void tile_rows(const struct attention_job *j, struct head *a, const float *delta, int64_t i0,
                      int64_t rows, int64_t j0, int64_t columns)
{
    const struct vec *v = j->c->vec;
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = i0 + r, n = i + 1 - j0;
        n = n < 0 ? 0 : n < columns ? n : columns;
        float *p = a->p + r * TILE, *dp = a->dp + r * TILE, *mask = NULL;
        v->exp_sum(p, p, a->lse[i], n);
        memset(p + n, 0, (size_t)(columns - n) * sizeof *p);
        memset(dp + n, 0, (size_t)(columns - n) * sizeof *p);
        if (j->drop.on) {
            mask = a->mask;
            score_mask(j, mask, a->b, a->h, i, j0, n);
            v->mul(a->pd + r * TILE, p, mask, n);
            memset(a->pd + r * TILE + n, 0, (size_t)(columns - n) * sizeof *p);
        }
        v->softmax_grad(dp, p, mask, delta[r], j->scale, n);
    }
}

static void bwd_strip(const struct attention_job *j, struct head *a, int64_t i0)
{
    const struct vec *v = j->c->vec;
    int64_t rows = j->T - i0 < STRIP ? j->T - i0 : STRIP, end = pad16(i0 + rows), HP = j->HP;
    float delta[STRIP];
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = (a->b * j->T + i0 + r) * j->C + a->h * j->HS;
        delta[r] = v->dot(j->dy + at, j->y + at, j->HS);
    }
    const float *q = a->q + i0 * HP, *dout = a->dout + i0 * HP;
    for (int64_t j0 = 0; j0 < end; j0 += TILE) {
        int64_t to = end - j0 < TILE ? end : j0 + TILE, columns = to - j0;
        int64_t keys = (to < j->T ? to : j->T) - j0;
        times_panels(j, a->p, TILE, q, HP, rows, a->kt, j0, to);
        times_panels(j, a->dp, TILE, dout, HP, rows, a->vt, j0, to);
        tile_rows(j, a, delta, i0, rows, j0, columns);
        v->mm(keys, HP, rows, j->drop.on ? a->pd : a->p, 1, TILE, dout, HP, true, a->dv + j0 * HP,
              HP);
        v->mm(keys, HP, rows, a->dp, 1, TILE, q, HP, true, a->dk + j0 * HP, HP);
        v->mm(rows, HP, keys, a->dp, TILE, 1, a->k + j0 * HP, HP, true, a->dq + i0 * HP, HP);
    }
}

static void bwd_task(void *ctx, int64_t task, int worker)
{
    const struct attention_job *j = ctx;
    int64_t W = 3 * j->C, rows = j->T * j->HP, tile = STRIP * TILE;
    int64_t panels = (j->TP + PANEL - 1) / PANEL * PANEL * j->HS;
    float *at = cpu_scratch(j->c, worker, (size_t)(2 * panels + 6 * rows + 3 * tile + TILE));
    struct head a = {.b = task / j->heads, .h = task % j->heads, .lse = j->lse + task * j->T};
    a.kt = at, a.vt = a.kt + panels;
    a.q = a.vt + panels, a.k = a.q + rows, a.dout = a.k + rows;
    a.dq = a.dout + rows, a.dk = a.dq + rows, a.dv = a.dk + rows;
    a.p = a.dv + rows, a.dp = a.p + tile, a.pd = a.dp + tile, a.mask = a.pd + tile;
    const float *q = j->qkv + a.b * j->T * W + a.h * j->HS;
    const float *dy = j->dy + a.b * j->T * j->C + a.h * j->HS;
    pack_panels(j, a.kt, q + j->C, W, j->scale);
    pack_panels(j, a.vt, q + 2 * j->C, W, 1.0f);
    pack_rows(j, a.q, q, W);
    pack_rows(j, a.k, q + j->C, W);
    pack_rows(j, a.dout, dy, j->C);
    memset(a.dq, 0, (size_t)(3 * rows) * sizeof *at);
    for (int64_t i0 = 0; i0 < j->T; i0 += STRIP)
        bwd_strip(j, &a, i0);
    float *dq = j->dqkv + a.b * j->T * W + a.h * j->HS;
    for (int64_t t = 0; t < j->T; t++)
        for (int64_t k = 0; k < 3; k++)
            memcpy(dq + t * W + k * j->C, a.dq + k * rows + t * j->HP, (size_t)j->HS * sizeof *dq);
}

void cpu_attention_bwd(struct backend *b, struct tensor *dqkv, const struct tensor *dy,
                       const struct tensor *y, const struct tensor *qkv, const struct tensor *lse,
                       int heads, struct dropout drop)
{
    struct attention_job j = job_of(b, qkv, heads, drop);
    j.dqkv = dqkv->data;
    j.dy = dy->data;
    j.y = y->data;
    j.lse = lse->data;
    pool_run(j.c->pool, j.B * heads, bwd_task, &j);
}
