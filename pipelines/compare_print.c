/* compare_print: a comparison for people, see compare.h. */
#include <math.h>
#include <string.h>

#include "pipelines/compare_print.h"
#include "pipelines/runs_table.h"

/* Digits after the point so that an interval's half width shows two figures. */
static int digits_for(double half, int digits)
{
    if (digits >= 0)
        return digits;
    if (!(half > 0))
        return 4;
    int d = (int)ceil(-log10(half)) + 1;
    return d < 0 ? 0 : d > 9 ? 9 : d;
}

static const char *number(struct arena *a, double v, int digits)
{
    return isnan(v) ? "-" : arena_printf(a, "%.*f", digits, v);
}

static const char *z(struct arena *a, struct str s)
{
    return s.n ? str_dup(a, s) : "-";
}

static void print_recipe(const struct comparison *c, const struct recipe *x, int digits,
                         struct arena *a, struct buf *out)
{
    if (x->same) {
        buf_printf(out, "%s (%lld seeds): %s", z(a, x->group), (long long)x->seeds, x->why);
    } else {
        buf_printf(out, "%s against %s (%lld against %lld seed%s): ", z(a, x->group),
                   z(a, c->run[c->baseline].group), (long long)x->seeds, (long long)x->base_seeds,
                   x->base_seeds == 1 ? "" : "s");
        if (x->why)
            buf_printf(out, "not estimable, %s", x->why);
        else
            buf_printf(out, "%s%s, %+.*f [%+.*f, %+.*f], p%s %s, df %.0f",
                       verdict_names[x->verdict], isnan(x->p_holm) ? " (exploratory)" : "", digits,
                       x->est.value, digits, x->est.lo, digits, x->est.hi,
                       isnan(x->p_holm) ? "" : " (Holm)",
                       show_p(a, isnan(x->p_holm) ? x->est.p : x->p_holm), x->est.df);
    }
    const char *of = compare_sd_source(x, c->run[c->baseline].group, a);
    int fine = digits_for(fabs(x->effect) / 2, -1); /* a difference that is told is never 0.00 */
    fine = fine > digits ? fine : digits;
    if (x->sd > 0) {
        /* chi-square interval of an sd: what df seeds can know of it */
        double df = (double)x->sd_df;
        double lo = sqrt(df / stats_chi2_quantile(0.975, df)),
               hi = sqrt(df / stats_chi2_quantile(0.025, df));
        buf_printf(out, "; seed sd %.3g (%s%sdf %lld: the true one is %.2f to %.1f times that)",
                   x->sd, of, *of ? "; " : "", (long long)x->sd_df, lo, hi);
        if (!x->same && !isnan(x->mde))
            buf_printf(out, "; these seeds show a difference of %s with 80%% power",
                       number(a, x->mde, digits_for(x->mde / 2, -1)));
        if (x->same)
            ; /* nothing is to be settled within one recipe */
        else if (x->needed > 0)
            buf_printf(out, "; about %lld seed%s an arm would settle a difference of %.*f",
                       (long long)x->needed, x->needed == 1 ? "" : "s", fine, fabs(x->effect));
        else if (x->needed < 0)
            buf_printf(out, "; more than 1000 seeds an arm to settle a difference of %.*f", fine,
                       fabs(x->effect));
    } else if (x->sd_df > 0) {
        buf_printf(out, "; no spread between the seeds (%s%sdf %lld)", of, *of ? "; " : "",
                   (long long)x->sd_df);
    } else {
        buf_printf(out, "; no group has two seeds, so its noise is unknown%s%s", *of ? "; " : "",
                   of);
    }
    buf_addc(out, '\n');
}

/* What the design could have shown, whatever it did show. */
static void print_power(const struct comparison *c, const struct compared_metric *k, int digits,
                        const char *in, struct arena *a, struct buf *out)
{
    double most = NAN;
    for (size_t r = 0; r < c->nruns; r++)
        if (k->delta[r].mde > 0)
            most = fmax(k->delta[r].mde, most);
    if (!isnan(most))
        buf_printf(out, "%sthese items show a difference of %s with 80%% power\n", in,
                   number(a, most, digits_for(most / 2, digits)));
}

/* Runs whose metric is of fewer items than were asked. */
static void print_lacking(const struct comparison *c, const struct compared_metric *k, int d,
                          const char *in, struct arena *a, struct buf *out)
{
    for (size_t r = 0; r < c->nruns; r++) {
        const struct metric *m = k->delta[r].m;
        int64_t n = m ? compare_lacking(m) : 0;
        double lowest, highest;
        if (!n)
            continue;
        buf_printf(out,
                   "%s%s: %lld of %zu items have no value (failed or invalid) and are left out", in,
                   z(a, c->run[r].run), (long long)n, m->ids.n);
        if (compare_range(m, &lowest, &highest, a))
            buf_printf(out, "; with them the value is from %.*f to %.*f", d, lowest, d, highest);
        buf_addc(out, '\n');
    }
}

static double half_width(const struct metric *m)
{
    return isnan(m->hi) ? NAN : (m->hi - m->lo) / 2;
}

static void print_metric(const struct comparison *c, const struct compared_metric *k,
                         enum table_format f, int digits, const char *in, struct arena *a,
                         struct buf *out)
{
    const struct metric *any = k->delta[c->baseline].m;
    for (size_t r = 0; r < c->nruns && !any; r++)
        any = k->delta[r].m;
    int d = digits_for(half_width(any), digits);
    const char *clusters =
        any->clusters > 0 ? arena_printf(a, " in %lld clusters", (long long)any->clusters) : "";
    buf_printf(out, "\n%s%s, %s: %s, %s is better; %lld items%s%s\n%s", f == TABLE_MD ? "### " : "",
               z(a, k->name), z(a, k->task), z(a, any->unit),
               any->higher_better ? "higher" : "lower", (long long)any->n, clusters,
               any->primary ? "" : "; exploratory", f == TABLE_MD ? "\n" : "");
    if (!isnan(k->floor))
        buf_printf(out, "%soracle floor %.4f, ends counted\n%s", in, k->floor,
                   f == TABLE_MD ? "\n" : "");
    struct table t;
    table_begin(&t, 7, "lrlrlrl");
    const char *head[] = {"run",
                          "value",
                          "95% interval",
                          "difference",
                          arena_printf(a, "%g%% interval", 100 * c->o.level),
                          compare_exploratory(c, k) ? "p (exploratory)" : "p (Holm)",
                          "these checkpoints"};
    table_row(&t, head);
    for (size_t r = 0; r < c->nruns; r++) {
        const struct delta *x = &k->delta[r];
        if (!x->m) {
            const char *none[] = {z(a, c->run[r].run), "-", "", "", "", "", "not measured"};
            table_row(&t, none);
            continue;
        }
        const char *value = number(a, x->m->value, d);
        if (!isnan(k->floor) && !isnan(x->above))
            value = arena_printf(a, "%s (floor %+.1f%%)", value, 100 * x->above);
        const char *ci = isnan(x->m->lo)
                             ? "not estimable"
                             : arena_printf(a, "[%.*f, %.*f]", d, x->m->lo, d, x->m->hi);
        const char *cells[] = {z(a, c->run[r].run), value, ci, "", "", "", ""};
        if (r == c->baseline) {
            cells[6] = "baseline";
        } else if (!x->base) {
            cells[6] = "the baseline was not measured";
        } else {
            cells[6] = compare_says(c, x, a);
            if (!x->refused || x->allowed) {
                int dd = x->est.why ? d : digits_for((x->est.hi - x->est.lo) / 2, digits);
                cells[3] = arena_printf(a, "%+.*f", dd, x->est.value);
                double p = isnan(x->p_holm) ? x->est.p : x->p_holm;
                if (!x->est.why) {
                    cells[4] = arena_printf(a, "[%+.*f, %+.*f]", dd, x->est.lo, dd, x->est.hi);
                    cells[5] = show_p(a, p);
                }
            }
        }
        table_row(&t, cells);
    }
    table_write(&t, f, in, out);
    table_release(&t);
    if (f == TABLE_MD)
        buf_addc(out, '\n');
    print_lacking(c, k, d, in, a, out);
    print_power(c, k, digits, in, a, out);
    if (k->nrecipes)
        buf_printf(out, "%s%sthese recipes: ", f == TABLE_MD ? "\n" : "", in);
    for (size_t i = 0; i < k->nrecipes; i++) {
        if (i)
            buf_printf(out, "%s               ", in);
        print_recipe(c, &k->recipe[i], d, a, out);
    }
    if (any->note.n)
        buf_printf(out, "%s%s\n", in, z(a, any->note));
}

int compare_print(const struct comparison *c, enum table_format f, int digits, struct buf *out,
                  struct err *e)
{
    struct arena a = {0};
    const char *in = f == TABLE_MD ? "" : "  ";
    int rc = 0;
    if (f == TABLE_CSV) {
        compare_csv(c, &a, out);
        goto out;
    }
    buf_printf(out, "%d run%s against %s%s", (int)c->nruns, c->nruns == 1 ? "" : "s",
               z(&a, c->run[c->baseline].run), f == TABLE_MD ? "\n\n" : "\n");
    if (c->o.columns.n)
        rc = runs_table_columns(c->run, c->nruns, c->o.columns, digits, f, in, out, e);
    else
        runs_table(c->run, c->nruns, f, in, out);
    if (c->nruns > 1)
        compare_options_differ(c, f, in, &a, out);
    for (size_t k = 0; k < c->nmetrics; k++)
        print_metric(c, &c->metric[k], f, digits, in, &a, out);
    if (c->compared)
        buf_addz(out, "\np (Holm) is corrected for all primary metrics and runs; intervals are "
                      "each for itself, not corrected\n");
out:
    arena_release(&a);
    return rc;
}
