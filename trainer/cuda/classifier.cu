/* classifier: softmax cross-entropy and its gradient in place, a block a row.
 *
 * One pass finds the largest logit and the sum of exponentials together (Milakov and Gimelshein,
 * arXiv 1805.02867), a second writes the gradient. A row of an odd vocabulary begins anywhere, so
 * elements before the first 16-byte border are taken one by one. Columns behind the vocabulary are
 * padding: never read, and 0 in the gradient.
 */
#include "trainer/cuda/common.cuh"

enum { THREADS = 256 };

struct Running { /* largest so far, and the sum of exp(x - largest) */
    float most, sum;
};

/* A NaN makes the sum NaN; +inf becomes the largest, and the end of the pass sees it. */
static __device__ __forceinline__ void take(Running &r, float x)
{
    if (x > r.most) {
        r.sum = r.sum * expf(r.most - x) + 1.0f;
        r.most = x;
    } else if (x != -INFINITY)
        r.sum += expf(x - r.most);
}

/* W of them with one rescaling. What is not finite comes out as take() has it. */
template <int W> static __device__ __forceinline__ void take_all(Running &r, const float *x)
{
    float most = r.most;
#pragma unroll
    for (int k = 0; k < W; k++)
        most = fmaxf(most, x[k]);
    float base = most == -INFINITY ? 0.0f : most;
    if (most > r.most)
        r.sum *= expf(r.most - base);
    r.most = most;
#pragma unroll
    for (int k = 0; k < W; k++)
        r.sum += expf(x[k] - base);
}

static __device__ __forceinline__ Running join(Running a, Running b)
{
    float most = fmaxf(a.most, b.most);
    if (most == -INFINITY) /* nothing but -inf and NaN in both */
        return Running{most, a.sum + b.sum};
    return Running{most, a.sum * expf(a.most - most) + b.sum * expf(b.most - most)};
}

static __device__ Running join_block(Running r)
{
    SMEM(Running, part, [THREADS / 32]);
    for (int d = 16; d; d >>= 1) {
        Running other = {__shfl_xor_sync(0xffffffffu, r.most, d),
                         __shfl_xor_sync(0xffffffffu, r.sum, d)};
        r = join(r, other);
    }
    if ((threadIdx.x & 31) == 0)
        part[threadIdx.x >> 5] = r;
    __syncthreads();
    r = part[0];
    for (int k = 1; k < THREADS / 32; k++)
        r = join(r, part[k]);
    return r;
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    classifier(float *loss, T *logits, const int32_t *targets, const float *scale, int64_t V,
               int64_t width, const cuda_fault *f)
{
    constexpr int W = Wide<T>::W;
    int64_t i = blockIdx.x;
    T *x = logits + i * width;
    int32_t target = targets[i];
    if (f->code != FAULT_NONE)
        return;
    int64_t head = (int64_t)((16 - ((uintptr_t)x & 15)) & 15) / (int64_t)sizeof(T);
    head = head < V ? head : V;
    int64_t packs = (V - head) / W, tail = head + packs * W;
    for (int64_t c = V + threadIdx.x; scale && c < width; c += THREADS)
        x[c] = narrow<T>(0);
    if (target < 0) {
        if (threadIdx.x == 0)
            loss[i] = 0;
        for (int64_t c = threadIdx.x; scale && c < V; c += THREADS)
            x[c] = narrow<T>(0);
        return;
    }
    float at = real(x[target]);
    Running r = {-INFINITY, 0};
    for (int64_t c = threadIdx.x; c < head; c += THREADS)
        take(r, real(x[c]));
    for (int64_t p = threadIdx.x; p < packs; p += THREADS) {
        Pack<T, W> v = load<T, W>(x + head + p * W);
        float wide[W];
#pragma unroll
        for (int k = 0; k < W; k++)
            wide[k] = real(v.v[k]);
        take_all<W>(r, wide);
    }
    for (int64_t c = tail + threadIdx.x; c < V; c += THREADS)
        take(r, real(x[c]));
    r = join_block(r);
    if (r.most == INFINITY)
        r.sum = NAN;
    if (threadIdx.x == 0)
        loss[i] = logf(r.sum) + (r.most - at);
    if (!scale)
        return;
    float weight = *scale, each = weight / r.sum;
    for (int64_t c = threadIdx.x; c < head; c += THREADS)
        x[c] = narrow<T>(expf(real(x[c]) - r.most) * each - (c == target ? weight : 0.0f));
    for (int64_t p = threadIdx.x; p < packs; p += THREADS) {
        int64_t c = head + p * W;
        Pack<T, W> v = load<T, W>(x + c);
#pragma unroll
        for (int k = 0; k < W; k++)
            v.v[k] =
                narrow<T>(expf(real(v.v[k]) - r.most) * each - (c + k == target ? weight : 0.0f));
        store(x + c, v);
    }
    for (int64_t c = tail + threadIdx.x; c < V; c += THREADS)
        x[c] = narrow<T>(expf(real(x[c]) - r.most) * each - (c == target ? weight : 0.0f));
}

template <class T>
static cudaError_t launch(float *loss, void *logits, const int32_t *targets, const float *scale,
                          int64_t N, int64_t V, int64_t width, const cuda_fault *f, cudaStream_t s)
{
    auto kernel = classifier<T>;
    LAUNCH(kernel, (unsigned)N, THREADS, 0, s, loss, (T *)logits, targets, scale, V, width, f);
    return cudaGetLastError();
}

cudaError_t cuda_classifier(enum dtype type, float *loss, void *logits, const int32_t *targets,
                            const float *scale, bool grad, int64_t N, int64_t V, int64_t width,
                            const cuda_fault *f, cudaStream_t s)
{
    scale = grad ? scale : NULL;
    switch (type) {
    case DTYPE_BF16:
        return launch<bf16>(loss, logits, targets, scale, N, V, width, f, s);
    case DTYPE_F16:
        return launch<f16>(loss, logits, targets, scale, N, V, width, f, s);
    default:
        return launch<float>(loss, logits, targets, scale, N, V, width, f, s);
    }
}
