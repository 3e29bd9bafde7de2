/* assay compare: differences between runs, with intervals and verdicts. */
#include <stdio.h>

#include "base/command.h"
#include "pipelines/compare.h"
#include "pipelines/ledger.h"
#include "pipelines/query.h"
#include "pipelines/runs_table.h"

enum { FORMAT_TABLE, FORMAT_MD, FORMAT_CSV, FORMAT_JSON };
static const char *const formats[] = {"table", "md", "csv", "json", NULL};

struct opt {
    struct strs results, where, by, sort, columns, panel;
    struct str baseline, seed_sd;
    int format;
    bool allow, list;
    double level;
    int64_t digits;
};
static const struct field fields[] = {
    {.name = "results",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, results),
     .flags = FIELD_POSITIONAL,
     .help = "result files, run folders, or folders of runs"},
    {.name = "baseline",
     .type = FIELD_STR,
     .at = offsetof(struct opt, baseline),
     .def = "",
     .help = "name of the run to compare with; default: the first"},
    {.name = "format",
     .type = FIELD_ENUM,
     .at = offsetof(struct opt, format),
     .def = "table",
     .choices = formats,
     .help = "how to print"},
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
    {.name = "seed_sd",
     .type = FIELD_STR,
     .at = offsetof(struct opt, seed_sd),
     .def = "",
     .help = "group whose spread over seeds stands in where an arm has one seed"},
    {.name = "where",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, where),
     .def = "",
     .help = "only runs for which FIELD OP VALUE holds, e.g. \"train.lr>=1e-3\" or tags=best"},
    {.name = "by",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, by),
     .def = "",
     .help = "order of the runs by fields or metrics; -FIELD (--by=-FIELD) is descending"},
    {.name = "sort",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, sort),
     .def = "",
     .help = "the same as --by"},
    {.name = "columns",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, columns),
     .def = "",
     .help = "fields and metrics that the table of runs shows, e.g. train.lr,bits_byte"},
    {.name = "list",
     .type = FIELD_BOOL,
     .at = offsetof(struct opt, list),
     .def = "false",
     .help = "only the table of runs, no comparison: fast for thousands"},
    {.name = "level",
     .type = FIELD_F64,
     .at = offsetof(struct opt, level),
     .def = "0.95",
     .min = 0.5,
     .max = 0.999,
     .help =
         "of the differences' intervals; a difference whose p is above 1 - LEVEL is not seen (a "
         "run's own interval is 95%)"},
    {.name = "digits",
     .type = FIELD_I64,
     .at = offsetof(struct opt, digits),
     .def = "-1",
     .min = -1,
     .max = 12,
     .help = "digits after the point; -1: as the interval allows"},
    {0},
};
static const struct schema options = {"compare", 1, sizeof(struct opt), fields};

static void take_json(struct json *j, struct buf *out)
{
    json_write_pretty(j, out);
    json_free(j);
}

static int print_list(const struct opt *o, const struct ledger *l, struct strs columns,
                      struct buf *out, struct err *e)
{
    struct json *j = NULL;
    enum table_format f = (enum table_format)o->format;
    if (o->format == FORMAT_JSON) {
        if (runs_json(l->v, l->n, columns, &j, e) != 0)
            return -1;
        take_json(j, out);
    } else if (columns.n) {
        return runs_table_columns(l->v, l->n, columns, (int)o->digits, f, "", out, e);
    } else {
        runs_table(l->v, l->n, f, "", out);
    }
    return 0;
}

static int print_comparison(const struct opt *o, struct ledger *l, struct strs columns,
                            struct arena *a, struct buf *out, struct err *e)
{
    struct comparison c = {0};
    struct compare_options co = {
        .baseline = o->baseline.n ? str_dup(a, o->baseline) : NULL,
        .seed_sd = o->seed_sd.n ? str_dup(a, o->seed_sd) : NULL,
        .allow = o->allow,
        .level = o->level,
        .columns = columns,
    };
    int rc = -1;
    if (ledger_fill(l, e) != 0)
        goto out;
    for (size_t i = 0; i < o->panel.n; i++)
        if (ledger_panel(l, str_dup(a, o->panel.v[i]), e) != 0)
            goto out;
    if (compare_runs(&c, l->v, l->n, &co, e) != 0)
        goto out;
    rc = 0;
    if (o->format == FORMAT_JSON)
        take_json(compare_json(&c), out);
    else
        rc = compare_print(&c, (enum table_format)o->format, (int)o->digits, out, e);
    if (rc == 0 && c.refused && !c.compared)
        rc = err_set(e, "nothing could be compared; each refusal is named above");
out:
    compare_release(&c);
    return rc;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct ledger l = {0};
    struct buf out = {0};
    int rc = -1;
    if (o->results.n == 0)
        return err_code(e, EXIT_USAGE, "which results? files, run folders or a folder of runs");
    struct strs by = listed_names(o->by.n ? o->by : o->sort, a),
                columns = listed_names(o->columns, a);
    struct query_field any;
    if (ledger_heads(&l, o->results, e) != 0 || ledger_select(&l, o->where, by, e) != 0)
        goto out;
    for (size_t k = 0; k < columns.n; k++)
        if (query_field(&any, columns.v[k], l.v, l.n, a, e) != 0)
            goto out;
    if (l.n == 0)
        err_set(e, "no run is left by the conditions");
    else if (o->list)
        rc = print_list(o, &l, columns, &out, e);
    else
        rc = print_comparison(o, &l, columns, a, &out, e);
    if (out.n)
        fwrite(out.p, 1, out.n, stdout);
out:
    buf_release(&out);
    ledger_release(&l);
    return rc == 0 ? EXIT_DONE : -1;
}

const struct command cmd_compare = {
    .room = "pipelines",
    .name = "compare",
    .summary = "differences between runs, with intervals and verdicts",
    .details =
        "Two verdicts a difference: \"these checkpoints\" is item noise (paired, clustered),\n"
        "\"these recipes\" is seed noise. A metric whose slice, vocabulary, window rule or\n"
        "items differ is refused by name; --allow marks it instead. Fields are named by their\n"
        "path in `assay cat result.msgpack` (timing.mfu, train.lr) or are metrics (bits_byte).",
    .options = &options,
    .run = run,
};
