/* report: the page, section by section, see report.h. */
#include "pipelines/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/build.h"
#include "pipelines/report_charts.h"
#include "pipelines/report_page.h"
#include "pipelines/runs_table.h"

enum { PAGE_LIMIT = 890 * 1024, ANSWER_ROOM = 420 * 1024 };

void report_heading(struct report_page *p, const char *id, const char *title)
{
    buf_printf(p->out, "<section id=\"%s\" aria-labelledby=\"%s-h\"><h2 id=\"%s-h\">%s</h2>\n", id,
               id, id, title);
}

void report_section_end(struct report_page *p)
{
    buf_addz(p->out, "</section>\n");
}

/* ---- figures ------------------------------------------------------------------------------------ */

int report_figure(struct report_page *p, const char *name, struct err *e)
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

static void sentences(struct report_page *p, const char *title, const struct strs *s,
                      const char *none)
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

static void summary(struct report_page *p)
{
    struct findings f;
    report_findings(p->c, SIZE_MAX, &f, p->a);
    report_heading(p, "summary", "Summary");
    sentences(p, "What can be concluded", &f.can, "Nothing, from these results.");
    sentences(p, "What cannot", &f.cannot, "Nothing is left open.");
    buf_addz(p->out,
             "<p class=\"dim\">Recipes are judged by the noise between seeds, checkpoints by the "
             "noise between items. Holm's correction runs over the primary metrics and runs; "
             "intervals are each for "
             "itself, not corrected.</p>\n");
    report_section_end(p);
}

/* ---- runs --------------------------------------------------------------------------------------- */

static void runs(struct report_page *p)
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
    report_heading(p, "runs", "Runs");
    html_table(p->out, "All runs; the baseline of every comparison is named in the head", cell,
               c->nruns + 1, COLUMNS, "llrrrrrrr");
    report_section_end(p);
}

/* ---- configuration, hardware, provenance -------------------------------------------------------- */

static void config(struct report_page *p)
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
    report_heading(p, "config", "Options that differ");
    if (rows > 1)
        html_table(p->out, "Options of the run files in which the runs differ", cell, rows, columns,
                   NULL);
    else
        buf_addz(p->out, "<p>None.</p>\n");
    report_section_end(p);
    free(cell);
}

static const char *start_of(struct arena *a, struct str hash)
{
    hash.n = hash.n > 12 ? 12 : hash.n;
    return show_str(a, hash);
}

static void provenance(struct report_page *p)
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
    report_heading(p, "provenance", "Hardware and provenance");
    buf_addz(p->out, "<p>Hashes are the first 12 digits; equal ones are the same bytes.</p>\n");
    html_table(p->out, "Machine, build and inputs of each run", cell, c->nruns + 1, COLUMNS, NULL);
    report_section_end(p);
}

/* ---- the page ----------------------------------------------------------------------------------- */

static void head(struct report_page *p, const char *title)
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

static int training(struct report_page *p, struct err *e)
{
    static const char *const charts[] = {"loss-tokens", "loss-time", "loss-money", "batch", "cost"};
    size_t before = p->out->n;
    report_heading(p, "training", "Training, batch size and cost");
    report_money(p->c, p->out);
    buf_addz(p->out, "<div class=\"charts\">");
    int figures = p->figures;
    for (size_t i = 0; i < sizeof charts / sizeof charts[0]; i++)
        if (report_figure(p, charts[i], e) != 0)
            return -1;
    buf_addz(p->out, "</div>\n");
    if (p->figures == figures) {
        buf_cut(p->out, before);
        report_heading(p, "training", "Training, batch size and cost");
        report_money(p->c, p->out);
        buf_addz(p->out, "<p>These results hold no curve, batch size or cost to draw.</p>\n");
    }
    report_section_end(p);
    return 0;
}

int report_html(const struct comparison *c, const char *const *path, const char *title,
                const char *now, struct buf *out, struct err *e)
{
    struct arena arena = {0};
    struct report_page p = {c, out, &arena, 0};
    int rc = -1;
    head(&p, title);
    summary(&p);
    runs(&p);
    if (report_metrics(&p, e) != 0 || training(&p, e) != 0 || report_items(&p, e) != 0)
        goto out;
    report_heading(&p, "answers", "Answers side by side");
    size_t left = out->n < PAGE_LIMIT ? PAGE_LIMIT - out->n : 0;
    if (report_answers(c, path, left < ANSWER_ROOM ? left : ANSWER_ROOM, out, e) != 0)
        goto out;
    report_section_end(&p);
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
