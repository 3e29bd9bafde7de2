/* vocab_json: GPT-2's encoder.json with its merges file, and Hugging Face's tokenizer.json.
 *
 * Both write bytes as printable characters (alphabet_decode). In encoder.json a token that is
 * neither a byte nor made by a merge must look like a special ("<|endoftext|>"); anything else
 * means that the two files do not belong together or one is cut.
 * What a tokenizer.json may ask for and we do not do (normalizers, sequences of splits, prefixes,
 * byte fallback) is refused with its name, never skipped.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tokenizer/vocab_build.h"

#define MAX_FILE ((size_t)256 << 20)

static bool stands_for_itself(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t alphabet_of_byte(unsigned char byte)
{
    uint32_t cp = 0x100;
    if (stands_for_itself(byte))
        return byte;
    for (int b = 0; b < byte; b++)
        cp += !stands_for_itself(b);
    return cp;
}

int alphabet_decode(struct arena *a, struct str text, struct str *bytes)
{
    /* The 68 bytes that do not stand for themselves: 00-20, 7F-A0, AD. */
    char *to = arena_alloc(a, text.n + 1);
    size_t n = 0, at = 0;
    while (at < text.n) {
        uint32_t cp = utf8_next(text, &at);
        if (cp >= 0x100 && cp < 0x121)
            cp -= 0x100;
        else if (cp >= 0x121 && cp < 0x143)
            cp = cp - 0x121 + 0x7f;
        else if (cp == 0x143)
            cp = 0xad;
        else if (cp > 0xff || !stands_for_itself((int)cp))
            return -1;
        to[n++] = (char)cp;
    }
    *bytes = (struct str){to, n};
    return 0;
}

void alphabet_encode(struct str bytes, struct buf *out)
{
    for (size_t i = 0; i < bytes.n; i++) {
        char c[4];
        buf_add(out, c, (size_t)utf8_put(c, alphabet_of_byte((unsigned char)bytes.p[i])));
    }
}

/* ---- merges ------------------------------------------------------------------------------- */

/* One merge as "left right". */
static int add_merge(struct vocab_draft *d, struct str row, int64_t line, struct err *e)
{
    struct str rest = row, left = str_cut(&rest, ' '), l, r;
    if (left.n == 0 || rest.n == 0 || memchr(rest.p, ' ', rest.n))
        return err_set(e, "want two tokens with a blank between them, not \"%.*s\"",
                       (int)(row.n > 60 ? 60 : row.n), row.p);
    if (utf8_valid(row) != row.n || alphabet_decode(&d->arena, left, &l) ||
        alphabet_decode(&d->arena, rest, &r))
        return err_set(e, "a character outside the byte-level alphabet");
    draft_merge(d, l, r, line);
    return 0;
}

static int read_merges(struct vocab_draft *d, const char *path, struct err *e)
{
    struct buf file = {0};
    struct str text;
    int64_t line = 0;
    int r = -1;
    if (file_read(path, &file, MAX_FILE, e))
        goto out;
    text = buf_str(&file);
    while (text.n > 0) {
        struct str row = str_cut(&text, '\n');
        line++;
        if (row.n > 0 && row.p[row.n - 1] == '\r')
            row.n--;
        if (row.n == 0 || (line == 1 && str_starts(row, "#version")))
            continue;
        if (add_merge(d, row, line, e)) {
            err_wrap(e, "%s:%lld", path, (long long)line);
            goto out;
        }
    }
    if (d->nmerges == 0)
        err_set(e, "%s: no merges in it", path);
    else
        r = 0;
out:
    buf_release(&file);
    return r;
}

/* ---- encoder.json ------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* What the merges make, sorted. Caller frees. */
static struct str *products(struct vocab_draft *d)
{
    struct str *v = mem_array(d->nmerges + 1, sizeof *v);
    for (size_t i = 0; i < d->nmerges; i++) {
        struct str l = d->merges[i].left, r = d->merges[i].right;
        char *p = arena_alloc(&d->arena, l.n + r.n);
        memcpy(p, l.p, l.n);
        memcpy(p + l.n, r.p, r.n);
        v[i] = (struct str){p, l.n + r.n};
    }
    qsort(v, d->nmerges, sizeof *v, by_bytes);
    return v;
}

static bool looks_special(struct str s)
{
    return s.n >= 3 &&
           ((s.p[0] == '<' && s.p[s.n - 1] == '>') || (s.p[0] == '[' && s.p[s.n - 1] == ']'));
}

int read_gpt2(struct vocab_draft *d, const char *merges, const char *ids, struct err *e)
{
    struct json *root = NULL;
    struct str *made = NULL;
    const char *text;
    const struct json *id;
    void *it = NULL;
    int r = -1;
    d->path = merges;
    if (read_merges(d, merges, e) || !(root = json_read(ids, e)))
        goto out;
    d->path = arena_printf(&d->arena, "%s with %s", ids, path_base(merges));
    if (json_kind(root) != JSON_OBJ) {
        err_set(e, "%s: want an object of tokens and their ids", ids);
        goto out;
    }
    made = products(d);
    while (json_each(root, &it, &text, &id)) {
        struct str token = str_z(text), bytes;
        if (json_kind(id) != JSON_INT) {
            err_set(e, "%s: the id of token \"%s\" is no integer", ids, text);
            goto out;
        }
        if (alphabet_decode(&d->arena, token, &bytes) == 0 &&
            (bytes.n == 1 || bsearch(&bytes, made, d->nmerges, sizeof *made, by_bytes))) {
            draft_add(d, json_int(id, -1), bytes, TOKEN_ORDINARY, 0);
        } else if (looks_special(token)) {
            draft_add(d, json_int(id, -1), str_copy(&d->arena, token), TOKEN_SPECIAL, 0);
        } else {
            err_set(e,
                    "%s: token \"%.80s\" is neither a byte nor made by a merge of %s: is that file "
                    "cut?",
                    ids, text, merges);
            goto out;
        }
    }
    r = 0;
out:
    free(made);
    json_free(root);
    return r;
}

/* ---- tokenizer.json ----------------------------------------------------------------------- */

/* Steps of the pre-tokenizer: which pattern splits, and that bytes are mapped. */
struct steps {
    struct str pattern; /* name, or empty */
    struct str unknown; /* a regex that is none of ours */
    int splits;
    bool byte_level;
};

static int read_step(const struct json *step, struct steps *s, struct err *e)
{
    struct str type = json_str(json_get(step, "type"));
    const struct json *list = json_get(step, "pretokenizers");
    if (str_eqz(type, "Sequence")) {
        if (json_kind(list) != JSON_ARR || json_size(list) > 16)
            return err_set(e, "pre_tokenizer: a Sequence without its list");
        for (size_t i = 0; i < json_size(list); i++) {
            if (str_eqz(json_str(json_get(json_at(list, i), "type")), "Sequence"))
                return err_set(e, "pre_tokenizer: a Sequence inside a Sequence is not supported");
            if (read_step(json_at(list, i), s, e))
                return -1;
        }
        return 0;
    }
    if (str_eqz(type, "ByteLevel")) {
        const struct json *regex = json_get(step, "use_regex");
        s->byte_level = true;
        if (json_bool(json_get(step, "add_prefix_space")))
            return err_set(e, "pre_tokenizer: add_prefix_space is not supported");
        if (!regex || json_bool(regex)) {
            s->splits++;
            s->pattern = STR_LIT("gpt2");
        }
        return 0;
    }
    if (str_eqz(type, "Split")) {
        struct str text = json_str(json_get(json_get(step, "pattern"), "Regex"));
        const struct split_pattern *p = split_find_published(text);
        s->splits++;
        s->pattern = p ? str_z(p->name) : (struct str){0};
        s->unknown = p ? s->unknown : text;
        return 0;
    }
    return err_set(e, "pre_tokenizer: a step of type \"%.*s\" is not supported", STR_ARG(type));
}

static int read_pattern(struct vocab_draft *d, const struct json *root, bool given, struct err *e)
{
    struct steps s = {0};
    if (read_step(json_get(root, "pre_tokenizer"), &s, e))
        return -1;
    if (!s.byte_level)
        return err_set(e, "pre_tokenizer: no ByteLevel step: this is not a byte-level BPE");
    if (given)
        return 0;
    if (s.splits != 1)
        return err_set(e, "pre_tokenizer: %d split steps, want one; --pattern says which to use",
                       s.splits);
    if (!s.pattern.n)
        return err_set(e,
                       "pre_tokenizer: the split pattern \"%.*s\" is not one of ours; --pattern "
                       "says which to use instead",
                       (int)(s.unknown.n > 200 ? 200 : s.unknown.n),
                       s.unknown.n ? s.unknown.p : "");
    d->pattern = s.pattern;
    return 0;
}

static int check_model(struct vocab_draft *d, const struct json *root, struct err *e)
{
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const struct json *m = json_get(root, "model"), *norm = json_get(root, "normalizer");
    struct str type = json_str(json_get(m, "type"));
    if (type.n && !str_eqz(type, "BPE"))
        return err_set(e, "model: type \"%.*s\", want BPE", STR_ARG(type));
    if (json_bool(json_get(m, "byte_fallback")))
        return err_set(e, "model: byte_fallback is not supported, this is not a byte-level BPE");
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        if (json_str(json_get(m, empty[i])).n)
            return err_set(e, "model: %s is not supported", empty[i]);
    }
    if (json_kind(norm) == JSON_OBJ) {
        struct str kind = json_str(json_get(norm, "type"));
        if (!str_eqz(kind, "NFC"))
            return err_set(e, "normalizer: \"%.*s\" is not supported", STR_ARG(kind));
        d->note = STR_LIT("its NFC normalizer is not applied: text is taken as it is");
    }
    if (json_kind(json_get(m, "vocab")) != JSON_OBJ || json_kind(json_get(m, "merges")) != JSON_ARR)
        return err_set(e, "model: wants \"vocab\" and \"merges\"");
    d->whole = json_bool(json_get(m, "ignore_merges"));
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct vocab_entry *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int read_added(struct vocab_draft *d, const struct json *root, struct err *e)
{
    const struct json *added = json_get(root, "added_tokens");
    for (size_t i = 0; i < json_size(added); i++) {
        const struct json *t = json_at(added, i);
        struct str text = json_str(json_get(t, "content"));
        if (!text.n || json_kind(json_get(t, "id")) != JSON_INT)
            return err_set(e, "added_tokens: entry %zu wants \"id\" and \"content\"", i);
        draft_add(d, json_int(json_get(t, "id"), -1), str_copy(&d->arena, text), TOKEN_SPECIAL, 0);
    }
    qsort(d->v, d->n, sizeof *d->v, by_id);
    return 0;
}

static int read_model(struct vocab_draft *d, const struct json *root, struct err *e)
{
    const struct json *vocab = json_get(json_get(root, "model"), "vocab"), *id;
    const struct json *merges = json_get(json_get(root, "model"), "merges");
    size_t added = d->n;
    void *it = NULL;
    const char *text;
    while (json_each(vocab, &it, &text, &id)) {
        struct vocab_entry *same, key = {.id = json_int(id, -1)};
        struct str bytes;
        if (json_kind(id) != JSON_INT)
            return err_set(e, "model.vocab: the id of \"%.80s\" is no integer", text);
        same = bsearch(&key, d->v, added, sizeof key, by_id);
        if (same && str_eqz(same->bytes, text))
            continue; /* listed as an added token as well */
        if (alphabet_decode(&d->arena, str_z(text), &bytes))
            return err_set(e,
                           "model.vocab: token \"%.80s\" holds a character outside the byte-level "
                           "alphabet",
                           text);
        draft_add(d, key.id, bytes, TOKEN_ORDINARY, 0);
    }
    for (size_t i = 0; i < json_size(merges); i++) {
        const struct json *m = json_at(merges, i);
        struct str row = json_str(m), l = json_str(json_at(m, 0)), r = json_str(json_at(m, 1));
        if (json_kind(m) == JSON_ARR && json_size(m) == 2)
            row = str_printf(&d->arena, "%.*s %.*s", STR_ARG(l), STR_ARG(r));
        if (add_merge(d, row, 0, e))
            return err_wrap(e, "model.merges: entry %zu", i);
    }
    return 0;
}

int read_tokenizer_json(struct vocab_draft *d, const char *path, const struct json *root,
                        bool pattern_given, struct err *e)
{
    d->path = path;
    if (check_model(d, root, e) || read_pattern(d, root, pattern_given, e) ||
        read_added(d, root, e) || read_model(d, root, e))
        return err_wrap(e, "%s", path);
    return 0;
}
