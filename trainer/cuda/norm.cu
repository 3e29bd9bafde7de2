/* norm: residual addition, dropout and layer norm in one pass (Ba, Kiros, Hinton, arXiv 1607.06450).
 *
 * A warp owns a row and keeps it in shared memory as f32, so global memory is read and written once. A lane
 * has W columns side by side of each 32 W; its k-th lies in slot k * 32 + lane of theirs, so that the
 * lanes of an access are in 32 different banks.
 * The gradients of w and bias are summed by each warp over its rows, then over the warps of a
 * block, then over the blocks, always in order: equal runs have equal bits.
 */
#include "trainer/cuda/common.cuh"

enum { MOST_WARPS = 8, LEAST_ROWS = 32, MOST_BLOCKS = 512, SHARED = 48 << 10 };

struct Rows {
    int64_t N, length, C;
    cuda_drop drop;
};

/* Slots of a row of C columns, and where column c + k is, c being the first of a lane's. */
template <int W> static __host__ __device__ __forceinline__ int slots(int C)
{
    return (C + 32 * W - 1) / (32 * W) * (32 * W);
}
template <int W> static __device__ __forceinline__ int slot(int c, int k)
{
    return c - (int)(threadIdx.x & 31) * (W - 1) + k * 32;
}
/* Of any column. */
template <int W> static __device__ __forceinline__ int slot_of(int c)
{
    int at = c % (32 * W);
    return c - at + at % W * 32 + at / W;
}

template <class T, int W>
static __global__ void __launch_bounds__(MOST_WARPS * 32)
    norm_fwd(T *sum, T *y, float *mean, float *rstd, const T *x, const T *r, const float *w,
             const float *bias, float eps, Rows n)
{
    DYN_SMEM(float, all);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int64_t i = (int64_t)blockIdx.x * (blockDim.x >> 5) + warp;
    int C = (int)n.C;
    if (i >= n.N)
        return;
    float *row = all + warp * slots<W>(C), total = 0;
    uint64_t seq = r && n.drop.on ? n.drop.seq[i / n.length] : 0;
    uint64_t first = n.drop.on ? (uint64_t)(i % n.length * C) : 0; /* element of the sequence */
#pragma unroll(W == 1 ? 1 : 2)
    for (int c = lane * W; c < C; c += 32 * W) {
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
            row[slot<W>(c, k)] = real(v.v[k]);
            total += real(v.v[k]);
        }
    }
    float mu = warp_sum(total) / (float)C, square = 0;
#pragma unroll(W == 1 ? 1 : 2)
    for (int c = lane * W; c < C; c += 32 * W)
#pragma unroll
        for (int k = 0; k < W; k++)
            square += (row[slot<W>(c, k)] - mu) * (row[slot<W>(c, k)] - mu);
    float scale = rsqrtf(warp_sum(square) / (float)C + eps);
#pragma unroll(W == 1 ? 1 : 2)
    for (int c = lane * W; c < C; c += 32 * W) {
        float ws[W], bs[W];
        load_floats<W>(ws, w + c);
        load_floats<W>(bs, bias + c);
        Pack<T, W> out;
#pragma unroll
        for (int k = 0; k < W; k++)
            out.v[k] = narrow<T>((row[slot<W>(c, k)] - mu) * scale * ws[k] + bs[k]);
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
             const float *rstd, const float *w, Rows n, int64_t rows)
{
    DYN_SMEM(float, all);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int C = (int)n.C, P = slots<W>(C);
    int64_t from = (int64_t)blockIdx.x * rows;
    int64_t to = from + rows < n.N ? from + rows : n.N;
    float *dw = all + warp * 2 * P, *db = dw + P;
    for (int s = lane; s < 2 * P; s += 32)
        dw[s] = 0;
    __syncwarp();
    for (int64_t i = from + warp; i < to; i += warps) {
        float mu = mean[i], scale = rstd[i], a = 0, b = 0;
#pragma unroll(sizeof(T) == 4 || W == 1 ? 1 : 2)
        for (int c = lane * W; c < C; c += 32 * W) {
            Pack<T, W> g = load<T, W>(dy + i * C + c), v = load<T, W>(x + i * C + c);
            float ws[W];
            load_floats<W>(ws, w + c);
#pragma unroll
            for (int k = 0; k < W; k++) {
                float hat = (real(v.v[k]) - mu) * scale, d = real(g.v[k]);
                a += d * ws[k];
                b += d * ws[k] * hat;
                dw[slot<W>(c, k)] += d * hat;
                db[slot<W>(c, k)] += d;
            }
        }
        a = warp_sum(a) / (float)C;
        b = warp_sum(b) / (float)C;
        uint64_t seq = dr && n.drop.on ? n.drop.seq[i / n.length] : 0;
        uint64_t first = n.drop.on ? (uint64_t)(i % n.length * C) : 0;
#pragma unroll(sizeof(T) == 4 || W == 1 ? 1 : 2)
        for (int c = lane * W; c < C; c += 32 * W) {
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
    for (int s = (int)threadIdx.x; s < 2 * P; s += (int)blockDim.x) {
        float sum = 0;
        for (int k = 0; k < warps; k++)
            sum += all[k * 2 * P + s];
        all[s] = sum;
    }
    __syncthreads();
    float *out = partial + (int64_t)blockIdx.x * 2 * C;
    for (int c = (int)threadIdx.x; c < C; c += (int)blockDim.x) {
        out[c] = all[slot_of<W>(c)];
        out[C + c] = all[P + slot_of<W>(c)];
    }
}

/* Rows of a block of the backward pass: few enough blocks that their partial sums cost little, whatever
 * the device, so that every device adds in the same order. */
static int64_t block_rows(int64_t N)
{
    int64_t n = (N + MOST_BLOCKS - 1) / MOST_BLOCKS;
    n = (n + MOST_WARPS - 1) / MOST_WARPS * MOST_WARPS;
    return n > LEAST_ROWS ? n : (int64_t)LEAST_ROWS;
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
    int64_t bytes = slots<W>((int)n->C) * 4;
    int warps = warps_for(bytes);
    auto kernel = norm_fwd<T, W>;
    LAUNCH(kernel, blocks_for(n->N, warps), warps * 32, (size_t)(warps * bytes), s, (T *)sum,
           (T *)y, mean, rstd, (const T *)x, (const T *)r, w, bias, eps, rows_of(n));
    return cudaGetLastError();
}

template <class T, int W>
static cudaError_t launch_bwd(const cuda_norm *n, void *dsum, void *dr, float *partial,
                              const void *dy, const void *sum, const float *mean, const float *rstd,
                              const float *w, cudaStream_t s)
{
    int64_t bytes = slots<W>((int)n->C) * 8, rows = block_rows(n->N);
    int warps = warps_for(bytes);
    size_t shared = (size_t)(warps * bytes);
    auto kernel = norm_bwd<T, W>;
    cudaError_t e = allow_shared(kernel, shared);
    if (e != cudaSuccess)
        return e;
    LAUNCH(kernel, blocks_for(n->N, rows), warps * 32, shared, s, (T *)dsum, (T *)dr, partial,
           (const T *)dy, (const T *)sum, mean, rstd, w, rows_of(n), rows);
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
    return blocks_for(N, block_rows(N));
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
    return e == cudaSuccess ? cuda_add_partials(dw, dbias, partial, blocks, C, s) : e;
}
