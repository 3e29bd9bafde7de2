/* test_precision: models in tf32, bf16 and fp16 on the CUDA backend against the CPU's fp32: training
 * with and without recomputation, a scaled loss that overflows, decoding; and the plan against what is
 * allocated there. On the emulator, or a device with ASSAY_LIBDIR elsewhere.
 */
#include <math.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"
#include "trainer/gpt2.h"
#include "trainer/scaler.h"

enum { STEPS = 20, FEW = 4, B = 2, T = 32, V = 97, LAYERS = 2 };

static struct model_config config(void)
{
    return (struct model_config){.layers = LAYERS,
                                 .heads = 1,
                                 .width = 64, /* a head of 64: the flash kernels */
                                 .context = T,
                                 .vocab = V,
                                 .qkv_bias = true,
                                 .tied = true,
                                 .dropout = 0.1,
                                 .norm_eps = 1e-5,
                                 .init_std = 0.02};
}

/* A device whose allocations are counted. */
static struct backend_ops table;
static const struct backend_ops *real;
static int64_t allocated;
static void *count_alloc(struct backend *b, size_t n)
{
    allocated += (int64_t)n;
    return real->alloc(b, n);
}

struct trained {
    double loss[STEPS], norm[STEPS];
    int64_t bytes, plan;
    int overflows;
};

/* scale: of the loss at first, 0: none; halved until the gradients are finite, and 1,024 times smaller
 * from the third step on: AdamW would not notice gradients that are all too large alike. */
static bool train(struct trained *r, const char *backend, struct gpt2_use use, int steps,
                  double scale)
{
    struct backend b;
    struct err e = {0};
    struct model_config c = config();
    struct gpt2_plan plan;
    struct rng g = rng_make(1, "data", 0);
    struct scaler scaler = {.scale = scale};
    int32_t ids[B * T], targets[B * T];
    float loss[B * T];
    uint64_t seq[B] = {11, 12};
    *r = (struct trained){0};
    if (backend_open(&b, backend, 0, 1, &e) < 0) {
        printf("# %s\n", e.msg);
        return false;
    }
    real = b.ops;
    table = *b.ops;
    table.alloc = count_alloc;
    b.ops = &table;
    allocated = 0;
    use.batch = B;
    use.length = T;
    use.train = true;
    struct gpt2 *m = gpt2_new(&b, &c, &use, &e);
    struct gpt2_use on = gpt2_use_on(&use, backend);
    gpt2_plan(&c, &on, &plan);
    r->plan = plan.total;
    r->bytes = allocated;
    bool ok = m && gpt2_init(m, 5, &e) == 0;
    for (int s = 0; ok && s < steps; s++) {
        for (int i = 0; i < B * T; i++)
            ids[i] = (int32_t)rng_below(&g, V);
        for (int i = 0; i < B * T; i++)
            targets[i] = i % 7 == 6 ? -1 : (ids[i] * 3 + 1) % V;
        struct gpt2_batch batch = {ids,           targets, seq,         B, T,
                                   B * T * 6 / 7, 5,       (uint64_t)s, 0, false};
        struct gpt2_update u = {.lr = 3e-3,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .eps = 1e-8,
                                .weight_decay = 0.1,
                                .clip = 1,
                                .step = s + 1};
        bool again = true;
        scaler.scale /= s == 2 ? 1024 : 1;
        while (ok && again) {
            batch.loss_scale = u.loss_scale = scaler.scale;
            gpt2_zero_grad(m);
            ok = gpt2_grad(m, &batch, loss, &e) == 0 && gpt2_update(m, &u, &r->norm[s], &e) == 0;
            again = scale > 0 && scaler_take(&scaler, isfinite(r->norm[s]), 2000) != SCALER_GOOD;
        }
        for (int i = 0; i < B * T; i++)
            r->loss[s] += (double)loss[i] / (B * T);
    }
    r->overflows = (int)scaler.overflows;
    if (!ok)
        printf("# %s\n", e.msg);
    gpt2_free(m);
    backend_close(&b);
    return ok;
}

static double worst(const double *a, const double *b, int steps)
{
    double off = 0;
    for (int s = 0; s < steps; s++) {
        double d = fabs(a[s] / b[s] - 1);
        off = d <= off ? off : d; /* a NaN stays */
    }
    return off;
}

static struct trained cpu;

/* Recomputing runs the same kernels on the same numbers, when no product is chosen by measurement. */
static void test_recompute(int precision, const struct trained *none, double scale)
{
    int64_t before = none->bytes;
    for (int how = RECOMPUTE_GELU; how < RECOMPUTES; how++) {
        struct trained r;
        struct gpt2_use use = {.precision = precision, .recompute = how};
        bool ran = train(&r, "cuda", use, FEW, scale);
        CHECK(ran && memcmp(r.loss, none->loss, FEW * sizeof *r.loss) == 0 &&
                  memcmp(r.norm, none->norm, FEW * sizeof *r.norm) == 0,
              "%s, recompute %s: the bits of keeping all", precision_names[precision],
              recompute_names[how]);
        CHECK_INT(r.bytes, r.plan, "what is allocated is the plan");
        CHECK(r.bytes < before, "which is less");
        before = r.bytes;
    }
}

static void test_training(int precision, double loss, double norm)
{
    struct trained r;
    const char *name = precision_names[precision];
    struct gpt2_use use = {.precision = precision};
    double scale = precision == PRECISION_FP16 ? SCALER_FIRST : 0;
    bool ran = train(&r, "cuda", use, STEPS, scale);
    double off = worst(r.loss, cpu.loss, STEPS), noff = worst(r.norm, cpu.norm, STEPS);
    CHECK(ran && off < loss, "%s: losses of 20 steps agree with the CPU's: off by %.2g", name, off);
    CHECK(noff < norm, "%s: norms agree: off by %.2g", name, noff);
    CHECK_INT(r.bytes, r.plan, "%s: what is allocated is the plan", name);
    if (precision != PRECISION_FP32)
        CHECK(off > 1e-6, "%s is not fp32 by another name", name);
    test_recompute(precision, &r, scale);
}

/* A scale that is far too large: steps are left out until it fits, and nothing else changes. */
static void test_overflow(void)
{
    struct trained r;
    struct gpt2_use use = {.precision = PRECISION_FP16};
    bool ran = train(&r, "cuda", use, FEW, 0x1p40);
    double off = worst(r.loss, cpu.loss, FEW);
    CHECK(ran && r.overflows > 10, "a loss scaled by 2^40 overflows: %d steps left out",
          r.overflows);
    CHECK(off < 5e-4, "and then it trains as if nothing had happened: off by %.2g", off);
}

/* What a seed and an update number decide, and nothing else. */
static void test_stochastic(void)
{
    struct trained a, b, other;
    struct gpt2_use use = {.precision = PRECISION_BF16, .stochastic = true, .seed = 9};
    bool ran = train(&a, "cuda", use, FEW, 0) && train(&b, "cuda", use, FEW, 0);
    CHECK(ran && memcmp(a.loss, b.loss, sizeof a.loss) == 0,
          "stochastic rounding: the same seed, the same bits");
    use.seed = 10;
    ran = train(&other, "cuda", use, FEW, 0);
    double off = worst(a.loss, cpu.loss, FEW);
    CHECK(ran && memcmp(a.loss, other.loss, sizeof a.loss) != 0, "another seed, others");
    CHECK(off < 2e-3, "losses agree with the CPU's: off by %.2g", off);
}

/* Logits of prompts and steps, without their padding, against the CPU's. */
static bool decode(const char *backend, int precision, float *out)
{
    struct backend b;
    struct err e = {0};
    struct model_config c = config();
    struct gpt2_use use = {.batch = 2, .length = 16, .decode = true, .precision = precision};
    int32_t ids[2 * 8], len[2] = {8, 5}, pos[2] = {8, 5}, next[2] = {7, 90};
    if (backend_open(&b, backend, 0, 1, &e) < 0)
        return false;
    for (int i = 0; i < 16; i++)
        ids[i] = (i * 37 + 5) % V;
    struct gpt2 *m = gpt2_new(&b, &c, &use, &e);
    bool ok = m && gpt2_init(m, 5, &e) == 0 && gpt2_prefill(m, ids, len, 2, 8, out, &e) == 0 &&
              gpt2_step(m, next, pos, 2, out + 2 * V, &e) == 0 &&
              gpt2_logits(m, ids, 2, 8, out + 4 * V, &e) == 0;
    if (!ok)
        printf("# %s\n", e.msg);
    gpt2_free(m);
    backend_close(&b);
    return ok;
}

static void test_decode(void)
{
    enum { N = (4 + 16) * V };
    static float want[N], got[N];
    CHECK(decode("cpu", PRECISION_FP32, want), "the CPU decodes");
    for (int p = PRECISION_FP32; p <= PRECISION_FP16; p++) {
        static const double allowed[] = {1e-5, 2e-3, 2e-2, 2e-3};
        bool ran = decode("cuda", p, got);
        double off = 0, size = 0;
        for (int i = 0; i < N; i++) {
            off = fmax(off, fabs((double)got[i] - (double)want[i]));
            size = fmax(size, fabs((double)want[i]));
        }
        CHECK(ran && off / size < allowed[p], "%s: prefill, step and logits agree: off by %.2g",
              precision_names[p], off / size);
    }
}

int main(void)
{
    char here[1024];
    const char *build = getenv("BUILD");
    if (!getenv("ASSAY_LIBDIR")) {
        snprintf(here, sizeof here, "%s/cudaemu", build ? build : "build");
        setenv("ASSAY_LIBDIR", here, 1);
    }
    setenv("ASSAY_CUDA_TUNE", "separate", 1); /* no choice by measurement: runs repeat */
    CHECK(train(&cpu, "cpu", (struct gpt2_use){.grain = 1}, STEPS, 0), "the CPU trains");
    CHECK(cpu.loss[STEPS - 1] < 0.9 * cpu.loss[0], "its loss falls: %g to %g", cpu.loss[0],
          cpu.loss[STEPS - 1]);
    test_training(PRECISION_FP32, 1e-5, 1e-4);
    test_training(PRECISION_TF32, 5e-4, 1e-2);
    test_training(PRECISION_BF16, 2e-3, 5e-2);
    test_training(PRECISION_FP16, 5e-4, 1e-2);
    test_overflow();
    test_stochastic();
    test_decode();
    return tap_done();
}
