/* report_text: what a comparison allows to be said, in sentences. Recipes come first: which of two
 * checkpoints is better on these items is a smaller question than which recipe is. */
#include <math.h>
#include <string.h>

#include "pipelines/report.h"
#include "pipelines/report_charts.h"
#include "pipelines/runs_table.h"

struct teller {
    const struct comparison *c;
    struct findings *f;
    struct arena *a;
    size_t only; /* the run that is spoken of; SIZE_MAX: all */
};

static bool spoken_of(const struct teller *t, size_t run)
{
    return t->only == SIZE_MAX || t->only == run;
}

static bool group_spoken_of(const struct teller *t, struct str group)
{
    return t->only == SIZE_MAX || str_eq(t->c->run[t->only].group, group);
}

static void say(struct strs *to, struct arena *a, const char *sentence)
{
    strs_push(to, str_z(sentence), a);
}

static const char *metric_name(const struct teller *t, const struct compared_metric *k)
{
    return arena_printf(t->a, "%.*s (%.*s)", STR_ARG(k->name), STR_ARG(k->task));
}

static const char *difference(const struct teller *t, const struct estimate *x,
                              const struct metric *m)
{
    double w = x->hi - x->lo;
    return arena_printf(t->a, "%s%s %.*s, 95%% interval %s to %s", x->value > 0 ? "+" : "",
                        report_number(t->a, x->value, w), STR_ARG(m->unit),
                        report_number(t->a, x->lo, w), report_number(t->a, x->hi, w));
}

/* Recipes of which nothing can be told, those with one reason in one sentence. */
static void tell_unknown(const struct teller *t, const struct compared_metric *k,
                         const struct recipe *x, const char *name, const char *shown)
{
    struct buf who = {0};
    const char *why = x->why ? x->why : "unknown";
    size_t n = 0;
    for (size_t i = 0; i < k->nrecipes; i++) {
        const struct recipe *y = &k->recipe[i];
        if (y->same || !group_spoken_of(t, y->group) || y->verdict != VERDICT_NOT_ESTIMABLE ||
            !y->why || strcmp(y->why, why) != 0)
            continue;
        if (n == 0 && y != x)
            goto out; /* told with the first of them */
        buf_printf(&who, "%s%.*s", n++ ? ", " : "", STR_ARG(y->group));
    }
    say(&t->f->cannot, t->a,
        arena_printf(t->a, "Whether %s %s than %.*s on %s cannot be told: %s.%s%s", who.p,
                     n > 1 ? "are better recipes" : "is a better recipe",
                     STR_ARG(t->c->run[t->c->baseline].group), name, why,
                     n == 1 && x->needed > 0
                         ? arena_printf(t->a, " About %lld seeds an arm would settle it.",
                                        (long long)x->needed)
                         : "",
                     n == 1 ? shown : ""));
out:
    buf_release(&who);
}

static void tell_recipe(const struct teller *t, const struct compared_metric *k,
                        const struct recipe *x, const struct metric *m)
{
    struct str base = t->c->run[t->c->baseline].group;
    const char *name = metric_name(t, k), *shown = "", *of = compare_sd_source(x, base, t->a);
    if (x->same || !group_spoken_of(t, x->group))
        return;
    if (*of)
        of = arena_printf(t->a, " (seed sd %s)", of);
    if (!isnan(x->mde))
        shown = arena_printf(t->a, " These seeds show a difference of %s with 80%% power.",
                             report_number(t->a, x->mde, x->mde));
    switch (x->verdict) {
    case VERDICT_BETTER:
    case VERDICT_WORSE:
        say(&t->f->can, t->a,
            arena_printf(t->a,
                         "The recipe %.*s is %s than %.*s on %s: %s, from %lld against %lld "
                         "seeds%s.",
                         STR_ARG(x->group), x->verdict == VERDICT_BETTER ? "better" : "worse",
                         STR_ARG(base), name, difference(t, &x->est, m), (long long)x->seeds,
                         (long long)x->base_seeds, of));
        break;
    case VERDICT_NOT_SEEN:
        say(&t->f->cannot, t->a,
            arena_printf(t->a,
                         "Between the recipes %.*s and %.*s no difference is seen on %s: %s, from "
                         "%lld against %lld seeds%s.%s That is not a proof that they are equal.",
                         STR_ARG(x->group), STR_ARG(base), name, difference(t, &x->est, m),
                         (long long)x->seeds, (long long)x->base_seeds, of, shown));
        break;
    default:
        tell_unknown(t, k, x, name, shown);
    }
}

/* Names of the runs with this verdict, or NULL. */
static const char *runs_with(const struct teller *t, const struct compared_metric *k,
                             enum verdict v)
{
    struct buf b = {0};
    for (size_t r = 0; r < t->c->nruns; r++) {
        const struct delta *d = &k->delta[r];
        if (!spoken_of(t, r) || r == t->c->baseline || !d->m || !d->base ||
            (d->refused && !d->allowed) || d->verdict != v)
            continue;
        buf_printf(&b, "%s%.*s", b.n ? ", " : "", STR_ARG(t->c->run[r].run));
        if (v == VERDICT_BETTER || v == VERDICT_WORSE)
            buf_printf(&b, " (%s%s)", d->est.value > 0 ? "+" : "",
                       report_number(t->a, d->est.value, d->est.hi - d->est.lo));
    }
    const char *s = b.n ? arena_strdup(t->a, b.p) : NULL;
    buf_release(&b);
    return s;
}

static void tell_checkpoints(const struct teller *t, const struct compared_metric *k)
{
    static const char *const words[] = {NULL, "better", "worse"};
    const char *name = metric_name(t, k), *base = show_str(t->a, t->c->run[t->c->baseline].run);
    for (int v = VERDICT_BETTER; v <= VERDICT_WORSE; v++) {
        const char *runs = runs_with(t, k, (enum verdict)v);
        if (runs)
            say(&t->f->can, t->a,
                arena_printf(t->a,
                             "These checkpoints are %s than that of %s on the items of %s: %s. "
                             "Another seed may turn it round.",
                             words[v], base, name, runs));
    }
    const char *same = runs_with(t, k, VERDICT_NOT_SEEN),
               *none = runs_with(t, k, VERDICT_NOT_ESTIMABLE);
    if (same)
        say(&t->f->cannot, t->a,
            arena_printf(t->a, "No difference from the checkpoint of %s is seen on %s: %s.", base,
                         name, same));
    if (none)
        say(&t->f->cannot, t->a,
            arena_printf(t->a, "Differences from the checkpoint of %s on %s are not estimable: %s.",
                         base, name, none));
    for (size_t r = 0; r < t->c->nruns; r++) {
        const struct delta *d = &k->delta[r];
        if (d->refused && spoken_of(t, r))
            say(&t->f->cannot, t->a,
                arena_printf(t->a, "%.*s is not compared with %s on %s: %s%s.",
                             STR_ARG(t->c->run[r].run), base, name, d->refused,
                             d->allowed ? ", shown all the same" : ""));
    }
}

void report_findings(const struct comparison *c, size_t only, struct findings *f, struct arena *a)
{
    struct teller t = {c, f, a, only};
    *f = (struct findings){0};
    for (size_t k = 0; k < c->nmetrics; k++) {
        const struct metric *m = report_any(&c->metric[k], c->nruns);
        for (size_t i = 0; m->primary && i < c->metric[k].nrecipes; i++)
            tell_recipe(&t, &c->metric[k], &c->metric[k].recipe[i], m);
    }
    for (size_t k = 0; k < c->nmetrics; k++)
        if (report_any(&c->metric[k], c->nruns)->primary)
            tell_checkpoints(&t, &c->metric[k]);
    for (size_t r = 0; r < c->nruns; r++) {
        const struct result *x = &c->run[r];
        if (!spoken_of(&t, r))
            continue;
        if (x->status.n && !str_eqz(x->status, "finished"))
            say(&f->cannot, a,
                arena_printf(a, "%.*s did not finish: %.*s.", STR_ARG(x->run), STR_ARG(x->status)));
        else if (x->metrics.n == 0)
            say(&f->cannot, a, arena_printf(a, "%.*s has no evaluation.", STR_ARG(x->run)));
    }
    if (only == c->baseline && c->nruns > 1)
        say(&f->cannot, a, "It is the baseline: the others are compared with it.");
    if (c->nruns == 1)
        say(&f->cannot, a, "One run alone: there is nothing to compare it with.");
}
