/* assay doctor: what this machine and this binary have, a line each. */
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "eval/model.h"
#include "formats/run.h"
#include "pipelines/price.h"
#include "pipelines/result.h"
#include "pipelines/starts.h"
#include "trainer/backend.h"
#include "trainer/gpt2.h"
#include "trainer/object.h"

struct opt {
    struct str judge, dir, price, config, hardware, data;
    struct strs set;
    double temperature;
};
static const struct field fields[] = {
    {.name = "judge",
     .type = FIELD_STR,
     .at = offsetof(struct opt, judge),
     .def = "",
     .help = "a judge to ask for one token, e.g. ollama:llama3"},
    {.name = "price",
     .type = FIELD_STR,
     .at = offsetof(struct opt, price),
     .def = "",
     .help = "price file of the judge, or a name in pipelines/prices: what a question costs"},
    {.name = "temperature",
     .type = FIELD_F64,
     .at = offsetof(struct opt, temperature),
     .def = "0",
     .min = -1,
     .max = 100,
     .help = "sent to the judge; -1: not sent, for models that refuse it"},
    {.name = "dir",
     .type = FIELD_STR,
     .at = offsetof(struct opt, dir),
     .def = ".",
     .help = "folder whose free disk space is told; with --config: the run's folder, of which what "
             "is there already needs no room"},
    {.name = "config",
     .type = FIELD_STR,
     .at = offsetof(struct opt, config),
     .def = "",
     .help = "run file: only look whether its training can start here (backend, precision, "
             "devices, disk)"},
    {.name = "hardware",
     .type = FIELD_STR,
     .at = offsetof(struct opt, hardware),
     .def = "",
     .help = "with --config: hardware file, whose devices are counted here"},
    {.name = "data",
     .type = FIELD_STR,
     .at = offsetof(struct opt, data),
     .def = "",
     .help = "with --config: the folder that $DATA stands for; rows of tasks must be in it"},
    {.name = "set",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, set),
     .def = "",
     .help = "with --config: section.key=value over the run file; may repeat"},
    {0},
};
static const struct schema options = {"doctor", 1, sizeof(struct opt), fields};

static void backend_line(void *ctx, const char *name, const char *state)
{
    (void)ctx;
    printf("%-12s %s\n", name, state);
}

/* A library that is looked for at run time, by the name that is asked for then. */
static void library_line(const char *name, const char *so, const char *without)
{
    struct link_map *at = NULL;
    void *h = dlopen(so, RTLD_LAZY | RTLD_LOCAL);
    if (h && dlinfo(h, RTLD_DI_LINKMAP, &at) == 0)
        printf("%-12s %s\n", name, at->l_name);
    else
        printf("%-12s no %s where the loader looks: %s\n", name, so, without);
    if (h)
        dlclose(h);
}

static void rank_lines(void)
{
    library_line("nccl", "libnccl.so.2",
                 "ranks on several GPUs need NCCL_HOME, CUDA_HOME or pip's nvidia-nccl");
    library_line("nvml", "libnvidia-ml.so.1", "energy and clocks of GPUs are unknown");
    printf("%-12s %s\n", "mpi",
           object_exists("mpi") ? "libassay_mpi.so is there"
                                : "libassay_mpi.so was not built: no CPU ranks on several machines "
                                  "(make deps MPI=1, then make)");
}

/* One request of one token: the probe that tells "reachable". */
struct probe {
    bool asked, answered;
    struct str said, model;
    int64_t tokens_in, tokens_out;
    double seconds, temperature;
    struct arena *a;
};

static int probe_next(void *ctx, struct request *q, struct err *e)
{
    struct probe *p = ctx;
    (void)e;
    if (p->asked)
        return 0;
    p->asked = true;
    *q = (struct request){.kind = REQUEST_GENERATE,
                          .id = STR_LIT("doctor"),
                          .prompt = STR_LIT("Answer with one word: ready"),
                          .max_tokens = 1,
                          .temperature = p->temperature};
    return 1;
}

static int probe_done(void *ctx, const struct request *q, const struct response *r, struct err *e)
{
    struct probe *p = ctx;
    (void)q;
    (void)e;
    p->answered = r->finish != FINISH_ERROR;
    p->said = str_copy(p->a, p->answered ? r->text : r->detail);
    p->model = str_copy(p->a, r->model);
    p->tokens_in = r->tokens_in;
    p->tokens_out = r->tokens_out;
    p->seconds = r->ms / 1000;
    return 0;
}

/* What the probe used, and what a typical question would: 300 tokens of task, reference and answer
 * and a verdict of 10, by the price file. */
static void judge_cost(const struct probe *p, const struct price *price)
{
    double money = price_of(price, p->tokens_in, p->tokens_out);
    double question = price_of(price, 300, 10);
    char text[PRICE_TEXT], more[PRICE_TEXT];
    if (p->tokens_in == FIELD_NONE_I64)
        printf("%-12s the probe's tokens are unknown: it does not count them", "");
    else
        printf("%-12s the probe took %lld + %lld tokens", "", (long long)p->tokens_in,
               (long long)(p->tokens_out == FIELD_NONE_I64 ? 0 : p->tokens_out));
    if (!price)
        printf("; what they cost is unknown (--price FILE)\n");
    else if (isfinite(money))
        printf(", %s %.*s; 1000 questions of 300 + 10 tokens are about %s %.*s\n",
               price_text(money, text), STR_ARG(price->currency), price_text(1000 * question, more),
               STR_ARG(price->currency));
    else
        printf("; 1000 questions of 300 + 10 tokens are about %s %.*s\n",
               price_text(1000 * question, more), STR_ARG(price->currency));
}

/* Asked again without a temperature, if that is what it refuses. */
static int ask_once(struct model *m, struct probe *p, struct err *e)
{
    int rc = m->ops->answer(m, probe_next, probe_done, p, e);
    bool refused = rc && p->temperature >= 0 && strstr(e->msg, "\"temperature\"");
    if (!refused)
        return rc;
    p->asked = false;
    p->temperature = -1;
    rc = m->ops->answer(m, probe_next, probe_done, p, e);
    if (rc == 0)
        printf("%-12s refuses a temperature: give --temperature -1\n", "judge");
    return rc;
}

static int ask_judge(const char *spec, const struct price *price, double temperature,
                     struct arena *a, struct err *e)
{
    struct model m = {0};
    struct model_options o = {.concurrency = 1, .timeout = 30, .retries = 0};
    struct probe p = {.a = a, .temperature = temperature};
    int rc = 1;
    if (model_open(&m, spec, &o, e) != 0) {
        printf("%-12s %s: no: %s\n", "judge", spec, e->msg);
        return 1;
    }
    if (ask_once(&m, &p, e) != 0)
        printf("%-12s %s: no: %s\n", "judge", spec, e->msg);
    else if (!p.answered)
        printf("%-12s %s: no: %.*s\n", "judge", spec, STR_ARG(p.said));
    else {
        printf("%-12s %s: answers in %.2f s as %.*s (\"%.*s\")\n", "judge", spec, p.seconds,
               STR_ARG(p.model), STR_ARG(str_trim(p.said)));
        judge_cost(&p, price);
        rc = 0;
    }
    model_close(&m);
    return rc;
}

static int check_run(const struct opt *o, struct arena *a, struct err *e)
{
    struct run r = {0};
    struct hardware h;
    const char *backend;
    if (run_load(&r, str_dup(a, o->config), o->set, a, e) ||
        (o->hardware.n &&
         (hardware_load(&h, str_dup(a, o->hardware), a, e) || devices_here(&r, &h, e))) ||
        starts_here(&r, &backend, e) || model_here(&r, a, e) ||
        tasks_here(&r, str_dup(a, o->data), a, e) ||
        room_here(&r, str_dup(a, o->data), str_dup(a, o->dir), a, e))
        return -1;
    if (!r.model.from.n)
        printf("%-12s trains on %s in %s\n", "run", backend, precision_names[r.train.precision]);
    return EXIT_DONE;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    if (o->config.n)
        return check_run(o, a, e);
    struct result_hardware h = {0};
    struct result_software s = {0};
    result_machine(&h, a);
    result_software(&s, a);
    printf("%-12s %.*s, %lld usable, %.1f GiB of memory\n", "cpu", STR_ARG(h.cpu),
           (long long)h.cpus, h.memory_gib);
    printf("%-12s %.*s\n", "system", STR_ARG(h.os));
    printf("%-12s %.*s, commit %.*s%s, %.*s\n", "assay", STR_ARG(s.version), STR_ARG(s.commit),
           s.dirty == 1 ? " with changes" : "", STR_ARG(s.compiler));
    for (size_t i = 0; i < s.libraries.n; i++)
        printf("%-12s %.*s\n", "library", STR_ARG(s.libraries.v[i]));
    backend_list(backend_line, NULL);
    rank_lines();
    int64_t disk = disk_free(str_dup(a, o->dir));
    if (disk < 0)
        printf("%-12s unknown\n", "disk");
    else
        printf("%-12s %.1f GiB free in %.*s\n", "disk", (double)disk / (1 << 30), STR_ARG(o->dir));
    static const char *const keys[] = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ASSAY_API_KEY"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        printf("%-12s %s is %s\n", "key", keys[i], getenv(keys[i]) ? "set" : "not set");
    if (o->judge.n == 0) {
        printf("%-12s none asked (--judge SPEC)\n", "judge");
        return EXIT_DONE;
    }
    struct price price;
    if (o->price.n && price_load(&price, o->price, a, e))
        return -1;
    const char *judge = str_dup(a, o->judge);
    if (o->price.n && !price_is_for(&price, judge))
        log_warn("the price is that of %.*s, the judge is %s: the money said is not its",
                 STR_ARG(price.model), judge);
    int rc = ask_judge(judge, o->price.n ? &price : NULL, o->temperature, a, e);
    return rc == 0 ? EXIT_DONE : EXIT_FAILED;
}

const struct command cmd_doctor = {
    .room = "pipelines",
    .name = "doctor",
    .summary = "what this machine has: cores, memory, backends, libraries, a judge",
    .options = &options,
    .run = run,
};
