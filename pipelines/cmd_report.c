/* assay report: the comparison as a page, one chart of it, or a model card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "pipelines/ledger.h"
#include "pipelines/report.h"
#include "pipelines/report_charts.h"
#include "pipelines/runs_table.h"

struct opt {
    struct strs results, where, by, panel;
    struct str out, title, baseline, seed_sd, chart, card;
    bool allow;
    int64_t zoom;
};
static const struct field fields[] = {
    {.name = "results",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, results),
     .flags = FIELD_POSITIONAL,
     .help = "result files, run folders, or folders of runs"},
    {.name = "out",
     .type = FIELD_STR,
     .at = offsetof(struct opt, out),
     .def = "",
     .help =
         "file to write; default: report.html, with --card RUN.card.md; with --chart its end, .svg "
         "or .png, says how"},
    {.name = "title",
     .type = FIELD_STR,
     .at = offsetof(struct opt, title),
     .def = "Comparison of runs",
     .help = "of the page"},
    {.name = "baseline",
     .type = FIELD_STR,
     .at = offsetof(struct opt, baseline),
     .def = "",
     .help = "name of the run to compare with; default: the first that was measured"},
    {.name = "seed_sd",
     .type = FIELD_STR,
     .at = offsetof(struct opt, seed_sd),
     .def = "",
     .help = "group whose spread over seeds stands in where an arm has one seed"},
    {.name = "panel",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, panel),
     .def = "",
     .help = "folder of a panel whose verdicts on these runs are compared too"},
    {.name = "allow",
     .type = FIELD_BOOL,
     .at = offsetof(struct opt, allow),
     .def = "false",
     .help = "compare metrics whose settings differ too, and mark them"},
    {.name = "where",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, where),
     .def = "",
     .help = "only runs for which FIELD OP VALUE holds"},
    {.name = "by",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, by),
     .def = "",
     .help = "order of the runs by fields or metrics"},
    {.name = "chart",
     .type = FIELD_STR,
     .at = offsetof(struct opt, chart),
     .def = "",
     .help = "one chart alone: loss-tokens, loss-time, loss-money, batch, cost, values:METRIC, "
             "items:METRIC:RUN"},
    {.name = "card",
     .type = FIELD_STR,
     .at = offsetof(struct opt, card),
     .def = "",
     .help = "name of a run: its Hugging Face model card, Markdown, instead of the page"},
    {.name = "zoom",
     .type = FIELD_I64,
     .at = offsetof(struct opt, zoom),
     .def = "2",
     .min = 1,
     .max = 6,
     .help = "pixels a unit of a PNG"},
    {0},
};
static const struct schema options = {"report", 1, sizeof(struct opt), fields};

static int make_chart(const struct opt *o, const struct comparison *c, struct arena *a,
                      struct buf *out, struct err *e)
{
    struct report_chart x;
    if (report_chart_make(&x, c, str_dup(a, o->chart), a, e) != 0)
        return -1;
    if (x.why)
        return err_set(e, "chart %.*s: %s", STR_ARG(o->chart), x.why);
    if (str_ends(o->out, ".svg"))
        chart_svg(&x.chart, "chart", true, out);
    else if (str_ends(o->out, ".png"))
        chart_png(&x.chart, (int)o->zoom, out);
    else
        return err_code(e, EXIT_USAGE, "--chart wants --out FILE.svg or FILE.png, not %.*s",
                        STR_ARG(o->out));
    return 0;
}

static int no_such_run(const struct comparison *c, struct str name, struct err *e)
{
    struct buf b = {0};
    for (size_t r = 0; r < c->nruns; r++)
        buf_printf(&b, "%s%.*s", r ? ", " : "", STR_ARG(c->run[r].run));
    err_code(e, EXIT_USAGE, "no run is called %.*s; there are: %s", STR_ARG(name), b.p);
    buf_release(&b);
    return -1;
}

/* Where it goes. Never over a result that it is made from. */
static int take_out(struct opt *o, const struct ledger *l, struct arena *a, struct err *e)
{
    if (!o->out.n && o->chart.n)
        return err_code(e, EXIT_USAGE, "--chart wants --out FILE.svg or FILE.png");
    if (!o->out.n)
        o->out =
            o->card.n ? str_printf(a, "%.*s.card.md", STR_ARG(o->card)) : STR_LIT("report.html");
    char *out = realpath(str_dup(a, o->out), NULL); /* NULL: not there yet */
    int rc = 0;
    for (size_t i = 0; out && i < l->n && rc == 0; i++) {
        char *in = realpath(l->path[i], NULL);
        if (in && strcmp(in, out) == 0)
            rc = err_code(e, EXIT_USAGE, "--out %.*s would write over the input %s",
                          STR_ARG(o->out), l->path[i]);
        free(in);
    }
    free(out);
    return rc;
}

static int make(const struct opt *o, const struct comparison *c, const struct ledger *l,
                struct arena *a, struct buf *out, struct err *e)
{
    char now[32];
    if (o->chart.n)
        return make_chart(o, c, a, out, e);
    if (o->card.n) {
        for (size_t r = 0; r < c->nruns; r++)
            if (str_eq(c->run[r].run, o->card)) {
                report_card(c, r, out);
                return 0;
            }
        return no_such_run(c, o->card, e);
    }
    clock_iso(clock_system()->wall(clock_system()), now);
    return report_html(c, l->path, str_dup(a, o->title), now, out, e);
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct ledger l = {0};
    struct comparison c = {0};
    struct buf out = {0};
    int rc = -1;
    if (o->results.n == 0)
        return err_code(e, EXIT_USAGE, "which results? files, run folders or a folder of runs");
    if (o->chart.n && o->card.n)
        return err_code(e, EXIT_USAGE, "--chart and --card write one file each: give one of them");
    struct compare_options co = {
        .baseline = o->baseline.n ? str_dup(a, o->baseline) : NULL,
        .seed_sd = o->seed_sd.n ? str_dup(a, o->seed_sd) : NULL,
        .allow = o->allow,
        .level = 0.95,
    };
    if (ledger_heads(&l, o->results, e) != 0 ||
        ledger_select(&l, o->where, listed_names(o->by, a), e) != 0)
        goto out;
    if (l.n == 0) {
        err_set(e, "no run is left by the conditions");
        goto out;
    }
    if (take_out(o, &l, a, e) != 0 || ledger_fill(&l, e) != 0)
        goto out;
    for (size_t i = 0; i < o->panel.n; i++)
        if (ledger_panel(&l, str_dup(a, o->panel.v[i]), e) != 0)
            goto out;
    if (compare_runs(&c, l.v, l.n, &co, e) != 0 || make(o, &c, &l, a, &out, e) != 0)
        goto out;
    if (file_write_all(str_dup(a, o->out), buf_str(&out), e) != 0)
        goto out;
    log_info("%.*s", STR_ARG(o->out));
    rc = EXIT_DONE;
out:
    buf_release(&out);
    compare_release(&c);
    ledger_release(&l);
    return rc;
}

const struct command cmd_report = {
    .room = "pipelines",
    .name = "report",
    .summary = "a comparison as one HTML page, a chart, or a model card",
    .details =
        "The page needs no network and no other file. --chart NAME writes one chart as SVG or\n"
        "PNG; --card RUN writes that run's model card with every number filled in.",
    .options = &options,
    .run = run,
};
