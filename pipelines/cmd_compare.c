/* assay compare: differences between runs, with intervals and verdicts. */
#include <stdio.h>

#include "base/command.h"
#include "pipelines/compare.h"
#include "pipelines/ledger.h"

enum { FORMAT_TABLE, FORMAT_MD, FORMAT_CSV, FORMAT_JSON };
static const char *const formats[] = {"table", "md", "csv", "json", NULL};

struct opt {
    struct strs results;
    struct str baseline, seed_sd;
    int format;
    bool allow;
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
    {.name = "level",
     .type = FIELD_F64,
     .at = offsetof(struct opt, level),
     .def = "0.95",
     .min = 0.5,
     .max = 0.999,
     .help = "confidence level of the intervals"},
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

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct ledger l = {0};
    struct comparison c = {0};
    struct buf out = {0};
    int rc = -1;
    if (o->results.n == 0)
        return err_code(e, EXIT_USAGE,
                        "compare: which results? files, run folders or a folder of runs");
    if (ledger_load(&l, o->results, e) != 0)
        return err_wrap(e, "compare");
    struct compare_options co = {
        .baseline = o->baseline.n ? str_dup(a, o->baseline) : NULL,
        .seed_sd = o->seed_sd.n ? str_dup(a, o->seed_sd) : NULL,
        .allow = o->allow,
        .level = o->level,
    };
    if (compare_runs(&c, l.v, l.n, &co, e) != 0)
        goto out;
    if (o->format == FORMAT_JSON) {
        struct json *j = compare_json(&c);
        json_write_pretty(j, &out);
        json_free(j);
    } else {
        compare_print(&c, (enum table_format)o->format, (int)o->digits, &out);
    }
    fwrite(out.p, 1, out.n, stdout);
    rc = EXIT_DONE;
    if (c.refused && !c.compared)
        rc = err_set(e, "compare: nothing could be compared; each refusal is named above");
out:
    buf_release(&out);
    compare_release(&c);
    ledger_release(&l);
    return rc;
}

const struct command cmd_compare = {
    .room = "pipelines",
    .name = "compare",
    .summary = "differences between runs, with intervals and verdicts",
    .details =
        "Two verdicts a difference: \"these checkpoints\" is item noise (paired, clustered),\n"
        "\"these recipes\" is seed noise. A metric whose slice, vocabulary, window rule or\n"
        "items differ is refused by name; --allow marks it instead.",
    .options = &options,
    .run = run,
};
