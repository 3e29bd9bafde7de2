/* bpe against other people's ids, and against a slow encoder of our own.
 *
 * Vectors: data/tokenizer (SOURCES.md says where each is from). The slow encoder below uses neither
 * regex, hash tables nor heaps: it reads GPT-2's pattern by hand over the characters of a fixed
 * alphabet and rescans for the smallest merge each time.
 */
#include "tests/tap.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/rng.h"
#include "tokenizer/bpe.h"

static struct err err;

static bool load(struct vocab *v, const char *name)
{
    const char *path = tap_data(name);
    if (!path)
        return false;
    return CHECK(vocab_load(v, path, NULL, &err) == 0, "%s loads: %s", name, err.msg);
}

/* The vocabulary of an encoding's name. */
static const char *vocab_of(struct str encoding)
{
    if (str_eqz(encoding, "gpt2"))
        return "tokenizer/vocab.bpe";
    if (str_eqz(encoding, "r50k_base"))
        return "tokenizer/r50k_base.tiktoken";
    if (str_eqz(encoding, "cl100k_base"))
        return "tokenizer/cl100k_base.tiktoken";
    if (str_eqz(encoding, "o200k_base"))
        return "tokenizer/o200k_base.tiktoken";
    return NULL;
}

/* The lines of a JSONL file of the shared data; NULL and a SKIP if it is not here. */
struct lines {
    struct buf text;
    struct json **v;
    size_t n;
};
static bool lines_open(struct lines *x, const char *name)
{
    const char *path = tap_data(name);
    struct str rest;
    *x = (struct lines){0};
    if (!path) {
        SKIP(name);
        return false;
    }
    if (file_read(path, &x->text, 0, &err))
        return CHECK(false, "%s: %s", name, err.msg);
    for (rest = buf_str(&x->text); rest.n > 0;) {
        struct str line = str_cut(&rest, '\n');
        if (line.n == 0)
            continue;
        x->v = realloc(x->v, (x->n + 1) * sizeof *x->v);
        x->v[x->n] = json_parse(line, &err);
        if (!x->v[x->n++])
            return CHECK(false, "%s: %s", name, err.msg);
    }
    return true;
}
static void lines_close(struct lines *x)
{
    for (size_t i = 0; i < x->n; i++)
        json_free(x->v[i]);
    free(x->v);
    buf_release(&x->text);
}

static bool same_ids(const struct ids *got, const struct json *want)
{
    if (got->n != json_size(want))
        return false;
    for (size_t i = 0; i < got->n; i++) {
        if (got->v[i] != json_int(json_at(want, i), -1))
            return false;
    }
    return true;
}

static void print_ids(const char *what, const struct ids *x)
{
    printf("# %s", what);
    for (size_t i = 0; i < x->n && i < 30; i++)
        printf(" %d", (int)x->v[i]);
    printf("\n");
}

static void ids_hash(const struct ids *x, char hex[SHA256_HEX])
{
    sha256_hex((struct str){(const char *)x->v, x->n * 4}, hex); /* little-endian machine */
}

/* ---- vectors ------------------------------------------------------------------------------ */

/* All lines of `name` for one encoding: ids, and the bytes back. */
static void vectors(const char *name, const char *encoding, size_t want_lines)
{
    struct lines x;
    struct vocab v;
    size_t seen = 0, bad = 0;
    const char *path = vocab_of(str_z(encoding));
    if (!lines_open(&x, name))
        return;
    if (!load(&v, path))
        return lines_close(&x);
    for (size_t i = 0; i < x.n; i++) {
        struct str text = json_str(json_get(x.v[i], "text"));
        const struct json *allowed = json_get(x.v[i], "allowed_special");
        struct str only[8];
        struct encode_options o = {.special = SPECIAL_PLAIN};
        struct ids ids = {0};
        struct buf back = {0};
        struct encoder *enc;
        if (!str_eqz(json_str(json_get(x.v[i], "encoding")), encoding))
            continue;
        seen++;
        for (size_t k = 0; k < json_size(allowed) && k < 8; k++) {
            only[k] = json_str(json_at(allowed, k));
            o.special = SPECIAL_ALLOW;
            o.only = (struct strs){only, k + 1};
        }
        enc = encoder_new(&v, o, &err);
        bool ok = encode(enc, text, &ids, &err) == 0 && same_ids(&ids, json_get(x.v[i], "ids")) &&
                  decode(&v, ids.v, ids.n, &back, &err) == 0 && str_eq(buf_str(&back), text);
        if (!ok) {
            bad++;
            printf("# line %zu \"%.*s\" %s\n", i + 1, STR_ARG(text), err.msg);
            print_ids("got", &ids);
        }
        encoder_free(enc);
        ids_release(&ids);
        buf_release(&back);
    }
    CHECK(bad == 0, "%s: all %zu %s lines agree, and decode to their text", name, seen, encoding);
    CHECK_INT(seen, want_lines, "%s has the %s lines we know", name, encoding);
    vocab_release(&v);
    lines_close(&x);
}

/* 1 MB single pieces: ids by hash, and the work is n log n. */
static void long_vectors(const char *encoding)
{
    struct lines x;
    struct vocab v;
    if (!lines_open(&x, "tokenizer/long_vectors.jsonl"))
        return;
    if (!load(&v, vocab_of(str_z(encoding))))
        return lines_close(&x);
    for (size_t i = 0; i < x.n; i++) {
        struct str unit = json_str(json_get(x.v[i], "unit"));
        int64_t repeat = json_int(json_get(x.v[i], "repeat"), 0);
        struct buf text = {0};
        struct ids ids = {0};
        char hex[SHA256_HEX];
        if (!str_eqz(json_str(json_get(x.v[i], "encoding")), encoding))
            continue;
        struct encoder *enc = encoder_new(&v, (struct encode_options){0}, &err);
        buf_adds(&text, json_str(json_get(x.v[i], "prefix")));
        for (int64_t k = 0; k < repeat; k++)
            buf_adds(&text, unit);
        buf_adds(&text, json_str(json_get(x.v[i], "suffix")));
        CHECK(encode(enc, buf_str(&text), &ids, &err) == 0, "1 MB of 0x%02x... encodes: %s",
              (unsigned char)unit.p[0], err.msg);
        ids_hash(&ids, hex);
        CHECK_INT(ids.n, json_int(json_get(x.v[i], "n_tokens"), -1), "%s: its tokens", encoding);
        CHECK_STR(hex, json_str(json_get(x.v[i], "sha256_u32le")).p, "%s: and their hash",
                  encoding);
        /* n log2(n) is 20 n; three sifts of the heap a merge. Quadratic would be 1e6 a byte. */
        CHECK(encoder_counts(enc).work <= 80 * text.n, "and took %.1f steps a byte, at most 80",
              (double)encoder_counts(enc).work / (double)text.n);
        encoder_free(enc);
        ids_release(&ids);
        buf_release(&text);
    }
    vocab_release(&v);
    lines_close(&x);
}

static void file_vectors(void)
{
    struct lines x;
    const char *path = tap_data("tokenizer/war-and-peace.txt");
    struct buf text = {0};
    if (!path || !lines_open(&x, "tokenizer/file_vectors.jsonl"))
        return path ? (void)0 : SKIP("tokenizer/war-and-peace.txt");
    CHECK(file_read(path, &text, 0, &err) == 0, "the novel reads");
    for (size_t i = 0; i < x.n; i++) {
        struct str encoding = json_str(json_get(x.v[i], "encoding"));
        struct vocab v;
        if (!load(&v, vocab_of(encoding)))
            continue;
        for (int k = 0; k < 3; k++) {
            struct encode_options o = {.plain_split = k == 1, .no_cache = k == 2};
            struct encoder *enc = encoder_new(&v, o, &err);
            struct ids ids = {0};
            char hex[SHA256_HEX];
            CHECK(encode(enc, buf_str(&text), &ids, &err) == 0, "the novel encodes: %s", err.msg);
            ids_hash(&ids, hex);
            CHECK_STR(hex, json_str(json_get(x.v[i], "sha256_u32le")).p, "War and Peace in %.*s%s",
                      STR_ARG(encoding),
                      k == 1   ? ", all by PCRE2"
                      : k == 2 ? ", without a cache"
                               : "");
            encoder_free(enc);
            ids_release(&ids);
        }
        vocab_release(&v);
    }
    buf_release(&text);
    lines_close(&x);
}

/* ---- llama.cpp and gpt-tokenizer ---------------------------------------------------------- */

static void parse_numbers(struct str s, struct ids *out)
{
    out->n = 0;
    for (size_t i = 0; i < s.n;) {
        int32_t id = 0;
        if (s.p[i] < '0' || s.p[i] > '9') {
            i++;
            continue;
        }
        for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
            id = id * 10 + (s.p[i] - '0');
        ids_add(out, id);
    }
}

static bool equal_ids(const struct ids *a, const struct ids *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->v, b->v, a->n * sizeof *a->v) == 0);
}

static void llama_cpp(void)
{
    const char *in = tap_data("tokenizer/ggml-vocab-gpt-2.gguf.inp");
    const char *out = tap_data("tokenizer/ggml-vocab-gpt-2.gguf.out");
    const struct str sep = STR_LIT("\n__ggml_vocab_test__\n");
    struct buf a = {0}, b = {0};
    struct vocab v;
    int cases = 0, bad = 0;
    if (!in || !out || !load(&v, "tokenizer/vocab.bpe"))
        return SKIP("llama.cpp's gpt-2 cases");
    struct encoder *enc = encoder_new(&v, (struct encode_options){0}, &err);
    CHECK(file_read(in, &a, 0, &err) == 0 && file_read(out, &b, 0, &err) == 0, "both read");
    struct str rest = buf_str(&a), lines = buf_str(&b);
    for (bool last = false; !last; cases++) {
        ptrdiff_t at = str_find(rest, sep);
        struct str text = {rest.p, at < 0 ? rest.n : (size_t)at};
        struct ids want = {0}, got = {0};
        last = at < 0;
        if (!last)
            rest = (struct str){rest.p + at + sep.n, rest.n - (size_t)at - sep.n};
        parse_numbers(str_cut(&lines, '\n'), &want);
        if (encode(enc, text, &got, &err) || !equal_ids(&got, &want)) {
            bad++;
            print_ids("got ", &got);
            print_ids("want", &want);
        }
        ids_release(&want);
        ids_release(&got);
    }
    CHECK(bad == 0 && cases == 47, "llama.cpp's 47 gpt-2 cases agree (%d seen, %d differ)", cases,
          bad);
    encoder_free(enc);
    vocab_release(&v);
    buf_release(&a);
    buf_release(&b);
}

static void test_plans(void)
{
    const char *path = tap_data("tokenizer/TestPlans.txt");
    struct buf file = {0};
    struct {
        const char *name;
        int want, seen, bad;
    } set[] = {{"r50k_base", 64, 0, 0}, {"cl100k_base", 64, 0, 0}, {"o200k_base", 57, 0, 0}};
    if (!path)
        return SKIP("tokenizer/TestPlans.txt");
    CHECK(file_read(path, &file, 0, &err) == 0, "TestPlans.txt reads");
    for (size_t k = 0; k < 3; k++) {
        struct vocab v;
        struct str rest = buf_str(&file);
        if (!load(&v, vocab_of(str_z(set[k].name))))
            continue;
        struct encoder *enc = encoder_new(&v, (struct encode_options){0}, &err);
        while (rest.n > 0) {
            ptrdiff_t sample, encoded;
            struct str name = str_cut(&rest, '\n'), text;
            struct ids want = {0}, got = {0};
            if (!str_starts(name, "EncodingName: "))
                continue;
            name = (struct str){name.p + 14, name.n - 14};
            sample = str_find(rest, STR_LIT("Sample: "));
            encoded = str_find(rest, STR_LIT("\nEncoded: "));
            if (sample < 0 || encoded < 0 || !str_eqz(str_trim(name), set[k].name))
                continue;
            text = (struct str){rest.p + sample + 8, (size_t)(encoded - sample - 8)};
            rest = (struct str){rest.p + encoded + 10, rest.n - (size_t)encoded - 10};
            parse_numbers(str_cut(&rest, '\n'), &want);
            set[k].seen++;
            if (encode(enc, text, &got, &err) || !equal_ids(&got, &want)) {
                set[k].bad++;
                printf("# \"%.*s\"\n", STR_ARG(text));
                print_ids("got ", &got);
                print_ids("want", &want);
            }
            ids_release(&want);
            ids_release(&got);
        }
        CHECK(set[k].bad == 0 && set[k].seen == set[k].want,
              "TestPlans: the %d %s cases agree (%d seen, %d differ)", set[k].want, set[k].name,
              set[k].seen, set[k].bad);
        encoder_free(enc);
        vocab_release(&v);
    }
    buf_release(&file);
}

/* ---- the slow encoder --------------------------------------------------------------------- */

/* Characters for random texts, with what they are: Letter, Number, Space, Other. */
static const struct sign {
    const char *text;
    char kind;
} signs[] = {
    {"a", 'L'},
    {"e", 'L'},
    {"s", 'L'},
    {"t", 'L'},
    {"l", 'L'},
    {"v", 'L'},
    {"r", 'L'},
    {"d", 'L'},
    {"m", 'L'},
    {"T", 'L'},
    {"H", 'L'},
    {"\xc3\xa9", 'L'},
    {"\xce\xb1", 'L'},
    {"\xe4\xb8\xad", 'L'},
    {"\xf0\xa0\x80\x80", 'L'},
    {"0", 'N'},
    {"1", 'N'},
    {"7", 'N'},
    {"\xc2\xb2", 'N'},
    {"\xd9\xa3", 'N'},
    {" ", 'S'},
    {" ", 'S'},
    {" ", 'S'},
    {"\n", 'S'},
    {"\r", 'S'},
    {"\t", 'S'},
    {"\xc2\xa0", 'S'},
    {"\xe3\x80\x80", 'S'},
    {"\xc2\x85", 'S'},
    {"'", 'O'},
    {".", 'O'},
    {",", 'O'},
    {"-", 'O'},
    {"<", 'O'},
    {"|", 'O'},
    {"\xe1\xa0\x8e", 'O'},
    {"\xcc\x81", 'O'},
    {"\xf0\x9f\x8c\x8d", 'O'},
    {"\xef\xbb\xbf", 'O'},
    {"\x1c", 'O'},
    {"\x01", 'O'},
};
enum { NSIGN = sizeof signs / sizeof *signs, MAX_TEXT = 300 };

/* GPT-2's pattern by hand: the end of the piece of signs that starts at i. */
static int slow_piece(const int *s, int n, int i)
{
    static const char *const tails[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    int j = i, blank = strcmp(signs[s[i]].text, " ") == 0;
    if (strcmp(signs[s[i]].text, "'") == 0) {
        for (int k = 0; k < 7; k++) {
            int len = (int)strlen(tails[k]), ok = i + len < n;
            for (int c = 0; ok && c < len; c++)
                ok = signs[s[i + 1 + c]].text[0] == tails[k][c] && !signs[s[i + 1 + c]].text[1];
            if (ok)
                return i + 1 + len;
        }
    }
    j = i + (blank && i + 1 < n && signs[s[i + 1]].kind != 'S');
    if (signs[s[j]].kind != 'S') {
        char kind = signs[s[j]].kind;
        while (j < n && signs[s[j]].kind == kind)
            j++;
        return j;
    }
    for (j = i; j < n && signs[s[j]].kind == 'S';)
        j++;
    return j == n || j == i + 1 ? j : j - 1; /* the last space goes with what follows */
}

/* Merges by rescanning, ranks by asking for the joined bytes. */
static size_t slow_merge(const struct vocab *v, struct str piece, struct ids *out)
{
    size_t at[MAX_TEXT * 4 + 1], n = piece.n;
    for (size_t i = 0; i <= n; i++)
        at[i] = i;
    for (;;) {
        int32_t best = -1;
        size_t where = 0;
        for (size_t i = 0; i + 2 <= n; i++) {
            int32_t id = vocab_find(v, (struct str){piece.p + at[i], at[i + 2] - at[i]});
            if (id >= 0 && (best < 0 || id < best)) {
                best = id;
                where = i;
            }
        }
        if (best < 0)
            break;
        for (size_t i = where + 1; i < n; i++)
            at[i] = at[i + 1];
        n--;
    }
    for (size_t i = 0; i < n; i++)
        ids_add(out, vocab_find(v, (struct str){piece.p + at[i], at[i + 1] - at[i]}));
    return n;
}

static void differential(const char *file)
{
    struct vocab v;
    int bad = 0, bad_split = 0;
    if (!load(&v, file))
        return SKIP("a vocabulary for the slow encoder");
    struct encoder *fast = encoder_new(&v, (struct encode_options){0}, &err);
    struct encoder *plain = encoder_new(&v, (struct encode_options){.plain_split = true}, &err);
    struct rng rng = rng_make(1, "test_bpe", 0);
    for (int round = 0; round < 20000; round++) {
        int s[MAX_TEXT], n = 1 + (int)rng_below(&rng, round % 50 ? 24 : MAX_TEXT);
        size_t at[MAX_TEXT + 1];
        struct buf text = {0};
        struct ids want = {0}, got = {0}, again = {0};
        int last = 0;
        for (int i = 0; i < n; i++) {
            /* runs: the same sign again, or another one */
            s[i] = i > 0 && rng_below(&rng, 3) == 0 ? last : (int)rng_below(&rng, NSIGN);
            last = s[i];
            at[i] = text.n;
            buf_addz(&text, signs[s[i]].text);
        }
        at[n] = text.n;
        for (int i = 0; i < n;) {
            int end = slow_piece(s, n, i);
            slow_merge(&v, (struct str){text.p + at[i], at[end] - at[i]}, &want);
            i = end;
        }
        if (encode(fast, buf_str(&text), &got, &err) || !equal_ids(&got, &want)) {
            if (bad++ < 3) {
                printf("# \"%s\"\n", text.p);
                print_ids("got ", &got);
                print_ids("want", &want);
            }
        }
        bad_split += encode(plain, buf_str(&text), &again, &err) || !equal_ids(&again, &got);
        ids_release(&want);
        ids_release(&got);
        ids_release(&again);
        buf_release(&text);
    }
    CHECK(bad == 0, "%s: 20,000 random texts equal the slow encoder (%d differ)", file, bad);
    CHECK(bad_split == 0, "%s: the short cut for ASCII words never matters (%d differ)", file,
          bad_split);
    encoder_free(fast);
    encoder_free(plain);
    vocab_release(&v);
}

/* Pieces that differ in one byte, at every place and length the cache knows, one behind the other. */
static void cache(void)
{
    struct vocab v;
    int bad = 0;
    if (!load(&v, "tokenizer/vocab.bpe"))
        return SKIP("the gpt2 vocabulary");
    struct encoder *with = encoder_new(&v, (struct encode_options){0}, &err);
    struct encoder *without = encoder_new(&v, (struct encode_options){.no_cache = true}, &err);
    for (size_t n = 1; n <= 40; n++) {
        for (size_t at = 0; at <= n; at++) {
            char text[40];
            struct ids a = {0}, b = {0};
            memset(text, 'a', sizeof text);
            if (at < n)
                text[at] = 'b';
            if (encode(with, (struct str){text, n}, &a, &err) ||
                encode(without, (struct str){text, n}, &b, &err) || !equal_ids(&a, &b))
                bad++;
            ids_release(&a);
            ids_release(&b);
        }
    }
    CHECK(bad == 0, "the cache takes no piece for another (%d differ)", bad);
    encoder_free(with);
    encoder_free(without);
    vocab_release(&v);
}

/* ---- policies ----------------------------------------------------------------------------- */

static void check_ids(const struct vocab *v, struct encode_options o, struct str text,
                      const char *want, const char *what)
{
    struct encoder *enc = encoder_new(v, o, &err);
    struct ids ids = {0};
    struct buf got = {0};
    buf_addz(&got, "");
    if (encode(enc, text, &ids, &err) == 0) {
        for (size_t i = 0; i < ids.n; i++)
            buf_printf(&got, "%s%d", i ? " " : "", (int)ids.v[i]);
    } else {
        buf_printf(&got, "error: %s", err.msg);
    }
    CHECK_STR(got.p ? got.p : "", want, "%s", what);
    encoder_free(enc);
    ids_release(&ids);
    buf_release(&got);
}

static void policies(void)
{
    struct vocab g, c;
    struct encode_options plain = {0}, allow = {.special = SPECIAL_ALLOW},
                          refuse = {.special = SPECIAL_ERROR},
                          strict = {.bad_utf8 = BAD_UTF8_ERROR}, raw = {.bad_utf8 = BAD_UTF8_RAW};
    if (!load(&g, "tokenizer/vocab.bpe") || !load(&c, "tokenizer/cl100k_base.tiktoken"))
        return SKIP("the gpt2 and cl100k vocabularies");
    check_ids(&g, plain, STR_LIT("a<|endoftext|>b"), "64 27 91 437 1659 5239 91 29 65",
              "by default special text is ordinary text");
    check_ids(&g, allow, STR_LIT("a<|endoftext|>b"), "64 50256 65", "allow: it is the token");
    check_ids(&g, refuse, STR_LIT("a<|endoftext|>b"),
              "error: special token <|endoftext|> at byte 1; as text or as the token?",
              "error: it is refused with its place");
    check_ids(&g, allow, STR_LIT("x  <|endoftext|>"), "87 220 220 50256",
              "look-ahead ends at a special token");
    check_ids(&c, plain,
              STR_LIT(" \xc2\x85"
                      "0"),
              "220 126 227 15", "U+0085 is white space");
    check_ids(&c, plain,
              STR_LIT("\xe3\x80\x80\xe3\x80\x80"
                      "a"),
              "23249 23249 64", "look-ahead leaves the last wide space");
    check_ids(&c, plain, STR_LIT("'rer"), "2351 81", "cl100k: a contraction ends where it ends");
    check_ids(&c, plain, STR_LIT("today\n "), "31213 198 220", "cl100k: trailing white space");
    check_ids(&g, plain, STR_LIT("a\0b"), "64 188 65", "NUL is a byte like any other");
    check_ids(&g, plain, STR_LIT(""), "", "an empty text has no tokens");
    check_ids(&g, plain,
              STR_LIT("a\xff\xe4\xb8"
                      "b"),
              "64 6353 65", "replace: U+FFFD for each maximal subpart");
    check_ids(&g, strict, STR_LIT("ab\xff"), "error: byte 2 is not UTF-8",
              "error: bad UTF-8 is refused with its place");
    check_ids(&c, raw, STR_LIT(" \xec\x8b\xa4\xed"), "62085",
              "raw: ill-formed bytes join the piece in front");
    vocab_release(&g);
    vocab_release(&c);
}

/* Any bytes come back under raw; and what is well-formed in between keeps its ids' bytes. */
static void raw_round_trip(void)
{
    struct vocab v;
    int bad = 0;
    if (!load(&v, "tokenizer/vocab.bpe"))
        return SKIP("the gpt2 vocabulary");
    struct encoder *enc = encoder_new(&v, (struct encode_options){.bad_utf8 = BAD_UTF8_RAW}, &err);
    struct rng rng = rng_make(3, "raw", 0);
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t n = rng_below(&rng, sizeof text);
        struct ids ids = {0};
        struct buf back = {0};
        for (size_t i = 0; i < n; i++)
            text[i] =
                (char)(rng_below(&rng, 2) ? 0xc0 + rng_below(&rng, 64) : rng_below(&rng, 256));
        if (encode(enc, (struct str){text, n}, &ids, &err) ||
            decode(&v, ids.v, ids.n, &back, &err) || back.n != n ||
            memcmp(back.p ? back.p : "", text, n))
            bad++;
        ids_release(&ids);
        buf_release(&back);
    }
    CHECK(bad == 0, "raw: 20,000 random byte strings come back (%d do not)", bad);
    CHECK(encoder_counts(enc).bad_texts > 15000, "and those with bad UTF-8 were counted");
    encoder_free(enc);
    vocab_release(&v);
}

static void bad_ids(void)
{
    struct vocab v;
    struct buf out = {0};
    const int32_t ids[] = {64, 50257}, neg[] = {-1};
    if (!load(&v, "tokenizer/vocab.bpe"))
        return SKIP("the gpt2 vocabulary");
    CHECK(decode(&v, ids, 2, &out, &err) < 0, "an id beyond the vocabulary is refused");
    CHECK_STR(err.msg, "id 50257 (the 2. of them) stands for nothing in a vocabulary of 50257",
              "with its place");
    CHECK(decode(&v, neg, 1, &out, &err) < 0, "and a negative one");
    vocab_release(&v);
    buf_release(&out);
}

int main(void)
{
    vectors("tokenizer/vectors.jsonl", "gpt2", 77);
    vectors("tokenizer/vectors.jsonl", "cl100k_base", 77);
    vectors("tokenizer/vectors_o200k.jsonl", "o200k_base", 77);
    vectors("tokenizer/special_vectors.jsonl", "gpt2", 10);
    vectors("tokenizer/special_vectors.jsonl", "cl100k_base", 13);
    file_vectors();
    llama_cpp();
    test_plans();
    differential("tokenizer/vocab.bpe");
    differential("tokenizer/r50k_base.tiktoken");
    cache();
    policies();
    raw_round_trip();
    bad_ids();
    long_vectors("gpt2");
    long_vectors("cl100k_base");
    long_vectors("o200k_base");
    return tap_done();
}
