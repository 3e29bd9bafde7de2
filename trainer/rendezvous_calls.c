/* rendezvous_calls: the calls of ranks, see rendezvous.h.
 *
 * A star around rank 0. One call at a time: every rank sends a head (which call, what, how much)
 * and its bytes, rank 0 compares the heads and answers with what all get.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "trainer/rendezvous_private.h"

#define MAGIC 0x76727361u

enum call { CALL_BARRIER, CALL_SHARE, CALL_GATHER };
static const char *const call_name[] = {"barrier", "share", "gather"};
struct head {
    uint32_t magic, number;
    int32_t call, root;
    uint64_t n;
};

/* A peer's data socket ended. Its life socket knows better: it died, gave up or left. */
static int lost(struct rendezvous *r, const struct peer *p, struct err *e)
{
    for (int i = 0; i < 100 && !rendezvous_failed(r); i++) {
        struct pollfd w = {.fd = r->impl->wake, .events = POLLIN};
        poll(&w, 1, 10);
    }
    rendezvous_fail_peer(r->impl, p, "it left before the work was done");
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
    rendezvous_fail(r->impl, p->rank, e);
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
