/* compare_print: a comparison for people and for programs, see compare.h. */
#include <math.h>
#include <string.h>

#include "pipelines/compare.h"
#include "pipelines/ledger.h"
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

/* Of many runs: each value once, with the runs that have it. */
static const char *value_groups(const struct comparison *c, const char *const *value,
                                struct arena *a)
{
    enum { NAMED = 4 };
    struct buf b = {0};
    for (size_t i = 0; i < c->nruns; i++) {
        size_t first = 0, n = 0;
        while (strcmp(value[first], value[i]) != 0)
            first++;
        if (first != i)
            continue;
        for (size_t k = i; k < c->nruns; k++)
            n += strcmp(value[k], value[i]) == 0;
        buf_printf(&b, "%s%s: ", b.n ? "; " : "", *value[i] ? value[i] : "(empty)");
        if (n > NAMED)
            buf_printf(&b, "%zu runs", n);
        for (size_t k = i, told = 0; n <= NAMED && k < c->nruns; k++)
            if (strcmp(value[k], value[i]) == 0)
                buf_printf(&b, "%s%.*s", told++ ? ", " : "", STR_ARG(c->run[k].run));
    }
    const char *s = arena_strdup(a, b.p);
    buf_release(&b);
    return s;
}

/* The values of one option; true if they differ. Of what could not be read none is known. */
static bool option_values(const struct comparison *c, size_t at, const struct field *k,
                          const char **value, struct arena *a)
{
    bool differs = false;
    const char *first = NULL;
    for (size_t i = 0; i < c->nruns; i++) {
        struct buf b = {0};
        if (ledger_unreadable(&c->run[i])) {
            value[i] = "?";
            continue;
        }
        field_text(k, (const char *)&c->run[i].config + at, &b);
        value[i] = arena_strdup(a, b.p ? b.p : "");
        buf_release(&b);
        first = first ? first : value[i];
        differs = differs || strcmp(value[i], first) != 0;
    }
    return differs;
}

/* Options in which the runs differ, by the run file's table. Names and prices are no options. */
static void print_config(const struct comparison *c, enum table_format f, const char *in,
                         struct arena *a, struct buf *out)
{
    enum { COLUMNS = 6 };
    struct table t;
    bool many = c->nruns > COLUMNS;
    const char **cells = arena_array(a, c->nruns + 1, sizeof *cells), *two[2];
    table_begin(&t, many ? 2 : c->nruns + 1, "");
    two[0] = cells[0] = "option";
    two[1] = "values";
    for (size_t i = 0; i < c->nruns; i++)
        cells[i + 1] = z(a, c->run[i].run);
    table_row(&t, many ? two : cells);
    for (const struct field *s = run_schema.fields; s->name; s++) {
        if (strcmp(s->name, "run") == 0)
            continue;
        for (const struct field *k = s->sub->fields; k->name; k++) {
            if (strcmp(s->name, "data") == 0 && strcmp(k->name, "run") == 0)
                continue; /* where data were made, not what they are: hashes say that */
            if (!option_values(c, s->at + k->at, k, cells + 1, a))
                continue;
            two[0] = cells[0] = arena_printf(a, "%s.%s", s->name, k->name);
            two[1] = many ? value_groups(c, cells + 1, a) : NULL;
            table_row(&t, many ? two : cells);
        }
    }
    if (t.rows > 1) {
        buf_addz(out, f == TABLE_MD ? "\nOptions that differ:\n\n" : "\noptions that differ\n");
        table_write(&t, f, in, out);
    } else {
        buf_addz(out, "\nno option differs\n");
    }
    table_release(&t);
}

static const char *verdict_text(const struct comparison *c, const struct delta *d, struct arena *a)
{
    if (d->refused && !d->allowed)
        return arena_printf(a, "refused: %s", d->refused);
    const char *what =
        d->est.why ? arena_printf(a, "not estimable: %s", d->est.why) : verdict_names[d->verdict];
    const struct result *x = &c->run[d->run], *base = &c->run[c->baseline];
    const char *same = !str_eq(x->group, base->group) ? ""
                       : d->again                     ? " (the same training, no seed of its own)"
                       : x->seed == base->seed        ? " (same recipe and seed, run again)"
                                                      : " (same recipe, another seed)";
    const char *counts = d->same_as ? arena_printf(a, ", exploratory: counted as %s", d->same_as)
                         : d->m->primary ? ""
                                         : ", exploratory";
    const char *won = d->mcnemar ? arena_printf(a, " (%lld won, %lld lost)", (long long)d->won,
                                                (long long)d->lost)
                                 : "";
    return arena_printf(a, "%s%s%s%s%s", what, won, same, counts,
                        d->allowed ? arena_printf(a, ", MARKED: %s", d->refused) : "");
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
            cells[6] = verdict_text(c, x, a);
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

static const char *full(struct arena *a, double v)
{
    return isnan(v) ? "" : arena_printf(a, "%.17g", v);
}

static const char *whole(struct arena *a, int64_t v)
{
    return arena_printf(a, "%lld", (long long)v);
}

static void csv_run(const struct comparison *c, const struct delta *d, struct table *t,
                    struct arena *a)
{
    bool has = d->base && d->run != c->baseline && (!d->refused || d->allowed);
    bool est = has && !d->est.why;
    const struct result *r = &c->run[d->run];
    const char *cells[] = {z(a, d->m->name),
                           z(a, d->m->task),
                           z(a, d->m->unit),
                           "checkpoint",
                           z(a, r->run),
                           z(a, r->group),
                           whole(a, r->seed),
                           full(a, d->m->value),
                           full(a, d->m->lo),
                           full(a, d->m->hi),
                           whole(a, d->m->n),
                           has ? full(a, d->est.value) : "",
                           est ? full(a, d->est.lo) : "",
                           est ? full(a, d->est.hi) : "",
                           est ? full(a, d->est.p) : "",
                           est ? full(a, d->p_holm) : "",
                           d->run == c->baseline ? "baseline"
                           : d->base             ? verdict_text(c, d, a)
                                                 : "no baseline"};
    table_row(t, cells);
}

static void csv_recipe(const struct compared_metric *k, const struct recipe *x,
                       const struct metric *m, struct table *t, struct arena *a)
{
    bool est = !x->why;
    const char *cells[] = {z(a, k->name),
                           z(a, k->task),
                           z(a, m->unit),
                           "recipe",
                           "",
                           z(a, x->group),
                           "",
                           "",
                           "",
                           "",
                           whole(a, x->seeds),
                           x->same ? "" : full(a, x->effect),
                           est ? full(a, x->est.lo) : "",
                           est ? full(a, x->est.hi) : "",
                           est ? full(a, x->est.p) : "",
                           est ? full(a, x->p_holm) : "",
                           est       ? arena_printf(a, "%s%s", verdict_names[x->verdict],
                                              isnan(x->p_holm) ? ", exploratory" : "")
                           : x->same ? x->why
                                     : arena_printf(a, "not estimable: %s", x->why)};
    table_row(t, cells);
}

/* One row a run and metric, then one a recipe: for spreadsheets. p is the test's own, p_holm is
 * corrected and empty where Holm does not reach. */
static void print_csv(const struct comparison *c, struct arena *a, struct buf *out)
{
    struct table t;
    static const char *const head[] = {
        "metric", "task", "unit",       "scope",   "run",     "group", "seed",   "value",  "lo",
        "hi",     "n",    "difference", "diff_lo", "diff_hi", "p",     "p_holm", "verdict"};
    table_begin(&t, sizeof head / sizeof head[0], "");
    table_row(&t, head);
    for (size_t k = 0; k < c->nmetrics; k++) {
        const struct compared_metric *m = &c->metric[k];
        for (size_t r = 0; r < c->nruns; r++)
            if (m->delta[r].m)
                csv_run(c, &m->delta[r], &t, a);
        for (size_t i = 0; i < m->nrecipes; i++)
            csv_recipe(m, &m->recipe[i], m->delta[c->baseline].m, &t, a);
    }
    table_write(&t, TABLE_CSV, "", out);
    table_release(&t);
}

int compare_print(const struct comparison *c, enum table_format f, int digits, struct buf *out,
                  struct err *e)
{
    struct arena a = {0};
    const char *in = f == TABLE_MD ? "" : "  ";
    int rc = 0;
    if (f == TABLE_CSV) {
        print_csv(c, &a, out);
        goto out;
    }
    buf_printf(out, "%d run%s against %s%s", (int)c->nruns, c->nruns == 1 ? "" : "s",
               z(&a, c->run[c->baseline].run), f == TABLE_MD ? "\n\n" : "\n");
    if (c->o.columns.n)
        rc = runs_table_columns(c->run, c->nruns, c->o.columns, digits, f, in, out, e);
    else
        runs_table(c->run, c->nruns, f, in, out);
    if (c->nruns > 1)
        print_config(c, f, in, &a, out);
    for (size_t k = 0; k < c->nmetrics; k++)
        print_metric(c, &c->metric[k], f, digits, in, &a, out);
    if (c->compared)
        buf_addz(out, "\np (Holm) is corrected for all primary metrics and runs; intervals are "
                      "each for itself, not corrected\n");
out:
    arena_release(&a);
    return rc;
}
