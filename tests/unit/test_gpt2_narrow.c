/* Weights in bf16 on the CPU: products read them rounded, nothing else is rounded, and their f32 matrices
 * are given back. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/tap.h"
#include "trainer/gpt2.h"

static struct backend cpu;

static struct gpt2 *open_model(const struct model_config *c, struct gpt2_use use)
{
    struct err e = {0};
    struct gpt2 *m = gpt2_new(&cpu, c, &use, &e);
    if (!m) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    return m;
}

static void random_ids(struct rng *r, int32_t *v, int64_t n, int64_t vocab)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = (int32_t)rng_below(r, (uint64_t)vocab);
}

static float to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u += 0x7FFF + (u >> 16 & 1);
    u &= 0xFFFF0000;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Whole pages of [p, p + n) that are in memory, and all. */
static int64_t pages_in(const void *p, size_t n, int64_t *all)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
              from = ((uintptr_t)p + page - 1) / page * page;
    size_t count = (uintptr_t)p + n > from ? ((uintptr_t)p + n - from) / page : 0;
    unsigned char *in = malloc(count + 1);
    int64_t have = 0;
    *all = (int64_t)count;
    if (mincore((void *)from, count * page, in) == 0)
        for (size_t i = 0; i < count; i++)
            have += in[i] & 1;
    free(in);
    return have;
}

static double decode_gap(struct gpt2 *a, struct gpt2 *b, int64_t V)
{
    enum { B = 3, T = 5 };
    struct rng r = rng_make(5, "ids", 0);
    int32_t ids[B * T], len[B] = {5, 3, 4}, next[B], pos[B];
    float *x = malloc((size_t)(B * V) * 4), *y = malloc((size_t)(B * V) * 4);
    double gap = 0;
    struct err e = {0};
    random_ids(&r, ids, B * T, V);
    int rc = gpt2_prefill(a, ids, len, B, T, x, &e) || gpt2_prefill(b, ids, len, B, T, y, &e);
    for (int k = 0; k < 4 && !rc; k++) {
        for (int64_t i = 0; i < B * V; i++)
            gap = fmax(gap, fabs((double)x[i] - (double)y[i]));
        random_ids(&r, next, B, V);
        for (int i = 0; i < B; i++)
            pos[i] = len[i] + k;
        rc = gpt2_step(a, next, pos, B, x, &e) || gpt2_step(b, next, pos, B, y, &e);
    }
    free(x);
    free(y);
    return rc ? NAN : gap;
}

static void test_bf16_weights(void)
{
    struct model_config c = {.layers = 2,
                             .heads = 2,
                             .width = 128,
                             .context = 16,
                             .vocab = 300,
                             .qkv_bias = true,
                             .norm_eps = 1e-5,
                             .init_std = 0.05};
    struct gpt2_use use = {.batch = 3, .length = 16, .decode = true};
    struct gpt2 *plain = open_model(&c, use), *exact = open_model(&c, use);
    use.bf16_weights = true;
    struct gpt2 *narrow = open_model(&c, use);
    const struct params *p = gpt2_params(plain);
    float *w = malloc((size_t)p->count * 4);
    struct err e = {0};
    gpt2_init(exact, 3, &e);
    gpt2_get(exact, 'w', w, &e);
    CHECK(gpt2_put(narrow, 'w', w, &e) == 0, "weights are put: %s", e.msg);
    for (int i = 0; i < p->n; i++) /* what products read; the embeddings stay as they are */
        for (int64_t k = 0; p->v[i].matrix && p->v[i].name[0] != 'w' && k < p->v[i].count; k++)
            w[p->v[i].at + k] = to_bf16(w[p->v[i].at + k]);
    gpt2_put(plain, 'w', w, &e);
    double same = decode_gap(narrow, plain, c.vocab), other = decode_gap(narrow, exact, c.vocab);
    CHECK(same < 2e-6, "products read rounded weights and nothing else is rounded: %g", same);
    CHECK(other > 100 * same && other > 1e-4, "which is not the same as f32: %g", other);
    int64_t all, in, kept = 0, large = 0;
    const float *place = gpt2_place(narrow);
    for (int i = 0; i < p->n; i++) {
        in = pages_in(place + p->v[i].at, (size_t)p->v[i].count * 4, &all);
        bool block = p->v[i].matrix && p->v[i].name[0] == 'h';
        large += block ? all : 0;
        kept += block ? in : 0;
    }
    CHECK(large > 300 && kept == 0, "the f32 matrices are given back: %lld of %lld pages stay",
          (long long)kept, (long long)large);
    CHECK(gpt2_get(narrow, 'w', w, &e) == -1 && strstr(e.msg, "not kept"), "and can't be got: %s",
          e.msg);
    gpt2_get(exact, 'w', w, &e);
    gpt2_put(narrow, 'w', w, &e);
    CHECK_NEAR(decode_gap(narrow, plain, c.vocab), same, 0, "but put again");
    memcpy(gpt2_place(narrow), w, (size_t)p->count * 4);
    gpt2_refresh(narrow, 0);
    CHECK_NEAR(decode_gap(narrow, plain, c.vocab), same, 0, "or filled in place");
    free(w);
    gpt2_free(plain);
    gpt2_free(exact);
    gpt2_free(narrow);
}

int main(void)
{
    struct err e = {0};
    if (backend_open(&cpu, "cpu", 0, 0, &e)) {
        printf("Bail out! %s\n", e.msg);
        return 1;
    }
    test_bf16_weights();
    backend_close(&cpu);
    return tap_done();
}
