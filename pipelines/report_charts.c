/* report_charts: see report_charts.h. */
#include "pipelines/report_charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "pipelines/money.h"
#include "pipelines/runs_table.h"

enum { LINE_POINTS = 160, RAW_POINTS = 120, ITEM_POINTS = 150 };

const char *report_number(struct arena *a, double v, double width)
{
    if (isnan(v))
        return "-";
    int digits = width > 0 ? (int)ceil(-log10(width / 2)) + 1 : 4;
    return arena_printf(a, "%.*f", digits < 0 ? 0 : digits > 9 ? 9 : digits, v);
}

const struct metric *report_any(const struct compared_metric *k, size_t nruns)
{
    for (size_t r = 0; r < nruns; r++)
        if (k->delta[r].m)
            return k->delta[r].m;
    return NULL;
}

const struct compared_metric *report_headline(const struct comparison *c)
{
    for (size_t k = 0; k < c->nmetrics; k++)
        if (report_any(&c->metric[k], c->nruns)->primary)
            return &c->metric[k];
    return NULL;
}

struct chart report_blank(const char *title, const char *x, const char *y)
{
    return (struct chart){.title = title,
                          .desc = "",
                          .x_label = x,
                          .y_label = y,
                          .y_min = NAN,
                          .y_max = NAN,
                          .y_line = NAN};
}

/* ---- training loss ------------------------------------------------------------------------------ */

enum loss_x { BY_TOKENS, BY_TIME, BY_MONEY };

static double x_of(const struct result *r, enum loss_x by, size_t i)
{
    const struct result_curve *v = &r->curve;
    if (by == BY_TOKENS)
        return i < v->tokens.n ? (double)v->tokens.v[i] : NAN;
    double s = i < v->seconds.n ? v->seconds.v[i] : NAN;
    if (by == BY_TIME)
        return s / 3600;
    struct bill b;
    money_bill(&b, r, NULL, 0);
    return s * b.a_second;
}

/* Mean over the points within `half` of i, without those that are not finite. */
static double smooth(const double *v, size_t n, size_t i, size_t half)
{
    double sum = 0;
    size_t m = 0, from = i > half ? i - half : 0, to = i + half + 1 < n ? i + half + 1 : n;
    for (size_t k = from; k < to; k++)
        if (isfinite(v[k])) {
            sum += v[k];
            m++;
        }
    return m ? sum / (double)m : NAN;
}

static bool loss_series(struct chart_series *s, const struct result *r, enum loss_x by,
                        struct arena *a)
{
    size_t n = r->curve.loss.n;
    if (n < 2 || isnan(x_of(r, by, n - 1)))
        return false;
    size_t m = n < LINE_POINTS ? n : LINE_POINTS, raw = n < RAW_POINTS ? n : RAW_POINTS;
    double *x = arena_array(a, m, 8), *y = arena_array(a, m, 8), *rx = arena_array(a, raw, 8),
           *ry = arena_array(a, raw, 8);
    for (size_t i = 0; i < m; i++) {
        size_t at = i * (n - 1) / (m - 1);
        x[i] = x_of(r, by, at);
        y[i] = smooth(r->curve.loss.v, n, at, n / 50);
    }
    for (size_t i = 0; i < raw; i++) {
        size_t at = i * (n - 1) / (raw - 1);
        rx[i] = x_of(r, by, at);
        ry[i] = r->curve.loss.v[at];
    }
    *s = (struct chart_series){.name = show_str(a, r->run), .x = x, .y = y, .n = m, .line = true};
    s->raw_x = rx;
    s->raw_y = ry;
    s->nraw = raw;
    return true;
}

/* The first steps' fall is as high as all the rest is flat: what lies above the smoothed loss at an
 * eighth of the way is cut off. */
static void cut_start(struct chart *c)
{
    double top = NAN, bottom = NAN;
    for (size_t s = 0; s < c->n; s++) {
        const struct chart_series *v = &c->series[s];
        for (size_t i = v->n / 8; i < v->n; i++) {
            top = fmax(top, v->y[i]);
            bottom = fmin(bottom, v->y[i]);
        }
    }
    if (top > bottom) {
        c->y_max = top + 0.08 * (top - bottom);
        c->y_min = bottom - 0.1 * (top - bottom);
    }
}

static const char *x_text(double x, enum loss_x by, struct arena *a)
{
    return by == BY_TOKENS ? show_count(a, x)
           : by == BY_TIME ? show_seconds(a, x * 3600)
                           : arena_printf(a, "%.2f", x);
}

static void loss_chart(struct report_chart *o, const struct comparison *c, enum loss_x by,
                       struct arena *a)
{
    static const char *const title[] = {"Training loss over tokens", "Training loss over time",
                                        "Training loss over money"};
    struct str currency = c->run[c->baseline].hardware.price_currency;
    const char *x = by == BY_TOKENS ? "tokens"
                    : by == BY_TIME ? "hours of training"
                                    : arena_printf(a, "cost of training%s%.*s",
                                                   currency.n ? ", " : "", STR_ARG(currency));
    struct chart_series *s = arena_array(a, c->nruns, sizeof *s);
    const char **cell = arena_array(a, 4 * (c->nruns + 1), sizeof *cell);
    o->chart = report_blank(title[by], x, "nats a token");
    o->table = (struct chart_table){cell, 4, 1};
    cell[0] = "run";
    cell[1] = arena_printf(a, "%s, end", x);
    cell[2] = "loss, smoothed, half way";
    cell[3] = "loss, smoothed, end";
    for (size_t r = 0; r < c->nruns; r++) {
        struct chart_series *v = &s[o->chart.n];
        if (!loss_series(v, &c->run[r], by, a))
            continue;
        v->style = (int)r;
        o->chart.n++;
        const char **row = cell + 4 * o->table.rows++;
        row[0] = v->name;
        row[1] = x_text(v->x[v->n - 1], by, a);
        row[2] = report_number(a, v->y[v->n / 2], 0.01);
        row[3] = report_number(a, v->y[v->n - 1], 0.01);
    }
    o->chart.series = s;
    cut_start(&o->chart);
    o->chart.desc = arena_printf(a,
                                 "Smoothed loss of %zu runs as lines, single points faint behind "
                                 "them. The steep start is cut off above. The table below has the "
                                 "values.",
                                 o->chart.n);
    if (!o->chart.n)
        o->why = by == BY_MONEY ? "no run has a price and a curve" : "no run has a curve";
}

/* ---- one metric --------------------------------------------------------------------------------- */

static void values_chart(struct report_chart *o, const struct comparison *c,
                         const struct compared_metric *k, struct arena *a)
{
    const struct metric *any = report_any(k, c->nruns), *base = k->delta[c->baseline].m;
    size_t n = 0;
    double *x = arena_array(a, c->nruns, 8), *y = arena_array(a, c->nruns, 8),
           *lo = arena_array(a, c->nruns, 8), *hi = arena_array(a, c->nruns, 8);
    const char **label = arena_array(a, c->nruns, sizeof *label);
    for (size_t r = 0; r < c->nruns; r++) {
        const struct metric *m = k->delta[r].m;
        if (!m || isnan(m->value))
            continue;
        x[n] = m->value;
        y[n] = (double)n;
        lo[n] = m->lo;
        hi[n] = m->hi;
        label[n++] = show_str(a, c->run[r].run);
    }
    struct chart_series *s = arena_array(a, 1, sizeof *s);
    *s = (struct chart_series){.name = show_str(a, k->name),
                               .x = x,
                               .y = y,
                               .lo = lo,
                               .hi = hi,
                               .n = n,
                               .label = label,
                               .points = true};
    o->chart = report_blank(arena_printf(a, "%s, %s", show_str(a, k->name), show_str(a, k->task)),
                            show_str(a, any->unit), "");
    o->chart.series = s;
    o->chart.n = 1;
    o->chart.rows = true;
    o->chart.y_line = base ? base->value : NAN;
    o->chart.desc = arena_printf(a,
                                 "Value and 95%% interval of %zu runs; the dashed line is the "
                                 "baseline's value; %s is better. Intervals are of one run each: "
                                 "paired differences are narrower and stand in the table.",
                                 n, any->higher_better ? "higher" : "lower");
    o->why = n ? NULL : "no run has a value";
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void items_chart(struct report_chart *o, const struct comparison *c,
                        const struct compared_metric *k, size_t run, struct arena *a)
{
    const struct delta *d = &k->delta[run];
    if (!d->m || !d->base || (d->refused && !d->allowed) || !d->m->ids.n) {
        o->why = d->refused ? d->refused : "no per-item values on both sides";
        return;
    }
    struct map at = {0};
    size_t n = 0, m, worse = 0;
    double *v = arena_array(a, d->m->ids.n, 8);
    for (size_t i = 0; i < d->base->ids.n; i++)
        map_add(&at, d->base->ids.v[i], (int64_t)i, NULL);
    for (size_t i = 0; i < d->m->ids.n; i++) {
        ptrdiff_t j = map_find(&at, d->m->ids.v[i]);
        double x = j < 0 ? NAN : (d->m->num.v[i] - d->base->num.v[at.value[j]]) / d->m->den.v[i];
        if (isfinite(x))
            v[n++] = x;
    }
    map_release(&at);
    qsort(v, n, sizeof *v, by_size);
    for (size_t i = 0; i < n; i++)
        worse += d->m->higher_better ? v[i] < 0 : v[i] > 0;
    m = n < ITEM_POINTS ? n : ITEM_POINTS;
    double *x = arena_array(a, m + 1, 8), *y = arena_array(a, m + 1, 8);
    for (size_t i = 0; i < m; i++) {
        size_t from = m > 1 ? i * (n - 1) / (m - 1) : 0;
        x[i] = 100 * ((double)from + 0.5) / (double)n;
        y[i] = v[from];
    }
    struct chart_series *s = arena_array(a, 1, sizeof *s);
    *s = (struct chart_series){.name = show_str(a, c->run[run].run),
                               .x = x,
                               .y = y,
                               .n = m,
                               .line = true,
                               .style = (int)run};
    o->chart = report_blank(arena_printf(a, "%s: items of %s against %s", show_str(a, k->name),
                                         show_str(a, c->run[run].run),
                                         show_str(a, c->run[c->baseline].run)),
                            "share of items, %", show_str(a, d->m->unit));
    o->chart.series = s;
    o->chart.n = 1;
    o->chart.y_line = 0;
    o->chart.desc = arena_printf(a,
                                 "Differences of %zu items, sorted. %zu of them are worse than "
                                 "the baseline's, the median is %.4g.",
                                 n, worse, n ? v[n / 2] : NAN);
    o->why = n ? NULL : "no item has a value on both sides";
}

static const struct compared_metric *named_metric(const struct comparison *c, struct str *rest)
{
    struct str name = str_cut(rest, ':'), metric = str_cut(&name, '/');
    for (size_t k = 0; k < c->nmetrics; k++)
        if (str_eq(c->metric[k].name, metric) && (!name.n || str_eq(c->metric[k].task, name)))
            return &c->metric[k];
    return NULL;
}

int report_chart_make(struct report_chart *x, const struct comparison *c, const char *name,
                      struct arena *a, struct err *e)
{
    struct str rest = str_z(name), kind = str_cut(&rest, ':');
    *x = (struct report_chart){0};
    if (strcmp(name, "loss-tokens") == 0)
        loss_chart(x, c, BY_TOKENS, a);
    else if (strcmp(name, "loss-time") == 0)
        loss_chart(x, c, BY_TIME, a);
    else if (strcmp(name, "loss-money") == 0)
        loss_chart(x, c, BY_MONEY, a);
    else if (strcmp(name, "batch") == 0 || strcmp(name, "cost") == 0)
        report_scatter(x, c, *name == 'c', a);
    else if (str_eqz(kind, "values") || str_eqz(kind, "items")) {
        const struct compared_metric *k = named_metric(c, &rest);
        size_t run = 0;
        while (run < c->nruns && !str_eq(c->run[run].run, rest))
            run++;
        if (!k)
            return err_code(e, EXIT_USAGE, "chart %s: no run has this metric", name);
        if (str_eqz(kind, "values"))
            values_chart(x, c, k, a);
        else if (run == c->nruns)
            return err_code(e, EXIT_USAGE, "chart %s: no run \"%.*s\"", name, STR_ARG(rest));
        else
            items_chart(x, c, k, run, a);
    } else {
        return err_code(e, EXIT_USAGE,
                        "no chart \"%s\"; there are loss-tokens, loss-time, loss-money, batch, "
                        "cost, values:METRIC, items:METRIC:RUN",
                        name);
    }
    return 0;
}
