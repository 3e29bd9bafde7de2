/* flash_bwd: gradients of attention on tensor cores (Dao, arXiv 2307.08691), in two passes.
 *
 * One kernel owns 64 keys and lets the queries behind them pass by, the other owns 64 queries and
 * lets the keys before them pass by. The scores are computed in both, two products of seven more than
 * with one pass, but nothing is added atomically: equal runs have equal bits, and there is no
 * f32 copy of the queries' gradient. Scores are taken 32 columns at a time to stay in registers.
 */
#include "trainer/cuda/flash.cuh"

enum { COLUMNS = 32, N = COLUMNS / 8 };
#define LOG2E 1.4426950408889634f

/* Rows are keys j (16 of a warp), columns are queries i. p: weights as dropped; ds: gradients. */
template <int HD>
static __device__ __forceinline__ void key_pairs(float (*pd)[4], float (*ds)[4], const float *lse,
                                                 const float *delta, const FlashShape &p,
                                                 uint64_t seq, int64_t h, int i0, int j0)
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    float unit = p.scale * LOG2E;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int c = n * 8 + t * 2 + e % 2;
            int i = i0 + c, j = j0 + g + e / 2 * 8;
            bool in = j <= i && i < p.length;
            float w = in ? exp2f(pd[n][e] * unit - lse[c] * LOG2E) : 0.0f, m[1] = {1.0f};
            if (p.drop.on)
                drop_masks<1>(m, p.drop, seq, (uint64_t)((h * p.length + i) * p.length + j));
            ds[n][e] = in ? w * (ds[n][e] * m[0] - delta[c]) * p.scale : 0.0f;
            pd[n][e] = w * m[0];
        }
}

template <class T, int HD>
static __global__ void __launch_bounds__(FLASH_THREADS)
    flash_bwd_keys(T *dqkv, const T *dy, const T *qkv, const float *lse, const float *delta,
                   FlashShape p)
{
    constexpr int SIZE = FlashTile<HD>::SIZE, LD = FlashTile<HD>::LD;
    DYN_SMEM(T, all);
    T *sk = all, *sv = sk + SIZE, *sq = sv + SIZE, *sg = sq + SIZE;
    SMEM(float, sl, [FLASH_ROWS]);
    SMEM(float, sd, [FLASH_ROWS]);
    int warp = threadIdx.x >> 5;
    int64_t h = blockIdx.x % p.heads, b = blockIdx.x / p.heads, W = 3 * p.C;
    int j0 = (int)blockIdx.y * FLASH_ROWS;
    lse += (int64_t)blockIdx.x * p.length;
    delta += (int64_t)blockIdx.x * p.length;
    const T *q = qkv + b * p.length * W + h * HD, *dout = dy + b * p.length * p.C + h * HD;
    uint64_t seq = p.drop.on ? p.drop.seq[b] : 0;
    float dk[HD / 8][4] = {}, dv[HD / 8][4] = {};
    flash_load<T, HD>(sk, q + p.C, j0, p.length, W);
    flash_load<T, HD>(sv, q + 2 * p.C, j0, p.length, W);
    for (int i0 = j0; i0 < p.length; i0 += FLASH_ROWS) {
        flash_load<T, HD>(sq, q, i0, p.length, W);
        flash_load<T, HD>(sg, dout, i0, p.length, p.C);
        cp_async_commit();
        if (threadIdx.x < FLASH_ROWS) {
            int i = i0 + (int)threadIdx.x;
            sl[threadIdx.x] = i < p.length ? lse[i] : 0.0f;
            sd[threadIdx.x] = i < p.length ? delta[i] : 0.0f;
        }
        cp_async_wait<0>();
        __syncthreads();
#pragma unroll 1
        for (int c = 0; c < FLASH_ROWS; c += COLUMNS) {
            float pd[N][4], ds[N][4];
            flash_scores<T, HD, N>(pd, sk, warp * 16, sq, c);
            flash_scores<T, HD, N>(ds, sv, warp * 16, sg, c);
            key_pairs<HD>(pd, ds, sl + c, sd + c, p, seq, h, i0 + c, j0 + warp * 16);
            flash_add<T, HD, N>(dv, pd, sg, c);
            flash_add<T, HD, N>(dk, ds, sq, c);
        }
        __syncthreads();
    }
    int64_t first = j0 + warp * 16;
    int left = p.length - (int)first;
    T *out = dqkv + (b * p.length + first) * W + h * HD;
    int n = left > 16 ? 16 : left;
    flash_store<T, HD>(out + p.C, W, n, sk + warp * 16 * LD, dk);
    flash_store<T, HD>(out + 2 * p.C, W, n, sv + warp * 16 * LD, dv);
}

template <class T, int HD>
static __global__ void __launch_bounds__(FLASH_THREADS)
    flash_bwd_queries(T *dqkv, const T *dy, const T *qkv, const float *lse, const float *delta,
                      FlashShape p)
{
    constexpr int SIZE = FlashTile<HD>::SIZE, LD = FlashTile<HD>::LD;
    DYN_SMEM(T, all);
    T *sq = all, *sg = sq + SIZE, *sk = sg + SIZE, *sv = sk + SIZE;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    int64_t h = blockIdx.x % p.heads, b = blockIdx.x / p.heads, W = 3 * p.C;
    int64_t i0 = (int64_t)(gridDim.y - 1 - blockIdx.y) * FLASH_ROWS, row = i0 + warp * 16 + g;
    const T *q = qkv + b * p.length * W + h * HD;
    uint64_t seq = p.drop.on ? p.drop.seq[b] : 0;
    float dq[HD / 8][4] = {}, l[2], d[2], unit = p.scale * LOG2E;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        bool in = row + i * 8 < p.length;
        l[i] = in ? lse[(int64_t)blockIdx.x * p.length + row + i * 8] * LOG2E : 0.0f;
        d[i] = in ? delta[(int64_t)blockIdx.x * p.length + row + i * 8] : 0.0f;
    }
    flash_load<T, HD>(sq, q, (int)i0, p.length, W);
    flash_load<T, HD>(sg, dy + b * p.length * p.C + h * HD, (int)i0, p.length, p.C);
    for (int64_t j0 = 0; j0 <= i0; j0 += FLASH_ROWS) {
        flash_load<T, HD>(sk, q + p.C, (int)j0, p.length, W);
        flash_load<T, HD>(sv, q + 2 * p.C, (int)j0, p.length, W);
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
#pragma unroll 1
        for (int c = 0; c < FLASH_ROWS; c += COLUMNS) {
            float s[N][4], ds[N][4];
            flash_scores<T, HD, N>(s, sq, warp * 16, sk, c);
            flash_scores<T, HD, N>(ds, sg, warp * 16, sv, c);
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int64_t j = j0 + c + n * 8 + t * 2, at = row + i * 8;
                    float m[2] = {1.0f, 1.0f};
                    if (p.drop.on)
                        flash_mask_keys(m, p, seq, h, (int)at, (int)j);
#pragma unroll
                    for (int k = 0; k < 2; k++) {
                        float w = exp2f(s[n][i * 2 + k] * unit - l[i]);
                        float grad = w * (ds[n][i * 2 + k] * m[k] - d[i]) * p.scale;
                        ds[n][i * 2 + k] = j + k <= at && at < p.length ? grad : 0.0f;
                    }
                }
            flash_add<T, HD, N>(dq, ds, sk, c);
        }
        __syncthreads();
    }
    int64_t first = i0 + warp * 16, left = p.length - first;
    flash_store<T, HD>(dqkv + (b * p.length + first) * W + h * HD, W, left > 16 ? 16 : (int)left,
                       sq + warp * 16 * LD, dq);
}

template <class T, int HD>
static cudaError_t launch(const cuda_attention *a, void *dqkv, const void *dy, const void *qkv,
                          const float *lse, const float *delta, cudaStream_t s)
{
    size_t shared = 4 * FlashTile<HD>::SIZE * sizeof(T);
    auto keys = flash_bwd_keys<T, HD>;
    auto queries = flash_bwd_queries<T, HD>;
    dim3 grid((unsigned)(a->B * a->heads), blocks_for(a->T, FLASH_ROWS));
    cudaError_t e = flash_shared(keys, shared);
    if (e == cudaSuccess)
        e = flash_shared(queries, shared);
    if (e != cudaSuccess)
        return e;
    LAUNCH(keys, grid, FLASH_THREADS, shared, s, (T *)dqkv, (const T *)dy, (const T *)qkv, lse,
           delta, flash_shape(a));
    LAUNCH(queries, grid, FLASH_THREADS, shared, s, (T *)dqkv, (const T *)dy, (const T *)qkv, lse,
           delta, flash_shape(a));
    return cudaGetLastError();
}

cudaError_t flash_bwd(const cuda_attention *a, void *dqkv, const void *dy, const void *qkv,
                      const float *lse, const float *delta, cudaStream_t s)
{
    bool half = a->type == DTYPE_F16;
    if (a->C / a->heads == 64)
        return half ? launch<f16, 64>(a, dqkv, dy, qkv, lse, delta, s)
                    : launch<bf16, 64>(a, dqkv, dy, qkv, lse, delta, s);
    return half ? launch<f16, 128>(a, dqkv, dy, qkv, lse, delta, s)
                : launch<bf16, 128>(a, dqkv, dy, qkv, lse, delta, s);
}
