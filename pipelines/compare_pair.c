/* compare_pair: one metric of two runs, joined by item, see compare.h. */
#include <math.h>

#include "base/map.h"
#include "pipelines/compare_private.h"

/* Dense cluster numbers of a metric's units; a unit without one is a cluster of its own. */
static int32_t *clusters_of(const struct metric *m, struct arena *a)
{
    int32_t *out = arena_array(a, m->ids.n, sizeof *out);
    struct map seen = {0};
    for (size_t i = 0; i < m->ids.n; i++) {
        struct str key = i < m->cluster.n && m->cluster.v[i].n ? m->cluster.v[i] : m->ids.v[i];
        out[i] = (int32_t)map_add(&seen, key, 0, NULL);
    }
    map_release(&seen);
    return out;
}

/* An id that stands there twice: no unit of the other run could tell which it is. */
static const char *doubled_id(const struct metric *m, struct arena *a)
{
    struct map seen = {0};
    const char *why = NULL;
    for (size_t i = 0; i < m->ids.n && !why; i++) {
        int added;
        map_add(&seen, m->ids.v[i], 0, &added);
        if (!added)
            why = arena_printf(a, "the item %.*s is there twice, so it cannot be paired",
                               STR_ARG(m->ids.v[i]));
    }
    map_release(&seen);
    return why;
}

/* Whether the units can be paired at all; the reason if not. */
static const char *units_differ(const struct metric *a, const struct metric *b, struct map *at,
                                struct arena *ar)
{
    if (a->num.n != a->ids.n || a->den.n != a->ids.n || b->num.n != b->ids.n ||
        b->den.n != b->ids.n)
        return "the per-item values of one of them are not whole";
    const char *doubled = doubled_id(a, ar);
    if (!doubled)
        doubled = doubled_id(b, ar);
    if (doubled)
        return doubled;
    for (size_t i = 0; i < b->ids.n; i++)
        map_add(at, b->ids.v[i], (int64_t)i, NULL);
    size_t missing = 0;
    for (size_t i = 0; i < a->ids.n; i++)
        missing += map_find(at, a->ids.v[i]) < 0;
    if (missing || a->ids.n != b->ids.n) {
        struct map own = {0};
        size_t lacks = 0;
        for (size_t i = 0; i < a->ids.n; i++)
            map_add(&own, a->ids.v[i], 0, NULL);
        for (size_t i = 0; i < b->ids.n; i++)
            lacks += map_find(&own, b->ids.v[i]) < 0;
        map_release(&own);
        return arena_printf(ar,
                            "items differ: %zu of the baseline's %zu are missing in it, %zu of its "
                            "%zu are missing in the baseline",
                            lacks, b->ids.n, missing, a->ids.n);
    }
    for (size_t i = 0; i < a->ids.n; i++) {
        double db = b->den.v[at->value[map_find(at, a->ids.v[i])]];
        if (a->den.v[i] != db)
            return arena_printf(ar, "the denominator of item %.*s differs: %g against %g",
                                STR_ARG(a->ids.v[i]), a->den.v[i], db);
    }
    return NULL;
}

/* Right-or-wrong items that are clusters of their own: McNemar on the pairs that differ, exact for any
 * number of them, where the sign flips would be drawn. */
static void exact_counts(struct delta *d, const double *x, const double *y, const double *den,
                         size_t n)
{
    int64_t won = 0, lost = 0;
    for (size_t i = 0; i < n; i++) {
        if (den[i] != 1 || (x[i] != 0 && x[i] != 1) || (y[i] != 0 && y[i] != 1))
            return;
        won += x[i] > y[i];
        lost += x[i] < y[i];
    }
    d->mcnemar = true;
    d->won = won;
    d->lost = lost;
    d->est.p = stats_mcnemar(won, lost);
}

void compare_pair(struct delta *d, double level, struct arena *a)
{
    struct map at = {0};
    if (d->m->ids.n == 0 ||
        d->base->ids.n == 0) { /* published elsewhere: a value is all there is */
        d->est = (struct estimate){.value = d->m->value - d->base->value,
                                   .se = NAN,
                                   .lo = NAN,
                                   .hi = NAN,
                                   .df = NAN,
                                   .p = NAN,
                                   .why = "no per-item values"};
        d->mde = NAN;
        return;
    }
    d->refused = units_differ(d->m, d->base, &at, a);
    if (!d->refused) {
        size_t n = d->m->ids.n, kept = 0;
        double *x = arena_array(a, n, sizeof *x), *y = arena_array(a, n, sizeof *y),
               *den = arena_array(a, n, sizeof *den);
        int32_t *all = clusters_of(d->m, a), *cl = arena_array(a, n, sizeof *cl);
        for (size_t i = 0; i < n; i++) {
            double vx = d->m->num.v[i];
            double vy = d->base->num.v[at.value[map_find(&at, d->m->ids.v[i])]];
            if (isnan(vx) || isnan(vy)) /* an item without a value in one run leaves the pair */
                continue;
            x[kept] = vx;
            y[kept] = vy;
            den[kept] = d->m->den.v[i];
            cl[kept++] = all[i];
        }
        /* Left-out items may leave holes in the cluster numbers. */
        int32_t *renumber = arena_array(a, n + 1, sizeof *renumber), next = 0;
        for (size_t i = 0; i < kept; i++) {
            if (renumber[cl[i]] == 0)
                renumber[cl[i]] = ++next;
            cl[i] = renumber[cl[i]] - 1;
        }
        d->est = stats_paired(x, y, den, cl, kept, level);
        if (!d->est.why && str_eqz(d->m->unit, "share")) { /* t knows no borders, shares do */
            d->est.lo = d->est.lo < -1 ? -1 : d->est.lo;
            d->est.hi = d->est.hi > 1 ? 1 : d->est.hi;
        }
        if (!d->est.why && next == (int32_t)kept)
            exact_counts(d, x, y, den, kept);
        d->mde = d->est.why ? NAN : d->est.se * stats_mde_se(d->est.df);
    }
    map_release(&at);
}
