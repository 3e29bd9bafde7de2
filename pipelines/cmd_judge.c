/* cmd_judge: options of the LLM judge. [judge] of a run file, then options. */
#include <math.h>
#include <stdio.h>

#include "base/command.h"
#include "base/thread.h"
#include "pipelines/judge.h"

struct options {
    struct str judge, items, responses, out, config, prompt;
    struct strs sets;
    int64_t concurrency, max_requests, retries, max_tokens, seed, asks, max_total_tokens;
    double timeout, temperature, max_failed, max_seconds;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"judge", FIELD_STR, AT(judge), "",
     .help = "ollama:MODEL, openai:MODEL, http://HOST:PORT/v1#MODEL; default: the run file's"},
    {"items", FIELD_STR, AT(items), NULL, .help = "items with their right answers"},
    {"responses", FIELD_STR, AT(responses), NULL, .help = "answers to judge"},
    {"out", FIELD_STR, AT(out), NULL, .help = "folder for verdicts and scores"},
    {"config", FIELD_STR, AT(config), "", .help = "run file: its [judge] gives the defaults"},
    {"set", FIELD_STRS, AT(sets), "", .help = "section.key=value over the run file"},
    {"prompt", FIELD_STR, AT(prompt), "", .help = "score100, or a prompt file"},
    {"concurrency", FIELD_I64, AT(concurrency), "", 1, 1024, .help = "requests at once"},
    {"max_requests", FIELD_I64, AT(max_requests), "", 0, 9e15,
     .help = "stop after this many requests, tries included; 0: no cap"},
    {"max_total_tokens", FIELD_I64, AT(max_total_tokens), "0", 0, 9e15,
     .help = "stop when the judge has used this many tokens; 0: no cap"},
    {"max_seconds", FIELD_F64, AT(max_seconds), "0", 0, 9e9, .help = "stop asking then; 0: no cap"},
    {"retries", FIELD_I64, AT(retries), "", 0, 100, .help = "further tries of a failed request"},
    {"asks", FIELD_I64, AT(asks), "2", 1, 100,
     .help = "times an answer is judged while no verdict can be parsed"},
    {"max_tokens", FIELD_I64, AT(max_tokens), "", 1, 1048576, .help = "longest verdict"},
    {"seed", FIELD_I64, AT(seed), "", 0, 9e15, .help = "seed sent with each request"},
    {"timeout", FIELD_F64, AT(timeout), "", 0.01, 86400, .help = "seconds for one request"},
    {"temperature", FIELD_F64, AT(temperature), "", -1, 100,
     .help = "sent with each request; -1: not sent, for models that refuse it"},
    {"max_failed", FIELD_F64, AT(max_failed), "", 0, 1,
     .help = "share of answers without a verdict above which the exit status is 4"},
    {0},
};
static const struct schema options_schema = {"judge", 1, sizeof(struct options), fields};

static void take_i64(int64_t *to, int64_t option)
{
    if (option != FIELD_NONE_I64)
        *to = option;
}

static void take_f64(double *to, double option)
{
    if (!isnan(option))
        *to = option;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    struct run r;
    if (o->sets.n && !o->config.n)
        return err_code(e, EXIT_USAGE, "--set changes a run file: give one with --config");
    if (o->config.n ? run_load(&r, str_dup(a, o->config), o->sets, a, e)
                    : schema_defaults(&run_schema, &r, a, e))
        return -1;
    struct judge_job j = {.items = str_dup(a, o->items),
                          .responses = str_dup(a, o->responses),
                          .out = str_dup(a, o->out),
                          .c = r.judge,
                          .asks = o->asks,
                          .max_total_tokens = o->max_total_tokens,
                          .max_seconds = o->max_seconds};
    if (o->judge.n)
        j.c.judge = o->judge;
    if (o->prompt.n)
        j.c.prompt = o->prompt;
    take_i64(&j.c.concurrency, o->concurrency);
    take_i64(&j.c.max_requests, o->max_requests);
    take_i64(&j.c.retries, o->retries);
    take_i64(&j.c.max_tokens, o->max_tokens);
    take_i64(&j.c.seed, o->seed);
    take_f64(&j.c.timeout, o->timeout);
    take_f64(&j.c.temperature, o->temperature);
    take_f64(&j.c.max_failed, o->max_failed);
    if (!j.c.judge.n)
        return err_code(e, EXIT_USAGE, "which judge? --judge ollama:MODEL, say");
    interrupt_install();
    return judge_run(&j, stdout, a, e);
}

const struct command cmd_judge = {
    .room = "scoring",
    .name = "judge",
    .summary = "let a language model grade answers from 0 to 100",
    .details =
        "Each verdict is written to OUT/verdicts.msgpack at once; run again after a kill, a cap or "
        "a failure, and only what has no score is asked. An answer of the judge that is no plain "
        "grade is never a score: it is counted as parse_failed, refused, truncated or "
        "transport_failed, and the mean comes with its bounds.\n\n"
        "Keys come from the environment only: OPENAI_API_KEY for openai:, ASSAY_API_KEY for "
        "http://. Exit status 4: incomplete, run again.",
    .options = &options_schema,
    .run = run,
};
