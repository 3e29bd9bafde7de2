/* Golden values: logits, greedy ids and ten AdamW steps of tiny-random-gpt2, every intermediate tensor
 * of gpt-nano-sort, computed by other people's programs (or by numpy in double precision). */
#include <stdint.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/tap.h"
#include "trainer/gpt2.h"

static struct backend cpu;

/* ---- golden: tiny-random-gpt2 ---- */

static struct gpt2 *load(const char *dir, struct gpt2_use use)
{
    struct model_config c;
    struct err e = {0};
    int64_t eos;
    if (gpt2_config_of(dir, &c, &eos, &e)) {
        CHECK(false, "%s", e.msg);
        return NULL;
    }
    if (!use.length)
        use.length = c.context;
    struct gpt2 *m = gpt2_new(&cpu, &c, &use, &e);
    if (!m || gpt2_load(m, dir, &e)) {
        CHECK(false, "%s", e.msg);
        gpt2_free(m);
        return NULL;
    }
    return m;
}

static int64_t ids_of(const struct json *list, int32_t *ids)
{
    int64_t n = (int64_t)json_size(list);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_int(json_at(list, (size_t)i), -1);
    return n;
}

static void golden_logits(struct gpt2 *m, const struct json *x)
{
    enum { V = 1000 };
    static int32_t ids[8 * 512];
    const struct json *pub = json_get(x, "published"), *list = json_get(x, "logits");
    static float out[8 * 512 * V];
    struct err e = {0};
    double worst = 0;
    for (size_t b = 0; b < 2; b++)
        ids_of(json_at(json_get(pub, "input_ids"), b), ids + b * 4);
    gpt2_logits(m, ids, 2, 4, out, &e);
    const struct json *want = json_get(pub, "every_200th_logit_flat");
    for (size_t i = 0; i < json_size(want); i++) {
        double off = fabs(out[i * 200] - json_num(json_at(want, i)));
        if (!(off <= worst))
            worst = off;
    }
    CHECK(json_size(want) == 40 && worst < 1e-5,
          "tiny-random-gpt2: the 40 published logits (off by %.2g)", worst);
    for (size_t k = 0; k < json_size(list); k++) {
        const struct json *one = json_at(list, k), *rows = json_get(one, "input_ids");
        int64_t B = (int64_t)json_size(rows), T = 0;
        for (int64_t b = 0; b < B; b++)
            T = ids_of(json_at(rows, (size_t)b), ids + b * T);
        worst = 0;
        if (gpt2_logits(m, ids, B, T, out, &e))
            CHECK(false, "%s", e.msg);
        for (int64_t b = 0; b < B; b++) {
            const struct json *l = json_at(json_get(one, "last_logits_first32"), (size_t)b);
            for (size_t v = 0; v < 32; v++) {
                double off =
                    fabs(out[((b + 1) * T - 1) * V + (int64_t)v] - json_num(json_at(l, v)));
                if (!(off <= worst))
                    worst = off;
            }
            const struct json *arg = json_at(json_get(one, "argmax_per_position"), (size_t)b);
            for (int64_t t = 0; t < T; t++) {
                const float *row = out + (b * T + t) * V;
                int64_t best = 0;
                for (int64_t v = 1; v < V; v++)
                    best = row[v] > row[best] ? v : best;
                if (best != json_int(json_at(arg, (size_t)t), -1))
                    worst = INFINITY;
            }
        }
        CHECK(worst < 1e-5, "tiny-random-gpt2: logits and argmax of %lld x %lld ids (off by %.2g)",
              (long long)B, (long long)T, worst);
    }
}

static void golden_greedy(struct gpt2 *m, const struct json *x)
{
    enum { V = 1000 };
    const struct json *list = json_get(x, "greedy");
    static float out[V];
    struct err e = {0};
    for (size_t k = 0; k < json_size(list); k++) {
        int32_t ids[64], want[64], pos, len;
        int64_t n = ids_of(json_get(json_at(list, k), "prompt"), ids), same = 0;
        int64_t w = ids_of(json_get(json_at(list, k), "greedy"), want);
        len = (int32_t)n;
        gpt2_prefill(m, ids, &len, 1, n, out, &e);
        for (int64_t i = 0; i < w; i++) {
            int32_t best = 0;
            for (int32_t v = 1; v < V; v++)
                best = out[v] > out[best] ? v : best;
            same += best == want[i];
            pos = len++;
            if (gpt2_step(m, &best, &pos, 1, out, &e))
                CHECK(false, "%s", e.msg);
        }
        CHECK_INT(same, w, "tiny-random-gpt2: greedy ids behind a prompt of %lld", (long long)n);
    }
}

/* Ten steps of AdamW that numpy computed in double precision. */
static void golden_train(const char *dir, const struct json *x)
{
    const struct json *t = json_get(x, "train"), *batches = json_get(t, "batches");
    const struct json *losses = json_get(t, "loss_before_each_step");
    const struct json *norms = json_get(t, "grad_norm_before_clip");
    enum { T = 16 };
    int64_t B = (int64_t)json_size(json_at(batches, 0));
    struct gpt2 *m = load(dir, (struct gpt2_use){.batch = B, .length = T, .train = true});
    if (!m)
        return;
    const struct params *p = gpt2_params(m);
    float *g = malloc((size_t)p->count * 4), loss[8 * T];
    double worst_loss = 0, worst_norm = 0, worst_grad = 0, worst_w = 0;
    struct err e = {0};
    for (size_t s = 0; s < json_size(batches); s++) {
        int32_t ids[8 * T], targets[8 * T], row[T + 1];
        uint64_t seq[8] = {0};
        double sum = 0, norm;
        for (int64_t b = 0; b < B; b++) {
            ids_of(json_at(json_at(batches, s), (size_t)b), row);
            memcpy(ids + b * T, row, T * 4);
            memcpy(targets + b * T, row + 1, T * 4);
        }
        gpt2_zero_grad(m);
        struct gpt2_batch batch = {ids, targets, seq, B, T, B * T, 1, s + 1, 0, false};
        gpt2_grad(m, &batch, loss, &e);
        for (int64_t i = 0; i < B * T; i++)
            sum += loss[i];
        if (s == 0) {
            gpt2_get(m, 'g', g, &e);
            for (int i = 0; i < p->n; i++) {
                char name[80];
                snprintf(name, sizeof name, "transformer.%s", p->v[i].name);
                const struct json *want = json_get(json_get(t, "grad_step0"), name);
                double l2 = 0, ref = json_num(json_get(want, "l2"));
                for (int64_t k = 0; k < p->v[i].count; k++)
                    l2 += (double)g[p->v[i].at + k] * g[p->v[i].at + k];
                double off = fabs(sqrt(l2) - ref) / ref;
                for (size_t k = 0; k < 4; k++) {
                    double d = fabs(g[p->v[i].at + (int64_t)k] -
                                    json_num(json_at(json_get(want, "first4"), k))) /
                               ref;
                    off = d > off ? d : off;
                }
                if (!(off <= worst_grad))
                    worst_grad = off;
            }
        }
        struct gpt2_update u = {.lr = json_num(json_get(t, "lr")),
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .eps = 1e-8,
                                .weight_decay = 0.1,
                                .clip = 1,
                                .decay = DECAY_MATRICES,
                                .step = (int64_t)s + 1};
        gpt2_update(m, &u, &norm, &e);
        double want = json_num(json_at(losses, s)), nwant = json_num(json_at(norms, s));
        double off = fabs(sum / (double)(B * T) - want) / want, noff = fabs(norm - nwant) / nwant;
        worst_loss = !(off <= worst_loss) ? off : worst_loss;
        worst_norm = !(noff <= worst_norm) ? noff : worst_norm;
    }
    gpt2_get(m, 'w', g, &e);
    for (int i = 0; i < p->n; i++) {
        char name[80];
        double l2 = 0;
        snprintf(name, sizeof name, "transformer.%s", p->v[i].name);
        double ref = json_num(json_get(json_get(t, "param_l2_after"), name));
        for (int64_t k = 0; k < p->v[i].count; k++)
            l2 += (double)g[p->v[i].at + k] * g[p->v[i].at + k];
        double off = fabs(sqrt(l2) - ref) / ref;
        worst_w = !(off <= worst_w) ? off : worst_w;
    }
    CHECK(json_size(batches) == 10 && worst_loss < 1e-4,
          "golden AdamW run: the loss of all 10 steps (off by %.2g, relative)", worst_loss);
    CHECK(worst_norm < 1e-4, "golden AdamW run: the gradient's norm (off by %.2g)", worst_norm);
    CHECK(worst_grad < 1e-4, "golden AdamW run: every tensor's first gradient (off by %.2g)",
          worst_grad);
    CHECK(worst_w < 1e-4, "golden AdamW run: every tensor's norm at the end (off by %.2g)",
          worst_w);
    free(g);
    gpt2_free(m);
}

static void test_tiny_random(void)
{
    const char *dir = tap_data("model/tiny-random-gpt2");
    if (!dir) {
        SKIP("model/tiny-random-gpt2");
        return;
    }
    struct err e = {0};
    struct arena a = {0};
    struct json *x = json_read(path_join(&a, dir, "expected.json"), &e);
    struct gpt2 *m = load(dir, (struct gpt2_use){.batch = 3, .decode = true});
    if (CHECK(x && m, "tiny-random-gpt2 loads as it is %s", e.msg)) {
        golden_logits(m, x);
        golden_greedy(m, x);
        golden_train(dir, x);
    }
    gpt2_free(m);
    json_free(x);
    arena_release(&a);
}

/* ---- golden: gpt-nano-sort ---- */

static int64_t base64(struct str s, unsigned char *out)
{
    uint32_t word = 0;
    int bits = 0;
    int64_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        int v = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;
        if (v < 0)
            continue;
        word = word << 6 | (uint32_t)v;
        if ((bits += 6) >= 8)
            out[n++] = (unsigned char)(word >> (bits -= 8));
    }
    return n;
}

struct partials {
    const struct json *all;
    int seen;
    double worst;
    char where[64];
};

/* Our names and theirs. */
static void compare_partial(void *ctx, const char *name, const struct tensor *t)
{
    static const char *const names[][2] = {
        {"embed", "x"},        {"h.0.ln_1", "ln1"},      {"h.0.qkv", "qkv"},    {"h.0.att", "y"},
        {"h.0.proj", "yProj"}, {"h.0.mid", "attnResid"}, {"h.0.ln_2", "ln2"},   {"h.0.pre", "fc"},
        {"h.0.act", "gelu"},   {"h.0.mlp", "mlp"},       {"h.1.x", "block0"},   {"h.2.x", "block1"},
        {"out", "block2"},     {"ln_f", "ln_f"},         {"logits", "lm_head"},
    };
    static float want[8192];
    struct partials *p = ctx;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], name) != 0)
            continue;
        int64_t n = 1, got = base64(json_str(json_get(json_get(p->all, names[i][1]), "data")),
                                    (unsigned char *)want);
        for (int k = 0; k < t->ndim; k++)
            n *= t->dim[k];
        if (got != n * 4) {
            p->worst = INFINITY;
            snprintf(p->where, sizeof p->where, "%s has %lld bytes", name, (long long)got);
            return;
        }
        const float *have = t->data; /* the CPU's memory is ours */
        for (int64_t k = 0; k < n; k++) {
            double off = fabs((double)have[k] - want[k]);
            if (!(off <= p->worst)) {
                p->worst = off;
                snprintf(p->where, sizeof p->where, "%s", name);
            }
        }
        p->seen++;
    }
}

static void nano_sorts(struct gpt2 *m, const struct json *x)
{
    const struct json *cases = json_get(x, "cases");
    int right = 0;
    struct err e = {0};
    for (size_t k = 0; k < json_size(cases); k++) {
        int32_t all[12], ids[12], len = 6, pos;
        float out[3];
        bool same = true;
        ids_of(json_at(cases, k), all);
        memcpy(ids, all, sizeof ids);
        gpt2_prefill(m, ids, &len, 1, 6, out, &e);
        for (int t = 6; t < 12; t++) {
            int32_t best = out[1] > out[0] ? 1 : 0;
            best = out[2] > out[best] ? 2 : best;
            same = same && best == all[t];
            pos = t;
            if (t < 11 && gpt2_step(m, &best, &pos, 1, out, &e))
                CHECK(false, "%s", e.msg);
        }
        right += same;
    }
    CHECK_INT(right, 50, "gpt-nano-sort sorts all 50");
}

static void test_nano_sort(void)
{
    const char *dir = tap_data("model/gpt-nano-sort");
    if (!dir) {
        SKIP("model/gpt-nano-sort");
        return;
    }
    struct err e = {0};
    struct arena a = {0};
    struct json *x = json_read(path_join(&a, dir, "gpt-nano-sort-t0-partials.json"), &e);
    struct json *s = json_read(path_join(&a, dir, "expected_sort.json"), &e);
    struct gpt2 *m = load(dir, (struct gpt2_use){.batch = 3, .decode = true});
    if (CHECK(x && s && m, "gpt-nano-sort loads %s", e.msg)) {
        struct partials p = {.all = x};
        static float raw[64], out[64 * 3];
        int32_t ids[33];
        int64_t n = base64(json_str(json_get(json_get(x, "idx"), "data")), (unsigned char *)raw);
        for (int64_t i = 0; i < 33; i++)
            ids[i] = (int32_t)raw[i];
        gpt2_watch(m, compare_partial, &p);
        CHECK(n == 132 && gpt2_logits(m, ids, 3, 11, out, &e) == 0, "three inputs run");
        gpt2_watch(m, NULL, NULL);
        CHECK_INT(p.seen, 15, "gpt-nano-sort: 15 intermediate tensors were compared");
        CHECK(p.worst < 1e-4, "gpt-nano-sort: all of them agree (off by %.2g at %s)", p.worst,
              p.where);
        nano_sorts(m, s);
    }
    gpt2_free(m);
    json_free(x);
    json_free(s);
    arena_release(&a);
}

int main(void)
{
    struct err e = {0};
    if (backend_open(&cpu, "cpu", 0, 0, &e)) {
        printf("Bail out! %s\n", e.msg);
        return 1;
    }
    test_tiny_random();
    test_nano_sort();
    backend_close(&cpu);
    return tap_done();
}
