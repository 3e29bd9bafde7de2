/* compare_missing: items without a value (failed, invalid): how far they could move what is said of the
 * others, see compare.h. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "pipelines/compare_private.h"

/* What one item of this unit can be worth; false: no border is known. */
static bool unit_range(const struct metric *m, double *least, double *most)
{
    *least = 0;
    *most = str_eqz(m->unit, "share") ? 1 : str_eqz(m->unit, "points of 100") ? 100 : NAN;
    return !isnan(*most);
}

static bool lacks_value(const struct metric *m, size_t i)
{
    return isnan(m->num.v[i]);
}

static bool whole(const struct metric *m)
{
    return m->num.n == m->ids.n && m->den.n == m->ids.n;
}

int64_t compare_lacking(const struct metric *m)
{
    int64_t n = 0;
    for (size_t i = 0; whole(m) && i < m->ids.n; i++)
        n += lacks_value(m, i);
    return n;
}

/* m with the given worth for each item that has none. */
static struct metric filled(const struct metric *m, double worth, struct arena *a)
{
    struct metric f = *m;
    f.num = (struct f64s){arena_array(a, m->num.n + 1, sizeof(double)), m->num.n};
    for (size_t i = 0; i < m->num.n; i++)
        f.num.v[i] = lacks_value(m, i) ? worth * m->den.v[i] : m->num.v[i];
    return f;
}

static double value_of(const struct metric *m)
{
    double num = 0, den = 0;
    for (size_t i = 0; i < m->num.n; i++) {
        num += m->num.v[i];
        den += m->den.v[i];
    }
    return num / den;
}

bool compare_range(const struct metric *m, double *lowest, double *highest, struct arena *a)
{
    double least, most;
    *lowest = *highest = NAN;
    if (!whole(m) || !unit_range(m, &least, &most))
        return false;
    struct metric low = filled(m, least, a), high = filled(m, most, a);
    *lowest = value_of(&low);
    *highest = value_of(&high);
    return true;
}

bool compare_worst(const struct delta *d, double level, struct delta *out, struct arena *a)
{
    double least, most;
    if (!unit_range(d->m, &least, &most))
        return false;
    bool up = d->m->higher_better;
    struct metric *m = arena_array(a, 2, sizeof *m);
    m[0] = filled(d->m, up ? least : most, a);
    m[1] = filled(d->base, up ? most : least, a);
    *out = (struct delta){.run = d->run, .m = &m[0], .base = &m[1]};
    compare_pair(out, level, a);
    return true;
}

/* Each run's value over the items that all comparable runs have a value for. */
void compare_common(struct comparison *c, struct compared_metric *k)
{
    struct map bad = {0};
    k->common = arena_array(&c->arena, c->nruns + 1, sizeof *k->common);
    for (size_t r = 0; r < c->nruns; r++) {
        const struct delta *d = &k->delta[r];
        k->common[r] = d->m ? d->m->value : NAN;
        bool comparable = r == c->baseline || (d->base && (!d->refused || d->allowed));
        if (!d->m || !comparable || isnan(d->m->value) || !whole(d->m))
            continue;
        for (size_t i = 0; i < d->m->ids.n; i++)
            if (lacks_value(d->m, i))
                map_add(&bad, d->m->ids.v[i], 0, NULL);
    }
    for (size_t r = 0; bad.n && r < c->nruns; r++) {
        const struct metric *m = k->delta[r].m;
        double num = 0, den = 0;
        for (size_t i = 0; m && whole(m) && i < m->ids.n; i++) {
            if (map_find(&bad, m->ids.v[i]) >= 0)
                continue;
            num += m->num.v[i];
            den += m->den.v[i];
        }
        if (m && whole(m) && m->ids.n)
            k->common[r] = den > 0 ? num / den : NAN;
    }
    map_release(&bad);
}
