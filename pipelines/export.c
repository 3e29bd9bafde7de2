/* export: one result as points, parameters and tags, see export.h. */
#include "pipelines/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"

double export_time(struct str iso)
{
    char text[32];
    struct tm tm = {0};
    if (iso.n >= sizeof text)
        return NAN;
    snprintf(text, sizeof text, "%.*s", STR_ARG(iso));
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return end && !*end ? (double)timegm(&tm) : NAN;
}

struct flattener {
    struct flat *f;
    size_t room;
    struct arena *a;
    double start;
};

static void add(struct flattener *x, const char *key, double value, int64_t step, double wall)
{
    struct flat *f = x->f;
    if (f->n == x->room) {
        struct point *v = arena_array(x->a, x->room = 2 * x->room + 256, sizeof *v);
        if (f->n)
            memcpy(v, f->v, f->n * sizeof *v);
        f->v = v;
    }
    f->v[f->n++] = (struct point){key, value, step, wall};
}

static void add_curve(struct flattener *x, const struct result_curve *c, const char *key,
                      const double *value, const int64_t *whole)
{
    for (size_t i = 0; i < c->step.n; i++) {
        double after = i < c->seconds.n && isfinite(c->seconds.v[i]) ? c->seconds.v[i] : 0;
        add(x, key, value ? value[i] : (double)whole[i], c->step.v[i], x->start + after);
    }
}

/* Unset figures are left out; a metric that was measured and is not finite is told. */
static void add_one(struct flattener *x, const char *key, double value, int64_t step, double wall)
{
    if (!isnan(value))
        add(x, key, value, step, wall);
}

static void add_metrics(struct flattener *x, const struct result *r, int64_t step, double wall)
{
    const struct metric *m = r->metrics.v;
    for (size_t i = 0; i < r->metrics.n; i++) {
        const char *key =
            arena_printf(x->a, "eval/%.*s/%.*s", STR_ARG(m[i].task), STR_ARG(m[i].name));
        add(x, key, m[i].value, step, wall);
        add_one(x, arena_printf(x->a, "%s_lo", key), m[i].lo, step, wall);
        add_one(x, arena_printf(x->a, "%s_hi", key), m[i].hi, step, wall);
    }
}

static void add_params(struct flat *f, const struct schema *s, const char *base, const char *prefix,
                       struct arena *a)
{
    for (const struct field *k = s->fields; k->name; k++) {
        const char *name = arena_printf(a, "%s%s%s", prefix, *prefix ? "." : "", k->name);
        if (k->type == FIELD_STRUCT) {
            if (strcmp(k->name, "run") != 0) /* names: tags */
                add_params(f, k->sub, base + k->at, name, a);
            continue;
        }
        struct buf text = {0};
        field_text(k, base + k->at, &text);
        strs_push(&f->param, str_z(name), a);
        strs_push(&f->value, str_copy(a, buf_str(&text)), a);
        buf_release(&text);
    }
}

static void add_tag(struct flat *f, const char *key, struct str value, struct arena *a)
{
    if (!value.n)
        return;
    strs_push(&f->tag, str_z(key), a);
    strs_push(&f->tag_value, value, a);
}

static void add_tags(struct flat *f, const struct result *r, struct arena *a)
{
    add_tag(f, "assay.run", r->run, a);
    add_tag(f, "assay.group", r->group, a);
    add_tag(f, "assay.title", r->title, a);
    add_tag(f, "assay.status", r->status, a);
    add_tag(f, "assay.commit", r->software.commit, a);
    add_tag(f, "assay.version", r->software.version, a);
    add_tag(f, "assay.source", r->source, a);
    add_tag(f, "assay.hardware", r->hardware.name, a);
    add_tag(f, "assay.device", r->hardware.device, a);
    add_tag(f, "assay.data_hash", r->data.data_hash, a);
    add_tag(f, "assay.vocab_hash", r->data.vocab_hash, a);
    add_tag(f, "assay.price_currency", r->hardware.price_currency, a);
    for (size_t i = 0; i < r->tags.n; i++)
        add_tag(f, arena_printf(a, "assay.tag.%.*s", STR_ARG(r->tags.v[i])), STR_LIT("1"), a);
    add_tag(f, "mlflow.note.content", r->notes, a);
}

static int by_key(const void *p, const void *q)
{
    const struct point *x = p, *y = q;
    int c = strcmp(x->key, y->key);
    return c ? c : (x->step > y->step) - (x->step < y->step);
}

static void hash(struct flat *f)
{
    struct buf b = {0};
    for (size_t i = 0; i < f->n; i++)
        buf_printf(&b, "%s %lld %.17g %.3f\n", f->v[i].key, (long long)f->v[i].step, f->v[i].value,
                   f->v[i].wall);
    for (size_t i = 0; i < f->param.n; i++)
        buf_printf(&b, "%.*s=%.*s\n", STR_ARG(f->param.v[i]), STR_ARG(f->value.v[i]));
    sha256_hex(buf_str(&b), f->hash);
    buf_release(&b);
}

void export_flatten(struct flat *f, const struct result *r, struct arena *a)
{
    struct flattener x = {.f = f, .a = a};
    const struct result_timing *t = &r->timing;
    *f = (struct flat){0};
    x.start = export_time(r->started);
    if (isnan(x.start))
        x.start = export_time(r->ended);
    if (isnan(x.start))
        x.start = 0;
    f->start = x.start;
    const struct result_segment *first = r->segments.v; /* of a run that went on: its first start */
    if (r->segments.n && export_time(first->started) < f->start)
        f->start = export_time(first->started);
    const struct result_curve *c = &r->curve;
    if (c->loss.n == c->step.n)
        add_curve(&x, c, "train/loss", c->loss.v, NULL);
    if (c->lr.n == c->step.n)
        add_curve(&x, c, "train/lr", c->lr.v, NULL);
    if (c->norm.n == c->step.n)
        add_curve(&x, c, "train/norm", c->norm.v, NULL);
    if (c->tokens.n == c->step.n)
        add_curve(&x, c, "train/tokens", NULL, c->tokens.v);
    if (c->seconds.n == c->step.n)
        add_curve(&x, c, "train/seconds", c->seconds.v, NULL);
    int64_t step = r->steps;
    double wall = x.start + (isnan(t->train_seconds) ? 0 : t->train_seconds);
    add_metrics(&x, r, step, wall);
    add_one(&x, "time/train_seconds", t->train_seconds, step, wall);
    add_one(&x, "time/eval_seconds", t->eval_seconds, step, wall);
    add_one(&x, "time/tokens_per_second", t->tokens_per_second, step, wall);
    add_one(&x, "time/stall_share", t->stall_share, step, wall);
    add_one(&x, "time/mfu", t->mfu, step, wall);
    add_one(&x, "cost/train", r->cost_train, step, wall);
    add_one(&x, "cost/total", r->cost_total, step, wall);
    add_one(&x, "cost/billed", r->cost_billed, step, wall);
    if (r->parameters)
        add(&x, "model/parameters", (double)r->parameters, step, wall);
    if (f->n)
        qsort(f->v, f->n, sizeof *f->v, by_key);
    add_params(f, &run_schema, (const char *)&r->config, "", a);
    add_tags(f, r, a);
    hash(f);
}
