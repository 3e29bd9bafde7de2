/* cmd_plan: options of `assay plan`. */
#include <math.h>
#include <stdio.h>

#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "formats/record.h"
#include "trainer/plan.h"
#include "trainer/plan_scale.h"

enum { MOST_MACHINES = 64, MOST_RESULTS = 100000 };

struct options {
    struct str config;
    struct strs set, hardware, results;
    double utilisation, matrix_share, memory_share, tokens_per_s, reserve_gib;
    bool scale;
};

#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"config", FIELD_STR, AT(config), NULL, .help = "run file; [model] and [train] are read"},
    {"hardware", FIELD_STRS, AT(hardware), NULL, .help = "hardware files; several: one table"},
    {"results", FIELD_STRS, AT(results), "",
     .help = "measured runs (result files, run folders, folders of runs) that calibrate the speed"},
    {"scale", FIELD_BOOL, AT(scale), "false", .help = "the same run on 1 to 1,024 devices as well"},
    {"utilisation", FIELD_F64, AT(utilisation), "", 0.001, 1,
     .help =
         "assumed share of the peak, when no rate is given or measured; default: a roofline, or "
         "0.35 without bandwidth_gbs"},
    {"matrix_share", FIELD_F64, AT(matrix_share), "", 0.001, 1,
     .help = "roofline: assumed share of the peak in matrix products; default: the hardware "
             "file's, or 0.7"},
    {"memory_share", FIELD_F64, AT(memory_share), "0.85", 0.001, 1,
     .help = "roofline: assumed share of the memory's bandwidth in passes over it"},
    {"tokens_per_s", FIELD_F64, AT(tokens_per_s), "", 0.001, 1e15,
     .help = "measured rate of the whole machine"},
    {"reserve_gib", FIELD_F64, AT(reserve_gib), "1.5", 0, 1e6,
     .help = "assumed need of a device beside the planned buffers, GiB"},
    {"set", FIELD_STRS, AT(set), "", .help = "section.key=value over the run file; may repeat"},
    {0},
};
#undef AT
static const struct schema options = {"plan", 1, sizeof(struct options), fields};

struct measured {
    struct result *v;
    size_t n, room;
};

static int add_result(struct measured *m, const char *path, struct arena *a, struct err *e)
{
    if (m->n == m->room) {
        struct result *v = arena_array(a, m->room = 2 * m->room + 64, sizeof *v);
        for (size_t i = 0; i < m->n; i++)
            v[i] = m->v[i];
        m->v = v;
    }
    return record_load(path, &result_schema, &m->v[m->n], a, e) ? -1 : (m->n++, 0);
}

/* A result, a run folder, or a folder of run folders. */
static int add_results(struct measured *m, const char *path, struct arena *a, struct err *e)
{
    const char *own = path_join(a, path, "result.msgpack");
    struct strs names;
    size_t before = m->n;
    if (!file_is_dir(path))
        return add_result(m, path, a, e);
    if (file_exists(own))
        return add_result(m, own, a, e);
    if (file_list(path, &names, a, e))
        return -1;
    for (size_t i = 0; i < names.n && m->n < MOST_RESULTS; i++) {
        const char *dir = path_join(a, path, str_dup(a, names.v[i]));
        own = path_join(a, dir, "result.msgpack");
        if (file_exists(own) && add_result(m, own, a, e))
            return -1;
    }
    return m->n > before ? 0 : err_set(e, "%s: no result.msgpack here or one folder below", path);
}

/* Which of the given results calibrate a machine: what is skipped is not skipped in silence. */
static void say_counted(const struct plan_options *po, size_t n)
{
    const struct hardware *h = po->hardware;
    long long counted = po->measured.runs;
    if (n && !counted)
        log_warn(
            "%.*s: none of the %zu results in --results counts: none is of %.*s at %s, within a "
            "factor of four in parameters, timed and on one machine",
            STR_ARG(h->name), n, STR_ARG(h->device), precision_names[po->run->train.precision]);
    else if (n && (size_t)counted < n)
        log_info("%.*s: %lld of the %zu results in --results count%s", STR_ARG(h->name), counted, n,
                 counted == 1 ? "s" : "");
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct options *o = opt;
    struct run r = {0};
    struct measured m = {0};
    struct hardware h[MOST_MACHINES];
    struct plan_result p[MOST_MACHINES];
    struct plan_options po[MOST_MACHINES];
    size_t n = o->hardware.n, fit = 0, refused = 0;
    if (n < 1 || n > MOST_MACHINES)
        return err_code(e, EXIT_USAGE, "--hardware takes 1 to %d files", MOST_MACHINES);
    if (n > 1 && !isnan(o->tokens_per_s))
        return err_code(e, EXIT_USAGE, "--tokens-per-s is of one machine, not of %zu", n);
    if (run_load(&r, str_dup(a, o->config), o->set, a, e))
        return -1;
    for (size_t i = 0; i < o->results.n; i++)
        if (add_results(&m, str_dup(a, o->results.v[i]), a, e))
            return -1;
    for (size_t i = 0; i < n; i++) {
        if (hardware_load(&h[i], str_dup(a, o->hardware.v[i]), a, e))
            return -1;
        hardware_at(&h[i], r.train.precision);
        po[i] = (struct plan_options){.run = &r,
                                      .hardware = &h[i],
                                      .utilisation = o->utilisation,
                                      .matrix_share = o->matrix_share,
                                      .memory_share = o->memory_share,
                                      .tokens_per_s = o->tokens_per_s,
                                      .reserve_gib = o->reserve_gib,
                                      .measured = {.utilisation = NAN}};
        struct err why = {0};
        if (n > 1 && plan_possible(&po[i], &why)) {
            p[i] = (struct plan_result){.seconds = INFINITY, .money = INFINITY};
            snprintf(p[i].refused, sizeof p[i].refused, "%.399s", why.msg);
            *e = why;
            refused++;
            continue;
        }
        if (plan_make(&p[i], &po[i], e))
            return -1;
        po[i].measured = plan_calibrate(m.v, m.n, &h[i], r.train.precision, p[i].parameters, a);
        if (plan_make(&p[i], &po[i], e))
            return -1;
        plan_complain(&p[i], &po[i]);
        say_counted(&po[i], m.n);
        fit += p[i].micro_batch > 0;
    }
    if (refused == n)
        return -1;
    if (n == 1)
        plan_print(&p[0], &po[0], stdout);
    else
        plan_print_many(p, po, n, stdout);
    for (size_t i = 0; o->scale && i < n; i++) {
        if (!p[i].micro_batch)
            continue; /* on more devices it does not fit either: nothing is sharded */
        if (n > 1)
            printf("\n%.*s\n", STR_ARG(h[i].name));
        plan_print_scale(&p[i], &po[i], stdout);
    }
    if (fit)
        return EXIT_DONE;
    return n == 1 ? err_set(e, "not even one sequence fits on a device of %.*s", STR_ARG(h[0].name))
                  : err_set(e, "not even one sequence fits on a device of any of these");
}

const struct command cmd_plan = {
    .room = "trainer",
    .name = "plan",
    .summary = "memory, micro-batch, time and money of a run on machines",
    .details =
        "Memory is planned from the same list of buffers that train allocates. Time is by a "
        "roofline, whose\nassumptions are printed, unless measured runs (--results) or a rate "
        "are given. docs/plan.md.",
    .options = &options,
    .run = run,
};
