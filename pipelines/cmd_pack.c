/* assay pack, assay unpack, and what make asks before it runs a stage: assay sealed. */
#include <stdio.h>
#include <string.h>

#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "pipelines/pack.h"

/* ---- pack ------------------------------------------------------------------------------------- */

struct pack_opt {
    struct str run, out;
    struct strs with;
    int64_t small;
};
#define AT(m) offsetof(struct pack_opt, m)
static const struct field pack_fields[] = {
    {"run", FIELD_STR, AT(run), NULL, .help = "run folder", .flags = FIELD_POSITIONAL},
    {"out", FIELD_STR, AT(out), "", .help = "archive to write; default: RUN's name and .tar, here"},
    {"with", FIELD_STRS, AT(with), "", .help = "model, optimizer: take these along"},
    {"small", FIELD_I64, AT(small), "4M", 0, 1e15,
     .help = "artefacts of at most this many bytes go along whole"},
    {0},
};
#undef AT
static const struct schema pack_options = {"pack", 1, sizeof(struct pack_opt), pack_fields};

static int take_with(struct str one, struct pack_options *p, struct err *e)
{
    while (one.n) {
        struct str w = str_trim(str_cut(&one, ','));
        if (str_eqz(w, "model"))
            p->model = true;
        else if (str_eqz(w, "optimizer"))
            p->optimizer = true;
        else
            return err_code(e, EXIT_USAGE, "--with takes model and optimizer, not \"%.*s\"",
                            STR_ARG(w));
    }
    return 0;
}

static const char *folder_name(struct str s, struct arena *a)
{
    while (s.n > 1 && s.p[s.n - 1] == '/')
        s.n--;
    return str_dup(a, s);
}

static int run_pack(void *opt, struct arena *a, struct err *e)
{
    struct pack_opt *o = opt;
    struct pack_options p = {.small = o->small};
    struct packed sum;
    const char *dir = folder_name(o->run, a);
    const char *out = o->out.n ? str_dup(a, o->out) : arena_printf(a, "%s.tar", path_base(dir));
    for (size_t i = 0; i < o->with.n; i++)
        if (take_with(o->with.v[i], &p, e))
            return -1;
    if (pack_run(dir, out, &p, &sum, a, e))
        return -1;
    log_info("%s: %lld files, %lld bytes; %lld artefact%s their bulk behind", out,
             (long long)sum.files, (long long)sum.bytes, (long long)sum.left,
             sum.left == 1 ? " leaves" : "s leave");
    printf("%s\n", out);
    return EXIT_DONE;
}

const struct command cmd_pack = {
    .room = "pipelines",
    .name = "pack",
    .summary = "a run's manifests, metrics, evaluations and result as one archive",
    .details = "The archive is a tar that any tar reads. Data, shards and other artefacts beyond "
               "--small stay behind,\nmodels and optimisers too unless --with names them. Equal "
               "folders give equal archives.",
    .options = &pack_options,
    .run = run_pack,
};

/* ---- unpack ----------------------------------------------------------------------------------- */

struct unpack_opt {
    struct str archive, runs;
    bool replace;
};
#define AT(m) offsetof(struct unpack_opt, m)
static const struct field unpack_fields[] = {
    {"archive", FIELD_STR, AT(archive), NULL, .help = "made by assay pack; gzip and zstd too",
     .flags = FIELD_POSITIONAL},
    {"runs", FIELD_STR, AT(runs), "runs", .help = "folder of the run folders"},
    {"replace", FIELD_BOOL, AT(replace), "false",
     .help = "in place of a run of that name; bulk that the archive lacks is kept or refused"},
    {0},
};
#undef AT
static const struct schema unpack_options = {"unpack", 1, sizeof(struct unpack_opt), unpack_fields};

static int run_unpack(void *opt, struct arena *a, struct err *e)
{
    struct unpack_opt *o = opt;
    struct packed sum;
    const char *runs = folder_name(o->runs, a);
    if (pack_open(str_dup(a, o->archive), runs, o->replace, &sum, a, e))
        return -1;
    log_info("%lld files, %lld bytes, each as its hash says; %lld artefact%s left their bulk where "
             "they were made",
             (long long)sum.files, (long long)sum.bytes, (long long)sum.left,
             sum.left == 1 ? "" : "s");
    if (sum.kept)
        log_info(
            "%lld file%s of the run that was there %s kept: the archive's manifests name their "
            "bytes",
            (long long)sum.kept, sum.kept == 1 ? "" : "s", sum.kept == 1 ? "is" : "are");
    printf("%s/%.*s\n", runs, STR_ARG(sum.run));
    return EXIT_DONE;
}

const struct command cmd_unpack = {
    .room = "pipelines",
    .name = "unpack",
    .summary = "put a packed run among the others",
    .details = "Every file is checked against the archive's list; the run's folder appears whole "
               "or not at all.\nStages whose bulk is not here are sealed: make leaves them, and "
               "says where they were made.",
    .options = &unpack_options,
    .run = run_unpack,
};

/* ---- sealed ----------------------------------------------------------------------------------- */

struct sealed_opt {
    struct str manifest, run, sections;
};
#define AT(m) offsetof(struct sealed_opt, m)
static const struct field sealed_fields[] = {
    {"manifest", FIELD_STR, AT(manifest), NULL, .help = "of the stage", .flags = FIELD_POSITIONAL},
    {"run", FIELD_STR, AT(run), NULL, .help = "run folder"},
    {"sections", FIELD_STR, AT(sections), "", .help = "of the run file that decide the stage"},
    {0},
};
#undef AT
static const struct schema sealed_options = {"sealed", 1, sizeof(struct sealed_opt), sealed_fields};

static int run_sealed(void *opt, struct arena *a, struct err *e)
{
    struct sealed_opt *o = opt;
    struct str artefact = o->manifest, rest = o->sections;
    struct strs sections = {0};
    if (str_ends(artefact, "/manifest.json"))
        artefact.n -= strlen("/manifest.json");
    else if (str_ends(artefact, ".manifest.json"))
        artefact.n -= strlen(".manifest.json");
    while (rest.n)
        strs_push(&sections, str_cut(&rest, ' '), a);
    int rc = pack_sealed(folder_name(o->run, a), str_dup(a, artefact), sections, a, e);
    return rc < 0 ? -1 : rc ? EXIT_DONE : EXIT_INCOMPLETE;
}

const struct command cmd_sealed = {
    .room = "pipelines",
    .name = "sealed",
    .summary = "make asks: did this stage's bulk stay on another machine",
    .details = "Status 0: sealed, nothing is to be done. 4: not sealed, the stage is to be run. 1: "
               "sealed, but with\nother options or inputs than are asked for now.",
    .options = &sealed_options,
    .run = run_sealed,
};
