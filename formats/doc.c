/* doc: documents out of .txt and .jsonl files, plain, gzip or zstd, one at a time.
 *
 * A file's kind is told by its name (without .gz or .zst), its compression by its bytes
 * (base/stream.h). Text is one document in memory at a time, files are streamed.
 */
#include "formats/doc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/stream.h"

#define MAX_LINE ((size_t)64 << 20)
#define MAX_TEXT ((size_t)1 << 30)

const char *const bad_utf8_names[] = {"replace", "error", "raw", NULL};

struct docs_file {
    const char *path;
    struct str name; /* without folder and .gz/.zst */
    bool jsonl;
    double size;
};
struct docs {
    struct arena arena; /* paths */
    struct docs_file *file;
    size_t n, cap, at;  /* at: the file that is read */
    double done, total; /* bytes */
    enum bad_utf8 policy;
    int64_t replaced;
    struct stream *stream; /* of file[at]; NULL: not opened yet */
    int64_t from_file;     /* documents that file[at] gave */
    struct buf raw, fixed; /* of the document in hand */
    struct json *row;
    struct buf idbuf;
    struct map once; /* ids that docs_once() saw: their place among `place` */
    struct place {
        size_t file;
        int64_t line; /* 0: the file is the document */
    } * place;
    size_t places_cap;
};

/* ---- which files ---------------------------------------------------------------------------- */

/* False if the name is not a document file. */
static bool docs_kind(const char *path, struct docs_file *f)
{
    struct str s = str_z(path_base(path));
    if (str_ends(s, ".gz"))
        s.n -= 3;
    else if (str_ends(s, ".zst"))
        s.n -= 4;
    f->path = path;
    f->name = s;
    f->jsonl = str_ends(s, ".jsonl");
    return f->jsonl || str_ends(s, ".txt");
}

static void docs_add(struct docs *r, struct docs_file f)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 16;
        r->file = mem_grow(r->file, r->cap * sizeof *r->file);
    }
    int64_t size = file_size(f.path);
    f.size = size > 0 ? (double)size : 0;
    r->total += f.size;
    r->file[r->n++] = f;
}

static int docs_add_dir(struct docs *r, const char *dir, struct err *e)
{
    struct strs names;
    size_t before = r->n;
    if (file_list(dir, &names, &r->arena, e))
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        struct docs_file f;
        char *path = path_join(&r->arena, dir, str_dup(&r->arena, names.v[i]));
        if (names.v[i].n && names.v[i].p[0] != '.' && docs_kind(path, &f) && !file_is_dir(path))
            docs_add(r, f);
    }
    if (r->n == before)
        return err_set(e, "%s: no .txt or .jsonl file (plain, .gz or .zst) in this folder", dir);
    return 0;
}

static int docs_add_path(struct docs *r, struct str given, struct err *e)
{
    const char *path = str_dup(&r->arena, given);
    struct docs_file f;
    if (file_is_dir(path))
        return docs_add_dir(r, path, e);
    if (!docs_kind(path, &f))
        return err_set(e, "%s: not a document file: want .txt or .jsonl, plain, .gz or .zst", path);
    if (!file_exists(path))
        return err_set(e, "%s: No such file or directory", path);
    docs_add(r, f);
    return 0;
}

struct docs *docs_open(struct strs paths, enum bad_utf8 policy, struct err *e)
{
    struct docs *r = mem_zero(sizeof *r);
    r->policy = policy;
    r->raw.max = MAX_TEXT;
    for (size_t i = 0; i < paths.n; i++)
        if (docs_add_path(r, paths.v[i], e))
            goto fail;
    if (!r->n) {
        err_set(e, "no document file was given");
        goto fail;
    }
    return r;
fail:
    docs_close(r);
    return NULL;
}

void docs_close(struct docs *r)
{
    if (!r)
        return;
    stream_close(r->stream);
    json_free(r->row);
    buf_release(&r->raw);
    buf_release(&r->fixed);
    buf_release(&r->idbuf);
    map_release(&r->once);
    free(r->place);
    free(r->file);
    arena_release(&r->arena);
    free(r);
}

/* ---- bad UTF-8 ------------------------------------------------------------------------------ */

/* Applies the policy to s; the result is s or lies in r->fixed. */
static int docs_utf8(struct docs *r, struct str *s, struct err *e)
{
    size_t good = utf8_valid(*s);
    if (good == s->n || (r->policy == BAD_UTF8_RAW && !r->file[r->at].jsonl))
        return 0;
    if (r->policy != BAD_UTF8_REPLACE)
        return err_set(e, "byte %zu is not UTF-8", good);
    r->replaced++;
    buf_cut(&r->fixed, 0);
    struct str rest = *s;
    for (;;) {
        good = utf8_valid(rest);
        buf_add(&r->fixed, rest.p, good);
        rest.p += good;
        rest.n -= good;
        if (!rest.n)
            break;
        size_t bad = utf8_bad(rest);
        buf_addz(&r->fixed, "\xEF\xBF\xBD");
        rest.p += bad;
        rest.n -= bad;
    }
    *s = buf_str(&r->fixed);
    return 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int txt_next(struct docs *r, struct doc *d, struct err *e)
{
    const struct docs_file *f = &r->file[r->at];
    if (r->from_file)
        return 0;
    buf_cut(&r->raw, 0);
    for (;;) {
        char piece[65536];
        ssize_t n = stream_read(r->stream, piece, sizeof piece, e);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        if (buf_add(&r->raw, piece, (size_t)n))
            return err_set(e, "%s: a text over %zu MiB", f->path, MAX_TEXT >> 20);
    }
    if (!r->raw.n)
        return 0;
    *d = (struct doc){f->name, buf_str(&r->raw), NAN};
    if (docs_utf8(r, &d->text, e))
        return err_wrap(e, "%s", f->path);
    return 1;
}

/* The id of a row: its "id" as text, else FILE:LINE. */
static int row_id(struct docs *r, struct str *id, struct err *e)
{
    const struct json *v = json_get(r->row, "id");
    buf_cut(&r->idbuf, 0);
    switch (json_kind(v)) {
    case JSON_STR:
        *id = json_str(v);
        return 0;
    case JSON_INT:
        buf_printf(&r->idbuf, "%lld", (long long)json_int(v, 0));
        break;
    case JSON_NULL:
        buf_adds(&r->idbuf, r->file[r->at].name);
        buf_printf(&r->idbuf, ":%lld", (long long)stream_lineno(r->stream));
        break;
    default:
        return err_set(e, "\"id\" is neither a string nor an integer");
    }
    *id = buf_str(&r->idbuf);
    return 0;
}

static int row_parse(struct docs *r, struct str line, struct doc *d, struct err *e)
{
    if (docs_utf8(r, &line, e))
        return -1;
    r->row = json_parse_lone(line, e);
    if (!r->row)
        return -1;
    if (json_kind(r->row) != JSON_OBJ)
        return err_set(e, "not a JSON object");
    *d = (struct doc){.oracle_bits = json_num(json_get(r->row, "oracle_bits"))};
    return json_need_str(r->row, "text", &d->text, e) || row_id(r, &d->id, e) ? -1 : 0;
}

static int jsonl_next(struct docs *r, struct doc *d, struct err *e)
{
    const struct docs_file *f = &r->file[r->at];
    for (;;) {
        int got = stream_line(r->stream, &r->raw, MAX_LINE, e);
        if (got <= 0)
            return got;
        struct str line = buf_str(&r->raw);
        if (stream_lineno(r->stream) == 1 && str_starts(line, "\xEF\xBB\xBF"))
            line = (struct str){line.p + 3, line.n - 3};
        line = str_trim(line);
        if (!line.n)
            continue;
        json_free(r->row);
        r->row = NULL;
        if (row_parse(r, line, d, e))
            return err_wrap(e, "%s:%lld", f->path, (long long)stream_lineno(r->stream));
        return 1;
    }
}

int docs_next(struct docs *r, struct doc *d, struct err *e)
{
    while (r->at < r->n) {
        const struct docs_file *f = &r->file[r->at];
        if (!r->stream) {
            r->stream = stream_open(f->path, e);
            if (!r->stream)
                return -1;
        }
        int got = f->jsonl ? jsonl_next(r, d, e) : txt_next(r, d, e);
        if (got < 0)
            return -1;
        if (got > 0) {
            r->from_file++;
            return 1;
        }
        if (!r->from_file)
            return err_set(e, "%s: no document in it", f->path);
        stream_close(r->stream);
        r->stream = NULL;
        r->from_file = 0;
        r->done += f->size;
        r->at++;
    }
    return 0;
}

int64_t docs_replaced(const struct docs *r)
{
    return r->replaced;
}

double docs_fraction(const struct docs *r)
{
    double done = r->done;
    if (r->stream)
        done += r->file[r->at].size * stream_fraction(r->stream);
    return r->total > 0 ? fmin(done / r->total, 1) : 1;
}

static const char *place_text(const struct docs *r, struct place p, char *to, size_t cap)
{
    if (p.line)
        snprintf(to, cap, "%s:%lld", r->file[p.file].path, (long long)p.line);
    else
        snprintf(to, cap, "%s", r->file[p.file].path);
    return to;
}

int docs_once(struct docs *r, struct str id, struct err *e)
{
    char first[512], second[512];
    struct place here = {r->at, r->file[r->at].jsonl ? stream_lineno(r->stream) : 0};
    ptrdiff_t at = map_find(&r->once, id);
    if (at >= 0)
        return err_set(e, "the id %.*s is there twice, in %s and in %s: give each document its own",
                       STR_ARG(id), place_text(r, r->place[at], first, sizeof first),
                       place_text(r, here, second, sizeof second));
    if (r->once.n == r->places_cap) {
        r->places_cap = r->places_cap ? 2 * r->places_cap : 256;
        r->place = mem_grow(r->place, r->places_cap * sizeof *r->place);
    }
    r->place[r->once.n] = here;
    map_add(&r->once, str_copy(&r->arena, id), 0, NULL);
    return 0;
}

/* ---- writing and splitting ------------------------------------------------------------------ */

void doc_write(const struct doc *d, struct buf *out)
{
    struct json *row = json_obj();
    json_put(row, "id", json_of_str(d->id));
    json_put(row, "text", json_of_str(d->text));
    if (!isnan(d->oracle_bits))
        json_put(row, "oracle_bits", json_of_num(d->oracle_bits));
    json_write(row, out);
    buf_addc(out, '\n');
    json_free(row);
}

bool doc_held_out(struct str id, double share)
{
    return (double)sha256_u64(id) * 0x1p-64 < share;
}
