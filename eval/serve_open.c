/* serve_open: a query becomes an exchange: found, refused, or waiting to be decoded. Runs in the
 * transport's thread, which is the only one to use the encoder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "eval/serve_private.h"
#include "eval/text.h"

static struct exchange *exchange_new(struct server *s)
{
    struct exchange *x = mem_zero(sizeof *x);
    x->s = s;
    x->refs = 1;
    x->status = 200;
    x->created = (int64_t)s->clock->wall(s->clock);
    return x;
}

void exchange_unref(struct exchange *x)
{
    if (--x->refs > 0)
        return;
    for (int64_t i = 0; i < x->seqs; i++) {
        flow_release(&x->seq[i].flow);
        free(x->seq[i].token);
    }
    buf_release(&x->out);
    arena_release(&x->arena);
    free(x);
}

static void end_with_fault(struct exchange *x, const struct serve_fault *f)
{
    x->status = f->status;
    x->ended = true;
    serve_fault_body(f, &x->out);
}

char *serve_refusal(int status, const char *message)
{
    struct serve_fault f;
    struct buf b = {0};
    serve_refuse(&f, status, NULL, "%s", message);
    serve_fault_body(&f, &b);
    return buf_take(&b);
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* The prompt's ids, in the exchange's arena. */
static int prompt_ids(struct exchange *x, const struct serve_prompt *p, struct seq *q,
                      struct serve_fault *f)
{
    struct server *s = x->s;
    const char *param = x->ask.chat ? "messages" : "prompt";
    struct ids ids = {0};
    struct err e;
    if (p->ids) {
        for (size_t i = 0; i < p->n; i++)
            if (vocab_kind(&s->vocab, p->ids[i]) == TOKEN_NONE)
                return serve_refuse(f, 400, param, "token %zu of the prompt, %d, is no id of %s", i,
                                    p->ids[i], s->names.model);
        q->ids = p->ids;
        q->n = (int64_t)p->n;
    } else {
        if (encode(s->encoder, p->text, &ids, &e))
            return serve_refuse(f, 400, param, "%s", e.msg);
        int32_t *copy = arena_array(&x->arena, ids.n + 1, sizeof *copy);
        if (ids.n)
            memcpy(copy, ids.v, ids.n * sizeof *copy);
        q->ids = copy;
        q->n = (int64_t)ids.n;
        ids_release(&ids);
    }
    if (!q->n && s->eot < 0)
        return serve_refuse(f, 400, param,
                            "the prompt is empty and the model has no token to "
                            "begin with");
    if (!q->n) {
        int32_t *one = arena_alloc(&x->arena, sizeof *one);
        *one = s->eot;
        q->ids = one;
        q->n = 1;
    }
    if (q->n > s->names.context) {
        serve_refuse(f, 400, param, "the prompt has %lld tokens, the context is %lld",
                     (long long)q->n, (long long)s->names.context);
        f->code = "context_length_exceeded";
        return -1;
    }
    return 0;
}

/* Of choice j of a prompt: a given seed gives the same answer alone and in company. */
static uint64_t seq_seed(const struct exchange *x, int64_t j)
{
    struct buf b = {0};
    if (x->ask.seed >= 0)
        buf_printf(&b, "given %lld %lld", (long long)x->ask.seed, (long long)j);
    else
        buf_printf(&b, "own %llu %s %lld", (unsigned long long)x->s->seed, x->id, (long long)j);
    uint64_t v = sha256_u64(buf_str(&b));
    buf_release(&b);
    return v;
}

/* The prompt goes in front of the answer's text. Its tokens' places are found when it is scored. */
static void echo(struct exchange *x, struct seq *q)
{
    struct str bytes;
    for (int64_t i = 0; i < q->n; i++)
        if (vocab_bytes(&x->s->vocab, q->ids[i], &bytes))
            buf_adds(&q->flow.text, bytes);
    q->flow.base = q->flow.text.n;
}

static int make_seqs(struct exchange *x, struct serve_fault *f)
{
    struct serve_ask *k = &x->ask;
    x->seqs = (int64_t)k->prompts * k->n;
    x->seq = arena_array(&x->arena, (size_t)x->seqs, sizeof *x->seq);
    for (int64_t i = 0; i < x->seqs; i++) {
        struct seq *q = &x->seq[i];
        *q = (struct seq){.x = x, .index = i, .flow = {.stop = k->stop}};
        if (i % k->n == 0) {
            if (prompt_ids(x, &k->prompt[i / k->n], q, f))
                return -1;
            x->tokens_in += q->n;
        } else {
            q->ids = q[-1].ids;
            q->n = q[-1].n;
        }
        q->seed = seq_seed(x, i % k->n);
        if (k->echo)
            echo(x, q);
    }
    x->left = x->seqs;
    return 0;
}

static void chat_prompt(struct exchange *x)
{
    struct buf b = {0};
    struct serve_prompt *p = arena_alloc(&x->arena, sizeof *p);
    serve_chat_prompt(&x->ask, &x->s->template_, &b);
    p->text = str_copy(&x->arena, buf_str(&b));
    x->ask.prompt = p;
    x->ask.prompts = 1;
    buf_release(&b);
}

/* Room in the queue, kept for this exchange. */
static int reserve(struct exchange *x, struct serve_fault *f)
{
    struct server *s = x->s;
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    if (s->draining)
        rc = serve_refuse(f, 503, NULL, "the server is shutting down");
    else if (s->waiting && s->waiting + x->seqs > s->o->queue)
        rc = serve_refuse(f, 429, NULL, "%lld sequences are waiting already; try again",
                          (long long)s->waiting);
    else
        s->waiting += x->seqs;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static int generate(struct exchange *x, const struct serve_query *q, bool chat,
                    struct serve_fault *f)
{
    struct server *s = x->s;
    struct str type = q->content_type;
    if (!str_eqz(str_trim(str_cut(&type, ';')), "application/json"))
        return serve_refuse(f, 415, NULL, "the body must be application/json");
    if (serve_ask_read(&x->ask, chat, q->body, &x->arena, f))
        return -1;
    if (x->ask.model.n && !str_eqz(x->ask.model, s->names.model)) {
        serve_refuse(f, 404, "model", "the model \"%.*s\" is not here; this server has \"%s\"",
                     (int)(x->ask.model.n < 100 ? x->ask.model.n : 100), x->ask.model.p,
                     s->names.model);
        f->code = "model_not_found";
        return -1;
    }
    snprintf(x->id, sizeof x->id, "%s-%08llx%lld", chat ? "chatcmpl" : "cmpl",
             (unsigned long long)(s->seed & 0xFFFFFFFF), (long long)++s->serial);
    if (chat)
        chat_prompt(x);
    x->stream = x->ask.stream;
    return make_seqs(x, f) || reserve(x, f) ? -1 : 0;
}

/* ---- routes --------------------------------------------------------------------------------- */

typedef int route_fn(struct exchange *x, const struct serve_query *q, struct serve_fault *f);

static int to_text(struct exchange *x, const struct serve_query *q, struct serve_fault *f)
{
    return generate(x, q, false, f);
}

static int to_chat(struct exchange *x, const struct serve_query *q, struct serve_fault *f)
{
    return generate(x, q, true, f);
}

static int to_models(struct exchange *x, const struct serve_query *q, struct serve_fault *f)
{
    (void)q;
    (void)f;
    serve_models_body(&x->s->names, false, &x->out);
    x->ended = true;
    return 0;
}

static int to_model(struct exchange *x, const struct serve_query *q, struct serve_fault *f)
{
    struct str name = {q->path.p + strlen("/v1/models/"), q->path.n - strlen("/v1/models/")};
    if (!str_eqz(name, x->s->names.model))
        return serve_refuse(f, 404, "model", "this server has \"%s\" only", x->s->names.model);
    serve_models_body(&x->s->names, true, &x->out);
    x->ended = true;
    return 0;
}

static int to_health(struct exchange *x, const struct serve_query *q, struct serve_fault *f)
{
    struct server *s = x->s;
    (void)q;
    (void)f;
    pthread_mutex_lock(&s->lock);
    bool draining = s->draining;
    int64_t waiting = s->waiting, live = s->live;
    pthread_mutex_unlock(&s->lock);
    struct json *o = json_obj();
    json_put(o, "status", json_of_z(draining ? "draining" : "ok"));
    json_put(o, "model", json_of_z(s->names.model));
    json_put(o, "rows", json_of_int(s->o->rows));
    json_put(o, "decoding", json_of_int(live));
    json_put(o, "waiting", json_of_int(waiting));
    json_write(o, &x->out);
    json_free(o);
    x->status = draining ? 503 : 200;
    x->ended = true;
    return 0;
}

static const struct route {
    const char *path;
    bool prefix, post;
    route_fn *fn;
} routes[] = {
    {"/v1/completions", false, true, to_text}, {"/v1/chat/completions", false, true, to_chat},
    {"/v1/models", false, false, to_models},   {"/v1/models/", true, false, to_model},
    {"/health", false, false, to_health},      {0},
};

static int dispatch(struct exchange *x, const struct serve_query *q, struct serve_fault *f)
{
    const struct route *r = routes;
    while (r->path && !(r->prefix ? str_starts(q->path, r->path) : str_eqz(q->path, r->path)))
        r++;
    if (!r->path)
        return serve_refuse(f, 404, NULL, "there is no %.*s here",
                            (int)(q->path.n < 100 ? q->path.n : 100), q->path.p);
    bool get = str_eqz(q->method, "GET") || str_eqz(q->method, "HEAD");
    if (r->post ? !str_eqz(q->method, "POST") : !get) {
        x->allow = r->post ? "POST" : "GET, HEAD";
        return serve_refuse(f, 405, NULL, "%s takes %s", r->path, x->allow);
    }
    return r->fn(x, q, f);
}

struct exchange *server_open(struct server *s, const struct serve_query *q)
{
    struct exchange *x = exchange_new(s);
    struct serve_fault f;
    if (dispatch(x, q, &f))
        end_with_fault(x, &f);
    return x;
}
