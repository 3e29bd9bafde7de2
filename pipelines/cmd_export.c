/* assay export: results to MLflow or TensorBoard. */
#include <stdio.h>
#include <string.h>

#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "pipelines/export.h"
#include "pipelines/ledger.h"

enum { TO_MLFLOW, TO_TENSORBOARD };
static const char *const targets[] = {"mlflow", "tensorboard", NULL};

struct opt {
    struct strs results;
    int to;
    struct str url, experiment, report, out;
    bool replace;
};
#define AT(m) offsetof(struct opt, m)
static const struct field fields[] = {
    {"results", FIELD_STRS, AT(results), NULL, .flags = FIELD_POSITIONAL,
     .help = "result files, run folders, or folders of runs"},
    {"to", FIELD_ENUM, AT(to), NULL, .choices = targets, .help = "mlflow or tensorboard"},
    {"url", FIELD_STR, AT(url), "", .help = "mlflow: the server, http://host:port"},
    {"experiment", FIELD_STR, AT(experiment), "assay", .help = "mlflow: made when it is not there"},
    {"report", FIELD_STR, AT(report), "", .help = "mlflow: an HTML report, attached to each run"},
    {"out", FIELD_STR, AT(out), "", .help = "tensorboard: folder of event files, one run a folder"},
    {"replace", FIELD_BOOL, AT(replace), "false",
     .help = "tensorboard: write over another run of the same name"},
    {0},
};
#undef AT
static const struct schema options = {"export", 1, sizeof(struct opt), fields};

static int to_mlflow(struct opt *o, const struct ledger *l, struct arena *a, struct err *e)
{
    struct str url = o->url;
    while (url.n && url.p[url.n - 1] == '/')
        url.n--;
    struct mlflow_job j = {.url = str_dup(a, url),
                           .experiment = str_dup(a, o->experiment),
                           .report = o->report.n ? str_dup(a, o->report) : NULL};
    const char **file = arena_array(a, l->n + 1, sizeof *file);
    for (size_t i = 0; i < l->n; i++)
        file[i] = l->path[i] && !file_is_dir(l->path[i]) ? l->path[i] : NULL;
    return export_mlflow(&j, l->v, file, l->n, stdout, e);
}

static int to_tensorboard(struct opt *o, const struct ledger *l, struct arena *a, struct err *e)
{
    const char *out = str_dup(a, o->out);
    for (size_t i = 0; i < l->n; i++)
        if (export_tensorboard(&l->v[i], out, o->replace, e))
            return -1;
    log_info("%zu run%s; tensorboard --logdir %s", l->n, l->n == 1 ? "" : "s", out);
    return 0;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct ledger l = {0};
    bool mlflow = o->to == TO_MLFLOW;
    if (o->results.n == 0)
        return err_code(e, EXIT_USAGE, "which results? files, run folders, folders of runs");
    if (mlflow && !str_starts(o->url, "http://") && !str_starts(o->url, "https://"))
        return err_code(e, EXIT_USAGE, "--to mlflow needs --url http://host:port");
    if (!mlflow && !o->out.n)
        return err_code(e, EXIT_USAGE, "--to tensorboard needs --out, a folder");
    if (mlflow && o->report.n && !file_exists(str_dup(a, o->report)))
        return err_set(e, "--report %.*s: there is no such file", STR_ARG(o->report));
    if (ledger_load(&l, o->results, e) != 0)
        return -1;
    size_t kept = 0;
    for (size_t i = 0; i < l.n; i++) {
        if (ledger_unreadable(&l.v[i])) {
            log_warn("%.*s is left out: it could not be read", STR_ARG(l.v[i].run));
            continue;
        }
        l.v[kept] = l.v[i];
        l.path[kept++] = l.path[i];
    }
    l.n = kept;
    int rc = mlflow ? to_mlflow(o, &l, a, e) : to_tensorboard(o, &l, a, e);
    ledger_release(&l);
    return rc ? -1 : EXIT_DONE;
}

const struct command cmd_export = {
    .room = "pipelines",
    .name = "export",
    .summary = "results to MLflow or TensorBoard",
    .details = "MLflow: runs, parameters, metrics with steps, tags, the result and a report as "
               "artefacts; run again it\nupdates and never doubles. Keys come from "
               "MLFLOW_TRACKING_TOKEN or _USERNAME and _PASSWORD.\nTensorBoard: one event file a "
               "run, in place of an older one.",
    .options = &options,
    .run = run,
};
