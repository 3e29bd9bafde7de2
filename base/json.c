/* json: values in and out, over jansson (this is its only includer).
 *
 * What jansson leaves open is settled here: one scan in front of it limits the depth and finds
 * lone surrogates, and a string that is not UTF-8 is mended on the way in instead of being refused.
 * The writer is our own (json_write.c); structs go through json_struct.c.
 * A struct json is a json_t under another name; it is never defined. Grammar: RFC 8259.
 */
#include "base/json.h"

/* Names that both headers use; ours win behind the include. */
#define JSON_NULL JANSSON_NULL
#define JSON_REAL JANSSON_REAL
#include <jansson.h>
#undef JSON_NULL
#undef JSON_REAL

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define DEPTH_MAX 256

/* jansson answers NULL when memory ran out; then we die like everybody else (base/mem.h). */
static struct json *must(json_t *v)
{
    if (!v)
        mem_alloc(SIZE_MAX);
    return (struct json *)v;
}

static json_t *down(const struct json *v)
{
    return (json_t *)v;
}

/* ---- parsing -------------------------------------------------------------------------------- */

/* The four hex digits behind "\u" at p, or -1. */
static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static bool is_high(int u)
{
    return u >= 0xD800 && u <= 0xDBFF;
}

static bool is_low(int u)
{
    return u >= 0xDC00 && u <= 0xDFFF;
}

/* Counts lines and columns (in code points, from 1) up to `at`, for a sentence. */
static void place(struct str text, size_t at, int *line, int *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < at; i++) {
        if (text.p[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text.p[i] & 0xC0) != 0x80) {
            ++*column;
        }
    }
}

/* A "\u" escape at text.p[i]: returns its length in bytes; a lone surrogate is noted in *lone. */
static size_t scan_escape(struct str text, size_t i, bool *lone)
{
    const char *end = text.p + text.n, *p = text.p + i;
    *lone = false;
    if (end - p < 2 || p[1] != 'u')
        return 2;
    int u = hex4(p + 2, end);
    if (is_high(u)) {
        if (end - p >= 12 && p[6] == '\\' && p[7] == 'u' && is_low(hex4(p + 8, end)))
            return 12;
        *lone = true;
    } else if (is_low(u)) {
        *lone = true;
    }
    return u < 0 ? 2 : 6;
}

struct scan {
    size_t first_lone; /* offset of the first lone surrogate; text.n if there is none */
    size_t too_deep;   /* offset of the bracket that is one too many; text.n if none */
};

/* One pass over the text. If `mend` is a copy of the text, lone surrogates become \ufffd in it. */
static struct scan scan(struct str text, char *mend)
{
    struct scan r = {text.n, text.n};
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (in_string) {
            if (c == '"') {
                in_string = false;
            } else if (c == '\\') {
                bool lone;
                size_t n = scan_escape(text, i, &lone);
                if (lone && r.first_lone == text.n)
                    r.first_lone = i;
                if (lone && mend)
                    memcpy(mend + i, "\\ufffd", 6);
                i += n - 1;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > DEPTH_MAX) {
                r.too_deep = i;
                return r;
            }
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return r;
}

static struct json *load(struct str text, struct err *e)
{
    json_error_t why;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *v = json_loadb(text.p ? text.p : "", text.n, flags, &why);
    if (v)
        return (struct json *)v;
    if (json_error_code(&why) == json_error_out_of_memory)
        mem_alloc(SIZE_MAX);
    if (str_trim(text).n == 0)
        err_set(e, "the text is empty, want a JSON value");
    else
        err_set(e, "line %d, column %d: %s", why.line, why.column, why.text);
    return NULL;
}

static struct json *parse(struct str text, bool lone_ok, struct err *e)
{
    struct scan s = scan(text, NULL);
    int line, column;
    if (s.too_deep < text.n) {
        place(text, s.too_deep, &line, &column);
        err_set(e, "line %d, column %d: nested deeper than %d", line, column, DEPTH_MAX);
        return NULL;
    }
    if (s.first_lone == text.n)
        return load(text, e);
    if (!lone_ok) {
        place(text, s.first_lone, &line, &column);
        err_set(e, "line %d, column %d: lone surrogate \\u%.4s", line, column,
                text.p + s.first_lone + 2);
        return NULL;
    }
    char *mended = mem_alloc(text.n);
    memcpy(mended, text.p, text.n);
    scan(text, mended);
    struct json *v = load((struct str){mended, text.n}, e);
    free(mended);
    return v;
}

struct json *json_parse(struct str text, struct err *e)
{
    return parse(text, false, e);
}

struct json *json_parse_lone(struct str text, struct err *e)
{
    return parse(text, true, e);
}

struct json *json_read(const char *path, struct err *e)
{
    struct buf b = {0};
    struct json *v = NULL;
    if (file_read(path, &b, 0, e) == 0) {
        struct str text = buf_str(&b);
        if (str_starts(text, "\xEF\xBB\xBF"))
            text = (struct str){text.p + 3, text.n - 3};
        v = json_parse(text, e);
        if (!v)
            err_wrap(e, "%s", path);
    }
    buf_release(&b);
    return v;
}

void json_free(struct json *v)
{
    json_decref(down(v));
}

const char *json_library(void)
{
    return jansson_version_str();
}

/* ---- looking -------------------------------------------------------------------------------- */

enum json_kind json_kind(const struct json *v)
{
    if (!v)
        return JSON_NULL;
    switch (json_typeof(down(v))) {
    case JSON_OBJECT:
        return JSON_OBJ;
    case JSON_ARRAY:
        return JSON_ARR;
    case JSON_STRING:
        return JSON_STR;
    case JSON_INTEGER:
        return JSON_INT;
    case JANSSON_REAL:
        return JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_BOOL;
    case JANSSON_NULL:
        break;
    }
    return JSON_NULL;
}

const struct json *json_get(const struct json *obj, const char *key)
{
    return (const struct json *)json_object_get(down(obj), key);
}

const struct json *json_at(const struct json *arr, size_t i)
{
    return (const struct json *)json_array_get(down(arr), i);
}

size_t json_size(const struct json *v)
{
    return json_kind(v) == JSON_ARR ? json_array_size(down(v)) : json_object_size(down(v));
}

bool json_each(const struct json *obj, void **it, const char **key, const struct json **val)
{
    *it = *it ? json_object_iter_next(down(obj), *it) : json_object_iter(down(obj));
    if (!*it)
        return false;
    *key = json_object_iter_key(*it);
    *val = (const struct json *)json_object_iter_value(*it);
    return true;
}

struct str json_str(const struct json *v)
{
    if (json_kind(v) != JSON_STR)
        return (struct str){0};
    return (struct str){json_string_value(down(v)), json_string_length(down(v))};
}

double json_num(const struct json *v)
{
    if (json_kind(v) == JSON_INT)
        return (double)json_integer_value(down(v));
    return json_kind(v) == JSON_REAL ? json_real_value(down(v)) : NAN;
}

int64_t json_int(const struct json *v, int64_t otherwise)
{
    return json_kind(v) == JSON_INT ? (int64_t)json_integer_value(down(v)) : otherwise;
}

bool json_bool(const struct json *v)
{
    return json_is_true(down(v));
}

int json_need_str(const struct json *obj, const char *key, struct str *out, struct err *e)
{
    const struct json *v = json_get(obj, key);
    if (!v)
        return err_set(e, "the key \"%s\" is missing", key);
    if (json_kind(v) != JSON_STR)
        return err_set(e, "the key \"%s\" is not a string", key);
    *out = json_str(v);
    return 0;
}

/* ---- making --------------------------------------------------------------------------------- */

struct json *json_obj(void)
{
    return must(json_object());
}

struct json *json_arr(void)
{
    return must(json_array());
}

struct json *json_of_str(struct str s)
{
    if (s.n == 0)
        return must(json_stringn_nocheck("", 0));
    if (utf8_valid(s) == s.n)
        return must(json_stringn_nocheck(s.p, s.n));
    struct buf b = {0};
    json_mend(s, &b);
    struct json *v = must(json_stringn_nocheck(b.p, b.n));
    buf_release(&b);
    return v;
}

struct json *json_of_z(const char *z)
{
    return json_of_str(str_z(z));
}

struct json *json_of_num(double v)
{
    return isfinite(v) ? must(json_real(v)) : json_of_null();
}

struct json *json_of_int(int64_t v)
{
    return must(json_integer(v));
}

struct json *json_of_bool(bool v)
{
    return must(v ? json_true() : json_false());
}

struct json *json_of_null(void)
{
    return must(json_null());
}

struct json *json_clone(const struct json *v)
{
    return v ? must(json_deep_copy(down(v))) : json_of_null();
}

void json_put(struct json *obj, const char *key, struct json *v)
{
    assert(json_kind(obj) == JSON_OBJ && v);
    struct str k = str_z(key);
    struct buf b = {0};
    if (utf8_valid(k) != k.n) {
        json_mend(k, &b);
        key = b.p;
    }
    if (json_object_set_new_nocheck(down(obj), key, down(v)) != 0)
        must(NULL);
    buf_release(&b);
}

void json_push(struct json *arr, struct json *v)
{
    assert(json_kind(arr) == JSON_ARR && v);
    if (json_array_append_new(down(arr), down(v)) != 0)
        must(NULL);
}
