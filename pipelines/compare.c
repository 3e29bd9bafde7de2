/* compare: pairing, refusing and verdicts, see compare.h. */
#include "pipelines/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

const char *const verdict_names[] = {"",  "better", "worse", "no difference seen", "not estimable",
                                     NULL};

/* ---- pairing ---------------------------------------------------------------------------------- */

static const struct metric *find_metric(const struct result *r, struct str name, struct str task)
{
    const struct metric *m = r->metrics.v;
    for (size_t i = 0; i < r->metrics.n; i++)
        if (str_eq(m[i].name, name) && str_eq(m[i].task, task))
            return &m[i];
    return NULL;
}

static struct str identity_value(const struct metric *m, struct str key)
{
    for (size_t i = 0; i < m->identity.n; i++) {
        struct str rest = m->identity.v[i], k = str_cut(&rest, '=');
        if (str_eq(k, key))
            return rest;
    }
    return (struct str){0};
}

/* A hash is long and says nothing: its start is enough. */
static struct str shown(struct str v)
{
    if (v.n == 0)
        return STR_LIT("nothing");
    if (v.n == 64)
        v.n = 12;
    return v;
}

/* First identity key in which a and b differ, as a sentence; NULL if none. */
static const char *identity_differs(const struct metric *a, const struct metric *b,
                                    struct arena *ar)
{
    for (int side = 0; side < 2; side++) {
        const struct metric *x = side ? b : a;
        for (size_t i = 0; i < x->identity.n; i++) {
            struct str rest = x->identity.v[i], key = str_cut(&rest, '=');
            struct str va = identity_value(a, key), vb = identity_value(b, key);
            if (!str_eq(va, vb)) {
                va = shown(va);
                vb = shown(vb);
                return arena_printf(ar, "%.*s differs: %.*s against %.*s", STR_ARG(key),
                                    STR_ARG(va), STR_ARG(vb));
            }
        }
    }
    return NULL;
}

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

/* Whether the units can be paired at all; the reason if not. */
static const char *units_differ(const struct metric *a, const struct metric *b, struct map *at,
                                struct arena *ar)
{
    if (a->ids.n == 0 || a->num.n != a->ids.n || a->den.n != a->ids.n || b->num.n != b->ids.n ||
        b->den.n != b->ids.n)
        return "one of the results has no per-item values";
    for (size_t i = 0; i < b->ids.n; i++)
        map_add(at, b->ids.v[i], (int64_t)i, NULL);
    size_t missing = 0;
    for (size_t i = 0; i < a->ids.n; i++)
        missing += map_find(at, a->ids.v[i]) < 0;
    if (missing || a->ids.n != b->ids.n)
        return arena_printf(ar,
                            "items differ: %zu against %zu, %zu of the first are not in the second",
                            a->ids.n, b->ids.n, missing);
    for (size_t i = 0; i < a->ids.n; i++) {
        double db = b->den.v[at->value[map_find(at, a->ids.v[i])]];
        if (a->den.v[i] != db)
            return arena_printf(ar, "the denominator of item %.*s differs: %g against %g",
                                STR_ARG(a->ids.v[i]), a->den.v[i], db);
    }
    return NULL;
}

static void pair(struct delta *d, double level, struct arena *a)
{
    struct map at = {0};
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
    }
    map_release(&at);
}

/* ---- verdicts --------------------------------------------------------------------------------- */

static enum verdict verdict_of(const struct estimate *est, double p, double level,
                               bool higher_better)
{
    if (est->why || isnan(p))
        return VERDICT_NOT_ESTIMABLE;
    if (p > 1 - level || est->value == 0)
        return VERDICT_NOT_SEEN;
    return (est->value > 0) == higher_better ? VERDICT_BETTER : VERDICT_WORSE;
}

/* Holm over the primary metrics x runs; the rest keeps its own p and is exploratory. */
static void judge_checkpoints(struct comparison *c, double level)
{
    size_t room = c->nmetrics * c->nruns, n = 0;
    double *p = arena_array(&c->arena, room + 1, sizeof *p);
    struct delta **who = arena_array(&c->arena, room + 1, sizeof *who);
    for (size_t k = 0; k < c->nmetrics; k++)
        for (size_t r = 0; r < c->nruns; r++) {
            struct delta *d = &c->metric[k].delta[r];
            d->p_holm = NAN;
            if (r == c->baseline || !d->m || !d->base || (d->refused && !d->allowed))
                continue;
            if (d->m->primary && !d->est.why) {
                who[n] = d;
                p[n++] = d->est.p;
            } else {
                d->verdict = verdict_of(&d->est, d->est.p, level, d->m->higher_better);
            }
        }
    stats_holm(p, n);
    for (size_t i = 0; i < n; i++) {
        who[i]->p_holm = p[i];
        who[i]->verdict = verdict_of(&who[i]->est, p[i], level, who[i]->m->higher_better);
    }
}

/* Values of a metric over the runs of a group that compare with the baseline's. */
static size_t group_values(const struct comparison *c, const struct compared_metric *k,
                           struct str group, double *out)
{
    size_t n = 0;
    for (size_t r = 0; r < c->nruns; r++) {
        const struct delta *d = &k->delta[r];
        bool comparable = r == c->baseline || (d->base && (!d->refused || d->allowed));
        if (d->m && comparable && str_eq(c->run[r].group, group) && !isnan(d->m->value))
            out[n++] = d->m->value;
    }
    return n;
}

static double mean(const double *v, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += v[i];
    return s / (double)n;
}

static double squares(const double *v, size_t n)
{
    double m = mean(v, n), s = 0;
    for (size_t i = 0; i < n; i++)
        s += (v[i] - m) * (v[i] - m);
    return s;
}

static void judge_recipe(struct comparison *c, const struct compared_metric *k, struct recipe *x,
                         const struct compare_options *o, bool higher_better)
{
    double *a = arena_array(&c->arena, c->nruns + 1, sizeof *a),
           *b = arena_array(&c->arena, c->nruns + 1, sizeof *b),
           *s = arena_array(&c->arena, c->nruns + 1, sizeof *s);
    size_t na = group_values(c, k, x->group, a),
           nb = group_values(c, k, c->run[c->baseline].group, b);
    x->seeds = (int64_t)na;
    x->base_seeds = (int64_t)nb;
    x->same = str_eq(x->group, c->run[c->baseline].group);
    if (x->same)
        nb = 0; /* its seeds count once */
    x->effect = na && nb ? mean(a, na) - mean(b, nb) : NAN;
    x->sd = NAN;
    size_t ns = o->seed_sd ? group_values(c, k, str_z(o->seed_sd), s) : 0;
    double ss = 0;
    if (ns >= 2) { /* the borrowed group's alone: it was named before the numbers were seen */
        ss = squares(s, ns);
        x->sd_df = (int64_t)ns - 1;
    } else {
        ss = (na > 1 ? squares(a, na) : 0) + (nb > 1 ? squares(b, nb) : 0);
        x->sd_df = (int64_t)(na > 1 ? na - 1 : 0) + (int64_t)(nb > 1 ? nb - 1 : 0);
    }
    if (x->sd_df > 0)
        x->sd = sqrt(ss / (double)x->sd_df); /* 0 when all seeds agree */
    if (x->same) {
        x->why = "one recipe: the difference between its seeds is its noise";
    } else if (na == 0 || nb == 0) {
        x->why = "no comparable run in one of the groups";
    } else if (ns >= 2 && x->sd > 0) {
        double df = (double)x->sd_df, se = x->sd * sqrt(1.0 / (double)na + 1.0 / (double)nb);
        double t = stats_t_quantile(1 - (1 - o->level) / 2, df);
        x->est = (struct estimate){.value = x->effect, .se = se, .df = df, .n = (int64_t)(na + nb)};
        x->est.lo = x->effect - t * se;
        x->est.hi = x->effect + t * se;
        x->est.p = 2 * stats_t_cdf(-fabs(x->effect / se), df);
    } else if (na < 2 || nb < 2) {
        x->why =
            arena_printf(&c->arena,
                         "%zu seed%s against %zu: seed noise needs at least 2 in each arm, or a "
                         "borrowed sd (--seed-sd GROUP)",
                         na, na == 1 ? "" : "s", nb);
    } else {
        x->est = stats_seeds(a, na, b, nb, o->level);
        x->why = x->est.why;
    }
    x->needed = x->sd > 0 && x->effect != 0 ? stats_seeds_needed(x->sd, fabs(x->effect)) : 0;
    x->verdict =
        x->why ? VERDICT_NOT_ESTIMABLE : verdict_of(&x->est, x->est.p, o->level, higher_better);
}

static void judge_recipes(struct comparison *c, const struct compare_options *o)
{
    for (size_t k = 0; k < c->nmetrics; k++) {
        struct compared_metric *m = &c->metric[k];
        m->recipe = arena_array(&c->arena, c->nruns, sizeof *m->recipe);
        const struct metric *base = m->delta[c->baseline].m;
        if (!base)
            continue;
        for (size_t r = 0; r < c->nruns; r++) {
            struct str g = c->run[r].group;
            bool seen = r == c->baseline || !m->delta[r].m;
            for (size_t i = 0; i < m->nrecipes && !seen; i++)
                seen = str_eq(m->recipe[i].group, g);
            if (seen)
                continue;
            struct recipe *x = &m->recipe[m->nrecipes++];
            x->group = g;
            judge_recipe(c, m, x, o, base->higher_better);
        }
    }
}

/* ---- putting it together ------------------------------------------------------------------------ */

static void collect_metrics(struct comparison *c)
{
    size_t room = 0;
    for (size_t r = 0; r < c->nruns; r++)
        room += c->run[r].metrics.n;
    c->metric = arena_array(&c->arena, room + 1, sizeof *c->metric);
    for (size_t i = 0; i < c->nruns; i++) {
        /* the baseline's metrics first, in its order */
        size_t r = i == 0 ? c->baseline : i <= c->baseline ? i - 1 : i;
        const struct metric *m = c->run[r].metrics.v;
        for (size_t k = 0; k < c->run[r].metrics.n; k++) {
            bool seen = false;
            for (size_t j = 0; j < c->nmetrics && !seen; j++)
                seen = str_eq(c->metric[j].name, m[k].name) && str_eq(c->metric[j].task, m[k].task);
            if (!seen)
                c->metric[c->nmetrics++] =
                    (struct compared_metric){.name = m[k].name, .task = m[k].task, .floor = NAN};
        }
    }
}

static void compare_metric(struct comparison *c, struct compared_metric *k,
                           const struct compare_options *o)
{
    k->delta = arena_array(&c->arena, c->nruns, sizeof *k->delta);
    const struct metric *base = find_metric(&c->run[c->baseline], k->name, k->task);
    for (size_t r = 0; r < c->nruns; r++) {
        struct delta *d = &k->delta[r];
        d->run = r;
        d->m = find_metric(&c->run[r], k->name, k->task);
        d->base = base;
        if (r == c->baseline || !d->m || !base)
            continue;
        const char *identity = identity_differs(d->m, base, &c->arena);
        if (!identity || o->allow)
            pair(d, o->level, &c->arena);
        if (d->refused) { /* units can't be paired: nothing to allow */
            c->refused++;
            continue;
        }
        d->refused = identity;
        d->allowed = identity != NULL && o->allow;
        *(d->refused && !d->allowed ? &c->refused : &c->compared) += 1;
    }
}

/* The floor under bits_byte is what excess_bits_byte leaves. */
static void find_floor(struct comparison *c)
{
    for (size_t k = 0; k < c->nmetrics; k++) {
        struct compared_metric *m = &c->metric[k];
        const struct metric *bits = m->delta[c->baseline].m;
        const struct metric *excess =
            find_metric(&c->run[c->baseline], STR_LIT("excess_bits_byte"), m->task);
        if (str_eqz(m->name, "bits_byte") && bits && excess)
            m->floor = bits->value - excess->value;
    }
}

int compare_runs(struct comparison *c, const struct result *runs, size_t n,
                 const struct compare_options *o, struct err *e)
{
    *c = (struct comparison){.run = runs, .nruns = n, .o = *o};
    if (n == 0)
        return err_code(e, EXIT_USAGE, "no results were given");
    while (c->baseline + 1 < n && runs[c->baseline].metrics.n == 0)
        c->baseline++; /* the first that was measured */
    if (o->baseline) {
        c->baseline = 0;
        while (c->baseline < n && !str_eqz(runs[c->baseline].run, o->baseline))
            c->baseline++;
        if (c->baseline == n)
            return err_code(e, EXIT_USAGE, "the baseline %s is not among the runs", o->baseline);
    }
    collect_metrics(c);
    for (size_t k = 0; k < c->nmetrics; k++)
        compare_metric(c, &c->metric[k], o);
    find_floor(c);
    judge_checkpoints(c, o->level);
    judge_recipes(c, o);
    return 0;
}

void compare_release(struct comparison *c)
{
    arena_release(&c->arena);
    *c = (struct comparison){0};
}
