/* test_narrow: every op of the CUDA backend with activations of bf16 and fp16 against the double
 * reference, on the emulator (or a device, with ASSAY_LIBDIR elsewhere).
 *
 * Inputs are rounded to the type first, so that the reference reads what the device reads. Bounds are
 * multiples of the unit (2^-8, 2^-11): a result that is rounded once is within 1. What is
 * summed from rounded weights (attention) may be off by more somewhere, never as a whole.
 */
#include <math.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"

/* ---- the two types on the host ---- */

/* To the nearest, ties to even, keeping `bits` bits of the significand. */
static double rounded(double x, int bits, int least)
{
    int e;
    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &e);
    int at = e - bits > least ? e - bits : least;
    return ldexp(nearbyint(ldexp(x, -at)), at);
}

static double to_type(enum dtype t, double x)
{
    return t == DTYPE_BF16 ? rounded(x, 8, -133) : rounded(x, 11, -24);
}

static uint16_t bits_of(enum dtype t, double x)
{
    float f = (float)x;
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    if (t == DTYPE_BF16)
        return (uint16_t)(w >> 16);
    uint16_t sign = (uint16_t)(w >> 16 & 0x8000);
    double a = fabs(x);
    if (a < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)(a * 0x1p24));
    int e;
    double m = frexp(a, &e);
    return (uint16_t)(sign | (uint16_t)((e + 14) << 10) | (uint16_t)((m * 2 - 1) * 1024));
}

static double value_of(enum dtype t, uint16_t b)
{
    if (t == DTYPE_BF16) {
        uint32_t w = (uint32_t)b << 16;
        float f;
        memcpy(&f, &w, sizeof f);
        return (double)f;
    }
    int e = b >> 10 & 31;
    double m = b & 1023, v;
    if (e == 31)
        v = m != 0 ? (double)NAN : (double)INFINITY;
    else
        v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return b & 0x8000 ? -v : v;
}

/* ---- boxes of a type ---- */

struct narrow {
    struct tensor t;
    int64_t n;
    double *want;
};

static void put(struct rig *r, struct narrow *x)
{
    uint16_t *host = mem_array((size_t)x->n, sizeof *host);
    for (int64_t i = 0; i < x->n; i++) {
        x->want[i] = to_type(x->t.type, x->want[i]);
        host[i] = bits_of(x->t.type, x->want[i]);
    }
    op_put(&r->b, &x->t, host);
    free(host);
}

static struct narrow make(struct rig *r, enum dtype type, double mean, double std, int ndim,
                          int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    struct narrow x = {.t = tensor_make(type, NULL, ndim, d0, d1, d2, d3)};
    x.n = tensor_count(&x.t);
    x.t.data = op_alloc(&r->b, (size_t)x.n * 2);
    x.want = doubles(r, x.n);
    for (int64_t i = 0; i < x.n; i++)
        x.want[i] = mean + (std != 0 ? std * rng_normal(&r->rng) : 0);
    put(r, &x);
    return x;
}

/* f32 parameters whose values the type holds exactly. */
static struct box param(struct rig *r, enum dtype type, double mean, double std, int ndim,
                        int64_t d0, int64_t d1)
{
    struct box x = box_new(r, mean, std, ndim, d0, d1, 0, 0);
    for (int64_t i = 0; i < x.n; i++)
        x.want[i] = to_type(type, x.want[i]);
    box_put(r, &x);
    return x;
}

static double unit(enum dtype t)
{
    return t == DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
}

/* Reads x back into want (what a later op reads) and tells how far it was off: at worst, and as a
 * whole, both relative to the size of what was wanted. */
struct off {
    double worst, rms;
};
static struct off off_by(struct rig *r, struct narrow *x)
{
    uint16_t *host = mem_array((size_t)x->n, sizeof *host);
    op_get(&r->b, host, &x->t);
    struct off o = {rig_ok(r) ? 0 : (double)INFINITY, 0};
    double square = 0, error = 0;
    for (int64_t i = 0; i < x->n; i++)
        square += x->want[i] * x->want[i];
    double rms = sqrt(square / (double)x->n) + 1e-30;
    for (int64_t i = 0; i < x->n; i++) {
        double got = value_of(x->t.type, host[i]), d = fabs(got - x->want[i]);
        error += d * d;
        if (!(d / (fabs(x->want[i]) + rms) <= o.worst))
            o.worst = d / (fabs(x->want[i]) + rms);
        x->want[i] = got;
    }
    o.rms = sqrt(error / (double)x->n) / rms;
    free(host);
    return o;
}

static void check(struct rig *r, struct narrow *x, double units, const char *what, const char *of)
{
    struct off o = off_by(r, x);
    double worst = o.worst / unit(x->t.type), rms = o.rms / unit(x->t.type);
    if (!CHECK(worst <= units && rms <= 1, "%s: %s", what, of))
        printf("# off by %.3g units, allowed %.3g; as a whole by %.3g\n", worst, units, rms);
}

static void check_f32(struct rig *r, struct box *x, double bound, const char *what, const char *of)
{
    double off = box_error(r, x);
    if (!CHECK(off <= bound && !r->guard_broken, "%s: %s", what, of))
        printf("# off by %.3g, allowed %.3g\n", off, bound);
    r->guard_broken = false;
}

struct drops {
    struct tensor seq;
    struct dropout op;
    struct ref_drop ref;
};
static void drops_make(struct rig *r, struct drops *d, float p, int64_t B)
{
    const uint64_t *ids = ids_new(r, &d->seq, B);
    uint64_t key = rng_u64(&r->rng);
    d->op = (struct dropout){.p = p, .key = key, .seq = &d->seq};
    d->ref = (struct ref_drop){.p = (double)p, .key = key, .seq = ids};
}

/* ---- ops ---- */

static void test_embed(enum dtype type, int64_t B, int64_t T, int64_t C, float p)
{
    struct rig r;
    char name[80];
    rig_open(&r, "cuda", 0);
    snprintf(name, sizeof name, "%s embed B%d T%d C%d dropout %g", dtype_name(type), (int)B, (int)T,
             (int)C, (double)p);
    struct ref_shape s = {.B = B, .T = T, .C = C, .V = 37};
    struct tensor ids;
    struct drops d;
    drops_make(&r, &d, p, B);
    int32_t *id = ints_new(&r, &ids, B * T);
    for (int64_t i = 0; i < B * T; i++)
        id[i] = (int32_t)rng_below(&r.rng, 37);
    op_put(&r.b, &ids, id);
    ids = tensor_2d(DTYPE_I32, ids.data, B, T);
    struct box wte = box_new(&r, 0, 1, 2, 37, C, 0, 0), wpe = box_new(&r, 0, 1, 2, T, C, 0, 0);
    struct box dwte = box_new(&r, 0, 1, 2, 37, C, 0, 0), dwpe = box_new(&r, 0, 1, 2, T, C, 0, 0);
    struct narrow y = make(&r, type, 9, 0, 3, B, T, C, 0), dy = make(&r, type, 0, 1, 3, B, T, C, 0);
    op_embed_fwd(&r.b, &y.t, &ids, &wte.t, &wpe.t, NULL, d.op);
    ref_embed_fwd(s, y.want, id, wte.want, wpe.want, NULL, d.ref);
    check(&r, &y, 1, name, "forward");
    op_embed_bwd(&r.b, &dwte.t, &dwpe.t, &dy.t, &ids, d.op);
    ref_embed_bwd(s, dwte.want, dwpe.want, dy.want, id, d.ref);
    double bound = p > 0 ? 1.5 * unit(type) : 1e-6; /* a masked gradient is rounded again */
    check_f32(&r, &dwte, bound, name, "token gradient");
    check_f32(&r, &dwpe, bound, name, "position gradient");
    rig_close(&r);
}

static void test_norm(enum dtype type, int64_t B, int64_t T, int64_t C, float p)
{
    struct rig r;
    char name[80];
    rig_open(&r, "cuda", 0);
    snprintf(name, sizeof name, "%s add_norm B%d T%d C%d dropout %g", dtype_name(type), (int)B,
             (int)T, (int)C, (double)p);
    struct ref_shape s = {.B = B, .T = T, .C = C};
    double eps = (double)1e-5f;
    struct drops d;
    drops_make(&r, &d, p, B);
    struct narrow x = make(&r, type, 0, 1, 3, B, T, C, 0), br = make(&r, type, 0, 1, 3, B, T, C, 0);
    struct narrow sum = make(&r, type, 9, 0, 3, B, T, C, 0),
                  y = make(&r, type, 9, 0, 3, B, T, C, 0);
    struct box w = box_new(&r, 1, .3, 1, C, 0, 0, 0), bias = box_new(&r, 0, .3, 1, C, 0, 0, 0);
    struct box m = box_new(&r, 9, 0, 1, B * T, 0, 0, 0), rs = box_new(&r, 9, 0, 1, B * T, 0, 0, 0);
    op_add_norm_fwd(&r.b, &sum.t, &y.t, &m.t, &rs.t, &x.t, &br.t, &w.t, &bias.t, 1e-5f, d.op);
    ref_add_norm_fwd(s, sum.want, y.want, m.want, rs.want, x.want, br.want, w.want, bias.want, eps,
                     d.ref);
    check(&r, &sum, 1, name, "sum");
    /* From here on the reference reads the rounded sum, as the device does. */
    ref_add_norm_fwd(s, NULL, y.want, m.want, rs.want, sum.want, NULL, w.want, bias.want, eps,
                     (struct ref_drop){0});
    check(&r, &y, 1, name, "norm of the rounded sum");
    check_f32(&r, &m, 1e-5, name, "mean");
    check_f32(&r, &rs, 1e-5, name, "rstd");
    struct narrow dy = make(&r, type, 0, 1, 3, B, T, C, 0),
                  ds = make(&r, type, 0, 1, 3, B, T, C, 0);
    struct narrow dr = make(&r, type, 9, 0, 3, B, T, C, 0);
    struct box dw = box_new(&r, 0, 1, 1, C, 0, 0, 0), db = box_new(&r, 0, 1, 1, C, 0, 0, 0);
    op_add_norm_bwd(&r.b, &ds.t, &dr.t, &dw.t, &db.t, &dy.t, &sum.t, &m.t, &rs.t, &w.t, d.op);
    ref_add_norm_bwd(s, ds.want, dr.want, dw.want, db.want, dy.want, sum.want, w.want, eps, d.ref);
    check(&r, &ds, 1, name, "gradient of the sum");
    check(&r, &dr, 2, name, "gradient of the branch");
    check_f32(&r, &dw, 1e-5, name, "gradient of w");
    check_f32(&r, &db, 1e-5, name, "gradient of bias");
    rig_close(&r);
}

static void test_linear(enum dtype type, int64_t N, int64_t I, int64_t O, bool oi)
{
    struct rig r;
    char name[80];
    rig_open(&r, "cuda", 0);
    enum weight_layout layout = oi ? WEIGHT_OUT_IN : WEIGHT_IN_OUT;
    snprintf(name, sizeof name, "%s linear N%d I%d O%d %s", dtype_name(type), (int)N, (int)I,
             (int)O, oi ? "out x in" : "in x out");
    struct narrow x = make(&r, type, 0, 1, 2, N, I, 0, 0), y = make(&r, type, 9, 0, 2, N, O, 0, 0);
    struct narrow pre = make(&r, type, 9, 0, 2, N, O, 0, 0);
    struct box w = param(&r, type, 0, .3, 2, oi ? O : I, oi ? I : O);
    struct box bias = param(&r, type, 0, 1, 1, O, 0);
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, layout, &bias.t, NULL);
    ref_linear_fwd(N, I, O, y.want, x.want, w.want, oi, bias.want, NULL);
    check(&r, &y, 2, name, "forward with bias");
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, layout, &bias.t, &pre.t);
    ref_linear_fwd(N, I, O, y.want, x.want, w.want, oi, bias.want, pre.want);
    check(&r, &pre, 2, name, "what goes into gelu");
    check(&r, &y, 2, name, "forward with gelu");
    struct narrow dy = make(&r, type, 0, 1, 2, N, O, 0, 0),
                  dx = make(&r, type, 0, 1, 2, N, I, 0, 0);
    struct box dw = box_new(&r, 0, 1, 2, oi ? O : I, oi ? I : O, 0, 0);
    struct box db = box_new(&r, 0, 1, 1, O, 0, 0, 0);
    op_linear_bwd(&r.b, &dx.t, false, &dw.t, &db.t, &dy.t, &x.t, &w.t, layout, NULL);
    memset(dx.want, 0, (size_t)dx.n * sizeof *dx.want);
    ref_linear_bwd(N, I, O, dx.want, dw.want, db.want, dy.want, x.want, w.want, oi, NULL);
    check(&r, &dx, 1, name, "dx");
    check_f32(&r, &dw, 1e-5, name, "dw adds");
    check_f32(&r, &db, 1e-5, name, "dbias adds");
    op_linear_bwd(&r.b, &dx.t, true, &dw.t, &db.t, &dy.t, &x.t, &w.t, layout, &pre.t);
    ref_linear_bwd(N, I, O, dx.want, dw.want, db.want, dy.want, x.want, w.want, oi, pre.want);
    check(&r, &dy, 1, name, "dy through gelu");
    check(&r, &dx, 2, name, "dx adds");
    check_f32(&r, &dw, unit(type), name, "dw through gelu");
    check_f32(&r, &db, unit(type), name, "dbias through gelu");
    rig_close(&r);
}

static void test_attention(enum dtype type, int64_t B, int64_t T, int heads, int64_t HS, float p)
{
    struct rig r;
    char name[80];
    rig_open(&r, "cuda", 0);
    int64_t C = heads * HS;
    snprintf(name, sizeof name, "%s attention B%d T%d heads %d x %d dropout %g", dtype_name(type),
             (int)B, (int)T, heads, (int)HS, (double)p);
    struct ref_shape s = {.B = B, .T = T, .C = C, .heads = heads};
    struct narrow qkv = make(&r, type, 0, 1, 3, B, T, 3 * C, 0),
                  y = make(&r, type, 9, 0, 3, B, T, C, 0);
    struct narrow dy = make(&r, type, 0, 1, 3, B, T, C, 0);
    struct narrow dq = make(&r, type, 9, 0, 3, B, T, 3 * C, 0);
    struct box lse = box_new(&r, 9, 0, 3, B, heads, T, 0);
    struct drops d;
    drops_make(&r, &d, p, B);
    op_attention_fwd(&r.b, &y.t, &lse.t, &qkv.t, heads, d.op);
    ref_attention_fwd(s, y.want, lse.want, qkv.want, d.ref);
    check(&r, &y, 6, name, "forward");
    check_f32(&r, &lse, 1e-5, name, "log of the denominator");
    op_attention_bwd(&r.b, &dq.t, &dy.t, &y.t, &qkv.t, &lse.t, heads, d.op);
    ref_attention_bwd(s, dq.want, dy.want, qkv.want, d.ref);
    check(&r, &dq, 16, name, "backward");
    rig_close(&r);
}

static void test_decode(enum dtype type, int64_t T, int heads, int64_t HS)
{
    struct rig r;
    rig_open(&r, "cuda", 0);
    enum { B = 2 };
    int64_t C = heads * HS, W = 3 * C;
    struct ref_shape s = {.B = B, .T = T, .C = C, .heads = heads};
    struct narrow qkv = make(&r, type, 0, 1, 3, B, T, W, 0),
                  one = make(&r, type, 0, 0, 2, B, W, 0, 0);
    struct narrow y = make(&r, type, 0, 0, 2, B, C, 0, 0);
    struct narrow k = make(&r, type, 0, 0, 4, B, heads, T, HS),
                  v = make(&r, type, 0, 0, 4, B, heads, T, HS);
    double *all = doubles(&r, B * T * C), *lse = doubles(&r, B * heads * T), worst = 0;
    struct tensor pos;
    int32_t *at = ints_new(&r, &pos, B);
    ref_attention_fwd(s, all, lse, qkv.want, (struct ref_drop){0});
    for (int64_t t = 0; t < T; t++) {
        for (int64_t b = 0; b < B; b++) {
            at[b] = (int32_t)t;
            memcpy(one.want + b * W, qkv.want + (b * T + t) * W, (size_t)W * sizeof *one.want);
            memcpy(y.want + b * C, all + (b * T + t) * C, (size_t)C * sizeof *y.want);
        }
        put(&r, &one);
        op_put(&r.b, &pos, at);
        op_attention_step(&r.b, &y.t, &k.t, &v.t, &one.t, &pos, heads);
        worst = fmax(worst, off_by(&r, &y).worst / unit(type));
    }
    CHECK(worst < 1, "%s decoding T%d heads %d x %d is the whole sequence's: off by %.2g units",
          dtype_name(type), (int)T, heads, (int)HS, worst);
    rig_close(&r);
}

static void test_classifier(enum dtype type, int64_t N, int64_t V, int64_t width)
{
    struct rig r;
    char name[80];
    rig_open(&r, "cuda", 0);
    snprintf(name, sizeof name, "%s classifier N%d V%d", dtype_name(type), (int)N, (int)V);
    struct narrow x = make(&r, type, 0, 2, 2, N, width, 0, 0);
    struct box loss = box_new(&r, 9, 0, 1, N, 0, 0, 0), scale = box_new(&r, 16, 0, 1, 1, 0, 0, 0);
    struct tensor targets;
    int32_t *id = ints_new(&r, &targets, N);
    for (int64_t i = 0; i < N; i++)
        id[i] = i % 5 == 3 ? -1 : (int32_t)rng_below(&r.rng, (uint64_t)V);
    op_put(&r.b, &targets, id);
    double *logits = doubles(&r, N * V), *grad = doubles(&r, N * V);
    for (int64_t i = 0; i < N; i++)
        memcpy(logits + i * V, x.want + i * width, (size_t)V * sizeof *logits);
    ref_classifier(N, V, loss.want, grad, logits, id, 16);
    for (int64_t i = 0; i < N * width; i++)
        x.want[i] = i % width < V ? grad[i / width * V + i % width] : 0;
    op_classifier(&r.b, &loss.t, &x.t, &targets, &scale.t, true, width == V ? 0 : V);
    check_f32(&r, &loss, 1e-6, name, "loss");
    check(&r, &x, 1, name, "gradient in place");
    rig_close(&r);
}

static void test_refusals(void)
{
    struct rig r;
    struct err e = {0};
    rig_open(&r, "cuda", 0);
    struct narrow x = make(&r, DTYPE_BF16, 0, 1, 2, 4, 8, 0, 0),
                  y = make(&r, DTYPE_F16, 0, 1, 2, 4, 8, 0, 0);
    struct narrow w16 = make(&r, DTYPE_F16, 0, 1, 2, 8, 8, 0, 0);
    struct box w = box_new(&r, 0, 1, 2, 8, 8, 0, 0);
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    CHECK(op_sync(&r.b, &e) < 0 && strstr(e.msg, "f16 beside bf16"), "mixed activations: %s",
          e.msg);
    r.b.failed = false;
    op_linear_fwd(&r.b, &x.t, &x.t, &w16.t, WEIGHT_IN_OUT, NULL, NULL);
    r.b.failed = false;
    y.t.type = DTYPE_BF16;
    op_linear_fwd(&r.b, &y.t, &x.t, &w16.t, WEIGHT_IN_OUT, NULL, NULL);
    CHECK(op_sync(&r.b, &e) < 0 && strstr(e.msg, "parameters are f32"),
          "an fp16 weight beside bf16 activations: %s", e.msg);
    rig_close(&r);
}

/* Logits of f32 from narrow factors, and the weight in the activations' own type. */
static void test_head(enum dtype type, int64_t N, int64_t I, int64_t O)
{
    struct rig r;
    char name[80];
    rig_open(&r, "cuda", 0);
    snprintf(name, sizeof name, "%s product to f32", dtype_name(type));
    struct narrow x = make(&r, type, 0, 1, 2, N, I, 0, 0), w = make(&r, type, 0, 1, 2, O, I, 0, 0);
    struct narrow g = make(&r, type, 0, 1, 2, N, O, 0, 0), dx = make(&r, type, 0, 0, 2, N, I, 0, 0);
    struct box y = box_new(&r, 9, 0, 2, N, O, 0, 0), dw = box_new(&r, 1, 0, 2, O, I, 0, 0);
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_OUT_IN, NULL, NULL);
    ref_linear_fwd(N, I, O, y.want, x.want, w.want, true, NULL, NULL);
    /* Tensor cores cut what they add: 1e-5 is far from the 4e-3 of logits that went through bf16. */
    check_f32(&r, &y, 1e-5, name, "f32 logits of narrow factors");
    op_linear_bwd(&r.b, &dx.t, false, &dw.t, NULL, &g.t, &x.t, &w.t, WEIGHT_OUT_IN, NULL);
    ref_linear_bwd(N, I, O, dx.want, dw.want, NULL, g.want, x.want, w.want, true, NULL);
    check(&r, &dx, 1, name, "back through a narrow weight");
    check_f32(&r, &dw, 1e-5, name, "its gradient in f32");
    rig_close(&r);
}

/* What a cast should give: the neighbour towards zero and, when the word says so, one step on. */
static uint16_t rounded_at_random(enum dtype t, float x, uint64_t key, int64_t e)
{
    uint32_t word[4];
    double near = to_type(t, (double)x);
    uint16_t bits = bits_of(t, near);
    if (fabs(near) > fabs((double)x))
        bits--;
    double low = value_of(t, bits), high = value_of(t, (uint16_t)(bits + 1));
    rng_at(key, (uint64_t)e >> 2, 0, word);
    double share = ((double)x - low) / (high - low);
    return (uint16_t)(bits + ((double)(word[e & 3] >> 8) * 0x1p-24 < share));
}

static void cast_to(struct rig *r, const struct tensor *x, enum dtype type,
                    const struct rounding *how, uint16_t *got)
{
    struct tensor y =
        tensor_1d(type, op_alloc(&r->b, (size_t)tensor_count(x) * 2), tensor_count(x));
    op_cast(&r->b, &y, x, how);
    op_get(&r->b, got, &y);
}

static void test_cast(enum dtype type)
{
    enum { N = 1000, TRIES = 4000 };
    struct rig r;
    struct err e = {0};
    rig_open(&r, "cuda", 0);
    struct box x = box_new(&r, 0, 0.02, 1, N, 0, 0, 0);
    uint16_t near[N], one[N], again[N - 4], odd[N - 1];
    struct rounding how = {.key = 77, .first = 0}, from = {.key = 77, .first = 4};
    for (int i = 0; i < N; i++) /* what the device has: floats */
        x.want[i] = (double)(float)(i == 0 ? 0 : i == 1 ? -60000 : i == 2 ? 1e-6 : x.want[i]);
    box_put(&r, &x);
    struct tensor behind = tensor_1d(DTYPE_F32, (float *)x.t.data + 4, N - 4), all = x.t;
    struct tensor odd_n = tensor_1d(DTYPE_F32, x.t.data, N - 1);
    cast_to(&r, &all, type, NULL, near);
    cast_to(&r, &all, type, &how, one);
    cast_to(&r, &behind, type, &from, again);
    cast_to(&r, &odd_n, type, &how, odd);
    bool ok = op_sync(&r.b, &e) == 0;
    bool nearest = ok, keyed = ok, shard = ok;
    for (int i = 0; i < N; i++) {
        nearest = nearest && near[i] == bits_of(type, to_type(type, x.want[i]));
        keyed = keyed && one[i] == rounded_at_random(type, (float)x.want[i], 77, i);
        shard = shard && (i < 4 || again[i - 4] == one[i]) && (i == N - 1 || odd[i] == one[i]);
    }
    CHECK(nearest, "%s cast: to the nearest", dtype_name(type));
    CHECK(keyed, "%s cast: at random, as the words of the key say", dtype_name(type));
    CHECK(shard, "%s cast: a part of the vector is rounded as in the whole", dtype_name(type));
    /* One value many times: the mean is the value, within five standard deviations. */
    static float many[TRIES];
    static uint16_t got[TRIES];
    for (int i = 0; i < TRIES; i++)
        many[i] = 0.1f;
    struct tensor m = tensor_1d(DTYPE_F32, op_alloc(&r.b, sizeof many), TRIES);
    op_put(&r.b, &m, many);
    cast_to(&r, &m, type, &how, got);
    ok = op_sync(&r.b, &e) == 0;
    double sum = 0, low = INFINITY, high = -INFINITY;
    for (int i = 0; i < TRIES; i++) {
        double v = value_of(type, got[i]);
        sum += v;
        low = fmin(low, v);
        high = fmax(high, v);
    }
    double p = ((double)0.1f - low) / (high - low);
    double sd = (high - low) * sqrt(p * (1 - p) / TRIES), off = sum / TRIES - (double)0.1f;
    CHECK(ok && low < (double)0.1f && high > (double)0.1f && fabs(off) < 5 * sd,
          "%s cast: without bias, off by %.2g where %.2g is a standard deviation", dtype_name(type),
          off, sd);
    how.key = 78;
    cast_to(&r, &m, type, &how, got);
    op_sync(&r.b, &e);
    double other = 0;
    for (int i = 0; i < TRIES; i++)
        other += value_of(type, got[i]);
    CHECK(other != sum, "%s cast: another key, other bits", dtype_name(type));
    rig_close(&r);
}

static void test_type(enum dtype type)
{
    test_embed(type, 2, 5, 48, 0);
    test_embed(type, 3, 7, 10, .3f);
    test_norm(type, 2, 33, 64, .1f);
    test_norm(type, 1, 3, 7, 0);
    test_norm(type, 2, 5, 768, 0);
    for (int oi = 0; oi < 2; oi++) {
        test_linear(type, 33, 64, 96, oi);
        test_linear(type, 128, 32, 64, oi);
        test_linear(type, 7, 9, 13, oi);
    }
    test_attention(type, 1, 1, 1, 64, 0);
    test_attention(type, 2, 64, 2, 64, 0);
    test_attention(type, 1, 65, 1, 64, .2f);
    test_attention(type, 1, 200, 2, 64, 0);
    test_attention(type, 1, 130, 1, 128, .1f);
    test_attention(type, 2, 31, 1, 128, 0);
    test_attention(type, 1, 40, 2, 48, .1f);
    test_decode(type, 9, 2, 64);
    test_classifier(type, 9, 257, 257);
    test_classifier(type, 4, 1000, 1000);
    test_classifier(type, 3, 3, 3);
    test_classifier(type, 7, 97, 128);
    test_classifier(type, 3, 250, 256);
    test_head(type, 5, 64, 96);
    test_cast(type);
}

int main(void)
{
    if (!getenv("ASSAY_LIBDIR")) {
        char here[1024];
        const char *build = getenv("BUILD");
        snprintf(here, sizeof here, "%s/cudaemu", build ? build : "build");
        setenv("ASSAY_LIBDIR", here, 1);
    }
    test_refusals();
    test_type(DTYPE_BF16);
    test_type(DTYPE_F16);
    return tap_done();
}
