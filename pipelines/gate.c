/* gate: rules on differences, see gate.h. The differences are compare's: paired by item, clustered,
 * refused where settings differ; over seeds by Student's t. */
#include "pipelines/gate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "pipelines/compare.h"

enum { FEWEST_DF = 4 }; /* below, a seed sd is known within a factor of 3 or worse */

static const struct compared_metric *metric_of(const struct comparison *c,
                                               const struct gate_rule *r)
{
    for (size_t k = 0; k < c->nmetrics; k++)
        if (str_eq(c->metric[k].name, r->metric) &&
            (!r->task.n || str_eq(c->metric[k].task, r->task)))
            return &c->metric[k];
    return NULL;
}

/* ---- deciding ----------------------------------------------------------------------------------- */

/* 1 - alpha in per cent; many looks need more digits than four, and never say 100%. */
static const char *level_text(double alpha, struct arena *a)
{
    const char *text = NULL;
    double shown = 100;
    for (int digits = 4; shown >= 100 && digits < 15; digits++) {
        text = arena_printf(a, "%.*g", digits, 100 * (1 - alpha));
        str_f64(str_z(text), &shown);
    }
    return arena_printf(a, "%s%%", text);
}

/* Outcome and sentence from the bounds. */
static void decide(struct gate_check *k, struct arena *a)
{
    double limit = gate_limit(k);
    bool margin = k->rule->kind == GATE_MARGIN;
    const char *level = level_text(k->alpha, a);
    if (k->lo > limit) {
        k->outcome = GATE_FAIL;
        k->why = arena_printf(a, "worse by %s, at least %s with %s", gate_number(a, k->worsening),
                              gate_number(a, k->lo), level);
    } else if (!margin) {
        k->outcome = GATE_PASS;
        k->why = arena_printf(a, "not shown to be worse: %s, at least %s with %s",
                              gate_number(a, k->worsening), gate_number(a, k->lo), level);
    } else if (k->hi < limit) {
        k->outcome = GATE_PASS;
        k->why = arena_printf(a, "worse by at most %s with %s, the margin is %s",
                              gate_number(a, k->hi), level, gate_number(a, limit));
    } else {
        k->outcome = GATE_UNDECIDED;
        k->why = arena_printf(a, "between %s and %s with %s each, the margin %s lies within",
                              gate_number(a, k->lo), gate_number(a, k->hi), level,
                              gate_number(a, limit));
    }
}

static void undecided(struct gate_check *k, const char *why)
{
    k->outcome = GATE_UNDECIDED;
    k->why = why;
}

static void failed(struct gate_check *k, const char *why)
{
    k->outcome = GATE_FAIL;
    k->why = why;
}

/* Bounds of a difference with se and df; `worse` is +1 where more is worse. */
static void bounds(struct gate_check *k, const struct estimate *x, double worse)
{
    double t = stats_t_quantile(1 - k->alpha, x->df);
    k->worsening = worse * x->value;
    k->lo = k->worsening - t * x->se;
    k->hi = k->worsening + t * x->se;
}

/* How many items, as many a cluster as now, or seeds an arm would settle it with 80% power if the difference
 * stays what it is. More of them also know the spread better: degrees of freedom grow with them. */
static double items_needed(const struct gate_check *k, const struct estimate *x)
{
    double gap = fabs(k->worsening - gate_limit(k)) / x->se, n = (double)k->n;
    return stats_units_needed(gap, n, (double)x->clusters / n, -1, k->alpha);
}

static double seeds_needed(const struct gate_check *k, const struct recipe *x)
{
    double gap = fabs(k->worsening - gate_limit(k)) / x->est.se;
    double even = 2 / (1 / (double)x->seeds + 1 / (double)x->base_seeds); /* arms of one size */
    return stats_units_needed(gap, even, 2, -2, k->alpha);
}

static void say_needed(struct gate_check *k, double n, const char *what, struct arena *a)
{
    if (!(n < 1e12)) {
        k->why = arena_printf(a, "%s; it sits on the limit, no number of %s would settle it",
                              k->why, what);
        return;
    }
    k->needed = (int64_t)n;
    k->why = arena_printf(a, "%s; about %lld %s (now %lld) would settle it if it stays so", k->why,
                          (long long)k->needed, what, (long long)k->n);
}

/* No unit differs. A share is then bounded by the rule of three (0 of G clusters got worse); a loss
 * that is equal on every item is the same loss. */
static void all_equal(struct gate_check *k, const struct delta *d, struct arena *a)
{
    bool share = str_eqz(d->m->unit, "share");
    k->worsening = 0;
    k->hi = share ? 1 - pow(k->alpha, 1 / (double)d->est.clusters) : 0;
    k->lo = share ? -k->hi : 0;
    decide(k, a);
    k->why = arena_printf(a, "the same on every item; %s", k->why);
    if (k->outcome == GATE_UNDECIDED) {
        double clusters = log(k->alpha) / log1p(-fmin(gate_limit(k), 1));
        say_needed(k, ceil((double)k->n * clusters / (double)d->est.clusters), "items", a);
    }
}

/* A metric that nobody has is mostly a word mistyped. */
static const char *not_measured(const struct gate_rule *r, const struct comparison *c,
                                struct arena *a)
{
    struct buf b = {0};
    for (size_t i = 0; i < c->nmetrics; i++)
        buf_printf(&b, "%s%.*s/%.*s", i ? ", " : "", STR_ARG(c->metric[i].name),
                   STR_ARG(c->metric[i].task));
    const char *s =
        arena_printf(a, "%.*s%s%.*s was not measured; there are: %s", STR_ARG(r->metric),
                     r->task.n ? "/" : "", STR_ARG(r->task), b.n ? b.p : "none");
    buf_release(&b);
    return s;
}

/* A pass must hold whatever the items without a value are worth. */
static void undecided_at_worst(struct gate_check *k, int64_t lacking, const char *worst,
                               struct arena *a)
{
    undecided(k,
              arena_printf(a,
                           "%lld items of these runs have no value; without them: %s; %s; answer "
                           "them again",
                           (long long)lacking, k->why, worst));
}

static void check_pair(struct gate_check *k, const struct delta *d, struct arena *a);

static void check_worst(struct gate_check *k, const struct delta *d, struct arena *a)
{
    int64_t lacking = compare_lacking(d->m) + compare_lacking(d->base);
    struct gate_check w = *k;
    struct delta worst;
    if (!lacking || k->outcome != GATE_PASS)
        return;
    if (!compare_worst(d, 0.95, &worst, a)) {
        undecided_at_worst(k, lacking, "what they could be worth has no border", a);
        return;
    }
    check_pair(&w, &worst, a);
    if (w.outcome == GATE_PASS)
        return;
    k->needed = 0;
    undecided_at_worst(
        k, lacking,
        arena_printf(a, "with them at their worst (%s): %s", gate_number(a, w.worsening), w.why),
        a);
}

static void check_items(struct gate_check *k, const struct comparison *c, const struct delta *d,
                        struct arena *a)
{
    if (!d->m)
        failed(k, not_measured(k->rule, c, a));
    else if (!d->base)
        failed(k,
               arena_printf(a, "%.*s was not measured on the baseline", STR_ARG(k->rule->metric)));
    else if (d->refused)
        failed(k, arena_printf(a, "cannot be compared: %s", d->refused));
    if (k->why)
        return;
    check_pair(k, d, a);
    check_worst(k, d, a);
}

static void check_pair(struct gate_check *k, const struct delta *d, struct arena *a)
{
    double worse = d->m->higher_better ? -1 : 1;
    k->n = d->est.n;
    k->worsening = worse * d->est.value;
    if (d->est.why && d->est.value == 0 && strstr(d->est.why, "no spread")) {
        all_equal(k, d, a);
        return;
    }
    if (d->est.why) {
        undecided(k, arena_printf(a, "not estimable: %s", d->est.why));
        return;
    }
    bounds(k, &d->est, worse);
    decide(k, a);
    if (d->mcnemar && k->rule->kind == GATE_SIGNIFICANT) {
        /* few right-or-wrong items that differ: the exact test decides, not the interval */
        double p = stats_binom_cdf(d->won, d->won + d->lost, 0.5);
        k->outcome = p < k->alpha && k->worsening > 0 ? GATE_FAIL : GATE_PASS;
        k->why =
            arena_printf(a, "%lld items won, %lld lost: exact p of being worse %.3g, limit %.3g",
                         (long long)d->won, (long long)d->lost, p, k->alpha);
    }
    if (k->outcome == GATE_UNDECIDED)
        say_needed(k, items_needed(k, &d->est), "items", a);
}

/* Over seeds: all bounds moved by as much as the items without a value could. */
static void seeds_at_worst(struct gate_check *k, const struct comparison *c,
                           const struct compared_metric *m, struct arena *a)
{
    struct gate_check w = *k;
    int64_t lacking = 0;
    double by[2] = {0, 0}, low, high; /* of the baseline's arm, of the candidates' */
    for (size_t r = 0; r < c->nruns; r++) {
        const struct metric *x = m->delta[r].m;
        bool base = str_eq(c->run[r].group, c->run[0].group);
        if (!x || isnan(m->common[r]))
            continue;
        lacking += compare_lacking(x);
        if (!compare_range(x, &low, &high, a))
            low = -(high = INFINITY);
        by[base] =
            fmax(by[base], base == x->higher_better ? high - m->common[r] : m->common[r] - low);
    }
    if (!lacking || k->outcome != GATE_PASS)
        return;
    w.worsening += by[0] + by[1];
    w.lo += by[0] + by[1];
    w.hi += by[0] + by[1];
    decide(&w, a);
    if (w.outcome != GATE_PASS)
        undecided_at_worst(k, lacking, arena_printf(a, "with them at their worst: %s", w.why), a);
}

static void check_seeds(struct gate_check *k, const struct comparison *c,
                        const struct compared_metric *m, struct arena *a)
{
    const struct recipe *x = NULL;
    for (size_t i = 0; m && i < m->nrecipes; i++)
        if (!m->recipe[i].same)
            x = &m->recipe[i];
    if (!x || !m->delta[0].m) {
        failed(k, not_measured(k->rule, c, a));
        return;
    }
    if (x->seeds == 0) {
        const char *why = m->delta[0].refused;
        for (size_t r = 1; !why; r++)
            why = m->delta[r].refused ? m->delta[r].refused : NULL;
        failed(k, arena_printf(a, "cannot be compared: %s", why));
        return;
    }
    k->n = x->seeds < x->base_seeds ? x->seeds : x->base_seeds;
    k->worsening = (m->delta[0].m->higher_better ? -1 : 1) * x->effect;
    if (x->seeds + x->base_seeds - 2 < FEWEST_DF || x->seeds < 2 || x->base_seeds < 2) {
        k->needed = 3;
        undecided(k,
                  arena_printf(a,
                               "%lld against %lld seeds; a gate over seeds wants 2 or more in each "
                               "arm and 4 degrees of freedom for their sd, e.g. 3 seeds an arm",
                               (long long)x->seeds, (long long)x->base_seeds));
        return;
    }
    if (x->why) {
        undecided(k, arena_printf(a, "not estimable: %s", x->why));
        return;
    }
    bounds(k, &x->est, m->delta[0].m->higher_better ? -1 : 1);
    decide(k, a);
    if (k->outcome == GATE_UNDECIDED)
        say_needed(k, seeds_needed(k, x), "seeds an arm", a);
    seeds_at_worst(k, c, m, a);
}

/* ---- all rules ---------------------------------------------------------------------------------- */

static struct gate_check *new_check(struct gate *g, const struct gate_rule *r,
                                    const struct compared_metric *m, int64_t looks,
                                    struct str candidate)
{
    assert(looks >= 1);
    struct gate_check *k = &g->v[g->n++];
    *k = (struct gate_check){.rule = r, .worsening = NAN, .lo = NAN, .hi = NAN};
    k->alpha = (1 - r->level) / (double)looks;
    k->margin = r->margin;
    if (r->relative)
        k->margin *= m && m->delta[0].m ? fabs(m->delta[0].m->value) : NAN;
    k->candidate = str_copy(&g->arena, candidate);
    return k;
}

/* Over seeds an arm is one recipe. Names the groups if it is not. */
static int one_recipe(const struct gate_rule *r, const char *arm, const struct result *v, size_t n,
                      struct err *e)
{
    struct buf groups = {0};
    size_t told = 0;
    for (size_t i = 0; i < n; i++) {
        size_t runs = 0, first = 0;
        while (!str_eq(v[first].group, v[i].group))
            first++;
        for (size_t k = i; first == i && k < n; k++)
            runs += str_eq(v[k].group, v[i].group);
        if (runs)
            buf_printf(&groups, "%s%.*s (%zu run%s)", told++ ? ", " : "", STR_ARG(v[i].group), runs,
                       runs == 1 ? "" : "s");
    }
    int rc = 0;
    if (told > 1)
        rc =
            err_code(e, EXIT_USAGE,
                     "rule \"%.*s\": the %s are of %zu groups: %s; over seeds they are one recipe: "
                     "gate each group alone, or give its runs one [run] group",
                     STR_ARG(r->text), arm, told, groups.p);
    buf_release(&groups);
    return rc;
}

int gate_run(struct gate *g, const struct gate_rule *rules, size_t nrules,
             const struct result *baseline, size_t nbaseline, const struct result *candidate,
             size_t ncandidates, int64_t looks, struct err *e)
{
    struct comparison c = {0};
    struct compare_options o = {.level = 0.95, .first = true};
    size_t n = nbaseline + ncandidates;
    *g = (struct gate){0};
    for (size_t i = 0; i < nrules; i++)
        if (looks && looks < (int64_t)ncandidates && rules[i].over == GATE_ITEMS)
            return err_code(e, EXIT_USAGE, "%zu candidates are %zu looks, but --looks plans %lld",
                            ncandidates, ncandidates, (long long)looks);
    for (size_t i = 0; i < nrules; i++)
        if (rules[i].over == GATE_SEEDS &&
            (one_recipe(&rules[i], "candidates", candidate, ncandidates, e) != 0 ||
             one_recipe(&rules[i], "baselines", baseline, nbaseline, e) != 0))
            return -1;
    struct result *all = arena_array(&g->arena, n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        all[i] = i < nbaseline ? baseline[i] : candidate[i - nbaseline];
        all[i].group = i < nbaseline ? STR_LIT("baseline") : STR_LIT("candidate");
    }
    if (compare_runs(&c, all, n, &o, e) != 0)
        return -1;
    for (size_t i = 0; i < nbaseline; i++)
        strs_push(&g->baseline, str_copy(&g->arena, baseline[i].run), &g->arena);
    g->v = arena_array(&g->arena, nrules * (ncandidates + 1), sizeof *g->v);
    for (size_t i = 0; i < nrules; i++) {
        const struct gate_rule *r = &rules[i];
        const struct compared_metric *m = metric_of(&c, r);
        int64_t asked = looks ? looks : r->over == GATE_SEEDS ? 1 : (int64_t)ncandidates;
        if (r->over == GATE_SEEDS) {
            struct str name = ncandidates == 1 ? candidate[0].run
                                               : str_printf(&g->arena, "%zu runs", ncandidates);
            check_seeds(new_check(g, r, m, asked, name), &c, m, &g->arena);
        }
        for (size_t k = 0; r->over == GATE_ITEMS && k < ncandidates; k++) {
            struct delta none = {0};
            check_items(new_check(g, r, m, asked, candidate[k].run), &c,
                        m ? &m->delta[nbaseline + k] : &none, &g->arena);
        }
    }
    for (size_t i = 0; i < g->n; i++) /* refusals live in the comparison */
        g->v[i].why = arena_strdup(&g->arena, g->v[i].why);
    compare_release(&c);
    return 0;
}

void gate_release(struct gate *g)
{
    arena_release(&g->arena);
    *g = (struct gate){0};
}
