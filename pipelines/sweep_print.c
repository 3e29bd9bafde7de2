/* sweep_print: what a sweep says, for people. */
#include <math.h>
#include <string.h>

#include "pipelines/sweep.h"

static const char *num(struct arena *a, int digits, double v)
{
    return isnan(v) ? "-" : arena_printf(a, "%.*g", digits, v);
}

static void cells(const struct sweep *s, enum table_format f, struct buf *out, struct arena *a)
{
    struct table t = {0};
    const char *metric = str_dup(a, s->c.metric);
    table_begin(&t, 6, "lrrrrl");
    table_row(&t, (const char *const[]){"run", s->fit ? s->fit : "-", metric, "hours", "money",
                                        "remark"});
    for (size_t i = 0; i < s->n; i++) {
        const struct cell *c = &s->v[i];
        const char *row[] = {c->name,
                             num(a, 6, c->x),
                             num(a, 6, c->value),
                             num(a, 3, c->seconds / 3600),
                             num(a, 4, c->money),
                             !c->done              ? "not run"
                             : isnan(c->value)     ? "has no such metric"
                             : !isfinite(c->value) ? "diverged"
                                                   : ""};
        table_row(&t, row);
    }
    table_write(&t, f, "", out);
    table_release(&t);
}

static bool on_curve(const struct cell *c, const char *others)
{
    return c->done && isfinite(c->value) && strcmp(c->others, others) == 0;
}

/* Mean and spread at each x. */
static void means(const struct sweep *s, const char *others, const struct fit *fit,
                  enum table_format f, struct buf *out, struct arena *a)
{
    struct table t = {0};
    table_begin(&t, 5, "rrrrr");
    table_row(&t, (const char *const[]){s->fit, "runs", "mean", "seed sd", "curve"});
    double last = 0;
    for (;;) {
        double x = INFINITY, sum = 0, ss = 0, n = 0;
        for (size_t i = 0; i < s->n; i++)
            if (on_curve(&s->v[i], others) && s->v[i].x > last)
                x = fmin(x, s->v[i].x);
        if (isinf(x))
            break;
        last = x;
        for (size_t i = 0; i < s->n; i++)
            if (on_curve(&s->v[i], others) && s->v[i].x == x) {
                sum += s->v[i].value;
                n++;
            }
        for (size_t i = 0; i < s->n; i++)
            if (on_curve(&s->v[i], others) && s->v[i].x == x)
                ss += (s->v[i].value - sum / n) * (s->v[i].value - sum / n);
        const char *row[] = {num(a, 6, x), num(a, 6, n), num(a, 6, sum / n),
                             n > 1 ? num(a, 2, sqrt(ss / (n - 1))) : "not estimable",
                             num(a, 6, fit_at(fit, x))};
        table_row(&t, row);
    }
    if (t.rows > 1)
        table_write(&t, f, "", out);
    table_release(&t);
}

static void verdict(const struct sweep *s, const struct fit *f, struct buf *out, struct arena *a)
{
    buf_printf(out, "\n%s against %.*s, a parabola in its logarithm over %zu run%s at %zu value%s",
               s->fit, STR_ARG(s->c.metric), f->n, f->n == 1 ? "" : "s", f->values,
               f->values == 1 ? "" : "s");
    if (!isnan(f->sd))
        buf_printf(out, ", residual sd %.2g", f->sd);
    if (!isnan(f->seed_sd))
        buf_printf(out, " (of seeds alone %.2g, df %.0f)", f->seed_sd, f->seed_df);
    else if (f->n)
        buf_addz(out, " (seed sd not estimable: no cell has two seeds)");
    buf_printf(out, ":\n%s", fit_words(f, a));
    if (!isnan(f->at_best))
        buf_printf(out, "; the curve is %.6g at its optimum", f->at_best);
    buf_addc(out, '\n');
}

/* One curve for each setting of the options beside the fitted one. */
static void curves(const struct sweep *s, enum table_format f, struct buf *out, struct arena *a)
{
    size_t alone = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *others = s->v[i].others;
        size_t first = 0, values = 0;
        double last = NAN;
        struct fit fit;
        while (strcmp(s->v[first].others, others) != 0)
            first++;
        if (first != i)
            continue;
        for (size_t k = i; k < s->n; k++)
            if (s->v[k].x > 0 && s->v[k].x != last && strcmp(s->v[k].others, others) == 0) {
                last = s->v[k].x;
                values++;
            }
        if (values < 2) { /* a list may have cells that stand alone */
            alone++;
            continue;
        }
        buf_printf(out, "\n%s%s%s", *others ? "with " : "", others, *others ? "\n" : "");
        sweep_fit(s, others, &fit);
        means(s, others, &fit, f, out, a);
        verdict(s, &fit, out, a);
    }
    if (alone)
        buf_printf(out, "\n%zu setting%s with one value of %s: no curve\n", alone,
                   alone == 1 ? "" : "s", s->fit);
}

void sweep_print(const struct sweep *s, enum table_format f, struct buf *out)
{
    struct arena a = {0};
    double hours = 0, money = 0;
    size_t done = 0;
    cells(s, f, out, &a);
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].done) {
            done++;
            hours += s->v[i].seconds / 3600;
            money += s->v[i].money;
        }
    if (f == TABLE_CSV) {
        arena_release(&a);
        return;
    }
    buf_printf(out, "%zu of %zu runs, %.3g h", done, s->n, hours);
    if (isfinite(money))
        buf_printf(out, ", %.2f", money);
    buf_addc(out, '\n');
    if (s->fit)
        curves(s, f, out, &a);
    arena_release(&a);
}
