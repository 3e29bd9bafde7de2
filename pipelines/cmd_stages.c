/* assay stages: a run file into make rules, stamps and the resolved run.ini. */
#include <stdio.h>
#include <string.h>

#include "base/command.h"
#include "base/file.h"
#include "pipelines/stages.h"
#include "pipelines/starts.h"

struct opt {
    struct str file, name, runs, stamps, out;
    struct strs set;
};
static const struct field fields[] = {
    {.name = "file",
     .type = FIELD_STR,
     .at = offsetof(struct opt, file),
     .flags = FIELD_POSITIONAL,
     .help = "run file (INI)"},
    {.name = "name",
     .type = FIELD_STR,
     .at = offsetof(struct opt, name),
     .def = "",
     .help = "name of the run; default: the file's name without .ini"},
    {.name = "runs",
     .type = FIELD_STR,
     .at = offsetof(struct opt, runs),
     .def = "runs",
     .help = "folder of the run folders"},
    {.name = "stamps",
     .type = FIELD_STR,
     .at = offsetof(struct opt, stamps),
     .def = "",
     .help = "folder of the option stamps; default: OUT without .mk"},
    {.name = "out",
     .type = FIELD_STR,
     .at = offsetof(struct opt, out),
     .def = "",
     .help = "make file to write; default: standard output, and nothing else is written"},
    {.name = "set",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, set),
     .def = "",
     .help = "section.key=value over the run file; may be repeated"},
    {0},
};
static const struct schema options = {"stages", 1, sizeof(struct opt), fields};

/* Rewrites only what changed, so that times tell make the truth. */
static int write_changed(const char *path, struct str text, struct err *e)
{
    struct buf old = {0};
    struct err ignored;
    bool same =
        file_exists(path) && file_read(path, &old, 0, &ignored) == 0 && str_eq(buf_str(&old), text);
    buf_release(&old);
    return same ? 0 : file_write_all(path, text, e);
}

static int write_stamps(const struct run *r, const char *dir, struct arena *a, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && stage_sections[i]; i++) {
        struct buf b = {0};
        stages_section(r, stage_sections[i], &b);
        rc = write_changed(arena_printf(a, "%s/%s.stamp", dir, stage_sections[i]), buf_str(&b), e);
        buf_release(&b);
    }
    return rc;
}

static bool name_ok(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || (c == '.' && i > 0)))
            return false;
    }
    return s.n > 0;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct run r;
    struct buf mk = {0}, ini = {0};
    int rc = -1;
    const char *file = str_dup(a, o->file), *base = path_base(file);
    struct str name = o->name.n ? o->name : str_z(base);
    if (!o->name.n && str_ends(name, ".ini"))
        name.n -= 4;
    if (!name_ok(name))
        return err_code(e, EXIT_USAGE, "a run can't be called \"%.*s\"", STR_ARG(name));
    const char *out = str_dup(a, o->out);
    struct str stem = o->out;
    if (str_ends(stem, ".mk"))
        stem.n -= 3;
    const char *stamps = o->stamps.n ? str_dup(a, o->stamps)
                         : o->out.n  ? str_dup(a, stem)
                                     : arena_printf(a, "build/runs/%.*s", STR_ARG(name));
    if (run_load(&r, file, o->set, a, e) != 0)
        return -1;
    model_brings(&r, a);
    struct stages_in in = {.name = str_dup(a, name), .stamps = stamps, .run = &r};
    if (stages_write(&in, &mk, a, e) != 0)
        goto out;
    if (!o->out.n) {
        fwrite(mk.p, 1, mk.n, stdout);
        rc = 0;
        goto out;
    }
    stages_ini(&r, &ini);
    if (write_stamps(&r, stamps, a, e) != 0 ||
        write_changed(arena_printf(a, "%.*s/%.*s/run.ini", STR_ARG(o->runs), STR_ARG(name)),
                      buf_str(&ini), e) != 0 ||
        write_changed(out, buf_str(&mk), e) != 0 || file_touch(out, e) != 0)
        goto out;
    rc = 0;
out:
    buf_release(&mk);
    buf_release(&ini);
    return rc;
}

const struct command cmd_stages = {
    .room = "pipelines",
    .name = "stages",
    .summary = "turn a run file into make rules",
    .details = "Writes one rule a stage, one stamp a section (rewritten only when the section\n"
               "changed) and the resolved run.ini into the run's folder. `make run RUN=name`\n"
               "calls it; by hand it shows what would be done.",
    .options = &options,
    .run = run,
};
