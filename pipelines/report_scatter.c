/* report_scatter: batch size or cost against the first primary metric, one point a run. Costs and the
 * curve are those of `assay cost` (money.h).
 *
 * Up to eight runs have a marker and a name each. More have markers of what they are instead: on the
 * curve or not, on the cost front or not; the table beside the chart names them.
 */
#include <math.h>

#include "pipelines/money.h"
#include "pipelines/report_charts.h"
#include "pipelines/runs_table.h"

enum { NAMED = 8, CURVE_POINTS = 41 };

struct scatter {
    const struct comparison *c;
    const struct compared_metric *k;
    bool cost;
    double *x, *y; /* of each run; NaN: not drawn */
    bool *chosen;  /* on the curve, on the front */
    size_t n;      /* drawn */
    struct fit fit;
    bool fitted;
    struct arena *a;
};

static double cost_of(const struct result *r)
{
    struct bill b;
    money_bill(&b, r, NULL, 0);
    return money_dear(&b);
}

/* Which runs are drawn where, and which stand out. */
static void place(struct scatter *s, bool higher)
{
    size_t n = s->c->nruns, recipe;
    double *bad = arena_array(s->a, n, 8);
    size_t *of = arena_array(s->a, n + 1, sizeof *of);
    for (size_t r = 0; r < n; r++) {
        const struct delta *d = &s->k->delta[r];
        const struct result *v = &s->c->run[r];
        bool usable = d->m && (!d->refused || d->allowed);
        s->x[r] = s->cost ? cost_of(v) : (double)v->config.train.batch;
        s->y[r] = usable && s->x[r] > 0 ? d->m->value : NAN;
        bad[r] = higher ? -s->y[r] : s->y[r];
        s->n += !isnan(s->y[r]);
    }
    if (s->cost) {
        money_front(s->x, bad, n, s->chosen);
        return;
    }
    s->fitted = money_batch_fit(s->c->run, s->y, n, higher, &s->fit, of, &recipe);
    for (size_t r = 0; r < n; r++)
        s->chosen[r] = s->fitted && of[r] == recipe && s->c->run[r].tokens > 0;
}

/* One series a run, with its interval and name. */
static size_t each_run(const struct scatter *s, struct chart_series *to)
{
    size_t n = 0;
    for (size_t r = 0; r < s->c->nruns; r++) {
        const struct metric *m = s->k->delta[r].m;
        if (isnan(s->y[r]))
            continue;
        double *v = arena_array(s->a, 2, 8);
        const char **label = arena_array(s->a, 1, sizeof *label);
        v[0] = m->lo;
        v[1] = m->hi;
        label[0] = show_str(s->a, s->c->run[r].run);
        to[n] = (struct chart_series){.name = label[0],
                                      .x = &s->x[r],
                                      .y = &s->y[r],
                                      .lo = v,
                                      .hi = v + 1,
                                      .n = 1,
                                      .label = label,
                                      .points = true,
                                      .style = (int)(s->c->nruns > NAMED ? n : r)};
        n++;
    }
    return n;
}

/* Two series: those that stand out and the others, without intervals, which would hide the points. */
static size_t two_kinds(const struct scatter *s, struct chart_series *to)
{
    size_t n = 0;
    for (int kind = 1; kind >= 0; kind--) {
        double *x = arena_array(s->a, s->c->nruns, 8), *y = arena_array(s->a, s->c->nruns, 8);
        size_t m = 0;
        for (size_t r = 0; r < s->c->nruns; r++)
            if (!isnan(s->y[r]) && s->chosen[r] == (kind == 1)) {
                x[m] = s->x[r];
                y[m++] = s->y[r];
            }
        const char *name = s->cost     ? kind ? "on the cost front" : "dearer and no better"
                           : kind      ? "alike but for the batch"
                           : s->fitted ? "differ in other options"
                                       : "runs";
        if (m)
            to[n++] = (struct chart_series){
                .name = name, .x = x, .y = y, .n = m, .points = true, .style = kind ? 0 : 4};
    }
    return n;
}

static size_t curve(const struct scatter *s, struct chart_series *to)
{
    double *x = arena_array(s->a, CURVE_POINTS, 8), *y = arena_array(s->a, CURVE_POINTS, 8);
    double ratio = s->fit.x_max / s->fit.x_min;
    if (isnan(s->fit.b[0]))
        return 0;
    for (int i = 0; i < CURVE_POINTS; i++) {
        x[i] = s->fit.x_min * pow(ratio, (double)i / (CURVE_POINTS - 1));
        y[i] = fit_at(&s->fit, x[i]);
    }
    *to = (struct chart_series){
        .name = "parabola", .x = x, .y = y, .n = CURVE_POINTS, .line = true, .style = 3};
    return 1;
}

static void table(struct report_chart *o, const struct scatter *s, const char *x, const char *unit)
{
    struct arena *a = s->a;
    const char **cell = arena_array(a, 5 * (s->c->nruns + 1), sizeof *cell);
    const char *const head[] = {"run", x, unit, "95% interval",
                                s->cost ? "cost front" : "on the curve"};
    o->table = (struct chart_table){cell, 5, 1};
    for (int i = 0; i < 5; i++)
        cell[i] = head[i];
    for (size_t r = 0; r < s->c->nruns; r++) {
        const struct metric *m = s->k->delta[r].m;
        const char **row = cell + 5 * o->table.rows;
        if (isnan(s->y[r]))
            continue;
        o->table.rows++;
        double w = m->hi - m->lo;
        row[0] = show_str(a, s->c->run[r].run);
        row[1] = s->cost ? arena_printf(a, "%.2f", s->x[r]) : arena_printf(a, "%.0f", s->x[r]);
        row[2] = report_number(a, m->value, w);
        row[3] = isnan(w) ? "not estimable"
                          : arena_printf(a, "[%s, %s]", report_number(a, m->lo, w),
                                         report_number(a, m->hi, w));
        row[4] = s->chosen[r] ? s->cost ? "on it" : "yes" : "";
    }
}

void report_scatter(struct report_chart *o, const struct comparison *c, bool cost, struct arena *a)
{
    const struct compared_metric *k = report_headline(c);
    if (!k) {
        o->why = "no primary metric";
        return;
    }
    const struct metric *any = report_any(k, c->nruns);
    struct str currency = c->run[c->baseline].hardware.price_currency;
    const char *x = cost ? arena_printf(a, "cost with evaluation%s%.*s", currency.n ? ", " : "",
                                        STR_ARG(currency))
                         : "batch size, sequences";
    const char *name = show_str(a, k->name), *unit = show_str(a, any->unit);
    struct scatter s = {.c = c, .k = k, .cost = cost, .a = a};
    s.x = arena_array(a, c->nruns, 8);
    s.y = arena_array(a, c->nruns, 8);
    s.chosen = arena_array(a, c->nruns, sizeof *s.chosen);
    place(&s, any->higher_better);
    o->chart =
        report_blank(arena_printf(a, "%s against %s", cost ? "Cost" : "Batch size", name), x, unit);
    o->chart.x_scale = cost ? CHART_LINEAR : CHART_LOG;
    struct chart_series *to = arena_array(a, c->nruns + 2, sizeof *to);
    size_t line = s.fitted ? curve(&s, to) : 0; /* below the points */
    o->chart.n = line + (s.n > NAMED ? two_kinds(&s, to + line) : each_run(&s, to + line));
    o->chart.series = to;
    table(o, &s, x, unit);
    o->chart.desc = arena_printf(
        a, "%zu runs, one point each%s; %s is better.%s%s%s", s.n,
        s.n > NAMED ? ", named in the table below" : " with the interval of its items",
        any->higher_better ? "higher" : "lower",
        s.fitted ? arena_printf(a, " A parabola over %zu runs alike but for the batch: ", s.fit.n)
                 : "",
        s.fitted ? fit_words(&s.fit, a) : "", s.fitted ? "." : "");
    bool one = true;
    double first = NAN;
    for (size_t r = 0; r < c->nruns; r++) {
        first = isnan(first) && !isnan(s.y[r]) ? s.x[r] : first;
        one = one && (isnan(s.y[r]) || s.x[r] == first);
    }
    if (!s.n)
        o->why = cost ? "no run has a cost" : "no run has a batch size";
    else if (one && !cost)
        o->why = "all runs have the same batch size";
}
