/* test_padding: sequences of unequal length in one pass. What stands behind a sequence's own end
 * decides no bit of it, and a NaN in a row of a table that the sequence does not read never reaches
 * it: losses, spans, prefill and the steps behind it, in every precision of the backend.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"
#include "trainer/gpt2.h"

enum { B = 5, T = 48, V = 61, STEPS = 3 };

static const int32_t len[B] = {1, 7, 31, 33, T - STEPS};

/* Everything that a model says about the five sequences. */
struct said {
    float loss[B * T], span[B * V], prefill[B * V], step[STEPS][B * V];
};

struct padded {
    struct backend b;
    struct gpt2 *m;
    float *flat; /* weights */
    int64_t count;
    int32_t ids[B * T], rest[B][STEPS];
};

static void open_padded(struct padded *p, const char *backend, int precision)
{
    const struct model_config c = {.layers = 2,
                                   .heads = 2,
                                   .width = 32,
                                   .context = T,
                                   .vocab = V,
                                   .qkv_bias = true,
                                   .tied = false,
                                   .norm_eps = 1e-5,
                                   .init_std = 0.3};
    struct gpt2_use use = {.batch = B, .length = T, .decode = true, .precision = precision};
    struct err e = {0};
    struct rng r = rng_make(1, "padding", 0);
    if (backend_open(&p->b, backend, 0, 1, &e) || !(p->m = gpt2_new(&p->b, &c, &use, &e)) ||
        gpt2_init(p->m, 3, &e)) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    p->count = gpt2_params(p->m)->count;
    p->flat = mem_array((size_t)p->count, sizeof *p->flat);
    gpt2_get(p->m, 'w', p->flat, &e);
    for (int i = 0; i < B * T; i++) /* ids 0 to 9 are nobody's */
        p->ids[i] = 10 + (int32_t)rng_below(&r, V - 10);
    for (int i = 0; i < B * STEPS; i++)
        p->rest[i / STEPS][i % STEPS] = 10 + (int32_t)rng_below(&r, V - 10);
}

static void close_padded(struct padded *p)
{
    free(p->flat);
    gpt2_free(p->m);
    backend_close(&p->b);
}

/* A row of a table becomes NaN; rows < 0: none. */
static void put(struct padded *p, const char *table, int row)
{
    const struct params *t = gpt2_params(p->m);
    float *flat = mem_array((size_t)p->count, sizeof *flat);
    struct err e = {0};
    memcpy(flat, p->flat, (size_t)p->count * sizeof *flat);
    for (int i = 0; i < t->n && row >= 0; i++)
        for (int64_t c = 0; strcmp(t->v[i].name, table) == 0 && c < t->v[i].dim[1]; c++)
            flat[t->v[i].at + row * t->v[i].dim[1] + c] = NAN;
    gpt2_put(p->m, 'w', flat, &e);
    free(flat);
}

static int take(void *ctx, int64_t b, int64_t pos, const float *logits, struct err *e)
{
    (void)e;
    if (pos == len[b] - 1)
        memcpy((float *)ctx + b * V, logits, V * sizeof *logits);
    return 0;
}

/* fill: the id that stands behind a sequence's end. */
static bool ask(struct padded *p, int32_t fill, struct said *s)
{
    int32_t ids[B * T], targets[B * T], next[B], pos[B];
    struct gpt2_span span[B];
    struct err e = {0};
    for (int i = 0; i < B * T; i++) {
        bool inside = i % T < len[i / T];
        ids[i] = inside ? p->ids[i] : fill;
        targets[i] = inside ? (p->ids[i] * 7 + 3) % V : -1;
    }
    for (int b = 0; b < B; b++)
        span[b] = (struct gpt2_span){len[b] > 2 ? len[b] - 3 : 0, len[b] > 2 ? 3 : 1};
    bool ok = !gpt2_losses(p->m, ids, targets, B, T, s->loss, &e) &&
              !gpt2_spans(p->m, ids, B, T, span, take, s->span, &e) &&
              !gpt2_prefill(p->m, ids, len, B, T, s->prefill, &e);
    for (int k = 0; k < STEPS && ok; k++) {
        for (int b = 0; b < B; b++) {
            next[b] = p->rest[b][k];
            pos[b] = len[b] + k;
        }
        ok = !gpt2_step(p->m, next, pos, B, s->step[k], &e);
    }
    if (!ok)
        printf("# %s\n", e.msg);
    return ok;
}

/* Whether sequence b has the same bits in both, with its steps up to `steps`. */
static bool same(const struct said *x, const struct said *y, int b, int steps)
{
    bool ok = memcmp(x->loss + b * T, y->loss + b * T, (size_t)len[b] * sizeof *x->loss) == 0;
    ok = ok && memcmp(x->span + b * V, y->span + b * V, V * sizeof *x->span) == 0;
    ok = ok && memcmp(x->prefill + b * V, y->prefill + b * V, V * sizeof *x->prefill) == 0;
    for (int k = 0; k < steps && ok; k++)
        ok = memcmp(x->step[k] + b * V, y->step[k] + b * V, V * sizeof *x->span) == 0;
    return ok;
}

static bool finite_row(const float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

static void test_precision(const char *backend, int precision)
{
    struct padded p;
    static struct said clean, other;
    const char *name = precision_names[precision];
    open_padded(&p, backend, precision);
    put(&p, "", -1);
    bool ok = ask(&p, 0, &clean), all = true;
    for (int b = 0; b < B; b++)
        ok = ok && finite_row(clean.loss + b * T, len[b]) && finite_row(clean.step[2] + b * V, V);
    CHECK(ok, "%s: five sequences of 1 to %d ids", name, T - STEPS);
    ok = ask(&p, 9, &other);
    for (int b = 0; b < B; b++)
        all = all && same(&clean, &other, b, STEPS);
    CHECK(ok && all, "%s: what stands behind a sequence's end decides no bit", name);

    put(&p, "wte.weight", 9); /* the id that pads */
    ok = ask(&p, 9, &other);
    for (int b = 0; b < B; b++)
        all = all && same(&clean, &other, b, STEPS);
    CHECK(ok && all, "%s: nor does a NaN in that id's embedding", name);

    static const int rows[] = {T - 1, 40, 35, 20, 7, 2};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(&p, "wpe.weight", rows[i]);
        ok = ask(&p, 0, &other);
        for (int b = 0; b < B; b++) {
            int clear = rows[i] - len[b]; /* steps before that position */
            if (clear >= 0)
                CHECK(ok && same(&clean, &other, b, clear < STEPS ? clear : STEPS),
                      "%s: a NaN in position %d's embedding changes no bit of %d ids", name,
                      rows[i], len[b]);
            else
                CHECK(ok && !finite_row(other.loss + b * T, len[b]) &&
                          !finite_row(other.prefill + b * V, V),
                      "%s: and is seen by %d ids, which read it", name, len[b]);
        }
    }
    close_padded(&p);
}

int main(int argc, char **argv)
{
    const char *backend = rig_backend(argc, argv);
    struct backend b;
    struct err e = {0};
    for (int precision = PRECISION_FP32; precision <= PRECISION_FP16; precision++) {
        bool has =
            backend_open(&b, backend, 0, 1, &e) == 0 && gpt2_precision(&b, precision, &e) == 0;
        backend_close(&b);
        if (has)
            test_precision(backend, precision);
        else
            printf("# not on %s: %s\n", backend, precision_names[precision]);
    }
    return tap_done();
}
