/* attention: causal softmax attention for any head size up to 256, in plain f32 arithmetic.
 *
 * Tiles of queries against tiles of keys, with a running softmax (Dao et al., "FlashAttention", arXiv
 * 2205.14135): nothing of the T x T matrix is ever stored. flash_fwd.cu and flash_bwd.cu do the same
 * on tensor cores for bf16 and fp16 and heads of 64 and 128; this file is for f32, where their
 * products would not be exact enough, and for other heads. The backward pass goes over the tiles
 * twice, once for the keys' and once for the queries' gradients, so that nothing is added
 * atomically: equal runs have equal bits.
 *
 * 128 threads: 8 to a row of 16, and each sums its row's columns c = lane, lane + 8, ...
 */
#include "trainer/cuda/common.cuh"
#include "trainer/cuda/flash.cuh"

enum { THREADS = 128, ROWS = 16, LANES = THREADS / ROWS, KEYS = 32, SHARED = 48 << 10 };

struct Shape {
    int64_t C;             /* width */
    int length, heads, HS; /* length: T */
    float scale;
    cuda_drop drop;
};

/* Rows from .. from + n of one head into shared memory, zeros behind row T. */
template <class T>
static __device__ void load_rows(float *to, const T *from, int first, int n, int64_t stride,
                                 const Shape &p)
{
#pragma unroll 2 /* four spill a register with CUDA 12's assembler */
    for (int e = threadIdx.x; e < n * p.HS; e += THREADS) {
        int r = e / p.HS, c = e % p.HS;
        bool in = first + r < p.length;
        to[r * (p.HS + 1) + c] = in ? real(from[(first + r) * stride + c]) : 0.0f;
    }
}

static __device__ __forceinline__ float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

static __device__ __forceinline__ float score_mask(const Shape &p, uint64_t seq, int64_t h,
                                                   int64_t i, int64_t j)
{
    if (!p.drop.on)
        return 1.0f;
    float m[1];
    drop_masks<1>(m, p.drop, seq, (uint64_t)((h * p.length + i) * p.length + j));
    return m[0];
}

/* Over the 8 threads of a row. */
static __device__ __forceinline__ float row_max(float v)
{
    for (int d = LANES / 2; d; d >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d, LANES));
    return v;
}
static __device__ __forceinline__ float row_sum(float v)
{
    for (int d = LANES / 2; d; d >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, d, LANES);
    return v;
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    attention_fwd(T *y, float *lse, const T *qkv, Shape p)
{
    DYN_SMEM(float, all);
    int LD = p.HS + 1, row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    float *q = all, *k = q + ROWS * LD, *v = k + KEYS * LD, *o = v + KEYS * LD, *s = o + ROWS * LD;
    int64_t h = blockIdx.x % p.heads, b = blockIdx.x / p.heads, W = 3 * p.C;
    int i0 = (int)(gridDim.y - 1 - blockIdx.y) * ROWS, i = i0 + row; /* longest first */
    const T *base = qkv + b * p.length * W + h * p.HS;
    uint64_t seq = p.drop.on ? p.drop.seq[b] : 0;
    float most = -INFINITY, sum = 0;
    load_rows(q, base, i0, ROWS, W, p);
    for (int c = lane; c < p.HS; c += LANES)
        o[row * LD + c] = 0;
    for (int j0 = 0; j0 < i0 + ROWS && j0 < p.length; j0 += KEYS) {
        __syncthreads();
        load_rows(k, base + p.C, j0, KEYS, W, p);
        load_rows(v, base + 2 * p.C, j0, KEYS, W, p);
        __syncthreads();
        int n = i < j0 ? 0 : i - j0 + 1 < KEYS ? i - j0 + 1 : KEYS; /* keys of this row */
        float here = most;
        for (int j = lane; j < n; j += LANES) {
            s[row * KEYS + j] = dot(q + row * LD, k + j * LD, p.HS) * p.scale;
            here = fmaxf(here, s[row * KEYS + j]);
        }
        here = row_max(here);
        float shrink = here == -INFINITY ? 1.0f : expf(most - here), part = 0;
        for (int j = lane; j < n; j += LANES) {
            float e = expf(s[row * KEYS + j] - here);
            part += e;
            s[row * KEYS + j] = e * score_mask(p, seq, h, i, j0 + j);
        }
        sum = sum * shrink + row_sum(part);
        most = here;
        __syncwarp();
        for (int c = lane; c < p.HS; c += LANES) {
            float a = o[row * LD + c] * shrink;
            for (int j = 0; j < n; j++)
                a += s[row * KEYS + j] * v[j * LD + c];
            o[row * LD + c] = a;
        }
    }
    if (i >= p.length)
        return;
    for (int c = lane; c < p.HS; c += LANES)
        y[(b * p.length + i) * p.C + h * p.HS + c] = narrow<T>(o[row * LD + c] / sum);
    if (lane == 0)
        lse[(int64_t)blockIdx.x * p.length + i] = most + logf(sum);
}

/* delta[b, h, t] = dy . y, what the softmax's gradient subtracts. `lanes` threads take a row. */
template <class T, int W>
static __global__ void __launch_bounds__(THREADS)
    attention_delta(float *delta, const T *dy, const T *y, Shape p, int64_t n, int lanes)
{
    int64_t at = thread_number() / lanes;
    int lane = threadIdx.x % lanes;
    float sum = 0;
    if (at < n) {
        int64_t t = at % p.length, h = at / p.length % p.heads, b = at / p.length / p.heads;
        int64_t from = (b * p.length + t) * p.C + h * p.HS;
        for (int c = lane * W; c < p.HS; c += lanes * W) {
            Pack<T, W> g = load<T, W>(dy + from + c), o = load<T, W>(y + from + c);
#pragma unroll
            for (int k = 0; k < W; k++)
                sum += real(g.v[k]) * real(o.v[k]);
        }
    }
    for (int d = lanes / 2; d; d >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (at < n && lane == 0)
        delta[at] = sum;
}

/* Probability with its dropout, and the gradient of the score, of query i and key j. */
struct Pair {
    float dropped, grad;
};
static __device__ __forceinline__ Pair pair_of(const Shape &p, const float *q, const float *k,
                                               const float *dout, const float *v, float lse,
                                               float delta, uint64_t seq, int64_t h, int64_t i,
                                               int64_t j)
{
    if (j > i || i >= p.length)
        return Pair{0, 0};
    float e = expf(dot(q, k, p.HS) * p.scale - lse), m = score_mask(p, seq, h, i, j);
    return Pair{e * m, e * (dot(dout, v, p.HS) * m - delta) * p.scale};
}

/* Gradients of 16 keys and values: all queries behind them pass by in tiles of 16. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    attention_bwd_keys(T *dqkv, const T *dy, const T *qkv, const float *lse, const float *delta,
                       Shape p)
{
    DYN_SMEM(float, all);
    int LD = p.HS + 1, row = threadIdx.x / LANES, lane = threadIdx.x % LANES, tile = ROWS * LD;
    float *k = all, *v = k + tile, *q = v + tile, *g = q + tile, *dk = g + tile, *dv = dk + tile;
    float *pd = dv + tile, *ds = pd + ROWS * ROWS;
    int64_t h = blockIdx.x % p.heads, b = blockIdx.x / p.heads, W = 3 * p.C;
    int64_t j0 = (int64_t)blockIdx.y * ROWS, rows = (int64_t)blockIdx.x * p.length;
    const T *base = qkv + b * p.length * W + h * p.HS;
    const T *dout = dy + b * p.length * p.C + h * p.HS;
    uint64_t seq = p.drop.on ? p.drop.seq[b] : 0;
    load_rows(k, base + p.C, j0, ROWS, W, p);
    load_rows(v, base + 2 * p.C, j0, ROWS, W, p);
    for (int c = lane; c < p.HS; c += LANES)
        dk[row * LD + c] = dv[row * LD + c] = 0;
    for (int64_t i0 = j0; i0 < p.length; i0 += ROWS) {
        __syncthreads();
        load_rows(q, base, i0, ROWS, W, p);
        load_rows(g, dout, i0, ROWS, p.C, p);
        __syncthreads();
        for (int r = lane; r < ROWS; r += LANES) { /* this row's key against query r */
            bool in = i0 + r < p.length;
            Pair x = pair_of(p, q + r * LD, k + row * LD, g + r * LD, v + row * LD,
                             in ? lse[rows + i0 + r] : 0.0f, in ? delta[rows + i0 + r] : 0.0f, seq,
                             h, i0 + r, j0 + row);
            pd[row * ROWS + r] = x.dropped;
            ds[row * ROWS + r] = x.grad;
        }
        __syncwarp();
        int n = p.length - i0 < ROWS ? (int)(p.length - i0) : ROWS;
        for (int c = lane; c < p.HS; c += LANES) {
            float a = dk[row * LD + c], z = dv[row * LD + c];
            for (int r = 0; r < n; r++) {
                a += ds[row * ROWS + r] * q[r * LD + c];
                z += pd[row * ROWS + r] * g[r * LD + c];
            }
            dk[row * LD + c] = a;
            dv[row * LD + c] = z;
        }
    }
    if (j0 + row >= p.length)
        return;
    T *out = dqkv + (b * p.length + j0 + row) * W + h * p.HS;
    for (int c = lane; c < p.HS; c += LANES) {
        out[p.C + c] = narrow<T>(dk[row * LD + c]);
        out[2 * p.C + c] = narrow<T>(dv[row * LD + c]);
    }
}

/* Gradients of 16 queries: all keys up to them pass by. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    attention_bwd_queries(T *dqkv, const T *dy, const T *qkv, const float *lse, const float *delta,
                          Shape p)
{
    DYN_SMEM(float, all);
    int LD = p.HS + 1, row = threadIdx.x / LANES, lane = threadIdx.x % LANES, tile = ROWS * LD;
    float *q = all, *g = q + tile, *k = g + tile, *v = k + tile, *dq = v + tile, *ds = dq + tile;
    int64_t h = blockIdx.x % p.heads, b = blockIdx.x / p.heads, W = 3 * p.C;
    int64_t i0 = (int64_t)(gridDim.y - 1 - blockIdx.y) * ROWS, i = i0 + row;
    const T *base = qkv + b * p.length * W + h * p.HS;
    uint64_t seq = p.drop.on ? p.drop.seq[b] : 0;
    bool in = i < p.length;
    float l = in ? lse[(int64_t)blockIdx.x * p.length + i] : 0.0f;
    float d = in ? delta[(int64_t)blockIdx.x * p.length + i] : 0.0f;
    load_rows(q, base, i0, ROWS, W, p);
    load_rows(g, dy + b * p.length * p.C + h * p.HS, i0, ROWS, p.C, p);
    for (int c = lane; c < p.HS; c += LANES)
        dq[row * LD + c] = 0;
    for (int64_t j0 = 0; j0 <= i0; j0 += ROWS) {
        __syncthreads();
        load_rows(k, base + p.C, j0, ROWS, W, p);
        load_rows(v, base + 2 * p.C, j0, ROWS, W, p);
        __syncthreads();
        for (int r = lane; r < ROWS; r += LANES)
            ds[row * ROWS + r] = pair_of(p, q + row * LD, k + r * LD, g + row * LD, v + r * LD, l,
                                         d, seq, h, i, j0 + r)
                                     .grad;
        __syncwarp();
        int n = i < j0 ? 0 : i - j0 + 1 < ROWS ? (int)(i - j0 + 1) : ROWS;
        for (int c = lane; c < p.HS; c += LANES) {
            float a = dq[row * LD + c];
            for (int r = 0; r < n; r++)
                a += ds[row * ROWS + r] * k[r * LD + c];
            dq[row * LD + c] = a;
        }
    }
    if (!in)
        return;
    T *out = dqkv + (b * p.length + i) * W + h * p.HS;
    for (int c = lane; c < p.HS; c += LANES)
        out[c] = narrow<T>(dq[row * LD + c]);
}

static Shape shape_of(const cuda_attention *a)
{
    int HS = (int)(a->C / a->heads);
    return Shape{a->C, (int)a->T, a->heads, HS, (float)(1 / sqrt((double)HS)), a->drop};
}

template <class K> static cudaError_t allow_shared(K *kernel, size_t bytes)
{
    if (bytes <= SHARED)
        return cudaSuccess;
    return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)bytes);
}

template <class T>
static cudaError_t launch_fwd(const cuda_attention *a, void *y, float *lse, const void *qkv,
                              cudaStream_t s)
{
    Shape p = shape_of(a);
    size_t shared = (size_t)((2 * ROWS + 2 * KEYS) * (p.HS + 1) + ROWS * KEYS) * sizeof(float);
    auto kernel = attention_fwd<T>;
    cudaError_t e = allow_shared(kernel, shared);
    if (e != cudaSuccess)
        return e;
    LAUNCH(kernel, dim3((unsigned)(a->B * a->heads), blocks_for(a->T, ROWS)), THREADS, shared, s,
           (T *)y, lse, (const T *)qkv, p);
    return cudaGetLastError();
}

template <class T>
static cudaError_t launch_delta(const cuda_attention *a, float *delta, const void *dy,
                                const void *y, cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    Shape p = shape_of(a);
    int64_t n = a->B * a->heads * a->T;
    int lanes = p.HS / W;
    bool wide = p.HS % W == 0 && (lanes & (lanes - 1)) == 0 && lanes <= 32 && aligned16(dy) &&
                aligned16(y) && a->C % W == 0;
    if (!wide)
        lanes = 32;
    auto kernel = wide ? attention_delta<T, W> : attention_delta<T, 1>;
    LAUNCH(kernel, blocks_for(n * lanes, THREADS), THREADS, 0, s, delta, (const T *)dy,
           (const T *)y, p, n, lanes);
    return cudaGetLastError();
}

template <class T>
static cudaError_t launch_bwd(const cuda_attention *a, void *dqkv, const void *dy, const void *qkv,
                              const float *lse, const float *delta, cudaStream_t s)
{
    Shape p = shape_of(a);
    size_t shared = (size_t)(6 * ROWS * (p.HS + 1) + 2 * ROWS * ROWS) * sizeof(float);
    dim3 grid((unsigned)(a->B * a->heads), blocks_for(a->T, ROWS));
    auto keys = attention_bwd_keys<T>;
    auto queries = attention_bwd_queries<T>;
    cudaError_t e = allow_shared(keys, shared);
    if (e == cudaSuccess)
        e = allow_shared(queries, shared);
    if (e != cudaSuccess)
        return e;
    LAUNCH(keys, grid, THREADS, shared, s, (T *)dqkv, (const T *)dy, (const T *)qkv, lse, delta, p);
    LAUNCH(queries, grid, THREADS, shared, s, (T *)dqkv, (const T *)dy, (const T *)qkv, lse, delta,
           p);
    return cudaGetLastError();
}

cudaError_t cuda_attention_fwd(const cuda_attention *a, void *y, float *lse, const void *qkv,
                               cudaStream_t s)
{
    if (flash_takes(a, qkv, y))
        return flash_fwd(a, y, lse, qkv, s);
    switch (a->type) {
    case DTYPE_BF16:
        return launch_fwd<bf16>(a, y, lse, qkv, s);
    case DTYPE_F16:
        return launch_fwd<f16>(a, y, lse, qkv, s);
    default:
        return launch_fwd<float>(a, y, lse, qkv, s);
    }
}

cudaError_t cuda_attention_bwd(const cuda_attention *a, void *dqkv, const void *dy, const void *y,
                               const void *qkv, const float *lse, float *delta, cudaStream_t s)
{
    cudaError_t e;
    switch (a->type) {
    case DTYPE_BF16:
        e = launch_delta<bf16>(a, delta, dy, y, s);
        break;
    case DTYPE_F16:
        e = launch_delta<f16>(a, delta, dy, y, s);
        break;
    default:
        e = launch_delta<float>(a, delta, dy, y, s);
    }
    if (e != cudaSuccess)
        return e;
    if (flash_takes(a, qkv, dqkv) && aligned16(dy))
        return flash_bwd(a, dqkv, dy, qkv, lse, delta, s);
    switch (a->type) {
    case DTYPE_BF16:
        return launch_bwd<bf16>(a, dqkv, dy, qkv, lse, delta, s);
    case DTYPE_F16:
        return launch_bwd<f16>(a, dqkv, dy, qkv, lse, delta, s);
    default:
        return launch_bwd<float>(a, dqkv, dy, qkv, lse, delta, s);
    }
}
