/* test_cpu: what only the CPU backend promises: the same bits for any number of threads, vector
 * kernels of every level this machine has, and an exponential within one unit in the last place.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"
#include "trainer/cpu/gemm.h"
#include "trainer/cpu/impl.h"
#include "trainer/cpu/machine.h"
#include "trainer/cpu/vec/vec.h"

/* ---- equal bits ---------------------------------------------------------------------------- */

enum { MOST = 64 };
struct seen { /* outputs of one run, in the order of the calls */
    int n;
    const char *name[MOST];
    uint64_t hash[MOST];
};

static void look(struct rig *r, struct seen *s, struct box *x, const char *name)
{
    box_get(r, x);
    uint64_t h = 14695981039346656037u;
    const unsigned char *p = (const unsigned char *)x->got;
    for (size_t i = 0; i < (size_t)x->n * sizeof(float); i++)
        h = (h ^ p[i]) * 1099511628211u;
    s->name[s->n] = name;
    s->hash[s->n++] = h;
}

static void run_rows(struct rig *r, struct seen *s, int64_t B, int64_t T, int64_t C)
{
    int64_t N = B * T, V = 1003;
    struct tensor seq, ids;
    ids_new(r, &seq, B);
    struct dropout d = {.1f, 5, &seq};
    int32_t *id = ints_new(r, &ids, N);
    for (int64_t i = 0; i < N; i++)
        id[i] = (int32_t)rng_below(&r->rng, (uint64_t)V);
    op_put(&r->b, &ids, id);
    ids = tensor_2d(DTYPE_I32, ids.data, B, T);
    struct box x = box_new(r, 0, 1, 3, B, T, C, 0), y = box_new(r, 0, 1, 3, B, T, C, 0);
    struct box wte = box_new(r, 0, 1, 2, V, C, 0, 0), wpe = box_new(r, 0, 1, 2, T, C, 0, 0);
    struct box w = box_new(r, 1, .2, 1, C, 0, 0, 0), b = box_new(r, 0, .2, 1, C, 0, 0, 0);
    struct box m = box_new(r, 0, 0, 1, N, 0, 0, 0), rs = box_new(r, 0, 0, 1, N, 0, 0, 0);
    struct box out = box_new(r, 0, 0, 3, B, T, C, 0), dr = box_new(r, 0, 0, 3, B, T, C, 0);
    op_embed_fwd(&r->b, &out.t, &ids, &wte.t, &wpe.t, NULL, d);
    look(r, s, &out, "embed_fwd");
    op_add_norm_fwd(&r->b, &x.t, &out.t, &m.t, &rs.t, &x.t, &y.t, &w.t, &b.t, 1e-5f, d);
    look(r, s, &out, "add_norm_fwd");
    op_add_norm_bwd(&r->b, &y.t, &dr.t, &w.t, &b.t, &out.t, &x.t, &m.t, &rs.t, &w.t, d);
    look(r, s, &y, "add_norm_bwd dsum");
    look(r, s, &dr, "add_norm_bwd dr");
    look(r, s, &w, "add_norm_bwd dw");
    look(r, s, &b, "add_norm_bwd dbias");
    op_embed_bwd(&r->b, &wte.t, &wpe.t, &y.t, &ids, d);
    look(r, s, &wte, "embed_bwd dwte");
    look(r, s, &wpe, "embed_bwd dwpe");
    struct box logits = box_new(r, 0, 1, 2, N, V, 0, 0), loss = box_new(r, 0, 0, 1, N, 0, 0, 0);
    struct box scale = box_new(r, .1, 0, 1, 1, 0, 0, 0);
    op_classifier(&r->b, &loss.t, &logits.t, &ids, &scale.t, true, 0);
    look(r, s, &loss, "classifier loss");
    look(r, s, &logits, "classifier gradient");
}

static void run_linear(struct rig *r, struct seen *s, int64_t N, int64_t I, int64_t O,
                       enum weight_layout layout)
{
    bool oi = layout == WEIGHT_OUT_IN;
    struct box x = box_new(r, 0, 1, 2, N, I, 0, 0), y = box_new(r, 0, 1, 2, N, O, 0, 0);
    struct box w = box_new(r, 0, 1, 2, oi ? O : I, oi ? I : O, 0, 0);
    struct box b = box_new(r, 0, 1, 1, O, 0, 0, 0), pre = box_new(r, 0, 1, 2, N, O, 0, 0);
    struct box dx = box_new(r, 0, 1, 2, N, I, 0, 0);
    struct box dw = box_new(r, 0, 1, 2, oi ? O : I, oi ? I : O, 0, 0);
    op_linear_fwd(&r->b, &y.t, &x.t, &w.t, layout, &b.t, &pre.t);
    look(r, s, &y, "linear_fwd");
    op_linear_bwd(&r->b, &dx.t, true, &dw.t, &b.t, &y.t, &x.t, &w.t, layout, &pre.t);
    look(r, s, &dx, "linear_bwd dx");
    look(r, s, &dw, "linear_bwd dw");
    look(r, s, &b, "linear_bwd dbias");
}

static void run_attention(struct rig *r, struct seen *s, int64_t B, int64_t T, int heads,
                          int64_t HS)
{
    int64_t C = heads * HS;
    struct tensor seq, pos;
    ids_new(r, &seq, B);
    struct dropout d = {.1f, 5, &seq};
    struct box qkv = box_new(r, 0, 1, 3, B, T, 3 * C, 0), y = box_new(r, 0, 0, 3, B, T, C, 0);
    struct box dy = box_new(r, 0, 1, 3, B, T, C, 0), lse = box_new(r, 0, 0, 3, B, heads, T, 0);
    struct box dq = box_new(r, 0, 0, 3, B, T, 3 * C, 0);
    op_attention_fwd(&r->b, &y.t, &lse.t, &qkv.t, heads, d);
    look(r, s, &y, "attention_fwd");
    op_attention_bwd(&r->b, &dq.t, &dy.t, &y.t, &qkv.t, &lse.t, heads, d);
    look(r, s, &dq, "attention_bwd");
    struct box k = box_new(r, 0, 0, 4, B, heads, T + 1, HS),
               v = box_new(r, 0, 0, 4, B, heads, T + 1, HS);
    struct box one = box_new(r, 0, 1, 2, B, 3 * C, 0, 0), o = box_new(r, 0, 0, 2, B, C, 0, 0);
    int32_t *at = ints_new(r, &pos, B);
    op_put(&r->b, &pos, at);
    op_kv_write(&r->b, &k.t, &v.t, &qkv.t, &pos, heads);
    look(r, s, &k, "kv_write");
    for (int64_t i = 0; i < B; i++)
        at[i] = (int32_t)T;
    op_put(&r->b, &pos, at);
    op_attention_step(&r->b, &o.t, &k.t, &v.t, &one.t, &pos, heads);
    look(r, s, &o, "attention_step");
}

static void run_update(struct rig *r, struct seen *s, int64_t n)
{
    struct box p = box_new(r, 0, 1, 1, n, 0, 0, 0), g = box_new(r, 0, 1, 1, n, 0, 0, 0);
    struct box m = box_new(r, 0, 0, 1, n, 0, 0, 0), v = box_new(r, 0, 0, 1, n, 0, 0, 0);
    struct box sum = box_new(r, 0, 0, 1, 1, 0, 0, 0), skip = box_new(r, 0, 0, 1, 1, 0, 0, 0);
    struct adamw_segment seg[] = {{0, n / 3, true}, {n / 3, n, false}};
    struct adamw h = {1e-3f, .9f, .95f, 1e-8f, .1f, 1, seg, 2, 0, n};
    op_sum_squares(&r->b, &sum.t, &g.t);
    look(r, s, &sum, "sum_squares");
    op_adamw(&r->b, &p.t, &g.t, &m.t, &v.t, &h, &sum.t, &skip.t);
    look(r, s, &p, "adamw");
}

static void run_all(struct seen *s, int threads)
{
    struct rig r;
    rig_open(&r, "cpu", threads);
    s->n = 0;
    run_rows(&r, s, 4, 128, 192);
    run_rows(&r, s, 3, 37, 50);
    run_linear(&r, s, 512, 192, 576, WEIGHT_IN_OUT);
    run_linear(&r, s, 512, 192, 1000, WEIGHT_OUT_IN);
    run_linear(&r, s, 129, 768, 771, WEIGHT_IN_OUT);
    run_linear(&r, s, 1, 384, 1536, WEIGHT_IN_OUT);
    run_linear(&r, s, 2048, 64, 64, WEIGHT_OUT_IN);
    run_attention(&r, s, 4, 128, 3, 64);
    run_attention(&r, s, 1, 333, 2, 48);
    run_update(&r, s, 1000003);
    rig_close(&r);
}

static void test_threads(void)
{
    struct seen one, many;
    run_all(&one, 1);
    for (int threads = 2; threads <= 7; threads += threads == 3 ? 4 : 1) {
        run_all(&many, threads);
        for (int i = 0; i < one.n; i++)
            CHECK(one.hash[i] == many.hash[i], "%d threads give the bits of 1: %s (%d)", threads,
                  one.name[i], i);
    }
}

/* A row's product must not depend on the rows beside it, so that an evaluation has the same bits
 * for any batch size. Holds from 16 rows on where oneDNN uses AVX-512 (linear.c); its AVX2 kernel
 * sums in an order that depends on the number of rows, so there only the values can be checked. */
static void test_rows_alone(void)
{
    char dnnl[96];
    gemm_describe(dnnl, sizeof dnnl);
    bool strict = strstr(dnnl, "avx512") != NULL;
    printf("# %s\n", dnnl);
    static const int64_t shapes[][2] = {{192, 576},  {768, 192},  {192, 1003}, {384, 1536},
                                        {768, 2304}, {64, 50257}, {192, 97}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct rig r;
        rig_open(&r, "cpu", 0);
        int64_t I = shapes[k][0], O = shapes[k][1], N = O > 5000 ? 64 : 512;
        for (int layout = 0; layout < 2; layout++) {
            struct box x = box_new(&r, 0, 1, 2, N, I, 0, 0), y = box_new(&r, 0, 0, 2, N, O, 0, 0);
            struct box w = box_new(&r, 0, 1, 2, layout ? O : I, layout ? I : O, 0, 0);
            op_linear_fwd(&r.b, &y.t, &x.t, &w.t, (enum weight_layout)layout, NULL, NULL);
            box_get(&r, &y);
            static const int64_t parts[] = {16, 17, 23, 31, 33, 64, 79, 100, 128, 256, 300, 511};
            for (size_t p = 0; p < sizeof parts / sizeof *parts && parts[p] < N; p++) {
                struct tensor px = tensor_2d(DTYPE_F32, x.t.data, parts[p], I);
                struct box part = box_new(&r, 0, 0, 2, parts[p], O, 0, 0);
                op_linear_fwd(&r.b, &part.t, &px, &w.t, (enum weight_layout)layout, NULL, NULL);
                box_get(&r, &part);
                for (int64_t i = 0; i < part.n; i++)
                    part.want[i] = (double)y.got[i];
                CHECK(strict ? memcmp(part.got, y.got, (size_t)part.n * sizeof(float)) == 0
                             : box_error(&r, &part) < 1e-5,
                      "linear %d to %d%s: %d rows alone have the %s they have among %d", (int)I,
                      (int)O, layout ? " (out x in)" : "", (int)parts[p],
                      strict ? "bits" : "values", (int)N);
            }
        }
        rig_close(&r);
    }
}

/* ---- vector kernels ------------------------------------------------------------------------ */

/* Distance in units of the last place of the float nearest to `want`. */
static double ulps(float got, double want)
{
    if (isinf((float)want) || isinf(got))
        return (float)want == got ? 0 : INFINITY;
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, e - 24);
}

static void test_exp(const struct vec *v)
{
    enum { N = 1001 };
    float x[N], y[N];
    double worst = 0, at = 0;
    uint32_t bits = 0;
    for (int64_t k = 0; k < 2000; k++) {
        for (int i = 0; i < N; i++, bits += 2017)
            do {
                memcpy(&x[i], &bits, sizeof bits);
                bits += !(x[i] > -87.3f && x[i] < 88.7f);
            } while (!(x[i] > -87.3f && x[i] < 88.7f) && (bits += 1 << 20));
        v->exp(y, x, N);
        for (int i = 0; i < N; i++)
            if (ulps(y[i], exp((double)x[i])) > worst) {
                worst = ulps(y[i], exp((double)x[i]));
                at = (double)x[i];
            }
    }
    CHECK(worst <= 1.0, "%s: exp is within 1 ulp of 2 million floats (%.3f at %.9g)", v->name,
          worst, at);
    float edge[] = {0,      -0.0f,   INFINITY, -INFINITY, NAN, 88.72283f,
                    88.73f, -87.33f, -88,      -1000,     1000};
    v->exp(edge, edge, 11);
    CHECK(edge[0] == 1 && edge[1] == 1, "%s: exp(0) is 1", v->name);
    CHECK(isinf(edge[2]) && edge[3] == 0 && isnan(edge[4]), "%s: exp of inf, -inf, NaN", v->name);
    CHECK(isfinite(edge[5]) && isinf(edge[6]) && isinf(edge[10]),
          "%s: exp overflows where a float does", v->name);
    CHECK(edge[7] > 0 && edge[8] == 0 && edge[9] == 0,
          "%s: exp is flushed to 0 below the normal range", v->name);
}

static void test_rows(const struct vec *v)
{
    struct rng g = rng_make(3, "rows", 0);
    bool max = true, sums = true, nan = true, mm = true, turned = true;
    for (int n = 1; n < 150; n++) {
        float x[150], y[150], want = -INFINITY;
        double sum = 0, dot = 0;
        for (int i = 0; i < n; i++) {
            x[i] = (float)rng_normal(&g);
            want = x[i] > want ? x[i] : want;
            sum += exp((double)x[i] - 1);
            dot += (double)x[i] * (double)x[i];
        }
        max = max && v->max(x, n) == want;
        sums = sums && fabs(v->exp_sum(y, x, 1, n) / sum - 1) < 1e-6 &&
               fabs(v->exp_sum(NULL, x, 1, n) / sum - 1) < 1e-6 &&
               fabs((double)v->dot(x, x, n) / dot - 1) < 1e-6 &&
               fabs(v->sum_squares(x, n) / dot - 1) < 1e-12;
        int at = (int)rng_below(&g, (uint64_t)n);
        x[at] = NAN;
        nan = nan && isnan(v->exp_sum(y, x, v->max(x, n), n)) && isnan(v->dot(x, x, n));
    }
    CHECK(max, "%s: max of every length to 149", v->name);
    CHECK(sums, "%s: exp_sum, dot and sum_squares of every length to 149", v->name);
    CHECK(nan, "%s: a NaN anywhere makes exp_sum and dot NaN", v->name);
    for (int m = 1; m < 20; m++)
        for (int n = 16; n <= 80; n += 16) {
            int k = m + 3;
            float a[20 * 23], b[23 * 80], c[20 * 80], t[23 * 20];
            for (int i = 0; i < m * k; i++)
                a[i] = (float)rng_normal(&g);
            for (int i = 0; i < k * n; i++)
                b[i] = (float)rng_normal(&g);
            for (int i = 0; i < m * n; i++)
                c[i] = 1;
            v->transpose(t, m, a, k, m, k, 2);
            for (int i = 0; i < m; i++)
                for (int l = 0; l < k; l++)
                    turned = turned && t[l * m + i] == 2 * a[i * k + l];
            v->mm(m, n, k, t, 1, m, b, n, true, c, n); /* 1 + 2 a b */
            for (int i = 0; i < m * n; i++) {
                double want = 1, size = 1;
                for (int l = 0; l < k; l++) {
                    double p = 2 * (double)a[i / n * k + l] * (double)b[l * n + i % n];
                    want += p;
                    size += fabs(p);
                }
                mm = mm && fabs((double)c[i] - want) <= 1e-6 * size;
            }
        }
    CHECK(turned, "%s: transpose of 1 x 4 to 19 x 22", v->name);
    CHECK(mm, "%s: small products from 1 x 16 to 19 x 80", v->name);
}

static void test_drop(const struct vec *v)
{
    bool same = true;
    const uint64_t firsts[] = {
        0, 1, 2, 3, 63, 64, 1000001, (uint64_t)UINT32_MAX * 4 - 40, UINT64_MAX / 2 - 7};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
        for (int n = 1; n < 140; n += 11) {
            float mask[140];
            uint64_t key = 0xfedcba9876543210u + f, seq = UINT64_MAX - f;
            v->drop(mask, key, seq, firsts[f], 0x40000000u, 1.5f, n);
            for (int i = 0; i < n; i++) {
                uint32_t w[4];
                uint64_t e = firsts[f] + (uint64_t)i;
                rng_at(key, e >> 2, seq, w);
                same = same && mask[i] == (w[e & 3] < 0x40000000u ? 0.0f : 1.5f);
            }
        }
    CHECK(same, "%s: masks from any element on are the words of rng_at", v->name);
}

int main(void)
{
    struct err e = {0};
    static const char *const levels[] = {"v2", "v3", "v4", "generic"};
    for (int i = 0; i < 4; i++) {
        setenv("ASSAY_CPU_LEVEL", levels[i], 1);
        const struct vec *v = cpu_vec(&e);
        if (!v) {
            printf("# no kernels %s on this CPU\n", levels[i]);
            continue;
        }
        CHECK_STR(v->name, levels[i], "the level that is asked for is taken");
        test_exp(v);
        test_rows(v);
        test_drop(v);
    }
    setenv("ASSAY_CPU_LEVEL", "v9", 1);
    CHECK(!cpu_vec(&e) && strstr(e.msg, "v9"), "a level that is not there is refused: %s", e.msg);
    unsetenv("ASSAY_CPU_LEVEL");
    CHECK(cpu_vec(&e) != NULL, "without a wish the highest level is taken");
    CHECK(machine_memory_free() > 0, "free memory is known");
    uint64_t seq = 0;
    struct tensor ids = tensor_1d(DTYPE_U64, &seq, 1);
    /* 2^-31 (1 + 2^-3) * 2^32 = 2.25: the words 0, 1 and 2 are below it. */
    CHECK_INT(cpu_drop((struct dropout){.p = 0x1.2p-31f, .seq = &ids}).below, 3,
              "a dropout between two words keeps the upper one");
    test_threads();
    test_rows_alone();
    return tap_done();
}
