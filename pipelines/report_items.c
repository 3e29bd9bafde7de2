/* report_items: the page's section of single items, see report_page.h. */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "pipelines/report.h"
#include "pipelines/report_page.h"
#include "pipelines/runs_table.h"

enum { EXTREMES = 5, ITEM_FIGURES = 72 };

struct item_delta {
    size_t at; /* in the run's metric */
    double base, run, diff;
};

static int by_diff(const void *a, const void *b)
{
    const struct item_delta *x = a, *y = b;
    return x->diff < y->diff ? -1 : x->diff > y->diff;
}

static size_t item_deltas(const struct delta *d, struct item_delta *v)
{
    struct map at = {0};
    size_t n = 0;
    for (size_t i = 0; i < d->base->ids.n; i++)
        map_add(&at, d->base->ids.v[i], (int64_t)i, NULL);
    for (size_t i = 0; i < d->m->ids.n; i++) {
        ptrdiff_t j = map_find(&at, d->m->ids.v[i]);
        double den = d->m->den.v[i];
        if (j < 0 || !(den > 0))
            continue;
        struct item_delta x = {i, d->base->num.v[at.value[j]] / den, d->m->num.v[i] / den, 0};
        x.diff = x.run - x.base;
        if (isfinite(x.diff))
            v[n++] = x;
    }
    map_release(&at);
    qsort(v, n, sizeof *v, by_diff);
    return n;
}

static void extremes(struct report_page *p, const struct delta *d, const char *title)
{
    struct arena *a = p->a;
    struct item_delta *v = mem_array(d->m->ids.n, sizeof *v);
    size_t n = item_deltas(d, v), rows = 1;
    const char **cell = arena_array(a, 4 * (2 * EXTREMES + 1), sizeof *cell);
    cell[0] = "item";
    cell[1] = "baseline";
    cell[2] = "run";
    cell[3] = "difference";
    for (size_t i = 0; i < n; i++) {
        if (i >= EXTREMES && i + EXTREMES < n)
            continue;
        const char **x = cell + 4 * rows++;
        x[0] = show_str(a, d->m->ids.v[v[i].at]);
        x[1] = arena_printf(a, "%#.4g", v[i].base);
        x[2] = arena_printf(a, "%#.4g", v[i].run);
        x[3] = arena_printf(a, "%+#.4g", v[i].diff);
    }
    html_table(p->out, title, cell, rows, 4, "lrrr");
    free(v);
}

int report_items(struct report_page *p, struct err *e)
{
    const struct comparison *c = p->c;
    size_t made = 0;
    report_heading(p, "items", "Differences item by item");
    buf_addz(p->out, "<p>Each line is one run against the baseline: the items sorted by their "
                     "difference. Where it crosses zero the runs are even.</p>\n");
    for (size_t k = 0; k < c->nmetrics; k++)
        for (size_t r = 0; r < c->nruns; r++) {
            const struct delta *d = &c->metric[k].delta[r];
            bool has = d->m && d->base && r != c->baseline && (!d->refused || d->allowed);
            if (!has || !d->m->primary || !d->m->ids.n)
                continue;
            if (made++ >= ITEM_FIGURES)
                continue;
            const char *title =
                arena_printf(p->a, "%.*s: %.*s against %.*s", STR_ARG(c->metric[k].name),
                             STR_ARG(c->run[r].run), STR_ARG(c->run[c->baseline].run));
            buf_addz(p->out, "<details><summary>");
            html_z(p->out, title);
            buf_addz(p->out, "</summary><div class=\"charts\">");
            if (report_figure(p,
                              arena_printf(p->a, "items:%.*s/%.*s:%.*s", STR_ARG(c->metric[k].name),
                                           STR_ARG(c->metric[k].task), STR_ARG(c->run[r].run)),
                              e) != 0)
                return -1;
            extremes(p, d, arena_printf(p->a, "Items furthest apart, %s", title));
            buf_addz(p->out, "</div></details>\n");
        }
    if (made > ITEM_FIGURES)
        buf_printf(p->out,
                   "<p>%zu more pairs are left out; <code>assay report --chart items:METRIC:RUN"
                   "</code> draws any.</p>\n",
                   made - ITEM_FIGURES);
    report_section_end(p);
    return 0;
}
