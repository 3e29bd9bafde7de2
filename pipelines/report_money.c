/* report_money: the table of speed and money, by the formulas of pipelines/money.h. */
#include <math.h>
#include <string.h>

#include "pipelines/money.h"
#include "pipelines/report.h"
#include "pipelines/report_charts.h"
#include "pipelines/runs_table.h"

static const char *percent(struct arena *a, double v)
{
    return isnan(v) ? "-" : arena_printf(a, "%.1f%%", 100 * v);
}

static const char *money(struct arena *a, double v)
{
    return isnan(v) ? "-" : arena_printf(a, "%.2f", v);
}

static const char *rate(struct arena *a, const struct bill *b)
{
    if (isnan(b->rate_lo) || isnan(b->rate_hi))
        return show_count(a, b->rate);
    return arena_printf(a, "%s (%s to %s)", show_count(a, b->rate), show_count(a, b->rate_lo),
                        show_count(a, b->rate_hi));
}

/* Whose cost nobody beats at as good a value of the headline metric. */
static void front_of(const struct comparison *c, const struct bill *b, bool *front, struct arena *a)
{
    const struct compared_metric *k = report_headline(c);
    double *cost = arena_array(a, c->nruns, 8), *loss = arena_array(a, c->nruns, 8);
    for (size_t r = 0; r < c->nruns; r++) {
        const struct delta *d = k ? &k->delta[r] : NULL;
        bool usable = d && d->m && (!d->refused || d->allowed);
        cost[r] = money_dear(&b[r]);
        loss[r] = usable ? (d->m->higher_better ? -1 : 1) * d->m->value : NAN;
    }
    money_front(cost, loss, c->nruns, front);
}

void report_money(const struct comparison *c, struct buf *out)
{
    static const char *const head[] = {"run",
                                       "tokens/s (10% to 90% step)",
                                       "MFU",
                                       "waiting for data",
                                       "joules a token",
                                       "training",
                                       "validation",
                                       "evaluation",
                                       "cost, training",
                                       "without validation",
                                       "with evaluation",
                                       "billed",
                                       "a 1e9 tokens",
                                       "currency",
                                       "cost front"};
    enum { COLUMNS = sizeof head / sizeof head[0] };
    struct arena arena = {0}, *a = &arena;
    struct bill *b = arena_array(a, c->nruns, sizeof *b);
    bool *front = arena_array(a, c->nruns, sizeof *front);
    const char **cell = arena_array(a, COLUMNS * (c->nruns + 1), sizeof *cell);
    memcpy(cell, head, sizeof head);
    for (size_t r = 0; r < c->nruns; r++)
        money_bill(&b[r], &c->run[r], NULL, 0);
    front_of(c, b, front, a);
    for (size_t r = 0; r < c->nruns; r++) {
        const struct bill *v = &b[r];
        const char **x = cell + COLUMNS * (r + 1);
        x[0] = show_str(a, c->run[r].run);
        x[1] = rate(a, v);
        x[2] = percent(a, v->mfu);
        x[3] = percent(a, v->stall);
        x[4] = isnan(v->joules_token) ? "-" : arena_printf(a, "%.3g", v->joules_token);
        x[5] = show_seconds(a, v->seconds);
        x[6] = show_seconds(a, v->val_seconds);
        x[7] = show_seconds(a, v->eval_seconds);
        x[8] = money(a, v->train);
        x[9] = money(a, v->without_val);
        x[10] = money(a, v->total);
        x[11] = money(a, v->billed);
        x[12] = money(a, v->gtoken);
        x[13] = v->mixed ? "several" : show_str(a, v->currency);
        x[14] = front[r] ? "on it" : "";
    }
    html_table(out,
               "Speed and money; on the front stands who is beaten by nobody in both cost and the "
               "first primary metric",
               cell, c->nruns + 1, COLUMNS, "lrrrrrrrrrrrr");
    arena_release(a);
}
