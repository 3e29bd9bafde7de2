/* compare_print: a comparison for people and for programs, see compare.h. */
#include <math.h>
#include <string.h>

#include "pipelines/compare.h"
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

/* The values of one option; true if they differ. */
static bool option_values(const struct comparison *c, size_t at, const struct field *k,
                          const char **value, struct arena *a)
{
    bool differs = false;
    for (size_t i = 0; i < c->nruns; i++) {
        struct buf b = {0};
        field_text(k, (const char *)&c->run[i].config + at, &b);
        value[i] = arena_strdup(a, b.p ? b.p : "");
        buf_release(&b);
        differs = differs || strcmp(value[i], value[0]) != 0;
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
    const char *same = str_eq(c->run[d->run].group, c->run[c->baseline].group)
                           ? " (same recipe, another seed)"
                           : "";
    const char *counts = d->same_as      ? arena_printf(a, ", counted as %s", d->same_as)
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
        buf_printf(out, "%s against %s (%lld against %lld seeds): ", z(a, x->group),
                   z(a, c->run[c->baseline].group), (long long)x->seeds, (long long)x->base_seeds);
        if (x->why)
            buf_printf(out, "not estimable, %s", x->why);
        else
            buf_printf(out, "%s, %+.*f [%+.*f, %+.*f], p%s %.3g, df %.0f",
                       verdict_names[x->verdict], digits, x->est.value, digits, x->est.lo, digits,
                       x->est.hi, isnan(x->p_holm) ? "" : " (Holm)",
                       isnan(x->p_holm) ? x->est.p : x->p_holm, x->est.df);
    }
    if (x->sd > 0) {
        /* chi-square interval of an sd: what df seeds can know of it */
        double df = (double)x->sd_df;
        double lo = sqrt(df / stats_chi2_quantile(0.975, df)),
               hi = sqrt(df / stats_chi2_quantile(0.025, df));
        buf_printf(out, "; seed sd %.3g (df %lld: the true one is %.2f to %.1f times that)", x->sd,
                   (long long)x->sd_df, lo, hi);
        if (!x->same && !isnan(x->mde))
            buf_printf(out, "; these seeds show a difference of %s with 80%% power",
                       number(a, x->mde, digits_for(x->mde / 2, -1)));
        if (x->same)
            ; /* nothing is to be settled within one recipe */
        else if (x->needed > 0)
            buf_printf(out, "; about %lld seed%s an arm would settle a difference of %.*f",
                       (long long)x->needed, x->needed == 1 ? "" : "s", digits, fabs(x->effect));
        else if (x->needed < 0)
            buf_printf(out, "; more than 1000 seeds an arm to settle a difference of %.*f", digits,
                       fabs(x->effect));
    } else if (x->sd_df > 0) {
        buf_printf(out, "; no spread between the seeds (df %lld)", (long long)x->sd_df);
    } else {
        buf_addz(out, "; no group has two seeds, so its noise is unknown");
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
        buf_printf(out, "%soracle floor %.4f\n%s", in, k->floor, f == TABLE_MD ? "\n" : "");
    struct table t;
    table_begin(&t, 7, "lrlrlrl");
    const char *head[] = {"run",
                          "value",
                          "95% interval",
                          "difference",
                          arena_printf(a, "%g%% interval", 100 * c->o.level),
                          "p (Holm)",
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
        if (!isnan(k->floor))
            value =
                arena_printf(a, "%s (floor %+.1f%%)", value, 100 * (x->m->value / k->floor - 1));
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
                    cells[5] = arena_printf(a, p < 0.0001 ? "<0.0001" : "%.4f", p);
                }
            }
        }
        table_row(&t, cells);
    }
    table_write(&t, f, in, out);
    table_release(&t);
    if (f == TABLE_MD)
        buf_addc(out, '\n');
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

/* One row a run and metric: for spreadsheets. */
static void print_csv(const struct comparison *c, struct arena *a, struct buf *out)
{
    struct table t;
    table_begin(&t, 15, "");
    const char *head[] = {"metric",     "task",    "unit",    "run", "group",
                          "seed",       "value",   "lo",      "hi",  "n",
                          "difference", "diff_lo", "diff_hi", "p",   "verdict"};
    table_row(&t, head);
    for (size_t k = 0; k < c->nmetrics; k++)
        for (size_t r = 0; r < c->nruns; r++) {
            const struct delta *d = &c->metric[k].delta[r];
            if (!d->m)
                continue;
            bool has = d->base && r != c->baseline && (!d->refused || d->allowed);
            bool est = has && !d->est.why;
            const char *cells[] = {
                z(a, d->m->name),
                z(a, d->m->task),
                z(a, d->m->unit),
                z(a, c->run[r].run),
                z(a, c->run[r].group),
                arena_printf(a, "%lld", (long long)c->run[r].seed),
                arena_printf(a, "%.17g", d->m->value),
                isnan(d->m->lo) ? "" : arena_printf(a, "%.17g", d->m->lo),
                isnan(d->m->hi) ? "" : arena_printf(a, "%.17g", d->m->hi),
                arena_printf(a, "%lld", (long long)d->m->n),
                has ? arena_printf(a, "%.17g", d->est.value) : "",
                est ? arena_printf(a, "%.17g", d->est.lo) : "",
                est ? arena_printf(a, "%.17g", d->est.hi) : "",
                est ? arena_printf(a, "%.6g", isnan(d->p_holm) ? d->est.p : d->p_holm) : "",
                r == c->baseline ? "baseline"
                : d->base        ? verdict_text(c, d, a)
                                 : "no baseline"};
            table_row(&t, cells);
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
out:
    arena_release(&a);
    return rc;
}

/* ---- json --------------------------------------------------------------------------------------- */

static struct json *json_estimate(const struct estimate *s)
{
    struct json *o = json_obj();
    json_put(o, "value", json_of_num(s->value));
    if (s->why) {
        json_put(o, "not_estimable", json_of_z(s->why));
        return o;
    }
    json_put(o, "lo", json_of_num(s->lo));
    json_put(o, "hi", json_of_num(s->hi));
    json_put(o, "p", json_of_num(s->p));
    json_put(o, "df", json_of_num(s->df));
    return o;
}

static struct json *json_delta(const struct comparison *c, const struct delta *d)
{
    struct json *o = json_obj();
    json_put(o, "run", json_of_str(c->run[d->run].run));
    json_put(o, "group", json_of_str(c->run[d->run].group));
    if (!d->m) {
        json_put(o, "measured", json_of_bool(false));
        return o;
    }
    json_put(o, "value", json_of_num(d->m->value));
    json_put(o, "lo", json_of_num(d->m->lo));
    json_put(o, "hi", json_of_num(d->m->hi));
    json_put(o, "n", json_of_int(d->m->n));
    json_put(o, "n_invalid", json_of_int(d->m->n_invalid));
    json_put(o, "clusters", json_of_int(d->m->clusters));
    if (d->run == c->baseline || !d->base)
        return o;
    if (d->refused)
        json_put(o, d->allowed ? "allowed_though" : "refused", json_of_z(d->refused));
    if (!d->refused || d->allowed) {
        json_put(o, "difference", json_estimate(&d->est));
        json_put(o, "p_holm", json_of_num(d->p_holm));
        json_put(o, "detectable", json_of_num(d->mde));
        if (d->same_as)
            json_put(o, "counted_as", json_of_z(d->same_as));
        if (d->mcnemar) {
            json_put(o, "won", json_of_int(d->won));
            json_put(o, "lost", json_of_int(d->lost));
        }
        json_put(o, "these_checkpoints", json_of_z(verdict_names[d->verdict]));
    }
    return o;
}

static struct json *json_recipe(const struct recipe *x)
{
    struct json *o = json_obj();
    json_put(o, "group", json_of_str(x->group));
    json_put(o, "seeds", json_of_int(x->seeds));
    json_put(o, "baseline_seeds", json_of_int(x->base_seeds));
    json_put(o, "effect", json_of_num(x->effect));
    json_put(o, "seed_sd", json_of_num(x->sd));
    json_put(o, "seed_sd_df", json_of_int(x->sd_df));
    json_put(o, "seeds_needed", json_of_int(x->needed));
    json_put(o, "detectable", json_of_num(x->mde));
    if (x->why)
        json_put(o, "not_estimable", json_of_z(x->why));
    else
        json_put(o, "difference", json_estimate(&x->est));
    json_put(o, "p_holm", json_of_num(x->p_holm));
    json_put(o, "these_recipes", json_of_z(verdict_names[x->verdict]));
    return o;
}

struct json *compare_json(const struct comparison *c)
{
    struct json *o = json_obj(), *metrics = json_arr(), *runs = json_arr();
    json_put(o, "baseline", json_of_str(c->run[c->baseline].run));
    for (size_t i = 0; i < c->nruns; i++) {
        struct json *r = json_of_struct(&result_schema, &c->run[i], false);
        json_put(r, "metrics",
                 json_of_null()); /* values are below, per-item ones in the result file */
        json_push(runs, r);
    }
    for (size_t k = 0; k < c->nmetrics; k++) {
        struct json *m = json_obj(), *d = json_arr(), *x = json_arr();
        json_put(m, "name", json_of_str(c->metric[k].name));
        json_put(m, "task", json_of_str(c->metric[k].task));
        json_put(m, "oracle_floor", json_of_num(c->metric[k].floor));
        for (size_t r = 0; r < c->nruns; r++)
            json_push(d, json_delta(c, &c->metric[k].delta[r]));
        for (size_t i = 0; i < c->metric[k].nrecipes; i++)
            json_push(x, json_recipe(&c->metric[k].recipe[i]));
        json_put(m, "runs", d);
        json_put(m, "recipes", x);
        json_push(metrics, m);
    }
    json_put(o, "runs", runs);
    json_put(o, "metrics", metrics);
    return o;
}
