/* compare_csv: a comparison for spreadsheets, see compare_print.h. */
#include <math.h>

#include "pipelines/compare_print.h"

static const char *z(struct arena *a, struct str s)
{
    return s.n ? str_dup(a, s) : "-";
}

const char *compare_says(const struct comparison *c, const struct delta *d, struct arena *a)
{
    if (d->refused && !d->allowed)
        return arena_printf(a, "refused: %s", d->refused);
    const char *what =
        d->est.why ? arena_printf(a, "not estimable: %s", d->est.why) : verdict_names[d->verdict];
    const struct result *x = &c->run[d->run], *base = &c->run[c->baseline];
    const char *same = !str_eq(x->group, base->group) ? ""
                       : d->again                     ? " (the same training, no seed of its own)"
                       : x->seed == base->seed        ? " (same recipe and seed, run again)"
                                                      : " (same recipe, another seed)";
    const char *counts = d->same_as ? arena_printf(a, ", exploratory: counted as %s", d->same_as)
                         : d->m->primary ? ""
                                         : ", exploratory";
    const char *won = d->mcnemar ? arena_printf(a, " (%lld won, %lld lost)", (long long)d->won,
                                                (long long)d->lost)
                                 : "";
    return arena_printf(a, "%s%s%s%s%s", what, won, same, counts,
                        d->allowed ? arena_printf(a, ", MARKED: %s", d->refused) : "");
}

static const char *full(struct arena *a, double v)
{
    return isnan(v) ? "" : arena_printf(a, "%.17g", v);
}

static const char *whole(struct arena *a, int64_t v)
{
    return arena_printf(a, "%lld", (long long)v);
}

static void csv_run(const struct comparison *c, const struct delta *d, struct table *t,
                    struct arena *a)
{
    bool has = d->base && d->run != c->baseline && (!d->refused || d->allowed);
    bool est = has && !d->est.why;
    const struct result *r = &c->run[d->run];
    double lowest = NAN, highest = NAN;
    if (compare_lacking(d->m))
        compare_range(d->m, &lowest, &highest, a);
    const char *cells[] = {z(a, d->m->name),
                           z(a, d->m->task),
                           z(a, d->m->unit),
                           "checkpoint",
                           z(a, r->run),
                           z(a, r->group),
                           whole(a, r->seed),
                           full(a, d->m->value),
                           full(a, d->m->lo),
                           full(a, d->m->hi),
                           whole(a, d->m->n),
                           has ? full(a, d->est.value) : "",
                           est ? full(a, d->est.lo) : "",
                           est ? full(a, d->est.hi) : "",
                           est ? full(a, d->est.p) : "",
                           est ? full(a, d->p_holm) : "",
                           d->run == c->baseline ? "baseline"
                           : d->base             ? compare_says(c, d, a)
                                                 : "no baseline",
                           whole(a, compare_lacking(d->m)),
                           full(a, lowest),
                           full(a, highest)};
    table_row(t, cells);
}

static void csv_recipe(const struct compared_metric *k, const struct recipe *x,
                       const struct metric *m, struct table *t, struct arena *a)
{
    bool est = !x->why;
    const char *cells[] = {z(a, k->name),
                           z(a, k->task),
                           z(a, m->unit),
                           "recipe",
                           "",
                           z(a, x->group),
                           "",
                           "",
                           "",
                           "",
                           whole(a, x->seeds),
                           x->same ? "" : full(a, x->effect),
                           est ? full(a, x->est.lo) : "",
                           est ? full(a, x->est.hi) : "",
                           est ? full(a, x->est.p) : "",
                           est ? full(a, x->p_holm) : "",
                           est       ? arena_printf(a, "%s%s", verdict_names[x->verdict],
                                              isnan(x->p_holm) ? ", exploratory" : "")
                           : x->same ? x->why
                                     : arena_printf(a, "not estimable: %s", x->why),
                           "",
                           "",
                           ""};
    table_row(t, cells);
}

/* One row a run and metric, then one a recipe: for spreadsheets. p is the test's own, p_holm is
 * corrected and empty where Holm does not reach; lacking counts items without a value, with which
 * the value would be from lowest to highest. */
void compare_csv(const struct comparison *c, struct arena *a, struct buf *out)
{
    struct table t;
    static const char *const head[] = {"metric", "task",       "unit",    "scope",   "run",
                                       "group",  "seed",       "value",   "lo",      "hi",
                                       "n",      "difference", "diff_lo", "diff_hi", "p",
                                       "p_holm", "verdict",    "lacking", "lowest",  "highest"};
    table_begin(&t, sizeof head / sizeof head[0], "");
    table_row(&t, head);
    for (size_t k = 0; k < c->nmetrics; k++) {
        const struct compared_metric *m = &c->metric[k];
        for (size_t r = 0; r < c->nruns; r++)
            if (m->delta[r].m)
                csv_run(c, &m->delta[r], &t, a);
        for (size_t i = 0; i < m->nrecipes; i++)
            csv_recipe(m, &m->recipe[i], m->delta[c->baseline].m, &t, a);
    }
    table_write(&t, TABLE_CSV, "", out);
    table_release(&t);
}
