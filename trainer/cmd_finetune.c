/* cmd_finetune: options of `assay finetune`. */
#include "base/command.h"
#include "trainer/finetune.h"
#include "trainer/launch.h"
#include "trainer/train_folder.h"

struct options {
    struct str init, config, examples, out, hardware, backend;
    int64_t seed, ranks;
    struct strs set;
};

#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"init", FIELD_STR, AT(init), NULL, .help = "checkpoint folder to start at"},
    {"config", FIELD_STR, AT(config), NULL,
     .help = "run file; [finetune] is read, and what [train] says of the machine"},
    {"examples", FIELD_STR, AT(examples), NULL,
     .help = "folder with train.bin and val.bin of `assay shard --instruct`"},
    {"out", FIELD_STR, AT(out), NULL, .help = "folder to write"},
    {"seed", FIELD_I64, AT(seed), "-1", -1, 1e15,
     .help = "order of the examples and dropout; -1: finetune.seed"},
    {"ranks", FIELD_I64, AT(ranks), "0", 0, 4096,
     .help = "start this many processes on this machine; 0: train.ranks of the run file"},
    {"hardware", FIELD_STR, AT(hardware), "",
     .help = "hardware file: without ranks, one for each of its GPUs that is here"},
    {"backend", FIELD_STR, AT(backend), "",
     .help = "auto, cpu or cuda; default: the run file's train.backend"},
    {"set", FIELD_STRS, AT(set), "", .help = "section.key=value over the run file; may repeat"},
    {0},
};
#undef AT
static const struct schema options = {"finetune", 1, sizeof(struct options), fields};

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
    struct finetune_options f = {.run = &r,
                                 .init = str_dup(a, o->init),
                                 .examples = str_dup(a, o->examples),
                                 .out = str_dup(a, o->out),
                                 .seed = o->seed};
    struct rendezvous_seat seat;
    bool launched;
    struct launch_wish wish = {o->ranks, r.train.ranks, o->hardware.n ? &h : NULL, r.train.backend};
    int status, rc = launch_command(&wish, &seat, &launched, &status, e);
    if (rc < 0 && launched)
        folder_killed(f.out, e);
    if (rc <= 0)
        return rc < 0 ? -1 : status;
    f.seat = launched ? &seat : NULL;
    launch_interrupts(f.seat);
    return finetune_run(&f, e);
}

const struct command cmd_finetune = {
    .room = "trainer",
    .name = "finetune",
    .summary = "fine-tune a checkpoint on instructions",
    .details = "Stops after finetune.patience epochs without a better validation loss and writes "
               "the best epoch's\nweights to OUT/checkpoint/ (OUT/latest points there). Several "
               "processes (ranks) share each batch,\nas in `assay train`.",
    .options = &options,
    .run = run,
};
