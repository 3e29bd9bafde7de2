/* model_http: a chat server as a model: many requests at once, tried again with patience.
 *
 * Policy (the one of OpenAI's own clients): a failed connection, 408, 409, 429 and 5xx are tried
 * again `retries` times; x-should-retry decides if present; a Retry-After of 0..120 s is obeyed,
 * above that the run stops; else 0.5 s * 2^n up to 8 s, times 0.75..1, twice that for 529. A 429
 * makes the number of requests at once shrink to 0.8 of it (once in 15 s), each answer lets it grow
 * back by 5% a round.
 * A server that has never answered is given up after 8 tries, or 4 that ran into the timeout.
 * What a server refuses for good of one item (400, 413, 422...) is that item's failure alone, however many
 * come in a row; the streaks are of faults of the server and the way to it.
 * What can't get better (key, model, parameter, money, a server that is not there) stops the run:
 * burning the queue would only make more failures. What is under way is still read and given to
 * done(), because it is paid for. All waiting goes through the clock, so tests take milliseconds.
 */
#include "eval/model_kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/thread.h"
#include "eval/chat.h"
#include "eval/complete.h"
#include "eval/model_digest.h"

#define RETRY_AFTER_MAX 120.0
#define BACKOFF_FIRST   0.5
#define BACKOFF_MAX     8.0
#define SHRINK_COOLDOWN 15.0
#define SLICE           0.25 /* seconds between two looks at the interrupt flag */

enum { CONCURRENCY = 4, RETRIES = 2, BROKEN_AFTER = 8, HANGS = 4 };

enum job_state { JOB_FREE, JOB_WAITING, JOB_SENT };

struct http_model;
struct job {
    struct http_model *m;
    enum job_state state;
    struct request q;
    int tries;
    double due;
};
struct http_model {
    struct model *model;
    struct chat_target target;
    struct model_options o;
    struct clock *clock;
    struct http *http;
    const char *identity;
    char *auth; /* "Authorization: Bearer ..." */
    const char *headers[5];
    struct job *job;
    int64_t jobs;
    double at_once, shrunk_at, hold; /* hold: nothing is sent before */
    int64_t answered, failed_in_row, served_other;
    int64_t dead, hung; /* tries before the first answer: without a reply, of these timeouts */
    /* of the running answer() */
    response_done_fn *done;
    void *ctx;
    bool drained, stopping;
    int rc;
    struct err *e;
};

static void set_headers(struct http_model *m)
{
    int n = 0;
    m->headers[n++] = "Content-Type: application/json";
    m->headers[n++] = "Accept: application/json";
    if (m->target.key) {
        m->auth = mem_printf("%s%s", m->target.dialect->key_header, m->target.key);
        m->headers[n++] = m->auth;
    }
    if (m->target.dialect->extra_header)
        m->headers[n++] = m->target.dialect->extra_header;
    m->headers[n] = NULL;
}

static int http_model_open(struct model *model, const char *spec, const struct model_options *o,
                           struct err *e)
{
    struct http_model *m = mem_zero(sizeof *m);
    model->impl = m;
    m->model = model;
    m->o = *o;
    if (m->o.concurrency < 1)
        m->o.concurrency = CONCURRENCY;
    if (m->o.retries < 0)
        m->o.retries = RETRIES;
    m->clock = o->clock ? o->clock : clock_system();
    if (chat_target_parse(&m->target, spec, &model->arena, e))
        return -1;
    m->http = http_open((int)m->o.concurrency, m->clock, e);
    if (!m->http)
        return -1;
    m->jobs = m->o.concurrency;
    m->job = mem_array((size_t)m->jobs, sizeof *m->job);
    m->at_once = 1; /* until the first answer: a wrong key costs one request */
    m->shrunk_at = -SHRINK_COOLDOWN;
    set_headers(m);
    const struct chat_target *t = &m->target;
    const char *digest;
    if (model_digest(t, m->headers, m->clock, &model->arena, &digest, e) ||
        model_fit_context(&m->target, m->headers, m->clock, &model->arena, e))
        return -1;
    model->context = t->num_ctx;
    m->identity = arena_printf(&model->arena, "%s %s %s", t->dialect->name, t->server, t->model);
    if (t->num_ctx)
        m->identity =
            arena_printf(&model->arena, "%s num_ctx=%lld", m->identity, (long long)t->num_ctx);
    if (digest)
        m->identity = arena_printf(&model->arena, "%s digest=%s", m->identity, digest);
    return 0;
}

static void http_model_close(struct model *model)
{
    struct http_model *m = model->impl;
    if (!m)
        return;
    if (m->http)
        http_close(m->http);
    if (m->auth)
        memset(m->auth, 0, strlen(m->auth));
    free(m->auth);
    free(m->job);
    free(m);
    model->impl = NULL;
}

static const char *http_model_identity(const struct model *model)
{
    const struct http_model *m = model->impl;
    return m->identity;
}

/* ---- one request ---------------------------------------------------------------------------- */

/* The first reason to stop is kept; what is under way goes on. */
static void stop(struct http_model *m, int code, const char *why)
{
    if (m->stopping)
        return;
    m->stopping = true;
    m->rc = err_code(m->e, code, "%s: %s", m->target.server, why);
}

static double backoff(const struct job *j)
{
    struct rng r = rng_make(j->q.seed, "backoff", (uint64_t)j->tries);
    double s = BACKOFF_FIRST * pow(2, j->tries - 1);
    return (s < BACKOFF_MAX ? s : BACKOFF_MAX) * (0.75 + 0.25 * rng_unit(&r));
}

static void slow_down(struct http_model *m)
{
    double now = m->clock->now(m->clock);
    if (now - m->shrunk_at < SHRINK_COOLDOWN)
        return;
    m->shrunk_at = now;
    m->at_once = m->at_once * 0.8 > 1 ? m->at_once * 0.8 : 1;
}

static void give(struct http_model *m, struct job *j, const struct response *r)
{
    j->state = JOB_FREE;
    if (m->done(m->ctx, &j->q, r, m->e)) {
        m->stopping = true;
        m->rc = -1;
    }
}

static void give_answer(struct http_model *m, struct job *j, const struct chat_reply *c)
{
    m->failed_in_row = 0;
    m->at_once = m->answered++ ? m->at_once + 0.05 : (double)m->jobs;
    if (m->at_once > (double)m->jobs)
        m->at_once = (double)m->jobs;
    if (!str_eqz(c->r.model, m->target.model) && m->served_other++ == 0)
        log_info("%s was asked for %s and says that it is %.*s", m->target.server, m->target.model,
                 STR_ARG(c->r.model));
    give(m, j, &c->r);
}

/* No more tries: the request has failed, and perhaps the server has. */
static void give_failure(struct http_model *m, struct job *j, struct chat_reply *c, bool gone,
                         struct arena *a)
{
    const char *why = arena_printf(a, "after %d tr%s: %.*s", j->tries, j->tries == 1 ? "y" : "ies",
                                   STR_ARG(c->why));
    c->r.detail = str_z(why);
    if (!c->r.final) /* a refused item is no fault of a working server */
        m->failed_in_row++;
    give(m, j, &c->r);
    if (gone)
        stop(m, EXIT_INCOMPLETE, why);
    else if (m->failed_in_row >= BROKEN_AFTER && m->failed_in_row >= 2 * m->jobs)
        stop(m, EXIT_INCOMPLETE,
             arena_printf(a, "%lld requests in a row failed, the last %s",
                          (long long)m->failed_in_row, why));
}

/* A server that has never replied is given up after a few tries, not after a few requests with all
 * their tries: a timeout each is a long time. */
static bool never_there(struct http_model *m, const struct http_reply *h)
{
    if (m->answered || h->status)
        m->dead = m->hung = 0;
    else {
        m->dead++;
        m->hung += h->timed_out;
    }
    return m->dead >= BROKEN_AFTER || m->hung >= HANGS;
}

static void try_again(struct http_model *m, struct job *j, const struct http_reply *h,
                      struct chat_reply *c, struct arena *a)
{
    double wait = c->wait > 0 ? c->wait : backoff(j) * (c->overloaded ? 2 : 1);
    if (c->slow_down)
        slow_down(m);
    if (c->wait > RETRY_AFTER_MAX) {
        give_failure(m, j, c, false, a);
        stop(m, EXIT_INCOMPLETE,
             arena_printf(a, "it asks to wait %.0f s (%.*s)", c->wait, STR_ARG(c->why)));
        return;
    }
    bool dead = never_there(m, h);
    if (dead || j->tries > m->o.retries) {
        int64_t tries = m->dead;
        give_failure(m, j, c, !h->status && h->refused, a);
        if (dead)
            stop(m, EXIT_INCOMPLETE,
                 arena_printf(a, "no reply to any of %lld tries, the last: %.*s", (long long)tries,
                              STR_ARG(c->why)));
        return;
    }
    j->state = JOB_WAITING;
    j->due = m->clock->now(m->clock) + wait;
    if (c->slow_down && j->due > m->hold)
        m->hold = j->due; /* the others would only be sent away too */
    log_debug("%s: %.*s; again in %.1f s", m->target.server, STR_ARG(c->why), wait);
}

static void arrived(void *ctx, const struct http_reply *h)
{
    struct job *j = ctx;
    struct http_model *m = j->m;
    struct chat_reply c;
    struct arena a = {0};
    m->model->timed_out += h->timed_out;
    if (j->q.kind == REQUEST_LOGPROB)
        complete_read(&m->target, &j->q, h, &c, &a);
    else
        chat_read(&m->target, h, &c, &a);
    switch (c.kind) {
    case CHAT_ANSWER:
        give_answer(m, j, &c);
        break;
    case CHAT_RETRY:
        try_again(m, j, h, &c, &a);
        break;
    case CHAT_FAILED:
        c.r.final = h->status < 500; /* a server that fails may be well later, whatever it says */
        give_failure(m, j, &c, false, &a);
        break;
    case CHAT_FATAL:
    case CHAT_EXHAUSTED:
        j->state = JOB_FREE; /* never answered: it stays not run */
        stop(m, c.kind == CHAT_FATAL ? EXIT_FAILED : EXIT_INCOMPLETE, str_dup(&a, c.why));
        break;
    }
    arena_release(&a);
}

static int send_job(struct http_model *m, struct job *j)
{
    struct buf body = {0};
    if (m->o.max_requests > 0 && m->model->sent >= m->o.max_requests) {
        char why[80];
        snprintf(why, sizeof why, "the cap of %lld requests is reached",
                 (long long)m->o.max_requests);
        stop(m, EXIT_INCOMPLETE, why);
        return 0;
    }
    bool logprobs = j->q.kind == REQUEST_LOGPROB;
    if (logprobs)
        complete_body(&m->target, &j->q, &body);
    else
        m->target.dialect->body(&m->target, &j->q, &body);
    struct http_request r = {.url = logprobs ? m->target.complete_url : m->target.url,
                             .headers = m->headers,
                             .body = buf_str(&body),
                             .timeout = m->o.timeout,
                             .secret = m->target.key != NULL};
    m->model->begun += j->tries == 0;
    j->tries++;
    j->state = JOB_SENT;
    m->model->sent++;
    int rc = http_send(m->http, &r, arrived, j, m->e);
    buf_release(&body);
    return rc;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static int64_t count(const struct http_model *m, enum job_state s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->jobs; i++)
        n += m->job[i].state == s;
    return n;
}

static int take(struct http_model *m, request_next_fn *next)
{
    int64_t busy = m->jobs - count(m, JOB_FREE);
    for (int64_t i = 0; i < m->jobs && busy < (int64_t)m->at_once && !m->drained; i++) {
        struct job *j = &m->job[i];
        if (j->state != JOB_FREE)
            continue;
        *j = (struct job){.m = m, .state = JOB_FREE};
        int rc = next(m->ctx, &j->q, m->e);
        if (rc < 0)
            return -1;
        if (rc == 0) {
            m->drained = true;
        } else if (j->q.kind == REQUEST_LOGPROB && complete_refuses(&m->target, &j->q)) {
            stop(m, EXIT_FAILED, complete_refuses(&m->target, &j->q));
        } else {
            j->state = JOB_WAITING;
            busy++;
        }
        if (m->rc)
            return -1;
    }
    return 0;
}

/* Sends what is due. Returns the seconds until the next is, 1e9 if none waits. */
static int send_due(struct http_model *m, double *next_due)
{
    double now = m->clock->now(m->clock);
    int64_t sent = count(m, JOB_SENT);
    *next_due = 1e9;
    for (int64_t i = 0; i < m->jobs && !m->stopping; i++) {
        struct job *j = &m->job[i];
        if (j->state != JOB_WAITING)
            continue;
        double due = j->due > m->hold ? j->due : m->hold;
        if (due <= now && sent < (int64_t)m->at_once) {
            if (send_job(m, j))
                return -1;
            sent++;
        } else if (due - now < *next_due) {
            *next_due = due > now ? due - now : 0;
        }
    }
    return 0;
}

/* What send_due queued starts first. */
static int let_idle(struct http_model *m)
{
    struct model *model = m->model;
    if (!model->idle || !model->idle_due)
        return 0;
    model->idle_due = false;
    return http_poll(m->http, 0, m->e) || model->idle(m->ctx, m->e) ? -1 : 0;
}

static int run(struct http_model *m, request_next_fn *next)
{
    for (;;) {
        double due;
        if (interrupt_raised() && !m->stopping) {
            m->stopping = true;
            m->rc = err_code(m->e, EXIT_INCOMPLETE, "interrupted");
        }
        if (!m->stopping && take(m, next)) {
            m->stopping = true;
            m->rc = -1;
        }
        if (send_due(m, &due) || let_idle(m))
            return -1;
        if (count(m, JOB_SENT)) {
            double wait = due < SLICE && due > 0.001 ? due : SLICE;
            if (http_poll(m->http, wait, m->e))
                return -1;
        } else if (m->stopping || (m->drained && !count(m, JOB_WAITING))) {
            return m->rc;
        } else if (due < 1e9) {
            m->clock->sleep(m->clock, due < SLICE ? due : SLICE);
        }
    }
}

static int http_model_answer(struct model *model, request_next_fn *next, response_done_fn *done,
                             void *ctx, struct err *e)
{
    struct http_model *m = model->impl;
    m->done = done;
    m->ctx = ctx;
    m->e = e;
    m->rc = 0;
    m->drained = m->stopping = false;
    for (int64_t i = 0; i < m->jobs; i++)
        m->job[i].state = JOB_FREE;
    return run(m, next);
}

const struct model_ops model_http = {
    .name = "http",
    .help = "openai:MODEL (OPENAI_API_KEY), anthropic:MODEL (ANTHROPIC_API_KEY), ollama:MODEL "
            "(OLLAMA_HOST), http://HOST:PORT/v1#MODEL",
    .remote = true,
    .open = http_model_open,
    .close = http_model_close,
    .answer = http_model_answer,
    .identity = http_model_identity,
};
