/* sweep: cells and their results, see sweep.h. */
#include "pipelines/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "base/map.h"
#include "formats/manifest.h"
#include "formats/record.h"
#include "pipelines/money.h"

enum { MOST_CELLS = 10000 };

#define AT(m) offsetof(struct sweep_config, m)
static const struct field config_fields[] = {
    {"run", FIELD_STR, AT(run), NULL, .help = "run file that the cells start from, by name"},
    {"grid", FIELD_STR, AT(grid), "",
     .help = "all combinations: train.batch: 4 8 16 | train.lr: 1e-3 2e-3"},
    {"list", FIELD_STR, AT(list), "",
     .help = "cells one by one: train.batch=4 train.lr=1e-3 | train.batch=8"},
    {"seeds", FIELD_I64, AT(seeds), "1", 1, 1000,
     .help = "runs of each cell, train.seed counted up"},
    {"fit", FIELD_STR, AT(fit), "", .help = "option of the curve; default: the first of the grid"},
    {"metric", FIELD_STR, AT(metric), "nll_token", .help = "quality, as a result names it"},
    {"level", FIELD_F64, AT(level), "0.9", 0.5, 0.999, .help = "of the optimum's interval"},
    {"max_hours", FIELD_F64, AT(max_hours), "0", 0, 1e6,
     .help = "start no run that would pass it; 0: no limit"},
    {"max_money", FIELD_F64, AT(max_money), "0", 0, 1e12,
     .help = "likewise, in the hardware's currency; 0: no limit"},
    {0},
};
#undef AT
static const struct schema config_schema = {"sweep", 1, sizeof(struct sweep_config), config_fields};
static const struct field file_fields[] = {
    {"sweep", FIELD_STRUCT, 0, "", .sub = &config_schema, .help = "options as ordinary runs"},
    {0},
};
static const struct schema file_schema = {"sweep file", 1, sizeof(struct sweep_config),
                                          file_fields};

/* ---- cells ------------------------------------------------------------------------------------ */

/* "train.batch=8" as "batch8": what may stand in a run's name. */
static void name_add(struct buf *b, struct str set)
{
    struct str value = set, key = str_cut(&value, '=');
    const char *dot = memchr(key.p, '.', key.n);
    if (dot)
        key = (struct str){dot + 1, key.n - (size_t)(dot + 1 - key.p)};
    buf_addc(b, '-');
    buf_adds(b, key);
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '.' || c == '-';
        buf_addc(b, plain ? c : '_');
    }
}

static double x_of(const struct cell *c, const char *fit)
{
    for (size_t i = 0; fit && i < c->set.n; i++) {
        struct str value = c->set.v[i], key = str_cut(&value, '=');
        int64_t whole;
        double x;
        if (!str_eqz(key, fit))
            continue;
        if (str_i64(value, &whole) == 0)
            return (double)whole;
        return str_f64(value, &x) == 0 ? x : NAN;
    }
    return NAN;
}

/* "train.lr=1e-3 train.batch=8" without the fitted option. */
static const char *others_of(struct strs set, const char *fit, struct arena *a)
{
    struct buf b = {0};
    for (size_t i = 0; i < set.n; i++) {
        struct str value = set.v[i], key = str_cut(&value, '=');
        if (!fit || !str_eqz(key, fit))
            buf_printf(&b, "%s%.*s", b.n ? " " : "", STR_ARG(set.v[i]));
    }
    const char *text = arena_strdup(a, b.n ? b.p : "");
    buf_release(&b);
    return text;
}

static int add_cell(struct sweep *s, struct strs set, struct err *e)
{
    struct buf b = {0};
    struct cell c = {.set = set, .value = NAN, .seconds = NAN, .money = NAN};
    if (s->n >= MOST_CELLS)
        return err_code(e, EXIT_USAGE, "a sweep of more than %d runs", MOST_CELLS);
    buf_addz(&b, s->name);
    for (size_t i = 0; i < set.n; i++)
        name_add(&b, set.v[i]);
    c.group = arena_strdup(&s->arena, b.p);
    buf_release(&b);
    s->v = mem_grow(s->v, (s->n + 1) * sizeof *s->v);
    s->v[s->n++] = c;
    return 0;
}

/* One option with its values; the cells so far times these. */
static int times(struct strs **sets, size_t *n, struct str part, struct sweep *s, struct err *e)
{
    struct str values = part, key = str_trim(str_cut(&values, ':'));
    struct strs v = {0};
    for (values = str_trim(values); values.n; values = str_trim(values))
        strs_push(&v, str_cut(&values, ' '), &s->arena);
    if (!key.n || !v.n)
        return err_code(e, EXIT_USAGE, "sweep.grid: want section.key: value value..., got \"%.*s\"",
                        STR_ARG(part));
    if (!s->fit)
        s->fit = str_dup(&s->arena, key);
    if (*n * v.n > MOST_CELLS)
        return err_code(e, EXIT_USAGE, "a sweep of more than %d runs", MOST_CELLS);
    struct strs *out = arena_array(&s->arena, *n * v.n, sizeof *out);
    for (size_t i = 0; i < *n; i++)
        for (size_t k = 0; k < v.n; k++) {
            struct strs *o = &out[i * v.n + k];
            for (size_t j = 0; j < (*sets)[i].n; j++)
                strs_push(o, (*sets)[i].v[j], &s->arena);
            strs_push(o, str_printf(&s->arena, "%.*s=%.*s", STR_ARG(key), STR_ARG(v.v[k])),
                      &s->arena);
        }
    *sets = out;
    *n *= v.n;
    return 0;
}

static int make_cells(struct sweep *s, struct err *e)
{
    struct str grid = str_trim(s->c.grid), list = str_trim(s->c.list);
    if (!grid.n == !list.n)
        return err_code(e, EXIT_USAGE, "sweep: give grid or list, and not both");
    if (s->c.fit.n)
        s->fit = str_dup(&s->arena, s->c.fit);
    if (grid.n) {
        struct strs none = {0}, *sets = &none;
        size_t n = 1;
        while (grid.n)
            if (times(&sets, &n, str_trim(str_cut(&grid, '|')), s, e))
                return -1;
        for (size_t i = 0; i < n; i++)
            if (add_cell(s, sets[i], e))
                return -1;
    }
    while (list.n) {
        struct str one = str_trim(str_cut(&list, '|'));
        struct strs set = {0};
        for (; one.n; one = str_trim(one)) {
            struct str word = str_cut(&one, ' ');
            if (str_find(word, STR_LIT("=")) < 1)
                return err_code(e, EXIT_USAGE, "sweep.list: want section.key=value, got \"%.*s\"",
                                STR_ARG(word));
            strs_push(&set, word, &s->arena);
            struct str key = str_cut(&word, '=');
            if (!s->fit)
                s->fit = str_dup(&s->arena, key);
        }
        if (add_cell(s, set, e))
            return -1;
    }
    return 0;
}

/* What decides a run but its names. */
static void decides(const struct run *r, struct buf *out)
{
    struct run plain = *r;
    plain.about = (struct run_about){0};
    schema_canonical(&run_schema, &plain, out);
}

/* 1e-3 and 0.001 are one value: their cells would be one run under two names. */
static int check_new(struct sweep *s, struct map *seen, const struct cell *v, size_t at,
                     struct err *e)
{
    struct buf b = {0};
    int added;
    decides(&v[at].run, &b);
    const char *first = v[map_add(seen, str_copy(&s->arena, buf_str(&b)), 0, &added)].name;
    buf_release(&b);
    if (added)
        return 0;
    return strcmp(first, v[at].name) == 0
               ? err_code(e, EXIT_USAGE, "sweep: cell %s is there twice; leave one out", first)
               : err_code(e, EXIT_USAGE, "sweep: %s and %s are one run; leave one out", first,
                          v[at].name);
}

/* Each cell once for every seed, all cells of the first seed first: the curve is there early. */
static int add_seeds(struct sweep *s, const char *file, struct strs sets, struct err *e)
{
    size_t cells = s->n;
    struct cell *v = mem_array(cells * (size_t)s->c.seeds, sizeof *v);
    struct map seen = {0}; /* in the order of the cells */
    int rc = 0;
    for (int64_t k = 0; k < s->c.seeds && !rc; k++)
        for (size_t i = 0; i < cells && !rc; i++) {
            struct cell *c = &v[(size_t)k * cells + i];
            struct strs all = {0};
            *c = s->v[i];
            for (size_t j = 0; j < sets.n; j++)
                strs_push(&all, sets.v[j], &s->arena);
            for (size_t j = 0; j < c->set.n; j++)
                strs_push(&all, c->set.v[j], &s->arena);
            rc = run_load(&c->run, file, all, &s->arena, e);
            if (rc)
                break;
            c->run.train.seed += k;
            c->name = arena_printf(&s->arena, "%s-s%lld", c->group, (long long)c->run.train.seed);
            c->run.about.group = str_z(c->group);
            c->run.about.title = str_z(c->name);
            c->x = x_of(c, s->fit);
            c->others = others_of(c->set, s->fit, &s->arena);
            rc = check_new(s, &seen, v, (size_t)k * cells + i, e);
        }
    map_release(&seen);
    free(s->v);
    s->v = v;
    s->n = cells * (size_t)s->c.seeds;
    return rc;
}

static bool own_data(struct strs set)
{
    for (size_t i = 0; i < set.n; i++)
        if (str_starts(set.v[i], "data.") || str_starts(set.v[i], "vocab."))
            return true;
    return false;
}

/* Whose data, vocabulary and shards the cells take. */
static void share_data(struct sweep *s, struct strs sets)
{
    const struct run *r = &s->v[0].run;
    bool own = own_data(sets) || (r->data.kind == DATA_SHARDS && !r->data.run.n);
    for (size_t i = 0; i < s->n; i++)
        own = own || own_data(s->v[i].set);
    if (own)
        return;
    s->data = str_dup(&s->arena, r->data.run.n ? r->data.run : s->c.run);
    for (size_t i = 0; i < s->n; i++)
        s->v[i].run.data.run = str_z(s->data);
}

int sweep_load(struct sweep *s, const char *path, const char *run_files, struct strs sets,
               struct err *e)
{
    *s = (struct sweep){0};
    struct str name = str_z(path_base(path));
    if (str_ends(name, ".ini"))
        name.n -= 4;
    s->name = str_dup(&s->arena, name);
    if (config_load(&file_schema, &s->c, path, (struct strs){0}, &s->arena, e))
        return -1;
    const char *file =
        path_join(&s->arena, run_files, arena_printf(&s->arena, "%.*s.ini", STR_ARG(s->c.run)));
    if (make_cells(s, e) || add_seeds(s, file, sets, e))
        return err_wrap(e, "%s", path);
    share_data(s, sets);
    return 0;
}

void sweep_release(struct sweep *s)
{
    free(s->v);
    arena_release(&s->arena);
    *s = (struct sweep){0};
}

/* ---- results ---------------------------------------------------------------------------------- */

static bool same_run(const struct run *a, const struct run *b)
{
    struct buf x = {0}, y = {0};
    decides(a, &x);
    decides(b, &y);
    bool same = str_eq(buf_str(&x), buf_str(&y));
    buf_release(&x);
    buf_release(&y);
    return same;
}

int sweep_look(struct sweep *s, const char *runs, struct err *e)
{
    const char *metric = str_dup(&s->arena, s->c.metric);
    for (size_t i = 0; i < s->n; i++) {
        struct cell *c = &s->v[i];
        struct arena a = {0};
        struct result r;
        const char *path = path_join(&a, path_join(&a, runs, c->name), "result.msgpack");
        c->done = false;
        if (file_exists(path) && file_exists(manifest_path(&a, path))) {
            if (record_load(path, &result_schema, &r, &a, e)) {
                arena_release(&a);
                return -1;
            }
            c->done = str_eqz(r.status, "finished") && same_run(&r.config, &c->run);
        }
        if (c->done) {
            const struct metric *m = r.metrics.v;
            for (size_t k = 0; k < r.metrics.n; k++)
                if (str_eqz(m[k].name, metric))
                    s->higher = m[k].higher_better;
            c->value = money_quality(&r, metric);
            c->seconds =
                r.timing.train_seconds + (isnan(r.timing.eval_seconds) ? 0 : r.timing.eval_seconds);
            c->money = r.cost_total;
        }
        arena_release(&a);
    }
    return 0;
}

const struct cell *sweep_next(const struct sweep *s, const char *after, char why[256])
{
    double hours = 0, most_hours = 0, money = 0, most_money = 0;
    size_t from = 0, done = 0;
    why[0] = '\0';
    for (size_t i = 0; i < s->n; i++) {
        if (after && strcmp(s->v[i].name, after) == 0)
            from = i + 1;
        if (!s->v[i].done)
            continue;
        done++;
        hours += s->v[i].seconds / 3600;
        most_hours = fmax(most_hours, s->v[i].seconds / 3600);
        money += s->v[i].money;
        most_money = fmax(most_money, s->v[i].money);
    }
    while (from < s->n && s->v[from].done)
        from++;
    if (from == s->n)
        return NULL;
    if (s->c.max_hours > 0 && hours + most_hours > s->c.max_hours)
        snprintf(why, 256, "%zu of %zu runs took %.3g h; one more could pass sweep.max_hours = %g",
                 done, s->n, hours, s->c.max_hours);
    else if (s->c.max_money > 0 && done && isnan(money))
        snprintf(why, 256,
                 "sweep.max_money is set, but a finished run has no price: collect it again with "
                 "HARDWARE=name");
    else if (s->c.max_money > 0 && money + most_money > s->c.max_money)
        snprintf(why, 256, "%zu of %zu runs cost %.4g; one more could pass sweep.max_money = %g",
                 done, s->n, money, s->c.max_money);
    return why[0] ? NULL : &s->v[from];
}

void sweep_fit(const struct sweep *s, const char *others, struct fit *f)
{
    double *x = mem_array(s->n + 1, sizeof *x), *y = mem_array(s->n + 1, sizeof *y);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].done && s->v[i].x > 0 && isfinite(s->v[i].value) &&
            strcmp(s->v[i].others, others) == 0) {
            x[n] = s->v[i].x;
            y[n++] = s->v[i].value;
        }
    fit_log_parabola(f, x, y, n, s->higher, s->c.level);
    free(x);
    free(y);
}
