/* bench_loss: tokens a second of loss evaluation (forward passes with losses, no gradients) of GPT-2
 * 124M's shape with random weights, and the memory it takes. tests/bench/torch_loss.py is its peer:
 * the same shape, batch, length, f32 and threads through transformers.
 *   BENCH_THREADS=2 BENCH_BATCH=4 BENCH_LENGTH=256 BENCH_ROUNDS=5 bench_loss
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "trainer/gpt2.h"

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *v = getenv(name);
    return v && *v ? strtol(v, NULL, 10) : otherwise;
}

static int measure(struct backend *b, int64_t B, int64_t T, int64_t rounds, struct err *e)
{
    const struct model_config c = {.layers = 12,
                                   .heads = 12,
                                   .width = 768,
                                   .context = 1024,
                                   .vocab = 50257,
                                   .tied = true,
                                   .qkv_bias = true,
                                   .norm_eps = 1e-5,
                                   .init_std = 0.02};
    struct gpt2_use use = {.batch = B, .length = T};
    struct gpt2 *m = gpt2_new(b, &c, &use, e);
    int32_t *ids = mem_array((size_t)(B * T) + 1, sizeof *ids);
    float *loss = mem_array((size_t)(B * T), sizeof *loss);
    struct rng r = rng_make(1, "bench", 0);
    struct rusage u;
    double best = 1e9, sum = 0;
    int rc = !m || gpt2_init(m, 1, e) ? -1 : 0;
    for (int64_t i = 0; i <= B * T; i++)
        ids[i] = (int32_t)rng_below(&r, (uint64_t)c.vocab);
    for (int64_t k = 0; k < rounds && !rc; k++) {
        double t0 = clock_now();
        rc = gpt2_losses(m, ids, ids + 1, B, T, loss, e);
        double s = clock_now() - t0;
        best = s < best ? s : best;
    }
    for (int64_t i = 0; i < B * T; i++)
        sum += loss[i];
    getrusage(RUSAGE_SELF, &u);
    if (!rc)
        printf("loss 124M f32 %lld x %lld %8.1f tokens/s  %.0f MiB at most  (mean loss %.3f)\n",
               (long long)B, (long long)T, (double)(B * T) / best, (double)u.ru_maxrss / 1024,
               sum / (double)(B * T));
    gpt2_free(m);
    free(ids);
    free(loss);
    return rc;
}

int main(void)
{
    struct err e = {0};
    struct backend b;
    int threads = (int)setting("BENCH_THREADS", thread_cpus());
    if (backend_open(&b, "cpu", 0, threads, &e) ||
        measure(&b, setting("BENCH_BATCH", 4), setting("BENCH_LENGTH", 256),
                setting("BENCH_ROUNDS", 5), &e)) {
        fprintf(stderr, "bench_loss: %s\n", e.msg);
        return 1;
    }
    backend_close(&b);
    return 0;
}
