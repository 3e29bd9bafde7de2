/* embed: token and position embeddings, and the checks of ids and positions that index tables.
 *
 * The gradient of a table's row is the sum over its tokens in their order, so equal runs have equal
 * bits: each token looks for the next one of its id, and the first of each id walks that chain.
 */
#include "trainer/cuda/common.cuh"

/* ---- checks: one block; the lowest bad row is reported, and only if nothing was before ---- */

enum { CHECK_THREADS = 256 };

static __device__ void report(cuda_fault *f, int op, int code, int64_t bad, int32_t value,
                              int32_t length, int64_t limit)
{
    if (f->code != FAULT_NONE)
        return;
    f->op = op;
    f->value = value;
    f->length = length;
    f->row = bad;
    f->limit = limit;
    f->code = code;
}

/* The lowest of the threads' rows, for thread 0. */
static __device__ int64_t lowest_row(int64_t mine)
{
    SMEM(long long, rows, [CHECK_THREADS]);
    rows[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x != 0)
        return mine;
    for (int i = 1; i < CHECK_THREADS; i++)
        if (rows[i] < mine)
            mine = rows[i];
    return mine;
}

static __global__ void __launch_bounds__(CHECK_THREADS)
    check_ids(cuda_fault *f, int op, int code, const int32_t *ids, const int32_t *pos, int64_t n,
              int64_t T, int32_t lowest, bool padded, int64_t V)
{
    int64_t bad = INT64_MAX;
    for (int64_t i = threadIdx.x; i < n; i += CHECK_THREADS) {
        bool idle = pos && pos[i / T] < 0;
        bool padding = padded && ids[i] == -1 && i % T != 0;
        if (!idle && !padding && (ids[i] < lowest || ids[i] >= V) && i < bad)
            bad = i;
    }
    bad = lowest_row(bad);
    if (threadIdx.x == 0 && bad != INT64_MAX)
        report(f, op, code, bad, ids[bad], 0, V);
}

static __global__ void __launch_bounds__(CHECK_THREADS)
    check_pos(cuda_fault *f, int op, const int32_t *pos, int64_t B, int64_t T, int64_t positions)
{
    int64_t bad = INT64_MAX;
    for (int64_t i = threadIdx.x; i < B; i += CHECK_THREADS)
        if (pos[i] >= 0 && pos[i] + T > positions && i < bad)
            bad = i;
    bad = lowest_row(bad);
    if (threadIdx.x == 0 && bad != INT64_MAX)
        report(f, op, FAULT_POSITION, bad, pos[bad], (int32_t)T, positions);
}

cudaError_t cuda_check_ids(cuda_fault *f, int op, int code, const int32_t *ids, const int32_t *pos,
                           int64_t B, int64_t T, int32_t lowest, bool padded, int64_t V,
                           cudaStream_t s)
{
    LAUNCH(check_ids, 1, CHECK_THREADS, 0, s, f, op, code, ids, pos, B * T, T, lowest, padded, V);
    return cudaGetLastError();
}

cudaError_t cuda_check_pos(cuda_fault *f, int op, const int32_t *pos, int64_t B, int64_t T,
                           int64_t positions, cudaStream_t s)
{
    LAUNCH(check_pos, 1, CHECK_THREADS, 0, s, f, op, pos, B, T, positions);
    return cudaGetLastError();
}

/* ---- forward: a thread a pack ---- */

template <class T, int W>
static __global__ void __launch_bounds__(256)
    embed_fwd(T *y, const int32_t *ids, const float *wte, const float *wpe, const int32_t *pos,
              int64_t N, int64_t length, int64_t C, cuda_drop d, const cuda_fault *f)
{
    int64_t at = thread_number() * W;
    if (at >= N * C || f->code != FAULT_NONE)
        return;
    int64_t i = at / C, c = at % C, b = i / length, t = i % length;
    Pack<T, W> out;
    float a[W], p[W], m[W];
    int64_t start = pos ? pos[b] : 0;
    if (start < 0) { /* an idle row of decoding */
#pragma unroll
        for (int k = 0; k < W; k++)
            out.v[k] = narrow<T>(0);
        store(y + at, out);
        return;
    }
    bool padding = ids[i] < 0; /* the first one again */
    load_floats<W>(a, wte + (int64_t)ids[padding ? b * length : i] * C + c);
    load_floats<W>(p, wpe + (start + (padding ? 0 : t)) * C + c);
    if (d.on)
        drop_masks<W>(m, d, d.seq[b], (uint64_t)(t * C + c));
#pragma unroll
    for (int k = 0; k < W; k++)
        out.v[k] = narrow<T>((a[k] + p[k]) * (d.on ? m[k] : 1.0f));
    store(y + at, out);
}

template <class T, int W>
static cudaError_t launch_fwd(void *y, const int32_t *ids, const float *wte, const float *wpe,
                              const int32_t *pos, int64_t B, int64_t length, int64_t C, cuda_drop d,
                              const cuda_fault *f, cudaStream_t s)
{
    auto kernel = embed_fwd<T, W>;
    LAUNCH(kernel, blocks_for(B * length * C / W, 256), 256, 0, s, (T *)y, ids, wte, wpe, pos,
           B * length, length, C, d, f);
    return cudaGetLastError();
}

template <class T>
static cudaError_t pick_fwd(void *y, const int32_t *ids, const float *wte, const float *wpe,
                            const int32_t *pos, int64_t B, int64_t length, int64_t C, cuda_drop d,
                            const cuda_fault *f, cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    bool wide = C % W == 0 && aligned16(y) && aligned16(wte) && aligned16(wpe);
    return wide ? launch_fwd<T, W>(y, ids, wte, wpe, pos, B, length, C, d, f, s)
                : launch_fwd<T, 1>(y, ids, wte, wpe, pos, B, length, C, d, f, s);
}

cudaError_t cuda_embed_fwd(enum dtype type, void *y, const int32_t *ids, const float *wte,
                           const float *wpe, const int32_t *pos, int64_t B, int64_t T, int64_t C,
                           cuda_drop d, const cuda_fault *f, cudaStream_t s)
{
    switch (type) {
    case DTYPE_BF16:
        return pick_fwd<bf16>(y, ids, wte, wpe, pos, B, T, C, d, f, s);
    case DTYPE_F16:
        return pick_fwd<f16>(y, ids, wte, wpe, pos, B, T, C, d, f, s);
    default:
        return pick_fwd<float>(y, ids, wte, wpe, pos, B, T, C, d, f, s);
    }
}

/* ---- backward ---- */

template <class T, int W>
static __global__ void __launch_bounds__(256)
    drop_rows(T *dy, int64_t N, int64_t length, int64_t C, cuda_drop d)
{
    int64_t at = thread_number() * W;
    if (at >= N * C)
        return;
    int64_t i = at / C;
    float m[W];
    drop_masks<W>(m, d, d.seq[i / length], (uint64_t)(at % (length * C)));
    Pack<T, W> v = load<T, W>(dy + at);
#pragma unroll
    for (int k = 0; k < W; k++)
        v.v[k] = narrow<T>(real(v.v[k]) * m[k]);
    store(dy + at, v);
}

/* Which chunks of CHUNK tokens hold an id: a row of bits for each LISTED low bits of it, so that a search
 * looks at few tokens of a large batch. Bits only ever appear, so their order changes nothing. */
enum { CHUNK = 128, LISTED = 1 << 12 };

static __host__ __device__ __forceinline__ int64_t chunk_words(int64_t N)
{
    return (N + CHUNK * 32 - 1) / (CHUNK * 32);
}

static __global__ void __launch_bounds__(256)
    list_chunks(uint32_t *chunks, const int32_t *ids, int64_t N, const cuda_fault *f)
{
    int64_t i = thread_number(), c = i / CHUNK;
    if (i >= N || f->code != FAULT_NONE)
        return;
    atomicOr(chunks + (ids[i] & (LISTED - 1)) * chunk_words(N) + c / 32, 1u << (c % 32));
}

/* The first of tokens from .. to with this id, -1: none. */
static __device__ __forceinline__ int64_t find_id(const int32_t *ids, int32_t id, int64_t from,
                                                  int64_t to)
{
    for (int64_t k = from; k < to; k++)
        if (ids[k] == id)
            return k;
    return -1;
}

/* The first token with this id in the chunks first .. end, -1: none. */
static __device__ int64_t find_in_chunks(const uint32_t *row, const int32_t *ids, int32_t id,
                                         int64_t first, int64_t end, int64_t N)
{
    for (int64_t w = first / 32; w * 32 < end; w++) {
        uint32_t bits = row[w];
        if (w == first / 32)
            bits &= ~0u << (first % 32);
        if (end - w * 32 < 32)
            bits &= (1u << (end - w * 32)) - 1;
        for (; bits; bits &= bits - 1) {
            int64_t from = (w * 32 + __ffs((int)bits) - 1) * CHUNK;
            int64_t k = find_id(ids, id, from, from + CHUNK < N ? from + CHUNK : N);
            if (k >= 0)
                return k;
        }
    }
    return -1;
}

/* next[i]: the next token of the same id, -1: none. first[i]: whether none comes before. */
static __global__ void __launch_bounds__(256)
    link_tokens(int32_t *next, int32_t *first, const uint32_t *chunks, const int32_t *ids,
                int64_t N, const cuda_fault *f)
{
    int64_t i = thread_number(), c = i / CHUNK, end = (c + 1) * CHUNK;
    if (i >= N || f->code != FAULT_NONE)
        return;
    int32_t id = ids[i];
    const uint32_t *row = chunks + (id & (LISTED - 1)) * chunk_words(N);
    int64_t k = find_id(ids, id, i + 1, end < N ? end : N);
    next[i] =
        (int32_t)(k >= 0 ? k : find_in_chunks(row, ids, id, c + 1, (N + CHUNK - 1) / CHUNK, N));
    first[i] = find_id(ids, id, c * CHUNK, i) < 0 && find_in_chunks(row, ids, id, 0, c, N) < 0;
}

int64_t cuda_embed_links(int64_t N)
{
    return 2 * N + LISTED * chunk_words(N);
}

enum { COLUMNS = 128 }; /* of a block */

template <class T>
static __global__ void __launch_bounds__(COLUMNS)
    embed_bwd_tokens(float *dwte, const T *dy, const int32_t *ids, const int32_t *next,
                     const int32_t *first, int64_t C, const cuda_fault *f)
{
    int64_t i = blockIdx.x, c = (int64_t)blockIdx.y * COLUMNS + threadIdx.x;
    if (c >= C || f->code != FAULT_NONE || !first[i])
        return;
    float *out = dwte + (int64_t)ids[i] * C + c, sum = *out;
    for (int64_t k = i; k >= 0; k = next[k])
        sum += real(dy[k * C + c]);
    *out = sum;
}

template <class T>
static __global__ void __launch_bounds__(256)
    embed_bwd_positions(float *dwpe, const T *dy, int64_t B, int64_t length, int64_t C,
                        const cuda_fault *f)
{
    int64_t at = thread_number();
    if (at >= length * C || f->code != FAULT_NONE)
        return;
    float sum = dwpe[at];
    for (int64_t b = 0; b < B; b++)
        sum += real(dy[b * length * C + at]);
    dwpe[at] = sum;
}

template <class T, int W>
static cudaError_t launch_drop(void *dy, int64_t N, int64_t length, int64_t C, cuda_drop d,
                               cudaStream_t s)
{
    auto kernel = drop_rows<T, W>;
    LAUNCH(kernel, blocks_for(N * C / W, 256), 256, 0, s, (T *)dy, N, length, C, d);
    return cudaGetLastError();
}

template <class T>
static cudaError_t launch_bwd(float *dwte, float *dwpe, void *dy, const int32_t *ids,
                              int32_t *links, int64_t B, int64_t length, int64_t C, cuda_drop d,
                              const cuda_fault *f, cudaStream_t s)
{
    constexpr int W = Wide<T>::W;
    int64_t N = B * length;
    if (d.on) {
        cudaError_t e = C % W == 0 && aligned16(dy) ? launch_drop<T, W>(dy, N, length, C, d, s)
                                                    : launch_drop<T, 1>(dy, N, length, C, d, s);
        if (e != cudaSuccess)
            return e;
    }
    int32_t *next = links, *first = links + N;
    uint32_t *chunks = (uint32_t *)(first + N);
    cudaError_t e =
        cudaMemsetAsync(chunks, 0, (size_t)(LISTED * chunk_words(N)) * sizeof *chunks, s);
    if (e != cudaSuccess)
        return e;
    LAUNCH(list_chunks, blocks_for(N, 256), 256, 0, s, chunks, ids, N, f);
    LAUNCH(link_tokens, blocks_for(N, 256), 256, 0, s, next, first, (const uint32_t *)chunks, ids,
           N, f);
    auto tokens = embed_bwd_tokens<T>;
    LAUNCH(tokens, dim3((unsigned)N, blocks_for(C, COLUMNS)), COLUMNS, 0, s, dwte, (const T *)dy,
           ids, (const int32_t *)next, (const int32_t *)first, C, f);
    auto positions = embed_bwd_positions<T>;
    LAUNCH(positions, blocks_for(length * C, 256), 256, 0, s, dwpe, (const T *)dy, B, length, C, f);
    return cudaGetLastError();
}

cudaError_t cuda_embed_bwd(enum dtype type, float *dwte, float *dwpe, void *dy, const int32_t *ids,
                           int32_t *links, int64_t B, int64_t T, int64_t C, cuda_drop d,
                           const cuda_fault *f, cudaStream_t s)
{
    switch (type) {
    case DTYPE_BF16:
        return launch_bwd<bf16>(dwte, dwpe, dy, ids, links, B, T, C, d, f, s);
    case DTYPE_F16:
        return launch_bwd<f16>(dwte, dwpe, dy, ids, links, B, T, C, d, f, s);
    default:
        return launch_bwd<float>(dwte, dwpe, dy, ids, links, B, T, C, d, f, s);
    }
}
