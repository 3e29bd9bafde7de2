/* panel_table: a panel's journal as a table of values. See pipelines/panel.h.
 *
 * The journal alone decides: which answers stood in a question and what they got is written there,
 * so a table needs neither the responses nor the judge.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "pipelines/panel.h"

int panel_passes(const char *dir, struct panel_pass **v, size_t *n, struct arena *a, struct err *e)
{
    const char *path = path_join(a, dir, "passes.msgpack");
    struct panel_pass p;
    int rc;
    *v = NULL;
    *n = 0;
    if (!file_exists(path))
        return 0;
    struct records *r = records_open(path, &panel_pass_schema, RECORD_READ, e);
    if (!r)
        return -1;
    while ((rc = records_next(r, &p, a, e)) == 1) {
        struct panel_pass *more = arena_array(a, *n + 1, sizeof *more);
        if (p.number != (int64_t)*n + 1 || p.role.n != p.model.n || p.path.n != p.model.n ||
            p.hash.n != p.model.n) {
            rc = err_set(e, "%s: pass %zu is damaged", path, *n + 1);
            break;
        }
        if (*n)
            memcpy(more, *v, *n * sizeof *more);
        more[(*n)++] = p;
        *v = more;
    }
    if (rc < 0) {
        records_abort(r);
        return -1;
    }
    return records_close(r, e);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Values of one question, merged over the times it was asked. */
struct seen {
    int64_t pass;
    size_t item;
    struct strs shown;
    double *value;
    int outcome;
};

struct reader {
    struct panel_table *t;
    struct map models, items, keys;
    struct seen *v;
    size_t cap;
    double max_failed, inverse, full; /* sum of 1 / different anchors, over full questions */
};

static double *cell(const struct panel_table *t, double *v, size_t pass, size_t model, size_t item)
{
    return &v[(pass * t->models + model) * t->items + item];
}

double panel_at(const struct panel_table *t, const double *v, size_t pass, size_t model,
                size_t item)
{
    return v[(pass * t->models + model) * t->items + item];
}

static void take(struct reader *r, const struct verdict_record *x)
{
    struct arena *a = &r->t->arena;
    int added;
    if (x->pass < 1 || x->pass > (int64_t)r->t->passes || x->value.n != x->shown.n || !x->value.n)
        return;
    size_t at = map_add(&r->keys, str_copy(a, x->key), 0, &added);
    if (added) {
        if (at == r->cap) {
            r->cap = r->cap ? 2 * r->cap : 256;
            r->v = mem_grow(r->v, r->cap * sizeof *r->v);
        }
        struct seen *s = &r->v[at];
        *s = (struct seen){.pass = x->pass,
                           .item = map_add(&r->items, str_copy(a, x->item), 0, NULL)};
        for (size_t i = 0; i < x->shown.n; i++)
            strs_push(&s->shown, str_copy(a, x->shown.v[i]), a);
        s->value = arena_array(a, x->value.n, sizeof *s->value);
        for (size_t i = 0; i < x->value.n; i++)
            s->value[i] = NAN;
    }
    struct seen *s = &r->v[at];
    size_t have = 0;
    for (size_t i = 0; i < x->value.n && i < s->shown.n; i++) {
        if (isnan(s->value[i]))
            s->value[i] = x->value.v[i];
        have += !isnan(s->value[i]);
    }
    s->outcome = have == s->shown.n ? OUTCOME_SCORED : x->outcome;
}

static int read_verdicts(struct reader *r, const char *path, struct err *e)
{
    struct verdict_record x;
    struct arena each = {0};
    int rc = 0;
    if (!file_exists(path))
        return 0;
    struct records *in = records_open(path, &verdict_schema, RECORD_READ, e);
    if (!in)
        return -1;
    while ((rc = records_next(in, &x, &each, e)) == 1) {
        take(r, &x);
        arena_release(&each);
    }
    arena_release(&each);
    if (rc < 0) {
        records_abort(in);
        return -1;
    }
    return records_close(in, e);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A model is a name with its answers: other answers under an old name are another model. */
static struct str model_key(struct arena *a, const struct panel_pass *p, size_t i)
{
    return str_printf(a, "%.*s\n%.*s", STR_ARG(p->model.v[i]), STR_ARG(p->hash.v[i]));
}

/* Older versions of a name carry the head of their hash. */
static void name_models(struct reader *r)
{
    struct panel_table *t = r->t;
    for (size_t m = 0; m < t->models; m++) {
        struct str hash = r->models.key[m], name = str_cut(&hash, '\n');
        t->model[m] = name;
        for (size_t k = m + 1; k < t->models; k++) {
            struct str later = r->models.key[k];
            if (str_eq(str_cut(&later, '\n'), name))
                t->model[m] = str_printf(&t->arena, "%.*s@%.8s", STR_ARG(name), hash.p);
        }
    }
}

static void find_models(struct reader *r)
{
    struct panel_table *t = r->t;
    t->at = arena_array(&t->arena, t->passes + 1, sizeof *t->at);
    for (size_t p = 0; p < t->passes; p++) {
        const struct panel_pass *x = &t->pass[p];
        t->at[p] = arena_array(&t->arena, x->model.n + 1, sizeof **t->at);
        for (size_t i = 0; i < x->model.n; i++)
            t->at[p][i] = (int32_t)map_add(&r->models, model_key(&t->arena, x, i), 0, NULL);
    }
    t->models = r->models.n;
    t->model = arena_array(&t->arena, t->models + 1, sizeof *t->model);
    t->is_anchor = arena_array(&t->arena, t->models + 1, sizeof *t->is_anchor);
    t->is_sanity = arena_array(&t->arena, t->models + 1, sizeof *t->is_sanity);
    name_models(r);
    for (size_t i = 0; t->passes && i < t->pass[0].model.n; i++) {
        struct str role = t->pass[0].role.v[i];
        int32_t m = t->at[0][i];
        t->is_anchor[m] = str_eqz(role, "anchor");
        t->anchors += t->is_anchor[m];
        t->is_sanity[m] = str_eqz(role, "reference") || str_eqz(role, "empty");
    }
}

/* Calls for each model that a name shown in a pass stands for. */
static void each_model(struct reader *r, size_t pass, struct str names, void (*fn)(void *, size_t),
                       void *ctx)
{
    const struct strs *in = &r->t->pass[pass].model;
    while (names.n) {
        struct str name = str_cut(&names, ',');
        for (size_t i = 0; i < in->n; i++)
            if (str_eq(in->v[i], name))
                fn(ctx, (size_t)r->t->at[pass][i]);
    }
}

struct adding {
    struct panel_table *t;
    const struct seen *s;
    double v, base, *count, sum;
    int64_t anchors;
    bool anchored; /* the answer at hand is an anchor's */
};

static void add_anchor(void *ctx, size_t m)
{
    struct adding *x = ctx;
    if (!x->t->is_anchor[m])
        return;
    x->sum += x->v;
    x->anchors++;
    x->anchored = true;
}

/* Mean over the questions of one pass that show a model: values as they are, d beside its anchors. */
static void add_value(void *ctx, size_t m)
{
    struct adding *x = ctx;
    struct panel_table *t = x->t;
    size_t p = (size_t)x->s->pass - 1, i = x->s->item;
    double *n = cell(t, x->count, p, m, i), *v = cell(t, t->value, p, m, i),
           *d = cell(t, t->d, p, m, i);
    *v = (*n ? *v : 0) + x->v;
    *d = (*n ? *d : 0) + x->v - x->base; /* NaN without all anchors */
    ++*n;
    t->judged++;
}

static void fill(struct reader *r)
{
    struct panel_table *t = r->t;
    size_t cells = t->passes * t->models * t->items;
    double *count = mem_array(cells + 1, sizeof *count);
    for (size_t i = 0; i < cells; i++)
        t->value[i] = t->d[i] = NAN;
    for (size_t k = 0; k < r->keys.n; k++) {
        struct adding x = {.t = t, .s = &r->v[k], .count = count};
        size_t pass = (size_t)x.s->pass - 1;
        double different = 0;
        for (size_t i = 0; i < x.s->shown.n; i++) {
            x.v = x.s->value[i];
            x.anchored = false;
            each_model(r, pass, x.s->shown.v[i], add_anchor, &x);
            different += x.anchored;
        }
        if (different > 0) {
            r->inverse += 1 / different;
            r->full++;
        }
        x.base = x.anchors == (int64_t)t->anchors && x.anchors ? x.sum / (double)x.anchors : NAN;
        for (size_t i = 0; i < x.s->shown.n; i++) {
            x.v = x.s->value[i];
            if (!isnan(x.v))
                each_model(r, pass, x.s->shown.v[i], add_value, &x);
        }
    }
    for (size_t i = 0; i < cells; i++)
        if (count[i] > 0) {
            t->value[i] /= count[i];
            t->d[i] /= count[i];
        }
    free(count);
}

/* Which passes are whole. */
static void count_outcomes(struct reader *r)
{
    struct panel_table *t = r->t;
    t->outcome = arena_array(&t->arena, t->passes + 1, sizeof *t->outcome);
    t->whole = arena_array(&t->arena, t->passes + 1, sizeof *t->whole);
    for (size_t p = 0; p < t->passes; p++)
        t->outcome[p] = arena_array(&t->arena, OUTCOME_NOT_RUN + 1, sizeof **t->outcome);
    for (size_t k = 0; k < r->keys.n; k++)
        t->outcome[r->v[k].pass - 1][r->v[k].outcome]++;
    for (size_t p = 0; p < t->passes; p++) {
        int64_t *n = t->outcome[p], all = t->pass[p].questions, asked = 0;
        for (int i = 0; i < OUTCOME_NOT_RUN; i++)
            asked += n[i];
        n[OUTCOME_NOT_RUN] = all > asked ? all - asked : 0;
        t->whole[p] = all <= asked && (double)(asked - n[OUTCOME_SCORED]) <=
                                          r->max_failed * (double)(all ? all : asked);
    }
}

static void find_clusters(struct panel_table *t, const struct reader *r, const struct items *items)
{
    struct map clusters = {0}, where = {0};
    t->item = arena_array(&t->arena, t->items, sizeof *t->item);
    t->cluster = arena_array(&t->arena, t->items, sizeof *t->cluster);
    t->group = arena_array(&t->arena, t->items, sizeof *t->group);
    for (size_t k = 0; items && k < items->n; k++)
        map_add(&where, items->v[k].id, (int64_t)k, NULL);
    for (size_t i = 0; i < t->items; i++) {
        t->item[i] = r->items.key[i];
        ptrdiff_t k = map_find(&where, t->item[i]);
        struct str c = k >= 0 ? items->v[where.value[k]].cluster : (struct str){0};
        /* An item's id and a cluster's name may be the same word. */
        const char *name =
            arena_printf(&t->arena, "%c%.*s", c.n ? 'c' : 'i', STR_ARG(c.n ? c : t->item[i]));
        t->cluster[i] = (int32_t)map_add(&clusters, str_z(name), 0, NULL);
        if (c.n)
            t->group[i] = str_z(name + 1);
    }
    map_release(&clusters);
    map_release(&where);
}

/* Links see models only: no anchors, no sanity answers. Their rows are blanked in a copy. */
static void make_link(struct panel_table *t, double anchors)
{
    size_t cells = t->passes * t->models * t->items;
    double *d = arena_array(&t->arena, cells + 1, sizeof *d);
    memcpy(d, t->d, cells * sizeof *d);
    t->link = (struct link_table){.passes = (int32_t)t->passes,
                                  .models = (int32_t)t->models,
                                  .anchors = anchors,
                                  .items = t->items,
                                  .cluster = t->cluster,
                                  .d = d};
    for (size_t p = 0; p < t->passes; p++)
        for (size_t m = 0; m < t->models; m++)
            for (size_t i = 0; (t->is_anchor[m] || t->is_sanity[m]) && i < t->items; i++)
                *cell(t, d, p, m, i) = NAN;
}

int panel_table_load(struct panel_table *t, const char *dir, const struct items *items,
                     double max_failed, struct err *e)
{
    struct reader r = {.t = t, .max_failed = max_failed};
    *t = (struct panel_table){0};
    int rc = panel_passes(dir, &t->pass, &t->passes, &t->arena, e);
    if (rc == 0) {
        find_models(&r);
        rc = read_verdicts(&r, path_join(&t->arena, dir, "verdicts.msgpack"), e);
    }
    if (rc == 0) {
        size_t cells;
        t->items = r.items.n;
        cells = t->passes * t->models * t->items;
        t->value = arena_array(&t->arena, cells + 1, sizeof *t->value);
        t->d = arena_array(&t->arena, cells + 1, sizeof *t->d);
        fill(&r);
        count_outcomes(&r);
        find_clusters(t, &r, items);
        make_link(t, r.full > 0 ? r.full / r.inverse : 0);
    }
    free(r.v);
    map_release(&r.models);
    map_release(&r.items);
    map_release(&r.keys);
    if (rc)
        panel_table_release(t);
    return rc;
}

void panel_table_release(struct panel_table *t)
{
    arena_release(&t->arena);
    *t = (struct panel_table){0};
}

int32_t panel_newest(const struct panel_table *t, size_t model)
{
    for (int partial = 0; partial < 2; partial++)
        for (size_t p = t->passes; p-- > 0;)
            for (size_t i = 0; t->whole[p] != partial && i < t->items; i++)
                if (!isnan(panel_at(t, t->value, p, model, i)))
                    return (int32_t)p;
    return -1;
}
