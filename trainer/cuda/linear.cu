/* linear: what stands around the matrix products: bias, gelu, its gradient, column sums; and a
 * product of our own for shapes and alignments that cuBLASLt does not take.
 *
 * gelu is the tanh form (Hendrycks and Gimpel, arXiv 1606.08415) written as x s with
 * s = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): exact to the last bits where 1 - tanh^2
 * would cancel, and finite for every finite x.
 */
#include "trainer/cuda/common.cuh"

static __device__ __forceinline__ float gelu_u(float x)
{
    return 0.7978845608028654f * (x + 0.044715f * x * x * x);
}

static __device__ __forceinline__ float gelu(float x)
{
    float u = gelu_u(x), e = expf(-2.0f * fabsf(u)), s = 1.0f / (1.0f + e);
    return x * (u >= 0 ? s : e * s);
}

static __device__ __forceinline__ float gelu_slope(float x)
{
    float u = gelu_u(x), e = expf(-2.0f * fabsf(u)), s = 1.0f / (1.0f + e);
    float first = u >= 0 ? s : e * s;
    if (fabsf(x) > 12.0f) /* the rest is 0, and its factors overflow */
        return x != x ? x : first;
    float du = 0.7978845608028654f * (1.0f + 3 * 0.044715f * x * x);
    return first + x * (e * s * s) * 2.0f * du;
}

template <class T, int W>
static __global__ void __launch_bounds__(256)
    bias_gelu(T *y, T *pre, const float *bias, int64_t n, int64_t O)
{
    int64_t at = thread_number() * W;
    if (at >= n)
        return;
    Pack<T, W> v = load<T, W>(pre + at), out;
    if (bias) {
        float b[W];
        load_floats<W>(b, bias + at % O);
#pragma unroll
        for (int k = 0; k < W; k++)
            v.v[k] = narrow<T>(real(v.v[k]) + b[k]);
        store(pre + at, v);
    }
    if (!y)
        return;
#pragma unroll
    for (int k = 0; k < W; k++)
        out.v[k] = narrow<T>(gelu(real(v.v[k])));
    store(y + at, out);
}

template <class T, int W>
static cudaError_t launch_gelu(void *y, void *pre, const float *bias, int64_t n, int64_t O,
                               cudaStream_t s)
{
    auto kernel = bias_gelu<T, W>;
    LAUNCH(kernel, blocks_for(n / W, 256), 256, 0, s, (T *)y, (T *)pre, bias, n, O);
    return cudaGetLastError();
}

template <class T>
static cudaError_t pick_gelu(void *y, void *pre, const float *bias, int64_t n, int64_t O,
                             cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    bool wide = O % W == 0 && aligned16(y) && aligned16(pre) && aligned16(bias);
    return wide ? launch_gelu<T, W>(y, pre, bias, n, O, s)
                : launch_gelu<T, 1>(y, pre, bias, n, O, s);
}

cudaError_t cuda_bias_gelu(enum dtype type, void *y, void *pre, const float *bias, int64_t N,
                           int64_t O, cudaStream_t s)
{
    switch (type) {
    case DTYPE_BF16:
        return pick_gelu<bf16>(y, pre, bias, N * O, O, s);
    case DTYPE_F16:
        return pick_gelu<f16>(y, pre, bias, N * O, O, s);
    default:
        return pick_gelu<float>(y, pre, bias, N * O, O, s);
    }
}

/* ---- dy *= gelu'(pre) and column sums: a block takes 32 packs of columns by 128 rows ---- */

enum { COLUMN_ROWS = 128, COLUMN_WARPS = 8 };

template <class T, int W>
static __global__ void __launch_bounds__(COLUMN_WARPS * 32)
    gelu_grad(T *dy, const T *pre, float *partial, int64_t N, int64_t O)
{
    SMEM(float, part, [COLUMN_WARPS][32 * W]);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int64_t c = ((int64_t)blockIdx.x * 32 + lane) * W, from = (int64_t)blockIdx.y * COLUMN_ROWS;
    int64_t to = from + COLUMN_ROWS < N ? from + COLUMN_ROWS : N;
    float sum[W];
#pragma unroll
    for (int k = 0; k < W; k++)
        sum[k] = 0;
    if (c < O)
        for (int64_t i = from + warp; i < to; i += COLUMN_WARPS) {
            Pack<T, W> g = load<T, W>(dy + i * O + c);
            if (pre) {
                Pack<T, W> x = load<T, W>(pre + i * O + c);
#pragma unroll
                for (int k = 0; k < W; k++)
                    g.v[k] = narrow<T>(real(g.v[k]) * gelu_slope(real(x.v[k])));
                store(dy + i * O + c, g);
            }
#pragma unroll
            for (int k = 0; k < W; k++)
                sum[k] += real(g.v[k]);
        }
    if (!partial)
        return;
#pragma unroll
    for (int k = 0; k < W; k++)
        part[warp][lane * W + k] = sum[k];
    __syncthreads();
    for (int j = threadIdx.x; j < 32 * W; j += COLUMN_WARPS * 32) {
        int64_t column = (int64_t)blockIdx.x * 32 * W + j;
        float total = 0;
        for (int k = 0; k < COLUMN_WARPS; k++)
            total += part[k][j];
        if (column < O)
            partial[(int64_t)blockIdx.y * O + column] = total;
    }
}

int64_t cuda_column_partials(int64_t N)
{
    return (N + COLUMN_ROWS - 1) / COLUMN_ROWS;
}

template <class T, int W>
static cudaError_t launch_grad(void *dy, const void *pre, float *partial, int64_t N, int64_t O,
                               cudaStream_t s)
{
    auto kernel = gelu_grad<T, W>;
    dim3 grid(blocks_for(O, 32 * W), (unsigned)cuda_column_partials(N));
    LAUNCH(kernel, grid, COLUMN_WARPS * 32, 0, s, (T *)dy, (const T *)pre, partial, N, O);
    return cudaGetLastError();
}

template <class T>
static cudaError_t pick_grad(void *dy, const void *pre, float *partial, int64_t N, int64_t O,
                             cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    bool wide = O % W == 0 && aligned16(dy) && aligned16(pre);
    return wide ? launch_grad<T, W>(dy, pre, partial, N, O, s)
                : launch_grad<T, 1>(dy, pre, partial, N, O, s);
}

cudaError_t cuda_gelu_grad(enum dtype type, void *dy, const void *pre, float *dbias, float *partial,
                           int64_t N, int64_t O, cudaStream_t s)
{
    cudaError_t e;
    float *sums = dbias ? partial : NULL;
    switch (type) {
    case DTYPE_BF16:
        e = pick_grad<bf16>(dy, pre, sums, N, O, s);
        break;
    case DTYPE_F16:
        e = pick_grad<f16>(dy, pre, sums, N, O, s);
        break;
    default:
        e = pick_grad<float>(dy, pre, sums, N, O, s);
    }
    if (e == cudaSuccess && dbias)
        e = cuda_add_partials(dbias, NULL, partial, cuda_column_partials(N), O, s);
    return e;
}

/* A block takes 32 columns; each warp sums every eighth row of them, then one the warps' sums. */
static __global__ void __launch_bounds__(COLUMN_WARPS * 32)
    add_partials(float *dst, float *second, const float *partial, int64_t partials, int64_t n)
{
    SMEM(float, part, [COLUMN_WARPS][32]);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int64_t j = (int64_t)blockIdx.x * 32 + lane, width = second ? 2 * n : n;
    float sum = 0;
    if (j < width) {
#pragma unroll 8
        for (int64_t k = warp; k < partials; k += COLUMN_WARPS)
            sum += partial[k * width + j];
    }
    part[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || j >= width)
        return;
    for (int k = 1; k < COLUMN_WARPS; k++)
        sum += part[k][lane];
    float *to = j < n ? dst + j : second + (j - n);
    *to += sum;
}

cudaError_t cuda_add_partials(float *dst, float *second, const float *partial, int64_t partials,
                              int64_t n, cudaStream_t s)
{
    LAUNCH(add_partials, blocks_for(second ? 2 * n : n, 32), COLUMN_WARPS * 32, 0, s, dst, second,
           partial, partials, n);
    return cudaGetLastError();
}
