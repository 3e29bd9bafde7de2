/* bpe: encoding and decoding.
 *
 * Text repeats itself: nine pieces of ten were seen before. So each encoder has a direct-mapped
 * cache of pieces up to 32 bytes with their ids, one cache line an entry; a hit costs one hash and
 * one compare of at most four words, and neither the vocabulary nor the merges are touched.
 */
#include "tokenizer/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *const special_policy_names[] = {"plain", "allow", "error", NULL};

enum { CACHE_BITS = 15, CACHE_PIECE = 32, CACHE_IDS = 7 };

/* The bytes of a piece as words: with its length they determine it. */
struct piece_key {
    uint64_t w[CACHE_PIECE / 8];
};
struct cached {
    struct piece_key key;
    uint8_t bytes; /* of the piece; 0: empty entry */
    uint8_t n;
    int32_t ids[CACHE_IDS];
};

struct encoder {
    const struct vocab *vocab;
    struct encode_options opt;
    struct split *split;
    struct splitter *splitter;
    struct cached *cache; /* 1 << CACHE_BITS entries; NULL: none */
    struct merge_scratch scratch;
    struct ids piece;        /* a piece while it is merged */
    struct buf mended;       /* text with its bad UTF-8 replaced */
    struct special *special; /* those that are looked for, longest first */
    size_t nspecial;
    bool first[256]; /* bytes that one of them starts with */
    struct encode_counts counts;
};

void ids_add(struct ids *x, int32_t id)
{
    if (x->n == x->cap) {
        x->cap = x->cap ? x->cap * 2 : 256;
        x->v = mem_grow(x->v, x->cap * sizeof *x->v);
    }
    x->v[x->n++] = id;
}

void ids_release(struct ids *x)
{
    free(x->v);
    *x = (struct ids){0};
}

static void ids_append(struct ids *x, const int32_t *ids, size_t n)
{
    if (x->cap - x->n < n) {
        while (x->cap - x->n < n)
            x->cap = x->cap ? x->cap * 2 : 256;
        x->v = mem_grow(x->v, x->cap * sizeof *x->v);
    }
    memcpy(x->v + x->n, ids, n * sizeof *ids);
    x->n += n;
}

static bool wanted(const struct encode_options *o, struct str text)
{
    for (size_t i = 0; i < o->only.n; i++) {
        if (str_eq(o->only.v[i], text))
            return true;
    }
    return o->only.n == 0;
}

struct encoder *encoder_new(const struct vocab *v, struct encode_options o, struct err *e)
{
    struct encoder *x = mem_zero(sizeof *x);
    x->vocab = v;
    x->opt = o;
    x->split = split_new(v->pattern, e);
    if (!x->split) {
        encoder_free(x);
        return NULL;
    }
    x->splitter = splitter_new(x->split, o.plain_split);
    if (!o.no_cache)
        x->cache = mem_aligned(64, sizeof *x->cache << CACHE_BITS);
    x->special = mem_array(v->nspecial + 1, sizeof *x->special);
    for (size_t i = 0; i < v->nspecial; i++) {
        if (!wanted(&o, v->special[i].text))
            continue;
        x->special[x->nspecial++] = v->special[i];
        x->first[(unsigned char)v->special[i].text.p[0]] = true;
    }
    return x;
}

void encoder_free(struct encoder *x)
{
    if (!x)
        return;
    splitter_free(x->splitter);
    split_free(x->split);
    free(x->special);
    free(x->cache);
    merge_release(&x->scratch);
    ids_release(&x->piece);
    buf_release(&x->mended);
    free(x);
}

struct encode_counts encoder_counts(const struct encoder *x)
{
    struct encode_counts c = x->counts;
    c.work = x->scratch.work;
    return c;
}

/* ---- pieces ------------------------------------------------------------------------------- */

static uint64_t load64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t load32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Loads that overlap instead of loops or reads behind the end. n is 1 to CACHE_PIECE. */
static struct piece_key piece_key(const char *p, size_t n)
{
    struct piece_key k = {{0}};
    if (n >= 8) {
        k.w[0] = load64(p);
        k.w[1] = load64(p + n - 8);
        if (n > 16) {
            k.w[2] = load64(p + 8);
            k.w[3] = load64(p + n - 16);
        }
    } else if (n >= 4) {
        k.w[0] = load32(p) | (uint64_t)load32(p + n - 4) << 32;
    } else {
        k.w[0] = (unsigned char)p[0] | (uint64_t)(unsigned char)p[n / 2] << 8 |
                 (uint64_t)(unsigned char)p[n - 1] << 16;
    }
    return k;
}

static size_t cache_slot(const struct piece_key *k, size_t n)
{
    const uint64_t m = 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    uint64_t h = (k->w[0] ^ n) * m;
    h = (h ^ (h >> 29) ^ k->w[1]) * m;
    h = (h ^ (h >> 31) ^ k->w[2] ^ k->w[3] * 3) * m;
    return h >> (64 - CACHE_BITS);
}

/* The tokens of a piece without the cache, into x->piece. */
static void piece_ids(struct encoder *x, const char *p, size_t n)
{
    const struct vocab *v = x->vocab;
    int32_t id = v->whole ? vocab_find(v, (struct str){p, n}) : -1;
    x->piece.n = 0;
    if (id >= 0) {
        ids_add(&x->piece, id);
        return;
    }
    if (x->piece.cap < n) {
        x->piece.cap = n * 2;
        x->piece.v = mem_grow(x->piece.v, x->piece.cap * sizeof *x->piece.v);
    }
    for (size_t i = 0; i < n; i++)
        x->piece.v[i] = v->byte_id[(unsigned char)p[i]];
    x->piece.n = merge_ids(&v->pairs, x->piece.v, n, PAIR_NONE, &x->scratch);
}

static void encode_piece(struct encoder *x, const char *p, size_t n, struct ids *out)
{
    x->counts.pieces++;
    if (n > CACHE_PIECE || !x->cache) {
        piece_ids(x, p, n);
        ids_append(out, x->piece.v, x->piece.n);
        return;
    }
    struct piece_key key = piece_key(p, n);
    struct cached *c = &x->cache[cache_slot(&key, n)];
    if (c->bytes == n && memcmp(&c->key, &key, sizeof key) == 0) {
        x->counts.cached++;
    } else {
        piece_ids(x, p, n);
        if (x->piece.n > CACHE_IDS) {
            ids_append(out, x->piece.v, x->piece.n);
            return;
        }
        c->key = key;
        c->bytes = (uint8_t)n;
        c->n = (uint8_t)x->piece.n;
        memcpy(c->ids, x->piece.v, x->piece.n * sizeof *c->ids);
    }
    if (out->cap - out->n >= CACHE_IDS) {
        memcpy(out->v + out->n, c->ids, sizeof c->ids); /* a fixed size is one move */
        out->n += c->n;
    } else {
        ids_append(out, c->ids, c->n);
    }
}

/* Pieces of the well-formed text[0..good); bytes behind it join the last one. */
static int encode_run(struct encoder *x, struct str text, size_t good, struct ids *out,
                      struct err *e)
{
    struct str run = {text.p, good};
    size_t at = 0, end;
    while (at < good) {
        if (split_next(x->splitter, run, at, &end, e))
            return -1;
        if (end == good)
            break; /* the last piece */
        encode_piece(x, text.p + at, end - at, out);
        at = end;
    }
    if (at < text.n)
        encode_piece(x, text.p + at, text.n - at, out);
    return 0;
}

/* ---- bad UTF-8 ---------------------------------------------------------------------------- */

/* Where the next well-formed sequence starts behind ill-formed bytes at `at`. */
static size_t bad_end(struct str s, size_t at)
{
    while (at < s.n && utf8_valid((struct str){s.p + at, s.n - at < 4 ? s.n - at : 4}) == 0)
        at += utf8_bad((struct str){s.p + at, s.n - at});
    return at;
}

static struct str mend(struct encoder *x, struct str s)
{
    buf_cut(&x->mended, 0);
    while (s.n > 0) {
        size_t n = utf8_valid(s);
        buf_add(&x->mended, s.p, n);
        s = (struct str){s.p + n, s.n - n};
        if (s.n == 0)
            break;
        n = utf8_bad(s);
        buf_addz(&x->mended, "\xef\xbf\xbd");
        s = (struct str){s.p + n, s.n - n};
    }
    return buf_str(&x->mended);
}

/* A text without special tokens; `good`: its first ill-formed byte or its end. */
static int encode_segment(struct encoder *x, struct str s, size_t good, struct ids *out,
                          struct err *e)
{
    while (s.n > 0) {
        size_t end = good < s.n ? bad_end(s, good) : s.n;
        if (encode_run(x, (struct str){s.p, end}, good, out, e))
            return -1;
        s = (struct str){s.p + end, s.n - end};
        good = utf8_valid(s);
    }
    return 0;
}

/* ---- special tokens ----------------------------------------------------------------------- */

/* The left-most special token at or behind `from`, the longest one there; NULL if none. */
static const struct special *find_special(const struct encoder *x, struct str s, size_t from,
                                          size_t *at)
{
    for (size_t i = from; i < s.n; i++) {
        if (!x->first[(unsigned char)s.p[i]])
            continue;
        for (size_t k = 0; k < x->nspecial; k++) {
            const struct special *t = &x->special[k];
            if (t->text.n <= s.n - i && memcmp(t->text.p, s.p + i, t->text.n) == 0) {
                *at = i;
                return t;
            }
        }
    }
    return NULL;
}

static int encode_parts(struct encoder *x, struct str s, bool valid, struct ids *out, struct err *e)
{
    size_t from = 0, at = 0;
    const struct special *t;
    while (x->opt.special != SPECIAL_PLAIN && (t = find_special(x, s, from, &at))) {
        struct str part = {s.p + from, at - from};
        if (x->opt.special == SPECIAL_ERROR)
            return err_set(e, "special token %.*s at byte %zu; as text or as the token?",
                           STR_ARG(t->text), at);
        if (encode_segment(x, part, valid ? part.n : utf8_valid(part), out, e))
            return -1;
        ids_add(out, t->id);
        from = at + t->text.n;
    }
    s = (struct str){s.p + from, s.n - from};
    return encode_segment(x, s, valid ? s.n : utf8_valid(s), out, e);
}

int encode(struct encoder *x, struct str text, struct ids *out, struct err *e)
{
    size_t before = out->n, good = utf8_valid(text);
    struct str s = text;
    if (text.n >= UINT32_MAX)
        return err_set(e, "a text of %zu bytes; 4 GiB is the limit", text.n);
    if (good < text.n) {
        if (x->opt.bad_utf8 == BAD_UTF8_ERROR)
            return err_set(e, "byte %zu is not UTF-8", good);
        x->counts.bad_texts++;
        if (x->opt.bad_utf8 == BAD_UTF8_REPLACE)
            s = mend(x, text);
        if (s.n >= UINT32_MAX)
            return err_set(e, "a text of %zu bytes; 4 GiB is the limit", s.n);
    }
    if (encode_parts(x, s, good == text.n || x->opt.bad_utf8 == BAD_UTF8_REPLACE, out, e)) {
        out->n = before;
        return -1;
    }
    x->counts.texts++;
    x->counts.bytes += (int64_t)text.n;
    x->counts.tokens += (int64_t)(out->n - before);
    return 0;
}

int decode(const struct vocab *v, const int32_t *ids, size_t n, struct buf *out, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct str s;
        if (!vocab_bytes(v, ids[i], &s))
            return err_set(e, "id %d (the %zu. of them) stands for nothing in a vocabulary of %lld",
                           (int)ids[i], i + 1, (long long)v->size);
        if (buf_adds(out, s))
            return err_set(e, "more than %zu bytes", out->max);
    }
    return 0;
}
