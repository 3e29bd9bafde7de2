/* assay cat: any artefact as JSON lines. */
#include "base/command.h"
#include "base/str.h"
#include "formats/cat.h"

struct opt {
    struct str file;
    int64_t n;
};
#define AT(m) offsetof(struct opt, m)
static const struct field fields[] = {
    {"file", FIELD_STR, AT(file), NULL, .help = "the artefact", .flags = FIELD_POSITIONAL},
    {"n", FIELD_I64, AT(n), "-1", -1, 1e15,
     .help = "records, tensors, examples or ids to show; -1: all, of a token shard 64 ids"},
    {0},
};
#undef AT
static const struct schema options = {"cat", 1, sizeof(struct opt), fields};

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct opt *o = opt;
    return cat_path(str_dup(a, o->file), o->n, stdout, e) ? -1 : EXIT_DONE;
}

const struct command cmd_cat = {
    .room = "formats",
    .name = "cat",
    .summary = "show any artefact as JSON lines",
    .details =
        "Record files, safetensors, token and example shards, JSON, JSONL and folders with a\n"
        "manifest. Record kinds that this build does not know are shown as they stand.",
    .options = &options,
    .run = run,
};
