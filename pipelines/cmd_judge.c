/* cmd_judge: options of the LLM judge. [judge] of a run file, then options. */
#include <math.h>
#include <stdio.h>

#include "base/command.h"
#include "base/log.h"
#include "base/thread.h"
#include "pipelines/panel.h"

struct options {
    struct str judge, items, out, config, prompt, baseline, calibrate, price, panel, rejudge;
    struct strs responses, sets, anchors;
    int protocol, pairs, structured;
    bool dry_run, sanity;
    int64_t concurrency, max_requests, retries, max_tokens, seed, asks, max_total_tokens, repeat,
        panel_size, context;
    double timeout, temperature, max_failed, max_seconds, max_money;
};
static const char *const pair_names[] = {"baseline", "all", NULL};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"judge", FIELD_STR, AT(judge), "",
     .help = "openai:MODEL, anthropic:MODEL, ollama:MODEL, http://HOST:PORT/v1#MODEL; default: the "
             "run file's"},
    {"items", FIELD_STR, AT(items), "", .help = "items with their right answers"},
    {"responses", FIELD_STRS, AT(responses), "",
     .help = "answers to judge: FILE or NAME=FILE, ..."},
    {"out", FIELD_STR, AT(out), "", .help = "folder for verdicts and scores"},
    {"config", FIELD_STR, AT(config), "", .help = "run file: its [judge] gives the defaults"},
    {"set", FIELD_STRS, AT(sets), "", .help = "section.key=value over the run file"},
    {"protocol", FIELD_ENUM, AT(protocol), "single", .choices = judge_protocol_names,
     .help = "one answer a question, all of them in one, or two in both orders"},
    {"prompt", FIELD_STR, AT(prompt), "",
     .help = "score100, rubric5, joint100, pairwise, or a prompt file; default: the protocol's"},
    {"structured", FIELD_ENUM, AT(structured), "auto", .choices = judge_json_names,
     .help = "ask for JSON by a schema, which constrains the judge; auto: for joint questions"},
    {"pairs", FIELD_ENUM, AT(pairs), "baseline", .choices = pair_names,
     .help = "pairwise: each against the baseline, or all pairs"},
    {"baseline", FIELD_STR, AT(baseline), "",
     .help = "pairwise, and a panel's report: a name; default: the first"},
    {"repeat", FIELD_I64, AT(repeat), "", 1, 1000,
     .help = "times everything is judged; 2 or more tell the judge's noise; else 1"},
    {"calibrate", FIELD_STR, AT(calibrate), "",
     .help = "pairs labelled by people (JSONL: instruction, output, a, b, label): measures the "
             "judge"},
    {"panel", FIELD_STR, AT(panel), "",
     .help = "folder of a panel: models judged together, in passes; instead of --out"},
    {"panel_size", FIELD_I64, AT(panel_size), "", 0, 24,
     .help = "panel: answers in a question beside the anchors; 0: all; else 4"},
    {"anchors", FIELD_STRS, AT(anchors), "",
     .help = "panel: models in every question; default: two in the middle"},
    {"rejudge", FIELD_STR, AT(rejudge), "",
     .help = "panel: models of before in a pass with new ones, at least 3 for a link; all: a pass "
             "with all; else 3"},
    {"sanity", FIELD_BOOL, AT(sanity), "true",
     .help = "panel: the reference and an empty answer are judged too"},
    {"context", FIELD_I64, AT(context), "", 0, 1e9,
     .help = "panel: tokens of the judge's context, which questions must fit; else what it says"},
    {"dry_run", FIELD_BOOL, AT(dry_run), "false",
     .help = "say how many questions there are and what they cost, and ask nothing"},
    {"concurrency", FIELD_I64, AT(concurrency), "", 1, 1024, .help = "requests at once; else 4"},
    {"max_requests", FIELD_I64, AT(max_requests), "", 0, 9e15,
     .help = "stop after this many requests, tries included; 0: no cap"},
    {"max_total_tokens", FIELD_I64, AT(max_total_tokens), "", 0, 9e15,
     .help = "stop when the judge has used this many tokens; 0: no cap"},
    {"max_money", FIELD_F64, AT(max_money), "", 0, 9e9,
     .help = "stop before this is passed, in the price's currency; 0: no cap"},
    {"price", FIELD_STR, AT(price), "", .help = "price file, or a name in pipelines/prices"},
    {"max_seconds", FIELD_F64, AT(max_seconds), "", 0, 9e9, .help = "stop asking then; 0: no cap"},
    {"retries", FIELD_I64, AT(retries), "", 0, 100,
     .help = "further tries of a failed request; else 4"},
    {"asks", FIELD_I64, AT(asks), "2", 1, 100,
     .help = "times a question is asked while no verdict can be parsed"},
    {"max_tokens", FIELD_I64, AT(max_tokens), "", 1, 1048576,
     .help = "longest verdict (joint: for each answer); default: what the prompt needs"},
    {"seed", FIELD_I64, AT(seed), "", 0, 9e15, .help = "seed sent with each request; else 123"},
    {"timeout", FIELD_F64, AT(timeout), "", 0.01, 86400,
     .help = "seconds for one request; else 60"},
    {"temperature", FIELD_F64, AT(temperature), "", -1, 100,
     .help = "sent with each request; -1: not sent, for models that refuse it; else 0"},
    {"max_failed", FIELD_F64, AT(max_failed), "", 0, 1,
     .help = "share of questions without a verdict above which the exit status is 4; else 0.05"},
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

static void take_options(struct judge_config *c, const struct options *o)
{
    if (o->judge.n)
        c->judge = o->judge;
    /* A run file's prompt is one for "single". */
    if (o->prompt.n || o->protocol != JUDGE_SINGLE || o->calibrate.n)
        c->prompt = o->prompt;
    take_i64(&c->concurrency, o->concurrency);
    take_i64(&c->max_requests, o->max_requests);
    take_i64(&c->max_total_tokens, o->max_total_tokens);
    take_i64(&c->repeat, o->repeat);
    take_i64(&c->retries, o->retries);
    take_i64(&c->max_tokens, o->max_tokens);
    take_i64(&c->seed, o->seed);
    take_f64(&c->timeout, o->timeout);
    take_f64(&c->temperature, o->temperature);
    take_f64(&c->max_failed, o->max_failed);
    take_f64(&c->max_seconds, o->max_seconds);
    take_f64(&c->max_money, o->max_money);
    if (o->price.n)
        c->price = o->price;
}

/* An option that would be ignored is refused. */
static int check_panel(const struct options *o, struct err *e)
{
    const char *none = o->calibrate.n                                  ? "--calibrate"
                       : o->protocol == JUDGE_PAIRWISE                 ? "--protocol pairwise"
                       : o->pairs != PAIRS_BASELINE                    ? "--pairs"
                       : o->repeat != FIELD_NONE_I64 && o->repeat != 1 ? "--repeat"
                                                                       : NULL;
    return none ? err_code(e, EXIT_USAGE,
                           "%s has no meaning with --panel: a panel asks joint questions, once a "
                           "pass",
                           none)
                : 0;
}

static int check_plain(const struct options *o, struct err *e)
{
    const char *panel = o->panel_size != FIELD_NONE_I64 ? "--panel-size"
                        : o->anchors.n                  ? "--anchors"
                        : o->rejudge.n                  ? "--rejudge"
                        : o->context != FIELD_NONE_I64  ? "--context"
                        : !o->sanity                    ? "--no-sanity"
                                                        : NULL;
    const char *pairs = o->protocol == JUDGE_PAIRWISE ? NULL
                        : o->pairs != PAIRS_BASELINE  ? "--pairs"
                        : o->baseline.n               ? "--baseline"
                                                      : NULL;
    if (panel)
        return err_code(e, EXIT_USAGE, "%s is an option of panels: give --panel DIR", panel);
    return pairs ? err_code(e, EXIT_USAGE, "%s is an option of --protocol pairwise", pairs) : 0;
}

static int check(const struct options *o, struct err *e)
{
    if (o->sets.n && !o->config.n)
        return err_code(e, EXIT_USAGE, "--set changes a run file: give one with --config");
    if (o->calibrate.n && (o->items.n || o->responses.n))
        return err_code(e, EXIT_USAGE, "--calibrate brings its own items and answers");
    if (!o->panel.n == !o->out.n)
        return err_code(e, EXIT_USAGE, "give --out DIR, or --panel DIR");
    if (o->panel.n)
        return check_panel(o, e);
    if (check_plain(o, e))
        return -1;
    if (!o->calibrate.n && !o->items.n)
        return err_code(e, EXIT_USAGE, "--items is missing");
    if (!o->calibrate.n && !o->responses.n)
        return err_code(e, EXIT_USAGE, "--responses is missing");
    return 0;
}

static int run_panel(const struct options *o, const struct judge_job *j, struct arena *a,
                     struct err *e)
{
    struct panel_job p = {.dir = str_dup(a, o->panel),
                          .items = o->items.n ? str_dup(a, o->items) : NULL,
                          .responses = o->responses,
                          .anchors = o->anchors,
                          .size = o->panel_size,
                          .context = o->context,
                          .seed = o->seed,
                          .max_tokens = o->max_tokens,
                          .temperature = o->temperature,
                          .prompt = o->prompt,
                          .sanity = o->sanity,
                          .rejudge = o->rejudge.n ? -1 : 3,
                          .baseline = o->baseline,
                          .judge = *j};
    if (o->rejudge.n && !str_eqz(o->rejudge, "all") &&
        (str_i64(o->rejudge, &p.rejudge) || p.rejudge < 0))
        return err_code(e, EXIT_USAGE, "--rejudge is a number or all, not %.*s",
                        STR_ARG(o->rejudge));
    if (!o->prompt.n)
        p.judge.c.prompt = (struct str){0};
    return panel_run(&p, stdout, a, e);
}

/* A price of another model is said; a cap of money would be none. */
static int check_price(const struct judge_job *j, struct arena *a, struct err *e)
{
    const char *judge = str_dup(a, j->c.judge);
    if (!j->c.judge.n || price_is_for(j->price, judge))
        return 0;
    if (j->caps.money > 0)
        return err_code(e, EXIT_USAGE,
                        "the price is that of %.*s, the judge is %s: a cap of money needs the "
                        "judge's own (model = any fits all)",
                        STR_ARG(j->price->model), judge);
    log_warn("the price is that of %.*s, the judge is %s: the money said is not its",
             STR_ARG(j->price->model), judge);
    return 0;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    struct run r;
    struct price price;
    if (check(o, e))
        return -1;
    if (o->config.n ? run_load(&r, str_dup(a, o->config), o->sets, a, e)
                    : schema_defaults(&run_schema, &r, a, e))
        return -1;
    struct judge_job j = {.items = str_dup(a, o->items),
                          .responses = o->responses,
                          .out = str_dup(a, o->out),
                          .labels = o->calibrate.n ? str_dup(a, o->calibrate) : NULL,
                          .c = r.judge,
                          .protocol = (enum judge_protocol)o->protocol,
                          .exact_tokens = o->max_tokens != FIELD_NONE_I64,
                          .structured =
                              (enum judge_json)(o->structured ? o->structured : r.judge.structured),
                          .dry = o->dry_run,
                          .asks = o->asks,
                          .pairs = (enum judge_pairs)o->pairs,
                          .baseline = o->baseline};
    take_options(&j.c, o);
    j.repeat = j.c.repeat;
    j.caps = (struct judge_caps){j.c.max_total_tokens, j.c.max_money, j.c.max_seconds};
    if (o->calibrate.n && !j.baseline.n)
        j.baseline = STR_LIT("b");
    if (j.c.price.n) {
        if (price_load(&price, j.c.price, a, e))
            return -1;
        j.price = &price;
        if (check_price(&j, a, e))
            return -1;
    }
    interrupt_install();
    if (o->panel.n)
        return run_panel(o, &j, a, e);
    if (!j.c.judge.n)
        return err_code(e, EXIT_USAGE, "which judge? --judge ollama:MODEL, say");
    return judge_run(&j, stdout, a, e);
}

const struct command cmd_judge = {
    .room = "scoring",
    .name = "judge",
    .summary = "let a language model grade answers, or compare them",
    .details =
        "assay judge --judge ollama:llama3 --items test.jsonl --responses a.msgpack --out "
        "judged\n\n"
        "Each verdict is written to OUT/verdicts.msgpack at once; run again after a kill, a cap or "
        "a failure, and only what has no score is asked. An answer of the judge that is no plain "
        "grade is never a score: it is counted as parse_failed, refused, truncated or "
        "transport_failed, and the mean comes with its bounds.\n\n"
        "Keys come from the environment only: OPENAI_API_KEY for openai:, ANTHROPIC_API_KEY for "
        "anthropic:, ASSAY_API_KEY for http://. docs/judge.md has the protocols. Exit status 4: "
        "incomplete, run again. \"else N\": where neither the option nor the run file says it.",
    .options = &options_schema,
    .run = run,
};
