/* task_template: {path|filter} in task files, see formats/task.h. Letters are ASCII where a filter
 * changes their case. */
#include <stdlib.h>
#include <string.h>

#include "formats/task.h"

enum { QUOTED = 60 }; /* bytes of a text that a sentence repeats */

/* ---- filters -------------------------------------------------------------------------------- */

static char up(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
}
static char down(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static struct str trim(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    return str_trim(s);
}

static struct str lstrip(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    while (s.n && strchr(" \t\r\n", s.p[0]) && s.p[0])
        s = (struct str){s.p + 1, s.n - 1};
    return s;
}

static struct str lower(struct str s, struct str arg, struct arena *a)
{
    char *p = arena_bytes(a, s.p ? s.p : "", s.n);
    (void)arg;
    for (size_t i = 0; i < s.n; i++)
        p[i] = down(p[i]);
    return (struct str){p, s.n};
}

static struct str capitalize(struct str s, struct str arg, struct arena *a)
{
    s = lower(s, arg, a);
    if (s.n)
        ((char *)(uintptr_t)s.p)[0] = up(s.p[0]);
    return s;
}

static struct str lower_first(struct str s, struct str arg, struct arena *a)
{
    char *p = arena_bytes(a, s.p ? s.p : "", s.n);
    (void)arg;
    if (s.n)
        p[0] = down(p[0]);
    return (struct str){p, s.n};
}

static struct str drop_last(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    while (s.n && (s.p[s.n - 1] & 0xC0) == 0x80)
        s.n--;
    s.n -= s.n > 0;
    return s;
}

static struct str before(struct str s, struct str arg, struct arena *a)
{
    (void)a;
    return (struct str){s.p, (size_t)str_find(s, arg)}; /* it is there: template_filter looks */
}

static struct str after(struct str s, struct str arg, struct arena *a)
{
    (void)a;
    size_t at = (size_t)str_find(s, arg) + arg.n;
    return (struct str){s.p + at, s.n - at};
}

static size_t last_blank(struct str s)
{
    size_t i = s.n;
    while (i > 0 && s.p[i - 1] != ' ')
        i--;
    return i; /* behind it; 0: none */
}

static struct str last_word(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    size_t at = last_blank(s);
    return (struct str){s.p + at, s.n - at};
}

static struct str but_last_word(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    size_t at = last_blank(s);
    return (struct str){s.p, at ? at - 1 : 0};
}

static size_t starts_blank(struct str s)
{
    return s.n && s.p[0] && strchr(" \t\r\n", s.p[0]) ? 1 : 0;
}

static struct str first_blank(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    return (struct str){s.p, starts_blank(s)};
}

static struct str but_first_blank(struct str s, struct str arg, struct arena *a)
{
    size_t n = starts_blank(s);
    (void)arg, (void)a;
    return (struct str){s.p + n, s.n - n};
}

/* a=b;c=d: the text that equals a left side becomes its right. */
static struct str map(struct str s, struct str arg, struct arena *a)
{
    (void)a;
    while (arg.n) {
        struct str pair = str_cut(&arg, ';'), from = str_cut(&pair, '=');
        if (str_eq(from, s))
            return pair;
    }
    return s;
}

static struct str replace(struct str s, const char *old, const char *new, struct arena *a)
{
    struct buf b = {0};
    for (ptrdiff_t at; (at = str_find(s, str_z(old))) >= 0;) {
        buf_add(&b, s.p, (size_t)at);
        buf_addz(&b, new);
        s.p += (size_t)at + strlen(old);
        s.n -= (size_t)at + strlen(old);
    }
    buf_adds(&b, s);
    struct str out = str_copy(a, buf_str(&b));
    buf_release(&b);
    return out;
}

/* As lm-evaluation-harness and the data's authors clean it. */
static struct str wikihow(struct str s, struct str arg, struct arena *a)
{
    struct buf b = {0};
    (void)arg;
    s = replace(str_trim(s), " [title]", ". ", a);
    while (s.n) { /* \[.*?\], not across lines */
        ptrdiff_t open = str_find(s, STR_LIT("["));
        struct str rest = open < 0 ? (struct str){0} : (struct str){s.p + open, s.n - (size_t)open};
        ptrdiff_t close = open < 0 ? -1 : str_find(rest, STR_LIT("]"));
        if (close >= 0 && memchr(rest.p, '\n', (size_t)close))
            close = -1;
        size_t keep = open < 0 ? s.n : (size_t)open + (close < 0),
               skip = close < 0 ? 0 : (size_t)close + 1;
        buf_add(&b, s.p, keep);
        s = (struct str){s.p + keep + skip, s.n - keep - skip};
    }
    struct str out = replace(buf_str(&b), "  ", " ", a);
    buf_release(&b);
    return out;
}

static const struct filter {
    const char *name;
    bool arg;
    struct str (*apply)(struct str s, struct str arg, struct arena *a);
} filters[] = {
    {"trim", false, trim},
    {"lstrip", false, lstrip},
    {"lower", false, lower},
    {"capitalize", false, capitalize},
    {"lower_first", false, lower_first},
    {"drop_last", false, drop_last},
    {"first_blank", false, first_blank},
    {"but_first_blank", false, but_first_blank},
    {"before", true, before},
    {"after", true, after},
    {"last_word", false, last_word},
    {"but_last_word", false, but_last_word},
    {"map", true, map},
    {"wikihow", false, wikihow},
};

static const struct filter *filter_of(struct str spec, struct str *arg)
{
    struct str name = str_cut(&spec, ':');
    *arg = spec;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (str_eqz(name, filters[i].name) && filters[i].arg == (spec.n > 0))
            return &filters[i];
    return NULL;
}

int template_filter(struct str s, struct str chain, struct arena *a, struct str *out, struct err *e)
{
    struct str arg;
    while (chain.n) {
        struct str spec = str_cut(&chain, '|');
        const struct filter *f = filter_of(spec, &arg);
        if (!f) /* template_filters has refused what is none */
            continue;
        if ((f->apply == before || f->apply == after) && str_find(s, arg) < 0)
            return err_set(e, "there is no \"%.*s\" in \"%.*s\", as %.*s wants", STR_ARG(arg),
                           (int)(s.n < QUOTED ? s.n : QUOTED), s.p, STR_ARG(spec));
        s = f->apply(s, arg, a);
    }
    *out = s;
    return 0;
}

int template_filters(struct str chain, struct err *e)
{
    struct str arg;
    while (chain.n) {
        struct str spec = str_cut(&chain, '|');
        if (!filter_of(spec, &arg))
            return err_code(e, EXIT_USAGE, "no filter is called \"%.*s\"", STR_ARG(spec));
    }
    return 0;
}

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
