/* rendezvous_find: who this rank is and where rank 0 listens, see rendezvous.h.
 *
 * Rank 0 listens at a known address (MASTER_ADDR and MASTER_PORT; Slurm: the first node of the step
 * and a port made from the job's number), or anywhere and writes down where: into a file, or to the
 * others through MPI. What it writes holds a nonce, so a rank that reads the file of an earlier job
 * is refused there and reads again. The hello on each socket says which rank of how many comes, and
 * which of its two sockets this is; the answer comes when all are there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/mpi_object.h"
#include "trainer/object.h"
#include "trainer/rendezvous_private.h"

#define HELLO "assay-rendezvous 1"

struct hello {
    char magic[24], nonce[40];
    int32_t rank, world, which;
};
struct welcome {
    char magic[24];
    int32_t ok;
    char why[300];
};

/* ---- who are we ---- */

struct names {
    const char *way, *mark, *rank, *world, *local;
};
static const struct names known[] = {
    {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"env", "WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    /* Only a step of srun: in a batch script SLURM_PROCID is there as well, and means nobody. */
    {"slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

static const char *get(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

static int number(const char *name, int least, int *out, struct err *e)
{
    const char *s = get(name);
    int64_t v;
    if (!s)
        return err_code(e, EXIT_USAGE, "%s is not set, but the other variables of ranks are", name);
    if (str_i64(str_z(s), &v) || v < least || v > 1 << 20)
        return err_code(e, EXIT_USAGE, "%s=%.40s is no number from %d on", name, s, least);
    *out = (int)v;
    return 0;
}

/* "gpu[03-05,9],login1" -> "gpu03". */
static void first_node(const char *list, char *out, size_t n)
{
    size_t k = strcspn(list, "[,");
    snprintf(out, n, "%.*s", (int)k, list);
    if (list[k] == '[') {
        size_t digits = strcspn(list + k + 1, "-,]");
        snprintf(out + strlen(out), n - strlen(out), "%.*s", (int)digits, list + k + 1);
    }
}

static int slurm_place(struct rendezvous_found *f, struct err *e)
{
    const char *nodes = get("SLURM_STEP_NODELIST"), *job = get("SLURM_JOB_ID");
    const char *step = get("SLURM_STEP_ID");
    int64_t j, s = 0;
    if (!nodes)
        nodes = get("SLURM_NODELIST");
    if (!nodes || !job || str_i64(str_z(job), &j) || (step && str_i64(str_z(step), &s)))
        return err_code(e, EXIT_USAGE,
                        "this is a task of a Slurm step, but SLURM_STEP_NODELIST and SLURM_JOB_ID "
                        "do not say where rank 0 is: set MASTER_ADDR and MASTER_PORT");
    first_node(nodes, f->place[0].host, sizeof f->place[0].host);
    snprintf(f->place[0].port, sizeof f->place[0].port, "%d", (int)(20000 + (j * 31 + s) % 20000));
    f->places = 1;
    f->bind = true;
    return 0;
}

/* As torchrun's: a number, and never the name of a service. */
static int port_is(const char *port, struct err *e)
{
    int64_t v;
    if (str_i64(str_z(port), &v) == 0 && v >= 1 && v <= 65535)
        return 0;
    return err_code(e, EXIT_USAGE, "MASTER_PORT=%.40s is no port: want a number from 1 to 65535",
                    port);
}

static int find_place(struct rendezvous_found *f, struct err *e)
{
    const char *file = get("ASSAY_RENDEZVOUS"), *host = get("MASTER_ADDR");
    const char *port = get("MASTER_PORT");
    bool slurm = strcmp(f->way, "slurm") == 0;
    if (file) {
        f->way = slurm ? "slurm" : "env+file";
        snprintf(f->file, sizeof f->file, "%s", file);
        return 0;
    }
    if (host && port) {
        if (port_is(port, e))
            return -1;
        f->way = slurm ? "slurm" : "env+tcp";
        snprintf(f->place[0].host, sizeof f->place[0].host, "%s", host);
        snprintf(f->place[0].port, sizeof f->place[0].port, "%s", port);
        f->places = 1;
        f->bind = true;
        return 0;
    }
    if (slurm)
        return slurm_place(f, e);
    return err_code(e, EXIT_USAGE,
                    "rank %d of %d does not know where rank 0 is: set MASTER_ADDR and MASTER_PORT, "
                    "or ASSAY_RENDEZVOUS to a file that all ranks see%s",
                    f->rank, f->world,
                    strcmp(f->way, "mpi") == 0
                        ? ", or build libassay_mpi.so (install Open MPI's headers, then make)"
                        : "");
}

static const struct mpi_object *mpi_load(struct err *e)
{
    const struct mpi_object *(*table)(int abi) = NULL;
    void *symbol = object_symbol("mpi", "assay_mpi", e);
    memcpy(&table, &symbol, sizeof table);
    const struct mpi_object *o = table ? table(BACKEND_ABI) : NULL;
    if (table && !o)
        err_set(e, "libassay_mpi.so was not built for this tool (want ABI %d)", BACKEND_ABI);
    return o;
}

bool rendezvous_told(void)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *s = get(known[i].mark) ? get(known[i].world) : NULL;
        int64_t v;
        if (s)
            return str_i64(str_z(s), &v) || v > 1;
    }
    return get("RANK") && !get("WORLD_SIZE"); /* half told: rendezvous_find refuses it */
}

int rendezvous_find(struct rendezvous_found *f, struct err *e)
{
    const struct names *n = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !n; i++)
        if (get(known[i].mark))
            n = &known[i];
    *f = (struct rendezvous_found){.world = 1, .way = "one"};
    if (!n && get("RANK"))
        return err_code(e, EXIT_USAGE,
                        "RANK=%.40s is set, but WORLD_SIZE is not: set WORLD_SIZE to the number of "
                        "ranks, or unset RANK to train with one",
                        get("RANK"));
    if (!n)
        return 0;
    if (number(n->rank, 0, &f->rank, e) || number(n->world, 1, &f->world, e))
        return -1;
    f->local = -1;
    if (get(n->local) && number(n->local, 0, &f->local, e))
        return -1;
    if (f->rank >= f->world)
        return err_code(e, EXIT_USAGE, "%s=%d, but there are %d ranks (%s), counted from 0",
                        n->rank, f->rank, f->world, n->world);
    if (f->world == 1)
        return 0;
    f->way = n->way;
    if (strcmp(n->way, "mpi") != 0 || !object_exists("mpi"))
        return find_place(f, e);
    f->mpi = mpi_load(e);
    return f->mpi ? f->mpi->start(&f->rank, &f->world, &f->local, &f->local_world, e) : -1;
}

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
    buf_printf(&b, "%s %s\n", HELLO, f->nonce);
    for (int i = 0; i < f->places; i++)
        buf_printf(&b, "%s %s\n", f->place[i].host, f->place[i].port);
    int rc = file_write_all(f->file, buf_str(&b), e);
    buf_release(&b);
    return rc ? err_wrap(e, "ASSAY_RENDEZVOUS") : 0;
}

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

static void reply(int fd, const char *why)
{
    struct welcome w = {.magic = HELLO, .ok = !why};
    snprintf(w.why, sizeof w.why, "%s", why ? why : "");
    move(fd, &w, sizeof w, true, clock_now() + 2);
}

/* Takes one connection to its place. -1: the job cannot be. */
static int admit(const struct rendezvous_found *f, struct peer *peer, int fd, int *there,
                 struct err *e)
{
    struct hello h;
    if (!move(fd, &h, sizeof h, false, clock_now() + 2) || strcmp(h.magic, HELLO) != 0)
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
    char list[300] = "";
    size_t at = 0;
    int missing = 0;
    for (int i = 0; i < peers; i++)
        if (peer[i].data < 0 || peer[i].life < 0) {
            if (at < sizeof list)
                at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", missing ? ", " : "",
                                       peer[i].rank);
            missing++;
        }
    err_set(e, "rank%s %s of %d did not come within %.3g s (%s, waiting at %s port %s)",
            missing > 1 ? "s" : "", list, f->world, limit, f->way, f->place[0].host,
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
    int listener =
        open_listener(f->bind ? f->place[0].host : NULL, f->bind ? f->place[0].port : "0", e);
    if (listener < 0)
        return -1;
    int rc = tell_where(f, listener, e);
    if (!rc && f->mpi)
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

/* ---- the others connect ---- */

static int connect_to(const struct rendezvous_place *p, double until)
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

/* What the file says now; 0 places when it is not there yet or is torn. */
static void read_file(struct rendezvous_found *f)
{
    struct buf text = {0};
    struct err ignored;
    f->places = 0;
    if (file_exists(f->file) && file_read(f->file, &text, 1 << 16, &ignored) == 0) {
        struct str rest = buf_str(&text), first = str_cut(&rest, '\n');
        size_t magic = strlen(HELLO);
        if (first.n == magic + 33 && memcmp(first.p, HELLO, magic) == 0) {
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

static int connect_once(const struct rendezvous_found *f, int which, double until)
{
    struct hello h = {.magic = HELLO, .rank = f->rank, .world = f->world, .which = which};
    snprintf(h.nonce, sizeof h.nonce, "%s", f->nonce);
    for (int i = 0; i < f->places; i++) {
        int fd = connect_to(&f->place[i], until);
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
        read_file(f);
    /* The answer comes over data, also to a rank that is refused before its second socket. */
    zero->data = connect_once(f, 1, until);
    zero->life = zero->data < 0 ? -1 : connect_once(f, 0, until);
    bool got = zero->data >= 0 && move(zero->data, &w, sizeof w, false, until + 2) &&
               memcmp(w.magic, HELLO, sizeof HELLO) == 0;
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

/* 0, or why the host has no address: looked at when nobody answered, as a name may come late. */
static int lookup(const struct rendezvous_place *p)
{
    struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc = getaddrinfo(p->host, p->port, &want, &list);
    if (!rc)
        freeaddrinfo(list);
    return rc;
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
    int unknown = f->bind ? lookup(&f->place[0]) : 0;
    if (unknown)
        return unknown_host(f->place[0].host, unknown, e);
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
