/* gpt2_block: the blocks of GPT-2, forward and backward, over op_*(): the only file that knows what
 * a block looks like.
 *
 *   x    = x' + dropout(mlp')          x' and mlp' of the block before; embeddings at first
 *   qkv  = norm(x; ln_1) Wqkv + b
 *   mid  = x + dropout(attention(qkv) Wproj + b)
 *   x'   = mid,  mlp' = gelu(norm(mid; ln_2) Wfc + b) Wout + b
 *
 * (Radford et al. 2019; pre-norm as in section 2.3.) Each residual sum is fused with the norm that
 * reads it, so a block ends with its branch not yet added.
 */
#include "trainer/gpt2_private.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* ---- weights ---- */

struct tensor gpt2_view(const struct params *p, struct tensor flat, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return tensor_make(DTYPE_F32, (float *)flat.data + p->v[i].at, p->v[i].ndim,
                               p->v[i].dim[0], p->v[i].dim[1], 0, 0);
    return (struct tensor){0};
}

void gpt2_bind_block(struct block *k, const struct params *p, struct tensor flat, int64_t l)
{
    char name[64], *tail = name + snprintf(name, sizeof name, "h.%lld.", (long long)l);
    size_t room = sizeof name - (size_t)(tail - name);
    const struct {
        struct tensor *t;
        const char *name;
    } rows[] = {
        {&k->ln1w, "ln_1.weight"},         {&k->ln1b, "ln_1.bias"},
        {&k->qkvw, "attn.c_attn.weight"},  {&k->qkvb, "attn.c_attn.bias"},
        {&k->projw, "attn.c_proj.weight"}, {&k->projb, "attn.c_proj.bias"},
        {&k->ln2w, "ln_2.weight"},         {&k->ln2b, "ln_2.bias"},
        {&k->fcw, "mlp.c_fc.weight"},      {&k->fcb, "mlp.c_fc.bias"},
        {&k->outw, "mlp.c_proj.weight"},   {&k->outb, "mlp.c_proj.bias"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(tail, room, "%s", rows[i].name);
        *rows[i].t = gpt2_view(p, flat, name);
    }
}

/* ---- forward ---- */

static struct tensor f2(float *p, int64_t a, int64_t b)
{
    return tensor_2d(DTYPE_F32, p, a, b);
}

static struct tensor f3(float *p, int64_t a, int64_t b, int64_t c)
{
    return tensor_3d(DTYPE_F32, p, a, b, c);
}

void gpt2_tell(struct gpt2 *m, int64_t layer, const char *name, const struct tensor *t)
{
    char full[64];
    if (!m->watch)
        return;
    if (layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "h.%lld.%s", (long long)layer, name);
    m->watch(m->watch_ctx, full, t);
}

/* A mask is decided by (seed, step, layer, site) and the sequence, nothing else. */
static struct dropout drop_of(struct gpt2 *m, const struct gpt2_pass *p, struct tensor *seq,
                              int64_t layer, const char *site)
{
    struct dropout d = {0};
    if (!p->train || m->c.dropout <= 0)
        return d;
    char name[96];
    snprintf(name, sizeof name, "dropout/%llu/%lld/%s", (unsigned long long)p->step,
             (long long)layer, site);
    *seq = tensor_1d(DTYPE_U64, m->seq, p->B);
    d.p = (float)m->c.dropout;
    d.key = rng_key(p->seed, name);
    d.seq = seq;
    return d;
}

/* Attention branch of block l, from k->norm1 to m->branch. */
static void attend(struct gpt2 *m, const struct gpt2_pass *p, int64_t l, struct kept *k)
{
    int64_t B = p->B, T = p->T, C = m->width;
    struct block *w = &m->w.block[l];
    struct tensor norm = f3(k->norm1, B, T, C), qkv = f3(k->qkv, B, T, 3 * C);
    struct tensor att = f3(k->att, B, T, C), lse = f3(k->lse, B, m->heads, T);
    struct tensor out = f3(m->branch, B, T, C), seq;
    op_linear_fwd(m->b, &qkv, &norm, &w->qkvw, WEIGHT_IN_OUT, w->qkvb.data ? &w->qkvb : NULL, NULL);
    gpt2_tell(m, l, "qkv", &qkv);
    if (p->cache_row >= 0) {
        int64_t size = m->use.length * C, HS = C / m->heads;
        struct tensor ck = tensor_make(DTYPE_F32, m->cache_k[l] + p->cache_row * size, 4, B,
                                       m->heads, m->use.length, HS);
        struct tensor cv = tensor_make(DTYPE_F32, m->cache_v[l] + p->cache_row * size, 4, B,
                                       m->heads, m->use.length, HS);
        struct tensor pos = tensor_1d(DTYPE_I32, m->pos, B);
        op_kv_write(m->b, &ck, &cv, &qkv, &pos, (int)m->heads);
    }
    op_attention_fwd(m->b, &att, &lse, &qkv, (int)m->heads, drop_of(m, p, &seq, l, "attention"));
    gpt2_tell(m, l, "att", &att);
    op_linear_fwd(m->b, &out, &att, &w->projw, WEIGHT_IN_OUT, &w->projb, NULL);
    gpt2_tell(m, l, "proj", &out);
}

/* MLP branch of block l, from norm2 to m->branch. */
static void mlp(struct gpt2 *m, const struct gpt2_pass *p, int64_t l, struct kept *k)
{
    int64_t B = p->B, T = p->T, C = m->width, F = m->inner;
    struct block *w = &m->w.block[l];
    struct tensor norm = f3(k->norm2, B, T, C), act = f3(k->act, B, T, F);
    struct tensor out = f3(m->branch, B, T, C);
    struct tensor pre = f3(k->pre, B, T, F);
    op_linear_fwd(m->b, &act, &norm, &w->fcw, WEIGHT_IN_OUT, &w->fcb, &pre);
    gpt2_tell(m, l, "pre", &pre);
    gpt2_tell(m, l, "act", &act);
    op_linear_fwd(m->b, &out, &act, &w->outw, WEIGHT_IN_OUT, &w->outb, NULL);
    gpt2_tell(m, l, "mlp", &out);
}

static struct kept *kept_of(struct gpt2 *m, int64_t l)
{
    return &m->kept[m->use.train ? l : 0];
}

void gpt2_forward(struct gpt2 *m, const struct gpt2_pass *p)
{
    int64_t B = p->B, T = p->T, N = B * T, C = m->width;
    float eps = (float)m->c.norm_eps;
    struct tensor ids = tensor_2d(DTYPE_I32, m->ids, B, T), seq;
    struct tensor branch = f3(m->branch, B, T, C), x = f3(kept_of(m, 0)->x, B, T, C);
    op_embed_fwd(m->b, &x, &ids, &m->w.wte, &m->w.wpe, NULL, drop_of(m, p, &seq, 0, "embed"));
    gpt2_tell(m, -1, "embed", &x);
    for (int64_t l = 0; l < m->layers; l++) {
        struct kept *k = kept_of(m, l);
        struct block *w = &m->w.block[l];
        struct tensor norm1 = f3(k->norm1, B, T, C), norm2 = f3(k->norm2, B, T, C);
        struct tensor mid = f3(k->mid, B, T, C), here = f3(k->x, B, T, C);
        struct tensor mean1 = tensor_1d(DTYPE_F32, k->mean1, N), mean2 = mean1;
        struct tensor rstd1 = tensor_1d(DTYPE_F32, k->rstd1, N), rstd2 = rstd1;
        mean2.data = k->mean2;
        rstd2.data = k->rstd2;
        bool keep = m->use.train;
        op_add_norm_fwd(m->b, l ? &here : NULL, &norm1, keep ? &mean1 : NULL, keep ? &rstd1 : NULL,
                        &x, l ? &branch : NULL, &w->ln1w, &w->ln1b, eps,
                        l ? drop_of(m, p, &seq, l - 1, "mlp") : (struct dropout){0});
        gpt2_tell(m, l, "x", &here);
        gpt2_tell(m, l, "ln_1", &norm1);
        attend(m, p, l, k);
        op_add_norm_fwd(m->b, &mid, &norm2, keep ? &mean2 : NULL, keep ? &rstd2 : NULL, &here,
                        &branch, &w->ln2w, &w->ln2b, eps, drop_of(m, p, &seq, l, "proj"));
        gpt2_tell(m, l, "mid", &mid);
        gpt2_tell(m, l, "ln_2", &norm2);
        mlp(m, p, l, k);
        x = mid;
    }
    struct tensor last = f3(m->last_x, B, T, C), norm = f3(m->last_norm, B, T, C);
    struct tensor mean = tensor_1d(DTYPE_F32, m->last_mean, N);
    struct tensor rstd = tensor_1d(DTYPE_F32, m->last_rstd, N);
    op_add_norm_fwd(m->b, &last, &norm, m->use.train ? &mean : NULL, m->use.train ? &rstd : NULL,
                    &x, &branch, &m->w.lnfw, &m->w.lnfb, eps,
                    drop_of(m, p, &seq, m->layers - 1, "mlp"));
    gpt2_tell(m, -1, "out", &last);
    gpt2_tell(m, -1, "ln_f", &norm);
}

/* ---- backward: n sequences from number `from` of the pass on ---- */

/* One way back through a part of a pass. Gradient buffers hold the part, kept ones the pass. */
struct back {
    struct gpt2 *m;
    const struct gpt2_pass *p; /* B is the part's */
    int64_t from;              /* first sequence */
};

static struct tensor kept3(const struct back *k, float *base, int64_t width)
{
    return f3(base + k->from * k->p->T * width, k->p->B, k->p->T, width);
}

static struct dropout back_drop(const struct back *k, struct tensor *seq, int64_t layer,
                                const char *site)
{
    struct dropout d = drop_of(k->m, k->p, seq, layer, site);
    if (d.p > 0)
        seq->data = k->m->seq + k->from;
    return d;
}

/* Back through a residual sum and the norm that read it: d_norm is the gradient of the norm's
 * output, d_res that of the sum. Returns the gradient of the branch: d_res itself when nothing was
 * dropped from it, else the masked copy in d_branch. */
struct back_norm {
    float *sum, *mean, *rstd;
    const struct tensor *w;
    struct tensor *dw, *dbias;
};
static struct tensor back_sum(const struct back *k, struct back_norm n, int64_t layer,
                              const char *site)
{
    struct gpt2 *m = k->m;
    int64_t B = k->p->B, T = k->p->T, C = m->width;
    struct tensor d_res = f3(m->d_res, B, T, C), d_branch = f3(m->d_branch, B, T, C);
    struct tensor d_norm = f3(m->d_norm, B, T, C), x = kept3(k, n.sum, C), seq;
    struct tensor mean = tensor_1d(DTYPE_F32, n.mean + k->from * T, B * T);
    struct tensor rstd = tensor_1d(DTYPE_F32, n.rstd + k->from * T, B * T);
    struct dropout drop = site ? back_drop(k, &seq, layer, site) : (struct dropout){0};
    op_add_norm_bwd(m->b, &d_res, drop.p > 0 ? &d_branch : NULL, n.dw, n.dbias, &d_norm, &x, &mean,
                    &rstd, n.w, drop);
    return drop.p > 0 ? d_branch : d_res;
}

static void back_block(const struct back *k, int64_t l, struct tensor *d_branch)
{
    struct gpt2 *m = k->m;
    int64_t B = k->p->B, T = k->p->T, C = m->width, F = m->inner;
    struct kept *a = &m->kept[l];
    struct block *w = &m->w.block[l], *g = &m->g.block[l];
    struct tensor d_norm = f3(m->d_norm, B, T, C), d_act = f3(m->d_act, B, T, F);
    struct tensor d_qkv = f3(m->d_qkv, B, T, 3 * C), act = kept3(k, a->act, F);
    struct tensor pre = kept3(k, a->pre, F), norm1 = kept3(k, a->norm1, C);
    struct tensor norm2 = kept3(k, a->norm2, C), att = kept3(k, a->att, C);
    struct tensor qkv = kept3(k, a->qkv, 3 * C), seq;
    struct tensor lse = f3(a->lse + k->from * T * m->heads, B, m->heads, T);
    struct back_norm n2 = {a->mid, a->mean2, a->rstd2, &w->ln2w, &g->ln2w, &g->ln2b};
    struct back_norm n1 = {a->x, a->mean1, a->rstd1, &w->ln1w, &g->ln1w, &g->ln1b};
    op_linear_bwd(m->b, &d_act, false, &g->outw, &g->outb, d_branch, &act, &w->outw, WEIGHT_IN_OUT,
                  NULL);
    op_linear_bwd(m->b, &d_norm, false, &g->fcw, &g->fcb, &d_act, &norm2, &w->fcw, WEIGHT_IN_OUT,
                  &pre);
    struct tensor d_proj = back_sum(k, n2, l, "proj");
    op_linear_bwd(m->b, &d_norm, false, &g->projw, &g->projb, &d_proj, &att, &w->projw,
                  WEIGHT_IN_OUT, NULL);
    op_attention_bwd(m->b, &d_qkv, &d_norm, &att, &qkv, &lse, (int)m->heads,
                     back_drop(k, &seq, l, "attention"));
    op_linear_bwd(m->b, &d_norm, false, &g->qkvw, g->qkvb.data ? &g->qkvb : NULL, &d_qkv, &norm1,
                  &w->qkvw, WEIGHT_IN_OUT, NULL);
    *d_branch = back_sum(k, n1, l - 1, l ? "mlp" : NULL);
}

void gpt2_backward(struct gpt2 *m, const struct gpt2_pass *p, int64_t from, int64_t n)
{
    struct gpt2_pass part = *p;
    part.B = n;
    struct back k = {m, &part, from};
    struct tensor d_res = f3(m->d_res, n, p->T, m->width), seq;
    struct tensor ids = tensor_2d(DTYPE_I32, m->ids + from * p->T, n, p->T);
    struct back_norm last = {m->last_x,  m->last_mean, m->last_rstd,
                             &m->w.lnfw, &m->g.lnfw,   &m->g.lnfb};
    op_zero(m->b, &d_res);
    struct tensor d_branch = back_sum(&k, last, m->layers - 1, "mlp");
    for (int64_t l = m->layers; l-- > 0;)
        back_block(&k, l, &d_branch);
    op_embed_bwd(m->b, &m->g.wte, &m->g.wpe, &d_res, &ids, back_drop(&k, &seq, 0, "embed"));
}

/* ---- decoding: one position a row ---- */

static void step_block(struct gpt2 *m, int64_t l, int64_t B)
{
    int64_t C = m->width, HS = C / m->heads;
    struct kept *k = m->kept;
    struct block *w = &m->w.block[l];
    float eps = (float)m->c.norm_eps;
    struct dropout none = {0};
    struct tensor x = f3(k->x, B, 1, C), norm = f3(k->norm1, B, 1, C), att = f2(k->att, B, C);
    struct tensor branch = f3(m->branch, B, 1, C);
    struct tensor qkv = f2(k->qkv, B, 3 * C);
    struct tensor act = f2(k->act, B, m->inner), pre = f2(k->pre, B, m->inner);
    struct tensor ck = tensor_make(DTYPE_F32, m->cache_k[l], 4, B, m->heads, m->use.length, HS);
    struct tensor cv = tensor_make(DTYPE_F32, m->cache_v[l], 4, B, m->heads, m->use.length, HS);
    struct tensor pos = tensor_1d(DTYPE_I32, m->pos, B);
    op_add_norm_fwd(m->b, l ? &x : NULL, &norm, NULL, NULL, &x, l ? &branch : NULL, &w->ln1w,
                    &w->ln1b, eps, none);
    op_linear_fwd(m->b, &qkv, &norm, &w->qkvw, WEIGHT_IN_OUT, w->qkvb.data ? &w->qkvb : NULL, NULL);
    op_attention_step(m->b, &att, &ck, &cv, &qkv, &pos, (int)m->heads);
    op_linear_fwd(m->b, &branch, &att, &w->projw, WEIGHT_IN_OUT, &w->projb, NULL);
    op_add_norm_fwd(m->b, &x, &norm, NULL, NULL, &x, &branch, &w->ln2w, &w->ln2b, eps, none);
    op_linear_fwd(m->b, &act, &norm, &w->fcw, WEIGHT_IN_OUT, &w->fcb, &pre);
    op_linear_fwd(m->b, &branch, &act, &w->outw, WEIGHT_IN_OUT, &w->outb, NULL);
}

void gpt2_forward_step(struct gpt2 *m, const int32_t *pos, int64_t B)
{
    int64_t C = m->width;
    struct tensor x = f3(m->kept->x, B, 1, C), norm = f3(m->last_norm, B, 1, C);
    struct tensor branch = f3(m->branch, B, 1, C);
    struct tensor ids = tensor_2d(DTYPE_I32, m->ids, B, 1), at = tensor_1d(DTYPE_I32, m->pos, B);
    op_embed_fwd(m->b, &x, &ids, &m->w.wte, &m->w.wpe, &at, (struct dropout){0});
    op_put(m->b, &at, pos); /* idle rows are idle from here on */
    for (int64_t l = 0; l < m->layers; l++)
        step_block(m, l, B);
    op_add_norm_fwd(m->b, &x, &norm, NULL, NULL, &x, &branch, &m->w.lnfw, &m->w.lnfb,
                    (float)m->c.norm_eps, (struct dropout){0});
}

struct tensor gpt2_head(struct gpt2 *m, int64_t from, int64_t n)
{
    struct tensor x = f2(m->last_norm + from * m->width, n, m->width);
    struct tensor logits = f2(m->logits, n, m->vocab);
    op_linear_fwd(m->b, &logits, &x, &m->w.head, WEIGHT_OUT_IN, NULL, NULL);
    return logits;
}
