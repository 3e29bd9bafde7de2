/* The models that assay exports, as other people's programs compute them: transformers the folder and
 * llama.cpp the GGUF. tests/golden/make_exported.py ran both on the very bytes that are written here
 * (their SHA-256 is part of what it kept), so the export and our own logits are held against them.
 *
 *   test_export_golden --keep DIR    only writes DIR/{tied,untied}{,.gguf}, for that script
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "eval/export.h"
#include "tests/tap.h"
#include "trainer/checkpoint_io.h"

enum { V = 1000, T = 24 };
#define VOCAB "tests/golden/tiny-gpt2/tokenizer.json"

static const struct model_config configs[] = {
    {.layers = 2,
     .heads = 2,
     .width = 16,
     .context = 32,
     .vocab = V,
     .inner = 64,
     .qkv_bias = true,
     .tied = true,
     .norm_eps = 1e-5},
    {.layers = 3,
     .heads = 4,
     .width = 24,
     .context = 40,
     .vocab = V,
     .inner = 40,
     .qkv_bias = false,
     .tied = false,
     .norm_eps = 1e-6},
};
static const char *const names[] = {"tied", "untied"};

/* Numbers of a plain congruential generator, exact in a float: the same weights everywhere. */
static void fill(const struct params *p, float *flat)
{
    uint32_t x = 1;
    for (int i = 0; i < p->n; i++) {
        bool norm = strstr(p->v[i].name, "ln_") && strstr(p->v[i].name, "weight");
        for (int64_t k = 0; k < p->v[i].count; k++) {
            x = x * 1664525 + 1013904223;
            float u = (float)(x >> 16) / 65536 - 0.5f;
            flat[p->v[i].at + k] = norm ? 1 + u / 2 : p->v[i].matrix ? u : u / 4;
        }
    }
}

/* dir/NAME and dir/NAME.gguf of model i. */
static int write_model(const char *dir, int i, struct arena *a, struct err *e)
{
    struct backend b;
    struct gpt2_use use = {.batch = 1, .length = 1};
    struct checkpoint_made made = {.by = "test"};
    const char *own = path_join(a, dir, arena_printf(a, "%s-own", names[i]));
    struct export_job hf = {own, VOCAB, path_join(a, dir, names[i]), EXPORT_HF};
    struct export_job gguf = {own, VOCAB, arena_printf(a, "%s.gguf", hf.out), EXPORT_GGUF};
    if (backend_open(&b, "cpu", 0, 1, e))
        return -1;
    struct gpt2 *m = gpt2_new(&b, &configs[i], &use, e);
    int rc = -1;
    if (m) {
        float *flat = mem_array((size_t)gpt2_params(m)->count, sizeof *flat);
        fill(gpt2_params(m), flat);
        rc = gpt2_put(m, 'w', flat, e) || checkpoint_save(own, m, V - 1, NULL, &made, e) ? -1 : 0;
        free(flat);
    }
    gpt2_free(m);
    backend_close(&b);
    if (rc == 0 && (export_model(&hf, a, e) || export_model(&gguf, a, e)))
        rc = -1;
    return rc;
}

static void check_bytes(const struct json *want, const char *key, const char *path)
{
    char hex[SHA256_HEX] = "";
    struct err e = {0};
    if (sha256_file(path, hex, &e))
        printf("# %s\n", e.msg);
    CHECK(str_eqz(json_str(json_get(want, key)), hex), "%s is what they read", path_base(path));
}

static int64_t ids_of(const struct json *list, int32_t *ids)
{
    for (size_t i = 0; i < json_size(list); i++)
        ids[i] = (int32_t)json_int(json_at(list, i), -1);
    return (int64_t)json_size(list);
}

/* Largest distance of our logits from transformers', at the ids that were kept. */
static double distance(struct gpt2 *m, const struct json *want, float *out, struct err *e)
{
    const struct json *inputs = json_get(want, "inputs"), *kept = json_get(want, "ids");
    double worst = 0;
    int32_t ids[T];
    for (size_t k = 0; k < json_size(inputs); k++) {
        const struct json *rows = json_at(json_get(want, "logits"), k);
        int64_t n = ids_of(json_at(inputs, k), ids);
        if (gpt2_logits(m, ids, 1, n, out, e) || (int64_t)json_size(rows) != n)
            return INFINITY;
        for (int64_t t = 0; t < n; t++)
            for (size_t c = 0; c < json_size(kept); c++) {
                double theirs = json_num(json_at(json_at(rows, (size_t)t), c));
                double off = fabs((double)out[t * V + json_int(json_at(kept, c), 0)] - theirs);
                worst = off <= worst ? worst : off; /* a NaN is one too */
            }
    }
    return worst;
}

/* Greedy continuations that differ from llama.cpp's; *compared: those of which it told all ids. */
static int differing(struct gpt2 *m, const struct json *want, float *out, int *compared,
                     struct err *e)
{
    const struct json *inputs = json_get(want, "inputs"), *greedy = json_get(want, "greedy");
    int32_t ids[64];
    int bad = 0;
    *compared = 0;
    for (size_t k = 0; k < json_size(greedy); k++) {
        const struct json *next = json_at(greedy, k);
        int64_t n = ids_of(json_at(inputs, k), ids);
        *compared += json_size(next) == 8;
        for (size_t s = 0; s < json_size(next); s++, n++) {
            int32_t best = 0;
            if (gpt2_logits(m, ids, 1, n, out, e))
                return -1;
            for (int32_t v = 1; v < V; v++)
                best = out[(n - 1) * V + v] > out[(n - 1) * V + best] ? v : best;
            ids[n] = (int32_t)json_int(json_at(next, s), -1);
            if (ids[n] != best) {
                bad++;
                break;
            }
        }
    }
    return bad;
}

static void test_model(int i, const struct json *all)
{
    struct arena a = {0};
    struct err e = {0};
    struct backend b;
    struct gpt2_use use = {.batch = 1, .length = configs[i].context};
    struct model_config c;
    const struct json *want = json_get(all, names[i]);
    const char *dir = path_join(&a, tap_tmp(), names[i]);
    float *out = mem_array((size_t)configs[i].context * V, sizeof *out);
    CHECK(!write_model(tap_tmp(), i, &a, &e), "%s: the model is made and exported %s", names[i],
          e.msg);
    check_bytes(want, "model_sha256", path_join(&a, dir, "model.safetensors"));
    check_bytes(want, "config_sha256", path_join(&a, dir, "config.json"));
    check_bytes(want, "gguf_sha256", arena_printf(&a, "%s.gguf", dir));
    bool ok = !backend_open(&b, "cpu", 0, 1, &e) && !gpt2_config_of(dir, &c, NULL, &e);
    struct gpt2 *m = ok ? gpt2_new(&b, &c, &use, &e) : NULL;
    ok = m && !gpt2_load(m, dir, &e);
    double off = ok ? distance(m, want, out, &e) : INFINITY;
    CHECK(off < 1e-5, "%s: transformers' logits of the export are ours (off by %.2g) %s", names[i],
          off, e.msg);
    int compared = 0, bad = ok ? differing(m, want, out, &compared, &e) : -1;
    CHECK(bad == 0 && compared >= 3,
          "%s: llama.cpp's 8 greedy tokens of the GGUF are ours (%d of %d differ)", names[i], bad,
          compared);
    gpt2_free(m);
    backend_close(&b);
    free(out);
    arena_release(&a);
}

int main(int argc, char **argv)
{
    struct arena a = {0};
    struct err e = {0};
    log_open("test", LOG_WARN); /* the folders do not say which vocabulary they were trained with */
    if (argc == 3 && strcmp(argv[1], "--keep") == 0) {
        int rc = 0;
        for (int i = 0; i < 2 && !rc; i++)
            rc = write_model(argv[2], i, &a, &e);
        if (rc)
            fprintf(stderr, "%s\n", e.msg);
        arena_release(&a);
        return rc ? 1 : 0;
    }
    struct json *all = json_read("tests/golden/exported.json", &e);
    CHECK(all != NULL, "the golden values are there: %s", e.msg);
    for (int i = 0; i < 2 && all; i++)
        test_model(i, all);
    json_free(all);
    file_remove_tree(tap_tmp(), &e);
    return tap_done();
}
