/* Checkpoint folders: what is written comes back, what others write loads, what does not fit is
 * named. */
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "formats/checkpoint.h"
#include "formats/manifest.h"
#include "tests/tap.h"
#include "trainer/checkpoint_io.h"
#include "trainer/gpt2.h"

static struct arena arena;
static struct backend cpu;

static char *at(const char *dir, const char *name)
{
    return path_join(&arena, dir, name);
}

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

static struct gpt2 *make(const struct model_config *c, bool train)
{
    struct err e = {0};
    struct gpt2_use use = {.batch = 1, .length = 4, .train = train};
    struct gpt2 *m = gpt2_new(&cpu, c, &use, &e);
    if (!m || gpt2_init(m, 3, &e)) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    return m;
}

static bool same_weights(struct gpt2 *a, struct gpt2 *b, char which)
{
    size_t n = (size_t)gpt2_params(a)->count;
    float *x = malloc(n * 4), *y = malloc(n * 4);
    struct err e = {0};
    bool same = gpt2_params(b)->count == (int64_t)n && gpt2_get(a, which, x, &e) == 0 &&
                gpt2_get(b, which, y, &e) == 0 && memcmp(x, y, n * 4) == 0;
    free(x);
    free(y);
    return same;
}

static void check_round(const char *name, struct model_config c)
{
    struct err e = {0};
    struct model_config back = {0};
    struct manifest_seen seen = {0};
    int64_t eos = 0;
    char *dir = at(tap_tmp(), name);
    struct gpt2 *m = make(&c, true), *other;
    struct checkpoint_made made = {.by = "test", .vocab_hash = STR_LIT("abc")};
    struct train_state s = {
        .step = 4, .tokens = 9, .config_key = STR_LIT("k"), .data_hash = STR_LIT("d")};
    size_t n = (size_t)gpt2_params(m)->count;
    float *v = malloc(n * 4);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)i;
    gpt2_put(m, 'm', v, &e);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)i * 0.5f;
    gpt2_put(m, 'v', v, &e);
    CHECK(checkpoint_save(dir, m, 10, &s, &made, &e) == 0, "%s: a checkpoint is written %s", name,
          e.msg);
    CHECK(gpt2_config_of(dir, &back, &eos, &e) == 0 && back.layers == c.layers &&
              back.qkv_bias == c.qkv_bias && back.tied == c.tied && back.vocab == c.vocab &&
              back.context == c.context && eos == 10,
          "%s: its config comes back %s", name, e.msg);
    other = make(&back, true);
    gpt2_init(other, 99, &e);
    CHECK(gpt2_load(other, dir, &e) == 0 && same_weights(m, other, 'w'),
          "%s: its weights come back, bit for bit %s", name, e.msg);
    CHECK(checkpoint_load_moments(dir, other, &e) == 0 && same_weights(m, other, 'm') &&
              same_weights(m, other, 'v'),
          "%s: its moments too %s", name, e.msg);
    CHECK(manifest_verify(dir, &seen, &e) == 0, "%s: its manifest holds the files' hashes", name);
    free(v);
    gpt2_free(m);
    gpt2_free(other);
}

/* A checkpoint file with changes: a tensor renamed, dropped, doubled, reshaped, retyped. */
struct change {
    const char *name;    /* tensor (bare name) */
    const char *as;      /* written under this name; NULL: left out */
    const char *twice;   /* and once more under this one */
    bool flat;           /* shape [count] */
    enum st_dtype dtype; /* of all tensors */
    bool bare;           /* all names without "transformer." */
    const char *extra;   /* one more tensor of `extra_n` values, `extra_value` each */
    int64_t extra_n;
    float extra_value;
};

static size_t encode(const float *v, int64_t n, enum st_dtype t, unsigned char *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &v[i], 4);
        if (t == ST_F32) {
            memcpy(out + i * 4, &u, 4);
            continue;
        }
        uint16_t h = (uint16_t)(u >> 16); /* bf16 by truncation */
        if (t == ST_F16) {
            int exp = (int)(u >> 23 & 255) - 112;
            h = (uint16_t)((u >> 16 & 0x8000) |
                           (exp <= 0 ? 0 : (uint32_t)exp << 10 | (u >> 13 & 0x3ff)));
        }
        memcpy(out + i * 2, &h, 2);
    }
    return (size_t)n * (t == ST_F32 ? 4 : 2);
}

static char *rewrite(struct gpt2 *m, const char *name, struct change k)
{
    const struct params *p = gpt2_params(m);
    struct err e = {0};
    char *dir = at(tap_tmp(), name);
    float *w = malloc((size_t)p->count * 4);
    unsigned char *raw = malloc((size_t)p->count * 4);
    gpt2_get(m, 'w', w, &e);
    file_mkdirs(dir, &e);
    hf_config_write(dir, gpt2_config(m), -1, &e);
    struct st_writer *o = safetensors_create(at(dir, "model.safetensors"), &e);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->n; i++) {
            const struct param *q = &p->v[i];
            bool it = k.name && strcmp(k.name, q->name) == 0;
            const char *full = arena_printf(&arena, "%s%s", k.bare ? "" : "transformer.", q->name);
            if (strcmp(q->name, "lm_head.weight") == 0)
                full = q->name;
            const char *as[2] = {it ? k.as : full, it ? k.twice : NULL};
            int64_t flat[1] = {q->count};
            for (int t = 0; t < 2; t++) {
                if (!as[t])
                    continue;
                if (!pass)
                    safetensors_declare(o, as[t], k.dtype, it && k.flat ? 1 : q->ndim,
                                        it && k.flat ? flat : q->dim);
                else
                    safetensors_put(o, raw, encode(w + q->at, q->count, k.dtype, raw), &e);
            }
        }
        if (k.extra && !pass)
            safetensors_declare(o, k.extra, ST_F32, 1, &k.extra_n);
        if (k.extra && pass) {
            float *v = malloc((size_t)k.extra_n * 4);
            for (int64_t i = 0; i < k.extra_n; i++)
                v[i] = k.extra_value;
            safetensors_put(o, v, (size_t)k.extra_n * 4, &e);
            free(v);
        }
    }
    if (safetensors_finish(o, &e))
        CHECK(false, "%s", e.msg);
    free(w);
    free(raw);
    return dir;
}

static void test_foreign(void)
{
    struct model_config c = tiny(), got;
    struct gpt2 *m = make(&c, false), *o = make(&c, false);
    struct err e = {0};
    gpt2_init(o, 5, &e);
    char *dir = rewrite(m, "bare", (struct change){.bare = true});
    CHECK(gpt2_load(o, dir, &e) == 0 && same_weights(m, o, 'w'),
          "names without \"transformer.\" load %s", e.msg);
    dir = rewrite(m, "mask", (struct change){.extra = "transformer.h.0.attn.bias", .extra_n = 36});
    CHECK(gpt2_load(o, dir, &e) == 0, "a causal mask buffer is left out %s", e.msg);
    dir = rewrite(
        m, "masked",
        (struct change){.extra = "h.1.attn.masked_bias", .extra_n = 1, .extra_value = -1e4f});
    CHECK(gpt2_load(o, dir, &e) == 0, "so is masked_bias %s", e.msg);
    static const struct {
        enum st_dtype t;
        const char *name;
        double tol;
    } types[] = {{ST_F16, "fp16", 1e-3}, {ST_BF16, "bf16", 8e-3}};
    for (size_t i = 0; i < 2; i++) {
        size_t n = (size_t)gpt2_params(m)->count;
        float *x = malloc(n * 4), *y = malloc(n * 4);
        double worst = 0;
        dir = rewrite(m, types[i].name, (struct change){.dtype = types[i].t});
        CHECK(gpt2_load(o, dir, &e) == 0, "%s weights load %s", types[i].name, e.msg);
        gpt2_get(m, 'w', x, &e);
        gpt2_get(o, 'w', y, &e);
        for (size_t k = 0; k < n; k++) {
            double off = fabs((double)x[k] - y[k]) / (fabs((double)x[k]) + 0.1);
            if (!(off <= worst))
                worst = off;
        }
        CHECK(worst < types[i].tol && worst > 0, "%s: within its rounding (%.2g)", types[i].name,
              worst);
        free(x);
        free(y);
    }
    /* Without any q/k/v bias the model has none. */
    c.qkv_bias = false;
    struct gpt2 *none = make(&c, false);
    dir = rewrite(none, "nobias", (struct change){0});
    CHECK(gpt2_config_of(dir, &got, NULL, &e) == 0 && !got.qkv_bias,
          "a file without any q/k/v bias is a model without it");
    CHECK(gpt2_load(none, dir, &e) == 0, "and loads %s", e.msg);
    c.qkv_bias = true;
    gpt2_free(m);
    gpt2_free(o);
    gpt2_free(none);
}

static void refuse(struct gpt2 *m, const char *name, struct change k, const char *text)
{
    struct err e = {0};
    char *dir = rewrite(m, name, k);
    CHECK(gpt2_load(m, dir, &e) == -1 && strstr(e.msg, text) && strstr(e.msg, "model.safetensors"),
          "%s: %s", name, e.msg);
}

static void test_refusals(void)
{
    struct model_config c = tiny();
    struct gpt2 *m = make(&c, false);
    struct err e = {0};
    refuse(m, "a missing tensor is named", (struct change){.name = "h.1.ln_2.bias"},
           "h.1.ln_2.bias is missing");
    refuse(m, "a doubled tensor is named",
           (struct change){
               .name = "wpe.weight", .as = "transformer.wpe.weight", .twice = "wpe.weight"},
           "wpe.weight is there twice");
    refuse(m, "a wrong shape is named with both",
           (struct change){.name = "h.0.mlp.c_fc.weight",
                           .as = "transformer.h.0.mlp.c_fc.weight",
                           .flat = true},
           "is [256], the config wants [8, 32]");
    refuse(m, "an unknown tensor is named", (struct change){.extra = "score.weight", .extra_n = 3},
           "score.weight is no tensor of a GPT-2");
    refuse(m, "a head that differs from the tied embedding is named",
           (struct change){.extra = "lm_head.weight", .extra_n = 88, .extra_value = 0.5f},
           "differs from wte.weight");
    refuse(m, "a layer too many is named", (struct change){.extra = "h.2.ln_1.bias", .extra_n = 8},
           "h.2.ln_1.bias is no tensor of a GPT-2 of 2 layers");
    CHECK(gpt2_load(m, at(tap_tmp(), "absent"), &e) == -1 && strstr(e.msg, "absent"),
          "a missing folder is named: %s", e.msg);
    char *dir = at(tap_tmp(), "cut");
    rewrite(m, "cut", (struct change){0});
    if (truncate(at(dir, "model.safetensors"), 500))
        CHECK(false, "truncate");
    CHECK(gpt2_load(m, dir, &e) == -1 && strstr(e.msg, "cut/model.safetensors"),
          "a truncated file is named: %s", e.msg);
    file_write_all(at(dir, "model.safetensors"), STR_LIT(""), &e);
    CHECK(gpt2_load(m, dir, &e) == -1, "an empty file is refused: %s", e.msg);
    file_write_all(at(dir, "config.json"), STR_LIT("{\"model_type\":\"gpt2\"}"), &e);
    struct model_config got;
    rewrite(m, "noconf", (struct change){0});
    file_write_all(at(at(tap_tmp(), "noconf"), "config.json"), STR_LIT("{}"), &e);
    CHECK(gpt2_config_of(at(tap_tmp(), "noconf"), &got, NULL, &e) == -1 &&
              strstr(e.msg, "config.json"),
          "a config without a shape is refused: %s", e.msg);
    gpt2_free(m);
}

static void test_not_finite(void)
{
    struct model_config c = tiny();
    struct gpt2 *m = make(&c, false);
    struct err e = {0};
    size_t n = (size_t)gpt2_params(m)->count;
    float *w = malloc(n * 4);
    struct checkpoint_made made = {.by = "test"};
    char *dir = at(tap_tmp(), "nan");
    gpt2_get(m, 'w', w, &e);
    w[11 * 8 + 2] = INFINITY;
    gpt2_put(m, 'w', w, &e);
    CHECK(checkpoint_save(dir, m, -1, NULL, &made, &e) == -1 && strstr(e.msg, "wpe.weight"),
          "weights that are not finite are never written: %s", e.msg);
    CHECK(!file_exists(dir) && !file_exists(at(tap_tmp(), ".nan.tmp")), "not even half");
    free(w);
    gpt2_free(m);
}

int main(void)
{
    struct err e = {0};
    if (backend_open(&cpu, "cpu", 0, 0, &e)) {
        printf("Bail out! %s\n", e.msg);
        return 1;
    }
    struct model_config c = tiny();
    check_round("tied", c);
    c.tied = false;
    check_round("untied", c);
    c.qkv_bias = false;
    check_round("no q/k/v bias", c);
    c.inner = 20;
    c.dropout = 0.1;
    check_round("inner 20, dropout", c);
    test_foreign();
    test_refusals();
    test_not_finite();
    backend_close(&cpu);
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
