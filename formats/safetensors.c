/* safetensors: reading. The layout is in formats/checkpoint.h, after
 * https://github.com/huggingface/safetensors (README, "Format"), whose own checks are kept: a
 * header is at most 100 MB, and the tensors' bytes fill the rest of the file exactly.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "formats/safetensors.h"

#define MAX_HEADER ((uint64_t)100 << 20)

static const struct {
    const char *name;
    enum st_dtype type;
    size_t size;
} dtypes[] = {
    {"F32", ST_F32, 4},   {"F16", ST_F16, 2},       {"BF16", ST_BF16, 2},     {"F64", ST_F64, 8},
    {"I64", ST_I64, 8},   {"I32", ST_I32, 4},       {"U8", ST_U8, 1},         {"BOOL", ST_BOOL, 1},
    {"I16", ST_OTHER, 2}, {"I8", ST_OTHER, 1},      {"U16", ST_OTHER, 2},     {"U32", ST_OTHER, 4},
    {"U64", ST_OTHER, 8}, {"F8_E4M3", ST_OTHER, 1}, {"F8_E5M2", ST_OTHER, 1}, {"C64", ST_OTHER, 8},
};

const char *st_dtype_name(enum st_dtype t)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].type == t)
            return dtypes[i].name;
    return "?";
}

size_t st_dtype_size(enum st_dtype t)
{
    assert(t != ST_OTHER);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].type == t)
            return dtypes[i].size;
    return 0;
}

/* ---- the header ----------------------------------------------------------------------------- */

/* A member that must be an integer from 0 to most. */
static int whole(const struct json *v, int64_t most, int64_t *out, struct err *e)
{
    *out = json_int(v, -1);
    if (json_kind(v) != JSON_INT || *out < 0 || *out > most)
        return err_set(e, "a number that is no integer from 0 to %lld", (long long)most);
    return 0;
}

static int tensor_shape(struct st_tensor *t, const struct json *shape, struct err *e)
{
    size_t n = json_size(shape);
    if (json_kind(shape) != JSON_ARR || n > sizeof t->dim / sizeof *t->dim)
        return err_set(e, "its shape is no array of at most 8 numbers");
    t->ndim = (int)n;
    t->count = 1;
    for (size_t i = 0; i < n; i++) {
        if (whole(json_at(shape, i), (int64_t)1 << 48, &t->dim[i], e))
            return err_wrap(e, "its shape");
        if (t->dim[i] && t->count > ((int64_t)1 << 56) / t->dim[i])
            return err_set(e, "its shape has more than 2^56 elements");
        t->count *= t->dim[i];
    }
    return 0;
}

/* One member of the header; base: the tensors' bytes, size of them. */
static int tensor_read(struct st_tensor *t, const struct json *v, const unsigned char *base,
                       int64_t size, struct err *e)
{
    struct str dtype;
    int64_t begin, end;
    size_t k = 0, n = sizeof dtypes / sizeof *dtypes;
    if (json_kind(v) != JSON_OBJ)
        return err_set(e, "it is no object");
    if (json_need_str(v, "dtype", &dtype, e) || tensor_shape(t, json_get(v, "shape"), e))
        return -1;
    while (k < n && !str_eqz(dtype, dtypes[k].name))
        k++;
    if (k == n)
        return err_set(e, "its dtype is \"%.*s\"", (int)(dtype.n < 40 ? dtype.n : 40), dtype.p);
    const struct json *at = json_get(v, "data_offsets");
    if (json_kind(at) != JSON_ARR || json_size(at) != 2)
        return err_set(e, "its data_offsets are no pair");
    if (whole(json_at(at, 0), size, &begin, e) || whole(json_at(at, 1), size, &end, e))
        return err_wrap(e, "its data_offsets, in %lld bytes", (long long)size);
    t->dtype = dtypes[k].type;
    t->bytes = (size_t)t->count * dtypes[k].size;
    if (end < begin || (uint64_t)(end - begin) != t->bytes)
        return err_set(e, "its data_offsets span %lld bytes, its shape and dtype need %zu",
                       (long long)(end - begin), t->bytes);
    t->data = base + begin;
    return 0;
}

static int by_place(const void *x, const void *y)
{
    const struct st_tensor *a = x, *b = y;
    const char *p = a->data, *q = b->data;
    if (p != q)
        return p < q ? -1 : 1;
    if (a->bytes != b->bytes) /* an empty tensor lies in front of the one at its place */
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Sorted by place the tensors must fill the bytes without a hole or overlap. */
static int check_cover(struct safetensors *s, const unsigned char *base, size_t size, struct err *e)
{
    const unsigned char *at = base;
    if (s->n)
        qsort(s->v, s->n, sizeof *s->v, by_place);
    for (size_t i = 0; i < s->n; i++) {
        const unsigned char *p = s->v[i].data;
        if (p != at)
            return err_set(e, "tensor \"%s\" starts at byte %td of the data, want %td",
                           s->v[i].name, p - base, at - base);
        at += s->v[i].bytes;
    }
    if (at != base + size)
        return err_set(e, "the tensors end at byte %td of the data, the file has %zu", at - base,
                       size);
    return 0;
}

static int check_meta(const struct json *meta, struct err *e)
{
    void *it = NULL;
    const char *key;
    const struct json *val;
    if (json_kind(meta) != JSON_OBJ)
        return err_set(e, "\"__metadata__\" is no object");
    while (json_each(meta, &it, &key, &val))
        if (json_kind(val) != JSON_STR)
            return err_set(e, "\"__metadata__\": \"%s\" is no string", key);
    return 0;
}

static int read_tensors(struct safetensors *s, const unsigned char *base, size_t size,
                        struct err *e)
{
    void *it = NULL;
    const char *key;
    const struct json *val;
    s->v = arena_array(&s->arena, json_size(s->header), sizeof *s->v);
    while (json_each(s->header, &it, &key, &val)) {
        if (!strcmp(key, "__metadata__")) {
            if (check_meta(val, e))
                return -1;
            continue;
        }
        struct st_tensor *t = &s->v[s->n++];
        t->name = key;
        if (tensor_read(t, val, base, (int64_t)size, e))
            return err_wrap(e, "tensor \"%.100s\"", key);
    }
    return check_cover(s, base, size, e);
}

static int read_file(struct safetensors *s, struct err *e)
{
    uint64_t n = 0;
    if (s->map.n < 8)
        return err_set(e, "%zu bytes, want at least 8", s->map.n);
    for (int i = 8; i--;)
        n = n << 8 | s->map.p[i];
    if (n > MAX_HEADER)
        return err_set(e, "not a safetensors file: it claims a header of %llu bytes",
                       (unsigned long long)n);
    if (n > s->map.n - 8)
        return err_set(e, "cut: its header has %llu bytes, %zu are there", (unsigned long long)n,
                       s->map.n - 8);
    s->header = json_parse((struct str){(const char *)s->map.p + 8, (size_t)n}, e);
    if (!s->header)
        return err_wrap(e, "its header");
    if (json_kind(s->header) != JSON_OBJ)
        return err_set(e, "its header is no JSON object");
    return read_tensors(s, s->map.p + 8 + n, s->map.n - 8 - (size_t)n, e);
}

int safetensors_open(struct safetensors *s, const char *path, struct err *e)
{
    *s = (struct safetensors){0};
    s->path = arena_strdup(&s->arena, path);
    int rc = file_map(path, &s->map, e);
    if (!rc && read_file(s, e))
        rc = err_wrap(e, "%s", path);
    if (rc)
        safetensors_close(s);
    return rc;
}

void safetensors_close(struct safetensors *s)
{
    json_free(s->header);
    file_unmap(&s->map);
    arena_release(&s->arena);
    *s = (struct safetensors){0};
}

const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->v[i].name, name))
            return &s->v[i];
    return NULL;
}

struct str safetensors_meta(const struct safetensors *s, const char *key)
{
    return json_str(json_get(json_get(s->header, "__metadata__"), key));
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* IEEE 754 binary16; exact. */
static float of_f16(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float v;
    if (exponent == 31)
        v = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        v = ldexpf((float)fraction, -24);
    else
        v = ldexpf((float)(fraction | 1024), exponent - 25);
    return h & 0x8000 ? -v : v;
}

/* The upper half of a binary32; exact. */
static float of_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

int st_to_f32(const struct st_tensor *t, float *out, struct err *e)
{
    const char *p = t->data; /* at any alignment */
    if (t->dtype == ST_F32 && t->count)
        memcpy(out, p, t->bytes);
    for (int64_t i = 0; i < t->count; i++) {
        uint16_t half;
        double wide;
        switch (t->dtype) {
        case ST_F32:
            return 0;
        case ST_F16:
            memcpy(&half, p + 2 * i, sizeof half);
            out[i] = of_f16(half);
            break;
        case ST_BF16:
            memcpy(&half, p + 2 * i, sizeof half);
            out[i] = of_bf16(half);
            break;
        case ST_F64:
            memcpy(&wide, p + 8 * i, sizeof wide);
            out[i] = (float)wide;
            break;
        default:
            return err_set(e, "tensor \"%s\" holds no real numbers", t->name);
        }
    }
    return 0;
}
