/* model_gpt2: a checkpoint folder as a model. Prompts become ids, rows are batched continuously
 * (eval/generate.h), ids become text as they come, so that a stop string is seen also where it
 * crosses a token's border.
 *
 * A prompt is encoded as plain text (a "<|endoftext|>" inside it is text) and gets no EOT in front;
 * an empty prompt is EOT alone. Ill-formed UTF-8 in an answer becomes U+FFFD.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "eval/detail.h"
#include "eval/flow.h"
#include "eval/generate.h"
#include "eval/local.h"
#include "eval/logprob.h"
#include "eval/model_kinds.h"
#include "eval/text.h"
#include "formats/choice.h"
#include "formats/manifest.h"
#include "tokenizer/bpe.h"

enum { BATCH = 8 };

struct job;
struct local {
    struct local_model l;
    struct vocab vocab;
    struct encoder *encoder;
    struct logprob *logprob;
    int64_t batch;
    int32_t eot;
    const char *identity, *name;
    struct clock *clock;
    int64_t answered, cropped; /* answers; those whose prompt lost its head */
    request_next_fn *next;
    response_done_fn *done;
    void *ctx;
    struct job *live;
};
/* One request in a row. */
struct job {
    struct request q;
    struct ids prompt;
    struct flow answer;
    double started;
    struct job *before, *after; /* in local.live */
};

/* The checkpoint, the vocabulary and, where it is not fp32, the precision. */
static int make_identity(struct model *m, struct local *g, int precision, struct err *e)
{
    char hash[SHA256_HEX];
    if (manifest_whole(g->l.dir, e) || manifest_hash(g->l.dir, hash, e))
        return -1;
    g->identity = arena_printf(&m->arena, "gpt2 %s vocab=%s%s%s", hash, g->vocab.hash,
                               precision ? " precision=" : "", precision ? g->l.precision : "");
    g->name = arena_printf(&m->arena, "gpt2 %.12s", hash);
    return 0;
}

static logprob_done_fn got_logprobs;

static int gpt2_open(struct model *m, const char *spec, const struct model_options *o,
                     struct err *e)
{
    struct local *g = mem_zero(sizeof *g);
    m->impl = g;
    g->batch = o->batch > 0 ? o->batch : BATCH;
    g->clock = o->clock ? o->clock : clock_system();
    struct local_options lo = {.backend = o->backend,
                               .threads = o->threads,
                               .precision = o->precision,
                               .batch = generate_batch(g->batch),
                               .decode = true};
    if (local_open(&g->l, spec, &lo, e) || local_vocab(&g->l, o->vocab, &g->vocab, e))
        return -1;
    struct encode_options eo = {.special = SPECIAL_PLAIN, .bad_utf8 = BAD_UTF8_REPLACE};
    g->encoder = encoder_new(&g->vocab, eo, e);
    g->eot = local_eot(&g->l, &g->vocab);
    if (!g->encoder)
        return -1;
    g->logprob = logprob_new(g->l.m, g->encoder, g->eot, got_logprobs, g);
    m->context = g->l.config.context;
    m->precision = o->precision ? g->l.precision : NULL;
    return make_identity(m, g, o->precision, e);
}

static void gpt2_close(struct model *m)
{
    struct local *g = m->impl;
    if (!g)
        return;
    logprob_free(g->logprob);
    encoder_free(g->encoder);
    vocab_release(&g->vocab);
    local_close(&g->l);
    free(g);
    m->impl = NULL;
}

static struct job *job_new(struct local *g)
{
    struct job *j = mem_zero(sizeof *j);
    j->after = g->live;
    if (g->live)
        g->live->before = j;
    g->live = j;
    return j;
}

static void job_free(struct local *g, struct job *j)
{
    if (j->before)
        j->before->after = j->after;
    else
        g->live = j->after;
    if (j->after)
        j->after->before = j->before;
    ids_release(&j->prompt);
    flow_release(&j->answer);
    free(j);
}

/* ---- the three calls of generate_run -------------------------------------------------------- */

static int fill(struct local *g, struct job *j, struct gen_task *t, struct err *e)
{
    j->started = g->clock->now(g->clock);
    j->answer.stop = j->q.stop;
    if (encode(g->encoder, j->q.prompt, &j->prompt, e))
        return err_wrap(e, "item %.*s", STR_ARG(j->q.id));
    if (!j->prompt.n && g->eot < 0)
        return err_set(e, "item %.*s: the prompt is empty and there is no EOT to begin with",
                       STR_ARG(j->q.id));
    if (!j->prompt.n)
        ids_add(&j->prompt, g->eot);
    *t = (struct gen_task){.ids = j->prompt.v,
                           .n = (int64_t)j->prompt.n,
                           .max_new = j->q.max_tokens,
                           .rule = {.temperature = j->q.temperature,
                                    .top_p = j->q.top_p,
                                    .top_k = j->q.top_k,
                                    .min_p = j->q.min_p,
                                    .repeat = j->q.repeat},
                           .seed = j->q.seed,
                           .eos = g->eot,
                           .tag = j};
    return 1;
}

/* Answers j and ends it. v NULL: it can't be asked, `detail` says why. */
static int answer_choices(struct local *g, struct job *j, const struct logprob_value *v, size_t n,
                          struct str detail, struct err *e)
{
    struct response r = {.item = j->q.id,
                         .model = str_z(g->name),
                         .finish = v ? FINISH_STOP : FINISH_ERROR,
                         .detail = detail,
                         .tokens_in = FIELD_NONE_I64,
                         .tokens_out = FIELD_NONE_I64,
                         .ms = (g->clock->now(g->clock) - j->started) * 1000};
    struct f64s sum = {mem_array(n + 1, sizeof *sum.v), n};
    struct i64s tokens = {mem_array(n + 1, sizeof *tokens.v), n};
    struct i64s greedy = {mem_array(n + 1, sizeof *greedy.v), n};
    for (size_t i = 0; i < n; i++) {
        sum.v[i] = v[i].sum;
        tokens.v[i] = v[i].tokens;
        greedy.v[i] = v[i].greedy;
    }
    r.choice_logprob = sum;
    r.choice_tokens = tokens;
    r.choice_greedy = greedy;
    int rc = g->done(g->ctx, &j->q, &r, e);
    free(sum.v);
    free(tokens.v);
    free(greedy.v);
    job_free(g, j);
    return rc;
}

static int got_logprobs(void *ctx, void *tag, const struct logprob_value *v, size_t n,
                        int64_t cropped, struct err *e)
{
    struct local *g = ctx;
    struct buf detail = {0};
    if (cropped)
        detail_put_lost(&detail, "the context", cropped, 0);
    g->answered++;
    g->cropped += cropped > 0;
    int rc = answer_choices(g, tag, v, n, buf_str(&detail), e);
    buf_release(&detail);
    return rc;
}

/* The job is queued or answered with why it can't be. */
static int ask_logprobs(struct local *g, struct job *j, struct err *e)
{
    const char *why;
    j->started = g->clock->now(g->clock);
    int rc = logprob_add(g->logprob, j->q.prompt, j->q.choices, j->q.apart, j, &why, e);
    if (rc != 1)
        return rc;
    struct buf detail = {0};
    buf_printf(&detail, "%s%s", choice_not_asked, why);
    rc = answer_choices(g, j, NULL, 0, buf_str(&detail), e);
    buf_release(&detail);
    return rc;
}

static int next_task(void *ctx, struct gen_task *t, struct err *e)
{
    struct local *g = ctx;
    for (;;) {
        struct job *j = job_new(g);
        int rc = g->next(g->ctx, &j->q, e);
        if (rc == 1 && j->q.kind == REQUEST_GENERATE)
            rc = fill(g, j, t, e);
        else if (rc == 1) {
            if (ask_logprobs(g, j, e)) /* the job ends when its row is done */
                return -1;
            continue;
        }
        if (rc == 1)
            return 1;
        job_free(g, j);
        if (rc == 0)
            rc = logprob_flush(g->logprob, e);
        return rc;
    }
}

static int got_token(void *ctx, struct gen_task *t, int32_t id, struct err *e)
{
    struct local *g = ctx;
    struct job *j = t->tag;
    struct str bytes;
    (void)e;
    if (!vocab_bytes(&g->vocab, id, &bytes))
        return 0; /* an id between the vocabulary's holes stands for no bytes */
    return flow_add(&j->answer, bytes);
}

static int task_done(void *ctx, struct gen_task *t, enum finish finish, struct err *e)
{
    struct local *g = ctx;
    struct job *j = t->tag;
    struct buf text = {0}, detail = {0};
    text_repair(buf_str(&j->answer.text), &text);
    if (finish == FINISH_ERROR)
        buf_addz(&detail, "a logit is not finite");
    else if (t->cropped)
        detail_put_lost(&detail, "the prompt", t->cropped, t->n);
    if (finish == FINISH_LENGTH && t->made < t->max_new)
        detail_put_full(&detail, g->l.config.context);
    struct response r = {.item = j->q.id,
                         .model = str_z(g->name),
                         .text = buf_str(&text),
                         .finish = (int)finish,
                         .detail = buf_str(&detail),
                         .tokens_in = t->n - t->cropped,
                         .tokens_out = t->made,
                         .ms = (g->clock->now(g->clock) - j->started) * 1000};
    g->answered++;
    g->cropped += t->cropped > 0;
    int rc = g->done(g->ctx, &j->q, &r, e);
    buf_release(&text);
    buf_release(&detail);
    job_free(g, j);
    return rc;
}

static int gpt2_answer(struct model *m, request_next_fn *next, response_done_fn *done, void *ctx,
                       struct err *e)
{
    struct local *g = m->impl;
    struct gen_calls calls = {
        .next = next_task, .token = got_token, .done = task_done, .ctx = g, .limit = g->vocab.size};
    g->next = next;
    g->done = done;
    g->ctx = ctx;
    g->answered = g->cropped = 0;
    int rc = generate_run(g->l.m, g->batch, &calls, e);
    while (g->live) /* left by an error */
        job_free(g, g->live);
    if (rc) { /* and what waits for a pass with them */
        logprob_free(g->logprob);
        g->logprob = logprob_new(g->l.m, g->encoder, g->eot, got_logprobs, g);
    }
    if (g->cropped)
        log_warn("%lld of %lld prompts were longer than the context allows and lost their heads",
                 (long long)g->cropped, (long long)g->answered);
    return rc;
}

static const char *gpt2_identity(const struct model *m)
{
    const struct local *g = m->impl;
    return g->identity;
}

const struct model_ops model_gpt2 = {
    .name = "gpt2",
    .help = "a checkpoint folder",
    .open = gpt2_open,
    .close = gpt2_close,
    .answer = gpt2_answer,
    .identity = gpt2_identity,
};
