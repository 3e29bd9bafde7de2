/* norm: residual addition, dropout and layer norm in one pass (Ba, Kiros, Hinton, arXiv 1607.06450).
 *
 * A warp owns a row and keeps it in shared memory as f32, so global memory is read and written once.
 * The gradients of w and bias are summed by each warp over its rows, then over the warps of a
 * block, then over the blocks, always in order: equal runs have equal bits.
 */
#include "trainer/cuda/common.cuh"

enum { MOST_WARPS = 8, ROWS_A_BLOCK = 32, SHARED = 48 << 10 };

struct Rows {
    int64_t N, length, C;
    cuda_drop drop;
};

template <class T, int W>
static __global__ void __launch_bounds__(MOST_WARPS * 32)
    norm_fwd(T *sum, T *y, float *mean, float *rstd, const T *x, const T *r, const float *w,
             const float *bias, float eps, Rows n)
{
    DYN_SMEM(float, all);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int64_t i = (int64_t)blockIdx.x * (blockDim.x >> 5) + warp, C = n.C;
    if (i >= n.N)
        return;
    float *row = all + warp * C, total = 0;
    uint64_t seq = r && n.drop.on ? n.drop.seq[i / n.length] : 0;
    uint64_t first = n.drop.on ? (uint64_t)(i % n.length * C) : 0; /* element of the sequence */
    for (int64_t c = lane * W; c < C; c += 32 * W) {
        Pack<T, W> v = load<T, W>(x + i * C + c);
        if (r) {
            Pack<T, W> b = load<T, W>(r + i * C + c);
            float m[W];
            if (n.drop.on)
                drop_masks<W>(m, n.drop, seq, first + (uint64_t)c);
#pragma unroll
            for (int k = 0; k < W; k++)
                v.v[k] = narrow<T>(real(v.v[k]) + real(b.v[k]) * (n.drop.on ? m[k] : 1.0f));
            store(sum + i * C + c, v);
        }
#pragma unroll
        for (int k = 0; k < W; k++) {
            row[c + k] = real(v.v[k]);
            total += real(v.v[k]);
        }
    }
    float mu = warp_sum(total) / (float)C, square = 0;
    for (int64_t c = lane * W; c < C; c += 32 * W)
#pragma unroll
        for (int k = 0; k < W; k++)
            square += (row[c + k] - mu) * (row[c + k] - mu);
    float scale = rsqrtf(warp_sum(square) / (float)C + eps);
    for (int64_t c = lane * W; c < C; c += 32 * W) {
        float ws[W], bs[W];
        load_floats<W>(ws, w + c);
        load_floats<W>(bs, bias + c);
        Pack<T, W> out;
#pragma unroll
        for (int k = 0; k < W; k++)
            out.v[k] = narrow<T>((row[c + k] - mu) * scale * ws[k] + bs[k]);
        store(y + i * C + c, out);
    }
    if (lane == 0 && mean)
        mean[i] = mu;
    if (lane == 0 && rstd)
        rstd[i] = scale;
}

/* dx = rstd (dy w - mean(dy w) - xhat mean(dy w xhat)); partial[block]: dw then dbias. */
template <class T, int W>
static __global__ void __launch_bounds__(MOST_WARPS * 32)
    norm_bwd(T *dsum, T *dr, float *partial, const T *dy, const T *x, const float *mean,
             const float *rstd, const float *w, Rows n)
{
    DYN_SMEM(float, all);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int64_t C = n.C, from = (int64_t)blockIdx.x * ROWS_A_BLOCK;
    int64_t to = from + ROWS_A_BLOCK < n.N ? from + ROWS_A_BLOCK : n.N;
    float *dw = all + warp * 2 * C, *db = dw + C;
    for (int64_t c = lane * W; c < C; c += 32 * W)
#pragma unroll
        for (int k = 0; k < W; k++)
            dw[c + k] = db[c + k] = 0;
    for (int64_t i = from + warp; i < to; i += warps) {
        float mu = mean[i], scale = rstd[i], a = 0, b = 0;
        for (int64_t c = lane * W; c < C; c += 32 * W) {
            Pack<T, W> g = load<T, W>(dy + i * C + c), v = load<T, W>(x + i * C + c);
            float ws[W];
            load_floats<W>(ws, w + c);
#pragma unroll
            for (int k = 0; k < W; k++) {
                float hat = (real(v.v[k]) - mu) * scale, d = real(g.v[k]);
                a += d * ws[k];
                b += d * ws[k] * hat;
                dw[c + k] += d * hat;
                db[c + k] += d;
            }
        }
        a = warp_sum(a) / (float)C;
        b = warp_sum(b) / (float)C;
        uint64_t seq = dr && n.drop.on ? n.drop.seq[i / n.length] : 0;
        uint64_t first = n.drop.on ? (uint64_t)(i % n.length * C) : 0;
        for (int64_t c = lane * W; c < C; c += 32 * W) {
            Pack<T, W> g = load<T, W>(dy + i * C + c), v = load<T, W>(x + i * C + c);
            Pack<T, W> out = load<T, W>(dsum + i * C + c);
            float ws[W], m[W];
            load_floats<W>(ws, w + c);
#pragma unroll
            for (int k = 0; k < W; k++) {
                float hat = (real(v.v[k]) - mu) * scale;
                float d = scale * (real(g.v[k]) * ws[k] - a - hat * b);
                out.v[k] = narrow<T>(real(out.v[k]) + d);
            }
            store(dsum + i * C + c, out);
            if (!dr)
                continue;
            if (n.drop.on) {
                drop_masks<W>(m, n.drop, seq, first + (uint64_t)c);
#pragma unroll
                for (int k = 0; k < W; k++)
                    out.v[k] = narrow<T>(real(out.v[k]) * m[k]);
            }
            store(dr + i * C + c, out);
        }
    }
    __syncthreads();
    for (int64_t c = threadIdx.x; c < 2 * C; c += blockDim.x) {
        float sum = 0;
        for (int k = 0; k < warps; k++)
            sum += all[k * 2 * C + c];
        partial[(int64_t)blockIdx.x * 2 * C + c] = sum;
    }
}

/* As many warps as rows of this many bytes fit into a block's shared memory, 1 to 8. */
static int warps_for(int64_t bytes)
{
    int64_t n = SHARED / bytes;
    return n < 1 ? 1 : n > MOST_WARPS ? MOST_WARPS : (int)n;
}

template <class K> static cudaError_t allow_shared(K *kernel, size_t bytes)
{
    if (bytes <= SHARED)
        return cudaSuccess;
    return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)bytes);
}

static Rows rows_of(const cuda_norm *n)
{
    return Rows{n->N, n->T, n->C, n->drop};
}

template <class T, int W>
static cudaError_t launch_fwd(const cuda_norm *n, void *sum, void *y, float *mean, float *rstd,
                              const void *x, const void *r, const float *w, const float *bias,
                              float eps, cudaStream_t s)
{
    int warps = warps_for(n->C * 4);
    auto kernel = norm_fwd<T, W>;
    LAUNCH(kernel, blocks_for(n->N, warps), warps * 32, (size_t)(warps * n->C * 4), s, (T *)sum,
           (T *)y, mean, rstd, (const T *)x, (const T *)r, w, bias, eps, rows_of(n));
    return cudaGetLastError();
}

template <class T, int W>
static cudaError_t launch_bwd(const cuda_norm *n, void *dsum, void *dr, float *partial,
                              const void *dy, const void *sum, const float *mean, const float *rstd,
                              const float *w, cudaStream_t s)
{
    int warps = warps_for(n->C * 8);
    size_t shared = (size_t)(warps * n->C * 8);
    auto kernel = norm_bwd<T, W>;
    cudaError_t e = allow_shared(kernel, shared);
    if (e != cudaSuccess)
        return e;
    LAUNCH(kernel, blocks_for(n->N, ROWS_A_BLOCK), warps * 32, shared, s, (T *)dsum, (T *)dr,
           partial, (const T *)dy, (const T *)sum, mean, rstd, w, rows_of(n));
    return cudaGetLastError();
}

template <class T>
static cudaError_t pick_fwd(const cuda_norm *n, void *sum, void *y, float *mean, float *rstd,
                            const void *x, const void *r, const float *w, const float *bias,
                            float eps, cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    bool wide = n->C % W == 0 && aligned16(sum) && aligned16(y) && aligned16(x) && aligned16(r) &&
                aligned16(w) && aligned16(bias);
    return wide ? launch_fwd<T, W>(n, sum, y, mean, rstd, x, r, w, bias, eps, s)
                : launch_fwd<T, 1>(n, sum, y, mean, rstd, x, r, w, bias, eps, s);
}

template <class T>
static cudaError_t pick_bwd(const cuda_norm *n, void *dsum, void *dr, float *partial,
                            const void *dy, const void *sum, const float *mean, const float *rstd,
                            const float *w, cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    bool wide = n->C % W == 0 && aligned16(dsum) && aligned16(dr) && aligned16(dy) &&
                aligned16(sum) && aligned16(w);
    return wide ? launch_bwd<T, W>(n, dsum, dr, partial, dy, sum, mean, rstd, w, s)
                : launch_bwd<T, 1>(n, dsum, dr, partial, dy, sum, mean, rstd, w, s);
}

cudaError_t cuda_norm_fwd(const cuda_norm *n, void *sum, void *y, float *mean, float *rstd,
                          const void *x, const void *r, const float *w, const float *bias,
                          float eps, cudaStream_t s)
{
    switch (n->type) {
    case DTYPE_BF16:
        return pick_fwd<bf16>(n, sum, y, mean, rstd, x, r, w, bias, eps, s);
    case DTYPE_F16:
        return pick_fwd<f16>(n, sum, y, mean, rstd, x, r, w, bias, eps, s);
    default:
        return pick_fwd<float>(n, sum, y, mean, rstd, x, r, w, bias, eps, s);
    }
}

int64_t cuda_norm_partials(int64_t N)
{
    return blocks_for(N, ROWS_A_BLOCK);
}

cudaError_t cuda_norm_bwd(const cuda_norm *n, void *dsum, void *dr, float *dw, float *dbias,
                          const void *dy, const void *sum, const float *mean, const float *rstd,
                          const float *w, float *partial, cudaStream_t s)
{
    cudaError_t e;
    switch (n->type) {
    case DTYPE_BF16:
        e = pick_bwd<bf16>(n, dsum, dr, partial, dy, sum, mean, rstd, w, s);
        break;
    case DTYPE_F16:
        e = pick_bwd<f16>(n, dsum, dr, partial, dy, sum, mean, rstd, w, s);
        break;
    default:
        e = pick_bwd<float>(n, dsum, dr, partial, dy, sum, mean, rstd, w, s);
    }
    int64_t blocks = cuda_norm_partials(n->N), C = n->C;
    if (e == cudaSuccess)
        e = cuda_add_partials(dw, partial, 2 * C, blocks, C, s);
    if (e == cudaSuccess)
        e = cuda_add_partials(dbias, partial + C, 2 * C, blocks, C, s);
    return e;
}
