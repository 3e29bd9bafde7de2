/* sample_stream: see eval/sample_stream.h. A checkpoint streams; a server's answer comes whole. */
#include "eval/sample_stream.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "eval/flow.h"
#include "eval/generate.h"
#include "eval/local.h"
#include "eval/model.h"
#include "formats/manifest.h"
#include "tokenizer/bpe.h"

struct stream {
    const struct sample_options *o;
    FILE *to;
    struct local_model l;
    struct vocab vocab;
    bool has_vocab;
    struct ids prompt;
    int32_t eot;
    struct flow flow;
    bool given; /* the one task was taken */
};

static void show(struct stream *s, bool all)
{
    struct buf out = {0};
    flow_take(&s->flow, all, &out);
    if (out.n)
        fwrite(out.p, 1, out.n, s->to);
    fflush(s->to);
    buf_release(&out);
}

static int next_task(void *ctx, struct gen_task *t, struct err *e)
{
    struct stream *s = ctx;
    (void)e;
    if (s->given)
        return 0;
    s->given = true;
    *t = (struct gen_task){.ids = s->prompt.v,
                           .n = (int64_t)s->prompt.n,
                           .max_new = s->o->max_new,
                           .rule = s->o->rule,
                           .seed = (uint64_t)s->o->seed,
                           .eos = s->eot};
    return 1;
}

static int got_token(void *ctx, struct gen_task *t, int32_t id, struct err *e)
{
    struct stream *s = ctx;
    struct str bytes = {0};
    (void)e;
    if (s->o->ids)
        fprintf(s->to, "%s%d", t->made > 1 ? "," : "", id);
    if (!s->has_vocab) {
        fflush(s->to);
        return 0;
    }
    vocab_bytes(&s->vocab, id, &bytes);
    bool stop = flow_add(&s->flow, bytes);
    if (s->o->ids)
        fflush(s->to);
    else
        show(s, false);
    return stop;
}

static int task_done(void *ctx, struct gen_task *t, enum finish finish, struct err *e)
{
    struct stream *s = ctx;
    if (!s->o->ids)
        show(s, true);
    fputc('\n', s->to);
    if (t->cropped)
        log_warn("the prompt is longer than the context allows: its first %lld of %lld tokens were "
                 "left out",
                 (long long)t->cropped, (long long)t->n);
    if (finish == FINISH_LENGTH && t->made < t->max_new)
        log_warn("the context of %lld tokens is full: it ends after %lld of %lld new tokens",
                 (long long)s->l.config.context, (long long)t->made, (long long)t->max_new);
    if (finish == FINISH_ERROR)
        return err_set(e, "after %lld tokens a logit is not finite", (long long)t->made);
    return 0;
}

static int parse_ids(struct stream *s, struct err *e)
{
    struct str rest = s->o->prompt_ids;
    while (rest.n) {
        struct str word = str_trim(str_cut(&rest, ','));
        int64_t id;
        if (str_i64(word, &id) || id < 0 || id >= s->l.config.vocab)
            return err_code(e, EXIT_USAGE, "--prompt-ids: \"%.*s\" is no id below %lld",
                            STR_ARG(word), (long long)s->l.config.vocab);
        ids_add(&s->prompt, (int32_t)id);
    }
    return 0;
}

static int make_prompt(struct stream *s, struct err *e)
{
    if (s->o->prompt_ids.n)
        return parse_ids(s, e);
    struct encode_options eo = {.special = SPECIAL_PLAIN, .bad_utf8 = BAD_UTF8_REPLACE};
    struct encoder *x = encoder_new(&s->vocab, eo, e);
    int rc = x ? encode(x, s->o->prompt, &s->prompt, e) : -1;
    encoder_free(x);
    if (rc)
        return -1;
    if (!s->prompt.n && s->eot < 0)
        return err_code(e, EXIT_USAGE, "the prompt is empty and there is no EOT to begin with");
    if (!s->prompt.n)
        ids_add(&s->prompt, s->eot);
    return 0;
}

static int local(struct stream *s, const char *dir, const char *vocab, const char *backend,
                 struct err *e)
{
    struct local_options lo = {.backend = backend,
                               .threads = s->o->threads,
                               .batch = generate_batch(1),
                               .decode = true,
                               .precision = s->o->precision};
    bool need = !s->o->ids || !s->o->prompt_ids.n || s->o->stop.n || s->o->vocab.n;
    int rc = -1;
    if (local_open(&s->l, dir, &lo, e) || manifest_whole(s->l.dir, e))
        goto out;
    if (need && local_vocab(&s->l, vocab, &s->vocab, e))
        goto out;
    s->has_vocab = need;
    s->eot = local_eot(&s->l, need ? &s->vocab : NULL);
    struct gen_calls calls = {.next = next_task,
                              .token = got_token,
                              .done = task_done,
                              .ctx = s,
                              .limit = need ? s->vocab.size : s->l.config.vocab};
    if (make_prompt(s, e) == 0)
        rc = generate_run(s->l.m, 1, &calls, e);
out:
    ids_release(&s->prompt);
    flow_release(&s->flow);
    if (s->has_vocab)
        vocab_release(&s->vocab);
    local_close(&s->l);
    return rc;
}

/* ---- other kinds of models ------------------------------------------------------------------ */

static int next_request(void *ctx, struct request *q, struct err *e)
{
    struct stream *s = ctx;
    (void)e;
    if (s->given)
        return 0;
    s->given = true;
    *q = (struct request){.id = STR_LIT("sample"),
                          .prompt = s->o->prompt,
                          .stop = s->o->stop,
                          .max_tokens = s->o->max_new,
                          .temperature = s->o->rule.temperature,
                          .top_p = s->o->rule.top_p,
                          .top_k = s->o->rule.top_k,
                          .seed = (uint64_t)s->o->seed};
    return 1;
}

static int got_response(void *ctx, const struct request *q, const struct response *r, struct err *e)
{
    struct stream *s = ctx;
    (void)q;
    if (r->finish == FINISH_ERROR)
        return err_set(e, "%.*s", STR_ARG(r->detail));
    if (r->text.n)
        fwrite(r->text.p, 1, r->text.n, s->to);
    fputc('\n', s->to);
    return 0;
}

static int remote(struct stream *s, const char *spec, struct err *e)
{
    struct model_options mo = {.retries = -1};
    struct model m;
    if (!strchr(spec, ':')) /* no spec of a server: a folder that is not there */
        return err_set(e, "%s: no such checkpoint folder", spec);
    if (s->o->ids || s->o->prompt_ids.n)
        return err_code(e, EXIT_USAGE, "a server takes and gives text, not ids");
    if (s->o->rule.min_p > 0 || s->o->rule.repeat != 1)
        return err_code(e, EXIT_USAGE,
                        "--min-p and --repetition-penalty are for checkpoints; servers differ in "
                        "what they understand");
    if (model_open(&m, spec, &mo, e))
        return -1;
    int rc = m.ops->answer(&m, next_request, got_response, s, e);
    model_close(&m);
    return rc;
}

int sample_stream(const struct sample_options *o, FILE *to, struct err *e)
{
    struct stream s = {.o = o, .to = to, .flow = {.stop = o->stop}};
    struct arena a = {0};
    const char *model = str_dup(&a, o->model);
    int rc;
    bool blank = false;
    for (size_t i = 0; i < o->stop.n; i++)
        blank = blank || !o->stop.v[i].n;
    if (blank)
        rc = err_code(e, EXIT_USAGE, "--stop '': no text ends there; leave it out");
    else if (o->prompt.n && o->prompt_ids.n)
        rc = err_code(e, EXIT_USAGE, "--prompt and --prompt-ids are two prompts; one is wanted");
    else if (file_exists(model))
        rc = local(&s, model, str_dup(&a, o->vocab), str_dup(&a, o->backend), e);
    else
        rc = remote(&s, model, e);
    arena_release(&a);
    return rc;
}
