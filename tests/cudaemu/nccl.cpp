/* nccl: the collectives of NCCL that comm_nccl calls, between emulated devices of several processes.
 *
 * A collective is work of a stream, as everything else: it runs when the stream gets there and all
 * ranks have brought their data, into shared memory that the unique id names. Sums are in rank order.
 * What NCCL would answer with a hang or with rubbish is an error here that names both ranks and ends
 * the process: ranks that call something else or with another count, type or root; a rank that does
 * not come within CUEMU_NCCL_TIMEOUT seconds (60: longer than ranks bear). Buffers must be device memory of that size, and lie
 * apart or exactly where NCCL allows it in place.
 */
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "tests/cudaemu/emu.hpp"
#include "tests/cudaemu/nccl.hpp"

namespace
{

enum { MOST_RANKS = 16, ALL_REDUCE = 0, REDUCE_SCATTER, ALL_GATHER, BROADCAST };
enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4 };
const size_t SHARE = (size_t)64 << 20; /* bytes that a rank may bring; sparse */
const char *const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast"};

struct Brought {
    int what, type, op, root;
    size_t n;
};
struct Segment {
    std::atomic<int> joined;
    struct {
        std::atomic<uint64_t> brought, done; /* numbers of calls, from 1 */
        Brought call;
    } rank[MOST_RANKS];
    unsigned char data[];
};

double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double patience()
{
    const char *s = getenv("CUEMU_NCCL_TIMEOUT");
    return s ? strtod(s, nullptr) : 60;
}

size_t size_of(int type)
{
    return type == NCCL_F16 || type == NCCL_BF16 ? 2 : type == NCCL_U64 ? 8 : 4;
}

float get(const void *p, int type, size_t i)
{
    if (type == NCCL_BF16)
        return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
    if (type == NCCL_F16)
        return __half2float(((const __half *)p)[i]);
    return ((const float *)p)[i];
}

void put(void *p, int type, size_t i, float v)
{
    if (type == NCCL_BF16)
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16(v);
    else if (type == NCCL_F16)
        ((__half *)p)[i] = __float2half(v);
    else
        ((float *)p)[i] = v;
}

} // namespace

struct ncclComm {
    int rank, world;
    Segment *s;
    uint64_t queued, done;
    bool aborted;
};

namespace
{

struct Call {
    ncclComm *c;
    Brought is;
    const void *send;
    void *recv;
    uint64_t number;
    double since; /* when its stream got to it; 0: not yet */
};

unsigned char *share(const ncclComm *c, int rank)
{
    return c->s->data + (size_t)rank * SHARE;
}

/* The first rank that has not got so far, or -1. */
int missing(const ncclComm *c, uint64_t number, bool done)
{
    for (int r = 0; r < c->world; r++) {
        uint64_t at = done ? c->s->rank[r].done.load() : c->s->rank[r].brought.load();
        if (at < number)
            return r;
    }
    return -1;
}

void check_time(Call *k, int waits_for)
{
    if (k->since == 0)
        k->since = now();
    if (now() - k->since > patience())
        emu::fail("NCCL: rank %d waits in call %llu (%s) for rank %d, which does not come",
                  k->c->rank, (unsigned long long)k->number, names[k->is.what], waits_for);
}

bool ready(void *arg)
{
    Call *k = (Call *)arg;
    ncclComm *c = k->c;
    auto &mine = c->s->rank[c->rank];
    if (c->aborted)
        return true;
    if (mine.brought.load() <
        k->number) { /* the space is free when all have read the call before */
        int late = missing(c, k->number - 1, true);
        if (late >= 0) {
            check_time(k, late);
            return false;
        }
        size_t n =
            k->is.n * size_of(k->is.type) * (size_t)(k->is.what == REDUCE_SCATTER ? c->world : 1);
        if (n > SHARE)
            emu::fail("NCCL: %s of %zu bytes, the stand-in takes %zu", names[k->is.what], n, SHARE);
        if (k->is.what != BROADCAST || k->is.root == c->rank)
            memcpy(share(c, c->rank), k->send, n);
        mine.call = k->is;
        mine.brought.store(k->number);
    }
    int late = missing(c, k->number, false);
    if (late >= 0)
        check_time(k, late);
    return late < 0;
}

void compare(const Call *k)
{
    for (int r = 0; r < k->c->world; r++) {
        const Brought &o = k->c->s->rank[r].call;
        if (memcmp(&o, &k->is, sizeof o) != 0)
            emu::fail("NCCL: call %llu is %s of %zu (type %d, root %d) on rank %d, but %s of %zu "
                      "(type %d, root %d) on rank %d",
                      (unsigned long long)k->number, names[k->is.what], k->is.n, k->is.type,
                      k->is.root, k->c->rank, names[o.what], o.n, o.type, o.root, r);
    }
}

void run(void *arg)
{
    Call *k = (Call *)arg;
    ncclComm *c = k->c;
    size_t n = k->is.n, bytes = n * size_of(k->is.type);
    if (c->aborted)
        return;
    compare(k);
    size_t from = k->is.what == REDUCE_SCATTER ? n * (size_t)c->rank : 0;
    switch (k->is.what) {
    case ALL_REDUCE:
    case REDUCE_SCATTER:
        for (size_t i = 0; i < n; i++) {
            float sum = get(share(c, 0), k->is.type, from + i);
            for (int r = 1; r < c->world; r++)
                sum += get(share(c, r), k->is.type, from + i);
            put(k->recv, k->is.type, i, sum);
        }
        break;
    case ALL_GATHER:
        for (int r = 0; r < c->world; r++)
            memcpy((char *)k->recv + (size_t)r * bytes, share(c, r), bytes);
        break;
    default:
        memcpy(k->recv, share(c, k->is.root), bytes);
    }
    c->done = k->number;
    c->s->rank[c->rank].done.store(k->number);
}

int queue(ncclComm *c, cudaStream_t stream, int what, const void *send, void *recv, size_t n,
          int type, int op, int root)
{
    size_t bytes = n * size_of(type), world = (size_t)c->world, rank = (size_t)c->rank;
    size_t in = what == REDUCE_SCATTER ? bytes * world : bytes;
    size_t out = what == ALL_GATHER ? bytes * world : bytes;
    const char *s = (const char *)send, *r = (const char *)recv;
    if (root < 0 || root >= c->world || op != NCCL_SUM || c->aborted)
        return INVALID_ARGUMENT;
    emu::check_range(names[what], send, in);
    emu::check_range(names[what], recv, out);
    bool own = what == REDUCE_SCATTER ? r == s + rank * bytes
               : what == ALL_GATHER   ? s == r + rank * bytes
                                      : r == s;
    if (!own && s < r + out && r < s + in)
        emu::fail("NCCL: %s: send and receive overlap, and not as in place", names[what]);
    Call *k = new Call{c, {what, type, op, root, n}, send, recv, ++c->queued, 0};
    emu::enqueue_when(stream, ready, run, k, [](void *v) { delete (Call *)v; });
    return 0;
}

} // namespace

extern "C" {

int emu_nccl_version(int *v)
{
    *v = 22809;
    return 0;
}
int emu_nccl_unique_id(struct nccl_id *id)
{
    static int count;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/cuemu-nccl-%d-%d-%lld", (int)getpid(), count++,
             (long long)(now() * 1e6));
    return 0;
}
int emu_nccl_init(struct ncclComm **c, int world, struct nccl_id id, int rank)
{
    size_t n = sizeof(Segment) + (size_t)world * SHARE;
    *c = nullptr;
    if (world < 1 || world > MOST_RANKS || rank < 0 || rank >= world)
        return INVALID_ARGUMENT;
    int fd = shm_open(id.internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)n) != 0)
        return SYSTEM_ERROR;
    void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return SYSTEM_ERROR;
    Segment *s = (Segment *)p;
    s->joined++;
    for (double since = now(); s->joined.load() < world;) {
        struct timespec moment = {0, 100000};
        nanosleep(&moment, nullptr);
        if (now() - since <= patience())
            continue;
        shm_unlink(id.internal);
        emu::fail("NCCL: rank %d: %d of %d ranks came to ncclCommInitRank", rank, s->joined.load(),
                  world);
    }
    shm_unlink(id.internal); /* all have it; the first to come here wins */
    *c = new ncclComm{rank, world, s, 0, 0, false};
    return 0;
}
int emu_nccl_destroy(struct ncclComm *c)
{
    if (c->done != c->queued)
        emu::fail("NCCL: rank %d destroys a communicator with call %llu in flight", c->rank,
                  (unsigned long long)c->done + 1);
    munmap(c->s, sizeof(Segment) + (size_t)c->world * SHARE);
    delete c;
    return 0;
}
/* What is queued still knows the communicator, so it stays: an abort is the end of a test anyway. */
int emu_nccl_abort(struct ncclComm *c)
{
    c->aborted = true;
    return 0;
}
int emu_nccl_async_error(struct ncclComm *, int *rc)
{
    *rc = 0;
    return 0;
}
const char *emu_nccl_error_string(int rc)
{
    return rc == INVALID_ARGUMENT ? "invalid argument" : rc ? "system error" : "no error";
}
int emu_nccl_all_reduce(const void *send, void *recv, size_t n, int type, int op,
                        struct ncclComm *c, cudaStream_t s)
{
    return queue(c, s, ALL_REDUCE, send, recv, n, type, op, 0);
}
int emu_nccl_reduce_scatter(const void *send, void *recv, size_t n, int type, int op,
                            struct ncclComm *c, cudaStream_t s)
{
    return queue(c, s, REDUCE_SCATTER, send, recv, n, type, op, 0);
}
int emu_nccl_all_gather(const void *send, void *recv, size_t n, int type, struct ncclComm *c,
                        cudaStream_t s)
{
    return queue(c, s, ALL_GATHER, send, recv, n, type, NCCL_SUM, 0);
}
int emu_nccl_broadcast(const void *send, void *recv, size_t n, int type, int root,
                       struct ncclComm *c, cudaStream_t s)
{
    return queue(c, s, BROADCAST, send, recv, n, type, NCCL_SUM, root);
}
}
