/* assay sweep: a grid of options as run files, the next one to run, and what they say. */
#include <math.h>
#include <stdio.h>

#include "base/command.h"
#include "base/log.h"
#include "pipelines/sweep.h"

static const char *const formats[] = {"table", "md", "csv", NULL};

struct opt {
    struct str file, runs, run_files, out, after, hardware;
    struct strs set;
    bool next, names;
    int format;
};
#define AT(m) offsetof(struct opt, m)
static const struct field fields[] = {
    {"file", FIELD_STR, AT(file), NULL, .flags = FIELD_POSITIONAL, .help = "sweep file (INI)"},
    {"runs", FIELD_STR, AT(runs), "runs", .help = "folder of the run folders"},
    {"run_files", FIELD_STR, AT(run_files), "pipelines/runs", .help = "folder of the run files"},
    {"out", FIELD_STR, AT(out), "", .help = "writes a run file for each cell into OUT/files"},
    {"next", FIELD_BOOL, AT(next), "false",
     .help = "prints the next cell to run, or nothing; status 4 at the budget's end"},
    {"after", FIELD_STR, AT(after), "", .help = "with --next: one that stands behind this cell"},
    {"hardware", FIELD_STR, AT(hardware), "",
     .help =
         "hardware file of the machine that will run them: whose price sweep.max_money goes by"},
    {"names", FIELD_BOOL, AT(names), "false", .help = "prints the names of the finished runs"},
    {"format", FIELD_ENUM, AT(format), "table", .choices = formats, .help = "how to print"},
    {"set", FIELD_STRS, AT(set), "", .help = "section.key=value over every cell"},
    {0},
};
#undef AT
static const struct schema options = {"sweep", 1, sizeof(struct opt), fields};

static int next(const struct sweep *s, const char *after, struct err *e)
{
    char why[256];
    const struct cell *c = sweep_next(s, after, why);
    if (c)
        printf("%s\n", c->name);
    return why[0] ? err_code(e, EXIT_INCOMPLETE, "sweep %s: %s", s->name, why) : EXIT_DONE;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct sweep s;
    struct buf out = {0};
    struct hardware h = {.price_hour = NAN};
    const char *files = str_dup(a, o->run_files), *runs = str_dup(a, o->runs);
    int rc = -1;
    if (sweep_load(&s, str_dup(a, o->file), files, o->set, e))
        goto out;
    if (o->hardware.n && hardware_load(&h, str_dup(a, o->hardware), a, e))
        goto out;
    if (sweep_look(&s, runs, e) || sweep_check(&s, h.price_hour, o->out.n || o->next, e))
        goto out;
    if (o->out.n && sweep_starts(&s, runs, e))
        goto out;
    if (o->out.n && sweep_write(&s, files, str_dup(a, o->out), e))
        goto out;
    if (o->next) {
        rc = next(&s, o->after.n ? str_dup(a, o->after) : NULL, e);
        goto out;
    }
    size_t left = 0;
    for (size_t i = 0; i < s.n; i++) {
        left += !s.v[i].done;
        if (o->names && s.v[i].done)
            printf("%s\n", s.v[i].name);
    }
    rc = EXIT_DONE;
    if (o->names || (o->out.n && left == s.n))
        goto out;
    sweep_print(&s, (enum table_format)o->format, &out);
    fwrite(out.p, 1, out.n, stdout);
    if (left)
        rc = err_code(e, EXIT_INCOMPLETE, "sweep %s: %zu of %zu runs are not there yet", s.name,
                      left, s.n);
out:
    buf_release(&out);
    sweep_release(&s);
    return rc;
}

const struct command cmd_sweep = {
    .room = "pipelines",
    .name = "sweep",
    .summary = "a grid of options as ordinary runs, with a fitted curve",
    .details = "`make sweep SWEEP=name` runs the cells of pipelines/sweeps/NAME.ini, one after "
               "another within the budget,\nand ends in their comparison and the curve. Run again "
               "it goes on. Status 4: cells are missing\n(make turns every failure into its own "
               "2). docs/sweep.md.",
    .options = &options,
    .run = run,
};
