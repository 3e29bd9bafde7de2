/* flash: what the tensor-core attention kernels share: tiles in shared memory, fragments, dropout.
 *
 * A tile is 64 rows of one head; 4 warps take 16 rows each. Rows in shared memory are 8 elements
 * longer than the head, so the 8 rows that ldmatrix reads at once lie in different banks.
 */
#ifndef TRAINER_CUDA_FLASH_CUH
#define TRAINER_CUDA_FLASH_CUH

#include "trainer/cuda/common.cuh"

/* bf16 and fp16, heads of 64 and 128, rows on 16-byte borders. */
bool flash_takes(const cuda_attention *a, const void *qkv, const void *out);
cudaError_t flash_fwd(const cuda_attention *a, void *y, float *lse, const void *qkv,
                      cudaStream_t s);
cudaError_t flash_bwd(const cuda_attention *a, void *dqkv, const void *dy, const void *qkv,
                      const float *lse, const float *delta, cudaStream_t s);

enum { FLASH_THREADS = 128, FLASH_ROWS = 64 };

struct FlashShape {
    int64_t C;
    int length, heads; /* positions fit into an int, which takes half the registers */
    float scale;
    cuda_drop drop;
};
template <int HD> struct FlashTile {
    static constexpr int LD = HD + 8, SIZE = FLASH_ROWS * LD;
};

/* Rows first .. first + 64 to shared memory, zeros behind row `length`; wait for it. */
template <class T, int HD>
static __device__ __forceinline__ void flash_load(T *to, const T *from, int first, int length,
                                                  int64_t stride)
{
#pragma unroll
    for (int k = 0; k < FLASH_ROWS * (HD / 8) / FLASH_THREADS; k++) {
        int e = k * FLASH_THREADS + (int)threadIdx.x, r = e / (HD / 8), c = e % (HD / 8) * 8;
        int row = first + r;
        bool in = row < length;
        cp_async16(to + r * FlashTile<HD>::LD + c, from + (in ? row : length - 1) * stride + c, in);
    }
}

/* Fragment of rows row .. row + 16 and k .. k + 16: an A operand. */
template <class T, int HD>
static __device__ __forceinline__ void flash_a(uint32_t *a, const T *tile, int row, int k)
{
    int lane = threadIdx.x & 31;
    ldmatrix_x4(a, tile + (row + (lane & 15)) * FlashTile<HD>::LD + k + (lane >> 4) * 8);
}

/* B operands for columns n .. n + 16 of a product with the tile's transpose: b[0..1], b[2..3]. */
template <class T, int HD>
static __device__ __forceinline__ void flash_b(uint32_t *b, const T *tile, int n, int k)
{
    int lane = threadIdx.x & 31;
    ldmatrix_x4(b, tile + (n + (lane & 7) + (lane >> 4) * 8) * FlashTile<HD>::LD + k +
                       ((lane >> 3) & 1) * 8);
}

/* B operands for columns d .. d + 16 of a product with the tile itself, whose rows are k. */
template <class T, int HD>
static __device__ __forceinline__ void flash_b_rows(uint32_t *b, const T *tile, int k, int d)
{
    int lane = threadIdx.x & 31;
    ldmatrix_x4_trans(b, tile + (k + (lane & 15)) * FlashTile<HD>::LD + d + (lane >> 4) * 8);
}

static __device__ __forceinline__ uint32_t flash_pair(float lo, float hi, bf16)
{
    __nv_bfloat162 p = __floats2bfloat162_rn(lo, hi);
    uint32_t r;
    memcpy(&r, &p, sizeof r);
    return r;
}
static __device__ __forceinline__ uint32_t flash_pair(float lo, float hi, f16)
{
    __half2 p = __floats2half2_rn(lo, hi);
    uint32_t r;
    memcpy(&r, &p, sizeof r);
    return r;
}

/* Two tiles of 8 columns of sums as an A operand. */
template <class T>
static __device__ __forceinline__ void flash_as_a(uint32_t *a, const float *left,
                                                  const float *right)
{
    a[0] = flash_pair(left[0], left[1], T());
    a[1] = flash_pair(left[2], left[3], T());
    a[2] = flash_pair(right[0], right[1], T());
    a[3] = flash_pair(right[2], right[3], T());
}

/* s[n] = 16 rows of `row` times columns n0 .. n0 + 8 N of the other tile, over the head. */
template <class T, int HD, int N>
static __device__ __forceinline__ void flash_scores(float (*s)[4], const T *rows, int row,
                                                    const T *other, int n0)
{
#pragma unroll
    for (int n = 0; n < N; n++)
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
    for (int k = 0; k < HD; k += 16) {
        uint32_t a[4], b[4];
        flash_a<T, HD>(a, rows, row, k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            flash_b<T, HD>(b, other, n0 + n * 8, k);
            mma_16816(s[n], a, b, s[n], T());
            mma_16816(s[n + 1], a, b + 2, s[n + 1], T());
        }
    }
}

/* out[16 x HD] += p[16 x 8 N] times rows n0 .. of the tile. */
template <class T, int HD, int N>
static __device__ __forceinline__ void flash_add(float (*out)[4], const float (*p)[4],
                                                 const T *tile, int n0)
{
#pragma unroll
    for (int n = 0; n < N; n += 2) {
        uint32_t a[4], b[4];
        flash_as_a<T>(a, p[n], p[n + 1]);
#pragma unroll
        for (int d = 0; d < HD; d += 16) {
            flash_b_rows<T, HD>(b, tile, n0 + n * 8, d);
            mma_16816(out[d / 8], a, b, out[d / 8], T());
            mma_16816(out[d / 8 + 1], a, b + 2, out[d / 8 + 1], T());
        }
    }
}

/* A warp's 16 rows of sums to global memory in pieces of 16 bytes, through its part of a tile. A
 * plain assignment of 16 bytes becomes four stores here for sm_80 and sm_90; __stcg is one. */
template <class T, int HD>
static __device__ __forceinline__ void flash_store(T *to, int64_t stride, int rows, T *tile,
                                                   const float (*sum)[4])
{
    constexpr int LD = FlashTile<HD>::LD;
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int d = 0; d < HD / 8; d++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Pack<T, 2> p = {{narrow<T>(sum[d][half * 2]), narrow<T>(sum[d][half * 2 + 1])}};
            store(tile + (g + half * 8) * LD + d * 8 + t * 2, p);
        }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 16 * (HD / 8) / 32; k++) {
        int e = k * 32 + lane, r = e / (HD / 8), c = e % (HD / 8) * 8;
        if (r < rows)
            __stcg((uint4 *)(to + r * stride + c), *(const uint4 *)(tile + r * LD + c));
    }
}

/* Mask of query i and keys j, j + 1: the words of both lie side by side when e is even. */
static __device__ __forceinline__ void flash_mask_keys(float *m, const FlashShape &p, uint64_t seq,
                                                       int64_t h, int i, int j)
{
    uint64_t e = (uint64_t)((h * p.length + i) * p.length + j);
    if (e & 1) {
        drop_masks<1>(m, p.drop, seq, e);
        drop_masks<1>(m + 1, p.drop, seq, e + 1);
        return;
    }
    uint32_t w[4];
    rng_words(w, p.drop.key, e >> 2, seq);
    bool upper = (e & 2) != 0;
    m[0] = (upper ? w[2] : w[0]) < p.drop.below ? 0.0f : p.drop.keep;
    m[1] = (upper ? w[3] : w[1]) < p.drop.below ? 0.0f : p.drop.keep;
}

template <class K> static cudaError_t flash_shared(K *kernel, size_t bytes)
{
    if (bytes <= 48 << 10)
        return cudaSuccess;
    return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)bytes);
}

static inline FlashShape flash_shape(const cuda_attention *a)
{
    return FlashShape{a->C, (int)a->T, a->heads, (float)(1 / sqrt((double)(a->C / a->heads))),
                      a->drop};
}

#endif
