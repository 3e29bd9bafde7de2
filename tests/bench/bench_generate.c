/* bench_generate: tokens a second of decoding GPT-2 124M's shape (random weights), greedy, beside
 * what memory can deliver.
 *
 * A step must read every weight once and the caches of its rows, so
 *   bound = rows / (bytes / bandwidth)
 * with the bandwidth measured here, by as many threads reading a buffer of that size. Best of some
 * rounds: the machine may have other work. Prefill is timed apart.
 *   BENCH_THREADS=2 BENCH_ROWS=1,8 BENCH_ROUNDS=3 BENCH_NEW=64 BENCH_WEIGHTS=bf16 bench_generate
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "eval/generate.h"

enum { PROMPT = 32, MOST_ROWS = 256 };

static const struct model_config shape = {.layers = 12,
                                          .heads = 12,
                                          .width = 768,
                                          .context = 1024,
                                          .vocab = 50257,
                                          .tied = true,
                                          .qkv_bias = true,
                                          .norm_eps = 1e-5,
                                          .init_std = 0.02};

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *v = getenv(name);
    return v && *v ? strtol(v, NULL, 10) : otherwise;
}

/* ---- the machine's limit -------------------------------------------------------------------- */

struct reader {
    const uint64_t *p;
    size_t n;
    uint64_t mix;
    pthread_t thread;
};

/* Eight words at a time, so that only memory can be slow. */
static void *read_all(void *arg)
{
    struct reader *r = arg;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (const uint64_t *p = r->p, *end = r->p + r->n / 8 * 8; p < end; p += 8) {
        a ^= p[0] ^ p[4];
        b ^= p[1] ^ p[5];
        c ^= p[2] ^ p[6];
        d ^= p[3] ^ p[7];
    }
    r->mix = a ^ b ^ c ^ d;
    return NULL;
}

/* Bytes a second. */
static double bandwidth(int threads, int rounds)
{
    size_t n = (size_t)64 << 20, each = n / (size_t)threads;
    uint64_t *p = mem_array(n, sizeof *p), mix = 0;
    double best = 0;
    struct reader r[64];
    struct err e;
    for (size_t i = 0; i < n; i++)
        p[i] = i * 2654435761U;
    for (int k = 0; k < rounds; k++) {
        double t0 = clock_now();
        for (int i = 0; i < threads; i++) {
            r[i] = (struct reader){.p = p + (size_t)i * each, .n = each};
            if (thread_start(&r[i].thread, read_all, &r[i], &e))
                exit(1);
        }
        for (int i = 0; i < threads; i++) {
            pthread_join(r[i].thread, NULL);
            mix ^= r[i].mix;
        }
        double rate = (double)(each * (size_t)threads * sizeof *p) / (clock_now() - t0);
        best = rate > best ? rate : best;
    }
    free(p);
    return mix != 1 ? best : 0; /* so that nothing is left out */
}

/* ---- decoding ------------------------------------------------------------------------------- */

struct job {
    const int32_t *ids;
    int64_t given, rows, made_new;
    double first; /* when the last prompt was prefilled: the first token of the last row */
    int64_t made; /* ids made in all */
};

static int next(void *ctx, struct gen_task *t, struct err *e)
{
    struct job *j = ctx;
    (void)e;
    if (j->given == j->rows)
        return 0;
    *t = (struct gen_task){
        .ids = j->ids + j->given++, .n = PROMPT, .max_new = j->made_new, .eos = -1};
    return 1;
}

static int token(void *ctx, struct gen_task *t, int32_t id, struct err *e)
{
    struct job *j = ctx;
    (void)t;
    (void)id;
    (void)e;
    if (++j->made == j->rows)
        j->first = clock_now();
    return 0;
}

static int done(void *ctx, struct gen_task *t, enum finish finish, struct err *e)
{
    (void)ctx;
    (void)t;
    (void)finish;
    (void)e;
    return 0;
}

/* Weights of the usual size; their values change no time. */
static int fill(struct gpt2 *m, struct err *e)
{
    size_t n = (size_t)gpt2_params(m)->count;
    float *flat = mem_array(n, sizeof *flat);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        flat[i] = ((float)(x >> 8) / (float)(1 << 24) - 0.5F) * 0.07F;
    }
    int rc = gpt2_put(m, 'w', flat, e);
    free(flat);
    return rc;
}

static int measure(struct backend *b, int64_t rows, int64_t fresh, int rounds, double bytes_s,
                   struct err *e)
{
    const char *type = getenv("BENCH_WEIGHTS");
    bool bf16 = type && strcmp(type, "bf16") == 0;
    struct gpt2_use use = {.batch = generate_batch(rows),
                           .length = PROMPT + fresh,
                           .decode = true,
                           .bf16_weights = bf16};
    struct model_config c = shape;
    int32_t ids[MOST_ROWS + PROMPT];
    double step = 1e9, prefill = 1e9;
    struct rng r = rng_make(1, "bench", 0);
    struct gpt2 *m;
    for (int i = 0; i < MOST_ROWS + PROMPT; i++)
        ids[i] = (int32_t)rng_below(&r, (uint64_t)c.vocab);
    c.context = PROMPT + fresh;
    m = gpt2_new(b, &c, &use, e);
    if (!m || fill(m, e))
        return -1;
    for (int k = 0; k < rounds; k++) {
        struct job j = {.ids = ids, .rows = rows, .made_new = fresh};
        struct gen_calls calls = {.next = next, .token = token, .done = done, .ctx = &j};
        double t0 = clock_now();
        if (generate_run(m, rows, &calls, e))
            return -1;
        double s = (clock_now() - j.first) / (double)(fresh - 1), p = j.first - t0;
        step = s < step ? s : step;
        prefill = p < prefill ? p : prefill;
    }
    double weights = (double)(gpt2_params(m)->count - c.context * c.width) * (bf16 ? 2 : 4);
    double cache = 2.0 * (double)(rows * c.layers * c.width) * (PROMPT + (double)fresh / 2) * 4;
    double bound = (double)rows / ((weights + cache) / bytes_s);
    printf(
        "generate 124M %s rows=%-3lld %8.1f tokens/s  %6.2f ms a step  %4.1f%% of what %.1f GB/s "
        "allow (%.1f tokens/s)  prefill %.0f tokens/s\n",
        bf16 ? "bf16" : "f32", (long long)rows, (double)rows / step, step * 1e3,
        100 * (double)rows / step / bound, bytes_s / 1e9, bound, (double)(rows * PROMPT) / prefill);
    gpt2_free(m);
    return 0;
}

int main(void)
{
    int threads = (int)setting("BENCH_THREADS", thread_cpus());
    int rounds = (int)setting("BENCH_ROUNDS", 3);
    int64_t fresh = setting("BENCH_NEW", 64);
    const char *list = getenv("BENCH_ROWS");
    struct str rest = str_z(list && *list ? list : "1,8");
    threads = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    double bytes_s = bandwidth(threads, rounds + 2);
    while (rest.n) {
        int64_t rows;
        struct err e = {0};
        struct backend b;
        struct str word = str_cut(&rest, ',');
        if (str_i64(word, &rows) || rows < 1 || rows > MOST_ROWS) {
            fprintf(stderr, "bench_generate: BENCH_ROWS: %.*s\n", STR_ARG(word));
            return 1;
        }
        if (backend_open(&b, "cpu", 0, threads, &e) ||
            measure(&b, rows, fresh, rounds, bytes_s, &e)) {
            fprintf(stderr, "bench_generate: %s\n", e.msg);
            return 1;
        }
        backend_close(&b);
    }
    return 0;
}
