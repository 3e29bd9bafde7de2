/* test_weights: the same small model in everybody's layout gives the same bits, and what does not fit
 * is named. Files that other programs wrote are compared by tests/parity/checkpoints.py.
 */
#include <math.h>

#include "base/file.h"
#include "formats/checkpoint.h"
#include "formats/llmc.h"
#include "tests/tap.h"
#include "trainer/checkpoint_io.h"
#include "trainer/weights.h"

enum { L = 2, NH = 2, C = 8, V = 13, T = 6, VP = 16 };

static struct backend b;
static struct gpt2 *model;
static float *flat;
static struct arena arena;

static const struct param *at(const char *name)
{
    const struct params *p = gpt2_params(model);
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return &p->v[i];
    return NULL;
}

static const char *block(int l, const char *name)
{
    return arena_printf(&arena, "h.%d.%s", l, name);
}

/* [in, out] -> [out, in] of columns [from, from + n). */
static float *turned(const struct param *p, int64_t from, int64_t n)
{
    float *v = arena_array(&arena, (size_t)(p->dim[0] * n), sizeof *v);
    for (int64_t o = 0; o < n; o++)
        for (int64_t i = 0; i < p->dim[0]; i++)
            v[o * p->dim[0] + i] = flat[p->at + i * p->dim[1] + from + o];
    return v;
}

/* Does the checkpoint at path give our weights, and our config? */
static bool same(const char *path, struct err *e)
{
    struct model_config c;
    int64_t eos;
    if (gpt2_config_of(path, &c, &eos, e))
        return false;
    struct gpt2_use use = {.batch = 1, .length = T};
    struct gpt2 *m = gpt2_new(&b, &c, &use, e);
    float *v = mem_array((size_t)gpt2_params(model)->count, sizeof *v);
    bool ok = m && gpt2_params(m)->count == gpt2_params(model)->count &&
              gpt2_load(m, path, e) == 0 && gpt2_get(m, 'w', v, e) == 0 &&
              !memcmp(v, flat, (size_t)gpt2_params(m)->count * sizeof *v);
    free(v);
    gpt2_free(m);
    return ok && c.layers == L && c.heads == NH && c.context == T && c.vocab == V;
}

/* ---- llm.c ---------------------------------------------------------------------------------- */

static struct buf llmc_bytes(void)
{
    static const char *const names[] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
    int32_t head[256] = {20240326, 3, T, V, L, NH, C, VP};
    float padding[(VP - V) * C] = {0};
    struct buf f = {0};
    buf_add(&f, head, sizeof head);
    buf_add(&f, flat + at("wte.weight")->at, V * C * sizeof(float));
    buf_add(&f, padding, sizeof padding);
    buf_add(&f, flat + at("wpe.weight")->at, T * C * sizeof(float));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int l = 0; l < L; l++) {
            const struct param *p = at(block(l, names[k]));
            buf_add(&f, p->ndim == 2 ? turned(p, 0, p->dim[1]) : flat + p->at,
                    (size_t)p->count * sizeof(float));
        }
    buf_add(&f, flat + at("ln_f.weight")->at, C * sizeof(float));
    buf_add(&f, flat + at("ln_f.bias")->at, C * sizeof(float));
    return f;
}

static void test_llmc(void)
{
    struct err e = {0};
    struct llmc_model m;
    struct buf f = llmc_bytes();
    const char *path = path_join(&arena, tap_tmp(), "model.bin");
    CHECK_INT(file_write_all(path, buf_str(&f), &e), 0, "a model file of llm.c");
    CHECK(llmc_is_model(path) && !llmc_is_model(tap_tmp()) && !llmc_is_model("nowhere"),
          "is told by its magic");
    CHECK(same(path, &e), "gives the same bits %s", e.msg);
    const struct {
        int at;
        int32_t value;
        const char *what;
    } bad[] = {{0, 20240520, "magic"},
               {1, 4, "version 4"},
               {2, 0, "positions 0"},
               {4, -1, "layers -1"},
               {5, 3, "3 heads do not divide"},
               {7, 12, "12 rows of embedding"},
               {6, 16, "its header wants"},
               {4, 1024, "its header wants"},
               {3, 14, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf g = {0};
        buf_adds(&g, buf_str(&f));
        memcpy(g.p + 4 * bad[i].at, &bad[i].value, 4);
        e = (struct err){0};
        file_write_all(path, buf_str(&g), &e);
        int rc = llmc_model_open(&m, path, &e);
        CHECK(bad[i].what ? rc == -1 && strstr(e.msg, bad[i].what) : rc == 0, "%d at %d: %s",
              bad[i].value, bad[i].at, e.msg);
        llmc_model_close(&m);
        buf_release(&g);
    }
    for (size_t cut = 0; cut < f.n; cut += f.n / 7) {
        file_write_all(path, (struct str){f.p, cut}, &e);
        CHECK(llmc_model_open(&m, path, &e) == -1, "cut at %zu: %s", cut, e.msg);
    }
    buf_release(&f);
}

/* ---- LLMs-from-scratch ---------------------------------------------------------------------- */

struct put {
    struct st_writer *w;
    const float *data[64];
    size_t bytes[64];
    int n;
};

static void add(struct put *p, const char *name, int ndim, int64_t rows, int64_t cols,
                const float *data)
{
    int64_t dim[2] = {rows, cols};
    safetensors_declare(p->w, name, ST_F32, ndim, dim);
    p->data[p->n] = data;
    p->bytes[p->n++] = (size_t)(rows * (ndim == 2 ? cols : 1)) * sizeof(float);
}

/* leave_out: name of a tensor that is not written; twice: one that is written under a second name. */
static const char *scratch(const char *name, const char *leave_out, bool twice, struct err *e)
{
    static const char *const parts[] = {"query", "key", "value"};
    static const struct {
        const char *theirs, *ours;
    } linear[] = {{"att.out_proj", "attn.c_proj"},
                  {"ff.layers.0", "mlp.c_fc"},
                  {"ff.layers.2", "mlp.c_proj"}},
      norms[] = {{"norm1", "ln_1"}, {"norm2", "ln_2"}};
    const char *dir = path_join(&arena, tap_tmp(), name);
    struct put p = {0};
    file_mkdirs(dir, e);
    p.w = safetensors_create(path_join(&arena, dir, "model.safetensors"), e);
    add(&p, "_orig_mod.tok_emb.weight", 2, V, C, flat + at("wte.weight")->at);
    add(&p, "pos_emb.weight", 2, T, C, flat + at("wpe.weight")->at);
    for (int l = 0; l < L; l++) {
        const struct param *q = at(block(l, "attn.c_attn.weight"));
        const struct param *qb = at(block(l, "attn.c_attn.bias"));
        for (int k = 0; k < 3; k++) {
            const char *w = arena_printf(&arena, "trf_blocks.%d.att.W_%s.weight", l, parts[k]);
            if (!leave_out || strcmp(w, leave_out) != 0)
                add(&p, w, 2, C, C, turned(q, k * C, C));
            add(&p, arena_printf(&arena, "trf_blocks.%d.att.W_%s.bias", l, parts[k]), 1, C, 0,
                flat + qb->at + k * C);
        }
        for (int k = 0; k < 3; k++) {
            const struct param *w = at(block(l, arena_printf(&arena, "%s.weight", linear[k].ours)));
            const struct param *s = at(block(l, arena_printf(&arena, "%s.bias", linear[k].ours)));
            add(&p, arena_printf(&arena, "trf_blocks.%d.%s.weight", l, linear[k].theirs), 2,
                w->dim[1], w->dim[0], turned(w, 0, w->dim[1]));
            add(&p, arena_printf(&arena, "trf_blocks.%d.%s.bias", l, linear[k].theirs), 1,
                s->dim[0], 0, flat + s->at);
        }
        for (int k = 0; k < 2; k++) {
            add(&p, arena_printf(&arena, "trf_blocks.%d.%s.scale", l, norms[k].theirs), 1, C, 0,
                flat + at(block(l, arena_printf(&arena, "%s.weight", norms[k].ours)))->at);
            add(&p, arena_printf(&arena, "trf_blocks.%d.%s.shift", l, norms[k].theirs), 1, C, 0,
                flat + at(block(l, arena_printf(&arena, "%s.bias", norms[k].ours)))->at);
        }
    }
    add(&p, "final_norm.scale", 1, C, 0, flat + at("ln_f.weight")->at);
    add(&p, "final_norm.shift", 1, C, 0, flat + at("ln_f.bias")->at);
    if (twice)
        add(&p, "module.final_norm.shift", 1, C, 0, flat + at("ln_f.bias")->at);
    for (int i = 0; i < p.n; i++)
        safetensors_put(p.w, p.data[i], p.bytes[i], e);
    safetensors_finish(p.w, e);
    file_write_all(
        path_join(&arena, dir, "model.json"),
        STR_LIT("{\"vocab_size\": 13, \"context_length\": 6, \"emb_dim\": 8, \"n_heads\": 2,"
                " \"n_layers\": 2, \"drop_rate\": 0.1, \"qkv_bias\": true}"),
        e);
    return dir;
}

static void test_scratch(void)
{
    struct err e = {0};
    CHECK(same(scratch("scratch", NULL, false, &e), &e),
          "q, k and v apart, [out, in], other names: the same bits %s", e.msg);
    CHECK(!same(scratch("part", "trf_blocks.1.att.W_key.weight", false, &e), &e) &&
              strstr(e.msg, "a part of h.1.attn.c_attn.weight is missing"),
          "a missing part is named: %s", e.msg);
    CHECK(!same(scratch("twice", NULL, true, &e), &e) && strstr(e.msg, "is there twice"),
          "a doubled one, too: %s", e.msg);
}

/* ---- shards --------------------------------------------------------------------------------- */

static int one_file(const char *dir, const char *file, int from, int to, struct err *e)
{
    const struct params *p = gpt2_params(model);
    struct st_writer *w = safetensors_create(path_join(&arena, dir, file), e);
    for (int i = from; i < to; i++)
        safetensors_declare(w, arena_printf(&arena, "transformer.%s", p->v[i].name), ST_F32,
                            p->v[i].ndim, p->v[i].dim);
    for (int i = from; i < to; i++)
        safetensors_put(w, flat + p->v[i].at, (size_t)p->v[i].count * sizeof(float), e);
    return safetensors_finish(w, e);
}

static void index_of(const char *dir, int split, const char *second, const char *extra,
                     struct err *e)
{
    const struct params *p = gpt2_params(model);
    struct buf t = {0};
    buf_addz(&t, "{\"weight_map\": {");
    for (int i = 0; i < p->n; i++)
        buf_printf(&t, "%s\"transformer.%s\": \"%s\"", i ? ", " : "", p->v[i].name,
                   i < split ? "a.safetensors" : second);
    buf_printf(&t, "%s}}", extra);
    file_write_all(path_join(&arena, dir, "model.safetensors.index.json"), buf_str(&t), e);
    buf_release(&t);
}

static void test_shards(void)
{
    struct err e = {0};
    const char *dir = path_join(&arena, tap_tmp(), "shards");
    int n = gpt2_params(model)->n, half = n / 2;
    file_mkdirs(dir, &e);
    hf_config_write(dir, gpt2_config(model), -1, &e);
    CHECK(!one_file(dir, "a.safetensors", 0, half, &e) &&
              !one_file(dir, "b.safetensors", half, n, &e),
          "two files %s", e.msg);
    index_of(dir, half, "b.safetensors", "", &e);
    CHECK(same(dir, &e), "several files by an index: the same bits %s", e.msg);
    index_of(dir, half, "a.safetensors", "", &e);
    CHECK(!same(dir, &e) && strstr(e.msg, "is not in a.safetensors"), "a wrong place: %s", e.msg);
    index_of(dir, half, "../b.safetensors", "", &e);
    CHECK(!same(dir, &e) && strstr(e.msg, "no file of this folder"), "a way out: %s", e.msg);
    index_of(dir, half, "c.safetensors", "", &e);
    CHECK(!same(dir, &e) && strstr(e.msg, "c.safetensors"), "a missing file: %s", e.msg);
    one_file(dir, "b.safetensors", half - 1, n, &e);
    index_of(dir, half, "b.safetensors", "", &e);
    CHECK(!same(dir, &e) && strstr(e.msg, " is there twice: as ") &&
              strstr(e.msg, " in a.safetensors and as ") && strstr(e.msg, " in b.safetensors;"),
          "one tensor in two files, both named: %s", e.msg);
}

int main(void)
{
    struct err e = {0};
    struct model_config c = {.layers = L,
                             .heads = NH,
                             .width = C,
                             .context = T,
                             .vocab = V,
                             .qkv_bias = true,
                             .tied = true,
                             .norm_eps = 1e-5,
                             .init_std = 0.02};
    struct gpt2_use use = {.batch = 1, .length = T};
    if (backend_open(&b, "cpu", 0, 1, &e) || !(model = gpt2_new(&b, &c, &use, &e)) ||
        gpt2_init(model, 3, &e)) {
        printf("Bail out! %s\n", e.msg);
        return 1;
    }
    flat = mem_array((size_t)gpt2_params(model)->count, sizeof *flat);
    gpt2_get(model, 'w', flat, &e);
    for (int64_t i = 0; i < gpt2_params(model)->count; i++) /* biases are zero at first */
        flat[i] += (float)(i % 97) * 1e-3f;
    gpt2_put(model, 'w', flat, &e);
    test_llmc();
    test_scratch();
    test_shards();
    free(flat);
    gpt2_free(model);
    backend_close(&b);
    arena_release(&arena);
    return tap_done();
}
