/* assay tag: words and notes beside results, for finding them again. */
#include <stdio.h>

#include "base/clock.h"
#include "base/command.h"
#include "base/file.h"
#include "pipelines/ledger.h"

struct opt {
    struct strs results, add, remove;
    struct str note;
    bool clear_note;
};
static const struct field fields[] = {
    {.name = "results",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, results),
     .flags = FIELD_POSITIONAL,
     .help = "result files or run folders"},
    {.name = "add",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, add),
     .def = "",
     .help = "a tag that they get: one word"},
    {.name = "remove",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, remove),
     .def = "",
     .help = "a tag that they lose"},
    {.name = "note",
     .type = FIELD_STR,
     .at = offsetof(struct opt, note),
     .def = "",
     .help = "text in place of the notes before"},
    {.name = "clear_note",
     .type = FIELD_BOOL,
     .at = offsetof(struct opt, clear_note),
     .def = "false",
     .help = "the notes before go"},
    {0},
};
static const struct schema options = {"tag", 1, sizeof(struct opt), fields};

/* A tag is one word: lists of tags are split at commas, conditions end at blanks. */
static int check_tags(const struct strs *tags, const char *option, struct err *e)
{
    for (size_t i = 0; i < tags->n; i++) {
        struct str t = tags->v[i];
        bool bad = t.n == 0;
        for (size_t k = 0; k < t.n; k++)
            bad = bad || (unsigned char)t.p[k] <= ' ' || t.p[k] == ',' || t.p[k] == '"' ||
                  (unsigned char)t.p[k] == 127;
        if (bad)
            return err_code(e, EXIT_USAGE,
                            "%s \"%.*s\": a tag is one word without blanks, commas and quotes; "
                            "repeat %s for several, --note takes text",
                            option, STR_ARG(t), option);
    }
    return 0;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct clock *clock = clock_system();
    char now[32];
    if (o->results.n == 0)
        return err_code(e, EXIT_USAGE, "which results? files or run folders");
    if (o->add.n + o->remove.n + o->note.n + o->clear_note == 0)
        return err_code(e, EXIT_USAGE,
                        "nothing to say; give --add, --remove, --note or --clear-note");
    if (o->note.n && o->clear_note)
        return err_code(e, EXIT_USAGE, "--note and --clear-note: give one of them");
    for (size_t i = 0; i < o->add.n; i++)
        for (size_t k = 0; k < o->remove.n; k++)
            if (str_eq(o->add.v[i], o->remove.v[k]))
                return err_code(e, EXIT_USAGE, "--add %.*s --remove %.*s: which of the two?",
                                STR_ARG(o->add.v[i]), STR_ARG(o->add.v[i]));
    if (check_tags(&o->add, "--add", e) != 0)
        return -1;
    clock_iso(clock->wall(clock), now);
    struct note n = {str_z(now), o->add, o->remove, o->note, o->clear_note, {0}};
    for (size_t i = 0; i < o->results.n; i++) {
        const char *path = str_dup(a, o->results.v[i]);
        const char *own = path_join(a, path, "result.msgpack");
        bool unfinished = file_is_dir(path) && file_exists(path_join(a, path, "run.ini"));
        if (!(file_is_dir(path) ? unfinished || file_exists(own) : file_exists(path)))
            return err_set(e, "%s: no result and no run folder", path);
        if (ledger_note(path, &n, clock, e) != 0)
            return -1;
    }
    return EXIT_DONE;
}

const struct command cmd_tag = {
    .room = "pipelines",
    .name = "tag",
    .summary = "tags and notes beside results, for `compare --where tags=WORD`",
    .details =
        "Each call appends a record to result.notes.msgpack beside the result; the result\n"
        "itself stays as it is. Writers take the journal's lock and wait for each other for some\n"
        "seconds, readers need none.",
    .options = &options,
    .run = run,
};
