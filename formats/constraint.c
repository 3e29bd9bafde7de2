/* constraint: see formats/constraint.h. */
#include "formats/constraint.h"

/* {"id": id} and the members of args that are not null, but for "id". */
static struct str make(struct str id, const struct json *args, struct arena *a)
{
    struct json *o = json_obj();
    struct buf b = {0};
    void *it = NULL;
    const char *key;
    const struct json *v;
    json_put(o, "id", json_of_str(id));
    while (json_each(args, &it, &key, &v))
        if (json_kind(v) != JSON_NULL && !str_eqz(str_z(key), "id"))
            json_put(o, key, json_clone(v));
    json_write(o, &b);
    struct str out = str_copy(a, buf_str(&b));
    buf_release(&b);
    json_free(o);
    return out;
}

static int of_value(const struct json *v, struct arena *a, struct str *out, struct err *e)
{
    struct str id = json_kind(v) == JSON_OBJ ? json_str(json_get(v, "id")) : json_str(v);
    if (!id.n)
        return err_set(e, "a constraint is neither an id nor an object with an \"id\"");
    *out = make(id, json_kind(v) == JSON_OBJ ? v : NULL, a);
    return 0;
}

int constraints_of_json(const struct json *v, struct arena *a, struct strs *out, struct err *e)
{
    *out = (struct strs){0};
    if (json_kind(v) == JSON_NULL)
        return 0;
    if (json_kind(v) != JSON_ARR)
        return err_set(e, "\"constraints\" is not an array");
    out->n = json_size(v);
    out->v = arena_array(a, out->n, sizeof *out->v);
    for (size_t i = 0; i < out->n; i++)
        if (of_value(json_at(v, i), a, &out->v[i], e))
            return err_wrap(e, "\"constraints\"[%zu]", i);
    return 0;
}

int constraint_of_text(struct str text, struct arena *a, struct str *out, struct err *e)
{
    text = str_trim(text);
    if (!str_starts(text, "{")) {
        *out = make(text, NULL, a);
        return text.n ? 0 : err_set(e, "an empty constraint");
    }
    struct json *v = json_parse(text, e);
    int rc = v ? of_value(v, a, out, e) : -1;
    json_free(v);
    return rc;
}

int constraints_row(const struct json *row, struct item *it, struct arena *a, struct err *e)
{
    const struct json *ids = json_get(row, "instruction_id_list"), *args = json_get(row, "kwargs");
    const struct json *key = json_get(row, "key");
    struct str prompt;
    if (json_need_str(row, "prompt", &prompt, e))
        return -1;
    if (json_kind(ids) != JSON_ARR)
        return err_set(e, "\"instruction_id_list\" is not an array");
    if (json_kind(args) != JSON_NULL &&
        (json_kind(args) != JSON_ARR || json_size(args) != json_size(ids)))
        return err_set(e, "\"kwargs\" has not one object for each of the %zu instructions",
                       json_size(ids));
    it->task = STR_LIT("ifeval");
    it->instruction = str_copy(a, prompt);
    if (json_kind(key) == JSON_INT)
        it->id = str_printf(a, "%lld", (long long)json_int(key, 0));
    else
        it->id = str_copy(a, json_str(key));
    it->constraints.n = json_size(ids);
    it->constraints.v = arena_array(a, it->constraints.n, sizeof *it->constraints.v);
    for (size_t i = 0; i < it->constraints.n; i++) {
        struct str id = json_str(json_at(ids, i));
        const struct json *kw = json_at(args, i);
        if (!id.n)
            return err_set(e, "\"instruction_id_list\"[%zu] is no string", i);
        if (json_kind(kw) != JSON_NULL && json_kind(kw) != JSON_OBJ)
            return err_set(e, "\"kwargs\"[%zu] is no object", i);
        it->constraints.v[i] = make(id, kw, a);
    }
    return 0;
}
