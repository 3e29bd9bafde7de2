/* model_http: a chat server as a model: many requests at once. What becomes of their answers, and when
 * they are tried again: eval/model_http_reply.c. All waiting goes through the clock, so tests take
 * milliseconds.
 */
#include "eval/model_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "eval/complete.h"
#include "eval/model_digest.h"
#include "eval/model_kinds.h"

#define SLICE 0.25 /* seconds between two looks at the interrupt flag */

enum { CONCURRENCY = 4, RETRIES = 2 };

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

static int send_job(struct http_model *m, struct job *j)
{
    struct buf body = {0};
    if (m->o.max_requests > 0 && m->model->sent >= m->o.max_requests) {
        char why[80];
        snprintf(why, sizeof why, "the cap of %lld requests is reached",
                 (long long)m->o.max_requests);
        http_model_stop(m, EXIT_INCOMPLETE, why);
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
    int rc = http_send(m->http, &r, http_model_arrived, j, m->e);
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
            http_model_stop(m, EXIT_FAILED, complete_refuses(&m->target, &j->q));
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
