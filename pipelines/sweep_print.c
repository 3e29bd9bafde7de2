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
    table_row(&t,
              (const char *const[]){"run", s->fit ? s->fit : "-", metric, "hours", "money", ""});
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

/* Mean and spread at each x. */
static void means(const struct sweep *s, const struct fit *fit, enum table_format f,
                  struct buf *out, struct arena *a)
{
    struct table t = {0};
    table_begin(&t, 5, "rrrrr");
    table_row(&t, (const char *const[]){s->fit, "runs", "mean", "sd", "curve"});
    double last = 0;
    for (;;) {
        double x = INFINITY, sum = 0, ss = 0, n = 0;
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].done && isfinite(s->v[i].value) && s->v[i].x > last)
                x = fmin(x, s->v[i].x);
        if (isinf(x))
            break;
        last = x;
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].done && isfinite(s->v[i].value) && s->v[i].x == x) {
                sum += s->v[i].value;
                n++;
            }
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].done && isfinite(s->v[i].value) && s->v[i].x == x)
                ss += (s->v[i].value - sum / n) * (s->v[i].value - sum / n);
        const char *row[] = {num(a, 6, x), num(a, 6, n), num(a, 6, sum / n),
                             n > 1 ? num(a, 2, sqrt(ss / (n - 1))) : "-",
                             num(a, 6, fit_at(fit, x))};
        table_row(&t, row);
    }
    if (t.rows > 1) {
        buf_addc(out, '\n');
        table_write(&t, f, "", out);
    }
    table_release(&t);
}

static void verdict(const struct sweep *s, const struct fit *f, struct buf *out)
{
    buf_printf(out, "\n%s against %.*s, a parabola in its logarithm over %zu runs at %zu values",
               s->fit, STR_ARG(s->c.metric), f->n, f->values);
    if (!isnan(f->sd))
        buf_printf(out, ", residual sd %.2g", f->sd);
    if (!isnan(f->seed_sd))
        buf_printf(out, " (of seeds alone %.2g, df %.0f)", f->seed_sd, f->seed_df);
    if (f->why && isnan(f->best))
        buf_printf(out, ":\noptimum not identified: %s\n", f->why);
    else if (f->why)
        buf_printf(out, ":\noptimum %.4g; its interval is not identified: %s\n", f->best, f->why);
    else
        buf_printf(out, ":\noptimum %.4g, %.0f%% interval %.4g-%.4g%s; the curve is %.6g there\n",
                   f->best, f->level * 100, f->lo, f->hi,
                   f->lo < f->x_min || f->hi > f->x_max ? " (beyond what was tried)" : "",
                   f->at_best);
}

void sweep_print(const struct sweep *s, enum table_format f, struct buf *out)
{
    struct arena a = {0};
    struct fit fit;
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
    if (s->fit) {
        sweep_fit(s, &fit);
        means(s, &fit, f, out, &a);
        verdict(s, &fit, out);
    }
    arena_release(&a);
}
