/* comm_nccl: GPUs of one or several machines through NCCL, one process a GPU.
 *
 * Collectives go to a stream of their own; tickets are events: a collective's stream waits for the
 * backend's mark, the compute stream for the collective's event. So nothing here waits on the host
 * but open and sync.
 *
 * NCCL hangs when ranks disagree. So every rank notes what it queues, and sync compares the notes
 * over the rendezvous before it waits for the device: the first collective that differs is named.
 * While it waits it looks for errors of NCCL and for ranks that died, and then takes the
 * communicator down (ncclCommAbort), which ends what hangs on the device.
 *
 * The order of a sum is NCCL's: the same on every rank, and on every run with the same ranks, links
 * and version, but not rank order; bf16 and fp16 are rounded on the way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "trainer/comm.h"
#include "trainer/cuda/impl.h"
#include "trainer/cuda/nccl.h"
#include "trainer/tensor.h"

/* Events of collectives and pairs around waits in flight: a step queues a few dozen. */
enum { EVENTS = 64, WAITS = 64, NOTES = 256 };
enum what { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };
static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

struct note {
    int32_t what, type;
    int64_t count, root;
};
struct nccl {
    struct nccl_api api;
    struct ncclComm *comm;
    cudaStream_t stream;
    cudaEvent_t done[EVENTS];
    ticket queued;
    /* The compute stream before and behind each wait, to know how long it stood. */
    cudaEvent_t wait_from[WAITS], wait_to[WAITS];
    int waits;
    /* Since the last sync: all of them in a sum, the first of them to be named. */
    uint64_t sum;
    int64_t total;
    struct note notes[NOTES];
};

static struct nccl *nccl_of(const struct comm *c)
{
    return c->impl;
}

static void refuse(struct comm *c, const struct err *why)
{
    if (!c->failed)
        c->fault = *why;
    c->failed = true;
}

static bool good(struct comm *c, const char *what, int rc)
{
    struct err e = {0};
    if (rc == 0)
        return true;
    err_set(&e, "%s: %s", what, nccl_of(c)->api.error_string(rc));
    refuse(c, &e);
    return false;
}

static bool good_cuda(struct comm *c, const char *what, cudaError_t rc)
{
    struct err e = {0};
    if (rc == cudaSuccess)
        return true;
    err_set(&e, "%s: %s", what, cudaGetErrorString(rc));
    refuse(c, &e);
    return false;
}

/* ---- opening ---- */

static int make_queue(struct nccl *n, struct err *e)
{
    int least = 0, most = 0;
    /* A reduction that starts while backward runs should not wait for its end. */
    cudaError_t rc = cudaDeviceGetStreamPriorityRange(&least, &most);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithPriority(&n->stream, cudaStreamNonBlocking, most);
    for (int i = 0; rc == cudaSuccess && i < EVENTS; i++)
        rc = cudaEventCreateWithFlags(&n->done[i], cudaEventDisableTiming);
    for (int i = 0; rc == cudaSuccess && i < WAITS; i++) {
        rc = cudaEventCreate(&n->wait_from[i]);
        if (rc == cudaSuccess)
            rc = cudaEventCreate(&n->wait_to[i]);
    }
    return rc == cudaSuccess ? 0 : err_set(e, "a stream: %s", cudaGetErrorString(rc));
}

/* All ranks hear whether all have the library, so that none waits inside it for one that has not. */
static int meet_all(struct comm *c, int rc, struct err *e)
{
    struct {
        struct err why;
        int failed;
        char host[64];
    } mine = {.failed = rc}, *all = mem_array((size_t)c->world, sizeof *all);
    if (rc)
        mine.why = *e;
    snprintf(mine.host, sizeof mine.host, "%s", c->meet->host);
    int out = rendezvous_gather(c->meet, &mine, sizeof mine, all, e);
    for (int r = 0; !out && r < c->world; r++)
        if (all[r].failed)
            out = err_set(e, "rank %d on %s: %.300s", r, all[r].host, all[r].why.msg);
    free(all);
    return out;
}

static void nccl_close(struct comm *c)
{
    struct nccl *n = nccl_of(c);
    if (!n)
        return;
    if (n->comm && (c->failed || rendezvous_failed(c->meet)))
        n->api.abort(n->comm);
    else if (n->comm) {
        cudaStreamSynchronize(n->stream);
        n->api.destroy(n->comm);
    }
    for (int i = 0; i < EVENTS; i++)
        if (n->done[i])
            cudaEventDestroy(n->done[i]);
    for (int i = 0; i < WAITS; i++) {
        if (n->wait_from[i])
            cudaEventDestroy(n->wait_from[i]);
        if (n->wait_to[i])
            cudaEventDestroy(n->wait_to[i]);
    }
    if (n->stream)
        cudaStreamDestroy(n->stream);
    free(n);
    c->impl = NULL;
}

static int nccl_open(struct comm *c, struct backend *b, struct err *e)
{
    struct nccl_id id = {{0}};
    if (!c->meet || c->world < 2)
        return err_set(e, "nccl is for several ranks");
    if (strcmp(b->ops->name, "cuda") != 0)
        return err_set(e, "nccl moves memory of GPUs, the backend is %s", b->ops->name);
    struct nccl *n = mem_zero(sizeof *n);
    c->impl = n;
    c->backend = b;
    int rc = nccl_load(&n->api, e);
    if (!rc)
        rc = make_queue(n, e);
    if (!rc && c->rank == 0 && n->api.unique_id(&id) != 0)
        rc = err_set(e, "NCCL finds no network interface (NCCL_SOCKET_IFNAME names one)");
    if (meet_all(c, rc, e) || rendezvous_share(c->meet, 0, &id, sizeof id, e))
        goto fail;
    rc = n->api.init(&n->comm, c->world, id, c->rank);
    if (rc) {
        n->comm = NULL;
        err_set(e, "NCCL does not start: %s (NCCL_DEBUG=INFO says more)", n->api.error_string(rc));
    }
    if (meet_all(c, rc ? -1 : 0, e) == 0)
        return 0;
fail:
    c->failed = true;
    nccl_close(c);
    return -1;
}

/* ---- collectives ---- */

static int nccl_type(enum dtype t)
{
    switch (t) {
    case DTYPE_F32:
        return NCCL_F32;
    case DTYPE_BF16:
        return NCCL_BF16;
    case DTYPE_F16:
        return NCCL_F16;
    case DTYPE_I32:
        return NCCL_I32;
    default:
        return NCCL_U64;
    }
}

/* The comm's stream behind the ticket, and what comes noted. False: nothing may be queued. */
static bool begin(struct comm *c, enum what what, const struct tensor *t, int root, ticket after)
{
    struct nccl *n = nccl_of(c);
    struct cuda *g = cuda_of(c->backend);
    struct note note = {.what = what, .type = t->type, .count = tensor_count(t), .root = root};
    if (c->failed || c->backend->failed)
        return false;
    if (n->total < NOTES)
        n->notes[n->total] = note;
    n->total++;
    n->sum = hash64(&note, sizeof note, n->sum);
    return !after ||
           good_cuda(c, names[what], cudaStreamWaitEvent(n->stream, g->mark[after % MARKS], 0));
}

static ticket end(struct comm *c, enum what what, int rc)
{
    struct nccl *n = nccl_of(c);
    if (!good(c, names[what], rc))
        return n->queued;
    ticket t = ++n->queued;
    good_cuda(c, names[what], cudaEventRecord(n->done[t % EVENTS], n->stream));
    return t;
}

static ticket nccl_all_reduce(struct comm *c, struct tensor *t, ticket after)
{
    struct nccl *n = nccl_of(c);
    if (!begin(c, ALL_REDUCE, t, 0, after))
        return n->queued;
    return end(c, ALL_REDUCE,
               n->api.all_reduce(t->data, t->data, (size_t)tensor_count(t), nccl_type(t->type),
                                 NCCL_SUM, n->comm, n->stream));
}

static ticket nccl_reduce_scatter(struct comm *c, struct tensor *part, const struct tensor *whole,
                                  ticket after)
{
    struct nccl *n = nccl_of(c);
    if (!begin(c, REDUCE_SCATTER, part, 0, after))
        return n->queued;
    return end(c, REDUCE_SCATTER,
               n->api.reduce_scatter(whole->data, part->data, (size_t)tensor_count(part),
                                     nccl_type(part->type), NCCL_SUM, n->comm, n->stream));
}

static ticket nccl_all_gather(struct comm *c, struct tensor *whole, const struct tensor *part,
                              ticket after)
{
    struct nccl *n = nccl_of(c);
    if (!begin(c, ALL_GATHER, part, 0, after))
        return n->queued;
    return end(c, ALL_GATHER,
               n->api.all_gather(part->data, whole->data, (size_t)tensor_count(part),
                                 nccl_type(part->type), n->comm, n->stream));
}

static ticket nccl_broadcast(struct comm *c, struct tensor *t, int root, ticket after)
{
    struct nccl *n = nccl_of(c);
    if (!begin(c, BROADCAST, t, root, after))
        return n->queued;
    return end(c, BROADCAST,
               n->api.broadcast(t->data, t->data, (size_t)tensor_count(t), nccl_type(t->type), root,
                                n->comm, n->stream));
}

/* ---- waiting ---- */

/* How long the compute stream stood in waits that are over; waits for the last of them. */
static void count_waits(struct comm *c)
{
    struct nccl *n = nccl_of(c);
    for (int i = 0; i < n->waits; i++) {
        float ms = 0;
        if (cudaEventSynchronize(n->wait_to[i]) == cudaSuccess &&
            cudaEventElapsedTime(&ms, n->wait_from[i], n->wait_to[i]) == cudaSuccess && ms > 0)
            c->waited += ms / 1e3;
    }
    n->waits = 0;
}

/* An event that was recorded again stands behind the one that was meant: waiting for it is enough. */
static void nccl_wait(struct comm *c, ticket t)
{
    struct nccl *n = nccl_of(c);
    struct cuda *g = cuda_of(c->backend);
    bool timed = n->waits < WAITS;
    if (!t || c->failed)
        return;
    if (timed)
        good_cuda(c, "wait", cudaEventRecord(n->wait_from[n->waits], g->stream));
    good_cuda(c, "wait", cudaStreamWaitEvent(g->stream, n->done[t % EVENTS], 0));
    if (timed && good_cuda(c, "wait", cudaEventRecord(n->wait_to[n->waits], g->stream)))
        n->waits++;
}

static int name_difference(struct comm *c, const struct note *all, const int64_t *total,
                           struct err *e)
{
    for (int64_t i = 0; i < NOTES; i++)
        for (int r = 1; r < c->world; r++) {
            const struct note *a = &all[i], *b = &all[(int64_t)r * NOTES + i];
            bool have_a = i < total[0], have_b = i < total[r];
            if (have_a && have_b && memcmp(a, b, sizeof *a) == 0)
                continue;
            if (have_a && have_b)
                return err_set(e,
                               "collective %lld is %s of %lld elements on rank 0, but %s of %lld "
                               "on rank %d",
                               (long long)i + 1, names[a->what], (long long)a->count,
                               names[b->what], (long long)b->count, r);
            if (have_a != have_b)
                return err_set(e, "rank 0 has queued %lld collectives, rank %d %lld",
                               (long long)total[0], r, (long long)total[r]);
        }
    return err_set(e, "ranks queued different collectives");
}

/* Have all ranks queued the same? Costs one small exchange through rank 0. */
static int compare(struct comm *c, struct err *e)
{
    struct nccl *n = nccl_of(c);
    size_t world = (size_t)c->world;
    struct {
        uint64_t sum;
        int64_t total;
    } mine = {n->sum, n->total}, *all = mem_array(world, sizeof *all);
    bool same = true;
    int rc = rendezvous_gather(c->meet, &mine, sizeof mine, all, e);
    for (size_t r = 0; !rc && r < world; r++)
        same = same && all[r].sum == all[0].sum && all[r].total == all[0].total;
    if (!rc && !same) {
        struct note *notes = mem_array(world, sizeof n->notes);
        int64_t *total = mem_array(world, sizeof *total);
        for (size_t r = 0; r < world; r++)
            total[r] = all[r].total;
        rc = rendezvous_gather(c->meet, n->notes, sizeof n->notes, notes, e);
        if (!rc)
            rc = name_difference(c, notes, total, e);
        free(notes);
        free(total);
    }
    free(all);
    n->sum = 0;
    n->total = 0;
    memset(n->notes, 0, sizeof n->notes);
    return rc;
}

/* Until the last collective is done; looks up for errors while it waits. */
static int wait_for_device(struct comm *c, struct err *e)
{
    struct nccl *n = nccl_of(c);
    struct clock *clock = clock_system();
    cudaEvent_t last = n->done[n->queued % EVENTS];
    for (int64_t looks = 0;; looks++) {
        int rc = 0;
        cudaError_t at = n->queued ? cudaEventQuery(last) : cudaSuccess;
        if (at == cudaSuccess)
            return 0;
        if (at != cudaErrorNotReady)
            return err_set(e, "%s", cudaGetErrorString(at));
        if (n->api.async_error(n->comm, &rc) != 0 || (rc && rc != NCCL_IN_PROGRESS))
            return err_set(e, "NCCL: %s (NCCL_DEBUG=INFO says more)", n->api.error_string(rc));
        if (rendezvous_failed(c->meet))
            return rendezvous_why(c->meet, e);
        if (looks > 100) /* short waits are the rule: look often at first */
            clock->sleep(clock, 2e-4);
    }
}

static int nccl_sync(struct comm *c, struct err *e)
{
    struct nccl *n = nccl_of(c);
    struct err why = c->backend->fault;
    if (c->backend->failed)
        refuse(c, &why);
    if (!c->failed && (compare(c, &why) || wait_for_device(c, &why)))
        refuse(c, &why);
    if (!c->failed) {
        count_waits(c);
        return 0;
    }
    if (n->comm) {
        n->api.abort(n->comm); /* ends what waits on the device for ranks that won't come */
        n->comm = NULL;
    }
    if (rendezvous_failed(c->meet)) /* the cause, not its echo */
        return rendezvous_why(c->meet, e);
    *e = c->fault;
    return err_wrap(e, "comm nccl: rank %d on %s", c->rank, c->meet->host);
}

static const struct comm_ops table = {
    .abi = BACKEND_ABI,
    .name = "nccl",
    .open = nccl_open,
    .close = nccl_close,
    .all_reduce = nccl_all_reduce,
    .reduce_scatter = nccl_reduce_scatter,
    .all_gather = nccl_all_gather,
    .broadcast = nccl_broadcast,
    .wait = nccl_wait,
    .sync = nccl_sync,
};

__attribute__((visibility("default"))) const struct comm_ops *assay_comm(int abi);
const struct comm_ops *assay_comm(int abi)
{
    return abi == BACKEND_ABI ? &table : NULL;
}
