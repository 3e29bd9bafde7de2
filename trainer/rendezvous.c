/* rendezvous: calls between ranks and their signs of life, see rendezvous.h. Finding each other is
 * in rendezvous_find.c.
 *
 * A star around rank 0. One call at a time: every rank sends a head (which call, what, how much)
 * and its bytes, rank 0 compares the heads and answers with what all get. The thread of each rank
 * owns the life sockets alone: it sends a byte every tenth of the limit, and what it reads is such a
 * byte, "I leave", or "I give up" with a sentence, which rank 0 passes on.
 */
#include "trainer/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "trainer/rendezvous_private.h"

#define START   25.0
#define SILENCE 15.0
/* From the failure to the end of a process that does not look up, in seconds; less when silence is
 * borne less long. */
#define GRACE 5.0
#define MAGIC 0x76727361u

enum call { CALL_BARRIER, CALL_SHARE, CALL_GATHER };
static const char *const call_name[] = {"barrier", "share", "gather"};
struct head {
    uint32_t magic, number;
    int32_t call, root;
    uint64_t n;
};
enum life { LIFE_ALIVE = 'a', LIFE_BYE = 'b', LIFE_GIVE_UP = 'g' };
struct give_up {
    int32_t guilty, code;
    char msg[1000];
};

/* ---- the failure ---- */

static void poke(int fd)
{
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

/* Keeps the first. */
static void fail(struct rendezvous_impl *m, int guilty, const struct err *why)
{
    pthread_mutex_lock(&m->lock);
    if (!atomic_load(&m->failed)) {
        m->fault = *why;
        m->guilty = guilty;
        atomic_store(&m->failed, true);
    }
    pthread_mutex_unlock(&m->lock);
    poke(m->wake);
}

static void fail_peer(struct rendezvous_impl *m, const struct peer *p, const char *what)
{
    struct err e = {0};
    err_set(&e, "rank %d on %s: %s", p->rank, p->host, what);
    if (p->rank == 0)
        atomic_store(&m->alone, true);
    fail(m, p->rank, &e);
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

void rendezvous_abort(struct rendezvous *r, const struct err *why)
{
    struct err e = *why;
    if (!r->impl)
        return;
    err_wrap(&e, "rank %d on %s", r->rank, r->host);
    fail(r->impl, r->rank, &e);
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
            fail_peer(m, p, "it died: its connection closed");
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
        fail_peer(m, p, "it gave up");
        return;
    }
    g.msg[sizeof g.msg - 1] = 0;
    err_code(&e, g.code, "%s", g.msg);
    fail(m, g.guilty, &e);
}

/* Ends a process whose main thread does not come back: nothing is lost, the other ranks are gone. */
static void end_process(struct rendezvous_impl *m)
{
    log_error("%s", m->fault.msg);
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
        fail_peer(m, p, what);
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

static void *live(void *arg)
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

/* ---- calls ---- */

/* A peer's data socket ended. Its life socket knows better: it died, gave up or left. */
static int lost(struct rendezvous *r, const struct peer *p, struct err *e)
{
    for (int i = 0; i < 100 && !rendezvous_failed(r); i++) {
        struct pollfd w = {.fd = r->impl->wake, .events = POLLIN};
        poll(&w, 1, 10);
    }
    fail_peer(r->impl, p, "it left before the work was done");
    return rendezvous_why(r, e);
}

/* Waits until fd is ready; -1 when the job failed. */
static int ready(struct rendezvous *r, int fd, short what, struct err *e)
{
    for (;;) {
        struct pollfd w[2] = {{.fd = fd, .events = what}, {.fd = r->impl->wake, .events = POLLIN}};
        if (rendezvous_failed(r))
            return rendezvous_why(r, e);
        if (poll(w, 2, 1000) > 0 && w[0].revents)
            return 0;
    }
}

static int put(struct rendezvous *r, struct peer *p, const void *bytes, size_t n, struct err *e)
{
    const char *at = bytes;
    while (n) {
        if (ready(r, p->data, POLLOUT, e))
            return -1;
        ssize_t k = send(p->data, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno != EAGAIN && errno != EINTR)
            return lost(r, p, e);
        if (k > 0) {
            at += k;
            n -= (size_t)k;
        }
    }
    return 0;
}

static int take(struct rendezvous *r, struct peer *p, void *bytes, size_t n, struct err *e)
{
    char *at = bytes;
    while (n) {
        if (ready(r, p->data, POLLIN, e))
            return -1;
        ssize_t k = recv(p->data, at, n, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
            return lost(r, p, e);
        if (k > 0) {
            at += k;
            n -= (size_t)k;
        }
    }
    return 0;
}

static int not_the_same(struct rendezvous *r, const struct peer *p, const struct head *mine,
                        const struct head *his, struct err *e)
{
    bool known = his->magic == MAGIC && his->call >= 0 && his->call <= CALL_GATHER;
    err_set(
        e,
        "rank %d on %s: its call %u is %s of %llu bytes, that of rank 0 is call %u, %s of %llu: "
        "these are not ranks of one program with one configuration",
        p->rank, p->host, his->number, known ? call_name[his->call] : "unknown",
        (unsigned long long)his->n, mine->number, call_name[mine->call],
        (unsigned long long)mine->n);
    fail(r->impl, p->rank, e);
    return -1;
}

static bool same(const struct head *a, const struct head *b)
{
    return a->magic == b->magic && a->number == b->number && a->call == b->call &&
           a->root == b->root && a->n == b->n;
}

/* Rank 0: all must have come with the same head; out (all: world x n, else n) gets the answer. */
static int answer(struct rendezvous *r, const struct head *h, const void *mine, void *out,
                  struct err *e)
{
    struct rendezvous_impl *m = r->impl;
    size_t n = (size_t)h->n, all = h->call == CALL_GATHER ? n * (size_t)r->world : n;
    if (n && (h->call == CALL_GATHER || h->root == 0) && out != mine)
        memcpy(out, mine, n);
    for (int i = 0; i < m->peers; i++) {
        struct peer *p = &m->peer[i];
        struct head his;
        if (take(r, p, &his, sizeof his, e))
            return -1;
        if (!same(h, &his))
            return not_the_same(r, p, h, &his, e);
        bool brings = h->call == CALL_GATHER || (h->call == CALL_SHARE && h->root == p->rank);
        char *to = (char *)out + (h->call == CALL_GATHER ? n * (size_t)p->rank : 0);
        if (n && brings && take(r, p, to, n, e))
            return -1;
    }
    for (int i = 0; i < m->peers; i++)
        if (put(r, &m->peer[i], h, sizeof *h, e) || (all && put(r, &m->peer[i], out, all, e)))
            return -1;
    return 0;
}

static int ask(struct rendezvous *r, const struct head *h, const void *mine, void *out,
               struct err *e)
{
    struct peer *p = r->impl->peer;
    size_t n = (size_t)h->n, all = h->call == CALL_GATHER ? n * (size_t)r->world : n;
    bool brings = h->call == CALL_GATHER || (h->call == CALL_SHARE && h->root == r->rank);
    struct head back;
    if (put(r, p, h, sizeof *h, e) || (n && brings && put(r, p, mine, n, e)) ||
        take(r, p, &back, sizeof back, e))
        return -1;
    if (!same(h, &back))
        return not_the_same(r, p, &back, h, e);
    return all ? take(r, p, out, all, e) : 0;
}

static int call(struct rendezvous *r, enum call what, int root, const void *mine, size_t n,
                void *out, struct err *e)
{
    struct rendezvous_impl *m = r->impl;
    if (rendezvous_failed(r))
        return rendezvous_why(r, e);
    struct head h = {MAGIC, ++m->calls, what, root, n};
    return r->rank == 0 ? answer(r, &h, mine, out, e) : ask(r, &h, mine, out, e);
}

int rendezvous_share(struct rendezvous *r, int root, void *bytes, size_t n, struct err *e)
{
    return r->impl ? call(r, CALL_SHARE, root, bytes, n, bytes, e) : 0;
}

int rendezvous_gather(struct rendezvous *r, const void *mine, size_t n, void *all, struct err *e)
{
    if (r->impl)
        return call(r, CALL_GATHER, 0, mine, n, all, e);
    if (n)
        memmove(all, mine, n);
    return 0;
}

int rendezvous_barrier(struct rendezvous *r, struct err *e)
{
    return r->impl ? call(r, CALL_BARRIER, 0, NULL, 0, NULL, e) : 0;
}

/* ---- opening ---- */

/* A time that is no time would be found out only when a rank hangs. */
static int limit_of(double given, const char *name, double otherwise, double *out, struct err *e)
{
    const char *s = getenv(name);
    double v;
    *out = given > 0 ? given : otherwise;
    if (given > 0 || !s || !*s)
        return 0;
    if (str_f64(str_z(s), &v) || !(v > 0 && v <= 86400))
        return err_code(e, EXIT_USAGE, "%s=%.40s is no time: want seconds above 0, a day at most",
                        name, s);
    *out = v;
    return 0;
}

int rendezvous_limits(struct err *e)
{
    double v;
    return limit_of(0, "ASSAY_RANK_SILENCE", SILENCE, &v, e) ||
                   limit_of(0, "ASSAY_RANK_START", START, &v, e)
               ? -1
               : 0;
}

/* Names of the hosts, and from which of them are one machine the local numbers if the way did not
 * say them. */
struct who {
    char host[64], machine[64];
};

static void this_machine(struct who *w)
{
    memset(w, 0, sizeof *w);
    gethostname(w->host, sizeof w->host - 1);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && fread(w->machine, 1, 36, f) != 36)
        w->machine[0] = 0;
    if (f)
        fclose(f);
}

static int introduce(struct rendezvous *r, struct err *e)
{
    struct rendezvous_impl *m = r->impl;
    struct who me, *all = mem_array((size_t)r->world, sizeof *all);
    this_machine(&me);
    snprintf(r->host, sizeof r->host, "%s", me.host);
    int rc = rendezvous_gather(r, &me, sizeof me, all, e);
    int before = 0, here = 0;
    for (int i = 0; i < r->world && !rc; i++) {
        bool mine = memcmp(&all[i], &me, sizeof me) == 0;
        here += mine;
        before += mine && i < r->rank;
    }
    if (r->local < 0)
        r->local = before;
    r->local_world = here;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->peers && !rc; i++)
        snprintf(m->peer[i].host, sizeof m->peer[i].host, "%s", all[m->peer[i].rank].host);
    pthread_mutex_unlock(&m->lock);
    free(all);
    return rc;
}

static void make_peers(struct rendezvous *r)
{
    struct rendezvous_impl *m = r->impl;
    m->peers = r->rank == 0 ? r->world - 1 : 1;
    m->peer = mem_array((size_t)m->peers, sizeof *m->peer);
    for (int i = 0; i < m->peers; i++) {
        m->peer[i] = (struct peer){.rank = r->rank == 0 ? i + 1 : 0, .data = -1, .life = -1};
        snprintf(m->peer[i].host, sizeof m->peer[i].host, "an unknown host");
    }
}

static int open_impl(struct rendezvous *r, const struct rendezvous_options *o,
                     struct rendezvous_found *f, struct err *e)
{
    struct rendezvous_impl *m = r->impl = mem_zero(sizeof *m);
    const struct rendezvous_seat *seat = o ? o->seat : NULL;
    m->mpi = f->mpi;
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&m->lock, NULL);
    make_peers(r);
    for (int i = 0; seat && i < m->peers; i++) {
        m->peer[i].life = seat->sockets[2 * i];
        m->peer[i].data = seat->sockets[2 * i + 1];
    }
    double start;
    if (limit_of(o ? o->silence : 0, "ASSAY_RANK_SILENCE", SILENCE, &m->silence, e) ||
        limit_of(o ? o->start : 0, "ASSAY_RANK_START", START, &start, e))
        return -1;
    if (!seat && rendezvous_meet(f, m->peer, m->peers, start, e))
        return -1;
    if (thread_start(&m->thread, live, m, e))
        return -1;
    m->started = true;
    return introduce(r, e);
}

int rendezvous_open(struct rendezvous *r, const struct rendezvous_options *o, struct err *e)
{
    struct rendezvous_found f = {.world = 1, .way = "one", .local_world = 1};
    const struct rendezvous_seat *seat = o ? o->seat : NULL;
    *r = (struct rendezvous){0};
    if (seat)
        f = (struct rendezvous_found){
            .rank = seat->rank, .world = seat->world, .local = seat->rank, .way = "fork"};
    else if (rendezvous_find(&f, e))
        return -1;
    *r = (struct rendezvous){.rank = f.rank, .world = f.world, .local = f.local, .way = f.way};
    gethostname(r->host, sizeof r->host - 1);
    r->local_world = 1;
    int rc = 0;
    if (r->world == 1)
        r->local = r->local < 0 ? 0 : r->local;
    else
        rc = open_impl(r, o, &f, e);
    if (seat)
        free(seat->sockets);
    if (rc == 0)
        return 0;
    if (!rendezvous_failed(r))
        err_wrap(e, "rank %d on %s", r->rank, r->host);
    rendezvous_close(r);
    return -1;
}

void rendezvous_close(struct rendezvous *r)
{
    struct rendezvous_impl *m = r->impl;
    if (m) {
        if (m->started) {
            poke(m->stop);
            pthread_join(m->thread, NULL);
        }
        for (int i = 0; i < m->peers; i++) {
            if (m->peer[i].life >= 0)
                close(m->peer[i].life);
            if (m->peer[i].data >= 0)
                close(m->peer[i].data);
        }
        close(m->wake);
        close(m->stop);
        if (m->mpi && !atomic_load(&m->failed))
            m->mpi->stop();
        pthread_mutex_destroy(&m->lock);
        free(m->peer);
        free(m);
    }
    *r = (struct rendezvous){0};
}
