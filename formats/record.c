/* record: structs as msgpack maps through their field tables, and back. The only includer of
 * msgpack-c; files of records are in record_file.c.
 *
 * msgpack (https://github.com/msgpack/msgpack/blob/master/spec.md) has several encodings of one
 * value. We write one: integers shortest, reals as float64, text as str (bytes that are not UTF-8
 * as bin), NaN with one bit pattern; so equal structs give equal bytes. We read all.
 *
 * The decoder of msgpack-c allocates an array before it has read its elements, so record_measure()
 * walks the bytes first: each claimed element must be backed by a byte, depth and count are capped.
 */
#include "formats/record.h"

#include <assert.h>
#include <math.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "formats/record_pack.h"

/* ---- packing -------------------------------------------------------------------------------- */

static int pack_write(void *ctx, const char *p, size_t n)
{
    return buf_add(ctx, p, n);
}

static bool unset_is_default(const struct field *f)
{
    return f->def && !*f->def;
}

/* Whether the row is written at all: what reading would set anyway is left out. */
static bool pack_present(const struct field *f, const void *m)
{
    switch (f->type) {
    case FIELD_BOOL:
    case FIELD_ENUM:
    case FIELD_STRUCT:
        return true;
    case FIELD_I64:
        return *(const int64_t *)m != FIELD_NONE_I64 || !unset_is_default(f);
    case FIELD_F64:
        return !isnan(*(const double *)m) || !unset_is_default(f);
    case FIELD_STR:
        return ((const struct str *)m)->n || !unset_is_default(f);
    case FIELD_STRS:
        return ((const struct strs *)m)->n || !unset_is_default(f);
    case FIELD_F64S:
        return ((const struct f64s *)m)->n || !unset_is_default(f);
    case FIELD_I64S:
        return ((const struct i64s *)m)->n || !unset_is_default(f);
    case FIELD_LIST:
        return ((const struct list *)m)->n || !unset_is_default(f);
    case FIELD_REST:
        return false;
    }
    return false;
}

static void pack_str(msgpack_packer *pk, struct str s)
{
    const char *p = s.n ? s.p : "";
    if (utf8_valid(s) == s.n)
        msgpack_pack_str_with_body(pk, p, s.n);
    else
        msgpack_pack_bin_with_body(pk, p, s.n);
}

static void pack_i64(msgpack_packer *pk, int64_t v)
{
    if (v == FIELD_NONE_I64)
        msgpack_pack_nil(pk);
    else
        msgpack_pack_int64(pk, v);
}

static void pack_f64(msgpack_packer *pk, double v)
{
    msgpack_pack_double(pk, isnan(v) ? (double)NAN : v);
}

static void pack_struct(msgpack_packer *pk, const struct schema *s, const void *rec);

static void pack_list(msgpack_packer *pk, const struct schema *s, const struct list *l)
{
    msgpack_pack_array(pk, l->n);
    for (size_t i = 0; i < l->n; i++)
        pack_struct(pk, s, (const char *)l->v + i * s->size);
}

static void pack_value(msgpack_packer *pk, const struct field *f, const void *m)
{
    switch (f->type) {
    case FIELD_BOOL:
        if (*(const bool *)m)
            msgpack_pack_true(pk);
        else
            msgpack_pack_false(pk);
        break;
    case FIELD_I64:
        pack_i64(pk, *(const int64_t *)m);
        break;
    case FIELD_F64:
        if (isnan(*(const double *)m))
            msgpack_pack_nil(pk);
        else
            msgpack_pack_double(pk, *(const double *)m);
        break;
    case FIELD_STR:
        pack_str(pk, *(const struct str *)m);
        break;
    case FIELD_ENUM:
        pack_str(pk, str_z(f->choices[*(const int *)m]));
        break;
    case FIELD_STRS: {
        const struct strs *v = m;
        msgpack_pack_array(pk, v->n);
        for (size_t i = 0; i < v->n; i++)
            pack_str(pk, v->v[i]);
        break;
    }
    case FIELD_F64S: {
        const struct f64s *v = m;
        msgpack_pack_array(pk, v->n);
        for (size_t i = 0; i < v->n; i++)
            pack_f64(pk, v->v[i]);
        break;
    }
    case FIELD_I64S: {
        const struct i64s *v = m;
        msgpack_pack_array(pk, v->n);
        for (size_t i = 0; i < v->n; i++)
            pack_i64(pk, v->v[i]);
        break;
    }
    case FIELD_STRUCT:
        pack_struct(pk, f->sub, m);
        break;
    case FIELD_LIST:
        pack_list(pk, f->sub, m);
        break;
    case FIELD_REST:
        break;
    }
}

/* Pairs in the undecoded bytes of a REST row. */
static size_t rest_pairs(struct str rest)
{
    size_t values = 0;
    struct err e;
    while (rest.n) {
        size_t n = record_measure(rest, &e);
        assert(n && "a REST row holds what record_unpack put there");
        rest.p += n;
        rest.n -= n;
        values++;
    }
    return values / 2;
}

static void pack_struct(msgpack_packer *pk, const struct schema *s, const void *rec)
{
    size_t n = 0;
    struct str rest = {0};
    for (const struct field *f = s->fields; f->name; f++) {
        const char *m = (const char *)rec + f->at;
        if (f->type == FIELD_REST)
            rest = *(const struct str *)m;
        else
            n += pack_present(f, m);
    }
    msgpack_pack_map(pk, n + rest_pairs(rest));
    for (const struct field *f = s->fields; f->name; f++) {
        const char *m = (const char *)rec + f->at;
        if (!pack_present(f, m))
            continue;
        pack_str(pk, str_z(f->name));
        pack_value(pk, f, m);
    }
    if (rest.n)
        pk->callback(pk->data, rest.p, rest.n);
}

void record_pack(const struct schema *s, const void *rec, struct buf *out)
{
    msgpack_packer pk;
    msgpack_packer_init(&pk, out, pack_write);
    pack_struct(&pk, s, rec);
}

/* ---- unpacking ------------------------------------------------------------------------------ */

static const char *kind_name(const msgpack_object *o)
{
    switch (o->type) {
    case MSGPACK_OBJECT_NIL:
        return "nil";
    case MSGPACK_OBJECT_BOOLEAN:
        return "a boolean";
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return "an integer";
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return "a real";
    case MSGPACK_OBJECT_STR:
    case MSGPACK_OBJECT_BIN:
        return "a string";
    case MSGPACK_OBJECT_ARRAY:
        return "an array";
    case MSGPACK_OBJECT_MAP:
        return "a map";
    default:
        return "an extension";
    }
}

static bool object_str(const msgpack_object *o, struct str *s)
{
    if (o->type == MSGPACK_OBJECT_STR)
        *s = (struct str){o->via.str.ptr, o->via.str.size};
    else if (o->type == MSGPACK_OBJECT_BIN)
        *s = (struct str){o->via.bin.ptr, o->via.bin.size};
    else
        return false;
    return true;
}

static int want(const char *what, const msgpack_object *o, struct err *e)
{
    return err_set(e, "want %s, has %s", what, kind_name(o));
}

static int get_i64(const msgpack_object *o, int64_t *v, struct err *e)
{
    if (o->type == MSGPACK_OBJECT_NIL)
        *v = FIELD_NONE_I64;
    else if (o->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        *v = o->via.i64;
    else if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return want("an integer", o, e);
    else if (o->via.u64 > INT64_MAX)
        return err_set(e, "%llu is above the largest integer, 2^63 - 1",
                       (unsigned long long)o->via.u64);
    else
        *v = (int64_t)o->via.u64;
    return 0;
}

static int get_f64(const msgpack_object *o, double *v, struct err *e)
{
    if (o->type == MSGPACK_OBJECT_NIL)
        *v = NAN;
    else if (o->type == MSGPACK_OBJECT_FLOAT32 || o->type == MSGPACK_OBJECT_FLOAT64)
        *v = o->via.f64;
    else if (o->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        *v = (double)o->via.u64;
    else if (o->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        *v = (double)o->via.i64;
    else
        return want("a number", o, e);
    return 0;
}

static int get_str(const msgpack_object *o, struct str *v, struct arena *a, struct err *e)
{
    struct str s = {0};
    if (o->type != MSGPACK_OBJECT_NIL && !object_str(o, &s))
        return want("a string", o, e);
    *v = s.n ? str_copy(a, s) : (struct str){0};
    return 0;
}

static int check_range(const struct field *f, double v, struct err *e)
{
    if ((f->min == 0 && f->max == 0) || isnan(v) || (v >= f->min && v <= f->max))
        return 0;
    return err_set(e, "%.17g is outside %.17g to %.17g", v, f->min, f->max);
}

static int get_enum(const struct field *f, const msgpack_object *o, int *v, struct err *e)
{
    struct str s;
    if (!object_str(o, &s))
        return want("a name", o, e);
    for (int i = 0; f->choices[i]; i++)
        if (str_eqz(s, f->choices[i])) {
            *v = i;
            return 0;
        }
    return err_set(e, "\"%.*s\" is none of its names", (int)(s.n < 60 ? s.n : 60), s.p);
}

/* The elements of an array; nil is an empty one. */
static int get_array(const msgpack_object *o, msgpack_object_array *v, struct err *e)
{
    *v = (msgpack_object_array){0};
    if (o->type == MSGPACK_OBJECT_NIL)
        return 0;
    if (o->type != MSGPACK_OBJECT_ARRAY)
        return want("an array", o, e);
    *v = o->via.array;
    return 0;
}

static int get_strs(const msgpack_object *o, struct strs *v, struct arena *a, struct err *e)
{
    msgpack_object_array in;
    if (get_array(o, &in, e))
        return -1;
    *v = (struct strs){arena_array(a, in.size, sizeof *v->v), in.size};
    for (size_t i = 0; i < v->n; i++)
        if (get_str(&in.ptr[i], &v->v[i], a, e))
            return -1;
    return 0;
}

static int get_f64s(const msgpack_object *o, struct f64s *v, struct arena *a, struct err *e)
{
    msgpack_object_array in;
    if (get_array(o, &in, e))
        return -1;
    *v = (struct f64s){arena_array(a, in.size, sizeof *v->v), in.size};
    for (size_t i = 0; i < v->n; i++)
        if (get_f64(&in.ptr[i], &v->v[i], e))
            return -1;
    return 0;
}

static int get_i64s(const msgpack_object *o, struct i64s *v, struct arena *a, struct err *e)
{
    msgpack_object_array in;
    if (get_array(o, &in, e))
        return -1;
    *v = (struct i64s){arena_array(a, in.size, sizeof *v->v), in.size};
    for (size_t i = 0; i < v->n; i++)
        if (get_i64(&in.ptr[i], &v->v[i], e))
            return -1;
    return 0;
}

static int get_struct(const struct schema *s, void *rec, const msgpack_object *o, struct arena *a,
                      struct err *e);

static int get_list(const struct schema *s, const msgpack_object *o, struct list *v,
                    struct arena *a, struct err *e)
{
    msgpack_object_array in;
    if (get_array(o, &in, e))
        return -1;
    *v = (struct list){arena_array(a, in.size, s->size), in.size};
    for (size_t i = 0; i < v->n; i++)
        if (get_struct(s, (char *)v->v + i * s->size, &in.ptr[i], a, e))
            return err_wrap(e, "[%zu]", i);
    return 0;
}

static int get_value(const struct field *f, void *m, const msgpack_object *o, struct arena *a,
                     struct err *e)
{
    switch (f->type) {
    case FIELD_BOOL:
        if (o->type != MSGPACK_OBJECT_BOOLEAN)
            return want("a boolean", o, e);
        *(bool *)m = o->via.boolean;
        return 0;
    case FIELD_I64:
        if (get_i64(o, m, e))
            return -1;
        return *(int64_t *)m == FIELD_NONE_I64 ? 0 : check_range(f, (double)*(int64_t *)m, e);
    case FIELD_F64:
        return get_f64(o, m, e) || check_range(f, *(double *)m, e) ? -1 : 0;
    case FIELD_STR:
        return get_str(o, m, a, e);
    case FIELD_ENUM:
        return get_enum(f, o, m, e);
    case FIELD_STRS:
        return get_strs(o, m, a, e);
    case FIELD_F64S:
        return get_f64s(o, m, a, e);
    case FIELD_I64S:
        return get_i64s(o, m, a, e);
    case FIELD_STRUCT:
        return get_struct(f->sub, m, o, a, e);
    case FIELD_LIST:
        return get_list(f->sub, o, m, a, e);
    case FIELD_REST:
        return 0;
    }
    return 0;
}

/* The row of a key, or NULL. *i is its number. */
static const struct field *row_of(const struct schema *s, struct str key, size_t *i)
{
    for (*i = 0; s->fields[*i].name; (*i)++)
        if (s->fields[*i].type != FIELD_REST && str_eqz(key, s->fields[*i].name))
            return &s->fields[*i];
    return NULL;
}

static int get_pairs(const struct schema *s, void *rec, const msgpack_object_map *map, bool *seen,
                     struct buf *rest, struct arena *a, struct err *e)
{
    msgpack_packer pk;
    msgpack_packer_init(&pk, rest, pack_write);
    for (uint32_t i = 0; i < map->size; i++) {
        const msgpack_object_kv *kv = &map->ptr[i];
        struct str key;
        size_t row;
        if (!object_str(&kv->key, &key))
            return err_set(e, "a key is %s, want a string", kind_name(&kv->key));
        const struct field *f = row_of(s, key, &row);
        if (!f) {
            msgpack_pack_object(&pk, kv->key);
            msgpack_pack_object(&pk, kv->val);
            continue;
        }
        if (seen[row])
            return err_set(e, "the key \"%s\" stands twice", f->name);
        seen[row] = true;
        if (get_value(f, (char *)rec + f->at, &kv->val, a, e))
            return err_wrap(e, "key \"%s\"", f->name);
    }
    return 0;
}

static int get_struct(const struct schema *s, void *rec, const msgpack_object *o, struct arena *a,
                      struct err *e)
{
    struct buf rest = {0};
    size_t rows = 0;
    int rc = -1;
    if (o->type != MSGPACK_OBJECT_MAP)
        return want("a map", o, e);
    if (schema_defaults(s, rec, a, e))
        return -1;
    while (s->fields[rows].name)
        rows++;
    bool *seen = mem_zero(rows);
    if (get_pairs(s, rec, &o->via.map, seen, &rest, a, e))
        goto out;
    for (size_t i = 0; i < rows; i++) {
        const struct field *f = &s->fields[i];
        if (f->type == FIELD_REST)
            *(struct str *)((char *)rec + f->at) = str_copy(a, buf_str(&rest));
        else if (!f->def && !seen[i]) {
            err_set(e, "the %s lacks the key \"%s\"", s->name, f->name);
            goto out;
        }
    }
    rc = 0;
out:
    free(seen);
    buf_release(&rest);
    return rc;
}

/* Decodes a payload; on success the caller destroys *u. */
static int decode(struct str payload, msgpack_unpacked *u, struct err *e)
{
    size_t size = record_measure(payload, e), at = 0;
    if (!size)
        return -1;
    if (size != payload.n)
        return err_set(e, "%zu bytes stand behind the map", payload.n - size);
    msgpack_unpacked_init(u);
    if (msgpack_unpack_next(u, payload.p, payload.n, &at) != MSGPACK_UNPACK_SUCCESS) {
        msgpack_unpacked_destroy(u);
        return err_set(e, "not msgpack");
    }
    return 0;
}

int record_unpack(const struct schema *s, void *rec, struct str payload, struct arena *a,
                  struct err *e)
{
    msgpack_unpacked u;
    if (decode(payload, &u, e))
        return -1;
    int rc = get_struct(s, rec, &u.data, a, e);
    msgpack_unpacked_destroy(&u);
    return rc;
}

/* ---- as JSON -------------------------------------------------------------------------------- */

static struct json *json_of_object(const msgpack_object *o);

static struct json *json_of_map(const msgpack_object_map *m)
{
    struct json *v = json_obj();
    for (uint32_t i = 0; i < m->size; i++) {
        struct buf key = {0};
        struct str s;
        if (object_str(&m->ptr[i].key, &s)) {
            buf_adds(&key, s);
        } else {
            struct json *k = json_of_object(&m->ptr[i].key);
            json_write(k, &key);
            json_free(k);
        }
        json_put(v, key.p ? key.p : "", json_of_object(&m->ptr[i].val));
        buf_release(&key);
    }
    return v;
}

static struct json *json_of_object(const msgpack_object *o)
{
    struct str s;
    char digits[24];
    switch (o->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        return json_of_bool(o->via.boolean);
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        if (o->via.u64 <= INT64_MAX)
            return json_of_int((int64_t)o->via.u64);
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)o->via.u64);
        return json_of_z(digits);
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return json_of_int(o->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return json_of_num(o->via.f64);
    case MSGPACK_OBJECT_STR:
    case MSGPACK_OBJECT_BIN:
        object_str(o, &s);
        return json_of_str(s);
    case MSGPACK_OBJECT_ARRAY: {
        struct json *v = json_arr();
        for (uint32_t i = 0; i < o->via.array.size; i++)
            json_push(v, json_of_object(&o->via.array.ptr[i]));
        return v;
    }
    case MSGPACK_OBJECT_MAP:
        return json_of_map(&o->via.map);
    case MSGPACK_OBJECT_EXT: {
        struct json *v = json_obj();
        json_put(v, "ext", json_of_int(o->via.ext.type));
        json_put(v, "bytes", json_of_int(o->via.ext.size));
        return v;
    }
    default:
        return json_of_null();
    }
}

struct json *record_unpack_json(struct str payload, struct err *e)
{
    msgpack_unpacked u;
    if (decode(payload, &u, e))
        return NULL;
    struct json *v = json_of_object(&u.data);
    msgpack_unpacked_destroy(&u);
    return v;
}
