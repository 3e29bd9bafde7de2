/* compare: all runs against the baseline, see compare.h. Pairs are in compare_pair.c, groups of runs
 * in compare_recipe.c. */
#include "pipelines/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/comparable.h"
#include "pipelines/compare_private.h"

const char *const verdict_names[] = {"",  "better", "worse", "no difference seen", "not estimable",
                                     NULL};

static const struct metric *find_metric(const struct result *r, struct str name, struct str task)
{
    const struct metric *m = r->metrics.v;
    for (size_t i = 0; i < r->metrics.n; i++)
        if (str_eq(m[i].name, name) && str_eq(m[i].task, task))
            return &m[i];
    return NULL;
}

/* ---- verdicts --------------------------------------------------------------------------------- */

/* Nats a token, bits a byte and bits above the oracle of the same items are one measurement in three
 * units: the one that stands here counts, the others are exploratory. NULL: m counts itself. */
const char *compare_counted_as(const struct result *r, const struct metric *m)
{
    static const char *const units[] = {"bits_byte", "nll_token", "excess_bits_byte", NULL};
    size_t own = 0;
    while (units[own] && !str_eqz(m->name, units[own]))
        own++;
    for (size_t k = 0; units[own] && k < own; k++) {
        const struct metric *x = find_metric(r, str_z(units[k]), m->task);
        if (x && x->primary)
            return units[k];
    }
    return NULL;
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
            d->same_as = compare_counted_as(&c->run[r], d->m);
            if (d->m->primary && !d->same_as) { /* declared: it counts, estimable or not */
                who[n] = d;
                p[n++] = d->est.why ? NAN : d->est.p;
            } else {
                d->verdict = compare_verdict(&d->est, d->est.p, level, d->m->higher_better);
            }
        }
    stats_holm(p, n);
    for (size_t i = 0; i < n; i++) {
        who[i]->p_holm = p[i];
        who[i]->verdict = compare_verdict(&who[i]->est, p[i], level, who[i]->m->higher_better);
    }
}

bool compare_exploratory(const struct comparison *c, const struct compared_metric *k)
{
    const struct metric *m = k->delta[c->baseline].m;
    for (size_t r = 0; r < c->nruns && !m; r++)
        m = k->delta[r].m;
    return m && (!m->primary || compare_counted_as(&c->run[c->baseline], m));
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
        d->again = compare_same_draw(&c->run[r], d->m, &c->run[c->baseline], base);
        const char *identity = comparable_refusal(d->m, base, &c->arena);
        if (!identity || o->allow)
            compare_pair(d, o->level, &c->arena);
        if (d->refused) { /* units can't be paired: nothing to allow */
            c->refused++;
            continue;
        }
        d->refused = identity;
        d->allowed = identity != NULL && o->allow;
        *(d->refused && !d->allowed ? &c->refused : &c->compared) += 1;
    }
}

static double sum_of(struct f64s v)
{
    double sum = 0;
    for (size_t i = 0; i < v.n; i++)
        sum += v.v[i];
    return sum;
}

/* The floor that stands beside bits_byte: what text and end cost the oracle, which knows them together.
 * A run's distance from it counts the end too. */
static void set_floor(struct comparison *c, struct compared_metric *m, const struct metric *bits,
                      const struct metric *excess)
{
    const struct metric *end = find_metric(&c->run[c->baseline], STR_LIT("bits_end"), m->task);
    m->floor = bits->value - excess->value;
    if (end && end->num.n && bits->den.n)
        m->floor += sum_of(end->num) / sum_of(bits->den);
    for (size_t r = 0; r < c->nruns; r++) {
        const struct metric *x = find_metric(&c->run[r], STR_LIT("excess_bits_byte"), m->task);
        m->delta[r].above = x ? x->value / m->floor : NAN;
    }
}

static void find_floor(struct comparison *c)
{
    for (size_t k = 0; k < c->nmetrics; k++) {
        struct compared_metric *m = &c->metric[k];
        const struct metric *bits = m->delta[c->baseline].m;
        const struct metric *excess =
            find_metric(&c->run[c->baseline], STR_LIT("excess_bits_byte"), m->task);
        if (str_eqz(m->name, "bits_byte") && bits && excess)
            set_floor(c, m, bits, excess);
    }
}

/* "a, b, c" of the runs' names or groups, each once; a long list ends in "...". */
static const char *names_of(struct comparison *c, bool groups)
{
    enum { MOST = 12 };
    struct buf b = {0};
    size_t told = 0;
    for (size_t i = 0; i < c->nruns; i++) {
        bool before = false;
        for (size_t k = 0; groups && k < i; k++)
            before = before || str_eq(c->run[k].group, c->run[i].group);
        if (before)
            continue;
        if (told++ == MOST) {
            buf_addz(&b, ", ...");
            break;
        }
        struct str s = groups ? c->run[i].group : c->run[i].run;
        buf_printf(&b, "%s%.*s", b.n ? ", " : "", STR_ARG(s));
    }
    const char *s = arena_strdup(&c->arena, b.n ? b.p : "none");
    buf_release(&b);
    return s;
}

int compare_runs(struct comparison *c, const struct result *runs, size_t n,
                 const struct compare_options *o, struct err *e)
{
    *c = (struct comparison){.run = runs, .nruns = n, .o = *o};
    if (n == 0)
        return err_code(e, EXIT_USAGE, "no results were given");
    while (!o->first && c->baseline < n && runs[c->baseline].metrics.n == 0)
        c->baseline++; /* the first that was measured */
    if (c->baseline == n)
        c->baseline = 0;
    if (o->baseline) {
        c->baseline = 0;
        while (c->baseline < n && !str_eqz(runs[c->baseline].run, o->baseline))
            c->baseline++;
        if (c->baseline == n)
            return err_code(e, EXIT_USAGE, "the baseline %s is not among the runs; there are: %s",
                            o->baseline, names_of(c, false));
    }
    bool lender = !o->seed_sd;
    for (size_t i = 0; i < n && !lender; i++)
        lender = str_eqz(runs[i].group, o->seed_sd);
    if (!lender)
        return err_code(e, EXIT_USAGE,
                        "no run is of the group %s, whose seed sd is wanted; there are: %s",
                        o->seed_sd, names_of(c, true));
    collect_metrics(c);
    for (size_t k = 0; k < c->nmetrics; k++)
        compare_metric(c, &c->metric[k], o);
    find_floor(c);
    judge_checkpoints(c, o->level);
    compare_recipes(c, o);
    return 0;
}

void compare_release(struct comparison *c)
{
    arena_release(&c->arena);
    *c = (struct comparison){0};
}
