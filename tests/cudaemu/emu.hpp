/* emu: CUDA kernels on the host, for tests: what a kernel's source sees instead of a device.
 *
 * A kernel is an ordinary function; each of its threads runs on a fiber of its own (scheduler.cpp),
 * one block after the other, on one OS thread. NVIDIA's own headers give the types, the vector
 * types and the conversions of bf16 and fp16; here are the built-in variables, barriers, warp
 * collectives, tensor-core instructions and the launch.
 *
 * The run is deterministic. CUEMU_SEED chooses the order of threads and blocks: 0 forward, 1
 * backward, others shuffled; with an odd seed a warp runs as far ahead of the others as it can. What
 * a device would leave undefined is made loud: memory starts as NaN; a copy of cp.async arrives as
 * late as it may, at its wait, or with seeds 3, 7, 11... as early as it may, at once; a barrier or a
 * shuffle that not all reach is an error that names the kernel, the block, the thread and both
 * lines, and ends the process.
 *
 * It proves logic, not speed, and not: weak memory order, the rounding of tensor cores, nvcc's code.
 */
#ifndef TESTS_CUDAEMU_EMU_HPP
#define TESTS_CUDAEMU_EMU_HPP

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __launch_bounds__
#undef __forceinline__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __forceinline__ inline

/* Where a collective was called, without a macro around the call. */
#define EMU_SITE const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()

namespace emu
{

struct Thread {
    uint3 index;
    unsigned lane;
};
struct Block {
    uint3 index;
    dim3 threads, blocks;
    unsigned char *dynamic;
};
extern Thread *thread; /* the running one; nullptr outside of a kernel */
extern Block *block;

[[noreturn]] void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- scheduler.cpp ---- */
enum { SLOT = 64 }; /* bytes a lane brings to a collective */
typedef void (*combine)(unsigned char (*slot)[SLOT], unsigned mask);
void barrier(const char *file, int line);
/* All lanes of mask bring n bytes; when the last is there combine (or nothing) runs once. Returns the
 * slots, valid until this lane's next collective. */
unsigned char (*exchange(unsigned mask, const void *in, size_t n, combine f, const char *op,
                         const char *file, int line))[SLOT];
bool early_copies(); /* whether cp.async copies at once */
void *shared_array(const void *key, size_t bytes, size_t align);
void run_grid(const char *name, dim3 blocks, dim3 threads, size_t dynamic, void (*call)(void *),
              void *arg);

/* ---- looking at loads and stores (watch.cpp), where kernels are compiled for that ---- */
struct Spot { /* who touches what: a number of the grid and the block, how many barriers before */
    uint32_t grid, block, turn;
    uint16_t thread, warp_turn; /* warp_turn: __syncwarp of the whole warp before */
    bool shared;
};
struct Watcher {
    void (*access)(const void *p, size_t n, bool write, bool atomic, const void *pc);
    void (*begin)(const char *kernel);
};
extern const Watcher *watcher;     /* nullptr: nobody looks */
bool spot(const void *p, Spot *s); /* false: not in a kernel, or a thread's own memory */
bool device_memory(const void *p); /* of any device */
static inline void watch(const void *p, size_t n, bool write, bool atomic = false,
                         const void *pc = __builtin_return_address(0))
{
    if (watcher)
        watcher->access(p, n, write, atomic, pc);
}

/* ---- tensor.cpp ---- */
void mma_16816(float *d, const uint32_t *a, const uint32_t *b, const float *c, bool half,
               const char *file, int line);
void ldmatrix_x4(uint32_t *r, const void *row, bool transposed, const char *file, int line);
void cp_async(void *shared, const void *global, int bytes, int valid);
void cp_commit();
void cp_wait(int groups);
size_t cp_pending();
void cp_forget();

/* ---- cudart.cpp ---- */
void check_pointer(const char *kernel, int argument, const void *p);
void launch(const char *name, const void *kernel, dim3 blocks, dim3 threads, size_t dynamic,
            cudaStream_t stream, void (*call)(void *), void *arg, void (*drop)(void *));
const char *launch_name(const char *file, const char *function); /* "norm.cu:launch_fwd", kept */
void enqueue(cudaStream_t stream, void (*call)(void *), void *arg, void (*drop)(void *));
/* Work that may have to wait for other processes: it is called when ready says so. */
void enqueue_when(cudaStream_t stream, bool (*ready)(void *), void (*call)(void *), void *arg,
                  void (*drop)(void *));
/* Like check_pointer, and the n bytes behind p must be there. */
void check_range(const char *what, const void *p, size_t n);
const char *wild_access(const void *p); /* a sentence about an address, or nullptr */
void check_borders(const char *kernel);

template <class T> void check_argument(const char *kernel, int i, const T &v)
{
    if constexpr (std::is_pointer<T>::value)
        check_pointer(kernel, i, (const void *)v);
    else
        (void)kernel, (void)i, (void)v;
}

template <class... P, class... A>
void launch_typed(const char *name, void (*kernel)(P...), dim3 blocks, dim3 threads, size_t dynamic,
                  cudaStream_t stream, A &&...a)
{
    struct Call {
        void (*kernel)(P...);
        std::tuple<P...> arguments;
    };
    Call *c = new Call{kernel, std::tuple<P...>(static_cast<P>(a)...)};
    int i = 0;
    std::apply([&](const auto &...x) { (check_argument(name, i++, x), ...); }, c->arguments);
    launch(
        name, (const void *)kernel, blocks, threads, dynamic, stream,
        [](void *v) { std::apply(((Call *)v)->kernel, ((Call *)v)->arguments); }, c,
        [](void *v) { delete (Call *)v; });
}

template <class T>
T shuffle(unsigned mask, T v, int from, const char *op, const char *file, int line)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    T out;
    unsigned char(*slot)[SLOT] = exchange(mask, &v, sizeof v, nullptr, op, file, line);
    if (from < 0 || from > 31 || !(mask >> from & 1))
        fail("%s:%d: %s reads lane %d, which is not in mask %08x", file, line, op, from, mask);
    memcpy(&out, slot[from], sizeof out);
    return out;
}

} // namespace emu

#define threadIdx (emu::thread->index)
#define blockIdx  (emu::block->index)
#define blockDim  (emu::block->threads)
#define gridDim   (emu::block->blocks)

static inline void __syncthreads(EMU_SITE)
{
    emu::barrier(file_, line_);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_SITE)
{
    emu::exchange(mask, nullptr, 0, nullptr, "__syncwarp", file_, line_);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int x, int width = 32, EMU_SITE)
{
    int lane = (int)emu::thread->lane, from = lane ^ x;
    if (from / width != lane / width)
        from = lane;
    return emu::shuffle(mask, v, from, "__shfl_xor_sync", file_, line_);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32, EMU_SITE)
{
    int lane = (int)emu::thread->lane, from = lane % width + (int)d < width ? lane + (int)d : lane;
    return emu::shuffle(mask, v, from, "__shfl_down_sync", file_, line_);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32, EMU_SITE)
{
    int lane = (int)emu::thread->lane, from = lane % width >= (int)d ? lane - (int)d : lane;
    return emu::shuffle(mask, v, from, "__shfl_up_sync", file_, line_);
}
template <class T> T __shfl_sync(unsigned mask, T v, int from, int width = 32, EMU_SITE)
{
    int lane = (int)emu::thread->lane;
    return emu::shuffle(mask, v, lane / width * width + (from & (width - 1)), "__shfl_sync", file_,
                        line_);
}
static inline unsigned __ballot_sync(unsigned mask, int p, EMU_SITE)
{
    unsigned mine = p != 0, all = 0;
    unsigned char(*slot)[emu::SLOT] =
        emu::exchange(mask, &mine, sizeof mine, nullptr, "__ballot_sync", file_, line_);
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) {
            unsigned v;
            memcpy(&v, slot[i], sizeof v);
            all |= v << i;
        }
    return all;
}
static inline int __any_sync(unsigned mask, int p, EMU_SITE)
{
    return __ballot_sync(mask, p, file_, line_) != 0;
}
static inline int __all_sync(unsigned mask, int p, EMU_SITE)
{
    return __ballot_sync(mask, p, file_, line_) == mask;
}

/* One OS thread runs all: an atomic is a plain read and write. Not instrumented: it says itself what
 * it is. */
#define EMU_ATOMIC template <class T, class V> __attribute__((no_sanitize("thread"))) T
EMU_ATOMIC atomicAdd(T *p, V v)
{
    emu::watch(p, sizeof *p, true, true, __builtin_return_address(0));
    T old = *p;
    *p = old + (T)v;
    return old;
}
EMU_ATOMIC atomicMin(T *p, V v)
{
    emu::watch(p, sizeof *p, true, true, __builtin_return_address(0));
    T old = *p;
    *p = (T)v < old ? (T)v : old;
    return old;
}
EMU_ATOMIC atomicMax(T *p, V v)
{
    emu::watch(p, sizeof *p, true, true, __builtin_return_address(0));
    T old = *p;
    *p = (T)v > old ? (T)v : old;
    return old;
}
EMU_ATOMIC atomicOr(T *p, V v)
{
    emu::watch(p, sizeof *p, true, true, __builtin_return_address(0));
    T old = *p;
    *p = old | (T)v;
    return old;
}
template <class T> __attribute__((no_sanitize("thread"))) T atomicCAS(T *p, T expected, T v)
{
    emu::watch(p, sizeof *p, true, true, __builtin_return_address(0));
    T old = *p;
    if (old == expected)
        *p = v;
    return old;
}
static inline void __threadfence()
{
}
template <class T> T __ldg(const T *p)
{
    return *p;
}
template <class T> T __ldcs(const T *p)
{
    return *p;
}
template <class T> void __stcs(T *p, T v)
{
    *p = v;
}
template <class T> void __stcg(T *p, T v)
{
    *p = v;
}
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline float emu_expf(float x)
{
    return ::expf(x);
}
#define __expf emu_expf
static inline float emu_logf(float x)
{
    return ::logf(x);
}
#define __logf emu_logf
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint32_t __umulhi(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}
static inline int min(int a, int b)
{
    return a < b ? a : b;
}
static inline int max(int a, int b)
{
    return a > b ? a : b;
}

#endif
