/* cmd_train: options of `assay train`. */
#include "base/command.h"
#include "trainer/launch.h"
#include "trainer/train.h"
#include "trainer/train_folder.h"

struct options {
    struct str config, shards, out, hardware, backend;
    bool resume;
    int64_t ranks;
    struct strs set;
};

#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"config", FIELD_STR, AT(config), NULL, .help = "run file; [model] and [train] are read"},
    {"shards", FIELD_STR, AT(shards), NULL, .help = "folder of token shards"},
    {"out", FIELD_STR, AT(out), NULL, .help = "folder of checkpoints to write"},
    {"resume", FIELD_BOOL, AT(resume), "false",
     .help = "insist on going on from the newest checkpoint of the same run"},
    {"ranks", FIELD_I64, AT(ranks), "0", 0, 4096,
     .help = "start this many processes on this machine; 0: train.ranks of the run file"},
    {"hardware", FIELD_STR, AT(hardware), "",
     .help = "hardware file: which machine and price segments.jsonl names; decides nothing"},
    {"backend", FIELD_STR, AT(backend), "",
     .help = "auto, cpu or cuda; default: the run file's train.backend"},
    {"set", FIELD_STRS, AT(set), "", .help = "section.key=value over the run file; may repeat"},
    {0},
};
#undef AT
static const struct schema options = {"train", 1, sizeof(struct options), fields};

static int run(void *opt, struct arena *a, struct err *e)
{
    struct options *o = opt;
    struct run r = {0};
    if (run_load(&r, str_dup(a, o->config), o->set, a, e))
        return -1;
    if (o->backend.n)
        r.train.backend = o->backend;
    struct hardware h;
    if (o->hardware.n && hardware_load(&h, str_dup(a, o->hardware), a, e))
        return -1;
    if (o->hardware.n)
        hardware_at(&h, r.train.precision);
    struct train_options t = {&r,        str_dup(a, o->shards),     str_dup(a, o->out),
                              o->resume, o->hardware.n ? &h : NULL, NULL};
    struct rendezvous_seat seat;
    bool launched;
    struct launch_wish wish = {o->ranks, r.train.ranks, t.hardware, r.train.backend};
    int status, rc = launch_command(&wish, &seat, &launched, &status, e);
    if (rc < 0 && launched)
        folder_killed(t.out, e);
    if (rc <= 0)
        return rc < 0 ? -1 : status;
    t.seat = launched ? &seat : NULL;
    launch_interrupts(t.seat);
    return train_run(&t, e);
}

const struct command cmd_train = {
    .room = "trainer",
    .name = "train",
    .summary = "pre-train a model on token shards",
    .details =
        "Writes OUT/step-N/ checkpoint folders (Hugging Face GPT-2 layout), the links latest "
        "and best,\nmetrics.jsonl with a line a step, and OUT/manifest.json last. Run again "
        "after a kill, a signal\nor max_hours it goes on from the newest checkpoint and ends "
        "with the same bytes (on cuda with\nASSAY_CUDA_TUNE=separate). SIGINT, SIGTERM and SIGUSR1 "
        "save a checkpoint and end with status 4.\nSeveral processes (ranks) read one batch "
        "together:\n--ranks starts them "
        "here, mpirun, srun or torchrun-like launchers on many machines (docs/clusters.md).",
    .options = &options,
    .run = run,
};
