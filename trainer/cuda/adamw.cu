/* adamw: AdamW and the sum of squares over the flat vectors, four elements a thread. */
#include "trainer/cuda/common.cuh"

enum { THREADS = 256, PIECE = 1 << 16 };

/* ---- sum of squares: pieces of fixed size in double, then the pieces in order ---- */

static __device__ double block_sum(double v)
{
    SMEM(double, part, [THREADS]);
    part[threadIdx.x] = v;
    __syncthreads();
    for (int d = THREADS / 2; d; d >>= 1) {
        if ((int)threadIdx.x < d)
            part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    return part[0];
}

template <int W>
static __global__ void __launch_bounds__(THREADS)
    squares(double *partial, const float *x, int64_t n)
{
    int64_t from = (int64_t)blockIdx.x * PIECE, to = from + PIECE < n ? from + PIECE : n;
    double sum = 0;
    for (int64_t at = from + threadIdx.x * W; at < to; at += THREADS * W) {
        if (at + W > to) {
            for (int64_t k = at; k < to; k++)
                sum += (double)x[k] * (double)x[k];
            continue;
        }
        Pack<float, W> v = load<float, W>(x + at);
#pragma unroll
        for (int k = 0; k < W; k++)
            sum += (double)v.v[k] * (double)v.v[k];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(THREADS)
    add_squares(float *dst, const double *partial, int64_t n)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *dst = (float)((double)*dst + sum);
}

int64_t cuda_square_partials(int64_t n)
{
    return (n + PIECE - 1) / PIECE;
}

cudaError_t cuda_sum_squares(float *dst, const float *x, double *partial, int64_t n, cudaStream_t s)
{
    unsigned pieces = (unsigned)cuda_square_partials(n);
    auto kernel = aligned16(x) ? squares<4> : squares<1>;
    LAUNCH(kernel, pieces, THREADS, 0, s, partial, x, n);
    LAUNCH(add_squares, 1, THREADS, 0, s, dst, (const double *)partial, (int64_t)pieces);
    return cudaGetLastError();
}

/* ---- the update (Loshchilov and Hutter, arXiv 1711.05101) ---- */

static __device__ __forceinline__ bool decays(const cuda_rates &h, int64_t at, int64_t *end)
{
    int lo = 0, hi = h.nsegments - 1; /* the last segment that begins at or before `at` */
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (h.segments[mid].begin <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    *end = h.segments[lo].end;
    return h.segments[lo].decay != 0;
}

static __device__ __forceinline__ void update(float &p, float g, float &m, float &v,
                                              const cuda_rates &h, float decay)
{
    m = h.b1 * m + (1.0f - h.b1) * g;
    v = h.b2 * v + (1.0f - h.b2) * (g * g);
    p = p * decay - h.rate * m / (sqrtf(v) * h.root + h.eps);
}

template <int W>
static __global__ void __launch_bounds__(THREADS)
    adamw(float *params, const float *grads, float *first, float *second, cuda_rates h,
          const float *gscale, const float *skip, const cuda_fault *f)
{
    int64_t i = thread_number() * W, n = h.hi - h.lo;
    if (i >= n || *skip != 0 || f->code != FAULT_NONE)
        return;
    float scale = *gscale;
    int64_t end, at = h.lo + i;
    bool decay = decays(h, at, &end);
    if (i + W > n || at + W > end) {
        for (int64_t k = 0; k < W && i + k < n; k++) {
            if (at + k >= end)
                decay = decays(h, at + k, &end);
            update(params[at + k], grads[at + k] * scale, first[i + k], second[i + k], h,
                   decay ? h.decay : 1.0f);
        }
        return;
    }
    Pack<float, W> p = load<float, W>(params + at), g = load<float, W>(grads + at);
    Pack<float, W> m = load<float, W>(first + i), v = load<float, W>(second + i);
#pragma unroll
    for (int k = 0; k < W; k++)
        update(p.v[k], g.v[k] * scale, m.v[k], v.v[k], h, decay ? h.decay : 1.0f);
    store(params + at, p);
    store(first + i, m);
    store(second + i, v);
}

cudaError_t cuda_adamw(float *p, const float *g, float *m, float *v, const cuda_rates *h,
                       const float *gscale, const float *skip, const cuda_fault *f, cudaStream_t s)
{
    bool wide = aligned16(p + h->lo) && aligned16(g + h->lo) && aligned16(m) && aligned16(v);
    auto kernel = wide ? adamw<4> : adamw<1>;
    LAUNCH(kernel, blocks_for(h->hi - h->lo, wide ? 4 * THREADS : THREADS), THREADS, 0, s, p, g, m,
           v, *h, gscale, skip, f);
    return cudaGetLastError();
}
