/* rendezvous_live: how ranks hear of each other's end, see rendezvous.h.
 *
 * The thread of each rank owns the life sockets alone: it sends a byte every tenth of the limit, and
 * what it reads is such a byte, "I leave", or "I give up" with a sentence, which rank 0 passes on.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/rendezvous_private.h"

/* From the failure to the end of a process that does not look up, in seconds; less when silence is
 * borne less long. */
#define GRACE 5.0

enum life { LIFE_ALIVE = 'a', LIFE_BYE = 'b', LIFE_GIVE_UP = 'g' };
struct give_up {
    int32_t guilty, code;
    char msg[1000];
};

/* ---- the failure ---- */

void rendezvous_poke(int fd)
{
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

/* Keeps the first. */
void rendezvous_fail(struct rendezvous_impl *m, int guilty, const struct err *why)
{
    pthread_mutex_lock(&m->lock);
    if (!atomic_load(&m->failed)) {
        m->fault = *why;
        m->guilty = guilty;
        atomic_store(&m->failed, true);
    }
    pthread_mutex_unlock(&m->lock);
    rendezvous_poke(m->wake);
}

/* told: somebody else says it. Of rank 0 this rank says it, but not behind rank 0's own last word. */
static void fail_peer(struct rendezvous_impl *m, const struct peer *p, const char *what, bool told)
{
    struct err e = {0};
    err_set(&e, "rank %d on %s: %s", p->rank, p->host, what);
    if (p->rank == 0 && !told && !atomic_load(&m->failed))
        atomic_store(&m->alone, true);
    rendezvous_fail(m, p->rank, &e);
}

void rendezvous_fail_peer(struct rendezvous_impl *m, const struct peer *p, const char *what)
{
    fail_peer(m, p, what, false);
}

bool rendezvous_failed(const struct rendezvous *r)
{
    return r && r->impl && atomic_load(&r->impl->failed);
}

int rendezvous_why(const struct rendezvous *r, struct err *e)
{
    pthread_mutex_lock(&r->impl->lock);
    *e = r->impl->fault;
    pthread_mutex_unlock(&r->impl->lock);
    return -1;
}

bool rendezvous_speaks(const struct rendezvous *r)
{
    return r->rank == 0 || !r->impl || atomic_load(&r->impl->alone);
}

void rendezvous_last_word(struct rendezvous *r, void (*say)(void *ctx, const struct err *why),
                          void *ctx)
{
    if (!r->impl)
        return;
    pthread_mutex_lock(&r->impl->lock);
    r->impl->last = say;
    r->impl->last_ctx = ctx;
    pthread_mutex_unlock(&r->impl->lock);
}

void rendezvous_abort(struct rendezvous *r, const struct err *why)
{
    struct err e = *why;
    if (!r->impl)
        return;
    err_wrap(&e, "rank %d on %s", r->rank, r->host);
    rendezvous_fail(r->impl, r->rank, &e);
}

/* ---- the thread: signs of life ---- */

static bool send_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    double until = clock_now() + 2;
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        } else if (k < 0 && errno == EAGAIN && clock_now() < until) {
            struct pollfd w = {.fd = fd, .events = POLLOUT};
            poll(&w, 1, 100);
        } else if (!(k < 0 && errno == EINTR)) {
            return false;
        }
    }
    return true;
}

static bool take_all(int fd, void *bytes, size_t n)
{
    char *p = bytes;
    double until = clock_now() + 2;
    while (n && clock_now() < until) {
        struct pollfd w = {.fd = fd, .events = POLLIN};
        if (poll(&w, 1, 100) <= 0)
            continue;
        ssize_t k = recv(fd, p, n, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return n == 0;
}

/* Also to the guilty one, if it lives: it may not know. */
static void pass_on(struct rendezvous_impl *m)
{
    struct {
        char kind;
        struct give_up body;
    } __attribute__((packed)) f = {.kind = LIFE_GIVE_UP};
    pthread_mutex_lock(&m->lock);
    f.body.guilty = m->guilty;
    f.body.code = m->fault.code;
    snprintf(f.body.msg, sizeof f.body.msg, "%.999s", m->fault.msg);
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < m->peers; i++)
        if (m->peer[i].life >= 0 && !m->peer[i].left)
            send_all(m->peer[i].life, &f, sizeof f);
}

static void forget(struct peer *p)
{
    close(p->life);
    p->life = -1;
}

static void listen_to(struct rendezvous_impl *m, struct peer *p, double now)
{
    char kind;
    ssize_t k = recv(p->life, &kind, 1, MSG_DONTWAIT);
    if (k < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (k <= 0) {
        if (!p->left)
            fail_peer(m, p, "it died: its connection closed", m->launched);
        forget(p);
        return;
    }
    p->heard = now;
    if (kind == LIFE_BYE)
        p->left = true;
    if (kind != LIFE_GIVE_UP)
        return;
    struct give_up g;
    struct err e = {0};
    if (!take_all(p->life, &g, sizeof g)) {
        rendezvous_fail_peer(m, p, "it gave up");
        return;
    }
    g.msg[sizeof g.msg - 1] = 0;
    err_code(&e, g.code, "%s", g.msg);
    rendezvous_fail(m, g.guilty, &e);
}

/* Ends a process whose main thread does not come back: nothing is lost, the other ranks are gone. */
static void end_process(struct rendezvous_impl *m)
{
    log_error("%s", m->fault.msg);
    alarm(2); /* a disk that hangs as well is waited for no longer */
    pthread_mutex_lock(&m->lock);
    if (m->last)
        m->last(m->last_ctx, &m->fault);
    _exit(EXIT_FAILED);
}

static void look_for_silence(struct rendezvous_impl *m, double now)
{
    for (int i = 0; i < m->peers; i++) {
        struct peer *p = &m->peer[i];
        char what[80];
        if (p->life < 0 || p->left || now - p->heard <= m->silence)
            continue;
        snprintf(what, sizeof what, "no sign of life for %.3g s", m->silence);
        rendezvous_fail_peer(m, p, what);
    }
}

static int gather_fds(struct rendezvous_impl *m, struct pollfd *w)
{
    int n = 0;
    w[n++] = (struct pollfd){.fd = m->stop, .events = POLLIN};
    for (int i = 0; i < m->peers; i++)
        w[n++] = (struct pollfd){.fd = m->peer[i].life, .events = POLLIN}; /* -1: left out */
    return n;
}

void *rendezvous_live(void *arg)
{
    struct rendezvous_impl *m = arg;
    struct pollfd *w = mem_array((size_t)m->peers + 1, sizeof *w);
    double tick = m->silence / 10 < 1 ? m->silence / 10 : 1, beat = 0, round = clock_now();
    double failed_at = 0, grace = m->silence < GRACE ? m->silence : GRACE;
    for (int i = 0; i < m->peers; i++)
        m->peer[i].heard = round;
    for (;;) {
        int n = gather_fds(m, w);
        poll(w, (nfds_t)n, (int)(tick * 1000 / 2) + 1);
        double now = clock_now();
        /* We were stopped ourselves (SIGSTOP of the whole job, a suspended machine): what others
         * sent meanwhile lies in the sockets, their silence proves nothing. */
        if (now - round > m->silence / 2)
            for (int i = 0; i < m->peers; i++)
                m->peer[i].heard = now;
        round = now;
        for (int i = 0; i < m->peers; i++)
            if (m->peer[i].life >= 0 && w[i + 1].revents)
                listen_to(m, &m->peer[i], now);
        if (w[0].revents)
            break;
        if (now - beat >= tick) {
            char alive = LIFE_ALIVE;
            beat = now;
            for (int i = 0; i < m->peers; i++)
                if (m->peer[i].life >= 0)
                    send(m->peer[i].life, &alive, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        look_for_silence(m, now);
        if (atomic_load(&m->failed) && !failed_at) {
            failed_at = now;
            pass_on(m);
        }
        if (failed_at && now - failed_at > grace)
            end_process(m);
    }
    if (atomic_load(&m->failed) && !failed_at)
        pass_on(m);
    char bye = LIFE_BYE;
    for (int i = 0; i < m->peers && !atomic_load(&m->failed); i++)
        if (m->peer[i].life >= 0)
            send(m->peer[i].life, &bye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    free(w);
    return NULL;
}
