/* cudart: the part of the CUDA runtime that the backend calls, on the host; same names to link.
 *
 * Device memory is mapped so that its end lies before a page that nobody may touch; what is left
 * before that page is a border that every kernel's end looks at. It starts as NaN. Pointers of
 * kernels and copies must be device memory of the current device: the registry knows all of it.
 *
 * CUEMU_DEVICES=n devices (1), of the name CUEMU_NAME. CUEMU_MEMORY=bytes of each (16 GiB). CUEMU_LAZY=1: a stream's work runs
 * as late as synchronisation allows, so that a missing wait shows; 2: that of the first stream only,
 * the others' as early as they can. CUEMU_GUARD=1: the host cannot
 * touch device memory outside of kernels and copies.
 */
#include "tests/cudaemu/emu.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <vector>

struct CUevent_st {
    cudaStream_t stream;
    uint64_t at; /* reached when so many of the stream's works are done */
    double time;
};
struct Work {
    void (*call)(void *);
    void *arg;
    void (*drop)(void *);
    bool (*ready)(void *); /* NULL: always */
    cudaStream_t other;    /* a wait: until so many of another stream are done */
    uint64_t at;
};
struct CUstream_st {
    int device;
    std::deque<Work> queue;
    uint64_t queued, done;
    bool busy;
};

namespace emu
{

enum { PAGE = 4096, BORDER_BYTE = 0xa5 };

struct Memory {
    size_t n, mapped;
    unsigned char *base; /* of the mapping */
    int device;
    bool host; /* page-locked memory of the host: a kernel may use it too */
};
static std::map<uintptr_t, Memory> registry;
static std::recursive_mutex lock;
static std::vector<cudaStream_t> streams;
static std::map<const void *, size_t> dynamic_limit;
static size_t in_use[64];
static int open_depth;
static thread_local int current;
static thread_local cudaError_t last_error;

static long setting(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s && *s ? strtol(s, nullptr, 10) : otherwise;
}

static cudaError_t report(cudaError_t e)
{
    if (e != cudaSuccess)
        last_error = e;
    return e;
}

static const Memory *find(const void *p)
{
    auto it = registry.upper_bound((uintptr_t)p);
    if (it == registry.begin())
        return nullptr;
    --it;
    return (uintptr_t)p < it->first + it->second.n ? &it->second : nullptr;
}

const char *wild_access(const void *p)
{
    static char text[200];
    for (const auto &m : registry) {
        uintptr_t at = (uintptr_t)p, base = (uintptr_t)m.second.base;
        if (at < base || at >= base + m.second.mapped)
            continue;
        if (at >= m.first + m.second.n)
            snprintf(text, sizeof text, "%zu bytes behind device memory of %zu bytes",
                     (size_t)(at - m.first - m.second.n), m.second.n);
        else
            snprintf(text, sizeof text, "%s %zu of device memory of %zu bytes",
                     open_depth ? "byte" : "the host touches byte", (size_t)(at - m.first),
                     m.second.n);
        return text;
    }
    return nullptr;
}

void check_borders(const char *kernel)
{
    for (const auto &m : registry) {
        const unsigned char *end = (const unsigned char *)m.first + m.second.n;
        for (const unsigned char *p = end; !m.second.host && ((uintptr_t)p & (PAGE - 1)); p++)
            if (*p != BORDER_BYTE)
                fail("%s wrote %zu bytes behind device memory of %zu bytes", kernel,
                     (size_t)(p - end), m.second.n);
        for (const unsigned char *p = m.second.base;
             !m.second.host && p < (const unsigned char *)m.first; p++)
            if (*p != BORDER_BYTE)
                fail("%s wrote before device memory of %zu bytes", kernel, m.second.n);
    }
}

void check_pointer(const char *kernel, int argument, const void *p)
{
    std::lock_guard<std::recursive_mutex> l(lock);
    if (!p)
        return;
    const Memory *m = find(p);
    if (!m)
        fail("%s: argument %d = %p is no device pointer", kernel, argument, p);
    if (!m->host && m->device != current)
        fail("%s: argument %d is memory of device %d, the current one is %d", kernel, argument,
             m->device, current);
}

/* The last that device_memory was asked for. */
static const char *from, *to;

bool device_memory(const void *p)
{
    if ((const char *)p >= from && (const char *)p < to)
        return true;
    const Memory *m = find(p);
    if (!m || m->host)
        return false;
    from = (const char *)m->base;
    to = from + m->mapped;
    return true;
}

void check_range(const char *what, const void *p, size_t n)
{
    check_pointer(what, 0, p);
    std::lock_guard<std::recursive_mutex> l(lock);
    const Memory *m = find(p);
    if (!n)
        return;
    if (!m || (uintptr_t)p + n > (uintptr_t)m->base + m->mapped - (m->host ? 0 : PAGE))
        fail("%s: %zu bytes at %p do not fit device memory of %zu", what, n, p, m ? m->n : 0);
}

/* ---- CUEMU_GUARD ---- */

static void protect(int how)
{
    if (setting("CUEMU_GUARD", 0))
        for (const auto &m : registry)
            if (!m.second.host)
                mprotect(m.second.base, m.second.mapped - PAGE, how);
}

struct Access {
    Access()
    {
        if (open_depth++ == 0)
            protect(PROT_READ | PROT_WRITE);
    }
    ~Access()
    {
        if (--open_depth == 0)
            protect(PROT_NONE);
    }
};

/* ---- streams ---- */

static cudaStream_t stream_of(cudaStream_t s)
{
    static CUstream_st legacy[64];
    if (s && s != cudaStreamLegacy && s != cudaStreamPerThread)
        return s;
    legacy[current].device = current;
    return &legacy[current];
}

static bool is_ready(const Work &w)
{
    Access a;
    return w.ready(w.arg);
}

/* Runs a stream's work; false when it is held up by work that is not ready and nobody is to wait. */
static bool drain(cudaStream_t s, uint64_t upto, bool wait = true)
{
    while (s->done < upto && !s->queue.empty()) {
        if (s->busy)
            fail("streams wait for each other in a circle");
        s->busy = true;
        Work w = s->queue.front();
        bool go = !w.other || drain(w.other, w.at, wait);
        while (go && w.ready && !is_ready(w)) {
            struct timespec moment = {0, 50000};
            go = wait;
            if (wait)
                nanosleep(&moment, nullptr);
        }
        if (!go) {
            s->busy = false;
            return false;
        }
        s->queue.pop_front();
        if (w.call) {
            Access a;
            w.call(w.arg);
        }
        if (w.drop)
            w.drop(w.arg);
        s->done++;
        s->busy = false;
    }
    return true;
}

static void drain_all()
{
    for (cudaStream_t s : streams)
        drain(s, UINT64_MAX);
    drain(stream_of(nullptr), UINT64_MAX);
}

static void push(cudaStream_t stream, const Work &w)
{
    std::lock_guard<std::recursive_mutex> l(lock);
    cudaStream_t s = stream_of(stream);
    bool legacy = s == stream_of(nullptr);
    if (legacy)
        drain_all();
    s->queue.push_back(w);
    s->queued++;
    long lazy = setting("CUEMU_LAZY", 0);
    if (legacy || !lazy)
        drain(s, UINT64_MAX);
    else if (lazy == 2 && s != streams.front())
        drain(s, UINT64_MAX, false);
}

void enqueue(cudaStream_t stream, void (*call)(void *), void *arg, void (*drop)(void *))
{
    push(stream, Work{call, arg, drop, nullptr, nullptr, 0});
}
void enqueue_when(cudaStream_t stream, bool (*ready)(void *), void (*call)(void *), void *arg,
                  void (*drop)(void *))
{
    push(stream, Work{call, arg, drop, ready, nullptr, 0});
}

const char *launch_name(const char *file, const char *function)
{
    static std::set<std::string> names;
    std::lock_guard<std::recursive_mutex> l(lock);
    const char *slash = strrchr(file, '/');
    return names.insert(std::string(slash ? slash + 1 : file) + ":" + function).first->c_str();
}

struct Launch {
    const char *name;
    dim3 blocks, threads;
    size_t dynamic;
    void (*call)(void *), *arg, (*drop)(void *);
};

void launch(const char *name, const void *kernel, dim3 blocks, dim3 threads, size_t dynamic,
            cudaStream_t stream, void (*call)(void *), void *arg, void (*drop)(void *))
{
    size_t limit = dynamic_limit.count(kernel) ? dynamic_limit[kernel] : 48 << 10;
    size_t n = (size_t)threads.x * threads.y * threads.z;
    if (!blocks.x || !blocks.y || !blocks.z || !n || n > 1024 || threads.z > 64 ||
        blocks.x > 0x7fffffff || blocks.y > 65535 || blocks.z > 65535 || dynamic > limit) {
        fprintf(stderr,
                "cuemu: %s: launch of %u x %u x %u blocks of %zu threads with %zu bytes "
                "refused\n",
                name, blocks.x, blocks.y, blocks.z, n, dynamic);
        drop(arg);
        report(cudaErrorInvalidConfiguration);
        return;
    }
    Launch *l = new Launch{name, blocks, threads, dynamic, call, arg, drop};
    enqueue(
        stream,
        [](void *v) {
            Launch *k = (Launch *)v;
            run_grid(k->name, k->blocks, k->threads, k->dynamic, k->call, k->arg);
        },
        l,
        [](void *v) {
            Launch *k = (Launch *)v;
            k->drop(k->arg);
            delete k;
        });
}

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int machine_devices()
{
    long n = setting("CUEMU_DEVICES", 1);
    return n < 0 ? 0 : n > 64 ? 64 : (int)n;
}

/* Which of the machine's devices this process calls d; -1: none. CUDA_VISIBLE_DEVICES lists them by
 * number, up to the first that is not there; a container (CUEMU_FIRST) hides those before its own and
 * counts from 0. */
static int device_unit(int d)
{
    long first = setting("CUEMU_FIRST", 0);
    const char *s = getenv("CUDA_VISIBLE_DEVICES");
    if (!s)
        return first + d < machine_devices() ? (int)(first + d) : -1;
    for (; *s; d--) {
        char *end;
        long n = strtol(s, &end, 10);
        if (end == s || n < 0 || first + n >= machine_devices())
            return -1;
        if (d == 0)
            return (int)(first + n);
        s = *end == ',' ? end + 1 : end;
    }
    return -1;
}

static int devices()
{
    int n = 0;
    while (device_unit(n) >= 0)
        n++;
    return n;
}

static size_t memory()
{
    return (size_t)setting("CUEMU_MEMORY", 16L << 30);
}

struct Transfer {
    void *to;
    const void *from;
    size_t n;
    int value;
    void *staged;
};

static cudaError_t transfer(const Transfer &t, cudaStream_t stream, bool fill)
{
    Transfer *own = new Transfer(t);
    enqueue(
        stream,
        fill
            ? [](void *
                     v) { memset(((Transfer *)v)->to, ((Transfer *)v)->value, ((Transfer *)v)->n); }
            : [](void *
                     v) { memcpy(((Transfer *)v)->to, ((Transfer *)v)->from, ((Transfer *)v)->n); },
        own,
        [](void *v) {
            free(((Transfer *)v)->staged);
            delete (Transfer *)v;
        });
    return cudaSuccess;
}

} // namespace emu

using namespace emu;
typedef std::lock_guard<std::recursive_mutex> Lock;

extern "C" {

cudaError_t cudaDriverGetVersion(int *v)
{
    *v = (int)setting("CUEMU_DRIVER", CUDART_VERSION);
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n)
{
    *n = devices();
    if (setting("CUEMU_DRIVER", CUDART_VERSION) < CUDART_VERSION)
        return report(cudaErrorInsufficientDriver);
    return *n ? cudaSuccess : report(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int d)
{
    if (d < 0 || d >= devices())
        return report(cudaErrorInvalidDevice);
    current = d;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *d)
{
    *d = current;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d)
{
    if (d < 0 || d >= devices())
        return report(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    const char *name = getenv("CUEMU_NAME");
    if (name)
        snprintf(p->name, sizeof p->name, "%s", name);
    else
        snprintf(p->name, sizeof p->name, "emulated device %d", d);
    p->uuid.bytes[15] = (char)(device_unit(d) + 1);
    p->major = 8;
    p->multiProcessorCount = 4;
    p->totalGlobalMem = memory();
    p->sharedMemPerBlockOptin = 163 << 10;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *bus, int n, int d)
{
    if (d < 0 || d >= devices())
        return report(cudaErrorInvalidDevice);
    snprintf(bus, (size_t)n, "0000:%02x:00.0", device_unit(d) + 1);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    Lock l(lock);
    *total = memory();
    *available = in_use[current] < *total ? *total - in_use[current] : 0;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **p, size_t n)
{
    Lock l(lock);
    *p = nullptr;
    if (!n)
        return cudaSuccess;
    if (n > memory() || in_use[current] + n > memory())
        return report(cudaErrorMemoryAllocation);
    size_t room = (n + 255) & ~(size_t)255, pages = (room + PAGE - 1) & ~(size_t)(PAGE - 1);
    unsigned char *base = (unsigned char *)mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return report(cudaErrorMemoryAllocation);
    mprotect(base + pages, PAGE, PROT_NONE);
    unsigned char *at = base + pages - room;
    memset(base, BORDER_BYTE, (size_t)(at - base));
    memset(at, 0xff, n);
    memset(at + n, BORDER_BYTE, room - n);
    registry[(uintptr_t)at] = Memory{n, pages + PAGE, base, current, false};
    in_use[current] += n;
    if (!open_depth && setting("CUEMU_GUARD", 0))
        mprotect(base, pages, PROT_NONE);
    *p = at;
    return cudaSuccess;
}
cudaError_t cudaFree(void *p)
{
    Lock l(lock);
    if (!p)
        return cudaSuccess;
    drain_all();
    auto it = registry.find((uintptr_t)p);
    if (it == registry.end() || it->second.host)
        return report(cudaErrorInvalidValue);
    in_use[it->second.device] -= it->second.n;
    from = to = nullptr;
    munmap(it->second.base, it->second.mapped);
    registry.erase(it);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t n)
{
    Lock l(lock);
    *p = aligned_alloc(256, (n + 255) & ~(size_t)255);
    if (!*p)
        return report(cudaErrorMemoryAllocation);
    registry[(uintptr_t)*p] = Memory{n, 0, (unsigned char *)*p, current, true};
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p)
{
    Lock l(lock);
    drain_all();
    registry.erase((uintptr_t)p);
    free(p);
    return cudaSuccess;
}

/* Memory of the host that is not page-locked is copied at once, as the driver stages it. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    Lock l(lock);
    const Memory *a = find(to), *b = find(from);
    bool to_device = a && !a->host, from_device = b && !b->host;
    if (kind == cudaMemcpyDefault)
        fail("cudaMemcpyAsync: say the direction");
    if (to_device != (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) ||
        from_device != (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice))
        fail("cudaMemcpyAsync: the direction is %d, but the copy goes from %s to %s", (int)kind,
             from_device ? "device" : "host", to_device ? "device" : "host");
    if (to_device && (uintptr_t)to + n > (uintptr_t)a->base + a->mapped - PAGE)
        fail("cudaMemcpyAsync: %zu bytes do not fit device memory of %zu", n, a->n);
    Transfer t = {to, from, n, 0, nullptr};
    /* Where the device reads pageable memory itself it may do so late. */
    if (kind == cudaMemcpyHostToDevice && !b && !setting("CUEMU_LAZY", 0)) {
        t.staged = malloc(n ? n : 1);
        memcpy(t.staged, from, n);
        t.from = t.staged;
    }
    cudaError_t e = transfer(t, stream, false);
    if (kind == cudaMemcpyDeviceToHost && !a)
        drain(stream_of(stream), UINT64_MAX);
    return e;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    cudaError_t e = cudaMemcpyAsync(to, from, n, kind, nullptr);
    Lock l(lock);
    drain(stream_of(nullptr), UINT64_MAX);
    return e;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t stream)
{
    Lock l(lock);
    const Memory *a = find(p);
    if (!a || a->host)
        fail("cudaMemsetAsync: %p is no device pointer", p);
    return transfer(Transfer{p, nullptr, n, value, nullptr}, stream, true);
}
cudaError_t cudaMemset(void *p, int value, size_t n)
{
    return cudaMemsetAsync(p, value, n, nullptr);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    Lock l(lock);
    *s = new CUstream_st{current, {}, 0, 0, false};
    streams.push_back(*s);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *most)
{
    *least = 0;
    *most = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(s, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    Lock l(lock);
    drain(s, UINT64_MAX);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == s) {
            streams.erase(streams.begin() + (long)i);
            break;
        }
    delete s;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    Lock l(lock);
    drain(stream_of(s), UINT64_MAX);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    Lock l(lock);
    drain_all();
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = new CUevent_st{nullptr, 0, 0};
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    Lock l(lock);
    if (e->stream)
        drain(e->stream, e->at);
    delete e;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    Lock l(lock);
    cudaStream_t s = stream_of(stream);
    enqueue(
        s, [](void *v) { ((cudaEvent_t)v)->time = now(); }, e, nullptr);
    e->stream = s;
    e->at = s->queued;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned)
{
    Lock l(lock);
    if (e->stream)
        push(stream, Work{nullptr, nullptr, nullptr, nullptr, e->stream, e->at});
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    Lock l(lock);
    if (e->stream)
        drain(e->stream, e->at);
    return cudaSuccess;
}
/* A question is no wait; but who asks again and again sees work go on. */
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    Lock l(lock);
    if (e->stream && e->stream->done < e->at)
        drain(e->stream, e->at, false);
    return !e->stream || e->stream->done >= e->at ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    *ms = (float)((b->time - a->time) * 1e3);
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}
const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    default:
        return "an error";
    }
}
/* CUEMU_NO_CODE=1: as if the object held code for other devices. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *)
{
    memset(a, 0, sizeof *a);
    return setting("CUEMU_NO_CODE", 0) ? report(cudaErrorNoKernelImageForDevice) : cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute a, int value)
{
    Lock l(lock);
    if (a != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value > 227 << 10)
        return report(cudaErrorInvalidValue);
    dynamic_limit[kernel] = (size_t)value;
    return cudaSuccess;
}
}
