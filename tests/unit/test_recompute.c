/* Recomputing activations: the same bits as keeping them, less memory, and a plan that is what is
 * allocated; and what the CPU says to precisions that it does not have.
 */
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "trainer/gpt2.h"

enum { B = 6, T = 32, V = 61 };

static struct backend cpu;

/* The CPU's table with an alloc that counts. */
static struct backend_ops counting;
static int64_t allocated;
static void *count_alloc(struct backend *b, size_t n)
{
    allocated += (int64_t)n;
    return cpu.ops->alloc(b, n);
}

static struct model_config config(bool tied)
{
    return (struct model_config){.layers = 3,
                                 .heads = 2,
                                 .width = 24,
                                 .context = T,
                                 .vocab = V,
                                 .qkv_bias = true,
                                 .tied = tied,
                                 .dropout = 0.2,
                                 .norm_eps = 1e-5,
                                 .init_std = 0.05};
}

struct trained {
    float *w;
    float loss[B * T];
    int64_t bytes, plan;
};

/* Three steps in micro-batches; the weights at the end and the losses of the last step. */
static bool train(struct trained *r, struct gpt2_use use, bool tied, int64_t micro)
{
    struct backend b = {.ops = &counting, .impl = cpu.impl};
    struct model_config c = config(tied);
    struct err e = {0};
    struct gpt2_plan plan;
    struct rng g = rng_make(4, "test", 0);
    int32_t ids[B * T], targets[B * T];
    uint64_t seq[B] = {3, 1, 4, 15, 9, 2};
    allocated = 0;
    struct gpt2 *m = gpt2_new(&b, &c, &use, &e);
    bool ok = m && gpt2_init(m, 2, &e) == 0;
    gpt2_plan(&c, &use, &plan);
    r->plan = plan.total;
    r->bytes = allocated;
    for (int i = 0; i < B * T; i++) {
        ids[i] = (int32_t)rng_below(&g, V);
        targets[i] = i % 11 == 3 ? -1 : (int32_t)rng_below(&g, V);
    }
    for (int s = 0; ok && s < 3; s++) {
        struct gpt2_update u = {
            .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1, .step = s + 1};
        double norm;
        gpt2_zero_grad(m);
        for (int64_t i = 0; ok && i < B; i += micro) {
            struct gpt2_batch batch = {ids + i * T, targets + i * T, seq + i, micro, T, B * T,
                                       7,           (uint64_t)s,     0,       false};
            ok = gpt2_grad(m, &batch, r->loss + i * T, &e) == 0;
        }
        ok = ok && gpt2_update(m, &u, &norm, &e) == 0;
    }
    size_t n = m ? (size_t)gpt2_params(m)->count : 0;
    r->w = calloc(n + 1, sizeof *r->w);
    ok = ok && gpt2_get(m, 'w', r->w, &e) == 0;
    if (!ok)
        printf("# %s\n", e.msg);
    gpt2_free(m);
    return ok;
}

static void test_bits(bool tied, int64_t micro)
{
    int64_t n = 0, before = 0;
    struct trained none = {0};
    struct gpt2_use use = {.batch = micro, .length = T, .train = true, .grain = 1};
    struct model_config c = config(tied);
    n = params_count(&c);
    CHECK(train(&none, use, tied, micro), "%s, %lld at once: trains", tied ? "tied" : "untied",
          (long long)micro);
    for (int how = RECOMPUTE_NONE; how < RECOMPUTES; how++) {
        struct trained r = {0};
        use.recompute = how;
        bool ran = train(&r, use, tied, micro);
        CHECK(ran && memcmp(r.w, none.w, (size_t)n * sizeof *r.w) == 0 &&
                  memcmp(r.loss, none.loss, sizeof r.loss) == 0,
              "recompute %s: the same bits", recompute_names[how]);
        CHECK_INT(r.bytes, r.plan, "recompute %s: what is allocated is the plan",
                  recompute_names[how]);
        CHECK(how == RECOMPUTE_NONE || r.bytes < before, "recompute %s: %lld bytes, less",
              recompute_names[how], (long long)r.bytes);
        before = r.bytes;
        free(r.w);
    }
    free(none.w);
}

static void test_precisions(void)
{
    struct model_config c = config(true);
    struct err e = {0};
    for (int p = PRECISION_TF32; p <= PRECISION_FP16; p++) {
        struct gpt2_use use = {.batch = 1, .length = T, .precision = p};
        char want[80];
        snprintf(want, sizeof want, "precision %s: the cpu backend computes in fp32 only",
                 precision_names[p]);
        CHECK(!gpt2_new(&cpu, &c, &use, &e) && e.code == EXIT_USAGE &&
                  strstr(e.msg, want) == e.msg && strstr(e.msg, "; others: cuda"),
              "the CPU refuses %s: %s", precision_names[p], e.msg);
        e = (struct err){0};
    }
}

/* Padding of the head: zeros behind the vocabulary's rows, in the table alone. */
static void test_padding(void)
{
    struct model_config c = config(false);
    struct params p;
    struct arena a = {0};
    struct err e = {0};
    CHECK(params_make(&p, &c, 128, &a, &e) == 0, "a table with a padded head");
    const struct param *head = &p.v[p.n - 1];
    CHECK(head->count == V * 24 && head->room == 128 * 24 && p.count == head->at + 128 * 24,
          "an untied head ends the vector, padded to 128 rows");
    CHECK_INT(p.count - params_count(&c), (128 - V) * 24, "parameters are counted without");
    c.tied = true;
    CHECK(params_make(&p, &c, 128, &a, &e) == 0 && p.v[0].room == 128 * 24 &&
              p.v[1].at == 128 * 24 && p.v[0].dim[0] == V,
          "a tied one is the embedding, and the positions come behind the padding");
    arena_release(&a);
}

int main(void)
{
    struct err e = {0};
    if (backend_open(&cpu, "cpu", 0, 2, &e))
        return 1;
    counting = *cpu.ops;
    counting.alloc = count_alloc;
    test_bits(true, 6);
    test_bits(false, 2);
    test_precisions();
    test_padding();
    backend_close(&cpu);
    return tap_done();
}
