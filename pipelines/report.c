/* report: the page, section by section, see report.h. */
#include "pipelines/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "formats/build.h"
#include "pipelines/report_charts.h"
#include "pipelines/runs_table.h"

enum { PAGE_LIMIT = 890 * 1024, ANSWER_ROOM = 420 * 1024, EXTREMES = 5, ITEM_FIGURES = 72 };

struct page {
    const struct comparison *c;
    struct buf *out;
    struct arena *a;
    int figures;
};

static void heading(struct page *p, const char *id, const char *title)
{
    buf_printf(p->out, "<section id=\"%s\" aria-labelledby=\"%s-h\"><h2 id=\"%s-h\">%s</h2>\n", id,
               id, id, title);
}

static void section_end(struct page *p)
{
    buf_addz(p->out, "</section>\n");
}

/* ---- figures ------------------------------------------------------------------------------------ */

static int figure(struct page *p, const char *name, struct err *e)
{
    struct report_chart x;
    if (report_chart_make(&x, p->c, name, p->a, e) != 0)
        return -1;
    if (x.why)
        return 0;
    buf_addz(p->out, "<figure><h4>");
    html_z(p->out, x.chart.title);
    buf_addz(p->out, "</h4>");
    chart_svg(&x.chart, arena_printf(p->a, "f%d", p->figures++), false, p->out);
    buf_addz(p->out, "<figcaption>");
    html_z(p->out, x.chart.desc);
    buf_addz(p->out, "</figcaption>");
    if (x.table.rows > 1) {
        buf_addz(p->out, "<details><summary>As a table</summary>");
        html_table(p->out, x.chart.title, x.table.cell, x.table.rows, x.table.columns, "lrrr");
        buf_addz(p->out, "</details>");
    }
    buf_addz(p->out, "</figure>\n");
    return 0;
}

/* ---- summary ------------------------------------------------------------------------------------ */

static void sentences(struct page *p, const char *title, const struct strs *s, const char *none)
{
    buf_printf(p->out, "<h3>%s</h3>\n", title);
    if (!s->n) {
        buf_printf(p->out, "<p>%s</p>\n", none);
        return;
    }
    buf_addz(p->out, "<ul class=\"find\">");
    for (size_t i = 0; i < s->n; i++) {
        buf_addz(p->out, "<li>");
        html_text(p->out, s->v[i]);
        buf_addz(p->out, "</li>\n");
    }
    buf_addz(p->out, "</ul>\n");
}

static void summary(struct page *p)
{
    struct findings f;
    report_findings(p->c, SIZE_MAX, &f, p->a);
    heading(p, "summary", "Summary");
    sentences(p, "What can be concluded", &f.can, "Nothing, from these results.");
    sentences(p, "What cannot", &f.cannot, "Nothing is left open.");
    buf_addz(p->out,
             "<p class=\"dim\">Recipes are judged by the noise between seeds, checkpoints by the "
             "noise between items. Holm's correction runs over the primary metrics and runs; "
             "intervals are each for "
             "itself, not corrected.</p>\n");
    section_end(p);
}

/* ---- runs --------------------------------------------------------------------------------------- */

static void runs(struct page *p)
{
    static const char *const head[] = {"run",      "group",   "seed",   "parameters",
                                       "tokens",   "steps",   "batch",  "train",
                                       "tokens/s", "machine", "status", "tags and notes"};
    enum { COLUMNS = sizeof head / sizeof head[0] };
    const struct comparison *c = p->c;
    struct arena *a = p->a;
    const char **cell = arena_array(a, COLUMNS * (c->nruns + 1), sizeof *cell);
    memcpy(cell, head, sizeof head);
    for (size_t i = 0; i < c->nruns; i++) {
        const struct result *r = &c->run[i];
        const char **x = cell + COLUMNS * (i + 1);
        struct buf tags = {0};
        for (size_t k = 0; k < r->tags.n; k++)
            buf_printf(&tags, "%s%.*s", k ? ", " : "", STR_ARG(r->tags.v[k]));
        buf_printf(&tags, "%s%.*s", tags.n && r->notes.n ? ": " : "", STR_ARG(r->notes));
        if (r->source.n)
            buf_printf(&tags, "%spublished: %.*s", tags.n ? "; " : "", STR_ARG(r->source));
        x[0] = show_str(a, r->run);
        x[1] = show_str(a, r->group);
        x[2] = arena_printf(a, "%lld", (long long)r->seed);
        x[3] = show_count(a, (double)r->parameters);
        x[4] = show_count(a, (double)r->tokens);
        x[5] = arena_printf(a, "%lld", (long long)r->steps);
        x[6] = arena_printf(a, "%lld", (long long)r->config.train.batch);
        x[7] = show_seconds(a, r->timing.train_seconds);
        x[8] = show_count(a, r->timing.tokens_per_second);
        x[9] = show_machine(a, r);
        x[10] = show_str(a, r->status);
        x[11] = arena_strdup(a, tags.p ? tags.p : "");
        buf_release(&tags);
    }
    heading(p, "runs", "Runs");
    html_table(p->out, "All runs; the baseline of every comparison is named in the head", cell,
               c->nruns + 1, COLUMNS, "llrrrrrrr");
    section_end(p);
}

/* ---- metrics ------------------------------------------------------------------------------------ */

static const char *verdict(struct page *p, const struct delta *d, bool baseline)
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

static void metric_table(struct page *p, const struct compared_metric *k, const struct metric *any)
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

static void recipe_table(struct page *p, const struct compared_metric *k)
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

static int metrics(struct page *p, struct err *e)
{
    heading(p, "metrics", "Metrics");
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
            figure(p, arena_printf(p->a, "values:%.*s/%.*s", STR_ARG(k->name), STR_ARG(k->task)),
                   e) != 0)
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
    section_end(p);
    return 0;
}

/* ---- items -------------------------------------------------------------------------------------- */

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

static void extremes(struct page *p, const struct delta *d, const char *title)
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

static int items(struct page *p, struct err *e)
{
    const struct comparison *c = p->c;
    size_t made = 0;
    heading(p, "items", "Differences item by item");
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
            if (figure(p,
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
    section_end(p);
    return 0;
}

/* ---- configuration, hardware, provenance -------------------------------------------------------- */

static void config(struct page *p)
{
    const struct comparison *c = p->c;
    size_t columns = c->nruns + 1, rows = 1, room = 8;
    const char **cell = mem_array(room * columns, sizeof *cell);
    cell[0] = "option";
    for (size_t i = 0; i < c->nruns; i++)
        cell[i + 1] = show_str(p->a, c->run[i].run);
    for (const struct field *s = run_schema.fields; s->name; s++)
        for (const struct field *f = s->sub->fields; f->name; f++) {
            bool differs = false;
            if (strcmp(s->name, "run") == 0)
                continue;
            if (rows == room)
                cell = mem_grow(cell, (room *= 2) * columns * sizeof *cell);
            const char **x = cell + rows * columns;
            for (size_t i = 0; i < c->nruns; i++) {
                struct buf b = {0};
                field_text(f, (const char *)&c->run[i].config + s->at + f->at, &b);
                x[i + 1] = arena_strdup(p->a, b.p ? b.p : "");
                buf_release(&b);
                differs = differs || strcmp(x[i + 1], x[1]) != 0;
            }
            x[0] = arena_printf(p->a, "%s.%s", s->name, f->name);
            rows += differs;
        }
    heading(p, "config", "Options that differ");
    if (rows > 1)
        html_table(p->out, "Options of the run files in which the runs differ", cell, rows, columns,
                   NULL);
    else
        buf_addz(p->out, "<p>None.</p>\n");
    section_end(p);
    free(cell);
}

static const char *start_of(struct arena *a, struct str hash)
{
    hash.n = hash.n > 12 ? 12 : hash.n;
    return show_str(a, hash);
}

static void provenance(struct page *p)
{
    static const char *const head[] = {
        "run",         "machine",        "CPU",    "devices",  "memory, GiB", "driver", "system",
        "price, hour", "price's source", "commit", "compiler", "backend",     "data",   "text",
        "vocabulary",  "started",        "ended"};
    enum { COLUMNS = sizeof head / sizeof head[0] };
    const struct comparison *c = p->c;
    struct arena *a = p->a;
    const char **cell = arena_array(a, COLUMNS * (c->nruns + 1), sizeof *cell);
    memcpy(cell, head, sizeof head);
    for (size_t i = 0; i < c->nruns; i++) {
        const struct result *r = &c->run[i];
        const struct result_hardware *h = &r->hardware;
        const char **x = cell + COLUMNS * (i + 1);
        x[0] = show_str(a, r->run);
        x[1] = show_str(a, h->name);
        x[2] = arena_printf(a, "%s, %lld usable", show_str(a, h->cpu), (long long)h->cpus);
        x[3] = h->devices
                   ? arena_printf(a, "%lld x %s", (long long)h->devices, show_str(a, h->device))
                   : "-";
        if (h->devices && h->used && h->used != h->devices)
            x[3] = arena_printf(a, "%s, %lld used", x[3], (long long)h->used);
        x[4] = isnan(h->memory_gib) ? "-" : arena_printf(a, "%.1f", h->memory_gib);
        x[5] = show_str(a, h->driver);
        x[6] = show_str(a, h->os);
        x[7] = show_cost(a, h->price_hour, r);
        x[8] = arena_printf(a, "%s %.*s", show_str(a, h->price_source), STR_ARG(h->price_date));
        x[9] = arena_printf(a, "%s%s", start_of(a, r->software.commit),
                            r->software.dirty == 1 ? ", changed since" : "");
        x[10] = show_str(a, r->software.compiler);
        x[11] = show_str(a, r->software.backend);
        x[12] = start_of(a, r->data.data_hash);
        x[13] = start_of(a, r->data.text_hash);
        x[14] = start_of(a, r->data.vocab_hash);
        x[15] = show_str(a, r->started);
        x[16] = show_str(a, r->ended);
    }
    heading(p, "provenance", "Hardware and provenance");
    buf_addz(p->out, "<p>Hashes are the first 12 digits; equal ones are the same bytes.</p>\n");
    html_table(p->out, "Machine, build and inputs of each run", cell, c->nruns + 1, COLUMNS, NULL);
    section_end(p);
}

/* ---- the page ----------------------------------------------------------------------------------- */

static void head(struct page *p, const char *title)
{
    static const char *const links[][2] = {
        {"summary", "Summary"}, {"runs", "Runs"},
        {"metrics", "Metrics"}, {"training", "Training"},
        {"items", "Items"},     {"answers", "Answers"},
        {"config", "Options"},  {"provenance", "Hardware and provenance"}};
    buf_addz(p->out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                     "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
                     "<link rel=\"icon\" href=\"data:,\"><title>");
    html_z(p->out, title);
    buf_printf(p->out,
               "</title><style>%s%s</style></head>\n<body>"
               "<a class=\"skip\" href=\"#summary\">To the summary</a><header><h1>",
               report_css(), chart_css());
    html_z(p->out, title);
    buf_printf(p->out, "</h1><p class=\"dim\">%zu run%s against ", p->c->nruns,
               p->c->nruns == 1 ? "" : "s");
    html_text(p->out, p->c->run[p->c->baseline].run);
    buf_addz(p->out, "</p><nav aria-label=\"Sections\"><ul>");
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        buf_printf(p->out, "<li><a href=\"#%s\">%s</a></li>", links[i][0], links[i][1]);
    buf_addz(p->out, "</ul></nav></header>\n<main>\n");
}

static int training(struct page *p, struct err *e)
{
    static const char *const charts[] = {"loss-tokens", "loss-time", "loss-money", "batch", "cost"};
    size_t before = p->out->n;
    heading(p, "training", "Training, batch size and cost");
    report_money(p->c, p->out);
    buf_addz(p->out, "<div class=\"charts\">");
    int figures = p->figures;
    for (size_t i = 0; i < sizeof charts / sizeof charts[0]; i++)
        if (figure(p, charts[i], e) != 0)
            return -1;
    buf_addz(p->out, "</div>\n");
    if (p->figures == figures) {
        buf_cut(p->out, before);
        heading(p, "training", "Training, batch size and cost");
        report_money(p->c, p->out);
        buf_addz(p->out, "<p>These results hold no curve, batch size or cost to draw.</p>\n");
    }
    section_end(p);
    return 0;
}

int report_html(const struct comparison *c, const char *const *path, const char *title,
                const char *now, struct buf *out, struct err *e)
{
    struct arena arena = {0};
    struct page p = {c, out, &arena, 0};
    int rc = -1;
    head(&p, title);
    summary(&p);
    runs(&p);
    if (metrics(&p, e) != 0 || training(&p, e) != 0 || items(&p, e) != 0)
        goto out;
    heading(&p, "answers", "Answers side by side");
    size_t left = out->n < PAGE_LIMIT ? PAGE_LIMIT - out->n : 0;
    if (report_answers(c, path, left < ANSWER_ROOM ? left : ANSWER_ROOM, out, e) != 0)
        goto out;
    section_end(&p);
    config(&p);
    provenance(&p);
    buf_printf(out,
               "</main>\n<footer><p class=\"dim\">assay %s, %.12s, %s UTC. Definitions: "
               "docs/metrics.md.</p></footer>\n<script>%s</script></body></html>\n",
               build_info.version, build_info.commit, now, report_js());
    rc = 0;
out:
    arena_release(&arena);
    return rc;
}
