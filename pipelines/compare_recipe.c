/* compare_recipe: groups of runs (seeds) against the baseline's group, see compare.h. */
#include <math.h>

#include "pipelines/compare_private.h"

enum verdict compare_verdict(const struct estimate *est, double p, double level, bool higher_better)
{
    if (est->why || isnan(p))
        return VERDICT_NOT_ESTIMABLE;
    if (p > 1 - level || est->value == 0)
        return VERDICT_NOT_SEEN;
    return (est->value > 0) == higher_better ? VERDICT_BETTER : VERDICT_WORSE;
}

bool compare_same_draw(const struct result *x, const struct metric *mx, const struct result *y,
                       const struct metric *my)
{
    return str_eq(x->group, y->group) && x->seed == y->seed &&
           (mx->value == my->value || (x->started.n && str_eq(x->started, y->started)));
}

static bool drawn_before(const struct comparison *c, const struct compared_metric *k, size_t r)
{
    for (size_t i = 0; i < r; i++)
        if (k->delta[i].m &&
            compare_same_draw(&c->run[r], k->delta[r].m, &c->run[i], k->delta[i].m))
            return true;
    return false;
}

/* Values of a metric over the runs of a group that compare with the baseline's, each over the same items. */
static size_t group_values(const struct comparison *c, const struct compared_metric *k,
                           struct str group, double *out)
{
    size_t n = 0;
    for (size_t r = 0; r < c->nruns; r++) {
        const struct delta *d = &k->delta[r];
        bool comparable = r == c->baseline || (d->base && (!d->refused || d->allowed));
        if (d->m && comparable && str_eq(c->run[r].group, group) && !isnan(d->m->value) &&
            !isnan(k->common[r]) && !drawn_before(c, k, r))
            out[n++] = k->common[r];
    }
    return n;
}

static const char *seeds_of(int64_t n, struct arena *a)
{
    return arena_printf(a, "%lld seed%s", (long long)n, n == 1 ? "" : "s");
}

const char *compare_sd_source(const struct recipe *x, struct str base, struct arena *a)
{
    bool lacks = x->lender.n && x->lent_seeds < 2;
    const char *own = "";
    if (x->lent_seeds >= 2)
        return arena_printf(a, "borrowed from %.*s", STR_ARG(x->lender));
    if (!x->same && x->seeds < 2 && x->base_seeds >= 2)
        own = arena_printf(a, "of %.*s alone: %.*s has %s", STR_ARG(base), STR_ARG(x->group),
                           seeds_of(x->seeds, a));
    else if (!x->same && x->base_seeds < 2 && x->seeds >= 2)
        own = arena_printf(a, "of %.*s alone: %.*s has %s", STR_ARG(x->group), STR_ARG(base),
                           seeds_of(x->base_seeds, a));
    return lacks ? arena_printf(a, "%s%snone to borrow from %.*s, which has %s", own,
                                *own ? "; " : "", STR_ARG(x->lender), seeds_of(x->lent_seeds, a))
                 : own;
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
    x->lender = o->seed_sd ? str_z(o->seed_sd) : (struct str){0};
    x->lent_seeds = (int64_t)ns;
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
    x->mde = NAN;
    if (x->sd > 0 && na && nb)
        x->mde = x->sd * sqrt(1.0 / (double)na + 1.0 / (double)nb) * stats_mde_se((double)x->sd_df);
    x->needed = x->sd > 0 && x->effect != 0 ? stats_seeds_needed(x->sd, fabs(x->effect)) : 0;
    x->p_holm = NAN;
    x->verdict = x->why ? VERDICT_NOT_ESTIMABLE
                        : compare_verdict(&x->est, x->est.p, o->level, higher_better);
}

/* Twenty recipes against one are twenty chances to look better: Holm over all that count. */
static void correct(struct comparison *c, const struct compare_options *o)
{
    size_t room = 1, n = 0;
    for (size_t k = 0; k < c->nmetrics; k++)
        room += c->metric[k].nrecipes;
    double *p = arena_array(&c->arena, room, sizeof *p);
    struct recipe **who = arena_array(&c->arena, room, sizeof *who);
    bool *higher = arena_array(&c->arena, room, sizeof *higher);
    for (size_t k = 0; k < c->nmetrics; k++) {
        const struct metric *base = c->metric[k].delta[c->baseline].m;
        if (!base || !base->primary || compare_counted_as(&c->run[c->baseline], base))
            continue;
        for (size_t i = 0; i < c->metric[k].nrecipes; i++) {
            struct recipe *x = &c->metric[k].recipe[i];
            if (x->same || !x->seeds || !x->base_seeds)
                continue; /* no test was declared */
            who[n] = x;
            higher[n] = base->higher_better;
            p[n++] = x->why ? NAN : x->est.p;
        }
    }
    stats_holm(p, n);
    for (size_t i = 0; i < n; i++) {
        who[i]->p_holm = p[i];
        if (who[i]->why)
            continue;
        who[i]->verdict = compare_verdict(&who[i]->est, p[i], o->level, higher[i]);
    }
}

void compare_recipes(struct comparison *c, const struct compare_options *o)
{
    for (size_t k = 0; k < c->nmetrics; k++) {
        struct compared_metric *m = &c->metric[k];
        m->recipe = arena_array(&c->arena, c->nruns, sizeof *m->recipe);
        const struct metric *base = m->delta[c->baseline].m;
        if (!base)
            continue;
        compare_common(c, m);
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
    correct(c, o);
}
