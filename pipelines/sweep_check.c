/* sweep_check: what is wrong with a sweep before its first run, see sweep.h. A night of training that
 * ends in "has no such metric" is a night lost. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/comparable.h"
#include "pipelines/starts.h"
#include "pipelines/sweep.h"
#include "scoring/scorer.h"

/* Whether one of the run's scorers makes this metric. */
static bool scored(const struct run *r, struct str metric)
{
    for (size_t i = 0; i < r->score.scorers.n; i++) {
        struct err ignored;
        const struct scorer *s = scorer_find(r->score.scorers.v[i], &ignored);
        if (s && str_eqz(metric, s->metric))
            return true;
    }
    return false;
}

/* What the run lacks to have this metric; NULL: nothing. */
static const char *lacks(const struct run *r, struct str metric)
{
    const struct eval_config *v = &r->eval;
    if (str_eqz(metric, "nll_token"))
        return v->windows || v->documents ? NULL : "eval.windows and eval.documents are off";
    if (str_eqz(metric, "bits_byte"))
        return v->documents ? NULL : "eval.documents is off";
    if (str_eqz(metric, "excess_bits_byte"))
        return !v->documents                 ? "eval.documents is off"
               : r->data.kind != DATA_CORPUS ? "only the known corpus has an oracle"
                                             : NULL;
    if (str_eqz(metric, "judge_joint"))
        return "it is a panel's, of many runs together (docs/judge.md)";
    if (str_starts(metric, "judge_"))
        return r->judge.judge.n ? NULL : "no judge is set (JUDGE=spec)";
    if (str_eqz(metric, "acc_exact") || str_eqz(metric, "f1_overlap") ||
        str_starts(metric, "ifeval_"))
        return !v->instruct || str_eqz(r->data.instruct, "none")
                   ? "eval.instruct is off, or data.instruct is none"
               : scored(r, metric) ? NULL
                                   : "no scorer of score.scorers makes it";
    return v->tasks.n ? NULL : "eval.tasks names no choice task";
}

static int check_metric(const struct sweep *s, struct err *e)
{
    struct buf names = {0};
    bool known = false;
    for (const struct comparable *c = comparables; c->metric; c++) {
        known = known || str_eqz(s->c.metric, c->metric);
        bool again = c != comparables && strcmp(c[-1].metric, c->metric) == 0;
        if (!again)
            buf_printf(&names, "%s%s", names.n ? ", " : "", c->metric);
    }
    int rc = 0;
    if (!known)
        rc = err_code(e, EXIT_USAGE, "sweep.metric: no metric is called \"%.*s\"; there are %s",
                      STR_ARG(s->c.metric), names.p);
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        const char *why = lacks(&s->v[i].run, s->c.metric);
        if (why)
            rc = err_code(e, EXIT_USAGE, "sweep.metric: the runs will have no %.*s (%s): %s",
                          STR_ARG(s->c.metric), s->v[i].name, why);
    }
    buf_release(&names);
    return rc;
}

int sweep_check(const struct sweep *s, double price_hour, bool will_run, struct err *e)
{
    size_t left = 0, placed = 0;
    if (check_metric(s, e) != 0)
        return err_wrap(e, "sweep %s", s->name);
    for (size_t i = 0; i < s->n; i++) {
        bool has = false;
        for (size_t k = 0; s->fit && k < s->v[i].set.n; k++) {
            struct str value = s->v[i].set.v[k];
            has = has || str_eqz(str_cut(&value, '='), s->fit);
        }
        placed += has;
        left += !s->v[i].done;
    }
    if (s->fit && !placed)
        return err_code(e, EXIT_USAGE, "sweep %s: sweep.fit: no cell sets %s", s->name, s->fit);
    if (s->c.max_money > 0 && left && will_run && isnan(price_hour))
        return err_code(e, EXIT_USAGE,
                        "sweep %s: sweep.max_money is set, but no price is known: say "
                        "HARDWARE=name, a file of pipelines/hardware with a price_hour",
                        s->name);
    return 0;
}

int sweep_starts(const struct sweep *s, const char *runs, struct err *e)
{
    const struct cell *last = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const struct cell *c = &s->v[i];
        struct arena a = {0};
        bool trained = file_exists(
            path_join(&a, runs, arena_printf(&a, "%s/pretrain/manifest.json", c->name)));
        arena_release(&a);
        if (c->done || trained || (last && starts_alike(&last->run, &c->run)))
            continue;
        if (starts_here(&c->run, NULL, e))
            return err_wrap(e, "cell %s", c->name);
        last = c;
    }
    return 0;
}
