/* common: what kernels share: conversions, packs of 16 bytes, reductions, dropout words. */
#ifndef TRAINER_CUDA_COMMON_CUH
#define TRAINER_CUDA_COMMON_CUH

#include "trainer/cuda/dialect.cuh"
#include "trainer/cuda/kernels.h"

typedef __nv_bfloat16 bf16;
typedef __half f16;

static __device__ __forceinline__ float real(float x)
{
    return x;
}
static __device__ __forceinline__ float real(bf16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ float real(f16 x)
{
    return __half2float(x);
}
template <class T> static __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x)
{
    return __float2bfloat16(x);
}
template <> __device__ __forceinline__ f16 narrow<f16>(float x)
{
    return __float2half(x);
}

/* W elements that move together; 16 bytes where rows allow it. */
template <class T, int W> struct alignas(sizeof(T) * W) Pack {
    T v[W];
};
/* One move of the whole pack (tests/cudaemu/opcodes.py looks whether it is one). */
template <int BYTES> struct Raw;
template <> struct Raw<2> {
    typedef uint16_t type;
};
template <> struct Raw<4> {
    typedef uint32_t type;
};
template <> struct Raw<8> {
    typedef move8 type;
};
template <> struct Raw<16> {
    typedef move16 type;
};
template <class T, int W> static __device__ __forceinline__ Pack<T, W> load(const T *p)
{
    typename Raw<sizeof(Pack<T, W>)>::type raw = *(const typename Raw<sizeof(Pack<T, W>)>::type *)p;
    Pack<T, W> v;
    memcpy(&v, &raw, sizeof v);
    return v;
}
template <class T, int W> static __device__ __forceinline__ void store(T *p, const Pack<T, W> &v)
{
    typename Raw<sizeof(Pack<T, W>)>::type raw;
    memcpy(&raw, &v, sizeof raw);
    *(typename Raw<sizeof(Pack<T, W>)>::type *)p = raw;
}
/* W floats beside a pack of W narrower ones: in pieces of 16 bytes. */
template <int W> static __device__ __forceinline__ void load_floats(float *out, const float *p)
{
    constexpr int S = W < 4 ? W : 4;
#pragma unroll
    for (int i = 0; i < W; i += S) {
        Pack<float, S> v = load<float, S>(p + i);
#pragma unroll
        for (int k = 0; k < S; k++)
            out[i + k] = v.v[k];
    }
}
template <class T> struct Wide {
    static constexpr int W = 16 / sizeof(T);
};

static inline bool aligned16(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

static __device__ __forceinline__ int64_t thread_number()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ float warp_sum(float v)
{
    for (int d = 16; d; d >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
static __device__ __forceinline__ float warp_max(float v)
{
    for (int d = 16; d; d >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

/* Philox4x32-10, as base/rng.c has it. */
static __device__ __forceinline__ void rng_words(uint32_t *out, uint64_t key, uint64_t lo,
                                                 uint64_t hi)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi,
             c3 = (uint32_t)(hi >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c2 = h0 ^ c3 ^ k1;
        c1 = l1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* 0 or keep for elements e .. e + W of the sequence with this id. W of 4 and more: e is a multiple
 * of 4. */
template <int W>
static __device__ __forceinline__ void drop_masks(float *m, const cuda_drop &d, uint64_t seq,
                                                  uint64_t e)
{
    uint32_t w[4];
    if constexpr (W % 4 == 0) {
#pragma unroll
        for (int i = 0; i < W; i += 4) {
            rng_words(w, d.key, (e + i) >> 2, seq);
#pragma unroll
            for (int k = 0; k < 4; k++)
                m[i + k] = w[k] < d.below ? 0.0f : d.keep;
        }
    } else {
#pragma unroll
        for (int i = 0; i < W; i++) {
            rng_words(w, d.key, (e + i) >> 2, seq);
            int at = (int)((e + i) & 3);
            uint32_t word = at == 0 ? w[0] : at == 1 ? w[1] : at == 2 ? w[2] : w[3];
            m[i] = word < d.below ? 0.0f : d.keep;
        }
    }
}

static inline unsigned blocks_for(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

#endif
