/* decode: the cache of keys and values, and attention of one new position a row. */
#include "trainer/cuda/common.cuh"

enum { THREADS = 128, WARPS = THREADS / 32 };

template <class T>
static __global__ void __launch_bounds__(256)
    kv_write(T *k, T *v, const T *qkv, const int32_t *pos, cuda_cache c, const cuda_fault *f)
{
    int64_t at = thread_number(), N = c.B * c.T, HS = c.C / c.heads;
    if (at >= N * c.C || f->code != FAULT_NONE)
        return;
    int64_t i = at / c.C, x = at % c.C, b = i / c.T, t = i % c.T, h = x / HS;
    if (pos[b] < 0)
        return;
    int64_t to = ((b * c.heads + h) * c.positions + pos[b] + t) * HS + x % HS;
    k[to] = qkv[i * 3 * c.C + c.C + x];
    v[to] = qkv[i * 3 * c.C + 2 * c.C + x];
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    attention_step(T *y, T *k, T *v, const T *qkv, const int32_t *pos, cuda_cache c, float scale,
                   const cuda_fault *f)
{
    DYN_SMEM(float, score);
    SMEM(float, part, [WARPS]);
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, HS = (int)(c.C / c.heads);
    int64_t task = blockIdx.x, b = task / c.heads, h = task % c.heads;
    if (f->code != FAULT_NONE)
        return;
    const T *q = qkv + b * 3 * c.C + h * HS;
    T *out = y + b * c.C + h * HS, *keys = k + task * c.positions * HS;
    T *values = v + task * c.positions * HS;
    int n = pos[b] + 1;
    if (n <= 0) { /* an idle row */
        for (int i = tid; i < HS; i += THREADS)
            out[i] = narrow<T>(0);
        return;
    }
    for (int i = tid; i < HS; i += THREADS) {
        keys[(int64_t)(n - 1) * HS + i] = q[c.C + i];
        values[(int64_t)(n - 1) * HS + i] = q[2 * c.C + i];
    }
    __syncthreads();
    float most = -INFINITY;
    for (int t = warp; t < n; t += WARPS) {
        float dot = 0;
        for (int i = lane; i < HS; i += 32)
            dot += real(q[i]) * real(keys[(int64_t)t * HS + i]);
        dot = warp_sum(dot) * scale;
        most = fmaxf(most, dot);
        if (lane == 0)
            score[t] = dot;
    }
    if (lane == 0)
        part[warp] = most;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        most = fmaxf(most, part[w]);
    float sum = 0;
    for (int t = tid; t < n; t += THREADS) {
        score[t] = expf(score[t] - most);
        sum += score[t];
    }
    sum = warp_sum(sum);
    __syncthreads(); /* all have read part */
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < WARPS; w++)
        sum += part[w];
    for (int i = tid; i < HS; i += THREADS) {
        float o = 0;
        for (int t = 0; t < n; t++)
            o += score[t] * real(values[(int64_t)t * HS + i]);
        out[i] = narrow<T>(o / sum);
    }
}

template <class T>
static cudaError_t launch_write(const cuda_cache *c, void *k, void *v, const void *qkv,
                                const int32_t *pos, const cuda_fault *f, cudaStream_t s)
{
    auto kernel = kv_write<T>;
    LAUNCH(kernel, blocks_for(c->B * c->T * c->C, 256), 256, 0, s, (T *)k, (T *)v, (const T *)qkv,
           pos, *c, f);
    return cudaGetLastError();
}

template <class T>
static cudaError_t launch_step(const cuda_cache *c, void *y, void *k, void *v, const void *qkv,
                               const int32_t *pos, const cuda_fault *f, cudaStream_t s)
{
    auto kernel = attention_step<T>;
    size_t shared = (size_t)c->positions * sizeof(float);
    float scale = (float)(1 / sqrt((double)(c->C / c->heads)));
    cudaError_t e = cudaSuccess;
    if (shared > 40 << 10)
        e = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)shared);
    if (e != cudaSuccess)
        return e;
    LAUNCH(kernel, (unsigned)(c->B * c->heads), THREADS, shared, s, (T *)y, (T *)k, (T *)v,
           (const T *)qkv, pos, *c, scale, f);
    return cudaGetLastError();
}

cudaError_t cuda_kv_write(const cuda_cache *c, void *k, void *v, const void *qkv,
                          const int32_t *pos, const cuda_fault *f, cudaStream_t s)
{
    switch (c->type) {
    case DTYPE_BF16:
        return launch_write<bf16>(c, k, v, qkv, pos, f, s);
    case DTYPE_F16:
        return launch_write<f16>(c, k, v, qkv, pos, f, s);
    default:
        return launch_write<float>(c, k, v, qkv, pos, f, s);
    }
}

cudaError_t cuda_attention_step(const cuda_cache *c, void *y, void *k, void *v, const void *qkv,
                                const int32_t *pos, const cuda_fault *f, cudaStream_t s)
{
    switch (c->type) {
    case DTYPE_BF16:
        return launch_step<bf16>(c, y, k, v, qkv, pos, f, s);
    case DTYPE_F16:
        return launch_step<f16>(c, y, k, v, qkv, pos, f, s);
    default:
        return launch_step<float>(c, y, k, v, qkv, pos, f, s);
    }
}
