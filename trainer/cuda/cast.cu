/* cast: f32 parameters in the type that products read: to the nearest, or stochastically (struct
 * rounding of trainer/backend.h), four words of the generator for four elements.
 */
#include "trainer/cuda/common.cuh"

/* ---- to the nearest ---- */

template <class T, int W>
static __global__ void __launch_bounds__(256) cast(T *out, const float *in, int64_t n)
{
    int64_t at = thread_number() * W;
    if (at >= n)
        return;
    float v[W];
    Pack<T, W> o;
    load_floats<W>(v, in + at);
#pragma unroll
    for (int k = 0; k < W; k++)
        o.v[k] = narrow<T>(v[k]);
    store(out + at, o);
}

template <class T>
static cudaError_t pick_cast(void *out, const float *in, int64_t n, cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    if (n % W == 0 && aligned16(out) && aligned16(in)) {
        auto kernel = cast<T, W>;
        LAUNCH(kernel, blocks_for(n / W, 256), 256, 0, s, (T *)out, in, n);
    } else {
        auto kernel = cast<T, 1>;
        LAUNCH(kernel, blocks_for(n, 256), 256, 0, s, (T *)out, in, n);
    }
    return cudaGetLastError();
}

cudaError_t cuda_cast(enum dtype type, void *out, const float *in, int64_t n, cudaStream_t s)
{
    switch (type) {
    case DTYPE_BF16:
        return pick_cast<bf16>(out, in, n, s);
    case DTYPE_F16:
        return pick_cast<f16>(out, in, n, s);
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t cuda_code_here(void)
{
    cudaFuncAttributes a;
    auto any = cast<bf16, 1>;
    return cudaFuncGetAttributes(&a, (const void *)any); /* loads it */
}

/* ---- stochastically ---- */

template <class T> static __device__ __forceinline__ uint16_t bits_of(T x)
{
    uint16_t h;
    memcpy(&h, &x, sizeof h);
    return h;
}
static __device__ __forceinline__ float half_of(uint16_t bits)
{
    __half_raw raw;
    raw.x = bits;
    return real(f16(raw));
}

/* The neighbour towards zero, and the share of the step to the next one that x has passed; what is
 * not finite and what is exact has share 0. */
static __device__ __forceinline__ uint16_t towards_zero(bf16, float x, float *share)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    *share = finite ? (float)(bits & 0xffffu) * 0x1p-16f : 0.0f;
    return finite ? (uint16_t)(bits >> 16) : bits_of(__float2bfloat16(x));
}
static __device__ __forceinline__ uint16_t towards_zero(f16, float x, float *share)
{
    uint16_t h = bits_of(__float2half(x));
    *share = 0;
    if (!(fabsf(x) < 65504.0f)) /* the largest, beyond it, NaN */
        return h;
    if (fabsf(half_of(h)) > fabsf(x)) /* rounded up: one step back in magnitude */
        h = (uint16_t)(h - 1);
    float low = fabsf(half_of(h));
    *share = (fabsf(x) - low) / (fabsf(half_of((uint16_t)(h + 1))) - low);
    return h;
}

template <class T, int W>
static __global__ void __launch_bounds__(256)
    cast_stochastic(uint16_t *out, const float *in, int64_t n, uint64_t key, int64_t first)
{
    int64_t at = thread_number() * W;
    if (at >= n)
        return;
    float v[W];
    uint32_t w[W < 4 ? 4 : W];
    Pack<uint16_t, W> o;
    load_floats<W>(v, in + at);
#pragma unroll
    for (int k = 0; k < W; k += 4)
        rng_words(w + k, key, (uint64_t)(first + at + k) >> 2, 0);
#pragma unroll
    for (int k = 0; k < W; k++) {
        float share;
        uint16_t h = towards_zero(T(), v[k], &share);
        uint32_t word = w[k];
        if constexpr (W == 1) {
            int which = (int)((first + at) & 3);
            word = which == 0 ? w[0] : which == 1 ? w[1] : which == 2 ? w[2] : w[3];
        }
        o.v[k] = (uint16_t)(h + ((float)(word >> 8) * 0x1p-24f < share));
    }
    store(out + at, o);
}

template <class T>
static cudaError_t pick_stochastic(void *out, const float *in, int64_t n, uint64_t key,
                                   int64_t first, cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    if (n % W == 0 && aligned16(out) && aligned16(in)) {
        auto kernel = cast_stochastic<T, W>;
        LAUNCH(kernel, blocks_for(n / W, 256), 256, 0, s, (uint16_t *)out, in, n, key, first);
    } else {
        auto kernel = cast_stochastic<T, 1>;
        LAUNCH(kernel, blocks_for(n, 256), 256, 0, s, (uint16_t *)out, in, n, key, first);
    }
    return cudaGetLastError();
}

cudaError_t cuda_cast_stochastic(enum dtype type, void *out, const float *in, int64_t n,
                                 uint64_t key, int64_t first, cudaStream_t s)
{
    switch (type) {
    case DTYPE_BF16:
        return pick_stochastic<bf16>(out, in, n, key, first, s);
    case DTYPE_F16:
        return pick_stochastic<f16>(out, in, n, key, first, s);
    default:
        return cudaErrorInvalidValue;
    }
}
