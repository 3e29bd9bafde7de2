/* test_ops: the conformance suite. Every op of a backend against the double reference.
 *
 *   build/tests/ops/test_ops [BACKEND]     (or ASSAY_BACKEND; default cpu)
 *
 * Errors are |got - want| / (|want| + rms of want). A float has 6e-8; the bounds below leave room
 * for sums of some thousand terms and for the exponential, and none for a wrong formula.
 */
#include <math.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"

static const struct dropout none;

static void check_box(struct rig *r, struct box *x, double bound, const char *what, const char *of)
{
    double off = box_error(r, x);
    if (!CHECK(off <= bound && !r->guard_broken, "%s: %s", what, of))
        printf("# off by %.3g, allowed %.3g%s\n", off, bound,
               r->guard_broken ? "; wrote behind its end" : "");
    r->guard_broken = false;
}

/* Dropout of probability p for B sequences, for the op and for the reference. */
struct drops {
    struct tensor seq;
    struct dropout op;
    struct ref_drop ref;
};
static struct dropout drops_make(struct rig *r, struct drops *d, float p, int64_t B)
{
    const uint64_t *ids = ids_new(r, &d->seq, B);
    uint64_t key = rng_u64(&r->rng);
    d->op = (struct dropout){.p = p, .key = key, .seq = &d->seq};
    d->ref = (struct ref_drop){.p = (double)p, .key = key, .seq = ids};
    return d->op;
}

static void fill_ids(struct rig *r, struct tensor *t, int32_t *v, int64_t n, int64_t V, int64_t B,
                     int64_t T)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = (int32_t)rng_below(&r->rng, (uint64_t)V);
    op_put(&r->b, t, v);
    *t = tensor_2d(DTYPE_I32, t->data, B, T);
}

static void test_embed(const char *backend, int64_t B, int64_t T, int64_t C, int64_t V, float p)
{
    struct rig r;
    rig_open(&r, backend, 0);
    char name[120];
    snprintf(name, sizeof name, "embed B%d T%d C%d V%d dropout %g", (int)B, (int)T, (int)C, (int)V,
             (double)p);
    struct ref_shape s = {.B = B, .T = T, .C = C, .V = V};
    struct tensor ids;
    int32_t *id = ints_new(&r, &ids, B * T);
    fill_ids(&r, &ids, id, B * T, V, B, T);
    struct box wte = box_new(&r, 0, 1, 2, V, C, 0, 0), wpe = box_new(&r, 0, 1, 2, T + 3, C, 0, 0);
    struct box y = box_new(&r, 9, 0, 3, B, T, C, 0), dy = box_new(&r, 0, 1, 3, B, T, C, 0);
    struct box dwte = box_new(&r, 0, 1, 2, V, C, 0, 0), dwpe = box_new(&r, 0, 1, 2, T + 3, C, 0, 0);
    struct drops d;
    drops_make(&r, &d, p, B);
    op_embed_fwd(&r.b, &y.t, &ids, &wte.t, &wpe.t, NULL, d.op);
    ref_embed_fwd(s, y.want, id, wte.want, wpe.want, NULL, d.ref);
    check_box(&r, &y, 1e-6, name, "forward");
    op_embed_bwd(&r.b, &dwte.t, &dwpe.t, &dy.t, &ids, d.op);
    ref_embed_bwd(s, dwte.want, dwpe.want, dy.want, id, d.ref);
    check_box(&r, &dwte, 1e-6, name, "token gradient adds to what was there");
    check_box(&r, &dwpe, 1e-6, name, "position gradient adds to what was there");
    for (int64_t i = 0; i < B * T; i++) /* sequences of 1, 2, 3... ids */
        id[i] = i % T > i / T ? -1 : id[i];
    op_put(&r.b, &ids, id);
    op_embed_fwd(&r.b, &y.t, &ids, &wte.t, &wpe.t, NULL, d.op);
    ref_embed_fwd(s, y.want, id, wte.want, wpe.want, NULL, d.ref);
    check_box(&r, &y, 1e-6, name, "forward, padding as the first of its sequence");
    struct tensor pos;
    int32_t *at = ints_new(&r, &pos, B);
    for (int64_t b = 0; b < B; b++)
        at[b] = (int32_t)(b % 4) - 1 > 3 ? 3 : (int32_t)(b % 4) - 1; /* -1: idle */
    op_put(&r.b, &pos, at);
    op_embed_fwd(&r.b, &y.t, &ids, &wte.t, &wpe.t, &pos, none);
    ref_embed_fwd(s, y.want, id, wte.want, wpe.want, at, (struct ref_drop){0});
    check_box(&r, &y, 1e-6, name, "forward at given positions, idle rows zero");
    rig_close(&r);
}

static void test_norm(const char *backend, int64_t B, int64_t T, int64_t C, float p, double mean)
{
    struct rig r;
    rig_open(&r, backend, 0);
    char name[120];
    snprintf(name, sizeof name, "add_norm B%d T%d C%d mean %g dropout %g", (int)B, (int)T, (int)C,
             mean, (double)p);
    struct ref_shape s = {.B = B, .T = T, .C = C};
    double eps = (double)1e-5f, bound = 1e-5 * (1 + fabs(mean));
    struct box x = box_new(&r, mean, 1, 3, B, T, C, 0), br = box_new(&r, 0, 1, 3, B, T, C, 0);
    struct box w = box_new(&r, 1, .3, 1, C, 0, 0, 0), bias = box_new(&r, 0, .3, 1, C, 0, 0, 0);
    struct box sum = box_new(&r, 9, 0, 3, B, T, C, 0), y = box_new(&r, 9, 0, 3, B, T, C, 0);
    struct box m = box_new(&r, 9, 0, 1, B * T, 0, 0, 0), rs = box_new(&r, 9, 0, 1, B * T, 0, 0, 0);
    struct drops d;
    drops_make(&r, &d, p, B);
    op_add_norm_fwd(&r.b, NULL, &y.t, NULL, NULL, &x.t, NULL, &w.t, &bias.t, 1e-5f, none);
    ref_add_norm_fwd(s, NULL, y.want, NULL, NULL, x.want, NULL, w.want, bias.want, eps,
                     (struct ref_drop){0});
    check_box(&r, &y, bound, name, "norm alone");
    op_add_norm_fwd(&r.b, &sum.t, &y.t, &m.t, &rs.t, &x.t, &br.t, &w.t, &bias.t, 1e-5f, d.op);
    ref_add_norm_fwd(s, sum.want, y.want, m.want, rs.want, x.want, br.want, w.want, bias.want, eps,
                     d.ref);
    check_box(&r, &sum, 1e-6, name, "sum");
    check_box(&r, &y, bound, name, "norm of the sum");
    check_box(&r, &m, bound, name, "mean");
    check_box(&r, &rs, bound, name, "rstd");
    struct box dy = box_new(&r, 0, 1, 3, B, T, C, 0), ds = box_new(&r, 0, 1, 3, B, T, C, 0);
    struct box dr = box_new(&r, 9, 0, 3, B, T, C, 0);
    struct box dw = box_new(&r, 0, 1, 1, C, 0, 0, 0), db = box_new(&r, 0, 1, 1, C, 0, 0, 0);
    op_add_norm_bwd(&r.b, &ds.t, &dr.t, &dw.t, &db.t, &dy.t, &sum.t, &m.t, &rs.t, &w.t, d.op);
    ref_add_norm_bwd(s, ds.want, dr.want, dw.want, db.want, dy.want, sum.want, w.want, eps, d.ref);
    check_box(&r, &ds, bound, name, "gradient of the sum adds to the residual's");
    check_box(&r, &dr, bound, name, "gradient of the branch");
    check_box(&r, &dw, bound, name, "gradient of w adds");
    check_box(&r, &db, bound, name, "gradient of bias adds");
    memcpy(sum.want, x.want, (size_t)x.n * sizeof *x.want);
    box_put(&r, &sum);
    op_add_norm_fwd(&r.b, &sum.t, &y.t, NULL, NULL, &sum.t, &br.t, &w.t, &bias.t, 1e-5f, d.op);
    ref_add_norm_fwd(s, sum.want, y.want, NULL, NULL, x.want, br.want, w.want, bias.want, eps,
                     d.ref);
    check_box(&r, &sum, 1e-6, name, "sum in the storage of x");
    rig_close(&r);
}

static void test_linear(const char *backend, int64_t N, int64_t I, int64_t O,
                        enum weight_layout layout)
{
    struct rig r;
    rig_open(&r, backend, 0);
    bool oi = layout == WEIGHT_OUT_IN;
    char name[120];
    snprintf(name, sizeof name, "linear N%d I%d O%d %s", (int)N, (int)I, (int)O,
             oi ? "out x in" : "in x out");
    struct box x = box_new(&r, 0, 1, 2, N, I, 0, 0), y = box_new(&r, 9, 0, 2, N, O, 0, 0);
    struct box w = box_new(&r, 0, 1, 2, oi ? O : I, oi ? I : O, 0, 0);
    struct box bias = box_new(&r, 0, 1, 1, O, 0, 0, 0), pre = box_new(&r, 9, 0, 2, N, O, 0, 0);
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, layout, NULL, NULL);
    ref_linear_fwd(N, I, O, y.want, x.want, w.want, oi, NULL, NULL);
    check_box(&r, &y, 1e-5, name, "forward without bias");
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, layout, &bias.t, NULL);
    ref_linear_fwd(N, I, O, y.want, x.want, w.want, oi, bias.want, NULL);
    check_box(&r, &y, 1e-5, name, "forward with bias");
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, layout, &bias.t, &pre.t);
    ref_linear_fwd(N, I, O, y.want, x.want, w.want, oi, bias.want, pre.want);
    check_box(&r, &pre, 1e-5, name, "what goes into gelu");
    check_box(&r, &y, 1e-5, name, "forward with gelu");
    struct box act = box_new(&r, 9, 0, 2, N, O, 0, 0);
    for (int64_t i = 0; i < y.n; i++)
        act.want[i] = (double)y.got[i];
    op_gelu_fwd(&r.b, &act.t, &pre.t);
    /* To the last bit on a CPU; a device's fused product may use another gelu. */
    check_box(&r, &act, strcmp(backend, "cpu") == 0 ? 0 : 1e-6, name, "gelu again, alone");
    for (int64_t i = 0; i < pre.n; i++)
        pre.want[i] = (double)pre.got[i];
    struct box dy = box_new(&r, 0, 1, 2, N, O, 0, 0), dx = box_new(&r, 0, 1, 2, N, I, 0, 0);
    struct box dw = box_new(&r, 0, 1, 2, oi ? O : I, oi ? I : O, 0, 0);
    struct box db = box_new(&r, 0, 1, 1, O, 0, 0, 0);
    op_linear_bwd(&r.b, &dx.t, true, &dw.t, &db.t, &dy.t, &x.t, &w.t, layout, &pre.t);
    ref_linear_bwd(N, I, O, dx.want, dw.want, db.want, dy.want, x.want, w.want, oi, pre.want);
    check_box(&r, &dy, 1e-5, name, "dy goes through gelu in place");
    check_box(&r, &dx, 1e-5, name, "dx adds when asked to");
    check_box(&r, &dw, 1e-5, name, "dw adds");
    check_box(&r, &db, 1e-5, name, "dbias adds");
    for (int64_t i = 0; i < dy.n; i++)
        dy.want[i] = (double)dy.got[i];
    memset(dx.want, 0, (size_t)dx.n * sizeof *dx.want);
    op_linear_bwd(&r.b, &dx.t, false, &dw.t, NULL, &dy.t, &x.t, &w.t, layout, NULL);
    ref_linear_bwd(N, I, O, dx.want, dw.want, NULL, dy.want, x.want, w.want, oi, NULL);
    check_box(&r, &dx, 1e-5, name, "dx replaces otherwise");
    check_box(&r, &dw, 1e-5, name, "dw adds again");
    op_linear_bwd(&r.b, NULL, false, &dw.t, NULL, &dy.t, &x.t, &w.t, layout, NULL);
    ref_linear_bwd(N, I, O, NULL, dw.want, NULL, dy.want, x.want, w.want, oi, NULL);
    check_box(&r, &dw, 1e-5, name, "dx may be left out");
    rig_close(&r);
}

static void test_attention(const char *backend, int64_t B, int64_t T, int heads, int64_t HS,
                           float p, double std)
{
    struct rig r;
    rig_open(&r, backend, 0);
    int64_t C = heads * HS;
    char name[120];
    snprintf(name, sizeof name, "attention B%d T%d heads %d x %d std %g dropout %g", (int)B, (int)T,
             heads, (int)HS, std, (double)p);
    struct ref_shape s = {.B = B, .T = T, .C = C, .heads = heads};
    struct box qkv = box_new(&r, 0, std, 3, B, T, 3 * C, 0), y = box_new(&r, 9, 0, 3, B, T, C, 0);
    struct box lse = box_new(&r, 9, 0, 3, B, heads, T, 0), dy = box_new(&r, 0, 1, 3, B, T, C, 0);
    struct box dq = box_new(&r, 9, 0, 3, B, T, 3 * C, 0);
    struct drops d;
    drops_make(&r, &d, p, B);
    /* Scores of size s carry an error of s * 2^-24 into the exponent. */
    double bound = 1e-5 * (1 + std * std);
    op_attention_fwd(&r.b, &y.t, &lse.t, &qkv.t, heads, d.op);
    ref_attention_fwd(s, y.want, lse.want, qkv.want, d.ref);
    check_box(&r, &y, bound, name, "forward");
    check_box(&r, &lse, bound, name, "log of the denominator");
    op_attention_bwd(&r.b, &dq.t, &dy.t, &y.t, &qkv.t, &lse.t, heads, d.op);
    ref_attention_bwd(s, dq.want, dy.want, qkv.want, d.ref);
    check_box(&r, &dq, bound, name, "backward");
    rig_close(&r);
}

/* Decoding one position at a time must give what the whole sequence gave. */
static void test_decode(const char *backend, int64_t T, int heads, int64_t HS)
{
    struct rig r;
    rig_open(&r, backend, 0);
    enum { B = 3 };
    int64_t C = heads * HS, W = 3 * C, max = T + 2, prompt = T / 2;
    char name[120];
    snprintf(name, sizeof name, "decoding T%d heads %d x %d", (int)T, heads, (int)HS);
    struct ref_shape s = {.B = B, .T = T, .C = C, .heads = heads};
    struct box qkv = box_new(&r, 0, 1, 3, B, T, W, 0), y = box_new(&r, 0, 0, 2, B, C, 0, 0);
    double *all = doubles(&r, B * T * C), *lse = doubles(&r, B * heads * T);
    ref_attention_fwd(s, all, lse, qkv.want, (struct ref_drop){0});
    struct box k = box_new(&r, 7, 0, 4, B, heads, max, HS),
               v = box_new(&r, 7, 0, 4, B, heads, max, HS);
    struct tensor pos;
    int32_t *at = ints_new(&r, &pos, B);
    double worst = 0;
    if (prompt > 0) {
        struct box part = box_new(&r, 0, 0, 3, B, prompt, W, 0);
        for (int64_t b = 0; b < B; b++)
            memcpy(part.want + b * prompt * W, qkv.want + b * T * W,
                   (size_t)(prompt * W) * sizeof *part.want);
        box_put(&r, &part);
        op_put(&r.b, &pos, at); /* zeros */
        op_kv_write(&r.b, &k.t, &v.t, &part.t, &pos, heads);
    }
    struct box one = box_new(&r, 0, 0, 2, B, W, 0, 0);
    for (int64_t t = prompt; t < T; t++) {
        for (int64_t b = 0; b < B; b++) {
            bool idle = b == 1 && t == prompt; /* once; its position is done again below */
            at[b] = idle ? -1 : (int32_t)t;
            memcpy(one.want + b * W, qkv.want + (b * T + t) * W, (size_t)W * sizeof *one.want);
            memcpy(y.want + b * C, all + (b * T + t) * C, (size_t)C * sizeof *y.want);
            if (idle)
                memset(y.want + b * C, 0, (size_t)C * sizeof *y.want);
        }
        box_put(&r, &one);
        op_put(&r.b, &pos, at);
        op_attention_step(&r.b, &y.t, &k.t, &v.t, &one.t, &pos, heads);
        worst = fmax(worst, box_error(&r, &y));
        if (at[1] < 0) {
            at[0] = at[2] = -1;
            at[1] = (int32_t)t;
            op_put(&r.b, &pos, at);
            op_attention_step(&r.b, &y.t, &k.t, &v.t, &one.t, &pos, heads);
        }
    }
    if (!CHECK(worst <= 1e-5 && rig_ok(&r), "%s: equal to the whole sequence, idle rows zero",
               name))
        printf("# off by %g\n", worst);
    box_get(&r, &k);
    bool clean = !r.guard_broken;
    for (int64_t i = 0; i < B * heads; i++)
        for (int64_t e = T * HS; e < max * HS; e++)
            clean = clean && k.got[i * max * HS + e] == 7;
    CHECK(clean, "%s: nothing is written behind the position", name);
    rig_close(&r);
}

/* Columns behind the vocabulary: not read, gradient 0. */
static void test_padding(const char *backend, int64_t N, int64_t V, int64_t width)
{
    struct rig r;
    rig_open(&r, backend, 0);
    char name[120];
    snprintf(name, sizeof name, "classifier N%d V%d of %d columns", (int)N, (int)V, (int)width);
    struct box x = box_new(&r, 0, 1, 2, N, width, 0, 0), loss = box_new(&r, 9, 0, 1, N, 0, 0, 0);
    struct box scale = box_new(&r, .125, 0, 1, 1, 0, 0, 0);
    struct tensor targets;
    int32_t *id = ints_new(&r, &targets, N);
    double *logits = doubles(&r, N * V), *grad = doubles(&r, N * V);
    for (int64_t i = 0; i < N; i++) {
        id[i] = i == 2 ? -1 : (int32_t)(V - 1 - i % V);
        memcpy(logits + i * V, x.want + i * width, (size_t)V * sizeof *logits);
        for (int64_t c = V; c < width; c++)
            x.want[i * width + c] = c % 2 ? INFINITY : NAN;
    }
    op_put(&r.b, &targets, id);
    box_put(&r, &x);
    ref_classifier(N, V, loss.want, grad, logits, id, .125);
    op_classifier(&r.b, &loss.t, &x.t, &targets, NULL, false, V);
    check_box(&r, &loss, 1e-6, name, "loss");
    op_classifier(&r.b, &loss.t, &x.t, &targets, &scale.t, true, V);
    check_box(&r, &loss, 1e-6, name, "loss with grad");
    for (int64_t i = 0; i < N * width; i++)
        x.want[i] = i % width < V ? grad[i / width * V + i % width] : 0;
    check_box(&r, &x, 1e-5, name, "gradient, padding 0");
    rig_close(&r);
}

static void test_classifier(const char *backend, int64_t N, int64_t V, double std)
{
    struct rig r;
    rig_open(&r, backend, 0);
    char name[120];
    snprintf(name, sizeof name, "classifier N%d V%d std %g", (int)N, (int)V, std);
    struct box x = box_new(&r, 0, std, 2, N, V, 0, 0), loss = box_new(&r, 9, 0, 1, N, 0, 0, 0);
    struct box scale = box_new(&r, .125, 0, 1, 1, 0, 0, 0);
    struct tensor targets;
    int32_t *id = ints_new(&r, &targets, N);
    for (int64_t i = 0; i < N; i++)
        id[i] =
            i % 5 == 3 ? -1 : (int32_t)(i == 0 ? V - 1 : (int64_t)rng_below(&r.rng, (uint64_t)V));
    op_put(&r.b, &targets, id);
    double *logits = copy_of(&r, x.want, x.n), *grad = doubles(&r, x.n);
    ref_classifier(N, V, loss.want, grad, logits, id, .125);
    op_classifier(&r.b, &loss.t, &x.t, &targets, NULL, false, 0);
    check_box(&r, &loss, 1e-6, name, "loss; ignored rows 0");
    check_box(&r, &x, 0, name, "logits stay without grad");
    op_classifier(&r.b, &loss.t, &x.t, &targets, &scale.t, true, 0);
    check_box(&r, &loss, 1e-6, name, "loss with grad");
    memcpy(x.want, grad, (size_t)x.n * sizeof *grad);
    check_box(&r, &x, 1e-5, name, "gradient in place, ignored rows 0");
    rig_close(&r);
}

static void test_update(const char *backend, int64_t n, int64_t cut, int64_t lo, int64_t hi)
{
    struct rig r;
    rig_open(&r, backend, 0);
    char name[120];
    snprintf(name, sizeof name, "adamw of %d in %d..%d", (int)n, (int)lo, (int)hi);
    struct box p = box_new(&r, 0, 1, 1, n, 0, 0, 0), g = box_new(&r, 0, .1, 1, n, 0, 0, 0);
    struct box m = box_new(&r, 0, 0, 1, hi - lo, 0, 0, 0),
               v = box_new(&r, 0, 0, 1, hi - lo, 0, 0, 0);
    struct box gscale = box_new(&r, .5, 0, 1, 1, 0, 0, 0), skip = box_new(&r, 0, 0, 1, 1, 0, 0, 0);
    struct adamw_segment seg[] = {{0, cut, true}, {cut, n, false}};
    struct ref_adamw h = {
        (double)3e-3f, (double).9f, (double).95f, (double)1e-8f, (double).1f, .5, 0};
    struct adamw op = {.lr = 3e-3f,
                       .beta1 = .9f,
                       .beta2 = .95f,
                       .eps = 1e-8f,
                       .weight_decay = .1f,
                       .segments = seg,
                       .nsegments = 2,
                       .lo = lo,
                       .hi = hi};
    for (h.step = 1; h.step <= 5; h.step++) {
        op.step = h.step;
        op_adamw(&r.b, &p.t, &g.t, &m.t, &v.t, &op, &gscale.t, &skip.t);
        int64_t at = cut < lo ? lo : cut > hi ? hi : cut;
        ref_adamw(at - lo, p.want + lo, g.want + lo, m.want, v.want, true, &h);
        ref_adamw(hi - at, p.want + at, g.want + at, m.want + (at - lo), v.want + (at - lo), false,
                  &h);
    }
    check_box(&r, &p, 1e-6, name, "parameters, after 5 steps, only in the range");
    check_box(&r, &m, 1e-6, name, "first moment");
    check_box(&r, &v, 1e-6, name, "second moment");
    skip.want[0] = 1;
    box_put(&r, &skip);
    op_adamw(&r.b, &p.t, &g.t, &m.t, &v.t, &op, &gscale.t, &skip.t);
    check_box(&r, &p, 1e-6, name, "nothing happens when skip is set");
    struct box sum = box_new(&r, 2, 0, 1, 1, 0, 0, 0);
    for (int64_t i = 0; i < n; i++)
        sum.want[0] += g.want[i] * g.want[i];
    op_sum_squares(&r.b, &sum.t, &g.t);
    check_box(&r, &sum, 1e-7, name, "sum of squares adds, to a float's last bit");
    rig_close(&r);
}

static void test_zero(const char *backend)
{
    struct rig r;
    rig_open(&r, backend, 0);
    struct box x = box_new(&r, 0, 1, 1, 3333333, 0, 0, 0);
    op_zero(&r.b, &x.t);
    memset(x.want, 0, (size_t)x.n * sizeof *x.want);
    check_box(&r, &x, 0, "zero", "all of it and nothing behind it");
    float *p = op_alloc(&r.b, 40000000);
    struct tensor t = tensor_1d(DTYPE_F32, p, 10000000);
    float *host = mem_alloc(40000000);
    op_get(&r.b, host, &t);
    rig_ok(&r);
    bool zero = true;
    for (int i = 0; i < 10000000; i++)
        zero = zero && host[i] == 0;
    CHECK(zero, "fresh memory is zero");
    free(host);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    const char *b = rig_backend(argc, argv);
    static const struct {
        int64_t B, T, C, V;
        float p;
    } embed[] = {{1, 1, 1, 1, 0},
                 {2, 7, 48, 3, 0},
                 {3, 5, 10, 11, .3f},
                 {5, 33, 192, 1000, .1f},
                 {4, 64, 64, 50257, .5f}};
    for (size_t i = 0; i < sizeof embed / sizeof *embed; i++)
        test_embed(b, embed[i].B, embed[i].T, embed[i].C, embed[i].V, embed[i].p);
    static const struct {
        int64_t B, T, C;
        float p;
        double mean;
    } norm[] = {{1, 1, 2, 0, 0},      {2, 3, 7, .4f, 0},    {3, 5, 48, 0, 0},
                {3, 13, 192, .1f, 5}, {2, 65, 768, .1f, 0}, {1, 3, 1600, 0, -20}};
    for (size_t i = 0; i < sizeof norm / sizeof *norm; i++)
        test_norm(b, norm[i].B, norm[i].T, norm[i].C, norm[i].p, norm[i].mean);
    static const int64_t linear[][3] = {
        {1, 1, 1},      {1, 192, 576}, {3, 5, 7},     {7, 48, 33},     {65, 64, 192},
        {97, 100, 259}, {512, 48, 64}, {5, 64, 5003}, {130, 768, 100}, {1, 768, 50257 / 16}};
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        test_linear(b, linear[i][0], linear[i][1], linear[i][2], WEIGHT_IN_OUT);
        test_linear(b, linear[i][0], linear[i][1], linear[i][2], WEIGHT_OUT_IN);
    }
    static const struct {
        int64_t B, T;
        int heads;
        int64_t HS;
        float p;
        double std;
    } att[] = {{1, 1, 1, 1, 0, 1},      {2, 2, 3, 2, 0, 1},     {1, 31, 2, 16, 0, 1},
               {2, 33, 3, 48, .2f, 1},  {1, 64, 3, 64, 0, 1},   {2, 127, 2, 16, .5f, 1},
               {1, 300, 1, 64, .1f, 1}, {1, 257, 2, 128, 0, 1}, {1, 45, 2, 5, .1f, 1},
               {1, 96, 1, 64, 0, 6},    {3, 17, 2, 80, 0, 1},   {1, 600, 1, 8, 0, 1}};
    for (size_t i = 0; i < sizeof att / sizeof *att; i++)
        test_attention(b, att[i].B, att[i].T, att[i].heads, att[i].HS, att[i].p, att[i].std);
    test_decode(b, 1, 1, 1);
    test_decode(b, 9, 2, 5);
    test_decode(b, 40, 3, 64);
    test_decode(b, 33, 2, 48);
    static const struct {
        int64_t N, V;
        double std;
    } cls[] = {{1, 1, 1}, {7, 3, 1}, {33, 257, 3}, {4, 50257, 1}, {65, 1000, 30}, {2, 100003, 1}};
    for (size_t i = 0; i < sizeof cls / sizeof *cls; i++)
        test_classifier(b, cls[i].N, cls[i].V, cls[i].std);
    test_padding(b, 5, 97, 128);
    test_padding(b, 3, 7, 8);
    test_update(b, 1, 1, 0, 1);
    test_update(b, 1000, 333, 0, 1000);
    test_update(b, 300001, 100000, 0, 300001);
    test_update(b, 300001, 100000, 70001, 170003);
    test_zero(b);
    return tap_done();
}
