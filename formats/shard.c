/* shard: token shards in llm.c's layout, written by split and read as one long vector.
 *
 * The layout is that of https://github.com/karpathy/llm.c (dev/data/data_common.py,
 * llmc/dataloader.h). Its readers trust the header; public files with wrong widths and ids beyond
 * the vocabulary are on record, so here each count is held against the file's size and each id
 * against the vocabulary.
 */
#include "formats/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "formats/manifest.h"

enum { VERSION_16 = 1, VERSION_32 = 7 };

#define AT(m) offsetof(struct shard_info, m)
static const struct field shard_info_fields[] = {
    {"vocab_size", FIELD_I64, AT(vocab_size), "0", 0, 16777216, .help = "ids; 0: unknown"},
    {"eot", FIELD_I64, AT(eot), "", .help = "end-of-text id, in front of each document"},
    {"vocab_hash", FIELD_STR, AT(vocab_hash), "", .help = "hash of the vocabulary's artefact"},
    {"text_hash", FIELD_STR, AT(text_hash), "", .help = "SHA-256 of the documents' bytes"},
    {"train_tokens", FIELD_I64, AT(train_tokens), "0", .help = "tokens for training"},
    {"test_tokens", FIELD_I64, AT(test_tokens), "0", .help = "tokens held out"},
    {"train_docs", FIELD_I64, AT(train_docs), "0", .help = "documents for training"},
    {"test_docs", FIELD_I64, AT(test_docs), "0", .help = "documents held out"},
    {"train_bytes", FIELD_I64, AT(train_bytes), "0", .help = "their UTF-8 bytes"},
    {"test_bytes", FIELD_I64, AT(test_bytes), "0", .help = "their UTF-8 bytes"},
    {"train_files", FIELD_STRS, AT(train_files), "", .help = "files in order"},
    {"test_files", FIELD_STRS, AT(test_files), "", .help = "files in order"},
    {"token_bytes", FIELD_I64S, AT(token_bytes), "", .help = "bytes that each id stands for"},
    {0},
};
#undef AT
const struct schema shard_info_schema = {"shard_info", 1, sizeof(struct shard_info),
                                         shard_info_fields};

static void put_le(unsigned char *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t get_le(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n; i--;)
        v = v << 8 | p[i];
    return v;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The count is in the header and known only at the end, so one file's tokens wait in memory: at
 * most per_shard ids. */
struct shard_writer {
    char *dir, *name, *split;
    int64_t vocab_size, per_shard, total, files;
    int width;
    unsigned char *held; /* encoded tokens of the file that grows */
    int64_t nheld, cap;
};

struct shard_writer *shard_create(const char *dir, const char *name, const char *split,
                                  int64_t vocab_size, int64_t per_shard, struct err *e)
{
    if (per_shard < 1 || per_shard > SHARD_MOST_TOKENS) {
        err_code(e, EXIT_USAGE, "%lld tokens a shard, want 1 to %d", (long long)per_shard,
                 SHARD_MOST_TOKENS);
        return NULL;
    }
    if (file_mkdirs(dir, e))
        return NULL;
    struct shard_writer *w = mem_zero(sizeof *w);
    w->dir = mem_strdup(dir);
    w->name = mem_strdup(name);
    w->split = mem_strdup(split);
    w->vocab_size = vocab_size;
    w->per_shard = per_shard;
    w->width = vocab_size <= 65536 ? 2 : 4;
    return w;
}

/* Writes what is held as the next file. */
static int shard_flush(struct shard_writer *w, struct err *e)
{
    unsigned char head[SHARD_HEADER] = {0};
    struct file_out f = {0};
    char *path = mem_printf("%s/%s_%s_%06lld.bin", w->dir, w->name, w->split, (long long)w->files);
    put_le(head, w->width == 2 ? SHARD_MAGIC_16 : SHARD_MAGIC_32, 4);
    put_le(head + 4, w->width == 2 ? VERSION_16 : VERSION_32, 4);
    put_le(head + 8, (uint64_t)w->nheld, 4);
    int rc = -1;
    if (file_create(&f, path, e))
        goto out;
    if (file_put(&f, head, sizeof head, e) ||
        file_put(&f, w->held, (size_t)w->nheld * (size_t)w->width, e)) {
        file_abort(&f);
        goto out;
    }
    if (file_commit(&f, e))
        goto out;
    w->files++;
    w->nheld = 0;
    rc = 0;
out:
    free(path);
    return rc;
}

int shard_put(struct shard_writer *w, const int32_t *ids, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= w->vocab_size)
            return err_set(e, "%s: token %lld has id %d, the vocabulary has %lld", w->dir,
                           (long long)w->total, ids[i], (long long)w->vocab_size);
        if (w->nheld == w->per_shard && shard_flush(w, e))
            return -1;
        if (w->nheld == w->cap) {
            w->cap = w->cap ? 2 * w->cap : 65536;
            w->cap = w->cap < w->per_shard ? w->cap : w->per_shard;
            w->held = mem_grow(w->held, (size_t)w->cap * (size_t)w->width);
        }
        put_le(w->held + w->nheld++ * w->width, (uint64_t)ids[i], w->width);
        w->total++;
    }
    return 0;
}

int64_t shard_tokens(const struct shard_writer *w)
{
    return w->total;
}

int shard_finish(struct shard_writer *w, struct strs *names, struct arena *a, struct err *e)
{
    int rc = w->nheld ? shard_flush(w, e) : 0;
    *names = (struct strs){arena_array(a, (size_t)w->files, sizeof *names->v), (size_t)w->files};
    for (size_t i = 0; i < names->n; i++)
        names->v[i] = str_printf(a, "%s_%s_%06zu.bin", w->name, w->split, i);
    shard_abort(w);
    return rc;
}

void shard_abort(struct shard_writer *w)
{
    if (!w)
        return;
    free(w->dir);
    free(w->name);
    free(w->split);
    free(w->held);
    free(w);
}

/* ---- reading -------------------------------------------------------------------------------- */

static int shard_header(struct token_file *f, struct err *e)
{
    const unsigned char *p = f->map.p;
    if (f->map.n < SHARD_HEADER)
        return err_set(e, "%s: %zu bytes, want at least the header's %d", f->path, f->map.n,
                       SHARD_HEADER);
    uint64_t magic = get_le(p, 4), version = get_le(p + 4, 4), n = get_le(p + 8, 4);
    if (magic != SHARD_MAGIC_16 && magic != SHARD_MAGIC_32)
        return err_set(e, "%s: not a token shard: magic %llu, want %d or %d", f->path,
                       (unsigned long long)magic, SHARD_MAGIC_16, SHARD_MAGIC_32);
    uint64_t want = magic == SHARD_MAGIC_16 ? VERSION_16 : VERSION_32;
    if (version != want)
        return err_set(e, "%s: want version %llu, file has %llu", f->path, (unsigned long long)want,
                       (unsigned long long)version);
    f->width = magic == SHARD_MAGIC_16 ? 2 : 4;
    f->n = (int64_t)n;
    f->ids = p + SHARD_HEADER;
    if (n > SHARD_MOST_TOKENS || n * (uint64_t)f->width != f->map.n - SHARD_HEADER)
        return err_set(e, "%s: its header says %llu tokens of %d bytes, but %zu bytes follow it",
                       f->path, (unsigned long long)n, f->width, f->map.n - SHARD_HEADER);
    return 0;
}

static int tokens_add(struct tokens *t, const char *path, struct err *e)
{
    struct token_file *f = &t->files[t->nfiles];
    *f = (struct token_file){.path = path, .begin = t->n};
    if (file_map(path, &f->map, e))
        return -1;
    t->nfiles++;
    if (shard_header(f, e))
        return -1;
    t->n += f->n;
    return 0;
}

/* Files of a folder without a manifest: "val" or "test" in the name is the test split. */
static int bare_files(struct tokens *t, const char *dir, bool test, struct strs *out, struct err *e)
{
    struct strs names;
    if (file_list(dir, &names, &t->arena, e))
        return -1;
    *out = (struct strs){arena_array(&t->arena, names.n, sizeof *out->v), 0};
    for (size_t i = 0; i < names.n; i++) {
        struct str s = names.v[i];
        bool held = str_find(s, STR_LIT("val")) >= 0 || str_find(s, STR_LIT("test")) >= 0;
        if (s.n && s.p[0] != '.' && str_ends(s, ".bin") && held == test)
            out->v[out->n++] = s;
    }
    return 0;
}

/* What the manifest says; its token counts are checked against the files by tokens_check. */
static int manifest_info(struct tokens *t, const char *dir, struct err *e)
{
    struct json *doc = manifest_read(dir, e);
    int rc = -1;
    if (!doc)
        return -1;
    if (json_to_struct(&shard_info_schema, &t->info, json_get(doc, "facts"), &t->arena, e)) {
        err_wrap(e, "%s: manifest.json: facts", dir);
        goto out;
    }
    const struct shard_info *s = &t->info;
    if (s->token_bytes.n && (int64_t)s->token_bytes.n != s->vocab_size) {
        err_set(e, "%s: manifest.json: %zu token_bytes for %lld ids", dir, s->token_bytes.n,
                (long long)s->vocab_size);
        goto out;
    }
    for (size_t i = 0; i < s->token_bytes.n; i++)
        if (s->token_bytes.v[i] < 0 || s->token_bytes.v[i] > 1 << 20) {
            err_set(e, "%s: manifest.json: token_bytes of id %zu is absurd", dir, i);
            goto out;
        }
    rc = 0;
out:
    json_free(doc);
    return rc;
}

static int open_files(struct tokens *t, const char *dir, struct strs names, struct err *e)
{
    t->files = mem_array(names.n, sizeof *t->files);
    for (size_t i = 0; i < names.n; i++)
        if (tokens_add(t, path_join(&t->arena, dir, str_dup(&t->arena, names.v[i])), e))
            return -1;
    return 0;
}

static int open_dir(struct tokens *t, const char *dir, const char *split, struct err *e)
{
    bool test = strcmp(split, "test") == 0;
    struct strs names;
    bool told = file_exists(manifest_path(&t->arena, dir));
    if (told) {
        if (manifest_info(t, dir, e))
            return -1;
        names = test ? t->info.test_files : t->info.train_files;
    } else if (bare_files(t, dir, test, &names, e)) {
        return -1;
    }
    if (!names.n)
        return err_set(e, "%s: no token shards of the %s split", dir, split);
    if (open_files(t, dir, names, e))
        return -1;
    int64_t want = test ? t->info.test_tokens : t->info.train_tokens;
    if (told && want != t->n)
        return err_set(e, "%s: its manifest says %lld %s tokens, the files hold %lld", dir,
                       (long long)want, split, (long long)t->n);
    return 0;
}

int tokens_open(struct tokens *t, const char *dir, const char *split, struct err *e)
{
    int rc;
    *t = (struct tokens){.info.eot = FIELD_NONE_I64};
    if (file_is_dir(dir)) {
        rc = open_dir(t, dir, split, e);
    } else {
        const char *path = arena_strdup(&t->arena, dir);
        t->files = mem_array(1, sizeof *t->files);
        rc = tokens_add(t, path, e);
    }
    if (!rc && !t->n)
        rc = err_set(e, "%s: the %s split has no token", dir, split);
    if (rc)
        tokens_close(t);
    return rc;
}

/* The file that holds token `at`. */
static const struct token_file *file_of(const struct tokens *t, int64_t at)
{
    int64_t lo = 0, hi = t->nfiles - 1;
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        if (t->files[mid].begin <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &t->files[lo];
}

int tokens_get(const struct tokens *t, int64_t at, int64_t n, int64_t vocab_limit, int32_t *ids,
               struct err *e)
{
    int64_t limit = t->info.vocab_size ? t->info.vocab_size : INT32_MAX;
    if (vocab_limit && vocab_limit < limit)
        limit = vocab_limit;
    assert(at >= 0 && n >= 0 && at <= t->n - n);
    while (n > 0) {
        const struct token_file *f = file_of(t, at);
        int64_t from = at - f->begin, take = f->n - from < n ? f->n - from : n;
        for (int64_t i = 0; i < take; i++) {
            const unsigned char *p = (const unsigned char *)f->ids + (from + i) * f->width;
            uint64_t id = get_le(p, f->width);
            if (id >= (uint64_t)limit)
                return err_set(e, "%s: token %lld (byte %lld) has id %llu, the vocabulary has %lld",
                               f->path, (long long)(from + i),
                               (long long)(SHARD_HEADER + (from + i) * f->width),
                               (unsigned long long)id, (long long)limit);
            ids[i] = (int32_t)id;
        }
        ids += take;
        at += take;
        n -= take;
    }
    return 0;
}

void tokens_close(struct tokens *t)
{
    for (int64_t i = 0; i < t->nfiles; i++)
        file_unmap(&t->files[i].map);
    free(t->files);
    arena_release(&t->arena);
    *t = (struct tokens){0};
}
