/* gemm: a matrix product over any strides, for what cuBLASLt refuses; plain tiles of 64 x 64. */
#include "trainer/cuda/common.cuh"

enum { TILE = 64, DEPTH = 16, THREADS = 256 };

template <class T, class O>
static __global__ void __launch_bounds__(THREADS)
    gemm(O *out, const T *a, const T *b, cuda_product g)
{
    SMEM(float, as, [DEPTH][TILE + 4]);
    SMEM(float, bs, [DEPTH][TILE + 4]);
    int tid = threadIdx.x, tx = tid & 15, ty = tid >> 4;
    int64_t m0 = (int64_t)blockIdx.y * TILE, n0 = (int64_t)blockIdx.x * TILE;
    float sum[4][4] = {};
    for (int64_t k0 = 0; k0 < g.k; k0 += DEPTH) {
        for (int e = tid; e < TILE * DEPTH; e += THREADS) {
            /* The faster index runs along whatever lies dense in memory. */
            int kk = g.a_k == 1 ? e % DEPTH : e / TILE, i = g.a_k == 1 ? e / DEPTH : e % TILE;
            bool in = m0 + i < g.m && k0 + kk < g.k;
            as[kk][i] = in ? real(a[(m0 + i) * g.a_m + (k0 + kk) * g.a_k]) : 0.0f;
            int kb = g.b_k == 1 ? e % DEPTH : e / TILE, j = g.b_k == 1 ? e / DEPTH : e % TILE;
            in = n0 + j < g.n && k0 + kb < g.k;
            bs[kb][j] = in ? real(b[(k0 + kb) * g.b_k + (n0 + j) * g.b_n]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < DEPTH; kk++) {
            float av[4], bv[4];
            load_floats<4>(av, &as[kk][ty * 4]);
            load_floats<4>(bv, &bs[kk][tx * 4]);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] += av[i] * bv[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int64_t r = m0 + ty * 4 + i, c = n0 + tx * 4 + j;
            if (r >= g.m || c >= g.n)
                continue;
            O *o = out + r * g.n + c;
            *o = narrow<O>(g.accumulate ? real(*o) + sum[i][j] : sum[i][j]);
        }
}

template <class T, class O>
static cudaError_t launch(const cuda_product *g, void *out, const void *a, const void *b,
                          cudaStream_t s)
{
    auto kernel = gemm<T, O>;
    dim3 grid(blocks_for(g->n, TILE), blocks_for(g->m, TILE));
    if (grid.y > 65535)
        return cudaErrorInvalidValue;
    LAUNCH(kernel, grid, THREADS, 0, s, (O *)out, (const T *)a, (const T *)b, *g);
    return cudaGetLastError();
}

cudaError_t cuda_gemm(const cuda_product *g, void *out, const void *a, const void *b,
                      cudaStream_t s)
{
    bool wide = g->out_type == DTYPE_F32;
    switch (g->type) {
    case DTYPE_BF16:
        return wide ? launch<bf16, float>(g, out, a, b, s) : launch<bf16, bf16>(g, out, a, b, s);
    case DTYPE_F16:
        return wide ? launch<f16, float>(g, out, a, b, s) : launch<f16, f16>(g, out, a, b, s);
    default:
        return launch<float, float>(g, out, a, b, s);
    }
}
