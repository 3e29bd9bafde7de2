/* json_struct: structs to JSON and back through their tables, see json.h.
 *
 * Written: every row but REST, unset values left out. Read: numbers, strings and lists of the row's
 * kind within its range; null counts as unset; an unknown key is refused with the near miss.
 */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* ---- out ------------------------------------------------------------------------------------ */

/* True if reading a file without the key gives this value again. */
static bool is_unset(const struct field *f, const void *member)
{
    bool blank = !f->def || !*f->def;
    switch (f->type) {
    case FIELD_I64:
        return *(const int64_t *)member == FIELD_NONE_I64;
    case FIELD_F64:
        return isnan(*(const double *)member) && blank;
    case FIELD_STR:
        return blank && f->def && ((const struct str *)member)->n == 0;
    case FIELD_STRS:
        return blank && f->def && ((const struct strs *)member)->n == 0;
    case FIELD_F64S:
        return blank && f->def && ((const struct f64s *)member)->n == 0;
    case FIELD_I64S:
        return blank && f->def && ((const struct i64s *)member)->n == 0;
    case FIELD_LIST:
        return ((const struct list *)member)->n == 0;
    case FIELD_REST:
        return true;
    case FIELD_BOOL:
    case FIELD_ENUM:
    case FIELD_STRUCT:
        break;
    }
    return false;
}

static struct json *of_list(const struct field *f, const void *member, bool skip_volatile)
{
    struct json *arr = json_arr();
    const struct strs *strs = member;
    const struct f64s *f64s = member;
    const struct i64s *i64s = member;
    const struct list *list = member;
    if (f->type == FIELD_STRS)
        for (size_t i = 0; i < strs->n; i++)
            json_push(arr, json_of_str(strs->v[i]));
    if (f->type == FIELD_F64S)
        for (size_t i = 0; i < f64s->n; i++)
            json_push(arr, json_of_num(f64s->v[i]));
    if (f->type == FIELD_I64S)
        for (size_t i = 0; i < i64s->n; i++)
            json_push(arr, json_of_int(i64s->v[i]));
    if (f->type == FIELD_LIST)
        for (size_t i = 0; i < list->n; i++)
            json_push(arr, json_of_struct(f->sub, (const char *)list->v + i * f->sub->size,
                                          skip_volatile));
    return arr;
}

static struct json *of_member(const struct field *f, const void *member, bool skip_volatile)
{
    struct buf b = {0};
    struct json *v = NULL;
    switch (f->type) {
    case FIELD_BOOL:
        return json_of_bool(*(const bool *)member);
    case FIELD_I64:
        return json_of_int(*(const int64_t *)member);
    case FIELD_F64:
        return json_of_num(*(const double *)member);
    case FIELD_STR:
        return json_of_str(*(const struct str *)member);
    case FIELD_ENUM:
        field_text(f, member, &b);
        v = json_of_str(buf_str(&b));
        buf_release(&b);
        return v;
    case FIELD_STRUCT:
        return json_of_struct(f->sub, member, skip_volatile);
    case FIELD_STRS:
    case FIELD_F64S:
    case FIELD_I64S:
    case FIELD_LIST:
        return of_list(f, member, skip_volatile);
    case FIELD_REST:
        break;
    }
    return json_of_null();
}

struct json *json_of_struct(const struct schema *s, const void *src, bool skip_volatile)
{
    struct json *obj = json_obj();
    for (const struct field *f = s->fields; f->name; f++) {
        const char *member = (const char *)src + f->at;
        if (is_unset(f, member) || (skip_volatile && (f->flags & FIELD_VOLATILE)))
            continue;
        json_put(obj, f->name, of_member(f, member, skip_volatile));
    }
    return obj;
}

/* ---- in ------------------------------------------------------------------------------------- */

static const char *kind_name(enum json_kind k)
{
    static const char *const names[] = {"null",     "true or false", "a whole number", "a number",
                                        "a string", "a list",        "an object"};
    return names[k];
}

static int mismatch(const struct field *f, const char *want, const struct json *v, struct err *e)
{
    return err_set(e, "\"%s\" must be %s, got %s", f->name, want, kind_name(json_kind(v)));
}

/* A whole number; 1e3 and 2.0 are accepted as such, 2.5 is not. */
static int to_i64(const struct field *f, int64_t *out, const struct json *v, struct err *e)
{
    double d = json_num(v);
    if (json_kind(v) != JSON_INT) {
        if (json_kind(v) != JSON_REAL || d != floor(d) || fabs(d) > 9007199254740992.0)
            return mismatch(f, "a whole number", v, e);
        *out = (int64_t)d;
    } else {
        *out = json_int(v, 0);
        if (*out == FIELD_NONE_I64)
            return err_set(e, "\"%s\" is outside of what can be kept", f->name);
    }
    return field_check(f, d, e);
}

/* null is a number that is not there: NaN. */
static int to_f64(const struct field *f, double *out, const struct json *v, struct err *e)
{
    *out = json_num(v);
    if (json_kind(v) == JSON_NULL)
        return 0;
    if (isnan(*out))
        return mismatch(f, "a number", v, e);
    return field_check(f, *out, e);
}

static int to_strs(const struct field *f, struct strs *out, const struct json *v, struct arena *a,
                   struct err *e)
{
    out->n = json_size(v);
    out->v = arena_array(a, out->n, sizeof *out->v);
    for (size_t i = 0; i < out->n; i++) {
        if (json_kind(json_at(v, i)) != JSON_STR)
            return mismatch(f, "a list of strings", json_at(v, i), e);
        out->v[i] = str_copy(a, json_str(json_at(v, i)));
    }
    return 0;
}

static int to_numbers(const struct field *f, void *member, const struct json *v, struct arena *a,
                      struct err *e)
{
    size_t n = json_size(v);
    int64_t *iv = f->type == FIELD_I64S ? arena_array(a, n, sizeof *iv) : NULL;
    double *dv = f->type == FIELD_F64S ? arena_array(a, n, sizeof *dv) : NULL;
    for (size_t i = 0; i < n; i++)
        if (iv ? to_i64(f, &iv[i], json_at(v, i), e) : to_f64(f, &dv[i], json_at(v, i), e))
            return -1;
    if (iv)
        *(struct i64s *)member = (struct i64s){iv, n};
    else
        *(struct f64s *)member = (struct f64s){dv, n};
    return 0;
}

static int to_list(const struct field *f, struct list *out, const struct json *v, struct arena *a,
                   struct err *e)
{
    out->n = json_size(v);
    out->v = arena_array(a, out->n, f->sub->size);
    for (size_t i = 0; i < out->n; i++) {
        char *one = (char *)out->v + i * f->sub->size;
        if (json_to_struct(f->sub, one, json_at(v, i), a, e) != 0)
            return err_wrap(e, "%s[%zu]", f->name, i);
    }
    return 0;
}

static int to_member(const struct field *f, void *member, const struct json *v, struct arena *a,
                     struct err *e)
{
    bool arr = json_kind(v) == JSON_ARR;
    switch (f->type) {
    case FIELD_BOOL:
        if (json_kind(v) != JSON_BOOL)
            return mismatch(f, "true or false", v, e);
        *(bool *)member = json_bool(v);
        return 0;
    case FIELD_I64:
        return to_i64(f, member, v, e);
    case FIELD_F64:
        return to_f64(f, member, v, e);
    case FIELD_STR:
        if (json_kind(v) != JSON_STR)
            return mismatch(f, "a string", v, e);
        *(struct str *)member = str_copy(a, json_str(v));
        return 0;
    case FIELD_ENUM:
        if (json_kind(v) != JSON_STR)
            return mismatch(f, "a string", v, e);
        return field_parse(f, member, json_str(v), a, e);
    case FIELD_STRS:
        return arr ? to_strs(f, member, v, a, e) : mismatch(f, "a list", v, e);
    case FIELD_F64S:
    case FIELD_I64S:
        return arr ? to_numbers(f, member, v, a, e) : mismatch(f, "a list", v, e);
    case FIELD_LIST:
        return arr ? to_list(f, member, v, a, e) : mismatch(f, "a list", v, e);
    case FIELD_STRUCT:
        return json_to_struct(f->sub, member, v, a, e) == 0 ? 0 : err_wrap(e, "%s", f->name);
    case FIELD_REST:
        break;
    }
    assert(!"a REST row is never read from JSON");
    return -1;
}

/* null says "unset" and leaves the default, except that a number becomes the unset one. */
static void set_unset(const struct field *f, void *member)
{
    if (f->type == FIELD_F64)
        *(double *)member = NAN;
    else if (f->type == FIELD_I64 && f->def && !*f->def)
        *(int64_t *)member = FIELD_NONE_I64;
}

static const struct field *row_of(const struct schema *s, const char *key)
{
    for (const struct field *f = s->fields; f->name; f++)
        if (strcmp(f->name, key) == 0 && f->type != FIELD_REST)
            return f;
    return NULL;
}

static int missing_row(const struct schema *s, const struct json *obj, struct err *e)
{
    for (const struct field *f = s->fields; f->name; f++)
        if (!f->def && f->type < FIELD_STRUCT && !json_get(obj, f->name))
            return err_set(e, "the key \"%s\" of a %s is missing%s%s%s", f->name, s->name,
                           f->help ? " (" : "", f->help ? f->help : "", f->help ? ")" : "");
    return 0;
}

int json_to_struct(const struct schema *s, void *dst, const struct json *obj, struct arena *a,
                   struct err *e)
{
    const char *key;
    const struct json *v;
    void *it = NULL;
    if (json_kind(obj) != JSON_OBJ)
        return err_set(e, "a %s must be an object, got %s", s->name, kind_name(json_kind(obj)));
    if (schema_defaults(s, dst, a, e) != 0)
        return -1;
    while (json_each(obj, &it, &key, &v)) {
        const struct field *f = row_of(s, key);
        char near[128];
        if (!f) {
            f = schema_near(s, key, near);
            return err_set(e, "unknown key \"%.60s\" in a %s%s%s%s", key, s->name,
                           f ? "; did you mean \"" : "", f ? near : "", f ? "\"?" : "");
        }
        if (json_kind(v) == JSON_NULL && f->def) {
            set_unset(f, (char *)dst + f->at);
        } else if (to_member(f, (char *)dst + f->at, v, a, e) != 0) {
            e->code = EXIT_FAILED; /* a file is wrong, not the command line */
            return -1;
        }
    }
    return missing_row(s, obj, e);
}
