/* bugs: small kernels, each right with bug = 0 and wrong in one known way with bug = 1. */
#include "tests/cudaemu/bugs.hpp"
#include "trainer/cuda/dialect.cuh"

enum { N = 64 };

static __global__ void reverse(float *out, int bug)
{
    SMEM(float, s, [N]);
    s[threadIdx.x] = (float)threadIdx.x;
    if (!bug)
        __syncthreads();
    out[threadIdx.x] = s[N - 1 - threadIdx.x];
}
static __global__ void write_behind_shared(float *out, int bug)
{
    SMEM(float, s, [N]);
    s[threadIdx.x + bug] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
static __global__ void write_behind_dynamic(float *out, int bug)
{
    DYN_SMEM(float, s);
    s[threadIdx.x + bug] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
static __global__ void write_behind_global(float *out, int bug)
{
    out[threadIdx.x + bug] = 1;
}
static __global__ void wild_read(float *out, int bug)
{
    out[threadIdx.x] = bug ? out[threadIdx.x + N] : 1.0f;
}
static __global__ void unwritten_shared(float *out, int bug)
{
    SMEM(float, s, [N]);
    if (!bug || threadIdx.x)
        s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[N - 1 - threadIdx.x];
}
static __global__ void two_barriers(float *out, int bug)
{
    if (bug && threadIdx.x < 32) {
        out[threadIdx.x] = 0;
        __syncthreads();
    } else {
        out[threadIdx.x] = 1;
        __syncthreads();
    }
}
static __global__ void absent_lanes(float *out, int bug)
{
    float v = 1;
    if (!bug || threadIdx.x % 32 < 16)
        v = __shfl_xor_sync(0xffffffffu, v, 1);
    out[threadIdx.x] = v;
}
static __global__ void ended_lanes(float *out, int bug)
{
    if (bug && threadIdx.x % 32 == 31)
        return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
static __global__ void lane_outside_mask(float *out, int bug)
{
    if (threadIdx.x % 32 < 16 || bug)
        out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 1);
}
static __global__ void no_wait(float *out, int bug)
{
    SMEM(float, s, [N * 4]);
    cp_async16(s + threadIdx.x * 4, out, true);
    cp_async_commit();
    if (!bug)
        cp_async_wait<0>();
    out[threadIdx.x] = 1;
}
static __global__ void waits_too_little(float *out, int bug)
{
    SMEM(float, s, [N * 4]);
    s[threadIdx.x * 4] = 5;
    cp_async16(s + threadIdx.x * 4, out, false);
    cp_async_commit();
    if (bug)
        cp_async_wait<1>();
    else
        cp_async_wait<0>();
    out[threadIdx.x] = s[threadIdx.x * 4];
    cp_async_wait<0>();
}
static __global__ void crooked_rows(float *out, int bug)
{
    SMEM(float, s, [N * 4]);
    uint32_t r[4];
    for (int i = 0; i < 4; i++)
        s[threadIdx.x * 4 + i] = 0;
    __syncthreads();
    ldmatrix_x4(r, (char *)s + threadIdx.x % 32 * 16 + 8 * bug);
    out[threadIdx.x] = (float)r[0];
}
/* Warps read what the other warp wrote, while nothing keeps that one from writing the next round. */
static __global__ void no_tail_barrier(float *out, int bug)
{
    SMEM(float, s, [N]);
    float sum = 0;
    for (int round = 0; round < 3; round++) {
        s[threadIdx.x] = (float)(threadIdx.x + 100 * round);
        __syncthreads();
        for (int i = 0; i < 4; i++)
            sum += __shfl_xor_sync(0xffffffffu, s[(threadIdx.x + 32 + i) % N], 0);
        if (!bug)
            __syncthreads();
    }
    out[threadIdx.x] = sum;
}
static __global__ void plain(float *out, int bug)
{
    out[threadIdx.x] = (float)bug;
}

typedef void kernel(float *, int);
static const struct {
    const char *name;
    kernel *f;
    size_t dynamic;
} kernels[] = {
    {"reverse", reverse, 0},
    {"write_behind_shared", write_behind_shared, 0},
    {"write_behind_dynamic", write_behind_dynamic, N * 4},
    {"write_behind_global", write_behind_global, 0},
    {"wild_read", wild_read, 0},
    {"unwritten_shared", unwritten_shared, 0},
    {"two_barriers", two_barriers, 0},
    {"absent_lanes", absent_lanes, 0},
    {"ended_lanes", ended_lanes, 0},
    {"lane_outside_mask", lane_outside_mask, 0},
    {"no_wait", no_wait, 0},
    {"waits_too_little", waits_too_little, 0},
    {"crooked_rows", crooked_rows, 0},
    {"no_tail_barrier", no_tail_barrier, 0},
    {"plain", plain, 0},
};

bool bug_launch(const char *name, float *out, int bug, cudaStream_t s)
{
    for (const auto &k : kernels)
        if (strcmp(k.name, name) == 0) {
            LAUNCH(k.f, 1, N, k.dynamic, s, out, bug);
            return true;
        }
    return false;
}

/* ---- right kernels, for what the emulator must do ---- */

static __global__ void who_ran(int *order, int *count)
{
    order[atomicAdd(count, 1)] = (int)(blockIdx.x * blockDim.x + threadIdx.x);
}
void order_launch(int *order, int *count, cudaStream_t s)
{
    LAUNCH(who_ran, 2, 8, 0, s, order, count);
}

static __global__ void collectives(int *out)
{
    int lane = (int)threadIdx.x;
    out[lane] = __shfl_xor_sync(0xffffffffu, lane, 5);
    out[32 + lane] = __shfl_down_sync(0xffffffffu, lane, 3, 8);
    out[64 + lane] = __shfl_up_sync(0xffffffffu, lane, 3, 8);
    out[96 + lane] = __shfl_sync(0xffffffffu, lane, 9, 16);
    out[128 + lane] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
    out[160 + lane] = __any_sync(0xffffffffu, lane == 7) + 2 * __all_sync(0xffffffffu, lane < 31);
}
void collectives_launch(int *out, cudaStream_t s)
{
    LAUNCH(collectives, 1, 32, 0, s, out);
}

/* d[16][8] = a[16][16] b[8][16]^T through shared memory, ldmatrix and mma. */
template <class T> static __global__ void product(float *d, const T *a, const T *b)
{
    SMEM(T, sa, [16 * 16]);
    SMEM(T, sb, [16 * 16]);
    int lane = (int)threadIdx.x;
    for (int i = lane; i < 256; i += 32) {
        sa[i] = a[i];
        sb[i] = i < 128 ? b[i] : T(0.0f);
    }
    __syncwarp();
    uint32_t fa[4], fb[4];
    float c[4] = {0, 0, 0, 0};
    /* a: rows 0-7 and 8-15 of k 0-7, then of k 8-15; b: rows are columns of d. */
    ldmatrix_x4(fa, sa + (lane % 16) * 16 + lane / 16 * 8);
    ldmatrix_x4(fb, sb + (lane % 8 + lane / 16 * 8) * 16 + lane / 8 % 2 * 8);
    mma_16816(c, fa, fb, c, T());
    for (int i = 0; i < 4; i++)
        d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}
void product_bf16_launch(float *d, const void *a, const void *b, cudaStream_t s)
{
    auto kernel = product<__nv_bfloat16>;
    LAUNCH(kernel, 1, 32, 0, s, d, (const __nv_bfloat16 *)a, (const __nv_bfloat16 *)b);
}
void product_f16_launch(float *d, const void *a, const void *b, cudaStream_t s)
{
    auto kernel = product<__half>;
    LAUNCH(kernel, 1, 32, 0, s, d, (const __half *)a, (const __half *)b);
}

static __global__ void turn(uint16_t *out, const uint16_t *in)
{
    SMEM(uint16_t, s, [4 * 64]);
    uint32_t r[4];
    int lane = (int)threadIdx.x;
    for (int i = lane; i < 256; i += 32)
        s[i] = in[i];
    __syncwarp();
    ldmatrix_x4_trans(r, s + lane * 8);
    for (int m = 0; m < 4; m++) {
        int row = lane / 4, column = lane % 4 * 2;
        out[m * 64 + row * 8 + column] = (uint16_t)r[m];
        out[m * 64 + row * 8 + column + 1] = (uint16_t)(r[m] >> 16);
    }
}
void turn_launch(uint16_t *out, const uint16_t *in, cudaStream_t s)
{
    LAUNCH(turn, 1, 32, 0, s, out, in);
}

static __global__ void fill(float *out, float v)
{
    out[threadIdx.x] = v;
}
void fill_launch(float *out, float v, cudaStream_t s)
{
    LAUNCH(fill, 1, N, 0, s, out, v);
}
