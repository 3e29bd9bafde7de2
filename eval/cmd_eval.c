/* cmd_eval: options of the evaluation tasks. [eval] of a run file, then options. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/file.h"
#include "eval/model.h"
#include "eval/tasks.h"
#include "trainer/launch.h"
#include "trainer/ranks.h"

static const char *const tasks[] = {"windows", "documents", "instruct", "choice", NULL};

struct options {
    struct str model, vocab, shards, items, template_, out, backend, config, task_file, shots_from,
        items_out, hardware, precision;
    struct strs sets, stop;
    int task;
    int64_t window, start, tokens, batch, max_new_tokens, top_k, seed, threads, concurrency,
        retries, max_requests, shots, stride, ranks;
    double temperature, top_p, min_p, repetition_penalty, timeout, max_invalid;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"model", FIELD_STR, AT(model), NULL,
     .help = "checkpoint folder, openai:MODEL, ollama:MODEL, http://HOST/v1#MODEL, replay:FILE"},
    {"task", FIELD_ENUM, AT(task), NULL, .choices = tasks, .help = "what is measured"},
    {"out", FIELD_STR, AT(out), NULL, .help = "record file to write"},
    {"shards", FIELD_STR, AT(shards), "", .help = "windows: folder of token shards"},
    {"items", FIELD_STR, AT(items), "", .help = "documents: texts; instruct: items; choice: rows"},
    {"task_file", FIELD_STR, AT(task_file), "",
     .help =
         "choice, instruct: task file, or one of the tool: piqa, copa, winogrande, hellaswag..."},
    {"shots", FIELD_I64, AT(shots), "", 0, 1000, .help = "choice: solved rows before each item"},
    {"shots_from", FIELD_STR, AT(shots_from), "",
     .help = "choice: rows to take them from; default: the other items"},
    {"items_out", FIELD_STR, AT(items_out), "",
     .help = "choice, instruct: also leave the items as they were asked here, for assay score"},
    {"vocab", FIELD_STR, AT(vocab), "", .help = "vocabulary; default: the checkpoint folder's"},
    {"config", FIELD_STR, AT(config), "", .help = "run file: its [eval] gives the defaults"},
    {"set", FIELD_STRS, AT(sets), "", .help = "section.key=value over the run file"},
    {"template", FIELD_STR, AT(template_), "",
     .help = "instruct: alpaca, bare, plain or a file; default: the run file's, alpaca; bare for a "
             "server, which adds its own, and with --task-file"},
    {"window", FIELD_I64, AT(window), "", 0, 1 << 24,
     .help = "windows: tokens in a window; 0: the model's context"},
    {"stride", FIELD_I64, AT(stride), "", 0, 1 << 24,
     .help = "windows: tokens from one to the next, which alone count; 0: the window, disjoint"},
    {"start", FIELD_I64, AT(start), "", 0, 9e15, .help = "windows: first token of the slice"},
    {"tokens", FIELD_I64, AT(tokens), "", 0, 9e15,
     .help = "windows: tokens predicted; 0: to the end of the split"},
    {"batch", FIELD_I64, AT(batch), "", 1, 65536,
     .help = "instruct, choice: rows at once; changes no number"},
    {"max_new_tokens", FIELD_I64, AT(max_new_tokens), "", 1, 1048576,
     .help = "instruct: longest answer, in tokens"},
    {"temperature", FIELD_F64, AT(temperature), "", -1, 100,
     .help = "0: the likeliest token; -1: not sent to a server"},
    {"top_k", FIELD_I64, AT(top_k), "", 0, 16777216, .help = "0: all"},
    {"top_p", FIELD_F64, AT(top_p), "", 0, 1, .help = "1: all", .flags = FIELD_ABOVE},
    {"min_p", FIELD_F64, AT(min_p), "", 0, 1, .help = "checkpoints: 0: all"},
    {"repetition_penalty", FIELD_F64, AT(repetition_penalty), "", 0.01, 100,
     .help = "checkpoints: 1: none"},
    {"seed", FIELD_I64, AT(seed), "", 0, 9e15, .help = "seed of sampling"},
    {"stop", FIELD_STRS, AT(stop), "", .help = "instruct: end before this text; may be repeated"},
    {"max_invalid", FIELD_F64, AT(max_invalid), "", 0, 1,
     .help = "choice: share of invalid items (NaN) above which it is an error; default: 0"},
    {"backend", FIELD_STR, AT(backend), "", .help = "auto, cpu or cuda; default: the run file's"},
    {"threads", FIELD_I64, AT(threads), "", 0, 4096, .help = "0: all; changes no number"},
    {"precision", FIELD_STR, AT(precision), "",
     .help = "checkpoints: fp32, tf32, bf16 or fp16; default: the run file's, fp32"},
    {"ranks", FIELD_I64, AT(ranks), "0", 0, 4096,
     .help = "windows, documents: share the work among so many processes; 0: the run file's"},
    {"hardware", FIELD_STR, AT(hardware), "",
     .help = "hardware file: without ranks, one for each of its GPUs that is here"},
    {"concurrency", FIELD_I64, AT(concurrency), "4", 1, 1024, .help = "servers: requests at once"},
    {"timeout", FIELD_F64, AT(timeout), "600", 0.01, 86400, .help = "servers: seconds a request"},
    {"retries", FIELD_I64, AT(retries), "2", 0, 100, .help = "servers: further tries"},
    {"max_requests", FIELD_I64, AT(max_requests), "0", 0, 9e15,
     .help = "servers: stop after this many; 0: no cap"},
    {0},
};
static const struct schema options_schema = {"eval", 1, sizeof(struct options), fields};

/* Which tasks and which kinds of models read an option; one that is not here is read by all. */
enum {
    W = 1 << TASK_WINDOWS,
    D = 1 << TASK_DOCUMENTS,
    I = 1 << TASK_INSTRUCT,
    C = 1 << TASK_CHOICE,
};
enum { FOLDER = 1, SERVER = 2, REPLAY = 4, ASKED = FOLDER | SERVER, ANY = ASKED | REPLAY };
static const struct reader {
    const char *name;
    unsigned by, of;
} readers[] = {
    {"shards", W, ANY},
    {"items", D | I | C, ANY},
    {"task_file", I | C, ANY},
    {"shots", C, ANY},
    {"shots_from", C, ANY},
    {"items_out", I | C, ANY},
    {"vocab", D | I | C, FOLDER},
    {"template", I, ASKED},
    {"window", W, FOLDER},
    {"stride", W, FOLDER},
    {"start", W, FOLDER},
    {"tokens", W, FOLDER},
    {"batch", I | C, FOLDER},
    {"max_new_tokens", I, ASKED},
    {"temperature", I, ASKED},
    {"top_k", I, ASKED},
    {"top_p", I, ASKED},
    {"min_p", I, ASKED},
    {"repetition_penalty", I, ASKED},
    {"seed", I | C, ANY},
    {"stop", I, ASKED},
    {"hardware", W | D, FOLDER},
    {"concurrency", I | C, SERVER},
    {"timeout", I | C, SERVER},
    {"retries", I | C, SERVER},
    {"max_requests", I | C, SERVER},
    {"max_invalid", C, ANY},
    {"backend", W | D | I | C, FOLDER},
    {"threads", W | D | I | C, FOLDER},
    {"precision", W | D | I | C, FOLDER},
    {0},
};

/* Whether an option has another value than its default. */
static bool given(const struct field *f, const struct options *o)
{
    const void *at = (const char *)o + f->at;
    switch (f->type) {
    case FIELD_STR:
        return ((const struct str *)at)->n > 0;
    case FIELD_STRS:
        return ((const struct strs *)at)->n > 0;
    case FIELD_I64:
        return *(const int64_t *)at != (*f->def ? strtoll(f->def, NULL, 10) : FIELD_NONE_I64);
    case FIELD_F64:
        return *f->def ? *(const double *)at != strtod(f->def, NULL) : !isnan(*(const double *)at);
    default:
        return false;
    }
}

/* What the task would leave out without a word. */
static int check_read(const struct options *o, struct arena *a, struct err *e)
{
    const char *spec = str_dup(a, o->model);
    unsigned kind = model_replays(spec) ? REPLAY : model_templates(spec) ? SERVER : FOLDER;
    for (const struct reader *r = readers; r->name; r++) {
        const struct field *f = fields;
        while (strcmp(f->name, r->name) != 0)
            f++;
        bool task = r->by & 1U << o->task;
        bool model = r->of & kind || (kind != FOLDER && o->task < TASK_INSTRUCT);
        if ((task && model) || !given(f, o))
            continue;
        char *name = arena_strdup(a, f->name);
        for (char *c = name; *c; c++)
            *c = *c == '_' ? '-' : *c;
        if (!task)
            return err_code(e, EXIT_USAGE, "--task %s does not read --%s: leave it out",
                            tasks[o->task], name);
        return err_code(e, EXIT_USAGE, "%s, so --%s is not read: leave it out",
                        kind == REPLAY ? "a replay gives what was recorded"
                        : kind == SERVER
                            ? "--model is a server"
                            : "--model is a checkpoint, which is asked on this machine",
                        name);
    }
    for (size_t i = 0; i < o->stop.n; i++)
        if (!o->stop.v[i].n)
            return err_code(e, EXIT_USAGE, "--stop '': no text ends there; leave it out");
    return 0;
}

/* What the values left beside each other don't read: of the shots when there are none, of sampling
 * when a checkpoint takes the likeliest token. A server may mean more by these. */
static int check_values(const struct options *o, const struct eval_job *j, struct err *e)
{
    if (o->shots_from.n && !j->c.shots)
        return err_code(e, EXIT_USAGE, "--shots-from is read with --shots only: say how many");
    if (o->task == TASK_CHOICE && o->seed != FIELD_NONE_I64 && !j->c.shots)
        return err_code(
            e, EXIT_USAGE,
            "--seed draws the shots of a choice task and there are none: give --shots, or "
            "leave it out");
    if (o->task != TASK_INSTRUCT || model_templates(j->model) || model_replays(j->model))
        return 0;
    if (j->c.temperature < 0)
        return err_code(e, EXIT_USAGE,
                        "--temperature -1 leaves it to a server, and --model is a checkpoint: give "
                        "0 for the likeliest token, or more");
    const char *unread = o->top_k != FIELD_NONE_I64  ? "top-k"
                         : !isnan(o->top_p)          ? "top-p"
                         : !isnan(o->min_p)          ? "min-p"
                         : o->seed != FIELD_NONE_I64 ? "seed"
                                                     : NULL;
    if (j->c.temperature == 0 && unread)
        return err_code(e, EXIT_USAGE,
                        "--%s is of sampling, and at temperature 0 the likeliest token is taken: "
                        "give --temperature, or leave it out",
                        unread);
    return 0;
}

static int check_items_out(const struct eval_job *j, struct err *e)
{
    struct str name = j->items_out ? str_z(j->items_out) : (struct str){0};
    if (!name.n)
        return 0;
    if (str_ends(name, ".json") || str_ends(name, ".jsonl") || str_ends(name, ".txt"))
        return err_code(e, EXIT_USAGE,
                        "--items-out %s: items are written as msgpack; call it NAME.msgpack "
                        "(`assay cat` shows it as JSON)",
                        j->items_out);
    if (str_eqz(str_z(path_base(j->out)), path_base(j->items_out)) &&
        manifest_can_name(j->out, j->items_out))
        return err_code(e, EXIT_USAGE,
                        "--items-out and --out are both %s: the items want a file of their own",
                        j->out);
    if (!manifest_can_name(j->out, j->items_out))
        return err_code(e, EXIT_USAGE, "--items-out %s must lie in the folder of --out %s",
                        j->items_out, j->out);
    return 0;
}

static const char *text(struct arena *a, struct str option, struct str otherwise)
{
    struct str s = option.n ? option : otherwise;
    return s.n ? str_dup(a, s) : NULL;
}

/* An option by the name of a key of [eval] goes over that key. */
static int take_options(struct eval_config *c, const struct options *o, struct arena *a,
                        struct err *e)
{
    for (const struct field *to = eval_config_schema.fields; to->name; to++) {
        const struct field *f = fields;
        while (f->name && strcmp(f->name, to->name) != 0)
            f++;
        const char *at = (const char *)o + f->at;
        if (!f->name || strcmp(f->name, "ranks") == 0 || !given(f, o)) /* ranks: the launch's */
            continue;
        if (f->type != to->type) { /* precision: the option may be absent, the key has a default */
            if (schema_set(&eval_config_schema, c, f->name, *(const struct str *)at, a, e))
                return -1;
            continue;
        }
        size_t size = f->type == FIELD_STRS  ? sizeof(struct strs)
                      : f->type == FIELD_I64 ? sizeof(int64_t)
                                             : sizeof(double);
        memcpy((char *)c + to->at, at, size);
    }
    return 0;
}

static int make_job(struct eval_job *j, const struct options *o, struct arena *a, struct err *e)
{
    struct run run;
    const struct str none = {0};
    if (o->sets.n && !o->config.n)
        return err_code(e, EXIT_USAGE, "--set changes a run file: give one with --config");
    if (o->config.n ? run_load(&run, str_dup(a, o->config), o->sets, a, e)
                    : schema_defaults(&run_schema, &run, a, e))
        return -1;
    *j = (struct eval_job){
        .task = o->task,
        .model = str_dup(a, o->model),
        .out = str_dup(a, o->out),
        .vocab = text(a, o->vocab, none),
        .shards = text(a, o->shards, none),
        .items = text(a, o->items, none),
        .template_ =
            text(a, o->template_,
                 o->task_file.n || model_templates(str_dup(a, o->model)) ? STR_LIT("bare")
                                                                         : run.finetune.template_),
        .backend = text(a, o->backend, run.train.backend),
        .c = run.eval,
        .threads = o->threads == FIELD_NONE_I64 ? run.train.threads : o->threads,
        .concurrency = o->concurrency,
        .timeout = o->timeout,
        .task_file = text(a, o->task_file, none),
        .shots_from = text(a, o->shots_from, none),
        .items_out = text(a, o->items_out, none),
        .retries = o->retries,
        .max_requests = o->max_requests,
    };
    j->c.ranks = j->c.ranks ? j->c.ranks : run.train.ranks;
    return take_options(&j->c, o, a, e) ? -1 : check_values(o, j, e);
}

static int run_ranks(struct eval_job *j, const struct rendezvous_seat *seat,
                     int (*task)(const struct eval_job *, FILE *, struct arena *, struct err *),
                     struct arena *a, struct err *e)
{
    struct ranks r;
    int rc = ranks_join(&r, seat, "eval", e);
    if (!rc) {
        j->meet = r.many ? &r.meet : NULL;
        rc = task(j, stdout, a, e);
    }
    rc = ranks_end(&r, rc, e);
    ranks_release(&r);
    return rc;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    static int (*const run_task[])(const struct eval_job *, FILE *, struct arena *,
                                   struct err *) = {eval_windows, eval_documents, eval_instruct,
                                                    eval_choice};
    struct options *o = opt;
    struct rendezvous_seat seat;
    struct eval_job j;
    bool launched;
    int status;
    if (check_read(o, a, e) || make_job(&j, opt, a, e))
        return -1;
    if (j.task == TASK_WINDOWS && !j.shards)
        return err_code(e, EXIT_USAGE, "--task windows needs --shards");
    if (j.task != TASK_WINDOWS && !j.items)
        return err_code(e, EXIT_USAGE, "--task %s needs --items", tasks[j.task]);
    if (check_items_out(&j, e))
        return -1;
    if (j.task == TASK_CHOICE && !j.task_file)
        return err_code(e, EXIT_USAGE, "--task choice needs --task-file");
    bool loss = j.task == TASK_WINDOWS || j.task == TASK_DOCUMENTS;
    if (loss && model_answers_only(j.model))
        return err_code(e, EXIT_USAGE,
                        "--task %s needs a checkpoint: a server or a replay gives no "
                        "log-probabilities of whole texts; give a checkpoint folder as --model",
                        tasks[j.task]);
    if (!loss && o->ranks > 1)
        return err_code(e, EXIT_USAGE, "--ranks shares windows and documents, not %s",
                        tasks[j.task]);
    if (!loss) {
        launch_interrupts(NULL);
        return run_task[j.task](&j, stdout, a, e);
    }
    struct hardware h;
    if (o->hardware.n && hardware_load(&h, str_dup(a, o->hardware), a, e))
        return -1;
    struct launch_wish wish = {o->ranks, j.c.ranks, o->hardware.n ? &h : NULL,
                               j.backend ? str_z(j.backend) : (struct str){0}};
    int rc = launch_command(&wish, &seat, &launched, &status, e);
    if (rc <= 0)
        return rc < 0 ? -1 : status;
    launch_interrupts(launched ? &seat : NULL);
    return run_ranks(&j, launched ? &seat : NULL, run_task[j.task], a, e);
}

const struct command cmd_eval = {
    .room = "eval",
    .name = "eval",
    .summary = "loss of texts, choices, or answers to instructions",
    .details =
        "windows    loss over a test split in disjoint windows of the context, tail counted\n"
        "documents  loss of each text alone, its end counted; checked against oracle_bits\n"
        "instruct   answers as records\n"
        "choice     log-probabilities of the choices of rows, read by a task file; prints acc and\n"
        "           acc_norm by character, byte and token\n\n"
        "Killed, each goes on where it was. An option that the task does not read is refused. "
        "Losses need a checkpoint folder; --ranks spreads them over processes (and GPUs), with the "
        "same\nbits; instruct takes any model. Keys of servers come from the "
        "environment only: OPENAI_API_KEY for openai:, ASSAY_API_KEY for http://.",
    .options = &options_schema,
    .run = run,
};
