/* token and example shards: both widths, many files as one vector, and hostile files. */
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/log.h"
#include "formats/manifest.h"
#include "formats/shard.h"
#include "tests/tap.h"

static struct arena arena;
static struct err e;

static char *at(const char *name)
{
    return arena_printf(&arena, "%s/%s", tap_tmp(), name);
}

/* Without fsync: some tests write a thousand files. */
static void put(const char *name, struct str s)
{
    FILE *f = fopen(at(name), "wb");
    if (!f || fwrite(s.p, 1, s.n, f) != s.n || fclose(f))
        perror(name);
}

static void put_u32(struct buf *b, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        buf_addc(b, (char)(v >> 8 * i));
}

/* A shard as llm.c's data_common.py lays it out, by hand. */
static void shard_bytes(struct buf *b, uint32_t magic, uint32_t version, uint32_t count)
{
    buf_cut(b, 0);
    put_u32(b, magic);
    put_u32(b, version);
    put_u32(b, count);
    while (b->n < 1024)
        buf_addc(b, 0);
}

static struct strs write_split(const char *dir, const char *split, int64_t vocab, int64_t per_shard,
                               int64_t n)
{
    struct strs names = {0};
    struct shard_writer *w = shard_create(at(dir), "toy", split, vocab, per_shard, &e);
    for (int32_t i = 0; w && i < n; i++) {
        int32_t id = (int32_t)((i * 7919LL) % vocab);
        if (shard_put(w, &id, 1, &e))
            printf("# %s\n", e.msg);
    }
    CHECK(w && shard_tokens(w) == n && shard_finish(w, &names, &arena, &e) == 0,
          "%lld tokens of %lld ids are written", (long long)n, (long long)vocab);
    return names;
}

static void test_layout(void)
{
    struct buf want = {0}, got = {0};
    int32_t ids[] = {50256, 1, 65535};
    struct strs names;
    struct shard_writer *w = shard_create(at("l16"), "x", "train", 65536, 100, &e);
    shard_put(w, ids, 3, &e);
    shard_finish(w, &names, &arena, &e);
    shard_bytes(&want, 20240520, 1, 3);
    buf_add(&want, "\x50\xc4\x01\x00\xff\xff", 6);
    file_read(at("l16/x_train_000000.bin"), &got, 0, &e);
    CHECK(str_eq(buf_str(&got), buf_str(&want)), "16-bit shards are llm.c's to the byte");
    w = shard_create(at("l32"), "x", "train", 65537, 100, &e);
    shard_put(w, ids, 3, &e);
    shard_finish(w, &names, &arena, &e);
    shard_bytes(&want, 20240801, 7, 3);
    for (int i = 0; i < 3; i++)
        put_u32(&want, (uint32_t)ids[i]);
    file_read(at("l32/x_train_000000.bin"), &got, 0, &e);
    CHECK(str_eq(buf_str(&got), buf_str(&want)), "so are 32-bit ones, from 65,537 ids on");
    int32_t bad = 65537;
    w = shard_create(at("l32"), "y", "train", 65537, 100, &e);
    CHECK(shard_put(w, &bad, 1, &e) == -1 && strstr(e.msg, "65537"),
          "an id beyond the vocabulary is not written");
    shard_abort(w);
    CHECK(!file_exists(at("l32/y_train_000000.bin")), "nor is a file");
    buf_release(&want);
    buf_release(&got);
}

static void test_vector(int64_t vocab)
{
    const char *dir = vocab <= 65536 ? "v16" : "v32";
    struct strs train = write_split(dir, "train", vocab, 100, 1001);
    struct strs test = write_split(dir, "test", vocab, 100, 50);
    CHECK(train.n == 11 && test.n == 1 && str_eqz(train.v[10], "toy_train_000010.bin"),
          "files are cut at the size asked for");
    struct tokens t;
    CHECK(tokens_open(&t, at(dir), "train", &e) == 0 && t.n == 1001 && t.nfiles == 11,
          "a bare folder opens, without its test file");
    int32_t ids[1001];
    int wrong = tokens_get(&t, 0, 1001, vocab, ids, &e);
    for (int i = 0; i < 1001; i++)
        wrong += ids[i] != (i * 7919LL) % vocab;
    CHECK_INT(wrong, 0, "all files read as one vector");
    wrong = 0;
    for (int64_t from = 0; from < 1001; from += 13)
        for (int64_t n = 1; n <= 1001 - from; n += 97)
            wrong +=
                tokens_get(&t, from, n, 0, ids, &e) || ids[n - 1] != (from + n - 1) * 7919 % vocab;
    CHECK_INT(wrong, 0, "at every start and length, across files");
    CHECK(tokens_get(&t, 195, 10, 5, ids, &e) == -1 && strstr(e.msg, "_000001.bin: token 95 "),
          "an id beyond the limit is refused with file and token: %s", e.msg);
    int32_t id = (int32_t)(195 * 7919LL % vocab);
    CHECK(tokens_get(&t, 195, 1, id, ids, &e) == -1 && tokens_get(&t, 195, 1, id + 1, ids, &e) == 0,
          "the limit itself is beyond it");
    tokens_close(&t);
    CHECK(tokens_open(&t, at(dir), "test", &e) == 0 && t.n == 50, "the test split opens");
    tokens_close(&t);
    CHECK(tokens_open(&t, arena_printf(&arena, "%s/toy_train_000010.bin", at(dir)), "train", &e) ==
                  0 &&
              t.n == 1,
          "one file opens by its name");
    tokens_close(&t);
}

/* A folder with a manifest of the given counts. */
static void make_folder(const char *dir, int64_t vocab, int64_t train_tokens, int nbytes)
{
    struct strs train = write_split(dir, "train", 300, 100, 250);
    int64_t bytes[300] = {0};
    for (int i = 1; i < 300; i++)
        bytes[i] = i % 5 + 1;
    struct shard_info info = {.vocab_size = vocab,
                              .eot = 0,
                              .train_tokens = train_tokens,
                              .train_files = train,
                              .token_bytes = {bytes, (size_t)nbytes}};
    struct stage st;
    stage_begin(&st, "shard", 1, at(dir), NULL, NULL);
    struct json *facts = json_of_struct(&shard_info_schema, &info, false);
    void *it = NULL;
    const char *key;
    const struct json *val;
    while (json_each(facts, &it, &key, &val))
        stage_fact(&st, key, json_clone(val));
    if (stage_end(&st, &e))
        printf("# %s\n", e.msg);
    json_free(facts);
    stage_release(&st);
}

static bool open_says(const char *dir, const char *split, const char *want)
{
    struct tokens t;
    int rc = tokens_open(&t, at(dir), split, &e);
    bool ok = rc == -1 && strstr(e.msg, want) && strstr(e.msg, dir);
    if (!ok)
        printf("# got \"%s\", want \"%s\"\n", rc ? e.msg : "opened", want);
    tokens_close(&t);
    return ok;
}

static void test_manifest(void)
{
    struct tokens t;
    int32_t ids[250];
    make_folder("m", 300, 250, 300);
    CHECK(tokens_open(&t, at("m"), "train", &e) == 0 && t.n == 250 && t.info.vocab_size == 300 &&
              t.info.eot == 0 && t.info.token_bytes.n == 300 && t.info.token_bytes.v[4] == 5,
          "a folder with a manifest says its vocabulary and bytes of ids");
    tokens_close(&t);
    CHECK(open_says("m", "test", "no token shards of the test split"), "a missing split is said");
    make_folder("m2", 300, 251, 300);
    CHECK(open_says("m2", "train", "says 251 train tokens, the files hold 250"),
          "a manifest that says another count is refused");
    make_folder("m3", 300, 250, 299);
    CHECK(open_says("m3", "train", "299 token_bytes for 300 ids"),
          "as is one with bytes for fewer ids");
    make_folder("m4", 200, 250, 200);
    CHECK(tokens_open(&t, at("m4"), "train", &e) == 0 && tokens_get(&t, 0, 250, 0, ids, &e) == -1 &&
              strstr(e.msg, "the vocabulary has 200"),
          "ids beyond the manifest's vocabulary are refused");
    tokens_close(&t);
}

static bool file_says(const struct buf *b, size_t n, const char *want)
{
    file_write_all(at("bad/x_train_000000.bin"), (struct str){b->p, n}, &e);
    return open_says("bad", "train", want);
}

static void test_bad(void)
{
    struct buf b = {0};
    shard_bytes(&b, 20240520, 1, 5);
    buf_add(&b, "0123456789", 10);
    CHECK(file_says(&b, 0, "0 bytes, want at least"), "an empty shard is refused");
    CHECK(file_says(&b, 1023, "1023 bytes"), "one cut in its header");
    CHECK(file_says(&b, 1033, "says 5 tokens of 2 bytes, but 9 bytes"), "one cut in its tokens");
    buf_addz(&b, "ab");
    CHECK(file_says(&b, 1036, "5 tokens of 2 bytes, but 12"), "one with bytes behind them");
    shard_bytes(&b, 20240520, 1, 0xffffffff);
    CHECK(file_says(&b, 1024, "says 4294967295 tokens"), "one that claims 4 G tokens");
    shard_bytes(&b, 20240520, 7, 0);
    CHECK(file_says(&b, 1024, "want version 1, file has 7"), "another version");
    shard_bytes(&b, 20240801, 1, 0);
    CHECK(file_says(&b, 1024, "want version 7, file has 1"), "also of the wide kind");
    shard_bytes(&b, 20240326, 3, 0);
    CHECK(file_says(&b, 1024, "magic 20240326"), "another magic");
    shard_bytes(&b, 20240520, 1, 0);
    CHECK(file_says(&b, 1024, "has no token"), "a split without a token");
    CHECK(open_says("nowhere", "train", "No such file"), "a missing folder");
    file_mkdirs(at("hollow"), &e);
    CHECK(open_says("hollow", "train", "no token shards"), "an empty folder");
    buf_release(&b);
}

/* ---- example shards ------------------------------------------------------------------------- */

static void test_examples(void)
{
    int32_t ids[][4] = {{1, 2, 3, 0}, {4, 5}, {6, 7, 8, 9}};
    uint8_t mask[][4] = {{0, 0, 1, 1}, {0, 1}, {1, 1, 1, 1}};
    size_t len[] = {4, 2, 4};
    struct examples x;
    struct examples_writer *w = examples_create(at("e.bin"), 10, &e);
    for (int i = 0; i < 3; i++)
        examples_put(w, ids[i], mask[i], len[i]);
    CHECK(!file_exists(at("e.bin")), "an example shard is not there before it is whole");
    CHECK(examples_finish(w, &e) == 0 && examples_open(&x, at("e.bin"), &e) == 0 && x.n == 3 &&
              x.vocab_size == 10 && x.longest == 4 && x.offset[3] == 10,
          "examples are written and opened");
    int wrong = 0;
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < len[i]; k++)
            wrong += x.ids[x.offset[i] + k] != (uint32_t)ids[i][k] ||
                     x.mask[x.offset[i] + k] != mask[i][k];
    CHECK_INT(wrong, 0, "with their ids and masks");
    examples_close(&x);
    w = examples_create(at("f.bin"), 9, &e);
    examples_put(w, ids[2], mask[2], 4);
    CHECK(examples_finish(w, &e) == -1 && strstr(e.msg, "has id 9") && !file_exists(at("f.bin")),
          "an id beyond the vocabulary is refused and nothing written");
}

static void test_examples_damaged(void)
{
    struct buf b = {0};
    struct examples x;
    int opened = 0, silent = 0;
    file_read(at("e.bin"), &b, 0, &e);
    for (size_t n = 0; n < b.n; n++) {
        put("cut.bin", (struct str){b.p, n});
        opened += examples_open(&x, at("cut.bin"), &e) == 0;
        examples_close(&x);
        silent += !strstr(e.msg, "cut.bin");
    }
    CHECK(opened == 0 && silent == 0, "cut at each byte an example shard is refused by name");
    for (size_t i = 0; i < 1024 + 32; i++) {
        if (i >= 20 && i < 1024)
            continue; /* unused words of the header */
        b.p[i] ^= (char)0x80;
        put("flip.bin", buf_str(&b));
        b.p[i] ^= (char)0x80;
        if (i < 12 || i >= 16) /* a larger vocabulary is not wrong in itself */
            opened += examples_open(&x, at("flip.bin"), &e) == 0;
        examples_close(&x);
    }
    CHECK_INT(opened, 0, "with a damaged count or offset it is refused");
    b.p[1024 + 16] = 4; /* example 1 is empty, example 2 longer */
    b.p[16] = 6;
    put("hollow.bin", buf_str(&b));
    CHECK(examples_open(&x, at("hollow.bin"), &e) == -1 &&
              strstr(e.msg, "example 1 goes from 4 to 4"),
          "an example without a token is refused");
    b.p[1024 + 16] = 6;
    b.p[16] = 4;
    b.p[b.n - 1] = 2;
    put("mask.bin", buf_str(&b));
    CHECK(examples_open(&x, at("mask.bin"), &e) == -1 && strstr(e.msg, "token 9 has mask 2"),
          "a mask that is neither 0 nor 1 is refused");
    buf_release(&b);
}

int main(void)
{
    log_open("test", LOG_QUIET);
    test_layout();
    test_vector(50257);
    test_vector(100000);
    test_manifest();
    test_bad();
    test_examples();
    test_examples_damaged();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
