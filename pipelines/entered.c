/* entered: see entered.h. */
#include "pipelines/entered.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/stream.h"
#include "formats/record.h"
#include "pipelines/money.h"

enum { MAX_LINE = 4 << 20 };

struct lines {
    struct json **v; /* whole objects, bases merged */
    bool *hidden;    /* a base alone */
    size_t n;
};

/* Members of `over` replace or, where both are objects, enter those of `under`. */
static struct json *merge(const struct json *under, const struct json *over)
{
    struct json *o = json_obj();
    const char *key;
    const struct json *v;
    void *it = NULL;
    while (json_each(under, &it, &key, &v)) {
        const struct json *w = json_get(over, key);
        bool both = json_kind(v) == JSON_OBJ && json_kind(w) == JSON_OBJ;
        json_put(o, key, both ? merge(v, w) : json_clone(w ? w : v));
    }
    it = NULL;
    while (json_each(over, &it, &key, &v))
        if (!json_get(under, key))
            json_put(o, key, json_clone(v));
    return o;
}

static const struct json *find(const struct lines *l, struct str run)
{
    for (size_t i = 0; i < l->n; i++)
        if (str_eq(json_str(json_get(l->v[i], "run")), run))
            return l->v[i];
    return NULL;
}

static int take(struct lines *l, struct str line, struct err *e)
{
    struct json *own = json_parse(line, e);
    struct str run, base;
    if (!own)
        return -1;
    base = json_str(json_get(own, "base"));
    const struct json *under = base.n ? find(l, base) : NULL;
    int rc = -1;
    if (base.n && !under)
        err_set(e, "no earlier line is run \"%.*s\"", STR_ARG(base));
    else if (json_need_str(own, "run", &run, e) == 0 && find(l, run))
        err_set(e, "run \"%.*s\" stands here twice", STR_ARG(run));
    else if (run.n)
        rc = 0;
    if (rc == 0) {
        struct json *whole = under ? merge(under, own) : json_clone(own);
        l->v = mem_grow(l->v, (l->n + 1) * sizeof *l->v);
        l->hidden = mem_grow(l->hidden, (l->n + 1) * sizeof *l->hidden);
        l->hidden[l->n] = json_bool(json_get(own, "hidden"));
        l->v[l->n++] = whole;
    }
    json_free(own);
    return rc;
}

/* As a result; "base" is ours alone. */
static int convert(const struct json *whole, struct result *r, struct arena *a, struct err *e)
{
    struct json *o = json_obj();
    const char *key;
    const struct json *v;
    void *it = NULL;
    while (json_each(whole, &it, &key, &v))
        if (strcmp(key, "base") != 0 && strcmp(key, "hidden") != 0)
            json_put(o, key, json_clone(v));
    int rc = json_to_struct(&result_schema, r, o, a, e);
    json_free(o);
    if (rc == 0 && !r->source.n)
        rc = err_set(e, "run \"%.*s\" has no source", STR_ARG(r->run));
    if (rc)
        return rc;
    if (!r->group.n)
        r->group = r->run;
    struct bill b;
    money_bill(&b, r, NULL, 0);
    r->cost_train = b.train;
    r->cost_total = b.total;
    r->timing.mfu = b.mfu;
    return 0;
}

int entered_load(const char *path, struct result **v, size_t *n, struct arena *a, struct err *e)
{
    struct lines l = {0};
    struct buf line = {0};
    struct stream *s = stream_open(path, e);
    int got = -1, rc = -1;
    *n = 0;
    while (s && (got = stream_line(s, &line, MAX_LINE, e)) == 1) {
        struct str one = str_trim(buf_str(&line));
        if (one.n && one.p[0] != '#' && take(&l, one, e)) {
            err_wrap(e, "%s: line %lld", path, (long long)stream_lineno(s));
            goto out;
        }
    }
    if (got < 0)
        goto out;
    *v = arena_array(a, l.n + 1, sizeof **v);
    for (size_t i = 0; i < l.n; i++) {
        if (l.hidden[i])
            continue;
        if (convert(l.v[i], &(*v)[*n], a, e)) {
            err_wrap(e, "%s", path);
            goto out;
        }
        ++*n;
    }
    rc = *n ? 0 : err_set(e, "%s: no result in it", path);
out:
    for (size_t i = 0; i < l.n; i++)
        json_free(l.v[i]);
    free(l.v);
    free(l.hidden);
    buf_release(&line);
    stream_close(s);
    return rc;
}

int entered_save(const char *path, const char *dir, int64_t *n, struct err *e)
{
    struct arena a = {0};
    struct result *v;
    size_t count;
    int rc = -1;
    *n = 0;
    if (entered_load(path, &v, &count, &a, e))
        goto out;
    for (size_t i = 0; i < count; i++) {
        const char *name = str_dup(&a, v[i].run);
        if (!v[i].run.n || name[0] == '.' || strchr(name, '/')) {
            err_set(e, "%s: a run can't be called \"%s\"", path, name);
            goto out;
        }
        const char *out = path_join(&a, path_join(&a, dir, name), "result.msgpack");
        if (file_mkdirs_for(out, e) || record_save(out, &result_schema, &v[i], e))
            goto out;
        ++*n;
    }
    rc = 0;
out:
    arena_release(&a);
    return rc;
}

/* ---- where the publication disagrees ------------------------------------------------------------ */

static const struct field disagreement_fields[] = {
    {"figure", FIELD_STR, offsetof(struct disagreement, figure), NULL, .help = "which"},
    {"there", FIELD_STR, offsetof(struct disagreement, there), NULL, .help = "as printed"},
    {"here", FIELD_STR, offsetof(struct disagreement, here), "", .help = "by our formulas"},
    {"why", FIELD_STR, offsetof(struct disagreement, why), NULL, .help = "a sentence"},
    {0},
};
static const struct schema disagreement_schema = {"disagreement", 1, sizeof(struct disagreement),
                                                  disagreement_fields};

int entered_disagreements(const char *path, struct disagreement **v, size_t *n, struct arena *a,
                          struct err *e)
{
    enum { MOST = 1000 };
    struct str stem = str_z(path);
    struct buf line = {0};
    int got = -1;
    if (str_ends(stem, ".jsonl"))
        stem.n -= strlen(".jsonl");
    struct stream *s = stream_open(arena_printf(a, "%.*s.disagreements.jsonl", STR_ARG(stem)), e);
    *v = arena_array(a, MOST, sizeof **v);
    *n = 0;
    while (s && *n < MOST && (got = stream_line(s, &line, MAX_LINE, e)) == 1) {
        struct str one = str_trim(buf_str(&line));
        if (!one.n || one.p[0] == '#')
            continue;
        struct json *j = json_parse(one, e);
        int rc = j ? json_to_struct(&disagreement_schema, &(*v)[*n], j, a, e) : -1;
        json_free(j);
        if (rc) {
            err_wrap(e, "%s: line %lld", path, (long long)stream_lineno(s));
            got = -1;
            break;
        }
        ++*n;
    }
    buf_release(&line);
    stream_close(s);
    return got < 0 ? -1 : 0;
}

void entered_print_disagreements(const struct disagreement *v, size_t n, enum table_format f,
                                 struct buf *out)
{
    struct arena a = {0};
    struct table t;
    table_begin(&t, 4, "lrrl");
    table_row(&t, (const char *const[]){"figure", "there", "here", "why"});
    for (size_t i = 0; i < n; i++)
        table_row(&t, (const char *const[]){str_dup(&a, v[i].figure), str_dup(&a, v[i].there),
                                            v[i].here.n ? str_dup(&a, v[i].here) : "-",
                                            str_dup(&a, v[i].why)});
    table_write(&t, f, "", out);
    table_release(&t);
    arena_release(&a);
}
