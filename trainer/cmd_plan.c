/* cmd_plan: options of `assay plan`. */
#include <math.h>
#include <stdio.h>

#include "base/command.h"
#include "base/file.h"
#include "trainer/plan.h"

struct options {
    struct str config, hardware;
    struct strs set;
    double utilisation, tokens_per_s, reserve_gib;
};

#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"config", FIELD_STR, AT(config), NULL, .help = "run file; [model] and [train] are read"},
    {"hardware", FIELD_STR, AT(hardware), NULL, .help = "hardware file"},
    {"utilisation", FIELD_F64, AT(utilisation), "0.35", 0.001, 1,
     .help = "assumed share of the peak, when no rate is given"},
    {"tokens_per_s", FIELD_F64, AT(tokens_per_s), "", 0.001, 1e15,
     .help = "measured rate of the whole machine"},
    {"reserve_gib", FIELD_F64, AT(reserve_gib), "1.5", 0, 1e6,
     .help = "assumed need of a device beside the planned buffers, GiB"},
    {"set", FIELD_STRS, AT(set), "", .help = "section.key=value over the run file; may repeat"},
    {0},
};
#undef AT
static const struct schema options = {"plan", 1, sizeof(struct options), fields};

static int run(void *opt, struct arena *a, struct err *e)
{
    struct options *o = opt;
    struct run r = {0};
    struct hardware h = {0};
    struct plan_result p;
    if (run_load(&r, str_dup(a, o->config), o->set, a, e) ||
        hardware_load(&h, str_dup(a, o->hardware), a, e))
        return -1;
    struct plan_options po = {&r, &h, o->utilisation, o->tokens_per_s, o->reserve_gib};
    if (plan_make(&p, &po, e))
        return -1;
    plan_print(&p, &po, stdout);
    if (p.micro_batch)
        return EXIT_DONE;
    return err_set(e, "not even one sequence fits on a device of %.*s", STR_ARG(h.name));
}

const struct command cmd_plan = {
    .room = "trainer",
    .name = "plan",
    .summary = "memory, micro-batch, time and money of a run on a machine",
    .details = "Memory is planned from the same list of buffers that train allocates. Time assumes "
               "a share of the\npeak, which is printed, unless a measured rate is given.",
    .options = &options,
    .run = run,
};
