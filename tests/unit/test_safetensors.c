/* safetensors and config.json: real files, files that lie, and what an independent reader says of
 * ours (tests/read_checkpoint.py). */
#include <fcntl.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "formats/checkpoint.h"
#include "formats/record.h"
#include "tests/tap.h"

static struct arena arena;
static struct err e;

static char *at(const char *name)
{
    return arena_printf(&arena, "%s/%s", tap_tmp(), name);
}

static void put(const char *name, struct str s)
{
    FILE *f = fopen(at(name), "wb");
    if (!f || fwrite(s.p, 1, s.n, f) != s.n || fclose(f))
        perror(name);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static float one(enum st_dtype t, const void *p)
{
    struct st_tensor x = {.name = "x",
                          .dtype = t,
                          .count = 1,
                          .data = p,
                          .bytes = t == ST_F64   ? 8
                                   : t == ST_F32 ? 4
                                                 : 2};
    float v = -1;
    st_to_f32(&x, &v, &e);
    return v;
}

static void test_halves(void)
{
    static const struct {
        uint16_t bits;
        float v;
    } f16[] = {{0x0000, 0},        {0x3c00, 1},         {0xc000, -2},
               {0x7bff, 65504},    {0x0400, 0x1p-14f},  {0x03ff, 0x1.ff8p-15f},
               {0x0001, 0x1p-24f}, {0x8001, -0x1p-24f}, {0x3555, 0x1.554p-2f},
               {0x7c00, INFINITY}, {0xfc00, -INFINITY}};
    int bad = 0;
    for (size_t i = 0; i < sizeof f16 / sizeof *f16; i++)
        bad += one(ST_F16, &f16[i].bits) != f16[i].v;
    uint16_t nan = 0x7e01, negative_zero = 0x8000;
    CHECK(bad == 0 && isnan(one(ST_F16, &nan)) && signbit(one(ST_F16, &negative_zero)),
          "F16 becomes float32 exactly: normal, subnormal, infinite, NaN, -0");
    /* Every finite F16 against its definition: (-1)^s 2^(e-15) (1 + f/1024). */
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t b = (uint16_t)h;
        int ex = b >> 10 & 31, fr = b & 1023;
        double want = ex ? ldexp(1 + fr / 1024.0, ex - 15) : ldexp(fr / 1024.0, -14);
        if (ex != 31)
            bad += one(ST_F16, &b) != (float)(b >> 15 ? -want : want);
    }
    CHECK_INT(bad, 0, "all 63,488 finite ones");
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t b = (uint16_t)h;
        float v = one(ST_BF16, &b);
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        bad += bits != h << 16;
    }
    CHECK_INT(bad, 0, "all 65,536 BF16 to the bit");
    double wide = 0.1;
    CHECK(one(ST_F64, &wide) == 0.1f, "F64 is rounded");
    struct st_tensor ints = {
        .name = "ints", .dtype = ST_I64, .count = 1, .data = &wide, .bytes = 8};
    float v;
    CHECK(st_to_f32(&ints, &v, &e) == -1 && strstr(e.msg, "ints"), "integers are not");
}

/* ---- writing, and another reader ------------------------------------------------------------ */

static void write_small(const char *name)
{
    float a[6] = {1, 2, 3, 4, 5, 6.5f}, b = -0.5f;
    uint16_t c[2] = {0x3f80, 0xc000};
    int64_t step = 7;
    struct st_writer *w = safetensors_create(at(name), &e);
    safetensors_meta_set(w, "format", "pt");
    safetensors_meta_set(w, "made by", "a \"test\" \xc3\xa9");
    safetensors_declare(w, "w.a", ST_F32, 2, (int64_t[]){2, 3});
    safetensors_declare(w, "b", ST_F32, 0, NULL);
    safetensors_declare(w, "half", ST_BF16, 1, (int64_t[]){2});
    safetensors_declare(w, "none", ST_F32, 2, (int64_t[]){0, 5});
    safetensors_declare(w, "step", ST_I64, 1, (int64_t[]){1});
    safetensors_put(w, a, sizeof a, &e);
    safetensors_put(w, &b, sizeof b, &e);
    safetensors_put(w, c, sizeof c, &e);
    safetensors_put(w, NULL, 0, &e);
    CHECK(!file_exists(at(name)), "a file is not there before it is whole");
    safetensors_put(w, &step, sizeof step, &e);
    CHECK_INT(safetensors_finish(w, &e), 0, "a file is written");
}

static void test_write(void)
{
    struct safetensors s;
    write_small("s.safetensors");
    CHECK(safetensors_open(&s, at("s.safetensors"), &e) == 0 && s.n == 5, "and opened");
    const struct st_tensor *t = safetensors_find(&s, "w.a");
    float v[6];
    CHECK(t && t->ndim == 2 && t->dim[0] == 2 && t->dim[1] == 3 && st_to_f32(t, v, &e) == 0 &&
              v[5] == 6.5f && !safetensors_find(&s, "w"),
          "tensors are found by name");
    t = safetensors_find(&s, "half");
    CHECK(t && st_to_f32(t, v, &e) == 0 && v[0] == 1 && v[1] == -2, "with their numbers");
    t = safetensors_find(&s, "none");
    CHECK(t && t->count == 0 && t->bytes == 0 && st_to_f32(t, v, &e) == 0, "empty ones too");
    CHECK(str_eqz(safetensors_meta(&s, "made by"), "a \"test\" \xc3\xa9") &&
              !safetensors_meta(&s, "none").p,
          "and metadata");
    CHECK(((uintptr_t)s.v[0].data & 7) == 0, "data starts at a multiple of 8");
    safetensors_close(&s);
    struct st_writer *w = safetensors_create(at("never.safetensors"), &e);
    safetensors_declare(w, "a", ST_U8, 1, (int64_t[]){1});
    safetensors_put(w, "x", 1, &e);
    safetensors_abort(w);
    CHECK(!file_exists(at("never.safetensors")), "a file that is given up never appears");
}

/* Output of the independent reader, or NULL if it failed or there is no python3. */
static const char *python_reads(const char *path, bool *missing)
{
    struct buf b = {0};
    char line[512];
    *missing = system("python3 -c 1 2>/dev/null") != 0;
    FILE *p =
        *missing
            ? NULL
            : popen(arena_printf(&arena, "python3 tests/read_checkpoint.py %s 2>&1", path), "r");
    while (p && fgets(line, sizeof line, p))
        buf_addz(&b, line);
    int rc = p ? pclose(p) : -1;
    const char *out = b.n ? str_dup(&arena, buf_str(&b)) : "";
    buf_release(&b);
    if (rc)
        printf("# %s\n", out);
    return rc ? NULL : out;
}

static void test_independent(void)
{
    bool missing;
    const char *got = python_reads(at("s.safetensors"), &missing);
    if (missing) {
        SKIP("python3");
        return;
    }
    CHECK_STR(got,
              "meta format pt\nmeta made by a \"test\" \xc3\xa9\nw.a F32 2x3 21.5\n"
              "b F32 scalar -0.5\nhalf BF16 2 -\nnone F32 0x5 0\nstep I64 1 -\n",
              "an independent reader finds the same");
    struct buf b = {0};
    file_read(at("s.safetensors"), &b, 0, &e);
    put("short.safetensors", (struct str){b.p, b.n - 1}); /* its complaint is printed as a remark */
    buf_release(&b);
    CHECK(!python_reads(at("short.safetensors"), &missing), "and would see a byte that is missing");
}

/* A model folder of ours, as the trainer writes it. */
static void test_folder(bool tied, bool qkv_bias)
{
    struct model_config c = {.layers = 2,
                             .heads = 2,
                             .width = 8,
                             .context = 16,
                             .vocab = 30,
                             .inner = 0,
                             .qkv_bias = qkv_bias,
                             .tied = tied,
                             .dropout = 0.25,
                             .norm_eps = 1e-6,
                             .init_std = 0.02},
                        d;
    const char *name = arena_printf(&arena, "model%d%d", tied, qkv_bias);
    int64_t eos;
    float zero[8 * 32] = {0};
    file_mkdirs(at(name), &e);
    struct st_writer *w =
        safetensors_create(arena_printf(&arena, "%s/model.safetensors", at(name)), &e);
    struct {
        char name[64];
        int ndim;
        int64_t dim[2];
    } p[40];
    int n = 0;
#define P(r, a, b, ...)                                                                            \
    (snprintf(p[n].name, 64, __VA_ARGS__), p[n].ndim = (r), p[n].dim[0] = (a), p[n++].dim[1] = (b))
    P(2, 30, 8, "transformer.wte.weight");
    P(2, 16, 8, "transformer.wpe.weight");
    for (int i = 0; i < 2; i++) {
        P(1, 8, 1, "transformer.h.%d.ln_1.weight", i);
        P(1, 8, 1, "transformer.h.%d.ln_1.bias", i);
        P(2, 8, 24, "transformer.h.%d.attn.c_attn.weight", i);
        P(1, 24, 1, "transformer.h.%d.attn.c_attn.bias", i);
        P(2, 8, 8, "transformer.h.%d.attn.c_proj.weight", i);
        P(1, 8, 1, "transformer.h.%d.attn.c_proj.bias", i);
        P(1, 8, 1, "transformer.h.%d.ln_2.weight", i);
        P(1, 8, 1, "transformer.h.%d.ln_2.bias", i);
        P(2, 8, 32, "transformer.h.%d.mlp.c_fc.weight", i);
        P(1, 32, 1, "transformer.h.%d.mlp.c_fc.bias", i);
        P(2, 32, 8, "transformer.h.%d.mlp.c_proj.weight", i);
        P(1, 8, 1, "transformer.h.%d.mlp.c_proj.bias", i);
    }
    P(1, 8, 1, "transformer.ln_f.weight");
    P(1, 8, 1, "transformer.ln_f.bias");
    if (!tied)
        P(2, 30, 8, "lm_head.weight");
    for (int i = 0; i < n; i++)
        safetensors_declare(w, p[i].name, ST_F32, p[i].ndim, p[i].dim);
    for (int i = 0; i < n; i++)
        safetensors_put(w, zero, (size_t)(p[i].dim[0] * p[i].dim[1]) * 4, &e);
    CHECK(safetensors_finish(w, &e) == 0 && hf_config_write(at(name), &c, 29, &e) == 0,
          "%s: a checkpoint folder is written", name);
    CHECK(hf_config_read(at(name), &d, &eos, &e) == 0 && d.layers == 2 && d.heads == 2 &&
              d.width == 8 && d.context == 16 && d.vocab == 30 && d.inner == 32 &&
              d.qkv_bias == qkv_bias && d.tied == tied && d.dropout == 0.25 && d.norm_eps == 1e-6 &&
              d.init_std == 0.02 && eos == 29,
          "%s: its configuration comes back", name);
    bool missing;
    const char *got = python_reads(at(name), &missing);
    if (missing)
        SKIP("python3");
    else
        CHECK(got != NULL, "%s: names and shapes are transformers'", name);
}

/* ---- files that lie ------------------------------------------------------------------------- */

static bool says(const char *header, size_t data, const char *want)
{
    struct buf b = {0};
    struct safetensors s;
    uint64_t n = strlen(header);
    buf_add(&b, &n, 8);
    buf_addz(&b, header);
    for (size_t i = 0; i < data; i++)
        buf_addc(&b, 0);
    put("bad.safetensors", buf_str(&b));
    buf_release(&b);
    int rc = safetensors_open(&s, at("bad.safetensors"), &e);
    safetensors_close(&s);
    bool ok = want ? rc == -1 && strstr(e.msg, want) && strstr(e.msg, "bad.safetensors") : rc == 0;
    if (!ok)
        printf("# %s: got \"%s\", want \"%s\"\n", header, rc ? e.msg : "a file", want ? want : "");
    return ok;
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_hostile(void)
{
    CHECK(says("{\"a\":" T("F32", "[2]", "[0,8]") "}", 8, NULL), "a plain header is fine");
    CHECK(says("{}", 0, NULL), "so is one of nothing");
    CHECK(says("{\"b\":" T("U8", "[1]", "[4,5]") ",\"a\":" T("F32", "[1]", "[0,4]") "}", 5, NULL),
          "tensors may stand in any order");
    CHECK(says("{\"a\":" T("F32", "[2]", "[0,8]") "}", 7, "data_offsets"),
          "offsets beyond the end");
    CHECK(says("{\"a\":" T("F32", "[2]", "[0,8]") "}", 9, "end at byte 8"), "bytes behind the end");
    CHECK(says("{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, "starts at byte 4"), "a hole");
    CHECK(says("{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[4,12]") "}", 12,
               "\"b\" starts at byte 4"),
          "an overlap");
    CHECK(says("{\"a\":" T("F32", "[3]", "[0,8]") "}", 8, "need 12"), "a shape of another size");
    CHECK(says("{\"a\":" T("F32", "[4294967296,4294967296,4]", "[0,8]") "}", 8, "2^56"),
          "a shape whose product overflows to 0");
    CHECK(says("{\"a\":" T("F64", "[281474976710656,8192]", "[0,0]") "}", 0, "2^56"),
          "or whose bytes do");
    CHECK(says("{\"a\":" T("F32", "[-2]", "[0,8]") "}", 8, "shape"), "a negative dimension");
    CHECK(says("{\"a\":" T("F32", "[2.0]", "[0,8]") "}", 8, "shape"), "one that is no integer");
    CHECK(says("{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8, "at most 8"),
          "nine dimensions");
    CHECK(says("{\"a\":" T("F32", "[2]", "[8,0]") "}", 8, "span -8"), "offsets that run back");
    CHECK(says("{\"a\":" T("F32", "[2]", "[-8,0]") "}", 8, "data_offsets"), "or start before 0");
    CHECK(says("{\"a\":" T("F32", "[2]", "[0]") "}", 8, "no pair"), "or are one");
    CHECK(says("{\"a\":" T("F31", "[2]", "[0,8]") "}", 8, "\"F31\""), "an unknown dtype");
    CHECK(says("{\"a\":{}}", 0, "dtype"), "a tensor without anything");
    CHECK(says("{\"a\":3}", 0, "no object"), "one that is a number");
    CHECK(
        says("{\"a\":" T("U8", "[0]", "[0,0]") ",\"a\":" T("U8", "[0]", "[0,0]") "}", 0, "header"),
        "a doubled name");
    CHECK(says("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"), "metadata that is no text");
    CHECK(says("[]", 0, "no JSON object"), "a header that is a list");
    CHECK(says("{\"a\":", 0, "header"), "or cut");
    put("huge.safetensors", (struct str){"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10});
    struct safetensors s;
    CHECK(safetensors_open(&s, at("huge.safetensors"), &e) == -1 && strstr(e.msg, "claims"),
          "a header of 2^64 bytes");
    put("far.safetensors", (struct str){"\x10\0\0\0\0\0\0\0{}", 10});
    CHECK(safetensors_open(&s, at("far.safetensors"), &e) == -1 && strstr(e.msg, "cut"),
          "a header beyond the end");
    put("empty.safetensors", (struct str){"", 0});
    CHECK(safetensors_open(&s, at("empty.safetensors"), &e) == -1, "and an empty file are refused");
    CHECK(safetensors_open(&s, tap_tmp(), &e) == -1 && strstr(e.msg, "folder"), "as is a folder");
    CHECK(safetensors_open(&s, at("none"), &e) == -1 && strstr(e.msg, "No such"), "or nothing");
}

static void flip(int fd, const struct buf *b, size_t bit)
{
    char c = (char)(b->p[bit / 8] ^ (1 << bit % 8));
    if (pwrite(fd, &c, 1, (off_t)(bit / 8)) != 1)
        perror("pwrite");
}

static void test_damage(void)
{
    struct buf b = {0};
    struct safetensors s;
    int opened = 0, read = 0;
    file_read(at("s.safetensors"), &b, 0, &e);
    put("flip.safetensors", buf_str(&b));
    put("cut.safetensors", buf_str(&b));
    for (size_t n = b.n; n-- > 0;) {
        opened += truncate(at("cut.safetensors"), (off_t)n) != 0;
        opened += safetensors_open(&s, at("cut.safetensors"), &e) == 0;
        safetensors_close(&s);
    }
    CHECK_INT(opened, 0, "cut at each byte it is refused");
    int fd = open(at("flip.safetensors"), O_WRONLY);
    size_t header = b.n - 24 - 4 - 4 - 8; /* the tensors' bytes are anything */
    for (size_t bit = 0; bit < header * 8; bit++) {
        flip(fd, &b, bit);
        if (safetensors_open(&s, at("flip.safetensors"), &e) == 0) {
            float v[8];
            for (size_t k = 0; k < s.n; k++)
                if (s.v[k].count <= 8)
                    st_to_f32(&s.v[k], v, &e);
            read++;
            safetensors_close(&s);
        }
        if (pwrite(fd, b.p + bit / 8, 1, (off_t)(bit / 8)) != 1)
            perror("pwrite");
    }
    close(fd);
    CHECK(read > 0 && read < (int)header * 4,
          "a flipped bit of the header is refused or read within the file (%d of %zu read)", read,
          header * 8);
    buf_release(&b);
}

/* ---- config.json ---------------------------------------------------------------------------- */

static bool config_says(const char *more, const char *want, struct model_config *c, int64_t *eos)
{
    file_mkdirs(at("c"), &e);
    put("c/config.json",
        str_printf(&arena, "{\"n_layer\":2,\"n_head\":2,\"n_embd\":8,\"vocab_size\":30%s}", more));
    int rc = hf_config_read(at("c"), c, eos, &e);
    bool ok = want ? rc == -1 && strstr(e.msg, want) && strstr(e.msg, "c/config.json") : rc == 0;
    if (!ok)
        printf("# %s: got \"%s\"\n", more, rc ? e.msg : "a configuration");
    return ok;
}

static void test_config(void)
{
    struct model_config c;
    int64_t eos;
    CHECK(config_says(",\"n_positions\":16", NULL, &c, &eos) && c.context == 16 && c.tied &&
              c.qkv_bias && c.inner == 0 && c.norm_eps == 1e-5 && c.dropout == 0.1 && eos == -1,
          "what is left out means what transformers means");
    CHECK(config_says(",\"n_ctx\":32,\"n_inner\":null,\"eos_token_id\":3", NULL, &c, &eos) &&
              c.context == 32 && eos == 3,
          "n_ctx stands in for n_positions");
    CHECK(config_says("", "n_positions", &c, &eos), "one of them is needed");
    CHECK(config_says(",\"n_ctx\":8,\"model_type\":\"llama\"", "llama", &c, &eos), "other models,");
    CHECK(config_says(",\"n_ctx\":8,\"activation_function\":\"gelu\"", "\"gelu\"", &c, &eos),
          "other activations,");
    CHECK(config_says(",\"n_ctx\":8,\"scale_attn_by_inverse_layer_idx\":true", "scale_attn", &c,
                      &eos),
          "other attention,");
    CHECK(config_says(",\"n_ctx\":-1", "n_ctx", &c, &eos), "absurd shapes,");
    CHECK(config_says(",\"n_ctx\":8,\"n_inner\":\"x\"", "n_inner", &c, &eos), "words for numbers,");
    CHECK(config_says(",\"n_ctx\":8,\"tie_word_embeddings\":1", "tie_word", &c, &eos),
          "numbers for switches");
    CHECK(config_says(",\"n_ctx\":8,\"layer_norm_epsilon\":-1", "layer_norm", &c, &eos),
          "and a negative epsilon are refused");
    CHECK(hf_config_read(at("nowhere"), &c, &eos, &e) == -1 && strstr(e.msg, "config.json"),
          "a missing file is named");
}

static void test_resolve(void)
{
    file_mkdirs(at("run/step_000010"), &e);
    put("run/step_000010/config.json", STR_LIT("{}"));
    CHECK(!checkpoint_resolve(&arena, at("run"), &e) && strstr(e.msg, "no checkpoint"),
          "a folder without a checkpoint is refused");
    file_symlink("step_000010", at("run/latest"), &e);
    CHECK_STR(checkpoint_resolve(&arena, at("run"), &e), at("run/latest"), "latest is found");
    CHECK_STR(checkpoint_resolve(&arena, at("run/step_000010"), &e), at("run/step_000010"),
              "or a checkpoint itself");
    CHECK(!checkpoint_resolve(&arena, at("absent"), &e) && strstr(e.msg, "No such"), "or nothing");
}

static void test_state(void)
{
    struct train_state in = {.step = 12,
                             .best_loss = NAN,
                             .last_loss = 3.25,
                             .config_key = STR_LIT("k"),
                             .seconds = 1.5},
                       out;
    CHECK(record_save(at("state.msgpack"), &train_state_schema, &in, &e) == 0 &&
              record_load(at("state.msgpack"), &train_state_schema, &out, &arena, &e) == 0 &&
              out.step == 12 && isnan(out.best_loss) && out.last_loss == 3.25 && out.seconds == 1.5,
          "a train state goes round");
}

static void test_data(void)
{
    static const struct {
        const char *file;
        size_t tensors;
    } model[] = {{"model/tiny-random-gpt2", 64}, {"model/gpt-nano-sort", 41}};
    for (size_t i = 0; i < 2; i++) {
        const char *dir = tap_data(model[i].file);
        struct safetensors s;
        struct model_config c;
        int64_t eos;
        if (!dir) {
            SKIP(model[i].file);
            continue;
        }
        CHECK(safetensors_open(&s, arena_printf(&arena, "%s/model.safetensors", dir), &e) == 0 &&
                  hf_config_read(dir, &c, &eos, &e) == 0,
              "%s opens", model[i].file);
        int bad = 0;
        for (size_t k = 0; k < s.n; k++) {
            float *v = mem_array((size_t)s.v[k].count, sizeof *v);
            bad += st_to_f32(&s.v[k], v, &e) != 0;
            for (int64_t j = 0; j < s.v[k].count; j++)
                bad += !isfinite(v[j]);
            free(v);
        }
        CHECK(s.n == model[i].tensors && bad == 0, "its %zu tensors hold finite numbers", s.n);
        CHECK(i ? c.vocab == 3 && c.context == 11 && c.width == 48 && !c.tied && eos == -1
                : c.vocab == 1000 && c.context == 512 && c.width == 32 && c.tied && eos == 98,
              "and its configuration is read");
        safetensors_close(&s);
    }
}

int main(void)
{
    log_open("test", LOG_QUIET);
    test_halves();
    test_write();
    test_independent();
    test_folder(true, true);
    test_folder(false, false);
    test_hostile();
    test_damage();
    test_config();
    test_resolve();
    test_state();
    test_data();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
