/* test_grad: the gradients of a backend against finite differences of the double reference's
 * forward pass. So a backward pass that is wrong in the backend and in the reference alike is
 * found.
 *
 * The loss is the sum of dy * y. A central difference with h = 1e-4 in double is good to about
 * 1e-8; the bound is that of the backend's floats.
 */
#include <math.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"

/* All that a loss may need; each op uses its part. */
struct problem {
    struct rig r;
    struct ref_shape s;
    int64_t I, O;
    bool out_in, gelu;
    struct ref_drop drop;
    int32_t *ids;
    struct box x, x2, w, bias, dy;
    double *out, *tmp, *tmp2;
    double (*loss)(struct problem *p);
};

static double weighted(const struct problem *p, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += p->out[i] * p->dy.want[i];
    return s;
}

/* Largest difference between the gradient in g and finite differences over x's elements. start:
 * what g held before the op, which adds (NULL: zeros). */
static void compare(struct problem *p, struct box *x, struct box *g, const double *start,
                    const char *what)
{
    const double h = 1e-4;
    double *fd = g->want;
    for (int64_t i = 0; i < x->n; i++) {
        double was = x->want[i];
        x->want[i] = was + h;
        double up = p->loss(p);
        x->want[i] = was - h;
        double down = p->loss(p);
        x->want[i] = was;
        fd[i] = (up - down) / (2 * h) + (start ? start[i] : 0);
    }
    double off = box_error(&p->r, g);
    if (!CHECK(off <= 3e-5 && !p->r.guard_broken, "finite differences: %s", what))
        printf("# off by %g\n", off);
}

static double embed_loss(struct problem *p)
{
    ref_embed_fwd(p->s, p->out, p->ids, p->w.want, p->x.want, NULL, p->drop);
    return weighted(p, p->dy.n);
}

static struct dropout drop_make(struct problem *p, struct tensor *seq, float prob)
{
    uint64_t *ids = ids_new(&p->r, seq, p->s.B);
    p->drop = (struct ref_drop){(double)prob, 99, ids};
    return (struct dropout){prob, 99, seq};
}

static void grad_embed(const char *backend, float prob)
{
    struct problem p = {.s = {.B = 2, .T = 4, .C = 5, .V = 3}, .loss = embed_loss};
    rig_open(&p.r, backend, 0);
    struct tensor seq, ids;
    struct dropout d = drop_make(&p, &seq, prob);
    p.ids = ints_new(&p.r, &ids, 8);
    for (int i = 0; i < 8; i++)
        p.ids[i] = (i * 5 + 1) % 3;
    op_put(&p.r.b, &ids, p.ids);
    ids = tensor_2d(DTYPE_I32, ids.data, 2, 4);
    p.w = box_new(&p.r, 0, 1, 2, 3, 5, 0, 0);
    p.x = box_new(&p.r, 0, 1, 2, 4, 5, 0, 0);
    p.dy = box_new(&p.r, 0, 1, 3, 2, 4, 5, 0);
    struct box dw = box_new(&p.r, 0, 0, 2, 3, 5, 0, 0), dp = box_new(&p.r, 0, 0, 2, 4, 5, 0, 0);
    p.out = doubles(&p.r, p.dy.n);
    op_embed_bwd(&p.r.b, &dw.t, &dp.t, &p.dy.t, &ids, d);
    compare(&p, &p.w, &dw, NULL, prob > 0 ? "embed, tokens, dropout" : "embed, tokens");
    compare(&p, &p.x, &dp, NULL, prob > 0 ? "embed, positions, dropout" : "embed, positions");
    rig_close(&p.r);
}

/* loss = dy . norm(x + drop(r)) + dsum . (x + drop(r)) */
static double norm_loss(struct problem *p)
{
    ref_add_norm_fwd(p->s, p->tmp, p->out, NULL, NULL, p->x.want, p->x2.want, p->w.want,
                     p->bias.want, (double)1e-5f, p->drop);
    double s = weighted(p, p->dy.n);
    for (int64_t i = 0; i < p->dy.n; i++)
        s += p->tmp[i] * p->tmp2[i];
    return s;
}

static void grad_norm(const char *backend, float prob)
{
    struct problem p = {.s = {.B = 2, .T = 3, .C = 6}, .loss = norm_loss};
    rig_open(&p.r, backend, 0);
    struct rig *r = &p.r;
    struct tensor seq;
    struct dropout d = drop_make(&p, &seq, prob);
    p.x = box_new(r, 0, 1, 3, 2, 3, 6, 0);
    p.x2 = box_new(r, 0, 1, 3, 2, 3, 6, 0);
    p.w = box_new(r, 1, .5, 1, 6, 0, 0, 0);
    p.bias = box_new(r, 0, 1, 1, 6, 0, 0, 0);
    p.dy = box_new(r, 0, 1, 3, 2, 3, 6, 0);
    p.out = doubles(r, 36);
    p.tmp = doubles(r, 36);
    struct box sum = box_new(r, 0, 0, 3, 2, 3, 6, 0), y = box_new(r, 0, 0, 3, 2, 3, 6, 0);
    struct box mean = box_new(r, 0, 0, 1, 6, 0, 0, 0), rstd = box_new(r, 0, 0, 1, 6, 0, 0, 0);
    struct box dsum = box_new(r, 0, 1, 3, 2, 3, 6, 0), dr = box_new(r, 0, 0, 3, 2, 3, 6, 0);
    struct box dw = box_new(r, 0, 1, 1, 6, 0, 0, 0), db = box_new(r, 0, 1, 1, 6, 0, 0, 0);
    p.tmp2 = copy_of(r, dsum.want, dsum.n);
    double *dw0 = copy_of(r, dw.want, 6), *db0 = copy_of(r, db.want, 6);
    op_add_norm_fwd(&r->b, &sum.t, &y.t, &mean.t, &rstd.t, &p.x.t, &p.x2.t, &p.w.t, &p.bias.t,
                    1e-5f, d);
    op_add_norm_bwd(&r->b, &dsum.t, &dr.t, &dw.t, &db.t, &p.dy.t, &sum.t, &mean.t, &rstd.t, &p.w.t,
                    d);
    compare(&p, &p.x, &dsum, NULL, "add_norm, the residual path");
    compare(&p, &p.x2, &dr, NULL, prob > 0 ? "add_norm, the branch, dropout" : "add_norm, branch");
    compare(&p, &p.w, &dw, dw0, "add_norm, w");
    compare(&p, &p.bias, &db, db0, "add_norm, bias");
    rig_close(r);
}

static double linear_loss(struct problem *p)
{
    ref_linear_fwd(p->s.B, p->I, p->O, p->out, p->x.want, p->w.want, p->out_in, p->bias.want,
                   p->gelu ? p->tmp : NULL);
    return weighted(p, p->dy.n);
}

static void grad_linear(const char *backend, enum weight_layout layout, bool gelu)
{
    struct problem p = {.s = {.B = 4}, .I = 5, .O = 7, .gelu = gelu, .loss = linear_loss};
    p.out_in = layout == WEIGHT_OUT_IN;
    rig_open(&p.r, backend, 0);
    struct rig *r = &p.r;
    int64_t a = p.out_in ? 7 : 5, b = p.out_in ? 5 : 7;
    p.x = box_new(r, 0, 1, 2, 4, 5, 0, 0);
    p.w = box_new(r, 0, 1, 2, a, b, 0, 0);
    p.bias = box_new(r, 0, 1, 1, 7, 0, 0, 0);
    p.dy = box_new(r, 0, 1, 2, 4, 7, 0, 0);
    p.out = doubles(r, 28);
    p.tmp = doubles(r, 28);
    struct box y = box_new(r, 0, 0, 2, 4, 7, 0, 0), pre = box_new(r, 0, 0, 2, 4, 7, 0, 0);
    struct box dx = box_new(r, 0, 1, 2, 4, 5, 0, 0), dw = box_new(r, 0, 1, 2, a, b, 0, 0);
    struct box db = box_new(r, 0, 1, 1, 7, 0, 0, 0);
    double *dx0 = copy_of(r, dx.want, dx.n), *dw0 = copy_of(r, dw.want, dw.n);
    double *db0 = copy_of(r, db.want, db.n);
    op_linear_fwd(&r->b, &y.t, &p.x.t, &p.w.t, layout, &p.bias.t, gelu ? &pre.t : NULL);
    op_linear_bwd(&r->b, &dx.t, true, &dw.t, &db.t, &p.dy.t, &p.x.t, &p.w.t, layout,
                  gelu ? &pre.t : NULL);
    compare(&p, &p.x, &dx, dx0, gelu ? "linear with gelu, x" : "linear, x");
    compare(&p, &p.w, &dw, dw0, p.out_in ? "linear, w stored out x in" : "linear, w");
    compare(&p, &p.bias, &db, db0, "linear, bias");
    rig_close(r);
}

static double attention_loss(struct problem *p)
{
    ref_attention_fwd(p->s, p->out, p->tmp, p->x.want, p->drop);
    return weighted(p, p->dy.n);
}

static void grad_attention(const char *backend, int64_t T, float prob)
{
    struct problem p = {.s = {.B = 2, .T = T, .C = 6, .heads = 2}, .loss = attention_loss};
    rig_open(&p.r, backend, 0);
    struct rig *r = &p.r;
    struct tensor seq;
    struct dropout d = drop_make(&p, &seq, prob);
    p.x = box_new(r, 0, 1, 3, 2, T, 18, 0);
    p.dy = box_new(r, 0, 1, 3, 2, T, 6, 0);
    p.out = doubles(r, p.dy.n);
    p.tmp = doubles(r, 4 * T);
    struct box y = box_new(r, 0, 0, 3, 2, T, 6, 0), lse = box_new(r, 0, 0, 3, 2, 2, T, 0);
    struct box dx = box_new(r, 5, 0, 3, 2, T, 18, 0);
    op_attention_fwd(&r->b, &y.t, &lse.t, &p.x.t, 2, d);
    op_attention_bwd(&r->b, &dx.t, &p.dy.t, &y.t, &p.x.t, &lse.t, 2, d);
    compare(&p, &p.x, &dx, NULL, prob > 0 ? "attention, dropout" : "attention");
    rig_close(r);
}

static double classifier_loss(struct problem *p)
{
    double s = 0;
    ref_classifier(p->s.B, p->s.V, p->out, NULL, p->x.want, p->ids, 0);
    for (int64_t i = 0; i < p->s.B; i++)
        s += p->out[i] * .25;
    return s;
}

static void grad_classifier(const char *backend)
{
    struct problem p = {.s = {.B = 5, .V = 9}, .loss = classifier_loss};
    rig_open(&p.r, backend, 0);
    struct rig *r = &p.r;
    struct tensor targets;
    p.ids = ints_new(r, &targets, 5);
    for (int i = 0; i < 5; i++)
        p.ids[i] = i == 2 ? -1 : 2 * i;
    op_put(&r->b, &targets, p.ids);
    p.x = box_new(r, 0, 2, 2, 5, 9, 0, 0);
    p.out = doubles(r, 5);
    struct box loss = box_new(r, 0, 0, 1, 5, 0, 0, 0), scale = box_new(r, .25, 0, 1, 1, 0, 0, 0);
    struct box g = box_new(r, 0, 0, 2, 5, 9, 0, 0);
    memcpy(g.want, p.x.want, (size_t)g.n * sizeof *g.want);
    box_put(r, &g);
    op_classifier(&r->b, &loss.t, &g.t, &targets, &scale.t, true, 0);
    compare(&p, &p.x, &g, NULL, "classifier, with an ignored row");
    rig_close(r);
}

int main(int argc, char **argv)
{
    const char *b = rig_backend(argc, argv);
    grad_embed(b, 0);
    grad_embed(b, .3f);
    grad_norm(b, 0);
    grad_norm(b, .3f);
    grad_linear(b, WEIGHT_IN_OUT, false);
    grad_linear(b, WEIGHT_OUT_IN, false);
    grad_linear(b, WEIGHT_IN_OUT, true);
    grad_linear(b, WEIGHT_OUT_IN, true);
    grad_attention(b, 1, 0);
    grad_attention(b, 5, 0);
    grad_attention(b, 35, 0);
    grad_attention(b, 7, .4f);
    grad_classifier(b);
    return tap_done();
}
