/* comm_mpi: CPU ranks through MPI, the whole of libassay_mpi.so (trainer/mpi_object.h).
 *
 * The standard does not promise that a reduction gives equal bits on all ranks, and has no bf16, so
 * MPI only moves: an all-reduce is an all-to-all of shares, a sum in rank order by the share's rank,
 * and an all-gather of the sums, which moves no more than a ring would. Requests are polled, so that
 * the death of a rank is noticed. Calls are made by one thread at a time: the main one before the
 * comm opens and after it closed, the comm's between.
 */
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "trainer/comm_host.h"
#include "trainer/mpi_object.h"
#include "trainer/tensor.h"

#define CHUNK ((int64_t)1 << 20) /* elements of a rank's share that move at once */

struct mpi {
    struct comm_host *host; /* first: see comm_host.h */
    void *room;             /* [world][CHUNK] of 8 bytes at most; grows */
    size_t have;
    bool ours; /* MPI began with this comm, and ends with it */
};

static int failed(int code, const char *what, struct err *e)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS)
        return 0;
    MPI_Error_string(code, text, &n);
    return err_set(e, "%s: %s", what, text);
}

/* Waits for a request, awake for the first moments and then in short naps. */
static int finish(struct comm *c, int code, MPI_Request *q, const char *what, struct err *e)
{
    int done = 0;
    if (failed(code, what, e))
        return -1;
    for (int i = 0; !done; i++) {
        if (failed(MPI_Test(q, &done, MPI_STATUS_IGNORE), what, e))
            return -1;
        if (done)
            break;
        if (rendezvous_failed(c->meet))
            return rendezvous_why(c->meet, e);
        if (i > 50) {
            struct timespec nap = {0, i > 5000 ? 500000 : 20000};
            nanosleep(&nap, NULL);
        }
    }
    return 0;
}

static MPI_Datatype type_of(enum dtype t)
{
    switch (dtype_size(t)) {
    case 2:
        return MPI_UINT16_T;
    case 4:
        return MPI_UINT32_T;
    default:
        return MPI_UINT64_T;
    }
}

static void *room(struct comm *c, size_t bytes)
{
    struct mpi *m = c->impl;
    if (m->have < bytes) {
        m->room = mem_grow(m->room, bytes);
        m->have = bytes;
    }
    return m->room;
}

/* Shares of different length: [lo, lo + n) of the elements of rank r. */
struct cut {
    int64_t m;
    int world;
};
static int64_t cut_at(struct cut k, int r)
{
    return k.m * r / k.world;
}

static int to_all(struct comm *c, const char *from, const int *count, const int *at, char *to,
                  int mine, enum dtype type, struct err *e)
{
    int *counts = mem_array((size_t)c->world * 2, sizeof *counts), *ats = counts + c->world;
    MPI_Request q;
    for (int r = 0; r < c->world; r++) {
        counts[r] = mine;
        ats[r] = r * mine;
    }
    int rc = finish(c,
                    MPI_Ialltoallv(from, count, at, type_of(type), to, counts, ats, type_of(type),
                                   MPI_COMM_WORLD, &q),
                    &q, "MPI_Ialltoallv", e);
    free(counts);
    return rc;
}

static int mpi_all_reduce(struct comm *c, void *t, int64_t n, enum dtype type, struct err *e)
{
    size_t k = dtype_size(type);
    int64_t most = CHUNK;
    int *count = mem_array((size_t)c->world * 2, sizeof *count), *at = count + c->world, rc = 0;
    for (int64_t from = 0; from < n && !rc; from += most) {
        struct cut cut = {n - from < most ? n - from : most, c->world};
        for (int r = 0; r < c->world; r++) {
            at[r] = (int)cut_at(cut, r);
            count[r] = (int)(cut_at(cut, r + 1) - cut_at(cut, r));
        }
        char *here = (char *)t + (size_t)from * k;
        int mine = count[c->rank];
        void *in = room(c, (size_t)mine * (size_t)c->world * k + 8);
        MPI_Request q;
        rc = to_all(c, here, count, at, in, mine, type, e);
        if (rc)
            break;
        comm_host_sum(type, here + (size_t)at[c->rank] * k, in, mine, c->world, mine);
        rc = finish(c,
                    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, here, count, at,
                                    type_of(type), MPI_COMM_WORLD, &q),
                    &q, "MPI_Iallgatherv", e);
    }
    free(count);
    return rc;
}

static int fits(struct comm *c, int64_t n, struct err *e)
{
    if (n <= INT_MAX / c->world)
        return 0;
    return err_set(e, "%lld elements on %d ranks are more than one MPI call takes", (long long)n,
                   c->world);
}

static int mpi_reduce_scatter(struct comm *c, void *part, const void *whole, int64_t n,
                              enum dtype type, struct err *e)
{
    size_t k = dtype_size(type);
    int *count = mem_array((size_t)c->world * 2, sizeof *count), *at = count + c->world;
    int64_t most = CHUNK / c->world + 1;
    int rc = fits(c, n, e);
    for (int64_t from = 0; from < n && !rc; from += most) {
        int64_t m = n - from < most ? n - from : most;
        for (int r = 0; r < c->world; r++) {
            at[r] = (int)(r * n + from);
            count[r] = (int)m;
        }
        void *in = room(c, (size_t)m * (size_t)c->world * k);
        rc = to_all(c, whole, count, at, in, (int)m, type, e);
        if (!rc)
            comm_host_sum(type, (char *)part + (size_t)from * k, in, m, c->world, m);
    }
    free(count);
    return rc;
}

static int mpi_all_gather(struct comm *c, void *whole, const void *part, int64_t n, enum dtype type,
                          struct err *e)
{
    MPI_Request q;
    bool own = (const char *)part == (char *)whole + (size_t)(c->rank * n) * dtype_size(type);
    if (fits(c, n, e))
        return -1;
    return finish(c,
                  MPI_Iallgather(own ? MPI_IN_PLACE : part, (int)n, type_of(type), whole, (int)n,
                                 type_of(type), MPI_COMM_WORLD, &q),
                  &q, "MPI_Iallgather", e);
}

static int mpi_broadcast(struct comm *c, void *t, int64_t n, enum dtype type, int root,
                         struct err *e)
{
    int64_t most = (int64_t)1 << 28;
    for (int64_t at = 0; at < n; at += most) {
        MPI_Request q;
        int m = (int)(n - at < most ? n - at : most);
        if (finish(c,
                   MPI_Ibcast((char *)t + (size_t)at * dtype_size(type), m, type_of(type), root,
                              MPI_COMM_WORLD, &q),
                   &q, "MPI_Ibcast", e))
            return -1;
    }
    return 0;
}

static int mpi_notes(struct comm *c, const struct comm_note *mine, struct comm_note *all,
                     struct err *e)
{
    MPI_Request q;
    int n = (int)(sizeof *mine / sizeof(int64_t));
    return finish(c, MPI_Iallgather(mine, n, MPI_INT64_T, all, n, MPI_INT64_T, MPI_COMM_WORLD, &q),
                  &q, "MPI_Iallgather", e);
}

static const struct comm_link link_mpi = {
    .all_reduce = mpi_all_reduce,
    .reduce_scatter = mpi_reduce_scatter,
    .all_gather = mpi_all_gather,
    .broadcast = mpi_broadcast,
    .notes = mpi_notes,
};

/* ---- the process ---- */

static int start(int *rank, int *world, int *local, int *local_world, struct err *e)
{
    int have = 0, there = 0;
    MPI_Comm node;
    MPI_Initialized(&there);
    if (!there &&
        failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &have), "MPI_Init_thread", e))
        return -1;
    if (!there && have < MPI_THREAD_SERIALIZED)
        return err_set(e, "this MPI allows no second thread to call it");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (failed(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank", e) ||
        failed(MPI_Comm_size(MPI_COMM_WORLD, world), "MPI_Comm_size", e) ||
        failed(
            MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, *rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type", e))
        return -1;
    MPI_Comm_rank(node, local);
    MPI_Comm_size(node, local_world);
    MPI_Comm_free(&node);
    return 0;
}

/* ---- the comm ---- */

static void mpi_close(struct comm *c)
{
    struct mpi *m = c->impl;
    if (!m)
        return;
    comm_host_close(m->host);
    if (m->ours && !rendezvous_failed(c->meet))
        MPI_Finalize();
    free(m->room);
    free(m);
    c->impl = NULL;
}

/* Ranks that met without MPI may still have it: srun --mpi=pmix. It must see the same ranks. */
static int begin(struct comm *c, bool *ours, struct err *e)
{
    int there = 0, rank = -1, world = 0, local, local_world;
    MPI_Initialized(&there);
    if (!c->meet || (!there && !getenv("PMIX_RANK")))
        return err_set(
            e,
            "MPI carries gradients between ranks that mpirun or srun --mpi=pmix started, "
            "and these were started otherwise%s",
            c->meet && c->meet->local_world < c->world
                ? ": start them so"
                : ": start them so, or leave train.comm out");
    if (start(&rank, &world, &local, &local_world, e))
        return -1;
    *ours = !there;
    if (rank == c->rank && world == c->world)
        return 0;
    return err_set(
        e,
        "MPI counts this as rank %d of %d: libassay_mpi.so was built for another MPI than "
        "the one that started the ranks",
        rank, world);
}

static int mpi_open(struct comm *c, struct backend *b, struct err *e)
{
    bool ours = false;
    if (strcmp(b->ops->name, "cpu") != 0)
        return err_set(e, "mpi sums in host memory, not on %s", b->ops->name);
    if (begin(c, &ours, e))
        return -1;
    struct mpi *m = c->impl = mem_zero(sizeof *m);
    m->ours = ours;
    c->backend = b;
    if (comm_host_open(c, &m->host, &link_mpi, e) == 0)
        return 0;
    mpi_close(c);
    return -1;
}

static const struct comm_ops ops = {
    .abi = BACKEND_ABI,
    .name = "mpi",
    .open = mpi_open,
    .close = mpi_close,
    .all_reduce = comm_host_all_reduce,
    .reduce_scatter = comm_host_reduce_scatter,
    .all_gather = comm_host_all_gather,
    .broadcast = comm_host_broadcast,
    .wait = comm_host_wait,
    .sync = comm_host_sync,
};

static int share(void *bytes, size_t n, struct err *e)
{
    return failed(MPI_Bcast(bytes, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast", e);
}

static void stop(void)
{
    MPI_Finalize();
}

static const struct mpi_object object = {
    .comm = &ops, .start = start, .share = share, .stop = stop};

__attribute__((visibility("default"))) const struct mpi_object *assay_mpi(int abi);
const struct mpi_object *assay_mpi(int abi)
{
    return abi == BACKEND_ABI ? &object : NULL;
}
