/* The model: gradients against finite differences, micro-batches, decoding. Values that other
 * people's programs computed are in test_gpt2_golden.c. */
#include <stdint.h>

#include "base/rng.h"
#include "tests/tap.h"
#include "trainer/gpt2.h"
#include "trainer/optim.h"

static struct backend cpu;

static struct model_config tiny(void)
{
    return (struct model_config){.layers = 2,
                                 .heads = 2,
                                 .width = 8,
                                 .context = 6,
                                 .vocab = 11,
                                 .qkv_bias = true,
                                 .tied = true,
                                 .norm_eps = 1e-5,
                                 .init_std = 0.4};
}

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

/* ---- parameters ---- */

static void test_counts(void)
{
    struct model_config c = {.layers = 12,
                             .heads = 12,
                             .width = 768,
                             .context = 1024,
                             .vocab = 50257,
                             .qkv_bias = true,
                             .tied = true};
    struct params p;
    struct arena a = {0};
    struct err e = {0};
    CHECK_INT(params_count(&c), 124439808, "GPT-2 small has 124,439,808 parameters");
    CHECK(params_make(&p, &c, 1, &a, &e) == 0 && p.count == 124439808,
          "and the table sums to the same");
    c.qkv_bias = c.tied = false;
    CHECK_INT(params_count(&c), 163009536, "without tying and q/k/v bias it has 163,009,536");
    CHECK(params_make(&p, &c, 1, &a, &e) == 0 && p.count == 163009536,
          "and the table sums to the same");
    int n;
    optim_segments(&p, DECAY_MATRICES, &a, &n);
    CHECK(n > 1, "matrices decay apart from the rest");
    struct adamw_segment *s = optim_segments(&p, DECAY_ALL, &a, &n);
    CHECK(n == 1 && s->begin == 0 && s->end == p.count && s->decay,
          "under the rule all there is one segment");
    c.heads = 7;
    CHECK(params_make(&p, &c, 1, &a, &e) != 0 && strstr(e.msg, "does not divide"),
          "heads that do not divide the width are refused");
    arena_release(&a);
}

static void test_init(void)
{
    struct model_config c = {.layers = 2,
                             .heads = 2,
                             .width = 64,
                             .context = 32,
                             .vocab = 300,
                             .qkv_bias = true,
                             .tied = true,
                             .norm_eps = 1e-5,
                             .init_std = 0.02};
    struct gpt2 *m = open_model(&c, (struct gpt2_use){.batch = 1, .length = 8});
    const struct params *p = gpt2_params(m);
    struct err e = {0};
    float *w = malloc((size_t)p->count * 4), *again = malloc((size_t)p->count * 4);
    CHECK(gpt2_init(m, 7, &e) == 0 && gpt2_get(m, 'w', w, &e) == 0, "a model is initialised");
    gpt2_init(m, 7, &e);
    gpt2_get(m, 'w', again, &e);
    CHECK(memcmp(w, again, (size_t)p->count * 4) == 0, "the same seed gives the same weights");
    gpt2_init(m, 8, &e);
    gpt2_get(m, 'w', again, &e);
    CHECK(memcmp(w, again, (size_t)p->count * 4) != 0, "another seed gives others");
    char odd[160] = "";
    for (int i = 0; i < p->n; i++) {
        const struct param *q = &p->v[i];
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < q->count; k++) {
            sum += w[q->at + k];
            squares += (double)w[q->at + k] * w[q->at + k];
        }
        double n = (double)q->count, mean = sum / n, std = sqrt(squares / n - mean * mean);
        bool residual = strstr(q->name, "c_proj.weight") != NULL;
        double want = q->matrix ? (residual ? 0.02 / sqrt(4) : 0.02) : 0;
        if (!(fabs(std - want) <= 0.06 * want + 1e-9) ||
            !(fabs(mean - (q->matrix ? 0 : q->init_value)) < 0.002))
            snprintf(odd, sizeof odd, ": %s has mean %g and deviation %g", q->name, mean, std);
    }
    CHECK(!odd[0], "each tensor has GPT-2's mean and deviation%s", odd);
    free(w);
    free(again);
    gpt2_free(m);
}

/* ---- gradients ---- */

struct data {
    int32_t ids[64], targets[64];
    uint64_t seq[8];
};

static double loss_of(struct gpt2 *m, const struct data *d, int64_t B, int64_t T, int64_t valid)
{
    float loss[64];
    double sum = 0;
    struct err e = {0};
    struct gpt2_batch b = {d->ids, d->targets, d->seq, B, T, valid, 5, 3, 0, false};
    gpt2_zero_grad(m);
    if (gpt2_grad(m, &b, loss, &e)) {
        CHECK(false, "%s", e.msg);
        return NAN;
    }
    for (int64_t i = 0; i < B * T; i++)
        sum += loss[i];
    return sum / (double)valid;
}

/* The derivative along a random direction of each tensor, by central differences. */
static void check_gradients(const char *name, struct model_config c)
{
    enum { B = 3, T = 5 };
    struct gpt2 *m = open_model(&c, (struct gpt2_use){.batch = B, .length = T, .train = true});
    const struct params *p = gpt2_params(m);
    struct err e = {0};
    struct data d;
    struct rng r = rng_make(3, "test", 0);
    size_t bytes = (size_t)p->count * 4;
    float *w = malloc(bytes), *g = malloc(bytes), *moved = malloc(bytes), *dir = malloc(bytes);
    gpt2_init(m, 4, &e);
    gpt2_get(m, 'w', w, &e);
    /* Biases and norms away from 0 and 1, so that a missing term shows. */
    for (int64_t i = 0; i < p->count; i++)
        w[i] += (float)(0.1 * rng_normal(&r));
    gpt2_put(m, 'w', w, &e);
    random_ids(&r, d.ids, B * T, c.vocab);
    random_ids(&r, d.targets, B * T, c.vocab);
    d.targets[2] = d.targets[7] = -1;
    for (int i = 0; i < B; i++)
        d.seq[i] = (uint64_t)(i * 11 + 2);
    double worst = 0;
    const char *where = "";
    loss_of(m, &d, B, T, B * T - 2);
    gpt2_get(m, 'g', g, &e);
    for (int i = 0; i < p->n; i++) {
        const struct param *q = &p->v[i];
        double norm = 0;
        for (int64_t k = 0; k < q->count; k++)
            norm += (double)g[q->at + k] * g[q->at + k];
        norm = sqrt(norm);
        for (int draw = 0; draw < 3; draw++) {
            double want = 0, h = 4e-3, side[2];
            for (int64_t k = 0; k < q->count; k++) {
                dir[k] = rng_u32(&r) & 1 ? 1 : -1;
                want += (double)dir[k] * g[q->at + k];
            }
            for (int s = 0; s < 2; s++) {
                memcpy(moved, w, bytes);
                for (int64_t k = 0; k < q->count; k++)
                    moved[q->at + k] += (float)((s ? -h : h) / sqrt((double)q->count)) * dir[k];
                gpt2_put(m, 'w', moved, &e);
                side[s] = loss_of(m, &d, B, T, B * T - 2);
            }
            double got = (side[0] - side[1]) / (2 * h) * sqrt((double)q->count);
            double off = fabs(got - want) / (norm + 1e-2);
            if (!(off <= worst)) {
                worst = off;
                where = q->name;
            }
        }
    }
    CHECK(worst < 2e-2, "gradients equal finite differences: %s (worst %.4f, %s)", name, worst,
          where);
    free(w);
    free(g);
    free(moved);
    free(dir);
    gpt2_free(m);
}

static void test_gradients(void)
{
    struct model_config c = tiny();
    check_gradients("tied, q/k/v bias", c);
    c.tied = c.qkv_bias = false;
    check_gradients("untied, no q/k/v bias", c);
    c.dropout = 0.25;
    check_gradients("dropout", c);
    c = tiny();
    c.inner = 12;
    c.layers = 1;
    check_gradients("one layer, inner 12", c);
}

/* One global batch of 8 cut in other ways, with unequal numbers of valid targets in the parts. */
static void test_accumulation(void)
{
    enum { B = 8, T = 6 };
    static const int64_t cuts[] = {8, 1, 4, 3};
    struct model_config c = tiny();
    c.dropout = 0.2;
    struct gpt2 *m = open_model(&c, (struct gpt2_use){.batch = B, .length = T, .train = true});
    int64_t n = gpt2_params(m)->count, valid = 0;
    struct err e = {0};
    struct data d;
    struct rng r = rng_make(9, "test", 0);
    float *g = malloc((size_t)n * 4), *first = malloc((size_t)n * 4), loss[B * T];
    gpt2_init(m, 1, &e);
    random_ids(&r, d.ids, B * T, c.vocab);
    random_ids(&r, d.targets, B * T, c.vocab);
    for (int i = 0; i < B * T; i++)
        if (i < 2 * T || i % 5 == 0) /* the first two sequences have no target at all */
            d.targets[i] = -1;
    for (int i = 0; i < B * T; i++)
        valid += d.targets[i] >= 0;
    for (int i = 0; i < B; i++)
        d.seq[i] = (uint64_t)i;
    double whole = 0;
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        double sum = 0, worst = 0;
        gpt2_zero_grad(m);
        for (int64_t at = 0; at < B; at += cuts[k]) {
            int64_t rows = B - at < cuts[k] ? B - at : cuts[k];
            struct gpt2_batch b = {
                d.ids + at * T, d.targets + at * T, d.seq + at, rows, T, valid, 5, 3, 0, false};
            if (gpt2_grad(m, &b, loss, &e))
                CHECK(false, "%s", e.msg);
            for (int64_t i = 0; i < rows * T; i++)
                sum += loss[i];
        }
        gpt2_get(m, 'g', g, &e);
        if (k == 0) {
            memcpy(first, g, (size_t)n * 4);
            whole = sum;
            CHECK(isfinite(sum) && sum > 0, "a batch with two fully masked sequences is finite");
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            if (!(fabs((double)g[i] - first[i]) <= worst))
                worst = fabs((double)g[i] - first[i]);
        CHECK(worst <= 1e-6, "micro-batches of %lld give the same gradient (off by %.2g)",
              (long long)cuts[k], worst);
        CHECK_NEAR(sum / (double)valid, whole / (double)valid, 1e-6,
                   "micro-batches of %lld give the same loss", (long long)cuts[k]);
    }
    /* A batch without any target. */
    for (int i = 0; i < B * T; i++)
        d.targets[i] = -1;
    struct gpt2_batch none = {d.ids, d.targets, d.seq, B, T, 0, 5, 3, 0, false};
    gpt2_zero_grad(m);
    CHECK(gpt2_grad(m, &none, loss, &e) == 0, "a batch without a target runs");
    gpt2_get(m, 'g', g, &e);
    bool zero = true;
    for (int64_t i = 0; i < n; i++)
        zero = zero && g[i] == 0;
    CHECK(zero, "a batch without a target adds nothing to the gradient");
    free(g);
    free(first);
    gpt2_free(m);
}

/* With a grain, gradients are summed in the same pieces whatever the micro-batch: equal bits. */
static void test_grain(void)
{
    enum { B = 8, T = 6 };
    static const int64_t cuts[] = {8, 2, 4, 6};
    struct model_config c = tiny();
    c.dropout = 0.2;
    struct gpt2_use use = {.batch = B, .length = T, .train = true, .grain = 2};
    struct gpt2 *m = open_model(&c, use);
    use.grain = 0;
    struct gpt2 *plain = open_model(&c, use);
    size_t bytes = (size_t)gpt2_params(m)->count * 4;
    float *g = malloc(bytes), *first = malloc(bytes), loss[B * T];
    struct err e = {0};
    struct data d;
    struct rng r = rng_make(9, "test", 0);
    random_ids(&r, d.ids, B * T, c.vocab);
    random_ids(&r, d.targets, B * T, c.vocab);
    for (int i = 0; i < B; i++)
        d.seq[i] = (uint64_t)(i * 3);
    gpt2_init(m, 1, &e);
    gpt2_init(plain, 1, &e);
    loss_of(plain, &d, B, T, B * T);
    gpt2_get(plain, 'g', first, &e);
    loss_of(m, &d, B, T, B * T);
    gpt2_get(m, 'g', g, &e);
    double worst = 0;
    for (size_t i = 0; i < bytes / 4; i++)
        if (!(fabs((double)g[i] - first[i]) <= worst))
            worst = fabs((double)g[i] - first[i]);
    CHECK(worst <= 1e-6, "going back two sequences at a time is going back (off by %.2g)", worst);
    memcpy(first, g, bytes);
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        gpt2_zero_grad(m);
        for (int64_t at = 0; at < B; at += cuts[k]) {
            int64_t rows = B - at < cuts[k] ? B - at : cuts[k];
            struct gpt2_batch b = {
                d.ids + at * T, d.targets + at * T, d.seq + at, rows, T, B * T, 5, 3, 0, false};
            gpt2_grad(m, &b, loss, &e);
        }
        gpt2_get(m, 'g', g, &e);
        CHECK(memcmp(g, first, bytes) == 0,
              "with a grain of 2, micro-batches of %lld give the same bits", (long long)cuts[k]);
    }
    free(g);
    free(first);
    gpt2_free(m);
    gpt2_free(plain);
}

static void test_update(void)
{
    struct model_config c = tiny();
    struct gpt2 *m = open_model(&c, (struct gpt2_use){.batch = 1, .length = 2, .train = true});
    int64_t n = gpt2_params(m)->count;
    size_t bytes = (size_t)n * 4;
    float *w = malloc(bytes), *g = malloc(bytes), *after = malloc(bytes);
    struct err e = {0};
    double norm;
    gpt2_init(m, 1, &e);
    gpt2_get(m, 'w', w, &e);
    for (int64_t i = 0; i < n; i++)
        g[i] = i == 17 ? NAN : 0.01f;
    gpt2_put(m, 'g', g, &e);
    struct gpt2_update u = {
        .lr = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1, .step = 1};
    CHECK(gpt2_update(m, &u, &norm, &e) == 0 && !isfinite(norm),
          "a gradient with a NaN is reported by its norm");
    gpt2_get(m, 'w', after, &e);
    CHECK(memcmp(w, after, bytes) == 0, "and changes no weight");
    gpt2_get(m, 'm', after, &e);
    bool zero = true;
    for (int64_t i = 0; i < n; i++)
        zero = zero && after[i] == 0;
    CHECK(zero, "and no moment");
    g[17] = 0.01f;
    gpt2_put(m, 'g', g, &e);
    u.skip_above = 1e-3;
    gpt2_update(m, &u, &norm, &e);
    gpt2_get(m, 'w', after, &e);
    CHECK(memcmp(w, after, bytes) == 0, "a norm above skip_above changes no weight");
    CHECK_NEAR(norm, 0.01 * sqrt((double)n), 1e-6, "the norm is that before clipping");
    u.skip_above = 0;
    gpt2_update(m, &u, &norm, &e);
    gpt2_get(m, 'w', after, &e);
    CHECK(memcmp(w, after, bytes) != 0, "otherwise the weights move");
    free(w);
    free(g);
    free(after);
    gpt2_free(m);
}

/* ---- refusals ---- */

static void test_refusals(void)
{
    struct model_config c = tiny();
    struct err e = {0};
    struct gpt2_use use = {.batch = 1, .length = 7};
    CHECK(!gpt2_new(&cpu, &c, &use, &e) && strstr(e.msg, "context of 6"),
          "more positions than the context are refused");
    c = (struct model_config){.layers = 96,
                              .heads = 96,
                              .width = 12288,
                              .context = 2048,
                              .vocab = 50257,
                              .qkv_bias = true,
                              .tied = true};
    use = (struct gpt2_use){.batch = 8, .length = 2048, .train = true};
    CHECK(!gpt2_new(&cpu, &c, &use, &e), "a model that cannot fit is refused");
    CHECK(strstr(e.msg, "needs ") && strstr(e.msg, "moments ") && strstr(e.msg, " are free"),
          "and the sentence says what it needs and what is free: %s", e.msg);
    c = tiny();
    use = (struct gpt2_use){.batch = 2, .length = 4};
    struct gpt2 *m = open_model(&c, use);
    int32_t ids[8] = {0, 1, 2, 3, 4, 5, 11, 7}, len[2] = {4, 4};
    float out[8 * 11];
    CHECK(gpt2_logits(m, ids, 2, 4, out, &e) != 0 && strstr(e.msg, "id 11 in sequence 1"),
          "an id outside the vocabulary is named: %s", e.msg);
    CHECK(gpt2_logits(m, ids, 3, 2, out, &e) != 0, "a larger batch than opened for is refused");
    CHECK(gpt2_prefill(m, ids, len, 1, 4, out, &e) != 0 && strstr(e.msg, "decoding"),
          "decoding needs a model opened for it");
    gpt2_free(m);
    struct gpt2_plan p;
    gpt2_plan(&c, &(struct gpt2_use){.batch = 2, .length = 4, .train = true}, &p);
    CHECK(p.params == params_count(&c) * 4 && p.grads == p.params && p.moments == 2 * p.params &&
              p.total == p.params + p.grads + p.moments + p.activations + p.logits + p.kv,
          "the plan's parts sum to its total");
}

/* ---- decoding ---- */

static void test_decode(void)
{
    enum { B = 4, T = 12, V = 37, CTX = 16 };
    struct model_config c = {.layers = 3,
                             .heads = 3,
                             .width = 24,
                             .context = CTX,
                             .vocab = V,
                             .qkv_bias = true,
                             .tied = false,
                             .norm_eps = 1e-5,
                             .init_std = 0.3};
    struct gpt2 *m = open_model(&c, (struct gpt2_use){.batch = B, .length = CTX, .decode = true});
    struct err e = {0};
    struct rng r = rng_make(1, "test", 0);
    int32_t row[B][CTX], ids[B * T], len[B] = {5, 1, 12, 8};
    static float cached[B * V], plain[CTX * V];
    gpt2_init(m, 2, &e);
    for (int b = 0; b < B; b++)
        random_ids(&r, row[b], CTX, V);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++)
            ids[b * T + t] = t < len[b] ? row[b][t] : 0;
    double worst = 0;
    CHECK(gpt2_prefill(m, ids, len, B, T, cached, &e) == 0, "prompts of unequal length prefill");
    for (int step = 0; step < 6; step++) {
        int32_t next[B], pos[B];
        for (int b = 0; b < B; b++) {
            gpt2_logits(m, row[b], 1, len[b], plain, &e);
            for (int v = 0; v < V; v++) {
                double off = fabs((double)cached[b * V + v] - plain[(len[b] - 1) * V + v]);
                if (!(step && b == 2 && step % 2) && !(off <= worst))
                    worst = off;
            }
        }
        if (step == 5)
            break;
        if (step == 2) { /* row 1 ends, another prompt takes its place */
            len[1] = 3;
            random_ids(&r, row[1], CTX, V);
            gpt2_prefill_at(m, 1, row[1], &len[1], 1, 3, cached + V, &e);
        }
        for (int b = 0; b < B; b++) {
            bool idle = b == 2 && step % 2 == 0; /* stands still every other step */
            pos[b] = idle ? -1 : len[b];
            next[b] = idle ? -5 : row[b][len[b]];
            if (!idle)
                len[b]++;
        }
        if (gpt2_step(m, next, pos, B, cached, &e))
            CHECK(false, "%s", e.msg);
    }
    CHECK(worst < 2e-5, "decoding with a cache equals recomputation (off by %.2g)", worst);
    int32_t at[1] = {CTX}, one[1] = {0};
    CHECK(gpt2_step(m, one, at, 1, cached, &e) != 0, "a position behind the cache is refused");
    gpt2_free(m);
}

/* Sequences go through in groups; the groups decide nothing. */
static void test_groups(void)
{
    enum { B = 24, T = 256, V = 50 };
    struct model_config c = {.layers = 1,
                             .heads = 2,
                             .width = 16,
                             .context = T,
                             .vocab = V,
                             .qkv_bias = true,
                             .tied = true,
                             .norm_eps = 1e-5,
                             .init_std = 0.2};
    struct gpt2 *m = open_model(&c, (struct gpt2_use){.batch = B, .length = T});
    struct gpt2 *one = open_model(&c, (struct gpt2_use){.batch = 1, .length = T});
    struct err e = {0};
    struct rng r = rng_make(1, "test", 0);
    int32_t *ids = malloc(B * T * 4), *targets = malloc(B * T * 4);
    float *all = malloc(B * T * 4), *alone = malloc(T * 4);
    gpt2_init(m, 2, &e);
    gpt2_init(one, 2, &e);
    random_ids(&r, ids, B * T, V);
    random_ids(&r, targets, B * T, V);
    CHECK(gpt2_losses(m, ids, targets, B, T, all, &e) == 0, "a batch of 24 x 256 has losses");
    double worst = 0;
    for (int b = 0; b < B; b++) {
        gpt2_losses(one, ids + b * T, targets + b * T, 1, T, alone, &e);
        for (int t = 0; t < T; t++)
            if (!(fabs((double)alone[t] - all[b * T + t]) <= worst))
                worst = fabs((double)alone[t] - all[b * T + t]);
    }
    CHECK(worst <= 1e-6, "losses do not depend on the batch (off by %.2g)", worst);
    free(ids);
    free(targets);
    free(all);
    free(alone);
    gpt2_free(m);
    gpt2_free(one);
}

int main(void)
{
    struct err e = {0};
    if (backend_open(&cpu, "cpu", 0, 0, &e)) {
        printf("Bail out! %s\n", e.msg);
        return 1;
    }
    test_counts();
    test_init();
    test_gradients();
    test_accumulation();
    test_grain();
    test_update();
    test_refusals();
    test_decode();
    test_groups();
    backend_close(&cpu);
    return tap_done();
}
