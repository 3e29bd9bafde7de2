/* rendezvous_meet: the ranks shake hands, see rendezvous.h.
 *
 * The hello on each socket says which job (by the nonce that rank 0 wrote down), which rank of how
 * many, and which of its two sockets this is; the answer comes when all are there. A rank that read
 * the file of an earlier job is refused and reads again.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "trainer/rendezvous_private.h"

struct hello {
    char magic[24], nonce[40];
    int32_t rank, world, which;
};
struct welcome {
    char magic[24];
    int32_t ok;
    char why[300];
};

static bool move(int fd, void *bytes, size_t n, bool out, double until)
{
    char *p = bytes;
    while (n) {
        struct pollfd w = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        double left = until - clock_now();
        if (left <= 0)
            return false;
        if (poll(&w, 1, (int)(left * 1000) + 1) <= 0)
            continue;
        ssize_t k =
            out ? send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, p, n, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return true;
}

/* ---- rank 0 ---- */

static void reply(int fd, const char *why)
{
    struct welcome w = {.magic = RENDEZVOUS_HELLO, .ok = !why};
    snprintf(w.why, sizeof w.why, "%s", why ? why : "");
    move(fd, &w, sizeof w, true, clock_now() + 2);
}

/* Takes one connection to its place. -1: the job cannot be. */
static int admit(const struct rendezvous_found *f, struct peer *peer, int fd, int *there,
                 struct err *e)
{
    struct hello h;
    if (!move(fd, &h, sizeof h, false, clock_now() + 2) || strcmp(h.magic, RENDEZVOUS_HELLO) != 0)
        goto stranger;
    h.nonce[sizeof h.nonce - 1] = 0;
    if (strcmp(h.nonce, f->nonce) != 0) {
        reply(fd, "another job");
        goto stranger;
    }
    if (h.world != f->world)
        err_set(e, "rank %d was started as one of %d ranks, rank 0 as one of %d", h.rank, h.world,
                f->world);
    else if (h.rank < 1 || h.rank >= f->world)
        err_set(e, "rank %d is there twice", h.rank);
    else {
        int *at = h.which ? &peer[h.rank - 1].data : &peer[h.rank - 1].life;
        if (*at < 0) {
            *at = fd;
            ++*there;
            return 0;
        }
        err_set(e, "rank %d is there twice", h.rank);
    }
    reply(fd, e->msg);
    close(fd);
    return -1;
stranger:
    close(fd);
    return 0;
}

static void say_missing(const struct rendezvous_found *f, const struct peer *peer, int peers,
                        double limit, struct err *e)
{
    enum { NAMED = 12 };
    char list[300] = "", more[40] = "";
    size_t at = 0;
    int missing = 0;
    for (int i = 0; i < peers; i++)
        if (peer[i].data < 0 || peer[i].life < 0) {
            if (missing < NAMED)
                at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", missing ? ", " : "",
                                       peer[i].rank);
            missing++;
        }
    if (missing > NAMED)
        snprintf(more, sizeof more, " and %d more", missing - NAMED);
    err_set(e, "rank%s %s%s of %d did not come within %.3g s (%s, waiting at %s port %s)",
            missing > 1 ? "s" : "", list, more, f->world, limit, f->way, f->place[0].host,
            f->place[0].port);
}

static int accept_all(struct rendezvous_found *f, struct peer *peer, int peers, int listener,
                      double limit, struct err *e)
{
    double until = clock_now() + limit;
    int there = 0;
    while (there < 2 * peers) {
        struct pollfd w = {.fd = listener, .events = POLLIN};
        double left = until - clock_now();
        if (left <= 0) {
            say_missing(f, peer, peers, limit, e);
            return -1;
        }
        if (poll(&w, 1, (int)(left * 1000) + 1) <= 0)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && admit(f, peer, fd, &there, e))
            return -1;
    }
    return 0;
}

static int host_all(struct rendezvous_found *f, struct peer *peer, int peers, double limit,
                    struct err *e)
{
    int listener = rendezvous_listen(f, e), rc = 0;
    if (listener < 0)
        return -1;
    if (f->mpi)
        rc = f->mpi->share(f->place, sizeof f->place, e) || f->mpi->share(f->nonce, 33, e);
    if (!rc)
        rc = accept_all(f, peer, peers, listener, limit, e);
    for (int i = 0; i < peers; i++)
        if (peer[i].data >= 0)
            reply(peer[i].data, rc ? e->msg : NULL);
    close(listener);
    if (f->file[0])
        unlink(f->file);
    return rc ? -1 : 0;
}

/* ---- the others ---- */

static int connect_once(const struct rendezvous_found *f, int which, double until)
{
    struct hello h = {
        .magic = RENDEZVOUS_HELLO, .rank = f->rank, .world = f->world, .which = which};
    snprintf(h.nonce, sizeof h.nonce, "%s", f->nonce);
    for (int i = 0; i < f->places; i++) {
        int fd = rendezvous_connect(&f->place[i], until);
        if (fd >= 0 && move(fd, &h, sizeof h, true, clock_now() + 2))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

/* 1 welcome, 0 try again (nobody, or another job), -1 refused. */
static int try_join(struct rendezvous_found *f, struct peer *zero, double until, struct err *e)
{
    struct welcome w;
    if (f->file[0])
        rendezvous_read_file(f);
    /* The answer comes over data, also to a rank that is refused before its second socket. */
    zero->data = connect_once(f, 1, until);
    zero->life = zero->data < 0 ? -1 : connect_once(f, 0, until);
    bool got = zero->data >= 0 && move(zero->data, &w, sizeof w, false, until + 2) &&
               memcmp(w.magic, RENDEZVOUS_HELLO, sizeof RENDEZVOUS_HELLO) == 0;
    if (got && w.ok && zero->life >= 0)
        return 1;
    if (zero->life >= 0)
        close(zero->life);
    if (zero->data >= 0)
        close(zero->data);
    zero->life = zero->data = -1;
    w.why[sizeof w.why - 1] = 0;
    if (got && !w.ok && strcmp(w.why, "another job") != 0)
        return err_set(e, "%s", w.why);
    return 0;
}

static int join(struct rendezvous_found *f, struct peer *zero, double limit, struct err *e)
{
    double until = clock_now() + limit;
    if (f->mpi && (f->mpi->share(f->place, sizeof f->place, e) || f->mpi->share(f->nonce, 33, e)))
        return -1;
    while (f->mpi && f->places < PLACES && f->place[f->places].host[0])
        f->places++;
    do {
        int rc = try_join(f, zero, until, e);
        if (rc)
            return rc < 0 ? -1 : 0;
        poll(NULL, 0, 50);
    } while (clock_now() < until);
    if (f->file[0] && !f->places)
        return err_set(e, "rank 0 did not come within %.3g s: it wrote no %s", limit, f->file);
    if (f->bind && rendezvous_unknown(&f->place[0], e))
        return -1;
    return err_set(e, "rank 0 did not answer at %s port %s within %.3g s (%s)", f->place[0].host,
                   f->place[0].port, limit, f->way);
}

int rendezvous_meet(struct rendezvous_found *f, struct peer *peer, int peers, double limit,
                    struct err *e)
{
    if (f->rank)
        return join(f, peer, limit, e);
    if (host_all(f, peer, peers, limit, e))
        return -1;
    for (int i = 0; i < peers; i++) {
        int one = 1;
        setsockopt(peer[i].data, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(peer[i].life, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return 0;
}
