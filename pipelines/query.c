/* query: see query.h. */
#include "pipelines/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/regex.h"

/* ---- naming a field ----------------------------------------------------------------------------- */

struct hit {
    const struct field *row;
    size_t at;
    int n;
};

/* Rows of s whose last word is `name`, in s and below. */
static void by_last_word(const struct schema *s, size_t at, const char *name, struct hit *h)
{
    for (const struct field *f = s->fields; f->name; f++) {
        if (f->type == FIELD_STRUCT)
            by_last_word(f->sub, at + f->at, name, h);
        else if (strcmp(f->name, name) == 0 && f->type != FIELD_LIST && f->type != FIELD_REST &&
                 h->n++ == 0) {
            h->row = f;
            h->at = at + f->at;
        }
    }
}

static bool is_value(const struct field *f)
{
    return f && f->type != FIELD_STRUCT && f->type != FIELD_LIST && f->type != FIELD_REST;
}

static bool by_path(struct query_field *f, const char *path)
{
    static const struct result none;
    void *member;
    /* schema_find wants a place to count from; it does not write there. */
    const struct field *row = schema_find(&result_schema, (void *)(uintptr_t)&none, path, &member);
    if (!is_value(row))
        return false;
    f->row = row;
    f->at = (size_t)((const char *)member - (const char *)&none);
    return true;
}

static const struct metric *metric_of(const struct query_field *f, const struct result *r)
{
    const struct metric *m = r->metrics.v;
    for (size_t i = 0; i < r->metrics.n; i++)
        if (str_eq(m[i].name, f->metric) && (!f->task.n || str_eq(m[i].task, f->task)))
            return &m[i];
    return NULL;
}

int query_field(struct query_field *f, struct str name, const struct result *v, size_t n,
                struct arena *a, struct err *e)
{
    struct hit h = {0};
    char near[128] = "";
    *f = (struct query_field){.name = str_dup(a, str_trim(name))};
    if (by_path(f, f->name) || by_path(f, arena_printf(a, "config.%s", f->name)))
        return 0;
    struct str rest = str_z(f->name);
    f->metric = str_cut(&rest, '/');
    f->task = rest;
    for (size_t i = 0; i < n; i++)
        if (metric_of(f, &v[i]))
            return 0;
    by_last_word(&result_schema, 0, f->name, &h);
    if (h.n == 1) {
        f->row = h.row;
        f->at = h.at;
        return 0;
    }
    if (h.n > 1)
        return err_code(e, EXIT_USAGE,
                        "the field \"%s\" is in several sections; write its section too, e.g. "
                        "train.%s",
                        f->name, f->name);
    if (!schema_near(&result_schema, f->name, near))
        schema_near(&run_schema, f->name, near);
    return err_code(e, EXIT_USAGE, "no field and no metric of these results is called \"%s\"%s%s%s",
                    f->name, *near ? "; did you mean \"" : "", near, *near ? "\"?" : "");
}

/* ---- values ------------------------------------------------------------------------------------- */

static double number_of(const struct field *f, const void *m)
{
    switch (f->type) {
    case FIELD_BOOL:
        return *(const bool *)m;
    case FIELD_I64:
        return *(const int64_t *)m == FIELD_NONE_I64 ? NAN : (double)*(const int64_t *)m;
    case FIELD_F64:
        return *(const double *)m;
    default:
        return NAN;
    }
}

struct query_value query_value(const struct query_field *f, const struct result *r, struct arena *a)
{
    struct query_value v = {.num = NAN, .text = ""};
    if (!f->row) {
        const struct metric *m = metric_of(f, r);
        v.num = m ? m->value : NAN;
        v.known = !isnan(v.num);
        v.text = v.known ? arena_printf(a, "%.17g", v.num) : "";
        return v;
    }
    struct buf b = {0};
    const void *m = (const char *)r + f->at;
    v.num = number_of(f->row, m);
    field_text(f->row, m, &b);
    v.text = arena_strdup(a, b.p ? b.p : "");
    buf_release(&b);
    v.known = f->row->type == FIELD_I64 || f->row->type == FIELD_F64 ? !isnan(v.num) : *v.text;
    return v;
}

/* ---- conditions --------------------------------------------------------------------------------- */

enum op { OP_EQ, OP_NE, OP_LE, OP_GE, OP_LT, OP_GT, OP_MATCH };
static const char *const op_text[] = {"=", "!=", "<=", ">=", "<", ">", "~"};

struct condition {
    struct query_field f;
    enum op op;
    struct str want;
    double num; /* NaN: want is text */
    struct regex *regex;
    struct regex_match *match;
};

static void condition_release(struct condition *c)
{
    if (c->regex)
        regex_match_free(c->match);
    if (c->regex)
        regex_free(c->regex);
}

/* A number as people write one: 1e-3, 20M, 3_000. */
static double number_in(struct str s)
{
    double v;
    int64_t i;
    if (str_f64(s, &v) == 0)
        return v;
    return str_i64(s, &i) == 0 ? (double)i : NAN;
}

static int condition_parse(struct condition *c, struct str text, const struct result *v, size_t n,
                           struct arena *a, struct err *e)
{
    size_t at = 0;
    *c = (struct condition){0};
    while (at < text.n && !memchr("=!<>~", text.p[at], 5))
        at++;
    size_t len = at + 1 < text.n && text.p[at + 1] == '=' && memchr("<>!=", text.p[at], 4) ? 2 : 1;
    size_t k = 0, ops = sizeof op_text / sizeof op_text[0];
    struct str op = {text.p + at, at < text.n ? len : 0};
    if (str_eqz(op, "=="))
        op.n = 1;
    while (k < ops && !str_eqz(op, op_text[k]))
        k++;
    if (k == ops || at == 0)
        return err_code(e, EXIT_USAGE,
                        "condition \"%.*s\": want FIELD OP VALUE with one of = != < <= > >= ~",
                        STR_ARG(text));
    c->op = (enum op)k;
    c->want = str_trim((struct str){text.p + at + len, text.n - at - len});
    c->num = number_in(c->want);
    if (query_field(&c->f, (struct str){text.p, at}, v, n, a, e) != 0)
        return err_wrap(e, "condition \"%.*s\"", STR_ARG(text));
    if (c->op >= OP_LE && c->op <= OP_GT && isnan(c->num))
        return err_code(e, EXIT_USAGE, "condition \"%.*s\": \"%.*s\" is no number", STR_ARG(text),
                        STR_ARG(c->want));
    if (c->op != OP_MATCH)
        return 0;
    if (!(c->regex = regex_new(c->want, REGEX_CASELESS, e))) {
        err_wrap(e, "condition \"%.*s\"", STR_ARG(text));
        e->code = EXIT_USAGE;
        return -1;
    }
    c->match = regex_match_new(c->regex);
    return 0;
}

static bool equal(const struct condition *c, const struct result *r, const struct query_value *v)
{
    if (c->f.row && c->f.row->type == FIELD_STRS) {
        const struct strs *s = (const struct strs *)((const char *)r + c->f.at);
        for (size_t i = 0; i < s->n; i++)
            if (str_eq(s->v[i], c->want))
                return true;
        return false;
    }
    if (!isnan(v->num) && !isnan(c->num))
        return v->num == c->num;
    return str_eqz(c->want, v->text);
}

static int holds(const struct condition *c, const struct result *r, struct arena *a, struct err *e)
{
    struct query_value v = query_value(&c->f, r, a);
    size_t start, end;
    switch (c->op) {
    case OP_EQ:
        return (v.known || !c->want.n) && equal(c, r, &v);
    case OP_NE:
        return !equal(c, r, &v);
    case OP_LE:
        return v.num <= c->num;
    case OP_GE:
        return v.num >= c->num;
    case OP_LT:
        return v.num < c->num;
    case OP_GT:
        return v.num > c->num;
    case OP_MATCH:
        if (utf8_valid(str_z(v.text)) != strlen(v.text))
            return 0;
        return regex_find(c->regex, c->match, str_z(v.text), 0, &start, &end, e);
    }
    return 0;
}

int query_where(struct strs conditions, const struct result *v, size_t n, size_t *order,
                size_t *kept, struct arena *a, struct err *e)
{
    struct condition *c = arena_array(a, conditions.n + 1, sizeof *c);
    size_t made = 0;
    int rc = -1;
    *kept = 0;
    for (; made < conditions.n; made++)
        if (condition_parse(&c[made], conditions.v[made], v, n, a, e) != 0) {
            made++;
            goto out;
        }
    for (size_t i = 0; i < n; i++) {
        int all = 1;
        for (size_t k = 0; k < conditions.n && all == 1; k++)
            all = holds(&c[k], &v[i], a, e);
        if (all < 0)
            goto out;
        if (all)
            order[(*kept)++] = i;
    }
    rc = 0;
out:
    for (size_t k = 0; k < made; k++)
        condition_release(&c[k]);
    return rc;
}

/* ---- order -------------------------------------------------------------------------------------- */

struct sort_key {
    const struct query_value *v; /* a value a result */
    bool down;
};
struct sort_by {
    const struct sort_key *key;
    size_t n;
};

static int compare_values(const struct query_value *x, const struct query_value *y, bool down)
{
    if (x->known != y->known) /* unknown ones last, whichever way */
        return x->known ? -1 : 1;
    int c = !isnan(x->num) && !isnan(y->num) ? (x->num > y->num) - (x->num < y->num)
                                             : strcmp(x->text, y->text);
    return down ? -c : c;
}

static int by_keys(const void *x, const void *y, void *ctx)
{
    const struct sort_by *s = ctx;
    size_t i = *(const size_t *)x, j = *(const size_t *)y;
    for (size_t k = 0; k < s->n; k++) {
        int c = compare_values(&s->key[k].v[i], &s->key[k].v[j], s->key[k].down);
        if (c)
            return c;
    }
    return i < j ? -1 : i > j;
}

int query_sort(struct strs by, const struct result *v, size_t n, size_t *order, size_t kept,
               struct arena *a, struct err *e)
{
    struct sort_key *key = arena_array(a, by.n + 1, sizeof *key);
    for (size_t k = 0; k < by.n; k++) {
        struct str name = str_trim(by.v[k]);
        struct query_field f;
        key[k].down = name.n && name.p[0] == '-';
        name.p += key[k].down;
        name.n -= key[k].down;
        if (query_field(&f, name, v, n, a, e) != 0)
            return -1;
        struct query_value *values = arena_array(a, n + 1, sizeof *values);
        for (size_t i = 0; i < kept; i++)
            values[order[i]] = query_value(&f, &v[order[i]], a);
        key[k].v = values;
    }
    if (by.n)
        qsort_r(order, kept, sizeof *order, by_keys, &(struct sort_by){key, by.n});
    return 0;
}
