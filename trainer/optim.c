/* optim: the update of a step: global norm, clipping, AdamW, see optim.h and gpt2.h.
 *
 * The norm is known on the host before anything is changed, so a norm that is not finite, or is
 * above skip_above, leaves weights and moments as they were.
 */
#include "trainer/optim.h"

#include <math.h>

#include "trainer/gpt2_private.h"
#include "trainer/reduce.h"

struct adamw_segment *optim_segments(const struct params *p, int rule, struct arena *a, int *n)
{
    struct adamw_segment *s = arena_array(a, (size_t)p->n, sizeof *s);
    *n = 0;
    for (int i = 0; i < p->n; i++) {
        const struct param *r = &p->v[i];
        bool decay = rule == DECAY_ALL || r->matrix;
        if (*n && s[*n - 1].decay == decay)
            s[*n - 1].end = r->at + r->room;
        else
            s[(*n)++] = (struct adamw_segment){r->at, r->at + r->room, decay};
    }
    return s;
}

double optim_clip(double norm, double clip)
{
    if (!(clip > 0))
        return 1;
    double scale = clip / (norm + 1e-6);
    return scale < 1 ? scale : 1;
}

/* Of the gradients without the scale of the loss. Of several ranks each squares its own pieces, also
 * when it has all of them: so it does not matter to any bit whether the moments are cut. */
static int norm_of(struct gpt2 *m, double loss_scale, double *norm, struct err *e)
{
    struct tensor sum = tensor_1d(DTYPE_F32, m->scalars + 1, 1);
    int64_t count = m->params.count;
    bool many = m->use.ranks > 1;
    float squares = 0;
    op_zero(m->b, &sum);
    if (!many)
        op_sum_squares(m->b, &sum, &m->g.flat);
    for (int k = 0; many && k < reduce_pieces(count, m->use.ranks); k++) {
        struct reduce_piece p = reduce_piece(count, m->use.ranks, m->use.rank, k);
        struct tensor x = tensor_1d(DTYPE_F32, (float *)m->g.flat.data + p.at, p.used);
        if (p.used > 0)
            op_sum_squares(m->b, &sum, &x);
    }
    op_get(m->b, &squares, &sum);
    if (op_sync(m->b, e))
        return -1;
    double all = (double)squares;
    if (many && m->peers.sum(m->peers.ctx, &all, e))
        return -1;
    *norm = sqrt(all) / loss_scale;
    return 0;
}

/* AdamW over all parameters, or over this rank's pieces of them. */
static void step_all(struct gpt2 *m, struct adamw *h, const struct tensor *scale,
                     const struct tensor *skip)
{
    int64_t count = m->params.count;
    if (!gpt2_sharded(m)) {
        op_adamw(m->b, &m->w.flat, &m->g.flat, &m->m, &m->v, h, scale, skip);
        return;
    }
    for (int k = 0; k < reduce_pieces(count, m->use.ranks); k++) {
        struct reduce_piece p = reduce_piece(count, m->use.ranks, m->use.rank, k);
        struct tensor pm = tensor_1d(DTYPE_F32, (float *)m->m.data + p.home, p.used);
        struct tensor pv = tensor_1d(DTYPE_F32, (float *)m->v.data + p.home, p.used);
        h->lo = p.at;
        h->hi = p.at + p.used;
        if (p.used > 0)
            op_adamw(m->b, &m->w.flat, &m->g.flat, &pm, &pv, h, scale, skip);
    }
}

int gpt2_update(struct gpt2 *m, const struct gpt2_update *u, double *norm, struct err *e)
{
    if (!m->use.train)
        return err_set(e, "model: it was not opened for training");
    double loss_scale = u->loss_scale > 0 ? u->loss_scale : 1;
    if (norm_of(m, loss_scale, norm, e))
        return -1;
    if (!isfinite(*norm) || (u->skip_above > 0 && *norm > u->skip_above))
        return 0;
    struct arena a = {0};
    struct adamw h = {.lr = (float)u->lr,
                      .beta1 = (float)u->beta1,
                      .beta2 = (float)u->beta2,
                      .eps = (float)u->eps,
                      .weight_decay = (float)u->weight_decay,
                      .step = u->step,
                      .lo = 0,
                      .hi = m->params.count};
    h.segments = optim_segments(&m->params, u->decay, &a, &h.nsegments);
    struct tensor scale = tensor_1d(DTYPE_F32, m->scalars + 1, 1);
    struct tensor skip = tensor_1d(DTYPE_F32, m->scalars + 2, 1);
    float factor = (float)(optim_clip(*norm, u->clip) / loss_scale), zero = 0;
    op_put(m->b, &scale, &factor);
    op_put(m->b, &skip, &zero);
    step_all(m, &h, &scale, &skip);
    int rc = gpt2_sharded(m) ? m->peers.share(m->peers.ctx, e) : 0;
    if (!rc) {
        gpt2_refresh(m, u->step);
        rc = op_sync(m->b, e);
    }
    arena_release(&a);
    return rc;
}
