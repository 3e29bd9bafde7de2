/* serve: see eval/serve.h. The decoding side: waiting sequences become rows, tokens become bytes of
 * their exchange, and the transport is woken. */
#include "eval/serve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/thread.h"
#include "eval/serve_private.h"
#include "formats/manifest.h"

#define LOOK 0.2 /* seconds between two looks at the interrupt flag while idle */

/* ---- the queue ------------------------------------------------------------------------------ */

void server_start(struct exchange *x, const struct exchange_hooks *hooks)
{
    struct server *s = x->s;
    pthread_mutex_lock(&s->lock);
    x->hooks = *hooks;
    x->refs += (int)x->seqs;
    for (int64_t i = 0; i < x->seqs; i++) {
        struct seq *q = &x->seq[i];
        if (s->last)
            s->last->next = q;
        else
            s->first = q;
        s->last = q;
    }
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static struct seq *pop(struct server *s)
{
    struct seq *q = s->first;
    if (!q)
        return NULL;
    s->first = q->next;
    if (!s->first)
        s->last = NULL;
    q->next = NULL;
    s->waiting--;
    return q;
}

/* Under the lock: whether nobody wants x any more. */
static bool unwanted(struct exchange *x)
{
    struct server *s = x->s;
    if (!x->dropped && x->hooks.gone && x->hooks.gone(x->hooks.ctx))
        x->dropped = true;
    return x->dropped || (s->draining && s->clock->now(s->clock) > s->deadline);
}

static void look_at_interrupt(struct server *s)
{
    if (s->draining || !interrupt_raised())
        return;
    s->draining = true;
    s->deadline = s->clock->now(s->clock) + s->o->drain;
    pthread_mutex_unlock(&s->lock);
    log_info("no new requests; %.0f s for those under way", s->o->drain);
    s->transport->quiet(s->t);
    pthread_mutex_lock(&s->lock);
}

static void wait_for_more(struct server *s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)(LOOK * 1e9);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&s->more, &s->lock, &t);
}

/* ---- bytes for the client ------------------------------------------------------------------- */

/* Under the lock: the exchange has all it will get. */
static void end_exchange(struct exchange *x)
{
    x->ended = true;
    x->s->requests++;
    x->hooks.wake(x->hooks.ctx);
}

static void fault_of(const struct seq *q, struct serve_fault *f)
{
    if (q->cut)
        serve_refuse(f, 503, NULL, "the server was shut down before the answer was whole");
    else
        serve_refuse(f, 500, NULL, "after %lld tokens a logit of the model is not finite",
                     (long long)q->made);
}

/* What is new of q, for a stream. */
static void send_part(struct seq *q, bool last)
{
    struct exchange *x = q->x;
    struct server *s = x->s;
    struct buf b = {0};
    struct serve_fault f;
    if (last && (q->bad || q->cut)) {
        fault_of(q, &f);
        serve_event_fault(&f, &b);
    } else {
        serve_event_part(&s->names, q, last, &b);
    }
    pthread_mutex_lock(&s->lock);
    if (b.n && !x->dropped) {
        buf_adds(&x->out, buf_str(&b));
        x->hooks.wake(x->hooks.ctx);
    }
    pthread_mutex_unlock(&s->lock);
    buf_release(&b);
}

/* The whole answer, or the first fault of its sequences. Touches nothing of the transport's. */
static void make_body(struct exchange *x, struct buf *out)
{
    struct serve_fault f;
    for (int64_t i = 0; i < x->seqs; i++)
        if (x->seq[i].bad || x->seq[i].cut) {
            fault_of(&x->seq[i], &f);
            x->status = f.status;
            serve_fault_body(&f, out);
            return;
        }
    serve_answer_body(&x->s->names, x, out);
}

static void seq_end(struct seq *q)
{
    struct exchange *x = q->x;
    struct server *s = x->s;
    struct buf b = {0};
    if (x->stream)
        send_part(q, true);
    if (--x->left == 0) {
        if (x->stream)
            serve_event_end(&s->names, x, &b);
        else if (!x->dropped)
            make_body(x, &b);
    }
    pthread_mutex_lock(&s->lock);
    s->made += q->made;
    if (x->left == 0) {
        buf_adds(&x->out, buf_str(&b));
        end_exchange(x);
    }
    exchange_unref(x);
    pthread_mutex_unlock(&s->lock);
    buf_release(&b);
}

/* ---- the calls of generate_run -------------------------------------------------------------- */

static void fill(struct server *s, struct seq *q, struct gen_task *t)
{
    const struct serve_ask *k = &q->x->ask;
    *t = (struct gen_task){.ids = q->ids,
                           .n = q->n,
                           .max_new = k->max_tokens < 0 ? s->names.context : k->max_tokens,
                           .rule = k->rule,
                           .seed = q->seed,
                           .eos = s->eot,
                           .whole = true,
                           .scored = k->echo && k->top >= 0,
                           .tag = q};
}

static int next_task(void *ctx, struct gen_task *t, struct err *e)
{
    struct server *s = ctx;
    struct seq *q;
    bool wanted = true;
    int rc;
    (void)e;
    do {
        pthread_mutex_lock(&s->lock);
        look_at_interrupt(s);
        bool more = s->waiting || !s->draining; /* reserved ones come */
        if (!s->first && !s->live && more)
            wait_for_more(s);
        q = pop(s);
        if (q)
            wanted = !unwanted(q->x);
        s->live += q && wanted;
        rc = q ? 1 : more ? 2 : 0;
        pthread_mutex_unlock(&s->lock);
        if (q && !wanted) {
            q->cut = true;
            seq_end(q);
        }
    } while (q && !wanted);
    if (!q)
        return rc;
    if (q->x->stream && q->x->ask.chat) {
        struct buf b = {0};
        serve_event_role(&s->names, q, &b);
        pthread_mutex_lock(&s->lock);
        buf_adds(&q->x->out, buf_str(&b));
        q->x->hooks.wake(q->x->hooks.ctx);
        pthread_mutex_unlock(&s->lock);
        buf_release(&b);
    }
    fill(s, q, t);
    return 1;
}

/* Places in flow.text are those of the prompt's tokens, one behind the other. */
static void score_prompt(struct seq *q, int64_t pos, const float *logits)
{
    struct server *s = q->x->s;
    struct str b;
    seq_token(q, q->ids[pos], logits, s->l.config.vocab, s->vocab.size, (int)q->x->ask.top);
    struct serve_token *t = &q->token[q->tokens - 1];
    t->begin = 0;
    if (pos > 0)
        t->begin = t[-1].begin + (vocab_bytes(&s->vocab, t[-1].id, &b) ? b.n : 0);
}

static int prompt_told(void *ctx, struct gen_task *t, int64_t pos, const float *logits,
                       struct err *e)
{
    struct seq *q = t->tag;
    (void)ctx;
    (void)e;
    if (pos == 0)
        score_prompt(q, 0, NULL);
    score_prompt(q, pos + 1, logits);
    return 0;
}

static void score_last(struct server *s, struct seq *q, const struct gen_task *t)
{
    if (q->x->ask.top < 0)
        return;
    if (t->scored && !q->tokens) /* a prompt of one token has no place that speaks of it */
        score_prompt(q, 0, NULL);
    seq_token(q, t->last, t->logits, s->l.config.vocab, s->vocab.size, (int)q->x->ask.top);
}

static int got_token(void *ctx, struct gen_task *t, int32_t id, struct err *e)
{
    struct server *s = ctx;
    struct seq *q = t->tag;
    struct str bytes = {0};
    (void)e;
    pthread_mutex_lock(&s->lock);
    look_at_interrupt(s);
    bool drop = unwanted(q->x);
    pthread_mutex_unlock(&s->lock);
    if (drop) {
        q->cut = true;
        return 1;
    }
    q->made = t->made;
    score_last(s, q, t);
    vocab_bytes(&s->vocab, id, &bytes);
    bool stop = flow_add(&q->flow, bytes);
    /* What a stop string swallowed is not part of the answer. */
    while (stop && q->tokens && q->token[q->tokens - 1].begin >= q->flow.text.n)
        q->tokens--;
    if (q->x->stream && !stop)
        send_part(q, false);
    return stop;
}

static int task_done(void *ctx, struct gen_task *t, enum finish finish, struct err *e)
{
    struct server *s = ctx;
    struct seq *q = t->tag;
    (void)e;
    q->finish = finish;
    if (finish == FINISH_ERROR)
        q->bad = true;
    else if (t->last >= 0 && t->last == t->eos)
        score_last(s, q, t); /* the end has a probability too */
    else if (!t->made && t->scored && !q->tokens)
        score_prompt(q, 0, NULL);
    pthread_mutex_lock(&s->lock);
    s->live--;
    pthread_mutex_unlock(&s->lock);
    seq_end(q);
    return 0;
}

/* ---- the transport's side ------------------------------------------------------------------- */

bool exchange_ended(struct exchange *x)
{
    pthread_mutex_lock(&x->s->lock);
    bool ended = x->ended;
    pthread_mutex_unlock(&x->s->lock);
    return ended;
}

bool exchange_stream(const struct exchange *x)
{
    return x->stream && x->status == 200;
}

int exchange_status(const struct exchange *x)
{
    return x->status;
}

const char *exchange_allow(const struct exchange *x)
{
    return x->allow;
}

struct str exchange_body(struct exchange *x)
{
    return buf_str(&x->out);
}

ssize_t exchange_read(struct exchange *x, char *to, size_t max)
{
    ssize_t got = -1;
    pthread_mutex_lock(&x->s->lock);
    size_t n = x->out.n - x->read;
    n = n < max ? n : max;
    if (n) {
        memcpy(to, x->out.p + x->read, n);
        x->read += n;
        got = (ssize_t)n;
        if (x->read == x->out.n) {
            buf_cut(&x->out, 0);
            x->read = 0;
        }
    } else if (!x->ended) {
        x->hooks.rest(x->hooks.ctx);
        got = 0;
    }
    pthread_mutex_unlock(&x->s->lock);
    return got;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

void exchange_drop(struct exchange *x)
{
    struct server *s = x->s;
    pthread_mutex_lock(&s->lock);
    x->dropped = true;
    x->hooks = (struct exchange_hooks){.wake = nothing, .rest = nothing};
    exchange_unref(x);
    pthread_mutex_unlock(&s->lock);
}

/* ---- opening and running -------------------------------------------------------------------- */

static int name_it(struct server *s, struct err *e)
{
    const struct serve_options *o = s->o;
    char hash[SHA256_HEX];
    struct str model = o->model;
    while (model.n > 1 && model.p[model.n - 1] == '/')
        model.n--;
    s->names.model = o->name.n ? str_dup(&s->arena, o->name) : path_base(str_dup(&s->arena, model));
    if (manifest_hash(s->l.dir, hash, e))
        return -1;
    s->names.fingerprint = arena_printf(&s->arena, "assay-%.12s-%.12s", hash, s->vocab.hash);
    s->names.created = (int64_t)s->clock->wall(s->clock);
    s->names.vocab = &s->vocab;
    s->names.context = s->l.config.context;
    return 0;
}

static int server_load(struct server *s, struct err *e)
{
    const struct serve_options *o = s->o;
    struct arena *a = &s->arena;
    struct local_options lo = {.backend = o->backend.n ? str_dup(a, o->backend) : NULL,
                               .threads = o->threads,
                               .precision = o->precision,
                               .batch = generate_batch(o->rows),
                               .decode = true};
    if (local_open(&s->l, str_dup(a, o->model), &lo, e) ||
        local_vocab(&s->l, o->vocab.n ? str_dup(a, o->vocab) : NULL, &s->vocab, e))
        return -1;
    struct encode_options eo = {.special = SPECIAL_PLAIN, .bad_utf8 = BAD_UTF8_REPLACE};
    s->encoder = encoder_new(&s->vocab, eo, e);
    s->eot = local_eot(&s->l, &s->vocab);
    if (!s->encoder || name_it(s, e) ||
        template_load(&s->template_, str_dup(a, o->template_), a, e))
        return -1;
    struct rng r = rng_make((uint64_t)(s->clock->wall(s->clock) * 1e6), "serve", 0);
    s->seed = o->seed > 0 ? (uint64_t)o->seed : rng_u64(&r);
    return 0;
}

static void server_release(struct server *s)
{
    encoder_free(s->encoder);
    vocab_release(&s->vocab);
    local_close(&s->l);
    arena_release(&s->arena);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
}

/* The last bytes go out while nothing is decoded any more. */
static void flush(struct server *s)
{
    double end = s->clock->now(s->clock) + 5;
    while (s->transport->pending(s->t) > 0 && s->clock->now(s->clock) < end)
        s->clock->sleep(s->clock, 0.01);
}

static int decode_all(struct server *s, FILE *to, struct err *e)
{
    struct gen_calls calls = {.next = next_task,
                              .token = got_token,
                              .done = task_done,
                              .prompt = prompt_told,
                              .ctx = s,
                              .limit = s->vocab.size,
                              .patient = true};
    const struct serve_options *o = s->o;
    bool six = str_find(o->host, STR_LIT(":")) >= 0;
    int port = 0;
    if (s->transport->open(&s->t, s, o, &port, e))
        return -1;
    fprintf(to, "serving %s at http://%s%.*s%s:%d/v1\n", s->names.model, six ? "[" : "",
            STR_ARG(o->host), six ? "]" : "", port);
    fflush(to);
    int rc = generate_run(s->l.m, o->rows, &calls, e);
    if (rc == 0)
        flush(s);
    s->transport->close(s->t);
    log_info("%lld requests answered, %lld tokens made", (long long)s->requests,
             (long long)s->made);
    return rc;
}

int serve_run(const struct serve_options *o, FILE *to, struct err *e)
{
    struct server s = {.o = o, .clock = clock_system(), .transport = serve_transport(e)};
    pthread_condattr_t monotonic;
    if (!s.transport)
        return -1;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.more, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = server_load(&s, e);
    if (rc == 0)
        rc = decode_all(&s, to, e);
    server_release(&s);
    return rc;
}
