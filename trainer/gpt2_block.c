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
            return tensor_make(flat.type,
                               (char *)flat.data + p->v[i].at * (int64_t)dtype_size(flat.type),
                               p->v[i].ndim, p->v[i].dim[0], p->v[i].dim[1], 0, 0);
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

/* ---- parts of a pass ---- */

struct tensor gpt2_act2(const struct gpt2 *m, void *p, int64_t row, int64_t a, int64_t b)
{
    return tensor_2d(m->type, (char *)p + row * b * (int64_t)dtype_size(m->type), a, b);
}

struct tensor gpt2_act3(const struct gpt2 *m, void *p, int64_t row, int64_t a, int64_t b, int64_t c)
{
    return tensor_3d(m->type, (char *)p + row * c * (int64_t)dtype_size(m->type), a, b, c);
}

/* Sequences [from, from + p->B) of a pass. Kept buffers hold the whole pass; the branch and the
 * gradients on the way back hold the part. */
struct part {
    struct gpt2 *m;
    const struct gpt2_pass *p; /* B is the part's */
    int64_t from;              /* first sequence */
};

static struct tensor kept3(const struct part *k, void *base, int64_t width)
{
    return gpt2_act3(k->m, base, k->from * k->p->T, k->p->B, k->p->T, width);
}

static struct tensor own3(const struct part *k, void *base, int64_t width)
{
    return gpt2_act3(k->m, base, 0, k->p->B, k->p->T, width);
}

static struct tensor stat1(const struct part *k, float *base)
{
    return tensor_1d(DTYPE_F32, base + k->from * k->p->T, k->p->B * k->p->T);
}

static struct tensor lse3(const struct part *k, float *base)
{
    int64_t heads = k->m->heads;
    return tensor_3d(DTYPE_F32, base + k->from * k->p->T * heads, k->p->B, heads, k->p->T);
}

/* A mask is decided by (seed, step, layer, site) and the sequence, nothing else. */
static struct dropout drop_of(const struct part *k, struct tensor *seq, int64_t layer,
                              const char *site)
{
    struct dropout d = {0};
    const struct gpt2_pass *p = k->p;
    if (!p->train || k->m->c.dropout <= 0)
        return d;
    char name[96];
    snprintf(name, sizeof name, "dropout/%llu/%lld/%s", (unsigned long long)p->step,
             (long long)layer, site);
    *seq = tensor_1d(DTYPE_U64, k->m->seq + k->from, p->B);
    d.p = (float)k->m->c.dropout;
    d.key = rng_key(p->seed, name);
    d.seq = seq;
    return d;
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

/* ---- forward ---- */

/* A residual sum and the norm that reads it: y = norm(sum), sum = x + dropout(branch). branch NULL:
 * x is the sum already. */
struct sum_norm {
    void *sum, *y;
    float *mean, *rstd;
    const struct tensor *w, *bias;
};
static void sum_norm(const struct part *k, struct sum_norm n, void *x, void *branch, int64_t layer,
                     const char *site)
{
    struct gpt2 *m = k->m;
    int64_t C = m->width;
    struct tensor in = kept3(k, x, C), sum = kept3(k, n.sum, C), y = kept3(k, n.y, C), seq, add;
    struct tensor mean = stat1(k, n.mean), rstd = stat1(k, n.rstd);
    bool keep = m->use.train;
    if (branch)
        add = own3(k, branch, C);
    op_add_norm_fwd(m->b, branch ? &sum : NULL, &y, keep ? &mean : NULL, keep ? &rstd : NULL, &in,
                    branch ? &add : NULL, n.w, n.bias, (float)m->c.norm_eps,
                    branch ? drop_of(k, &seq, layer, site) : (struct dropout){0});
}

static void write_cache(const struct part *k, int64_t l, const struct tensor *qkv)
{
    struct gpt2 *m = k->m;
    int64_t B = k->p->B, HS = m->width / m->heads, len = m->use.length;
    size_t at = (size_t)(k->p->cache_row * len * m->width) * dtype_size(m->type);
    struct tensor ck = tensor_make(m->type, (char *)m->cache_k[l] + at, 4, B, m->heads, len, HS);
    struct tensor cv = tensor_make(m->type, (char *)m->cache_v[l] + at, 4, B, m->heads, len, HS);
    struct tensor pos = tensor_1d(DTYPE_I32, m->pos, B);
    op_kv_write(m->b, &ck, &cv, qkv, &pos, (int)m->heads);
}

/* Attention branch of block l, from norm1 to m->branch. */
static void attend(const struct part *k, int64_t l)
{
    struct gpt2 *m = k->m;
    struct kept *a = &m->kept[l];
    struct block *w = &m->w.block[l];
    struct tensor norm = kept3(k, a->norm1, m->width), qkv = kept3(k, a->qkv, 3 * m->width);
    struct tensor att = kept3(k, a->att, m->width), lse = lse3(k, a->lse);
    struct tensor out = own3(k, m->branch, m->width), seq;
    op_linear_fwd(m->b, &qkv, &norm, &w->qkvw, WEIGHT_IN_OUT, w->qkvb.data ? &w->qkvb : NULL, NULL);
    gpt2_tell(m, l, "qkv", &qkv);
    if (k->p->cache_row >= 0)
        write_cache(k, l, &qkv);
    op_attention_fwd(m->b, &att, &lse, &qkv, (int)m->heads, drop_of(k, &seq, l, "attention"));
    gpt2_tell(m, l, "att", &att);
    op_linear_fwd(m->b, &out, &att, &w->projw, WEIGHT_IN_OUT, &w->projb, NULL);
    gpt2_tell(m, l, "proj", &out);
}

/* First half of the MLP branch of block l, from norm2 to act. */
static void expand(const struct part *k, int64_t l)
{
    struct gpt2 *m = k->m;
    struct kept *a = &m->kept[l];
    struct block *w = &m->w.block[l];
    struct tensor norm = kept3(k, a->norm2, m->width), act = kept3(k, a->act, m->inner);
    struct tensor pre = kept3(k, a->pre, m->inner);
    op_linear_fwd(m->b, &act, &norm, &w->fcw, WEIGHT_IN_OUT, &w->fcb, &pre);
    gpt2_tell(m, l, "pre", &pre);
    gpt2_tell(m, l, "act", &act);
}

static void contract(const struct part *k, int64_t l)
{
    struct gpt2 *m = k->m;
    struct block *w = &m->w.block[l];
    struct tensor act = kept3(k, m->kept[l].act, m->inner), out = own3(k, m->branch, m->width);
    op_linear_fwd(m->b, &out, &act, &w->outw, WEIGHT_IN_OUT, &w->outb, NULL);
    gpt2_tell(m, l, "mlp", &out);
}

/* Block l but for its last product. x: the residual before it; branch NULL: the residual that block
 * l reads is in its kept x already, because backward computes the block again. */
static void run_block(const struct part *k, int64_t l, void *x, void *branch)
{
    struct gpt2 *m = k->m;
    struct kept *a = &m->kept[l];
    struct block *w = &m->w.block[l];
    struct sum_norm n1 = {a->x, a->norm1, a->mean1, a->rstd1, &w->ln1w, &w->ln1b};
    struct sum_norm n2 = {a->mid, a->norm2, a->mean2, a->rstd2, &w->ln2w, &w->ln2b};
    struct tensor t;
    sum_norm(k, n1, x, branch, l - 1, "mlp");
    gpt2_tell(m, l, "x", (t = kept3(k, a->x, m->width), &t));
    gpt2_tell(m, l, "ln_1", (t = kept3(k, a->norm1, m->width), &t));
    attend(k, l);
    sum_norm(k, n2, a->x, m->branch, l, "proj");
    gpt2_tell(m, l, "mid", (t = kept3(k, a->mid, m->width), &t));
    gpt2_tell(m, l, "ln_2", (t = kept3(k, a->norm2, m->width), &t));
    expand(k, l);
}

/* The last product's output joins the residual in the norm of the block behind. With recomputation of
 * layers mid is shared: what reads it comes before the next block writes it. */
void gpt2_forward(struct gpt2 *m, const struct gpt2_pass *p)
{
    struct part k = {m, p, 0};
    struct tensor ids = tensor_2d(DTYPE_I32, m->ids, p->B, p->T), seq;
    struct tensor x = kept3(&k, m->kept->x, m->width);
    void *before = m->kept->x;
    op_embed_fwd(m->b, &x, &ids, &m->w.wte, &m->w.wpe, NULL, drop_of(&k, &seq, 0, "embed"));
    gpt2_tell(m, -1, "embed", &x);
    for (int64_t l = 0; l < m->layers; l++) {
        run_block(&k, l, before, l ? m->branch : NULL);
        contract(&k, l);
        before = m->kept[l].mid;
    }
    struct sum_norm last = {m->last_x,    m->last_norm, m->last_mean,
                            m->last_rstd, &m->w.lnfw,   &m->w.lnfb};
    struct tensor t;
    sum_norm(&k, last, before, m->branch, m->layers - 1, "mlp");
    gpt2_tell(m, -1, "out", (t = kept3(&k, m->last_x, m->width), &t));
    gpt2_tell(m, -1, "ln_f", (t = kept3(&k, m->last_norm, m->width), &t));
}

/* ---- backward: n sequences from number `from` of the pass on ---- */

/* What backward reads of block l and was not kept. */
static void compute_again(const struct part *k, int64_t l)
{
    struct gpt2 *m = k->m;
    struct kept *a = &m->kept[l];
    gpt2_watch_fn *watch = m->watch;
    if (m->use.recompute == RECOMPUTE_NONE)
        return;
    m->watch = NULL; /* it was told */
    if (m->use.recompute == RECOMPUTE_LAYER)
        run_block(k, l, a->x, NULL);
    else {
        struct tensor act = kept3(k, a->act, m->inner), pre = kept3(k, a->pre, m->inner);
        op_gelu_fwd(m->b, &act, &pre);
    }
    m->watch = watch;
}

/* Back through a residual sum and the norm that read it: d_norm is the gradient of the norm's
 * output, d_res that of the sum. Returns the gradient of the branch: d_res itself when nothing was
 * dropped from it, else the masked copy in d_branch. */
struct back_norm {
    void *sum;
    float *mean, *rstd;
    const struct tensor *w;
    struct tensor *dw, *dbias;
};
static struct tensor back_sum(const struct part *k, struct back_norm n, int64_t layer,
                              const char *site)
{
    struct gpt2 *m = k->m;
    int64_t C = m->width;
    struct tensor d_res = own3(k, m->d_res, C), d_branch = own3(k, m->d_branch, C);
    struct tensor d_norm = own3(k, m->d_norm, C), x = kept3(k, n.sum, C), seq;
    struct tensor mean = stat1(k, n.mean), rstd = stat1(k, n.rstd);
    struct dropout drop = site ? drop_of(k, &seq, layer, site) : (struct dropout){0};
    op_add_norm_bwd(m->b, &d_res, drop.p > 0 ? &d_branch : NULL, n.dw, n.dbias, &d_norm, &x, &mean,
                    &rstd, n.w, drop);
    return drop.p > 0 ? d_branch : d_res;
}

static void back_block(const struct part *k, int64_t l, struct tensor *d_branch)
{
    struct gpt2 *m = k->m;
    int64_t C = m->width, F = m->inner;
    struct kept *a = &m->kept[l];
    struct block *w = &m->w.block[l], *g = &m->g.block[l];
    struct tensor d_norm = own3(k, m->d_norm, C), d_act = own3(k, m->d_act, F);
    struct tensor d_qkv = own3(k, m->d_qkv, 3 * C), act = kept3(k, a->act, F);
    struct tensor pre = kept3(k, a->pre, F), norm1 = kept3(k, a->norm1, C);
    struct tensor norm2 = kept3(k, a->norm2, C), att = kept3(k, a->att, C);
    struct tensor qkv = kept3(k, a->qkv, 3 * C), lse = lse3(k, a->lse), seq;
    struct back_norm n2 = {a->mid, a->mean2, a->rstd2, &w->ln2w, &g->ln2w, &g->ln2b};
    struct back_norm n1 = {a->x, a->mean1, a->rstd1, &w->ln1w, &g->ln1w, &g->ln1b};
    compute_again(k, l);
    op_linear_bwd(m->b, &d_act, false, &g->outw, &g->outb, d_branch, &act, &w->outw, WEIGHT_IN_OUT,
                  NULL);
    op_linear_bwd(m->b, &d_norm, false, &g->fcw, &g->fcb, &d_act, &norm2, &w->fcw, WEIGHT_IN_OUT,
                  &pre);
    struct tensor d_proj = back_sum(k, n2, l, "proj");
    op_linear_bwd(m->b, &d_norm, false, &g->projw, &g->projb, &d_proj, &att, &w->projw,
                  WEIGHT_IN_OUT, NULL);
    op_attention_bwd(m->b, &d_qkv, &d_norm, &att, &qkv, &lse, (int)m->heads,
                     drop_of(k, &seq, l, "attention"));
    op_linear_bwd(m->b, &d_norm, false, &g->qkvw, g->qkvb.data ? &g->qkvb : NULL, &d_qkv, &norm1,
                  &w->qkvw, WEIGHT_IN_OUT, NULL);
    *d_branch = back_sum(k, n1, l - 1, l ? "mlp" : NULL);
}

/* Gradients from this one on in the flat vector are final. */
static void ready(struct gpt2 *m, const struct gpt2_pass *p, const struct tensor *g)
{
    const char *flat = m->g.flat.data, *at = g->data;
    if (p->last && m->peers.ready)
        m->peers.ready(m->peers.ctx, (at - flat) / (int64_t)dtype_size(m->g.flat.type));
}

void gpt2_backward(struct gpt2 *m, const struct gpt2_pass *p, int64_t from, int64_t n)
{
    struct gpt2_pass of = *p;
    of.B = n;
    struct part k = {m, &of, from};
    struct tensor d_res = own3(&k, m->d_res, m->width), seq;
    struct tensor ids = tensor_2d(DTYPE_I32, m->ids + from * p->T, n, p->T);
    struct back_norm last = {m->last_x,  m->last_mean, m->last_rstd,
                             &m->w.lnfw, &m->g.lnfw,   &m->g.lnfb};
    op_zero(m->b, &d_res);
    struct tensor d_branch = back_sum(&k, last, m->layers - 1, "mlp");
    ready(m, p, &m->g.lnfw); /* and the head behind it */
    for (int64_t l = m->layers; l-- > 0;) {
        back_block(&k, l, &d_branch);
        ready(m, p, &m->g.block[l].ln1w);
    }
    op_embed_bwd(m->b, &m->g.wte, &m->g.wpe, &d_res, &ids, drop_of(&k, &seq, 0, "embed"));
    ready(m, p, &m->g.flat);
}

/* ---- decoding: one position a row ---- */

static void step_block(struct gpt2 *m, int64_t l, int64_t B)
{
    int64_t C = m->width, HS = C / m->heads;
    struct kept *k = m->kept;
    struct block *w = &m->w.block[l];
    float eps = (float)m->c.norm_eps;
    struct dropout none = {0};
    struct tensor x = gpt2_act3(m, k->x, 0, B, 1, C), norm = gpt2_act3(m, k->norm1, 0, B, 1, C);
    struct tensor branch = gpt2_act3(m, m->branch, 0, B, 1, C);
    struct tensor att = gpt2_act2(m, k->att, 0, B, C), qkv = gpt2_act2(m, k->qkv, 0, B, 3 * C);
    struct tensor act = gpt2_act2(m, k->act, 0, B, m->inner);
    struct tensor pre = gpt2_act2(m, k->pre, 0, B, m->inner);
    struct tensor ck = tensor_make(m->type, m->cache_k[l], 4, B, m->heads, m->use.length, HS);
    struct tensor cv = tensor_make(m->type, m->cache_v[l], 4, B, m->heads, m->use.length, HS);
    struct tensor pos = tensor_1d(DTYPE_I32, m->pos, B);
    op_add_norm_fwd(m->b, l ? &x : NULL, &norm, NULL, NULL, &x, l ? &branch : NULL, &w->ln1w,
                    &w->ln1b, eps, none);
    op_linear_step(m->b, &qkv, &norm, &w->qkvw, WEIGHT_IN_OUT, w->qkvb.data ? &w->qkvb : NULL,
                   NULL);
    op_attention_step(m->b, &att, &ck, &cv, &qkv, &pos, (int)m->heads);
    op_linear_step(m->b, &branch, &att, &w->projw, WEIGHT_IN_OUT, &w->projb, NULL);
    op_add_norm_fwd(m->b, &x, &norm, NULL, NULL, &x, &branch, &w->ln2w, &w->ln2b, eps, none);
    op_linear_step(m->b, &act, &norm, &w->fcw, WEIGHT_IN_OUT, &w->fcb, &pre);
    op_linear_step(m->b, &branch, &act, &w->outw, WEIGHT_IN_OUT, &w->outb, NULL);
}

void gpt2_forward_step(struct gpt2 *m, const int32_t *pos, int64_t B)
{
    int64_t C = m->width;
    struct tensor x = gpt2_act3(m, m->kept->x, 0, B, 1, C);
    struct tensor norm = gpt2_act3(m, m->last_norm, 0, B, 1, C);
    struct tensor branch = gpt2_act3(m, m->branch, 0, B, 1, C);
    struct tensor ids = tensor_2d(DTYPE_I32, m->ids, B, 1), at = tensor_1d(DTYPE_I32, m->pos, B);
    op_embed_fwd(m->b, &x, &ids, &m->w.wte, &m->w.wpe, &at, (struct dropout){0});
    op_put(m->b, &at, pos); /* idle rows are idle from here on */
    for (int64_t l = 0; l < m->layers; l++)
        step_block(m, l, B);
    op_add_norm_fwd(m->b, &x, &norm, NULL, NULL, &x, &branch, &m->w.lnfw, &m->w.lnfb,
                    (float)m->c.norm_eps, (struct dropout){0});
}

struct tensor gpt2_head_as(struct gpt2 *m, enum dtype type, int64_t from, int64_t n)
{
    struct tensor x = gpt2_act2(m, m->last_norm, from, n, m->width);
    struct tensor logits = tensor_2d(type, m->logits, n, m->padded);
    op_linear_fwd(m->b, &logits, &x, &m->w.head, WEIGHT_OUT_IN, NULL, NULL);
    return logits;
}

struct tensor gpt2_head_step(struct gpt2 *m, int64_t from, int64_t n)
{
    struct tensor x = gpt2_act2(m, m->last_norm, from, n, m->width);
    struct tensor logits = tensor_2d(DTYPE_F32, m->logits, n, m->padded);
    op_linear_step(m->b, &logits, &x, &m->w.head, WEIGHT_OUT_IN, NULL, NULL);
    return logits;
}

struct tensor gpt2_head(struct gpt2 *m, int64_t from, int64_t n)
{
    return gpt2_head_as(m, DTYPE_F32, from, n);
}
