/* vocab_write: .tiktoken and tokenizer.json.
 *
 * tokenizer.json follows what Hugging Face's tokenizers (0.20 and later) writes for a byte-level
 * BPE: vocab in id order, merges as pairs, specials as added tokens.
 */
#include <string.h>

#include "base/file.h"
#include "tokenizer/vocab_build.h"

static void base64_add(struct str s, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < s.n; i += 3) {
        uint32_t bits = 0;
        size_t n = s.n - i < 3 ? s.n - i : 3;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < n ? (unsigned char)s.p[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            buf_addc(out, k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
}

/* Ranks say everything only if ids follow the order of the merges and nothing else needs saying. */
static int tiktoken_text(const struct vocab *v, struct buf *out, struct err *e)
{
    for (size_t i = 1; i < v->nmerges; i++) {
        if (v->merges[i].id <= v->merges[i - 1].id)
            return err_set(e, "ids do not follow the order of the merges, which .tiktoken cannot "
                              "say; write a tokenizer.json");
    }
    if (v->nspecial > 1 || (v->nspecial == 1 && (v->eot < 0 || v->eot != v->ordinary)))
        return err_set(e,
                       "special tokens other than an end-of-text token behind the last id, which "
                       ".tiktoken cannot say; write a tokenizer.json");
    for (int64_t id = 0; id < v->size; id++) {
        if (v->kind[id] != TOKEN_ORDINARY)
            continue;
        base64_add(v->bytes[id], out);
        buf_printf(out, " %lld\n", (long long)id);
    }
    return 0;
}

static struct json *token_text(struct str bytes)
{
    struct buf b = {0};
    struct json *j;
    alphabet_encode(bytes, &b);
    j = json_of_str(buf_str(&b));
    buf_release(&b);
    return j;
}

/* As pre-tokenizer and as decoder; Hugging Face wants all members in both. */
static struct json *byte_level_step(bool regex)
{
    struct json *step = json_obj();
    json_put(step, "type", json_of_z("ByteLevel"));
    json_put(step, "add_prefix_space", json_of_bool(false));
    json_put(step, "trim_offsets", json_of_bool(true));
    json_put(step, "use_regex", json_of_bool(regex));
    return step;
}

static struct json *pre_tokenizer(const struct split_pattern *p)
{
    bool gpt2 = strcmp(p->name, "gpt2") == 0;
    struct json *byte_level = byte_level_step(gpt2), *seq, *list, *split, *regex;
    if (gpt2)
        return byte_level;
    regex = json_obj();
    json_put(regex, "Regex", json_of_z(p->published[0]));
    split = json_obj();
    json_put(split, "type", json_of_z("Split"));
    json_put(split, "pattern", regex);
    json_put(split, "behavior", json_of_z("Isolated"));
    json_put(split, "invert", json_of_bool(false));
    list = json_arr();
    json_push(list, split);
    json_push(list, byte_level);
    seq = json_obj();
    json_put(seq, "type", json_of_z("Sequence"));
    json_put(seq, "pretokenizers", list);
    return seq;
}

static struct json *added_tokens(const struct vocab *v)
{
    struct json *list = json_arr();
    for (int64_t id = 0; id < v->size; id++) {
        struct json *t;
        if (v->kind[id] != TOKEN_SPECIAL)
            continue;
        t = json_obj();
        json_put(t, "id", json_of_int(id));
        json_put(t, "content", json_of_str(v->bytes[id]));
        json_put(t, "single_word", json_of_bool(false));
        json_put(t, "lstrip", json_of_bool(false));
        json_put(t, "rstrip", json_of_bool(false));
        json_put(t, "normalized", json_of_bool(false));
        json_put(t, "special", json_of_bool(true));
        json_push(list, t);
    }
    return list;
}

static struct json *model(const struct vocab *v, const struct merge *merges, size_t n)
{
    struct json *m = json_obj(), *vocab = json_obj(), *list = json_arr();
    struct buf b = {0};
    for (int64_t id = 0; id < v->size; id++) {
        if (v->kind[id] != TOKEN_ORDINARY)
            continue;
        buf_cut(&b, 0);
        alphabet_encode(v->bytes[id], &b);
        json_put(vocab, b.p, json_of_int(id));
    }
    for (size_t i = 0; i < n; i++) {
        struct json *pair = json_arr();
        json_push(pair, token_text(v->bytes[merges[i].left]));
        json_push(pair, token_text(v->bytes[merges[i].right]));
        json_push(list, pair);
    }
    json_put(m, "type", json_of_z("BPE"));
    json_put(m, "dropout", json_of_null());
    json_put(m, "unk_token", json_of_null());
    json_put(m, "continuing_subword_prefix", json_of_null());
    json_put(m, "end_of_word_suffix", json_of_null());
    json_put(m, "fuse_unk", json_of_bool(false));
    json_put(m, "byte_fallback", json_of_bool(false));
    json_put(m, "ignore_merges", json_of_bool(v->whole));
    json_put(m, "vocab", vocab);
    json_put(m, "merges", list);
    buf_release(&b);
    return m;
}

static int json_text(const struct vocab *v, struct buf *out, struct err *e)
{
    struct arena a = {0};
    struct merge *merges;
    struct json *root;
    size_t n;
    int r = vocab_merges(v, &a, &merges, &n, e);
    if (r < 0)
        goto out;
    root = json_obj();
    json_put(root, "version", json_of_z("1.0"));
    json_put(root, "truncation", json_of_null());
    json_put(root, "padding", json_of_null());
    json_put(root, "added_tokens", added_tokens(v));
    json_put(root, "normalizer", json_of_null());
    json_put(root, "pre_tokenizer", pre_tokenizer(v->pattern));
    json_put(root, "post_processor", json_of_null());
    json_put(root, "decoder", byte_level_step(true));
    json_put(root, "model", model(v, merges, n));
    json_write_pretty(root, out);
    json_free(root);
out:
    arena_release(&a);
    return r;
}

int vocab_save(const struct vocab *v, const char *path, struct err *e)
{
    struct str name = str_z(path);
    struct buf text = {0};
    int r;
    if (str_ends(name, ".tiktoken"))
        r = tiktoken_text(v, &text, e);
    else if (str_ends(name, ".json"))
        r = json_text(v, &text, e);
    else
        r = err_code(e, EXIT_USAGE, "want a name that ends in .tiktoken or .json");
    if (r == 0)
        r = file_write_all(path, buf_str(&text), e);
    else
        err_wrap(e, "%s", path);
    buf_release(&text);
    return r;
}
