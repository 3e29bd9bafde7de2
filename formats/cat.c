/* cat: one function a kind of artefact. A line is checked before it is printed; what cannot be
 * read ends the listing with an error. */
#include "formats/cat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/stream.h"
#include "formats/checkpoint.h"
#include "formats/manifest.h"
#include "formats/record.h"
#include "formats/safetensors.h"
#include "formats/schemas.h"
#include "formats/shard.h"

enum { IDS_A_LINE = 64, PIECE = 1 << 16 };
#define MAX_LINE ((size_t)64 << 20)

/* Prints v and frees it. False when nobody reads any more; main says why. */
static bool print_line(struct json *v, FILE *to)
{
    struct buf b = {0};
    json_write(v, &b);
    buf_addc(&b, '\n');
    fwrite(b.p, 1, b.n, to);
    buf_release(&b);
    json_free(v);
    return !ferror(to);
}

static int cat_records(const char *path, int64_t most, FILE *to, struct err *e)
{
    char name[65];
    int version, got = 0;
    struct json *v;
    if (records_peek(path, name, &version, e))
        return -1;
    /* A kind or version that this build does not know is shown as it stands. */
    const struct schema *s = schema_named(name);
    if (s && version > s->version)
        s = NULL;
    struct records *r = records_open(path, s, RECORD_READ, e);
    if (!r)
        return -1;
    for (int64_t i = 0; i != most && (got = records_next_json(r, &v, e)) > 0; i++)
        if (!print_line(v, to))
            break;
    records_abort(r);
    return got < 0 ? -1 : 0;
}

/* ---- safetensors ---------------------------------------------------------------------------- */

struct spread {
    double min, max, sum;
    int64_t finite, nonfinite;
};

/* Over a tensor of real numbers, a piece at a time. */
static int tensor_spread(const struct st_tensor *t, struct spread *s, struct err *e)
{
    float *piece = mem_array(PIECE, sizeof *piece);
    int rc = 0;
    *s = (struct spread){INFINITY, -INFINITY, 0, 0, 0};
    for (int64_t at = 0; at < t->count && !rc; at += PIECE) {
        struct st_tensor part = *t;
        part.count = t->count - at < PIECE ? t->count - at : PIECE;
        part.bytes = (size_t)part.count * st_dtype_size(t->dtype);
        part.data = (const char *)t->data + (size_t)at * st_dtype_size(t->dtype);
        rc = st_to_f32(&part, piece, e);
        for (int64_t i = 0; i < part.count && !rc; i++) {
            if (!isfinite(piece[i])) {
                s->nonfinite++;
                continue;
            }
            s->min = fmin(s->min, piece[i]);
            s->max = fmax(s->max, piece[i]);
            s->sum += piece[i];
            s->finite++;
        }
    }
    free(piece);
    return rc;
}

static struct json *tensor_line(const struct st_tensor *t, struct err *e)
{
    struct json *v = json_obj(), *shape = json_arr();
    struct spread s;
    for (int i = 0; i < t->ndim; i++)
        json_push(shape, json_of_int(t->dim[i]));
    json_put(v, "name", json_of_z(t->name));
    json_put(v, "dtype", json_of_z(st_dtype_name(t->dtype)));
    json_put(v, "shape", shape);
    json_put(v, "bytes", json_of_int((int64_t)t->bytes));
    if (t->dtype > ST_F64)
        return v;
    if (tensor_spread(t, &s, e)) {
        json_free(v);
        return NULL;
    }
    json_put(v, "min", json_of_num(s.min));
    json_put(v, "max", json_of_num(s.max));
    json_put(v, "mean", json_of_num(s.sum / (double)s.finite));
    json_put(v, "nonfinite", json_of_int(s.nonfinite));
    return v;
}

static int cat_safetensors(const char *path, int64_t most, FILE *to, struct err *e)
{
    struct safetensors s;
    int rc = 0;
    if (safetensors_open(&s, path, e))
        return -1;
    const struct json *meta = json_get(s.header, "__metadata__");
    if (meta) {
        struct json *v = json_obj();
        json_put(v, "__metadata__", json_clone(meta));
        print_line(v, to);
    }
    for (size_t i = 0; i < s.n && (most < 0 || i < (size_t)most) && !rc; i++) {
        struct json *v = tensor_line(&s.v[i], e);
        if (!v)
            rc = -1;
        else if (!print_line(v, to))
            break;
    }
    safetensors_close(&s);
    return rc;
}

/* ---- shards --------------------------------------------------------------------------------- */

static int cat_tokens(const char *path, int64_t most, FILE *to, struct err *e)
{
    struct tokens t;
    int32_t ids[IDS_A_LINE];
    int rc = 0;
    if (tokens_open(&t, path, "train", e))
        return -1;
    struct json *head = json_obj();
    json_put(head, "file", json_of_z(path));
    json_put(head, "tokens", json_of_int(t.n));
    json_put(head, "width", json_of_int(t.files[0].width));
    print_line(head, to);
    if (most < 0)
        most = IDS_A_LINE;
    for (int64_t at = 0; at < t.n && at < most && !rc;) {
        int64_t n = most - at < IDS_A_LINE ? most - at : IDS_A_LINE;
        n = t.n - at < n ? t.n - at : n;
        rc = tokens_get(&t, at, n, 0, ids, e);
        if (rc)
            break;
        struct json *v = json_obj(), *list = json_arr();
        for (int64_t i = 0; i < n; i++)
            json_push(list, json_of_int(ids[i]));
        json_put(v, "at", json_of_int(at));
        json_put(v, "ids", list);
        at += n;
        if (!print_line(v, to))
            break;
    }
    tokens_close(&t);
    return rc;
}

static int cat_examples(const char *path, int64_t most, FILE *to, struct err *e)
{
    struct examples x;
    if (examples_open(&x, path, e))
        return -1;
    struct json *head = json_obj();
    json_put(head, "examples", json_of_int(x.n));
    json_put(head, "vocab_size", json_of_int(x.vocab_size));
    json_put(head, "longest", json_of_int(x.longest));
    print_line(head, to);
    for (int64_t i = 0; i < x.n && i != most; i++) {
        struct json *v = json_obj(), *ids = json_arr(), *mask = json_arr();
        for (uint64_t k = x.offset[i]; k < x.offset[i + 1]; k++) {
            json_push(ids, json_of_int(x.ids[k]));
            json_push(mask, json_of_int(x.mask[k]));
        }
        json_put(v, "example", json_of_int(i));
        json_put(v, "ids", ids);
        json_put(v, "mask", mask);
        if (!print_line(v, to))
            break;
    }
    examples_close(&x);
    return 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static int cat_json(const char *path, int64_t most, FILE *to, struct err *e)
{
    struct json *doc = json_read(path, e);
    if (!doc)
        return -1;
    if (json_kind(doc) != JSON_ARR) {
        print_line(doc, to);
        return 0;
    }
    for (size_t i = 0; i < json_size(doc) && (most < 0 || i < (size_t)most); i++)
        if (!print_line(json_clone(json_at(doc, i)), to))
            break;
    json_free(doc);
    return 0;
}

static int cat_jsonl(const char *path, int64_t most, FILE *to, struct err *e)
{
    struct buf line = {0};
    int got = 0;
    struct stream *s = stream_open(path, e);
    if (!s)
        return -1;
    while (most != 0 && (got = stream_line(s, &line, MAX_LINE, e)) > 0) {
        struct str t = buf_str(&line);
        if (stream_lineno(s) == 1 && str_starts(t, "\xEF\xBB\xBF"))
            t = (struct str){t.p + 3, t.n - 3};
        t = str_trim(t);
        if (!t.n)
            continue;
        struct json *v = json_parse_lone(t, e);
        if (!v) {
            got = err_wrap(e, "%s:%lld", path, (long long)stream_lineno(s));
            break;
        }
        most--;
        if (!print_line(v, to))
            break;
    }
    buf_release(&line);
    stream_close(s);
    return got < 0 ? -1 : 0;
}

static int cat_folder(const char *path, FILE *to, struct err *e)
{
    struct json *doc = manifest_read(path, e);
    if (!doc)
        return -1;
    print_line(doc, to);
    return 0;
}

/* ---- which ---------------------------------------------------------------------------------- */

/* The first bytes of a file; n is how many there are. */
static int first_bytes(const char *path, unsigned char head[8], size_t *n, struct err *e)
{
    struct file_map m;
    if (file_map(path, &m, e))
        return -1;
    *n = m.n < 8 ? m.n : 8;
    if (*n)
        memcpy(head, m.p, *n);
    file_unmap(&m);
    return *n ? 0 : err_set(e, "%s: empty", path);
}

int cat_path(const char *path, int64_t most, FILE *to, struct err *e)
{
    unsigned char head[8] = {0};
    struct str name = str_z(path);
    size_t n;
    if (file_is_dir(path))
        return cat_folder(path, to, e);
    if (first_bytes(path, head, &n, e))
        return -1;
    uint32_t magic = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 |
                     (uint32_t)head[3] << 24;
    if (!memcmp(head, "ASSAYREC", n) || str_ends(name, ".msgpack"))
        return cat_records(path, most, to, e);
    if (str_ends(name, ".safetensors"))
        return cat_safetensors(path, most, to, e);
    if (magic == EXAMPLES_MAGIC)
        return cat_examples(path, most, to, e);
    if (magic == SHARD_MAGIC_16 || magic == SHARD_MAGIC_32 || str_ends(name, ".bin"))
        return cat_tokens(path, most, to, e);
    if (str_ends(name, ".jsonl") || str_ends(name, ".jsonl.gz") || str_ends(name, ".jsonl.zst"))
        return cat_jsonl(path, most, to, e);
    if (str_ends(name, ".json"))
        return cat_json(path, most, to, e);
    return err_set(e,
                   "%s: no artefact that assay knows: neither records, safetensors, shards, JSON "
                   "nor a folder with a manifest",
                   path);
}
