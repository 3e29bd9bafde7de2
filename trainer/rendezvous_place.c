/* rendezvous_place: where rank 0 listens, and how others get there, see rendezvous.h.
 *
 * Rank 0 listens at the address that is told, or anywhere and writes down where: into a file, with a
 * nonce, so that nobody takes the file of an earlier job for this one's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/rendezvous_private.h"

/* ---- rank 0 listens ---- */

static int unknown_host(const char *host, int rc, struct err *e)
{
    return err_set(e, "rank 0's host \"%s\" is not known here: %s; set MASTER_ADDR to its address",
                   host, gai_strerror(rc));
}

static int try_listen(const struct addrinfo *a)
{
    int one = 1, s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, 128) == 0)
        return s;
    int no = errno;
    close(s);
    errno = no;
    return -1;
}

/* host NULL: anywhere. Only the named address is opened when it is one of ours, which it is not
 * behind address translation (a service's address of a cluster, say): that is said, since it may as
 * well be a mistake. */
static int open_listener(const char *host, const char *port, struct err *e)
{
    struct addrinfo want = {.ai_family = host ? AF_UNSPEC : AF_INET,
                            .ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_PASSIVE},
                    *list = NULL;
    int rc = getaddrinfo(host, port, &want, &list), s = -1;
    if (rc && host)
        return unknown_host(host, rc, e);
    if (rc)
        return err_set(e, "listen at port %s: %s", port, gai_strerror(rc));
    for (struct addrinfo *a = list; a && s < 0; a = a->ai_next)
        s = try_listen(a);
    freeaddrinfo(list);
    if (s < 0 && host && errno == EADDRNOTAVAIL) {
        log_warn("rank 0: %s is no address of this machine, so port %s is open on all that it has; "
                 "if rank 0 runs elsewhere, set MASTER_ADDR to its address",
                 host, port);
        return open_listener(NULL, port, e);
    }
    return s < 0 ? err_sys(e, "listen at %s port %s", host ? host : "any address", port) : s;
}

/* All addresses of this machine, those that others reach first. */
static void own_places(struct rendezvous_found *f, int listener)
{
    struct sockaddr_in me;
    socklen_t n = sizeof me;
    struct ifaddrs *list = NULL;
    f->places = 0;
    if (getsockname(listener, (struct sockaddr *)&me, &n) || getifaddrs(&list))
        return;
    for (int loop = 0; loop < 2; loop++)
        for (struct ifaddrs *a = list; a && f->places < PLACES; a = a->ifa_next) {
            struct rendezvous_place *p = &f->place[f->places];
            if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP) ||
                !(a->ifa_flags & IFF_LOOPBACK) != !loop)
                continue;
            if (getnameinfo(a->ifa_addr, sizeof me, p->host, sizeof p->host, NULL, 0,
                            NI_NUMERICHOST))
                continue;
            snprintf(p->port, sizeof p->port, "%d", ntohs(me.sin_port));
            f->places++;
        }
    freeifaddrs(list);
}

static int write_file(const struct rendezvous_found *f, struct err *e)
{
    struct buf b = {0};
    struct arena a = {0};
    const char *folder = path_dir(&a, f->file);
    bool there = access(folder, F_OK) == 0;
    if (!there) /* a folder that is made here is one that the other ranks do not see */
        err_set(e,
                "ASSAY_RENDEZVOUS=%s: there is no folder %s; name a file in one that all ranks see",
                f->file, folder);
    arena_release(&a);
    if (!there)
        return -1;
    buf_printf(&b, "%s %s\n", RENDEZVOUS_HELLO, f->nonce);
    for (int i = 0; i < f->places; i++)
        buf_printf(&b, "%s %s\n", f->place[i].host, f->place[i].port);
    int rc = file_write_all(f->file, buf_str(&b), e);
    buf_release(&b);
    return rc ? err_wrap(e, "ASSAY_RENDEZVOUS") : 0;
}

/* Where the listener is to be found, into f and the file. */
static int tell_where(struct rendezvous_found *f, int listener, struct err *e)
{
    uint8_t raw[16];
    if (f->bind)
        return 0;
    if (getrandom(raw, sizeof raw, 0) != sizeof raw)
        return err_sys(e, "draw a nonce");
    for (int i = 0; i < 16; i++)
        snprintf(f->nonce + 2 * i, 3, "%02x", raw[i]);
    own_places(f, listener);
    if (!f->places)
        return err_set(e, "this machine has no address that ranks could connect to");
    return f->mpi ? 0 : write_file(f, e);
}

int rendezvous_listen(struct rendezvous_found *f, struct err *e)
{
    const char *host = f->bind ? f->place[0].host : NULL;
    int listener = open_listener(host, f->bind ? f->place[0].port : "0", e);
    if (listener < 0 || tell_where(f, listener, e) == 0)
        return listener;
    close(listener);
    return -1;
}

/* ---- the others connect ---- */

int rendezvous_connect(const struct rendezvous_place *p, double until)
{
    struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int s = -1;
    if (getaddrinfo(p->host, p->port, &want, &list))
        return -1;
    for (struct addrinfo *a = list; a && s < 0; a = a->ai_next) {
        int no = 0, one = 1;
        socklen_t n = sizeof no;
        s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (s < 0)
            continue;
        bool done = connect(s, a->ai_addr, a->ai_addrlen) == 0;
        struct pollfd w = {.fd = s, .events = POLLOUT};
        double left = until - clock_now() < 1 ? until - clock_now() : 1;
        if (!done && errno == EINPROGRESS && left > 0 && poll(&w, 1, (int)(left * 1000) + 1) > 0)
            done = getsockopt(s, SOL_SOCKET, SO_ERROR, &no, &n) == 0 && no == 0;
        if (done) {
            setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            break;
        }
        close(s);
        s = -1;
    }
    freeaddrinfo(list);
    return s;
}

void rendezvous_read_file(struct rendezvous_found *f)
{
    struct buf text = {0};
    struct err ignored;
    f->places = 0;
    if (file_exists(f->file) && file_read(f->file, &text, 1 << 16, &ignored) == 0) {
        struct str rest = buf_str(&text), first = str_cut(&rest, '\n');
        size_t magic = strlen(RENDEZVOUS_HELLO);
        if (first.n == magic + 33 && memcmp(first.p, RENDEZVOUS_HELLO, magic) == 0) {
            snprintf(f->nonce, sizeof f->nonce, "%.32s", first.p + magic + 1);
            while (rest.n && f->places < PLACES) {
                struct str line = str_cut(&rest, '\n'), host = str_cut(&line, ' ');
                struct rendezvous_place *p = &f->place[f->places++];
                snprintf(p->host, sizeof p->host, "%.*s", STR_ARG(host));
                snprintf(p->port, sizeof p->port, "%.*s", STR_ARG(line));
            }
        }
    }
    buf_release(&text);
}

/* 0, or why the host has no address. */
static int lookup(const struct rendezvous_place *p)
{
    struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc = getaddrinfo(p->host, p->port, &want, &list);
    if (!rc)
        freeaddrinfo(list);
    return rc;
}

bool rendezvous_unknown(const struct rendezvous_place *p, struct err *e)
{
    int rc = lookup(p);
    return rc && unknown_host(p->host, rc, e);
}
