/* report_metrics: the page's section of metrics, see report_page.h. */
#include <math.h>
#include <string.h>

#include "pipelines/report.h"
#include "pipelines/report_charts.h"
#include "pipelines/report_page.h"
#include "pipelines/runs_table.h"

static const char *verdict(struct report_page *p, const struct delta *d, bool baseline)
{
    if (!d->m)
        return "not measured";
    if (baseline)
        return "baseline";
    if (!d->base)
        return "the baseline was not measured";
    if (d->refused && !d->allowed)
        return arena_printf(p->a, "refused: %s", d->refused);
    const char *text = d->est.why ? arena_printf(p->a, "not estimable: %s", d->est.why)
                                  : verdict_names[d->verdict];
    if (d->again)
        text = arena_printf(p->a, "%s (the same training, no seed of its own)", text);
    if (d->same_as)
        text = arena_printf(p->a, "%s, exploratory (counted as %s)", text, d->same_as);
    else if (!d->m->primary)
        text = arena_printf(p->a, "%s, exploratory", text);
    return d->allowed ? arena_printf(p->a, "%s; marked: %s", text, d->refused) : text;
}

static void metric_table(struct report_page *p, const struct compared_metric *k,
                         const struct metric *any)
{
    static const char *const head[] = {
        "run",        "value",        "95% interval", "items",      "without value",
        "difference", "95% interval", "p (Holm)",     "would show", "these checkpoints"};
    enum { COLUMNS = sizeof head / sizeof head[0] };
    const struct comparison *c = p->c;
    struct arena *a = p->a;
    const char **cell = arena_array(a, COLUMNS * (c->nruns + 1), sizeof *cell);
    memcpy(cell, head, sizeof head);
    if (compare_exploratory(c, k))
        cell[7] = "p (exploratory)";
    for (size_t r = 0; r < c->nruns; r++) {
        const struct delta *d = &k->delta[r];
        const char **x = cell + COLUMNS * (r + 1);
        x[0] = show_str(a, c->run[r].run);
        x[COLUMNS - 1] = verdict(p, d, r == c->baseline);
        if (!d->m)
            continue;
        double w = d->m->hi - d->m->lo;
        x[1] = report_number(a, d->m->value, w);
        x[2] = isnan(w) ? "not estimable"
                        : arena_printf(a, "%s to %s", report_number(a, d->m->lo, w),
                                       report_number(a, d->m->hi, w));
        x[3] = arena_printf(a, "%lld", (long long)d->m->n);
        x[4] = arena_printf(a, "%lld", (long long)d->m->n_invalid);
        if (r == c->baseline || !d->base || (d->refused && !d->allowed))
            continue;
        w = d->est.why ? w : d->est.hi - d->est.lo;
        x[5] =
            arena_printf(a, "%s%s", d->est.value > 0 ? "+" : "", report_number(a, d->est.value, w));
        if (d->est.why)
            continue;
        double q = isnan(d->p_holm) ? d->est.p : d->p_holm;
        x[6] = arena_printf(a, "%s to %s", report_number(a, d->est.lo, w),
                            report_number(a, d->est.hi, w));
        x[7] = show_p(a, q);
        x[8] = report_number(a, d->mde, d->mde);
    }
    const char *caption =
        arena_printf(a, "%.*s, %.*s: %.*s, %s is better%s", STR_ARG(k->name), STR_ARG(k->task),
                     STR_ARG(any->unit), any->higher_better ? "higher" : "lower",
                     any->primary ? "" : "; exploratory, outside of Holm's correction");
    html_table(p->out, caption, cell, c->nruns + 1, COLUMNS, "lrrrrrrrr");
}

static void recipe_table(struct report_page *p, const struct compared_metric *k)
{
    static const char *const head[] = {"recipe",       "seeds",        "baseline's seeds",
                                       "difference",   "95% interval", "p (Holm)",
                                       "seed sd (df)", "would show",   "these recipes"};
    enum { COLUMNS = sizeof head / sizeof head[0] };
    const struct comparison *c = p->c;
    struct arena *a = p->a;
    const char **cell = arena_array(a, COLUMNS * (k->nrecipes + 1), sizeof *cell);
    memcpy(cell, head, sizeof head);
    if (compare_exploratory(c, k))
        cell[5] = "p (exploratory)";
    for (size_t i = 0; i < k->nrecipes; i++) {
        const struct recipe *r = &k->recipe[i];
        const char **x = cell + COLUMNS * (i + 1);
        double w = r->why ? NAN : r->est.hi - r->est.lo;
        x[0] = show_str(a, r->group);
        x[1] = arena_printf(a, "%lld", (long long)r->seeds);
        x[2] = arena_printf(a, "%lld", (long long)r->base_seeds);
        x[3] = report_number(a, r->effect, r->why ? fabs(r->effect) : w);
        x[4] = r->why ? "-"
                      : arena_printf(a, "%s to %s", report_number(a, r->est.lo, w),
                                     report_number(a, r->est.hi, w));
        x[5] = r->why ? "-" : show_p(a, isnan(r->p_holm) ? r->est.p : r->p_holm);
        const char *of = compare_sd_source(r, c->run[c->baseline].group, a);
        x[6] = r->sd > 0 ? arena_printf(a, "%.3g (%lld%s%s)", r->sd, (long long)r->sd_df,
                                        *of ? ", " : "", of)
                         : "-";
        x[7] = report_number(a, r->mde, r->mde);
        x[8] = r->why ? arena_printf(a, "%s%s", r->same ? "" : "not estimable: ", r->why)
                      : arena_printf(a, "%s%s", verdict_names[r->verdict],
                                     isnan(r->p_holm) ? ", exploratory" : "");
    }
    if (k->nrecipes)
        html_table(p->out,
                   arena_printf(a, "%.*s, %.*s: recipes, by the noise between seeds",
                                STR_ARG(k->name), STR_ARG(k->task)),
                   cell, k->nrecipes + 1, COLUMNS, "lrrrrrrr");
}

int report_metrics(struct report_page *p, struct err *e)
{
    report_heading(p, "metrics", "Metrics");
    for (size_t i = 0; i < p->c->nmetrics; i++) {
        const struct compared_metric *k = &p->c->metric[i];
        const struct metric *any = report_any(k, p->c->nruns);
        buf_addz(p->out, "<h3>");
        html_text(p->out, k->name);
        buf_addz(p->out, ", ");
        html_text(p->out, k->task);
        buf_addz(p->out, "</h3>\n");
        if (!isnan(k->floor))
            buf_printf(p->out,
                       "<p>Oracle floor: %.4f, what no model can be better than with the texts' "
                       "ends counted.</p>\n",
                       k->floor);
        metric_table(p, k, any);
        recipe_table(p, k);
        buf_addz(p->out, "<div class=\"charts\">");
        if (any->primary &&
            report_figure(
                p, arena_printf(p->a, "values:%.*s/%.*s", STR_ARG(k->name), STR_ARG(k->task)), e) !=
                0)
            return -1;
        buf_addz(p->out, "</div>\n");
        if (any->note.n) {
            buf_addz(p->out, "<p class=\"dim\">");
            html_text(p->out, any->note);
            buf_addz(p->out, "</p>\n");
        }
    }
    if (!p->c->nmetrics)
        buf_addz(p->out, "<p>No run has an evaluation.</p>\n");
    report_section_end(p);
    return 0;
}
