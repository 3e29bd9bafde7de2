/* bench_train: tokens a second of training, from shapes alone.
 *
 * Random ids; one step is forward, backward, clipping and AdamW of one batch. Medians of steps
 * behind the first two. GFLOP/s by 6 N + 6 L C T FLOP a token. The machine's own limit stands
 * beside it: the best of some products
 * of 1024 x 1024 x 1024 through the same backend.
 * BENCH_ONLY=name runs one of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "trainer/gpt2.h"
#include "trainer/metrics.h"
#include "trainer/ops.h"
#include "trainer/schedule.h"

struct shape {
    const char *name;
    struct model_config c;
    int64_t batch, length;
    int steps;
};

static const struct shape shapes[] = {
    {"3x192",
     {.layers = 3,
      .heads = 6,
      .width = 192,
      .context = 128,
      .vocab = 512,
      .tied = true,
      .qkv_bias = true,
      .norm_eps = 1e-5,
      .init_std = 0.02},
     4,
     128,
     60},
    {"6x384",
     {.layers = 6,
      .heads = 6,
      .width = 384,
      .context = 256,
      .vocab = 50257,
      .tied = true,
      .qkv_bias = true,
      .norm_eps = 1e-5,
      .init_std = 0.02},
     4,
     256,
     7},
    {"124M",
     {.layers = 12,
      .heads = 12,
      .width = 768,
      .context = 1024,
      .vocab = 50257,
      .tied = true,
      .qkv_bias = true,
      .norm_eps = 1e-5,
      .init_std = 0.02},
     4,
     256,
     5},
};

static void die(const struct err *e)
{
    fprintf(stderr, "bench_train: %s\n", e->msg);
    exit(1);
}

static double peak(struct backend *b)
{
    enum { N = 1024, TIMES = 12 };
    struct err e = {0};
    struct tensor t[3];
    double best[TIMES];
    for (int i = 0; i < 3; i++)
        t[i] = tensor_2d(DTYPE_F32, op_alloc(b, (size_t)N * N * 4), N, N);
    for (int i = 0; i < TIMES; i++) {
        double before = clock_now();
        op_linear_fwd(b, &t[0], &t[1], &t[2], WEIGHT_IN_OUT, NULL, NULL);
        if (op_sync(b, &e))
            die(&e);
        best[i] = clock_now() - before;
    }
    return 2.0 * N * N * N / metrics_quantile(best, TIMES, 0) / 1e9;
}

static void bench(const struct shape *s)
{
    struct err e = {0};
    struct backend b = {0};
    struct gpt2_use use = {.batch = s->batch, .length = s->length, .train = true, .grain = 1};
    int64_t N = s->batch * s->length;
    if (backend_open(&b, "cpu", 0, 0, &e))
        die(&e);
    double limit = peak(&b);
    struct gpt2 *m = gpt2_new(&b, &s->c, &use, &e);
    if (!m || gpt2_init(m, 1, &e))
        die(&e);
    int32_t *ids = malloc((size_t)N * 4), *targets = malloc((size_t)N * 4);
    uint64_t *seq = malloc((size_t)s->batch * 8);
    float *loss = malloc((size_t)N * 4);
    double *ms = malloc((size_t)s->steps * 8), norm;
    struct rng r = rng_make(1, "bench", 0);
    for (int k = 0; k < s->steps + 2; k++) {
        for (int64_t i = 0; i < N; i++) {
            ids[i] = (int32_t)rng_below(&r, (uint64_t)s->c.vocab);
            targets[i] = (int32_t)rng_below(&r, (uint64_t)s->c.vocab);
        }
        for (int64_t i = 0; i < s->batch; i++)
            seq[i] = (uint64_t)i;
        double before = clock_now();
        struct gpt2_batch g = {ids, targets,         seq, s->batch, s->length, N,
                               1,   (uint64_t)k + 1, 0,   false};
        struct gpt2_update u = {.lr = 1e-4,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .eps = 1e-8,
                                .weight_decay = 0.1,
                                .clip = 1,
                                .step = k + 1};
        gpt2_zero_grad(m);
        if (gpt2_grad(m, &g, loss, &e) || gpt2_update(m, &u, &norm, &e))
            die(&e);
        if (k >= 2)
            ms[k - 2] = (clock_now() - before) * 1e3;
    }
    double mid = metrics_quantile(ms, (size_t)s->steps, 0.5);
    double rate = (double)N / mid * 1e3, gflops = rate * schedule_flops(&s->c, s->length) / 1e9;
    printf("train %-6s %lld x %-4lld %9.1f ms a step %9.0f tokens/s %7.1f GFLOP/s (%.0f%% of a "
           "1024^3 product's %.0f)\n",
           s->name, (long long)s->batch, (long long)s->length, mid, rate, gflops,
           100 * gflops / limit, limit);
    fflush(stdout);
    gpt2_free(m);
    backend_close(&b);
    free(ids);
    free(targets);
    free(seq);
    free(loss);
    free(ms);
}

int main(void)
{
    const char *only = getenv("BENCH_ONLY");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!only || strcmp(only, shapes[i].name) == 0)
            bench(&shapes[i]);
    return 0;
}
