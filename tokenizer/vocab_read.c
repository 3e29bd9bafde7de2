/* vocab_read: which reader a path needs, and the .tiktoken reader.
 *
 * .tiktoken (openai/tiktoken, tiktoken/load.py): one "BASE64 RANK" a line. It has no specials and no
 * pattern. Order of belief: the manifest that `vocab train` left beside the file, then the published
 * files, told by their SHA-256 (the pins of tiktoken_ext/openai_public.py), then the rule that EOT
 * is the id behind the last rank and the pattern is gpt2.
 */
#include <string.h>

#include "base/file.h"
#include "formats/manifest.h"
#include "tokenizer/vocab_build.h"

#define MAX_FILE ((size_t)256 << 20)

static const struct published {
    const char *sha256, *pattern;
    struct {
        const char *text;
        int32_t id;
    } special[6];
} published[] = {
    {"306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
     "gpt2",
     {{VOCAB_EOT, 50256}}},
    {"223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
     "cl100k",
     {{VOCAB_EOT, 100257},
      {"<|fim_prefix|>", 100258},
      {"<|fim_middle|>", 100259},
      {"<|fim_suffix|>", 100260},
      {"<|endofprompt|>", 100276}}},
    {"446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
     "o200k",
     {{VOCAB_EOT, 199999}, {"<|endofprompt|>", 200018}}},
};

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* RFC 4648 with padding, no other characters, no stray bits. The bytes are in the arena. */
static int base64_decode(struct arena *a, struct str text, struct str *out)
{
    unsigned char *to = arena_alloc(a, text.n / 4 * 3 + 1);
    size_t n = 0, pad = 0;
    if (text.n == 0 || text.n % 4 != 0)
        return -1;
    while (pad < 2 && text.p[text.n - 1 - pad] == '=')
        pad++;
    for (size_t i = 0; i < text.n; i += 4) {
        uint32_t bits = 0;
        size_t digits = i + 4 == text.n ? 4 - pad : 4;
        for (size_t k = 0; k < 4; k++) {
            int d = k < digits ? base64_digit(text.p[i + k]) : 0;
            if (d < 0)
                return -1;
            bits = bits << 6 | (uint32_t)d;
        }
        for (size_t k = 0; k < 3; k++) {
            unsigned char byte = (unsigned char)(bits >> (16 - 8 * k));
            if (k < digits - 1)
                to[n++] = byte;
            else if (byte != 0)
                return -1;
        }
    }
    *out = (struct str){(char *)to, n};
    return 0;
}

/* The ranks of the file. */
static int tiktoken_lines(struct vocab_draft *d, struct str text, struct err *e)
{
    int64_t line = 0;
    while (text.n > 0) {
        struct str row = str_cut(&text, '\n'), word = row, bytes;
        int64_t rank;
        line++;
        if (row.n > 0 && row.p[row.n - 1] == '\r')
            row.n--;
        if (row.n == 0)
            continue;
        word = str_cut(&row, ' ');
        if (row.n == 0)
            return err_set(e, "%s:%lld: want \"BASE64 RANK\", the rank is missing", d->path,
                           (long long)line);
        if (base64_decode(&d->arena, word, &bytes))
            return err_set(e, "%s:%lld: \"%.*s\" is not base64", d->path, (long long)line,
                           (int)(word.n > 60 ? 60 : word.n), word.p);
        if (row.p[0] < '0' || row.p[0] > '9' || str_i64(row, &rank))
            return err_set(e, "%s:%lld: \"%.*s\" is not a rank", d->path, (long long)line,
                           (int)(row.n > 60 ? 60 : row.n), row.p);
        draft_add(d, rank, bytes, TOKEN_ORDINARY, line);
    }
    return 0;
}

/* What the manifest says: 1 it had the facts of a vocabulary, 0 none, -1. */
static int tiktoken_manifest(struct vocab_draft *d, struct err *e)
{
    struct json *m;
    int r = -1;
    if (!file_exists(manifest_path(&d->arena, d->path)))
        return 0;
    m = manifest_read(d->path, e);
    if (!m)
        return -1;
    const struct json *facts = json_get(m, "facts"), *specials = json_get(facts, "specials"), *id;
    struct str pattern = json_str(json_get(facts, "pattern"));
    int64_t size = json_int(json_get(facts, "size"), -1), tokens = (int64_t)d->n;
    void *it = NULL;
    const char *text;
    if (!pattern.n || json_kind(specials) != JSON_OBJ) {
        r = 0; /* of another command, such as fetch */
        goto out;
    }
    d->pattern = str_copy(&d->arena, pattern);
    d->eot = str_copy(&d->arena, json_str(json_get(facts, "eot_text")));
    while (json_each(specials, &it, &text, &id))
        draft_add(d, json_int(id, -1), str_z(arena_strdup(&d->arena, text)), TOKEN_SPECIAL, 0);
    if (json_int(json_get(facts, "ordinary"), -1) != tokens) {
        err_set(e, "%s: has %lld tokens, but its manifest says %lld of %lld: is it cut?", d->path,
                (long long)tokens, (long long)json_int(json_get(facts, "ordinary"), -1),
                (long long)size);
        goto out;
    }
    r = 1;
out:
    json_free(m);
    return r;
}

static const struct published *tiktoken_published(struct str text)
{
    char hex[SHA256_HEX];
    sha256_hex(text, hex);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        if (strcmp(published[i].sha256, hex) == 0)
            return &published[i];
    }
    return NULL;
}

int read_tiktoken(struct vocab_draft *d, const char *path, struct str eot, struct err *e)
{
    struct buf text = {0};
    const struct published *known;
    int64_t last = -1;
    int r = -1, told;
    d->path = path;
    d->by_rank = d->whole = true;
    if (file_read(path, &text, MAX_FILE, e) || tiktoken_lines(d, buf_str(&text), e))
        goto out;
    for (size_t i = 0; i < d->n; i++)
        last = d->v[i].id > last ? d->v[i].id : last;
    known = tiktoken_published(buf_str(&text));
    told = tiktoken_manifest(d, e);
    if (told < 0)
        goto out;
    if (told == 0 && known) {
        d->pattern = str_z(known->pattern);
        for (int i = 0; known->special[i].text; i++)
            draft_add(d, known->special[i].id, str_z(known->special[i].text), TOKEN_SPECIAL, 0);
    } else if (told == 0 && d->n > 0) {
        draft_add(d, last + 1, eot.n ? eot : STR_LIT(VOCAB_EOT), TOKEN_SPECIAL, 0);
    }
    r = 0;
out:
    buf_release(&text);
    return r;
}

/* ---- which reader ------------------------------------------------------------------------- */

/* The file of a folder that says what is in it; NULL and an error if that is not clear. */
static const char *in_folder(struct arena *a, const char *dir, struct err *e)
{
    static const char *const names[] = {"tokenizer.json", "vocab.bpe", "merges.txt"};
    struct strs files;
    const char *found = NULL;
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = path_join(a, dir, names[i]);
        if (file_exists(path))
            return path;
    }
    if (file_list(dir, &files, a, e))
        return NULL;
    for (size_t i = 0; i < files.n; i++) {
        if (str_ends(files.v[i], ".tiktoken") && ++n)
            found = path_join(a, dir, str_dup(a, files.v[i]));
    }
    if (n == 1)
        return found;
    if (n > 1)
        err_set(e, "%s: %d .tiktoken files in this folder: name one", dir, n);
    else
        err_set(e, "%s: no tokenizer.json, vocab.bpe, merges.txt or .tiktoken in this folder", dir);
    return NULL;
}

/* The other file of GPT-2's pair, beside `path`. */
static const char *sibling(struct arena *a, const char *path, const char *one, const char *two,
                           struct err *e)
{
    const char *dir = path_dir(a, path), *p = path_join(a, dir, one), *q = path_join(a, dir, two);
    if (file_exists(p))
        return p;
    if (file_exists(q))
        return q;
    err_set(e, "%s: needs %s or %s beside it", path, one, two);
    return NULL;
}

static int read_json(struct vocab_draft *d, const char *path, bool pattern_given, struct err *e)
{
    struct json *root = json_read(path, e);
    const char *merges;
    int r = -1;
    if (!root)
        return -1;
    if (json_get(root, "model") && json_kind(json_get(root, "model")) == JSON_OBJ)
        r = read_tokenizer_json(d, path, root, pattern_given, e);
    else if ((merges = sibling(&d->arena, path, "vocab.bpe", "merges.txt", e)))
        r = read_gpt2(d, merges, path, e);
    json_free(root);
    return r;
}

int vocab_load(struct vocab *v, const char *path, const struct vocab_options *o, struct err *e)
{
    struct vocab_draft d = {0};
    struct str eot = o ? o->eot : (struct str){0};
    const char *file = path, *ids;
    int r = -1;
    *v = (struct vocab){0};
    if (file_is_dir(path) && !(file = in_folder(&d.arena, path, e)))
        goto out;
    if (str_ends(str_z(file), ".tiktoken")) {
        r = read_tiktoken(&d, file, eot, e);
    } else if (str_ends(str_z(file), ".json")) {
        r = read_json(&d, file, o && o->pattern.n, e);
    } else if (str_ends(str_z(file), ".bpe") || str_ends(str_z(file), ".txt")) {
        if (!file_exists(file))
            err_set(e, "%s: No such file or directory", file);
        else if ((ids = sibling(&d.arena, file, "encoder.json", "vocab.json", e)))
            r = read_gpt2(&d, file, ids, e);
    } else {
        err_set(e,
                "%s: not a vocabulary: want .tiktoken, tokenizer.json, vocab.bpe, merges.txt, or "
                "a folder with one",
                file);
    }
    if (r == 0)
        r = vocab_build(v, &d, o, e);
out:
    if (r < 0)
        err_wrap(e, "vocabulary");
    draft_release(&d);
    return r;
}
