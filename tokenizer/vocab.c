/* vocab: checks what a reader found, makes the tables, answers look-ups.
 *
 * Tokens are found by their bytes in an open-addressing table of ids. Pairs that merge are in a
 * pair table: the merges of the file where it has them; else, for .tiktoken, every way to cut a
 * token into two tokens, which is tiktoken's rule "merge the pair whose joined bytes have the
 * smallest rank" without hashing bytes while merging.
 */
#include "tokenizer/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/vocab_build.h"

/* Specials may lie behind the ordinary ids with gaps (cl100k: one), but not wherever they like. */
enum { SPECIAL_GAP = 65536, SPECIAL_MOST = 16384, TOKEN_LONGEST = 1 << 20 };

void draft_add(struct vocab_draft *d, int64_t id, struct str bytes, enum token_kind kind,
               int64_t line)
{
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 1024;
        d->v = mem_grow(d->v, d->cap * sizeof *d->v);
    }
    d->v[d->n++] = (struct vocab_entry){id, bytes, kind, line};
}

void draft_merge(struct vocab_draft *d, struct str left, struct str right, int64_t line)
{
    if (d->nmerges == d->merge_cap) {
        d->merge_cap = d->merge_cap ? d->merge_cap * 2 : 1024;
        d->merges = mem_grow(d->merges, d->merge_cap * sizeof *d->merges);
    }
    d->merges[d->nmerges++] = (struct merge_text){left, right, line};
}

void draft_release(struct vocab_draft *d)
{
    free(d->v);
    free(d->merges);
    arena_release(&d->arena);
    *d = (struct vocab_draft){0};
}

/* "FILE:LINE" or "FILE". */
static const char *where(struct vocab_draft *d, int64_t line)
{
    return line ? arena_printf(&d->arena, "%s:%lld", d->path, (long long)line) : d->path;
}

/* A token for a sentence: printable ASCII as it is, all else as \xHH; at most 40 bytes. */
static const char *shown(struct vocab_draft *d, struct str s)
{
    struct buf b = {0};
    for (size_t i = 0; i < s.n && i < 40; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c > 0x20 && c < 0x7f && c != '\\')
            buf_addc(&b, (char)c);
        else
            buf_printf(&b, "\\x%02x", c);
    }
    if (s.n > 40)
        buf_addz(&b, "...");
    const char *text = arena_bytes(&d->arena, b.p ? b.p : "", b.n);
    buf_release(&b);
    return text;
}

/* ---- tables ------------------------------------------------------------------------------- */

/* The slot of these bytes: taken by them, or the empty one where they belong. */
static struct vocab_slot *slot_of(const struct vocab *v, struct str bytes, uint32_t *tag)
{
    uint64_t hash = hash64(bytes.p, bytes.n, 0), at = hash & v->slot_mask;
    *tag = (uint32_t)(hash >> 32);
    for (; v->slot[at].id; at = (at + 1) & v->slot_mask) {
        if (v->slot[at].tag == *tag && str_eq(v->bytes[v->slot[at].id - 1], bytes))
            break;
    }
    return &v->slot[at];
}

int32_t vocab_find(const struct vocab *v, struct str bytes)
{
    uint32_t tag;
    return (int32_t)slot_of(v, bytes, &tag)->id - 1;
}

bool vocab_bytes(const struct vocab *v, int64_t id, struct str *out)
{
    if (vocab_kind(v, id) == TOKEN_NONE)
        return false;
    *out = v->bytes[id];
    return true;
}

enum token_kind vocab_kind(const struct vocab *v, int64_t id)
{
    return id >= 0 && id < v->size ? (enum token_kind)v->kind[id] : TOKEN_NONE;
}

const struct special *vocab_special(const struct vocab *v, struct str text)
{
    for (size_t i = 0; i < v->nspecial; i++) {
        if (str_eq(v->special[i].text, text))
            return &v->special[i];
    }
    return NULL;
}

void vocab_release(struct vocab *v)
{
    free(v->bytes);
    free(v->kind);
    free(v->slot);
    pair_release(&v->pairs);
    arena_release(&v->arena);
    *v = (struct vocab){0};
}

/* ---- checks ------------------------------------------------------------------------------- */

/* Ids within bounds, and v->size. */
static int check_ids(struct vocab *v, struct vocab_draft *d, struct err *e)
{
    v->size = 0;
    if (d->n == 0)
        return err_set(e, "%s: no tokens in it", d->path);
    for (size_t i = 0; i < d->n; i++) {
        const struct vocab_entry *t = &d->v[i];
        int64_t limit = (int64_t)d->n + (t->kind == TOKEN_SPECIAL ? SPECIAL_GAP : 0);
        if (t->id < 0 || t->id >= limit)
            return err_set(e,
                           "%s: id %lld of token \"%s\" is out of range: the file has %zu tokens",
                           where(d, t->line), (long long)t->id, shown(d, t->bytes), d->n);
        if (t->bytes.n == 0 || t->bytes.n > TOKEN_LONGEST)
            return err_set(e, "%s: token %lld has %zu bytes", where(d, t->line), (long long)t->id,
                           t->bytes.n);
        if (t->id >= v->size)
            v->size = t->id + 1;
    }
    return 0;
}

/* Fills bytes, kind and the table of ordinary tokens; no id and no token twice. */
static int place(struct vocab *v, struct vocab_draft *d, struct err *e)
{
    uint64_t slots = 1024;
    while (slots < 2 * d->n)
        slots *= 2;
    v->bytes = mem_array((size_t)v->size, sizeof *v->bytes);
    v->kind = mem_zero((size_t)v->size);
    v->slot = mem_array(slots, sizeof *v->slot);
    v->slot_mask = slots - 1;
    v->special = arena_array(&v->arena, d->n, sizeof *v->special);
    for (size_t i = 0; i < d->n; i++) {
        const struct vocab_entry *t = &d->v[i];
        struct vocab_slot *slot;
        uint32_t tag;
        if (v->kind[t->id] != TOKEN_NONE)
            return err_set(e, "%s: id %lld stands for two tokens, \"%s\" and \"%s\"",
                           where(d, t->line), (long long)t->id, shown(d, v->bytes[t->id]),
                           shown(d, t->bytes));
        v->kind[t->id] = (uint8_t)t->kind;
        v->bytes[t->id] = str_copy(&v->arena, t->bytes);
        if (t->kind == TOKEN_SPECIAL) {
            if (v->nspecial == SPECIAL_MOST)
                return err_set(e, "%s: more than %d special tokens", d->path, (int)SPECIAL_MOST);
            if (vocab_special(v, t->bytes))
                return err_set(e, "%s: special token \"%s\" stands twice", where(d, t->line),
                               shown(d, t->bytes));
            v->special[v->nspecial++] = (struct special){v->bytes[t->id], (int32_t)t->id};
            continue;
        }
        slot = slot_of(v, t->bytes, &tag);
        if (slot->id)
            return err_set(e, "%s: token \"%s\" stands twice, as id %u and %lld", where(d, t->line),
                           shown(d, t->bytes), slot->id - 1, (long long)t->id);
        *slot = (struct vocab_slot){tag, (uint32_t)t->id + 1};
        v->ordinary++;
    }
    return 0;
}

/* No holes among the ordinary ids, and all 256 bytes. */
static int check_whole(struct vocab *v, struct vocab_draft *d, struct err *e)
{
    int64_t top = -1;
    for (int64_t id = 0; id < v->size; id++)
        top = v->kind[id] == TOKEN_ORDINARY ? id : top;
    for (int64_t id = 0; id < top; id++) {
        if (v->kind[id] == TOKEN_NONE)
            return err_set(e, "%s: no token has id %lld, but there is an id %lld", d->path,
                           (long long)id, (long long)top);
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        v->byte_id[b] = vocab_find(v, (struct str){&c, 1});
        if (v->byte_id[b] < 0)
            return err_set(e, "%s: no token for the byte 0x%02x, so a text with it has no ids",
                           d->path, (unsigned)b);
    }
    return 0;
}

/* ---- merges ------------------------------------------------------------------------------- */

static int listed_merges(struct vocab *v, struct vocab_draft *d, struct err *e)
{
    struct buf joined = {0};
    int r = 0;
    v->merges = arena_array(&v->arena, d->nmerges ? d->nmerges : 1, sizeof *v->merges);
    v->nmerges = d->nmerges;
    for (size_t i = 0; i < d->nmerges && r == 0; i++) {
        const struct merge_text *m = &d->merges[i];
        buf_cut(&joined, 0);
        buf_adds(&joined, m->left);
        buf_adds(&joined, m->right);
        int32_t left = vocab_find(v, m->left), right = vocab_find(v, m->right);
        int32_t id = vocab_find(v, buf_str(&joined));
        struct str unknown = left < 0 ? m->left : right < 0 ? m->right : buf_str(&joined);
        v->merges[i] = (struct merge){left, right, id};
        if (left < 0 || right < 0 || id < 0)
            r = err_set(e, "%s: merge %zu (\"%s\" and \"%s\") names \"%s\", which is no token",
                        where(d, m->line), i, shown(d, m->left), shown(d, m->right),
                        shown(d, unknown));
        else if (!pair_add(&v->pairs, (uint32_t)left, (uint32_t)right, (uint32_t)i, (uint32_t)id))
            r = err_set(e, "%s: merge %zu (\"%s\" and \"%s\") stands twice", where(d, m->line), i,
                        shown(d, m->left), shown(d, m->right));
    }
    buf_release(&joined);
    return r;
}

static void rank_merges(struct vocab *v)
{
    for (int64_t id = 0; id < v->size; id++) {
        struct str s = v->bytes[id];
        if (v->kind[id] != TOKEN_ORDINARY)
            continue;
        for (size_t cut = 1; cut < s.n; cut++) {
            int32_t left = vocab_find(v, (struct str){s.p, cut}), right;
            if (left >= 0 && (right = vocab_find(v, (struct str){s.p + cut, s.n - cut})) >= 0)
                pair_add(&v->pairs, (uint32_t)left, (uint32_t)right, (uint32_t)id, (uint32_t)id);
        }
    }
}

int vocab_merges(const struct vocab *v, struct arena *a, struct merge **out, size_t *n,
                 struct err *e)
{
    struct merge_scratch scratch = {0};
    int32_t *ids = NULL;
    int r = 0;
    *n = 0;
    *out = arena_array(a, (size_t)v->ordinary + v->nmerges, sizeof **out);
    if (v->merges) {
        memcpy(*out, v->merges, v->nmerges * sizeof **out);
        *n = v->nmerges;
        return 0;
    }
    for (int64_t id = 0; id < v->size && r == 0; id++) {
        struct str s = v->bytes[id];
        if (v->kind[id] != TOKEN_ORDINARY || s.n == 1)
            continue;
        ids = mem_grow(ids, s.n * sizeof *ids);
        for (size_t i = 0; i < s.n; i++)
            ids[i] = v->byte_id[(unsigned char)s.p[i]];
        size_t parts = merge_ids(&v->pairs, ids, s.n, (uint32_t)id, &scratch);
        if (parts != 2)
            r = err_set(e,
                        "token %lld does not come from merging two tokens of smaller rank: "
                        "this vocabulary has no merges",
                        (long long)id);
        else
            (*out)[(*n)++] = (struct merge){ids[0], ids[1], (int32_t)id};
    }
    free(ids);
    merge_release(&scratch);
    return r;
}

/* ---- putting it together ------------------------------------------------------------------ */

static int by_length(const void *a, const void *b)
{
    const struct special *x = a, *y = b;
    if (x->text.n != y->text.n)
        return x->text.n > y->text.n ? -1 : 1;
    return str_cmp(x->text, y->text);
}

static void hash_number(struct sha256 *h, uint64_t n)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(n >> (8 * i));
    sha256_add(h, b, sizeof b);
}

static void hash_vocab(struct vocab *v)
{
    struct sha256 h;
    sha256_begin(&h);
    sha256_add(&h, "assay vocabulary 1\n", 19);
    sha256_add(&h, v->pattern->name, strlen(v->pattern->name) + 1);
    hash_number(&h, (uint64_t)v->size);
    hash_number(&h, (uint64_t)(int64_t)v->eot);
    for (int64_t id = 0; id < v->size; id++) {
        hash_number(&h, (uint64_t)v->kind[id] << 32 | v->bytes[id].n);
        sha256_add(&h, v->bytes[id].p, v->bytes[id].n);
    }
    sha256_end_hex(&h, v->hash);
}

static int set_eot(struct vocab *v, struct vocab_draft *d, const struct vocab_options *o,
                   struct err *e)
{
    struct str text = o && o->eot.n ? o->eot : d->eot.n ? d->eot : STR_LIT(VOCAB_EOT);
    const struct special *s = vocab_special(v, text);
    v->eot = s ? s->id : -1;
    if (!s && o && o->eot.n)
        return err_code(e, EXIT_USAGE, "%s: no special token \"%.*s\" for --eot", d->path,
                        STR_ARG(text));
    return 0;
}

int vocab_build(struct vocab *v, struct vocab_draft *d, const struct vocab_options *o,
                struct err *e)
{
    struct str pattern = o && o->pattern.n ? o->pattern
                         : d->pattern.n    ? d->pattern
                                           : STR_LIT("gpt2");
    *v = (struct vocab){.whole = d->whole, .eot = -1};
    v->pattern = split_find(pattern, e);
    if (!v->pattern)
        goto fail;
    if (check_ids(v, d, e) || place(v, d, e) || check_whole(v, d, e))
        goto fail;
    if (d->by_rank)
        rank_merges(v);
    else if (listed_merges(v, d, e))
        goto fail;
    qsort(v->special, v->nspecial, sizeof *v->special, by_length);
    if (set_eot(v, d, o, e))
        goto fail;
    v->note = str_copy(&v->arena, d->note);
    hash_vocab(v);
    return 0;
fail:
    vocab_release(v);
    return -1;
}

int vocab_trained(struct vocab *v, const struct merge *merges, size_t n,
                  const struct split_pattern *pattern, struct str eot, struct err *e)
{
    struct vocab_draft d = {.path = "trained vocabulary", .whole = true, .eot = eot};
    struct str *bytes = mem_array(256 + n, sizeof *bytes);
    int r;
    d.pattern = str_z(pattern->name);
    for (size_t id = 0; id < 256 + n; id++) {
        if (id < 256) {
            char c = (char)id;
            bytes[id] = str_copy(&d.arena, (struct str){&c, 1});
        } else {
            struct str l = bytes[merges[id - 256].left], t = bytes[merges[id - 256].right];
            char *p = arena_alloc(&d.arena, l.n + t.n);
            memcpy(p, l.p, l.n);
            memcpy(p + l.n, t.p, t.n);
            bytes[id] = (struct str){p, l.n + t.n};
            assert(merges[id - 256].id == (int32_t)id);
            draft_merge(&d, l, t, 0);
        }
        draft_add(&d, (int64_t)id, bytes[id], TOKEN_ORDINARY, 0);
    }
    draft_add(&d, (int64_t)(256 + n), eot, TOKEN_SPECIAL, 0);
    r = vocab_build(v, &d, NULL, e);
    free(bytes);
    draft_release(&d);
    return r;
}
