/* flash_fwd: causal softmax attention on tensor cores (Dao, "FlashAttention-2", arXiv 2307.08691).
 *
 * A block takes 64 queries of one head, keys and values come by in tiles of 64 while the tile behind
 * is being copied; the queries' fragments, the scores and the sums stay in registers.
 */
#include "trainer/cuda/flash.cuh"

enum { STAGES = 2 };
#define LOG2E 1.4426950408889634f

/* Scores become weights: causal mask, running maximum and sum, both in units of raw scores. */
struct Softmax {
    float most[2], sum[2]; /* of rows g and g + 8 */
};

/* most, over the keys of this tile, of the two rows; what older sums shrink by goes into shrink. */
static __device__ __forceinline__ void weights(float (*s)[4], Softmax &r, float *shrink, float unit)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float most = r.most[i], part = 0;
#pragma unroll
        for (int n = 0; n < 8; n++)
            most = fmaxf(most, fmaxf(s[n][i * 2], s[n][i * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        float base = most == -INFINITY ? 0.0f : most * unit;
        shrink[i] = exp2f(r.most[i] * unit - base);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int k = i * 2; k < i * 2 + 2; k++) {
                s[n][k] = exp2f(s[n][k] * unit - base);
                part += s[n][k];
            }
        r.sum[i] = r.sum[i] * shrink[i] + part; /* this lane's share; joined at the end */
        r.most[i] = most;
    }
}

template <class T, int HD>
static __global__ void __launch_bounds__(FLASH_THREADS)
    flash_fwd_kernel(T *y, float *lse, const T *qkv, FlashShape p)
{
    constexpr int SIZE = FlashTile<HD>::SIZE;
    DYN_SMEM(T, all);
    T *sq = all, *stage = all + SIZE;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    int64_t h = blockIdx.x % p.heads, b = blockIdx.x / p.heads, W = 3 * p.C;
    int tiles = (int)(gridDim.y - blockIdx.y); /* longest first */
    int i0 = (tiles - 1) * FLASH_ROWS, row = i0 + warp * 16 + g;
    const T *q = qkv + b * p.length * W + h * HD, *k = q + p.C, *v = k + p.C;
    uint64_t seq = p.drop.on ? p.drop.seq[b] : 0;
    float out[HD / 8][4] = {}, unit = p.scale * LOG2E;
    Softmax r = {{-INFINITY, -INFINITY}, {0, 0}};
    flash_load<T, HD>(sq, q, i0, p.length, W);
    flash_load<T, HD>(stage, k, 0, p.length, W);
    flash_load<T, HD>(stage + SIZE, v, 0, p.length, W);
    cp_async_commit();
    for (int tile = 0; tile < tiles; tile++) {
        T *sk = stage + tile % STAGES * 2 * SIZE, *sv = sk + SIZE;
        T *next = stage + (tile + 1) % STAGES * 2 * SIZE;
        int j0 = tile * FLASH_ROWS;
        if (tile + 1 < tiles) {
            flash_load<T, HD>(next, k, j0 + FLASH_ROWS, p.length, W);
            flash_load<T, HD>(next + SIZE, v, j0 + FLASH_ROWS, p.length, W);
        }
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        float s[8][4], shrink[2];
        flash_scores<T, HD, 8>(s, sq, warp * 16, sk, 0);
        if (tile == tiles - 1) {
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (j0 + n * 8 + t * 2 + e % 2 > row + e / 2 * 8)
                        s[n][e] = -INFINITY;
        }
        weights(s, r, shrink, unit);
#pragma unroll
        for (int d = 0; d < HD / 8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                out[d][e] *= shrink[e / 2];
        if (p.drop.on) {
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float m[2];
                    flash_mask_keys(m, p, seq, h, row + i * 8, j0 + n * 8 + t * 2);
                    s[n][i * 2] *= m[0];
                    s[n][i * 2 + 1] *= m[1];
                }
        }
        flash_add<T, HD, 8>(out, s, sv, 0);
        __syncthreads(); /* this stage is written next */
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float sum = r.sum[i];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
#pragma unroll
        for (int d = 0; d < HD / 8; d++) {
            out[d][i * 2] /= sum;
            out[d][i * 2 + 1] /= sum;
        }
        if (t == 0 && row + i * 8 < p.length)
            lse[(int64_t)blockIdx.x * p.length + row + i * 8] = r.most[i] * p.scale + logf(sum);
    }
    int64_t first = i0 + warp * 16, left = p.length - first;
    flash_store<T, HD>(y + (b * p.length + first) * p.C + h * HD, p.C, left > 16 ? 16 : (int)left,
                       sq + warp * 16 * FlashTile<HD>::LD, out);
}

template <class T, int HD>
static cudaError_t launch(const cuda_attention *a, void *y, float *lse, const void *qkv,
                          cudaStream_t s)
{
    size_t shared = (1 + 2 * STAGES) * FlashTile<HD>::SIZE * sizeof(T);
    auto kernel = flash_fwd_kernel<T, HD>;
    cudaError_t e = flash_shared(kernel, shared);
    if (e != cudaSuccess)
        return e;
    LAUNCH(kernel, dim3((unsigned)(a->B * a->heads), blocks_for(a->T, FLASH_ROWS)), FLASH_THREADS,
           shared, s, (T *)y, lse, (const T *)qkv, flash_shape(a));
    return cudaGetLastError();
}

bool flash_takes(const cuda_attention *a, const void *qkv, const void *out)
{
    int64_t HS = a->C / a->heads;
    return (a->type == DTYPE_BF16 || a->type == DTYPE_F16) && (HS == 64 || HS == 128) &&
           aligned16(qkv) && aligned16(out);
}

cudaError_t flash_fwd(const cuda_attention *a, void *y, float *lse, const void *qkv, cudaStream_t s)
{
    bool half = a->type == DTYPE_F16;
    if (a->C / a->heads == 64)
        return half ? launch<f16, 64>(a, y, lse, qkv, s) : launch<bf16, 64>(a, y, lse, qkv, s);
    return half ? launch<f16, 128>(a, y, lse, qkv, s) : launch<bf16, 128>(a, y, lse, qkv, s);
}
