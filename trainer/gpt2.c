/* gpt2: a model on a backend: allocation by the plan, weights, losses, gradients.
 *
 * What a block does is in gpt2_block.c, decoding in gpt2_decode.c, the update in optim.c. The head
 * and the classifier run over chunks of rows, so the logits of a whole batch never exist at once.
 * While not training, a batch larger than the plan's rows goes through in groups of sequences.
 */
#include "trainer/gpt2_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "trainer/reduce.h"

/* ---- opening ---- */

/* Matrices that products read are views into `narrow`, which is w->flat when all is f32. */
static void bind(struct gpt2 *m, struct weights *w, struct tensor narrow)
{
    w->wte = gpt2_view(&m->params, w->flat, "wte.weight");
    w->wpe = gpt2_view(&m->params, w->flat, "wpe.weight");
    w->lnfw = gpt2_view(&m->params, w->flat, "ln_f.weight");
    w->lnfb = gpt2_view(&m->params, w->flat, "ln_f.bias");
    w->head = gpt2_view(&m->params, narrow, m->c.tied ? "wte.weight" : "lm_head.weight");
    w->head.dim[0] = m->padded;
    w->block = arena_array(&m->arena, (size_t)m->layers, sizeof *w->block);
    for (int64_t l = 0; l < m->layers; l++) {
        struct block *k = &w->block[l], n;
        gpt2_bind_block(k, &m->params, w->flat, l);
        gpt2_bind_block(&n, &m->params, narrow, l);
        k->qkvw = n.qkvw;
        k->projw = n.projw;
        k->fcw = n.fcw;
        k->outw = n.outw;
    }
}

static void *home_of(struct gpt2 *m, const struct buffer *b, int64_t copy)
{
    switch (b->home) {
    case HOME_KEPT:
        return (char *)&m->kept[copy] + b->at;
    case HOME_CACHE_K:
        return &m->cache_k[copy];
    case HOME_CACHE_V:
        return &m->cache_v[copy];
    default:
        return (char *)m + b->at;
    }
}

static int allocate(struct gpt2 *m, struct err *e)
{
    struct buffer list[BUFFERS];
    int n = gpt2_buffers(&m->c, &m->use, list);
    m->kept = arena_array(&m->arena, (size_t)m->layers, sizeof *m->kept);
    m->cache_k = arena_array(&m->arena, (size_t)m->layers, sizeof *m->cache_k);
    m->cache_v = arena_array(&m->arena, (size_t)m->layers, sizeof *m->cache_v);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < list[i].copies; k++) {
            void *p = op_alloc(m->b, (size_t)list[i].bytes);
            if (!p)
                return op_sync(m->b, e) ? -1 : err_set(e, "model: no memory");
            /* Pointers of several types are filled here; memcpy is the way the language allows. */
            memcpy(home_of(m, &list[i], k), &p, sizeof p);
            for (int64_t l = 1; list[i].home == HOME_KEPT && list[i].copies == 1 && l < m->layers;
                 l++)
                memcpy(home_of(m, &list[i], l), &p, sizeof p);
        }
    for (int64_t l = 0; !m->use.train && l < m->layers; l++) {
        m->kept[l].mid = m->kept[l].x;
        m->kept[l].norm2 = m->kept[l].norm1;
        m->last_x = m->kept[l].x;
    }
    return 0;
}

static int check_use(const struct model_config *c, const struct gpt2_use *u, struct err *e)
{
    if (u->batch < 1 || u->length < 1 || u->batch > 1 << 24)
        return err_set(e, "model: a batch of %lld x %lld positions", (long long)u->batch,
                       (long long)u->length);
    if (u->length > c->context)
        return err_set(e, "model: %lld positions are more than its context of %lld",
                       (long long)u->length, (long long)c->context);
    return 0;
}

static int check_fit(struct backend *b, const struct model_config *c, const struct gpt2_use *u,
                     struct err *e)
{
    struct gpt2_plan plan;
    char text[256], have[32];
    gpt2_plan(c, u, &plan);
    int64_t room = b->ops->memory_free(b);
    if (room < 0 || plan.total <= room)
        return 0;
    gpt2_plan_text(&plan, text, sizeof text);
    gpt2_size_text(room, have);
    return err_set(e, "a batch of %lld x %lld needs %s, but %s are free on %s", (long long)u->batch,
                   (long long)u->length, text, have, b->ops->name);
}

static bool has(const struct backend *b, int precision)
{
    switch (precision) {
    case PRECISION_TF32:
        return b->ops->tf32 != NULL;
    case PRECISION_BF16:
        return b->ops->supports(b, DTYPE_BF16) && b->ops->cast;
    case PRECISION_FP16:
        return b->ops->supports(b, DTYPE_F16) && b->ops->cast;
    default:
        return precision == PRECISION_FP32;
    }
}

int gpt2_precision(const struct backend *b, int precision, struct err *e)
{
    char known[64] = "", others[400];
    if (has(b, precision))
        return 0;
    for (int p = PRECISION_FP32; p <= PRECISION_FP16; p++)
        if (has(b, p))
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                     *known ? ", " : "", precision_names[p]);
    backend_others(b->ops->name, others, sizeof others);
    return err_code(e, EXIT_USAGE, "precision %s: the %s backend computes in %s only; others: %s",
                    precision_names[precision], b->ops->name, known, others);
}

static int check_weights(const struct backend *b, const struct gpt2_use *u, struct err *e)
{
    if (!u->bf16_weights || (!u->train && b->ops->bf16_weights))
        return 0;
    return err_code(e, EXIT_USAGE, "bf16 weights with fp32 activations: %s",
                    u->train ? "not while training"
                             : "the CPU backend has them, this one does not");
}

struct gpt2_use gpt2_use_on(const struct gpt2_use *u, const char *backend)
{
    struct gpt2_use on = *u;
    if (!on.prefers)
        on.prefers = backend_prefers(backend ? backend : "cpu");
    return on;
}

struct gpt2 *gpt2_new(struct backend *b, const struct model_config *c, const struct gpt2_use *use,
                      struct err *e)
{
    struct gpt2 *m = mem_zero(sizeof *m);
    m->b = b;
    m->c = *c;
    m->use = gpt2_use_on(use, b->ops->name);
    const struct gpt2_use *u = &m->use;
    if (backend_takes(b->ops->name, c->width, c->heads, e) ||
        params_make(&m->params, c, u->prefers->vocab_pad, &m->arena, e) || check_use(c, u, e) ||
        gpt2_precision(b, u->precision, e) || check_weights(b, u, e) || check_fit(b, c, u, e))
        goto fail;
    m->width = c->width;
    m->inner = c->inner ? c->inner : 4 * c->width;
    m->heads = c->heads;
    m->layers = c->layers;
    m->vocab = c->vocab;
    m->type = gpt2_type(u);
    m->padded = gpt2_padded(c, u);
    m->rows = gpt2_rows(u);
    m->grad_rows = gpt2_head_rows(c, u);
    m->head_rows = u->train ? m->grad_rows * (int64_t)dtype_size(m->type) / 4 : m->grad_rows;
    m->head_rows = m->head_rows ? m->head_rows : 1;
    m->grain = u->grain > 0 ? u->grain : u->batch;
    if (allocate(m, e))
        goto fail;
    m->w.flat = tensor_1d(DTYPE_F32, m->w.flat.data, m->params.count);
    m->copy = tensor_1d(gpt2_copy_type(u), m->copy.data, m->params.count);
    bind(m, &m->w, m->copy.type == DTYPE_F32 ? m->w.flat : m->copy);
    if (u->train) {
        m->g.flat = tensor_1d(DTYPE_F32, m->g.flat.data, m->params.count);
        bind(m, &m->g, m->g.flat);
        int64_t n =
            gpt2_sharded(m) ? reduce_extent(m->params.count, u->ranks) / u->ranks : m->params.count;
        m->m = tensor_1d(DTYPE_F32, m->m.data, n);
        m->v = tensor_1d(DTYPE_F32, m->v.data, n);
    }
    op_tf32(b, u->precision == PRECISION_TF32);
    return m;
fail:
    gpt2_free(m);
    return NULL;
}

void gpt2_free(struct gpt2 *m)
{
    if (!m)
        return;
    arena_release(&m->arena);
    free(m->staged);
    free(m);
}

const struct model_config *gpt2_config(const struct gpt2 *m)
{
    return &m->c;
}

const struct params *gpt2_params(const struct gpt2 *m)
{
    return &m->params;
}

void gpt2_watch(struct gpt2 *m, gpt2_watch_fn *fn, void *ctx)
{
    m->watch = fn;
    m->watch_ctx = ctx;
}

/* ---- weights ---- */

static struct tensor *flat_of(struct gpt2 *m, char which)
{
    switch (which) {
    case 'w':
        return &m->w.flat;
    case 'g':
        return &m->g.flat;
    case 'm':
        return &m->m;
    default:
        return &m->v;
    }
}

void gpt2_join(struct gpt2 *m, const struct gpt2_peers *p)
{
    m->peers = *p;
}

bool gpt2_sharded(const struct gpt2 *m)
{
    return m->use.zero && m->use.ranks > 1;
}

int gpt2_get(struct gpt2 *m, char which, float *flat, struct err *e)
{
    const struct tensor *t = flat_of(m, which);
    if (which == 'w' && m->forgot)
        return err_set(e, "the f32 weights of a model with bf16 weights are not kept");
    if (gpt2_sharded(m) && (which == 'm' || which == 'v')) {
        if (m->peers.whole(m->peers.ctx, t, e))
            return -1;
        t = &m->g.flat;
    }
    if (flat)
        op_get(m->b, flat, t);
    return op_sync(m->b, e);
}

static void put_share(struct gpt2 *m, struct tensor *share, const float *flat)
{
    int64_t count = m->params.count;
    for (int k = 0; k < reduce_pieces(count, m->use.ranks); k++) {
        struct reduce_piece p = reduce_piece(count, m->use.ranks, m->use.rank, k);
        struct tensor to = tensor_1d(DTYPE_F32, (float *)share->data + p.home, p.used);
        if (p.used > 0)
            op_put(m->b, &to, flat + p.at);
    }
}

int gpt2_put(struct gpt2 *m, char which, const float *flat, struct err *e)
{
    if (gpt2_sharded(m) && (which == 'm' || which == 'v'))
        put_share(m, flat_of(m, which), flat);
    else
        op_put(m->b, flat_of(m, which), flat);
    if (which == 'w')
        gpt2_refresh(m, 0);
    return op_sync(m->b, e);
}

float *gpt2_place(struct gpt2 *m)
{
    return m->b->ops->host ? m->w.flat.data : NULL;
}

/* Tensor by tensor, so that the f32 matrices of the blocks, which nothing reads any more, go as their
 * copies come. */
static void narrow_weights(struct gpt2 *m)
{
    for (int i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];
        size_t to_size = dtype_size(m->copy.type);
        struct tensor from = tensor_1d(DTYPE_F32, (float *)m->w.flat.data + p->at, p->count);
        struct tensor to =
            tensor_1d(m->copy.type, (char *)m->copy.data + (size_t)p->at * to_size, p->count);
        op_cast(m->b, &to, &from, NULL);
        if (m->b->ops->forget && p->matrix && strncmp(p->name, "h.", 2) == 0)
            m->b->ops->forget(m->b, &from);
    }
    m->forgot = m->b->ops->forget != NULL;
}

void gpt2_refresh(struct gpt2 *m, int64_t updates)
{
    char name[48];
    if (m->copy.type == DTYPE_F32)
        return;
    snprintf(name, sizeof name, "round/%lld", (long long)updates);
    struct rounding r = {.key = rng_key(m->use.seed, name)};
    if (m->use.bf16_weights)
        narrow_weights(m);
    else
        op_cast(m->b, &m->copy, &m->w.flat, m->use.stochastic ? &r : NULL);
}

int gpt2_init(struct gpt2 *m, uint64_t seed, struct err *e)
{
    float *flat = mem_zero((size_t)m->params.count * sizeof *flat); /* padding is 0 */
    /* Each tensor has its own stream, so the order of the threads decides nothing. */
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];
        struct rng r = rng_make(seed, p->name, 0);
        for (int64_t k = 0; k < p->count; k++)
            flat[p->at + k] = (float)(p->matrix ? p->init_std * rng_normal(&r) : p->init_value);
    }
    int rc = gpt2_put(m, 'w', flat, e);
    free(flat);
    return rc;
}

/* ---- forward ---- */

int gpt2_check(const struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T, struct err *e)
{
    if (B < 1 || T < 1 || B > m->use.batch || T > m->use.length)
        return err_set(e, "model: a batch of %lld x %lld, but it was opened for %lld x %lld",
                       (long long)B, (long long)T, (long long)m->use.batch,
                       (long long)m->use.length);
    for (int64_t i = 0; i < B * T; i++)
        if (ids[i] < 0 || ids[i] >= m->vocab)
            return err_set(e,
                           "model: id %d in sequence %lld at position %lld is outside the "
                           "vocabulary of %lld",
                           ids[i], (long long)(i / T), (long long)(i % T), (long long)m->vocab);
    return 0;
}

static int check_targets(const struct gpt2 *m, const int32_t *targets, int64_t n, struct err *e)
{
    for (int64_t i = 0; i < n; i++)
        if (targets[i] < -1 || targets[i] >= m->vocab)
            return err_set(e, "model: target %d at row %lld is outside the vocabulary of %lld",
                           targets[i], (long long)i, (long long)m->vocab);
    return 0;
}

void gpt2_put_ids(struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T)
{
    struct tensor t = tensor_2d(DTYPE_I32, m->ids, B, T);
    op_put(m->b, &t, ids);
}

/* Sequences that go through in one pass. */
static int64_t group_of(const struct gpt2 *m, int64_t T)
{
    int64_t n = m->rows / T;
    return n < 1 ? 1 : n;
}

/* Losses of rows [from, from + n) of last_norm; with grad also their gradient, into d_norm from its
 * start, and that of the head. */
static void classify(struct gpt2 *m, int64_t from, int64_t n, bool grad)
{
    struct tensor scale = tensor_1d(DTYPE_F32, m->scalars, 1);
    int64_t C = m->width, most = grad ? m->grad_rows : m->head_rows;
    for (int64_t at = 0; at < n; at += most) {
        int64_t rows = n - at < most ? n - at : most;
        struct tensor logits = gpt2_head_as(m, grad ? m->type : DTYPE_F32, from + at, rows);
        struct tensor loss = tensor_1d(DTYPE_F32, m->loss + from + at, rows);
        struct tensor targets = tensor_1d(DTYPE_I32, m->targets + from + at, rows);
        gpt2_tell(m, -1, "logits", &logits);
        op_classifier(m->b, &loss, &logits, &targets, &scale, grad, m->vocab);
        if (!grad)
            continue;
        struct tensor x = gpt2_act2(m, m->last_norm, from + at, rows, C);
        struct tensor dx = gpt2_act2(m, m->d_norm, at, rows, C);
        op_linear_bwd(m->b, &dx, false, &m->g.head, NULL, &logits, &x, &m->w.head, WEIGHT_OUT_IN,
                      NULL);
    }
}

/* Behind a sequence's last target nothing is asked for. */
static int64_t *used_of(const int32_t *targets, int64_t B, int64_t T)
{
    int64_t *used = mem_array((size_t)B, sizeof *used);
    for (int64_t i = 0; i < B * T; i++)
        if (targets[i] >= 0)
            used[i / T] = i % T + 1;
    return used;
}

int gpt2_losses(struct gpt2 *m, const int32_t *ids, const int32_t *targets, int64_t B, int64_t T,
                float *loss, struct err *e)
{
    if (gpt2_check(m, ids, B, T, e) || check_targets(m, targets, B * T, e))
        return -1;
    int64_t group = group_of(m, T), *used = used_of(targets, B, T);
    int rc = 0;
    for (int64_t b = 0; b < B && !rc; b += group) {
        int64_t n = B - b < group ? B - b : group;
        struct gpt2_pass p = {.B = n, .T = T, .cache_row = -1};
        struct tensor t = tensor_1d(DTYPE_I32, m->targets, n * T);
        struct tensor out = tensor_1d(DTYPE_F32, m->loss, n * T);
        gpt2_put_padded(m, ids + b * T, used + b, n, T);
        op_put(m->b, &t, targets + b * T);
        gpt2_forward(m, &p);
        classify(m, 0, n * T, false);
        op_get(m->b, loss + b * T, &out);
        rc = op_sync(m->b, e);
    }
    free(used);
    return rc;
}

int gpt2_logits(struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T, float *logits,
                struct err *e)
{
    if (gpt2_check(m, ids, B, T, e))
        return -1;
    int64_t group = group_of(m, T);
    for (int64_t b = 0; b < B; b += group) {
        int64_t n = B - b < group ? B - b : group;
        struct gpt2_pass p = {.B = n, .T = T, .cache_row = -1};
        gpt2_put_ids(m, ids + b * T, n, T);
        gpt2_forward(m, &p);
        for (int64_t at = 0; at < n * T; at += m->head_rows) {
            int64_t rows = n * T - at < m->head_rows ? n * T - at : m->head_rows;
            struct tensor t = gpt2_head(m, at, rows);
            gpt2_tell(m, -1, "logits", &t);
            if (gpt2_fetch(m, &t, logits + (b * T + at) * m->vocab, e))
                return -1;
        }
    }
    return 0;
}

int gpt2_fetch(struct gpt2 *m, const struct tensor *logits, float *out, struct err *e)
{
    int64_t n = logits->dim[0], V = m->vocab;
    size_t room = (size_t)m->head_rows * (size_t)m->padded;
    if (m->padded == V) {
        op_get(m->b, out, logits);
        return op_sync(m->b, e);
    }
    if (!m->staged)
        m->staged = mem_array(room, sizeof *m->staged);
    op_get(m->b, m->staged, logits);
    if (op_sync(m->b, e))
        return -1;
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * V, m->staged + i * m->padded, (size_t)V * sizeof *out);
    return 0;
}

/* ---- training ---- */

void gpt2_zero_grad(struct gpt2 *m)
{
    op_zero(m->b, &m->g.flat);
}

int gpt2_grad(struct gpt2 *m, const struct gpt2_batch *in, float *loss, struct err *e)
{
    int64_t N = in->B * in->T;
    if (!m->use.train)
        return err_set(e, "model: it was not opened for training");
    if (gpt2_check(m, in->ids, in->B, in->T, e) || check_targets(m, in->targets, N, e))
        return -1;
    struct gpt2_pass p = {
        .B = in->B, .T = in->T, .train = true, .seed = in->seed, .step = in->step, .cache_row = -1};
    struct tensor targets = tensor_1d(DTYPE_I32, m->targets, N);
    struct tensor scale = tensor_1d(DTYPE_F32, m->scalars, 1);
    struct tensor seq = tensor_1d(DTYPE_U64, m->seq, in->B);
    struct tensor out = tensor_1d(DTYPE_F32, m->loss, N);
    double scaled = in->loss_scale > 0 ? in->loss_scale : 1;
    float weight = in->valid_total > 0 ? (float)(scaled / (double)in->valid_total) : 0;
    gpt2_put_ids(m, in->ids, in->B, in->T);
    op_put(m->b, &targets, in->targets);
    op_put(m->b, &seq, in->seq);
    op_put(m->b, &scale, &weight);
    gpt2_forward(m, &p);
    for (int64_t at = 0; at < in->B; at += m->grain) {
        int64_t n = in->B - at < m->grain ? in->B - at : m->grain;
        p.last = in->last && at + n == in->B;
        classify(m, at * in->T, n * in->T, true);
        gpt2_backward(m, &p, at, n);
    }
    op_get(m->b, loss, &out);
    return op_sync(m->b, e);
}
