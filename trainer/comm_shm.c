/* comm_shm: CPU ranks of one machine through POSIX shared memory.
 *
 * The memory is made by rank 0, opened by all and unlinked at once, so nothing is left behind
 * whatever dies. It holds a barrier and two sets of slots, one slot a rank, used in turn by rounds.
 * A round: copy in, barrier, read what the others brought. The set is written again two rounds
 * later, behind the barrier of the round between, which no rank passes while another still reads.
 * The barrier sleeps on a futex, because ranks may be more than cores, and looks up for failures.
 */
#include "trainer/comm_shm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "trainer/comm_host.h"
#include "trainer/tensor.h"

#define SLOT ((size_t)512 << 10) /* bytes of a rank and a round: stays in a second-level cache */
#define LINE 128                 /* what two ranks write stands this far apart */

struct board {
    _Alignas(LINE) atomic_uint arrived;
    _Alignas(LINE) atomic_uint generation;
};
struct shm {
    struct comm_host *host; /* first: see comm_host.h */
    struct board *board;
    struct comm_note *notes; /* [2][world] */
    char *slots;             /* [2][world + 1][SLOT]; the last is for results */
    size_t bytes;
    unsigned round;
};

static char *slot(const struct comm *c, unsigned set, int rank)
{
    const struct shm *s = c->impl;
    return s->slots + ((size_t)set * (size_t)(c->world + 1) + (size_t)rank) * SLOT;
}

static int barrier(struct comm *c, struct err *e)
{
    struct board *b = ((struct shm *)c->impl)->board;
    unsigned now = atomic_load(&b->generation);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == (unsigned)c->world) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->generation, 1);
        syscall(SYS_futex, &b->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return 0;
    }
    while (atomic_load(&b->generation) == now) {
        struct timespec tick = {0, 50000000};
        syscall(SYS_futex, &b->generation, FUTEX_WAIT, now, &tick, NULL, 0);
        if (atomic_load(&b->generation) == now && rendezvous_failed(c->meet))
            return rendezvous_why(c->meet, e);
    }
    return 0;
}

/* The next round's set. */
static unsigned next_set(struct comm *c)
{
    struct shm *s = c->impl;
    return s->round++ & 1;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int shm_notes(struct comm *c, const struct comm_note *mine, struct comm_note *all,
                     struct err *e)
{
    struct shm *s = c->impl;
    struct comm_note *at = s->notes + next_set(c) * (unsigned)c->world;
    at[c->rank] = *mine;
    if (barrier(c, e))
        return -1;
    memcpy(all, at, (size_t)c->world * sizeof *all);
    return 0;
}

/* Each rank sums its share of the round's elements, then all read all shares. */
static int shm_all_reduce(struct comm *c, void *t, int64_t n, enum dtype type, struct err *e)
{
    size_t k = dtype_size(type);
    int64_t most = (int64_t)(SLOT / k);
    for (int64_t at = 0; at < n; at += most) {
        int64_t m = least(most, n - at), lo = m * c->rank / c->world;
        int64_t hi = m * (c->rank + 1) / c->world;
        unsigned set = next_set(c);
        char *here = (char *)t + (size_t)at * k, *sum = slot(c, set, c->world);
        memcpy(slot(c, set, c->rank), here, (size_t)m * k);
        if (barrier(c, e))
            return -1;
        comm_host_sum(type, sum + (size_t)lo * k, slot(c, set, 0) + (size_t)lo * k, most, c->world,
                      hi - lo);
        if (barrier(c, e))
            return -1;
        memcpy(here, sum, (size_t)m * k);
    }
    return 0;
}

static int shm_reduce_scatter(struct comm *c, void *part, const void *whole, int64_t n,
                              enum dtype type, struct err *e)
{
    size_t k = dtype_size(type);
    int64_t row = (int64_t)(SLOT / k), most = row / c->world;
    for (int64_t at = 0; at < n; at += most) {
        int64_t m = least(most, n - at);
        unsigned set = next_set(c);
        char *mine = slot(c, set, c->rank);
        for (int r = 0; r < c->world; r++)
            memcpy(mine + (size_t)(r * most) * k, (const char *)whole + (size_t)(r * n + at) * k,
                   (size_t)m * k);
        if (barrier(c, e))
            return -1;
        comm_host_sum(type, (char *)part + (size_t)at * k,
                      slot(c, set, 0) + (size_t)(c->rank * most) * k, row, c->world, m);
    }
    return 0;
}

static int shm_all_gather(struct comm *c, void *whole, const void *part, int64_t n, enum dtype type,
                          struct err *e)
{
    size_t k = dtype_size(type);
    int64_t most = (int64_t)(SLOT / k);
    for (int64_t at = 0; at < n; at += most) {
        int64_t m = least(most, n - at);
        unsigned set = next_set(c);
        memcpy(slot(c, set, c->rank), (const char *)part + (size_t)at * k, (size_t)m * k);
        if (barrier(c, e))
            return -1;
        for (int r = 0; r < c->world; r++)
            memcpy((char *)whole + (size_t)(r * n + at) * k, slot(c, set, r), (size_t)m * k);
    }
    return 0;
}

static int shm_broadcast(struct comm *c, void *t, int64_t n, enum dtype type, int root,
                         struct err *e)
{
    size_t k = dtype_size(type);
    int64_t most = (int64_t)(SLOT / k);
    for (int64_t at = 0; at < n; at += most) {
        size_t bytes = (size_t)least(most, n - at) * k;
        unsigned set = next_set(c);
        char *here = (char *)t + (size_t)at * k;
        if (c->rank == root)
            memcpy(slot(c, set, root), here, bytes);
        if (barrier(c, e))
            return -1;
        if (c->rank != root)
            memcpy(here, slot(c, set, root), bytes);
    }
    return 0;
}

static const struct comm_link link_shm = {
    .all_reduce = shm_all_reduce,
    .reduce_scatter = shm_reduce_scatter,
    .all_gather = shm_all_gather,
    .broadcast = shm_broadcast,
    .notes = shm_notes,
};

/* ---- opening ---- */

static int make(struct comm *c, const char *name, size_t bytes, struct err *e)
{
    (void)c;
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "make shared memory");
    /* Reserved now: what /dev/shm lacks later would be a SIGBUS. */
    int no = posix_fallocate(fd, 0, (off_t)bytes);
    if (no == 0)
        return fd;
    errno = no;
    err_sys(e, "reserve %zu KiB of shared memory", bytes >> 10);
    close(fd);
    shm_unlink(name);
    return -1;
}

/* All ranks hear whether rank 0 could, so that none waits for it. */
static int map(struct comm *c, size_t bytes, void **out, struct err *e)
{
    struct {
        char name[64];
        struct err why;
        int failed;
    } said = {0};
    int fd = -1;
    if (c->rank == 0) {
        snprintf(said.name, sizeof said.name, "/assay-%d-%llx", (int)getpid(),
                 (unsigned long long)time(NULL));
        fd = make(c, said.name, bytes, &said.why);
        said.failed = fd < 0;
    }
    if (rendezvous_share(c->meet, 0, &said, sizeof said, e)) {
        if (fd >= 0) { /* rank 0, and another died: nobody will come for it */
            shm_unlink(said.name);
            close(fd);
        }
        return -1;
    }
    if (said.failed) {
        *e = said.why;
        return -1;
    }
    if (c->rank)
        fd = shm_open(said.name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        err_sys(e, "open the shared memory of rank 0");
    int rc = fd < 0 ? -1 : 0, here = fd >= 0, all[4096];
    if (rendezvous_gather(c->meet, &here, sizeof here, all, e) == 0) {
        for (int r = 0; r < c->world && !rc; r++)
            if (!all[r])
                rc = err_set(e, "rank %d could not open the shared memory of rank 0", r);
    } else {
        rc = -1;
    }
    if (c->rank == 0)
        shm_unlink(said.name);
    void *p = rc ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!rc && p == MAP_FAILED)
        rc = err_sys(e, "map shared memory");
    if (fd >= 0)
        close(fd);
    *out = p == MAP_FAILED ? NULL : p;
    return rc;
}

static void shm_close(struct comm *c)
{
    struct shm *s = c->impl;
    if (!s)
        return;
    comm_host_close(s->host);
    if (s->board)
        munmap(s->board, s->bytes);
    free(s);
    c->impl = NULL;
}

static int shm_open_comm(struct comm *c, struct backend *b, struct err *e)
{
    if (!c->meet || c->world < 2 || c->world > 4096 || c->meet->local_world != c->world)
        return err_set(e, "shm is for 2 to 4096 ranks of one machine, %d of %d are here",
                       c->meet ? c->meet->local_world : 1, c->world);
    if (strcmp(b->ops->name, "cpu") != 0)
        return err_set(e, "shm sums in host memory, not on %s", b->ops->name);
    struct shm *s = c->impl = mem_zero(sizeof *s);
    size_t notes = 2 * (size_t)c->world * sizeof *s->notes;
    notes = (notes + LINE - 1) / LINE * LINE;
    s->bytes = sizeof *s->board + notes + 2 * (size_t)(c->world + 1) * SLOT;
    void *p = NULL;
    c->backend = b;
    if (map(c, s->bytes, &p, e) == 0) {
        s->board = p;
        s->notes = (void *)((char *)p + sizeof *s->board);
        s->slots = (char *)p + sizeof *s->board + notes;
        if (comm_host_open(c, &s->host, &link_shm, e) == 0)
            return 0;
    }
    shm_close(c);
    return -1;
}

const struct comm_ops comm_shm_ops = {
    .abi = BACKEND_ABI,
    .name = "shm",
    .open = shm_open_comm,
    .close = shm_close,
    .all_reduce = comm_host_all_reduce,
    .reduce_scatter = comm_host_reduce_scatter,
    .all_gather = comm_host_all_gather,
    .broadcast = comm_host_broadcast,
    .wait = comm_host_wait,
    .sync = comm_host_sync,
};
