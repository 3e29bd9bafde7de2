/* task_template: {path|filter} in task files, see formats/task.h. Its filters: formats/task_filter.c. */
#include <stdlib.h>
#include <string.h>

#include "formats/task.h"

/* ---- values --------------------------------------------------------------------------------- */

static void push(struct strs *s, size_t *cap, struct str x, struct arena *a)
{
    if (s->n == *cap) {
        struct str *v = arena_array(a, *cap = *cap ? 2 * *cap : 8, sizeof *v);
        if (s->n)
            memcpy(v, s->v, s->n * sizeof *v);
        s->v = v;
    }
    s->v[s->n++] = x;
}

static struct str scalar(const struct json *v, struct arena *a)
{
    struct buf b = {0};
    if (json_kind(v) == JSON_STR)
        return str_copy(a, json_str(v));
    json_write(v, &b);
    struct str s = str_copy(a, buf_str(&b));
    buf_release(&b);
    return s;
}

/* All values at a path. *list: it may be another number than one. */
static int walk(const struct json *v, struct str path, struct strs *out, size_t *cap, bool *list,
                struct arena *a)
{
    if (json_kind(v) == JSON_NULL)
        return -1;
    if (!path.n) {
        if (json_kind(v) != JSON_ARR) {
            push(out, cap, scalar(v, a), a);
            return json_kind(v) == JSON_OBJ ? -1 : 0;
        }
        *list = true;
        for (size_t i = 0; i < json_size(v); i++) {
            if (json_kind(json_at(v, i)) == JSON_NULL)
                return -1;
            push(out, cap, scalar(json_at(v, i), a), a);
        }
        return 0;
    }
    struct str key = str_cut(&path, '.');
    int64_t index;
    if (str_eqz(key, "*")) {
        void *it = NULL;
        const char *name;
        const struct json *member;
        *list = true;
        for (size_t i = 0; json_kind(v) == JSON_ARR && i < json_size(v); i++)
            if (walk(json_at(v, i), path, out, cap, list, a))
                return -1;
        while (json_kind(v) == JSON_OBJ && json_each(v, &it, &name, &member))
            if (walk(member, path, out, cap, list, a))
                return -1;
        return 0;
    }
    if (json_kind(v) == JSON_ARR && str_i64(key, &index) == 0 && index >= 0)
        return walk(json_at(v, (size_t)index), path, out, cap, list, a);
    return walk(json_get(v, str_dup(a, key)), path, out, cap, list, a);
}

static int place(struct str body, const struct json *row, struct strs *out, bool *list,
                 struct arena *a, struct err *e)
{
    struct str path = str_cut(&body, '|');
    size_t cap = 0;
    *out = (struct strs){0};
    *list = false;
    if (walk(row, path, out, &cap, list, a))
        return err_set(e, "the row has no value at \"%.*s\"", STR_ARG(path));
    for (size_t i = 0; i < out->n; i++)
        if (template_filter(out->v[i], body, a, &out->v[i], e))
            return -1;
    return 0;
}

/* ---- templates ------------------------------------------------------------------------------ */

enum part { PART_END, PART_TEXT, PART_PLACE, PART_BAD };

/* The next piece: text with its escapes undone, or the inside of braces. */
static enum part next_part(struct str *rest, struct buf *text)
{
    buf_cut(text, 0);
    if (!rest->n)
        return PART_END;
    if (rest->p[0] == '{' && !str_starts(*rest, "{{")) {
        ptrdiff_t close = str_find(*rest, STR_LIT("}"));
        if (close < 0)
            return PART_BAD;
        buf_add(text, rest->p + 1, (size_t)close - 1);
        *rest = (struct str){rest->p + close + 1, rest->n - (size_t)close - 1};
        return PART_PLACE;
    }
    while (rest->n && (rest->p[0] != '{' || str_starts(*rest, "{{"))) {
        static const char names[] = "nts\\", chars[] = "\n\t \\";
        const char *k =
            rest->n > 1 && rest->p[0] == '\\' && rest->p[1] ? strchr(names, rest->p[1]) : NULL;
        size_t used = k || rest->p[0] == '{' ? 2 : 1;
        buf_addc(text, k ? chars[k - names] : rest->p[0]);
        *rest = (struct str){rest->p + used, rest->n - used};
    }
    return PART_TEXT;
}

int template_syntax(struct str text, struct err *e)
{
    struct buf b = {0};
    enum part p;
    int rc = 0;
    while (!rc && (p = next_part(&text, &b)) != PART_END) {
        struct str body = buf_str(&b);
        if (p == PART_BAD)
            rc = err_code(e, EXIT_USAGE, "a { is not closed; {{ is a brace");
        if (p != PART_PLACE)
            continue;
        if (!str_cut(&body, '|').n)
            rc = err_code(e, EXIT_USAGE, "{} names no key");
        rc = rc ? rc : template_filters(body, e);
    }
    buf_release(&b);
    return rc;
}

bool template_text_only(struct str text, const struct json *row)
{
    struct buf b = {0};
    bool place = next_part(&text, &b) == PART_PLACE, text_only = place;
    struct str path = buf_str(&b);
    if (place && !text.n && str_find(path, STR_LIT("|")) < 0) {
        const struct json *v = row;
        int64_t index;
        while (path.n) {
            struct str key = str_cut(&path, '.');
            struct buf k = {0};
            buf_adds(&k, key);
            v = json_kind(v) == JSON_ARR && str_i64(key, &index) == 0 && index >= 0
                    ? json_at(v, (size_t)index)
                    : json_get(v, k.p ? k.p : "");
            buf_release(&k);
        }
        text_only = json_kind(v) == JSON_STR;
    }
    buf_release(&b);
    return text_only;
}

int template_text(struct str text, const struct json *row, struct arena *a, struct str *out,
                  struct err *e)
{
    struct buf b = {0}, all = {0};
    enum part p;
    int rc = 0;
    while (!rc && (p = next_part(&text, &b)) != PART_END) {
        struct strs v;
        bool list;
        if (p == PART_TEXT) {
            buf_adds(&all, buf_str(&b));
            continue;
        }
        rc = place(str_copy(a, buf_str(&b)), row, &v, &list, a, e);
        if (!rc && (list || v.n != 1))
            rc = err_set(e, "\"%s\" is a list of %zu, want one value", b.p, v.n);
        else if (!rc)
            buf_adds(&all, v.v[0]);
    }
    *out = str_copy(a, buf_str(&all));
    buf_release(&b);
    buf_release(&all);
    return rc;
}

int template_list(struct strs texts, const struct json *row, struct arena *a, struct strs *out,
                  struct err *e)
{
    struct buf b = {0};
    bool list = false;
    *out = (struct strs){0};
    if (texts.n == 1) { /* one that is nothing but a path may be a list */
        struct str rest = texts.v[0];
        enum part p = next_part(&rest, &b);
        int rc =
            p == PART_PLACE && !rest.n ? place(str_copy(a, buf_str(&b)), row, out, &list, a, e) : 0;
        buf_release(&b);
        if (rc || (p == PART_PLACE && !rest.n))
            return rc;
    }
    out->n = texts.n;
    out->v = arena_array(a, texts.n, sizeof *out->v);
    for (size_t i = 0; i < texts.n; i++)
        if (template_text(texts.v[i], row, a, &out->v[i], e))
            return -1;
    return 0;
}
