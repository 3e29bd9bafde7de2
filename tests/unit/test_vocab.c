/* vocab: every format in and out gives the same vocabulary; every damaged file is one sentence.
 */
#include "tests/tap.h"

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "tokenizer/bpe.h"
#include "tokenizer/vocab.h"
#include "tokenizer/vocab_build.h"

static struct err err;
static struct arena arena;

static const char *scratch(const char *name)
{
    return arena_printf(&arena, "%s/%s", tap_tmp(), name);
}

/* Without file.h's fsync: there are thousands of them. */
static void put(const char *path, struct str text)
{
    FILE *f = file_mkdirs_for(path, &err) == 0 ? fopen(path, "wb") : NULL;
    if (!f || fwrite(text.p ? text.p : "", 1, text.n, f) != text.n || fclose(f) != 0)
        CHECK(false, "the test writes %s", path);
}

/* Ids of a text as "1 2 3", or the error. */
static const char *ids_of(const struct vocab *v, struct str text)
{
    struct encoder *x = encoder_new(v, (struct encode_options){0}, &err);
    struct ids ids = {0};
    struct buf out = {0};
    buf_addz(&out, "");
    if (encode(x, text, &ids, &err))
        buf_addz(&out, err.msg);
    for (size_t i = 0; i < ids.n; i++)
        buf_printf(&out, "%s%d", i ? " " : "", (int)ids.v[i]);
    const char *z = arena_strdup(&arena, out.p ? out.p : "");
    buf_release(&out);
    ids_release(&ids);
    encoder_free(x);
    return z;
}

/* ---- the published vocabularies ----------------------------------------------------------- */

static void published(void)
{
    static const struct {
        const char *file, *pattern;
        int64_t size, ordinary, eot;
    } t[] = {
        {"tokenizer/vocab.bpe", "gpt2", 50257, 50256, 50256},
        {"tokenizer/encoder.json", "gpt2", 50257, 50256, 50256},
        {"tokenizer", "gpt2", 50257, 50256, 50256},
        {"tokenizer/r50k_base.tiktoken", "gpt2", 50257, 50256, 50256},
        {"tokenizer/cl100k_base.tiktoken", "cl100k", 100277, 100256, 100257},
        {"tokenizer/o200k_base.tiktoken", "o200k", 200019, 199998, 199999},
    };
    char gpt2[SHA256_HEX] = "";
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const char *path = tap_data(t[i].file);
        struct vocab v;
        if (!path) {
            SKIP(t[i].file);
            continue;
        }
        if (!CHECK(vocab_load(&v, path, NULL, &err) == 0, "%s reads: %s", t[i].file, err.msg))
            continue;
        CHECK(v.size == t[i].size && v.ordinary == t[i].ordinary && v.eot == t[i].eot &&
                  strcmp(v.pattern->name, t[i].pattern) == 0,
              "%s: %lld ids, eot %d, pattern %s", t[i].file, (long long)v.size, (int)v.eot,
              v.pattern->name);
        if (i == 0)
            memcpy(gpt2, v.hash, sizeof gpt2);
        if (i < 4)
            CHECK_STR(v.hash, gpt2, "%s: the same hash as the other files of GPT-2", t[i].file);
        vocab_release(&v);
    }
}

/* GPT-2 and cl100k through tokenizer.json: the same vocabulary, the same ids by listed merges. */
static void round_trips(void)
{
    static const char *const from[] = {"tokenizer/vocab.bpe", "tokenizer/r50k_base.tiktoken",
                                       "tokenizer/cl100k_base.tiktoken"};
    static const char *const as[] = {"a.json", "a.tiktoken"};
    struct str text =
        STR_LIT("The quick brown fox, it's 2026!  \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x8c"
                "\x8d\n\n    antidisestablishmentarianism zzzzzzzzz\x01");
    for (size_t i = 0; i < 6; i++) {
        const char *path = tap_data(from[i / 2]), *to = scratch(as[i % 2]);
        struct vocab v, w;
        if (!path) {
            SKIP(from[i / 2]);
            continue;
        }
        if (i == 5)
            continue; /* cl100k's specials: refused, below */
        if (!CHECK(vocab_load(&v, path, NULL, &err) == 0 && vocab_save(&v, to, &err) == 0,
                   "%s is written as %s: %s", from[i / 2], as[i % 2], err.msg))
            continue;
        if (CHECK(vocab_load(&w, to, NULL, &err) == 0, "and reads: %s", err.msg)) {
            CHECK_STR(w.hash, v.hash, "with the same hash");
            CHECK_STR(ids_of(&w, text), ids_of(&v, text), "and encodes alike");
            vocab_release(&w);
        }
        vocab_release(&v);
        remove(to);
    }
    const char *path = tap_data(from[2]);
    struct vocab v;
    if (path && vocab_load(&v, path, NULL, &err) == 0) {
        CHECK(vocab_save(&v, scratch("b.tiktoken"), &err) < 0 &&
                  !file_exists(scratch("b.tiktoken")),
              "special tokens that .tiktoken cannot say are refused: %s", err.msg);
        CHECK(vocab_save(&v, scratch("b.txt"), &err) < 0 && err.code == EXIT_USAGE,
              "another extension is refused: %s", err.msg);
        vocab_release(&v);
    }
}

/* What Hugging Face's tokenizers 0.23.3 refused to load without (tried by hand; with them it gives
 * our ids for all texts of the vectors and 400 kB of the novel, for every pattern). */
static void wanted_by_hf(void)
{
    static const char *const all[] = {"type", "add_prefix_space", "trim_offsets", "use_regex"};
    struct merge ab = {'a', 'b', 256};
    for (const struct split_pattern *p = split_patterns; p->name; p++) {
        const char *path = scratch("hf.json");
        struct vocab v;
        struct json *root = NULL;
        bool has = vocab_trained(&v, &ab, 1, p, STR_LIT(VOCAB_EOT), &err) == 0 &&
                   vocab_save(&v, path, &err) == 0 && (root = json_read(path, &err)) != NULL;
        for (size_t i = 0; i < 4; i++)
            has = has && json_get(json_get(root, "decoder"), all[i]);
        CHECK(has, "%s: tokenizer.json has a whole decoder", p->name);
        json_free(root);
        vocab_release(&v);
        if (CHECK(vocab_load(&v, path, NULL, &err) == 0, "%s: it reads: %s", p->name, err.msg)) {
            CHECK_STR(v.pattern->name, p->name, "with its pattern");
            vocab_release(&v);
        }
        remove(path);
    }
}

/* ---- small files -------------------------------------------------------------------------- */

/* The 256 bytes, then "ab", "abc". */
static void tiktoken_lines(struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int b = 0; b < 256; b++)
        buf_printf(out, "%c%c== %d\n", digits[b >> 2], digits[(b & 3) << 4], b);
    buf_addz(out, "YWI= 256\nYWJj 257\n");
}

static struct buf replaced(const struct buf *text, const char *what, const char *with)
{
    struct buf out = {0};
    ptrdiff_t at = str_find(buf_str(text), str_z(what));
    if (at < 0) {
        CHECK(false, "the test finds \"%s\"", what);
        return out;
    }
    buf_add(&out, text->p, (size_t)at);
    buf_addz(&out, with);
    buf_addz(&out, text->p + at + strlen(what));
    return out;
}

/* The sentence of loading this text under this name. */
static const char *refusal(const char *name, struct str text)
{
    const char *path = scratch(name);
    struct vocab v;
    put(path, text);
    err.msg[0] = 0;
    if (vocab_load(&v, path, NULL, &err) == 0) {
        vocab_release(&v);
        return "loaded";
    }
    remove(path);
    /* The folder's name is not the same twice. */
    const char *at = strstr(err.msg, tap_tmp());
    return at ? arena_printf(&arena, "%.*s%s", (int)(at - err.msg), err.msg,
                             at + strlen(tap_tmp()) + 1)
              : err.msg;
}

static void bad_tiktoken(void)
{
    static const struct {
        const char *what, *with, *want, *name;
    } t[] = {
        {"YWI= 256\n", "YWI= \n",
         "vocabulary: v.tiktoken:257: want \"BASE64 RANK\", the rank is missing", "no rank"},
        {"YWI= 256\n", "YW*= 256\n", "vocabulary: v.tiktoken:257: \"YW*=\" is not base64",
         "bad base64"},
        {"YWI= 256\n", "YWI 256\n", "vocabulary: v.tiktoken:257: \"YWI\" is not base64",
         "no padding"},
        {"YWI= 256\n", "YWJ= 256\n", "vocabulary: v.tiktoken:257: \"YWJ=\" is not base64",
         "stray bits"},
        {"YWI= 256\n", "YWI= x\n", "vocabulary: v.tiktoken:257: \"x\" is not a rank", "no number"},
        {"YWI= 256\n", "YWI= -1\n", "vocabulary: v.tiktoken:257: \"-1\" is not a rank", "negative"},
        {"YWI= 256\n", "YWI= 99999999999999999999\n",
         "vocabulary: v.tiktoken:257: \"99999999999999999999\" is not a rank", "beyond 64 bits"},
        {"YWI= 256\n", "YWI= 2000000000\n",
         "vocabulary: v.tiktoken:257: id 2000000000 of token \"ab\" is out of range: the file has "
         "259 tokens",
         "absurd rank"},
        {"YWI= 256\n", "YWI= 255\n",
         "vocabulary: v.tiktoken:257: id 255 stands for two tokens, \"\\xff\" and \"ab\"",
         "doubled rank"},
        {"YWI= 256\n", "YWJj 256\n",
         "vocabulary: v.tiktoken:258: token \"abc\" stands twice, as id 256 and 257",
         "doubled token"},
        {"YWI= 256\n", "", "vocabulary: v.tiktoken: no token has id 256, but there is an id 257",
         "a hole"},
        {"YQ== 97\n", "YWE= 97\n",
         "vocabulary: v.tiktoken: no token for the byte 0x61, so a text with it has no ids",
         "a byte without a token"},
        {"YWJj 257\n", "YWJj 25",
         "vocabulary: v.tiktoken:258: id 25 stands for two tokens, \"\\x19\" and \"abc\"",
         "cut within a rank"},
        {"YWJj 257\n", "YWJ",
         "vocabulary: v.tiktoken:258: want \"BASE64 RANK\", the rank is missing",
         "cut within a token"},
    };
    struct buf good = {0};
    tiktoken_lines(&good);
    CHECK_STR(refusal("v.tiktoken", buf_str(&good)), "loaded", "the small .tiktoken is good");
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        struct buf bad = replaced(&good, t[i].what, t[i].with);
        CHECK_STR(refusal("v.tiktoken", buf_str(&bad)), t[i].want, ".tiktoken with %s", t[i].name);
        buf_release(&bad);
    }
    CHECK_STR(refusal("v.tiktoken", STR_LIT("")), "vocabulary: v.tiktoken: no tokens in it",
              "empty");
    CHECK_STR(refusal("v.bin", STR_LIT("x")),
              "vocabulary: v.bin: not a vocabulary: want .tiktoken, tokenizer.json, vocab.bpe, "
              "merges.txt, or a folder with one",
              "another kind of file");
    buf_release(&good);
}

/* What the manifest of `vocab train` says is believed, and checked. */
static void manifests(void)
{
    struct buf text = {0};
    struct vocab v;
    const char *path = scratch("m.tiktoken"), *man = scratch("m.tiktoken.manifest.json");
    const char *facts =
        "{\"schema\":\"assay manifest\",\"version\":1,\"command\":\"vocab train\","
        "\"stage_version\":1,\"key\":\"%064d\",\"options\":{},\"inputs\":[],"
        "\"outputs\":[],\"facts\":{\"size\":260,\"ordinary\":%d,\"pattern\":\"qwen2\","
        "\"eot\":259,\"eot_text\":\"<end>\",\"specials\":{\"<end>\":259}},"
        "\"hash\":\"%064d\",\"volatile\":{}}";
    tiktoken_lines(&text);
    put(path, buf_str(&text));
    if (CHECK(vocab_load(&v, path, NULL, &err) == 0, "without a manifest: %s", err.msg)) {
        CHECK(v.eot == 258 && v.size == 259 && strcmp(v.pattern->name, "gpt2") == 0,
              "EOT is the id behind the last, the pattern gpt2");
        vocab_release(&v);
    }
    struct vocab_options o = {.pattern = STR_LIT("llama3"), .eot = STR_LIT("<x>")};
    if (CHECK(vocab_load(&v, path, &o, &err) == 0, "with options: %s", err.msg)) {
        struct str s;
        CHECK(vocab_bytes(&v, 258, &s) && str_eqz(s, "<x>") && v.eot == 258 &&
                  strcmp(v.pattern->name, "llama3") == 0,
              "their pattern and EOT hold");
        vocab_release(&v);
    }
    put(man, str_z(arena_printf(&arena, facts, 0, 258, 0)));
    if (CHECK(vocab_load(&v, path, NULL, &err) == 0, "with a manifest: %s", err.msg)) {
        CHECK(v.eot == 259 && v.size == 260 && strcmp(v.pattern->name, "qwen2") == 0,
              "it says EOT and pattern");
        vocab_release(&v);
    }
    put(man, str_z(arena_printf(&arena, facts, 0, 300, 0)));
    CHECK(vocab_load(&v, path, NULL, &err) < 0 &&
              strstr(err.msg, "has 258 tokens, but its manifest"),
          "a file that lost tokens is noticed: %s", err.msg);
    put(man, STR_LIT("{"));
    CHECK(vocab_load(&v, path, NULL, &err) < 0, "a damaged manifest is not passed over: %s",
          err.msg);
    remove(path);
    remove(man);
    buf_release(&text);
}

/* ---- tokenizer.json ----------------------------------------------------------------------- */

/* Bytes, "ab" 256, "bc" 257, "abc" 258, then a special; merges in the order given. */
static void hf_text(struct buf *out, const char *merges, const char *extra)
{
    buf_addz(out,
             "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":259,\"content\":\"<|endoftext|>\","
             "\"special\":true}],\"normalizer\":null,"
             "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
             "\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"byte_fallback\":false,");
    buf_printf(out, "%s\"vocab\":{", extra);
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        struct buf token = {0};
        alphabet_encode((struct str){&byte, 1}, &token);
        json_quote(buf_str(&token), out);
        buf_printf(out, ":%d,", b);
        buf_release(&token);
    }
    buf_printf(out, "\"ab\":256,\"bc\":257,\"abc\":258},\"merges\":%s}}", merges);
}

static void hf(void)
{
    static const struct {
        const char *merges, *extra, *ids, *name;
    } t[] = {
        {"[\"a b\",\"b c\",\"ab c\"]", "", "258 64 32 257", "merges as strings"},
        {"[[\"a\",\"b\"],[\"b\",\"c\"],[\"ab\",\"c\"]]", "", "258 64 32 257", "merges as pairs"},
        {"[\"b c\",\"a b\",\"ab c\"]", "", "97 257 64 32 257",
         "an order of merges that is not that of ids decides"},
        {"[\"b c\",\"a b\",\"ab c\"]", "\"ignore_merges\":true,", "258 64 32 257",
         "ignore_merges: a piece that is a token stays whole"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        struct buf text = {0};
        struct vocab v;
        const char *path = scratch("tokenizer.json");
        hf_text(&text, t[i].merges, t[i].extra);
        put(path, buf_str(&text));
        if (CHECK(vocab_load(&v, path, NULL, &err) == 0, "%s read: %s", t[i].name, err.msg)) {
            CHECK_STR(ids_of(&v, STR_LIT("abc@ bc")), t[i].ids, "%s", t[i].name);
            CHECK(v.eot == 259 && v.size == 260, "and EOT is the added token");
            if (i == 2)
                CHECK(vocab_save(&v, scratch("x.tiktoken"), &err) < 0, "it is no .tiktoken: %s",
                      err.msg);
            vocab_release(&v);
        }
        buf_release(&text);
        remove(path);
    }
}

static void bad_hf(void)
{
    static const struct {
        const char *what, *with, *want;
    } t[] = {
        {"\"BPE\"", "\"Unigram\"", "model: type \"Unigram\", want BPE"},
        {"\"byte_fallback\":false", "\"byte_fallback\":true",
         "model: byte_fallback is not supported, this is not a byte-level BPE"},
        {"\"byte_fallback\":false", "\"end_of_word_suffix\":\"</w>\"",
         "model: end_of_word_suffix is not supported"},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}",
         "normalizer: \"Lowercase\" is not supported"},
        {"\"add_prefix_space\":false", "\"add_prefix_space\":true",
         "pre_tokenizer: add_prefix_space is not supported"},
        {"\"type\":\"ByteLevel\"", "\"type\":\"Metaspace\"",
         "pre_tokenizer: a step of type \"Metaspace\" is not supported"},
        {"\"use_regex\":true", "\"use_regex\":false",
         "pre_tokenizer: 0 split steps, want one; --pattern says which to use"},
        {"\"type\":\"ByteLevel\"",
         "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+"
         "\"}},"
         "{\"type\":\"ByteLevel\",\"use_regex\":false}]",
         "pre_tokenizer: the split pattern \"x+\" is not one of ours; --pattern says which to use "
         "instead"},
        {"\"ab c\"", "\"ab d c\"",
         "model.merges: entry 2: want two tokens with a blank between them, not \"ab d c\""},
        {"\"ab c\"", "\"ab\"",
         "model.merges: entry 2: want two tokens with a blank between them, not \"ab\""},
        {"\"ab c\"", "\"ab \xe4\xb8\xad\"",
         "model.merges: entry 2: a character outside the byte-level alphabet"},
        {"\"abc\":258", "\"a\xe4\xb8\xad\":258",
         "model.vocab: token \"a\xe4\xb8\xad\" holds a character outside the byte-level alphabet"},
        {"\"abc\":258", "\"abc\":\"x\"", "model.vocab: the id of \"abc\" is no integer"},
        {"\"id\":259,", "", "added_tokens: entry 0 wants \"id\" and \"content\""},
    };
    static const struct {
        const char *what, *with, *want;
    } later[] = {
        {"\"ab c\"", "\"ab d\"", ": merge 2 (\"ab\" and \"d\") names \"abd\", which is no token"},
        {"\"ab c\"", "\"a b\"", ": merge 2 (\"a\" and \"b\") stands twice"},
        {"\"abc\":258", "\"abc\":257", ": id 257 stands for two tokens, \"bc\" and \"abc\""},
        {"\"id\":259", "\"id\":9000000000",
         ": id 9000000000 of token \"<|endoftext|>\" is out of range: "
         "the file has 260 tokens"},
        {"\"abc\":258", "\"abcd\":258",
         ": merge 2 (\"ab\" and \"c\") names \"abc\", which is no token"},
    };
    struct buf good = {0};
    hf_text(&good, "[\"a b\",\"b c\",\"ab c\"]", "");
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        struct buf bad = replaced(&good, t[i].what, t[i].with);
        CHECK_STR(refusal("tokenizer.json", buf_str(&bad)),
                  arena_printf(&arena, "vocabulary: tokenizer.json: %s", t[i].want),
                  "tokenizer.json with %s", t[i].with[0] ? t[i].with : "no id");
        buf_release(&bad);
    }
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        struct buf bad = replaced(&good, later[i].what, later[i].with);
        CHECK_STR(refusal("tokenizer.json", buf_str(&bad)),
                  arena_printf(&arena, "vocabulary: tokenizer.json%s", later[i].want),
                  "tokenizer.json with %s", later[i].with);
        buf_release(&bad);
    }
    buf_release(&good);
}

/* ---- GPT-2's pair of files ---------------------------------------------------------------- */

static void bad_gpt2(void)
{
    struct buf ids = {0}, full = {0};
    const char *dir = scratch("pair"), *bpe = scratch("pair/vocab.bpe"),
               *enc = scratch("pair/encoder.json");
    struct vocab v;
    hf_text(&full, "[]", "");
    ptrdiff_t from = str_find(buf_str(&full), STR_LIT("\"vocab\":{")),
              to = str_find(buf_str(&full), STR_LIT(",\"merges\""));
    buf_add(&ids, full.p + from + 8, (size_t)(to - from - 8));
    put(enc, buf_str(&ids));
    CHECK(vocab_load(&v, dir, NULL, &err) < 0 && strstr(err.msg, "no tokenizer.json, vocab.bpe"),
          "a folder without a vocabulary: %s", err.msg);
    CHECK(vocab_load(&v, enc, NULL, &err) < 0 &&
              strstr(err.msg, "needs vocab.bpe or merges.txt beside it"),
          "encoder.json alone: %s", err.msg);
    put(bpe, STR_LIT("#version: 0.2\na b\nb c\nab c\n"));
    if (CHECK(vocab_load(&v, dir, NULL, &err) == 0, "both files: %s", err.msg)) {
        CHECK(v.eot == -1 && v.nmerges == 3, "three merges, no EOT");
        vocab_release(&v);
    }
    CHECK(vocab_load(&v, dir, &(struct vocab_options){.eot = STR_LIT("<e>")}, &err) < 0 &&
              err.code == EXIT_USAGE,
          "an EOT that is not there is a usage error: %s", err.msg);
    put(bpe, STR_LIT("#version: 0.2\na b\nb c\n"));
    CHECK(vocab_load(&v, dir, NULL, &err) < 0 && strstr(err.msg, "token \"abc\" is neither a byte"),
          "a cut vocab.bpe: %s", err.msg);
    put(bpe, STR_LIT("#version: 0.2\na b\nb\nab c\n"));
    CHECK(vocab_load(&v, dir, NULL, &err) < 0 && strstr(err.msg, "vocab.bpe:3: want two tokens"),
          "a line of one token: %s", err.msg);
    put(bpe, STR_LIT(""));
    CHECK(vocab_load(&v, dir, NULL, &err) < 0 && strstr(err.msg, "no merges in it"),
          "an empty vocab.bpe: %s", err.msg);
    put(enc, STR_LIT("[1]"));
    put(bpe, STR_LIT("a b\n"));
    CHECK(vocab_load(&v, bpe, NULL, &err) < 0, "an encoder.json that is no object: %s", err.msg);
    CHECK(vocab_load(&v, scratch("none/vocab.bpe"), NULL, &err) < 0, "a missing file: %s", err.msg);
    CHECK(vocab_load(&v, scratch("none.tiktoken"), NULL, &err) < 0, "and another: %s", err.msg);
    remove(enc);
    remove(bpe);
    put(scratch("pair/x.tiktoken"), STR_LIT("x"));
    put(scratch("pair/y.tiktoken"), STR_LIT("x"));
    CHECK(vocab_load(&v, dir, NULL, &err) < 0 && strstr(err.msg, "2 .tiktoken files"),
          "a folder that is not clear: %s", err.msg);
    file_remove_tree(dir, &err);
    buf_release(&ids);
    buf_release(&full);
}

/* The alphabet is GPT-2's, both ways. */
static void alphabet(void)
{
    int bad = 0;
    CHECK(alphabet_of_byte(' ') == 0x120 && alphabet_of_byte('\n') == 0x10a &&
              alphabet_of_byte('!') == '!' && alphabet_of_byte(0xad) == 0x143,
          "blank is U+0120, line feed U+010A, soft hyphen U+0143");
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        struct buf text = {0};
        struct str back;
        alphabet_encode((struct str){&c, 1}, &text);
        bad += alphabet_decode(&arena, buf_str(&text), &back) || back.n != 1 || back.p[0] != c;
        buf_release(&text);
    }
    CHECK(bad == 0, "all 256 bytes come back");
}

/* Cut anywhere and with any byte changed: a sentence or a whole vocabulary, never a crash. */
static void damage(void)
{
    struct buf files[2] = {{0}, {0}};
    static const char *const names[] = {"d.tiktoken", "tokenizer.json"};
    struct rng rng = rng_make(7, "damage", 0);
    int loaded = 0, refused = 0, silent = 0;
    tiktoken_lines(&files[0]);
    hf_text(&files[1], "[\"a b\",\"b c\",\"ab c\"]", "");
    for (int round = 0; round < 3000; round++) {
        int k = round & 1;
        struct buf text = {0};
        struct vocab v;
        const char *path = scratch(names[k]);
        buf_adds(&text, buf_str(&files[k]));
        if (rng_below(&rng, 3) == 0)
            buf_cut(&text, rng_below(&rng, text.n));
        else
            for (int n = 1 + (int)rng_below(&rng, 3); n > 0; n--)
                text.p[rng_below(&rng, text.n)] = (char)rng_below(&rng, 256);
        put(path, buf_str(&text));
        err.msg[0] = 0;
        if (vocab_load(&v, path, NULL, &err) == 0) {
            loaded++;
            vocab_release(&v);
        } else {
            refused++;
            silent += !err.msg[0];
        }
        buf_release(&text);
    }
    CHECK(silent == 0 && refused > 1000,
          "3,000 damaged files: %d refused with a sentence, %d still "
          "a vocabulary",
          refused, loaded);
    remove(scratch(names[0]));
    remove(scratch(names[1]));
    buf_release(&files[0]);
    buf_release(&files[1]);
}

int main(void)
{
    published();
    round_trips();
    wanted_by_hf();
    bad_tiktoken();
    manifests();
    hf();
    bad_hf();
    bad_gpt2();
    alphabet();
    damage();
    rmdir(tap_tmp());
    arena_release(&arena);
    return tap_done();
}
