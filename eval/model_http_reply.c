/* model_http_reply: what becomes of a server's answer: it is tried again with patience, or it counts.
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
#include "eval/model_http.h"

#include <math.h>

#include "base/log.h"
#include "base/rng.h"
#include "eval/complete.h"

#define RETRY_AFTER_MAX 120.0
#define BACKOFF_FIRST   0.5
#define BACKOFF_MAX     8.0

enum { BROKEN_AFTER = 8, HANGS = 4 };

void http_model_stop(struct http_model *m, int code, const char *why)
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
        http_model_stop(m, EXIT_INCOMPLETE, why);
    else if (m->failed_in_row >= BROKEN_AFTER && m->failed_in_row >= 2 * m->jobs)
        http_model_stop(m, EXIT_INCOMPLETE,
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
        http_model_stop(m, EXIT_INCOMPLETE,
                        arena_printf(a, "it asks to wait %.0f s (%.*s)", c->wait, STR_ARG(c->why)));
        return;
    }
    bool dead = never_there(m, h);
    if (dead || j->tries > m->o.retries) {
        int64_t tries = m->dead;
        give_failure(m, j, c, !h->status && h->refused, a);
        if (dead)
            http_model_stop(m, EXIT_INCOMPLETE,
                            arena_printf(a, "no reply to any of %lld tries, the last: %.*s",
                                         (long long)tries, STR_ARG(c->why)));
        return;
    }
    j->state = JOB_WAITING;
    j->due = m->clock->now(m->clock) + wait;
    if (c->slow_down && j->due > m->hold)
        m->hold = j->due; /* the others would only be sent away too */
    log_debug("%s: %.*s; again in %.1f s", m->target.server, STR_ARG(c->why), wait);
}

void http_model_arrived(void *ctx, const struct http_reply *h)
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
        http_model_stop(m, c.kind == CHAT_FATAL ? EXIT_FAILED : EXIT_INCOMPLETE,
                        str_dup(&a, c.why));
        break;
    }
    arena_release(&a);
}
