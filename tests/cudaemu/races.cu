/* races: small kernels, each right with bug = 0 and with a race with bug = 1; and two that move memory
 * well and badly. Compiled with every access looked at (watch.cpp). */
#include "tests/cudaemu/races.hpp"
#include "trainer/cuda/dialect.cuh"

enum { N = 64 };

static __global__ void no_barrier(float *out, int bug)
{
    SMEM(float, s, [N]);
    s[threadIdx.x] = (float)threadIdx.x;
    if (!bug)
        __syncthreads();
    out[blockIdx.x * N + threadIdx.x] = s[N - 1 - threadIdx.x];
}

static __global__ void no_tail_barrier(float *out, int bug)
{
    SMEM(float, s, [N]);
    float sum = 0;
    for (int k = 0; k < 3; k++) {
        s[threadIdx.x] = (float)k;
        __syncthreads();
        sum += s[(threadIdx.x + 32) % N];
        if (!bug)
            __syncthreads();
    }
    out[blockIdx.x * N + threadIdx.x] = sum;
}

static __global__ void no_syncwarp(float *out, int bug)
{
    SMEM(float, s, [N]);
    s[threadIdx.x] = (float)threadIdx.x;
    if (!bug)
        __syncwarp();
    out[blockIdx.x * N + threadIdx.x] = s[threadIdx.x ^ 1];
}

/* A shuffle waits for the lanes, but promises nothing about memory. */
static __global__ void shuffle_for_syncwarp(float *out, int bug)
{
    SMEM(float, s, [N]);
    s[threadIdx.x] = (float)threadIdx.x;
    float other = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    if (!bug)
        __syncwarp();
    out[blockIdx.x * N + threadIdx.x] = s[threadIdx.x ^ 1] * other;
}

static __global__ void two_blocks_one_word(float *out, int bug)
{
    if (threadIdx.x == 0)
        out[bug ? 0 : blockIdx.x] = 1;
}

static __global__ void read_beside_atomic(float *out, int bug)
{
    atomicAdd(out, 1.0f);
    if (bug && threadIdx.x == 1)
        out[1 + blockIdx.x] = out[0];
}

static __global__ void copy_for_others(float *out, int bug)
{
    SMEM(float, s, [N * 4]);
    cp_async16(s + threadIdx.x * 4, out + threadIdx.x * 4, true);
    cp_async_commit();
    cp_async_wait<0>();
    if (!bug)
        __syncthreads();
    out[blockIdx.x * N + N * 4 + threadIdx.x] = s[(threadIdx.x ^ 33) * 4];
}

static __global__ void copy_over_readers(float *out, int bug)
{
    SMEM(float, s, [N * 4]);
    for (int i = 0; i < 4; i++)
        s[threadIdx.x * 4 + i] = 1;
    __syncthreads();
    float v = s[(threadIdx.x ^ 33) * 4];
    if (!bug)
        __syncthreads();
    cp_async16(s + threadIdx.x * 4, out + threadIdx.x * 4, true);
    cp_async_commit();
    cp_async_wait<0>();
    out[blockIdx.x * N + N * 4 + threadIdx.x] = v;
}

/* bug: one float in two is touched. */
static __global__ void stride(float *out, int bug)
{
    out[threadIdx.x * (bug ? 2 : 1)] = 1;
}

const char *const race_names[] = {"no_barrier",           "no_tail_barrier",     "no_syncwarp",
                                  "shuffle_for_syncwarp", "two_blocks_one_word", "read_beside_atomic",
                                  "copy_for_others",      "copy_over_readers",   nullptr};

void race_launch(int which, float *out, int bug)
{
    typedef void (*Kernel)(float *, int);
    static const Kernel kernels[] = {no_barrier,           no_tail_barrier,     no_syncwarp,
                                     shuffle_for_syncwarp, two_blocks_one_word, read_beside_atomic,
                                     copy_for_others,      copy_over_readers};
    LAUNCH(kernels[which], 2, N, 0, 0, out, bug);
}
void stride_launch(float *out, int bug)
{
    LAUNCH(stride, 1, N, 0, 0, out, bug);
}
