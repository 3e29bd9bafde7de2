/* assay result: one run folder into one result.msgpack, or published numbers into results. */
#include <stdio.h>
#include <string.h>

#include "base/command.h"
#include "base/log.h"
#include "formats/record.h"
#include "pipelines/entered.h"
#include "pipelines/result.h"

enum { STAGE_VERSION = 2 };

static const char *const formats[] = {"table", "md", "csv", NULL};

struct opt {
    struct str run, out, hardware, from;
    bool disagreements;
    int format;
};
static const struct field fields[] = {
    {.name = "run",
     .type = FIELD_STR,
     .at = offsetof(struct opt, run),
     .def = "",
     .help = "run folder"},
    {.name = "from",
     .type = FIELD_STR,
     .at = offsetof(struct opt, from),
     .def = "",
     .help = "instead of a run: a JSON lines file of published results (pipelines/reference)"},
    {.name = "out",
     .type = FIELD_STR,
     .at = offsetof(struct opt, out),
     .def = "",
     .help = "result file; default: RUN/result.msgpack. With --from: folder of run folders"},
    {.name = "hardware",
     .type = FIELD_STR,
     .at = offsetof(struct opt, hardware),
     .def = "",
     .help = "hardware file with the machine's price and peaks; default: what the segments say"},
    {.name = "disagreements",
     .type = FIELD_BOOL,
     .at = offsetof(struct opt, disagreements),
     .def = "false",
     .help = "with --from: prints which of the publication's figures our formulas give otherwise, "
             "and why"},
    {.name = "format",
     .type = FIELD_ENUM,
     .at = offsetof(struct opt, format),
     .def = "table",
     .choices = formats,
     .help = "how to print them"},
    {0},
};
static const struct schema options = {"result", 1, sizeof(struct opt), fields};

static int collect(struct opt *o, struct arena *a, struct err *e)
{
    struct result r;
    struct hardware hw;
    struct stage st = {0};
    int rc = -1;
    struct str dir_s = o->run;
    while (dir_s.n > 1 && dir_s.p[dir_s.n - 1] == '/')
        dir_s.n--;
    const char *dir = str_dup(a, dir_s);
    const char *out = o->out.n ? str_dup(a, o->out) : arena_printf(a, "%s/result.msgpack", dir);
    if (o->hardware.n && hardware_load(&hw, str_dup(a, o->hardware), a, e) != 0)
        return -1;
    stage_begin(&st, "result", STAGE_VERSION, out, NULL, NULL);
    if (o->hardware.n)
        stage_options(&st, "hardware", &hardware_schema, &hw);
    if (result_collect(&r, dir, o->hardware.n ? &hw : NULL, &st, a, e) != 0)
        goto out;
    stage_options(&st, "config", &run_schema, &r.config);
    if (stage_fresh(&st)) {
        rc = EXIT_DONE;
        goto out;
    }
    if (stage_start(&st, e) != 0 || record_save(out, &result_schema, &r, e) != 0 ||
        stage_output(&st, out, e) != 0 || stage_end(&st, e) != 0)
        goto out;
    log_info("%s: %zu metrics of run %.*s", out, r.metrics.n, STR_ARG(r.run));
    rc = EXIT_DONE;
out:
    stage_release(&st);
    return rc;
}

static int disagreements(const struct opt *o, struct arena *a, struct err *e)
{
    struct disagreement *v;
    struct buf out = {0};
    size_t n;
    if (!o->from.n)
        return err_code(e, EXIT_USAGE, "--disagreements needs --from, the published results");
    if (entered_disagreements(str_dup(a, o->from), &v, &n, a, e) != 0)
        return -1;
    entered_print_disagreements(v, n, (enum table_format)o->format, &out);
    fwrite(out.p, 1, out.n, stdout);
    buf_release(&out);
    return EXIT_DONE;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    int64_t n;
    if (o->disagreements)
        return disagreements(o, a, e);
    if (!o->run.n == !o->from.n)
        return err_code(e, EXIT_USAGE, "give --run, or --from with --out");
    if (o->run.n)
        return collect(o, a, e);
    if (!o->out.n)
        return err_code(e, EXIT_USAGE, "--from needs --out, a folder");
    if (entered_save(str_dup(a, o->from), str_dup(a, o->out), &n, e) != 0)
        return -1;
    log_info("%lld results in %.*s", (long long)n, STR_ARG(o->out));
    return EXIT_DONE;
}

const struct command cmd_result = {
    .room = "pipelines",
    .name = "result",
    .summary = "collect a run folder into one result",
    .details = "Cost is training (per segment, where a run moved between machines), with "
               "evaluation, and billed (run.billed).\nEntered results hold what a publication "
               "says, with its "
               "source; what it does not say is left out.",
    .options = &options,
    .run = run,
};
