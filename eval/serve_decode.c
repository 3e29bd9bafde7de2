/* serve_decode: the decoding side of the server: waiting sequences become rows, tokens become bytes of
 * their exchange, and the transport is woken. Eval/serve_private.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"
#include "eval/serve_private.h"

#define LOOK 0.2 /* seconds between two looks at the interrupt flag while idle */

/* ---- the queue ------------------------------------------------------------------------------ */

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

int serve_decode(struct server *s, struct err *e)
{
    struct gen_calls calls = {.next = next_task,
                              .token = got_token,
                              .done = task_done,
                              .prompt = prompt_told,
                              .ctx = s,
                              .limit = s->vocab.size,
                              .patient = true};
    return generate_run(s->l.m, s->o->rows, &calls, e);
}
