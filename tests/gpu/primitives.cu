/* primitives: what the kernels of trainer/cuda take from the machine, one kernel each: tensor-core
 * products, ldmatrix, cp.async, shuffles, conversions, random words, fast functions.
 *
 * Compiled for the emulator and for a device; the emulated one writes what it got, the real one holds
 * its own against that:
 *
 *   primitives --write FILE        primitives --against FILE
 *
 * What moves or rounds by rule must be equal bit by bit (any NaN is as good as another). Products of
 * random numbers and fast functions may differ in the last places: the machine may round them its own
 * way. Prints TAP.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "trainer/cuda/common.cuh"

static const int LANES = 32;

/* ---- kernels: inputs and outputs are words; one warp unless it says otherwise ---- */

template <class T> static __global__ void product(uint32_t *o, const uint32_t *in)
{
    int l = (int)threadIdx.x;
    float d[4], c[4] = {1, 2, 3, 4};
    mma_16816(d, in + l * 4, in + 128 + l * 2, c, T());
    memcpy(o + l * 4, d, sizeof d);
}

template <bool TRANSPOSED> static __global__ void matrices(uint32_t *o, const uint32_t *in)
{
    SMEM(uint32_t, tile, [4 * 8 * 4]);
    int l = (int)threadIdx.x;
    for (int i = l; i < 128; i += LANES)
        tile[i] = in[i];
    __syncthreads();
    if (TRANSPOSED)
        ldmatrix_x4_trans(o + l * 4, tile + l * 4);
    else
        ldmatrix_x4(o + l * 4, tile + l * 4);
}

/* Two groups in flight; every third piece is not valid. */
static __global__ void copies(uint32_t *o, const uint32_t *in)
{
    SMEM(uint32_t, tile, [2 * 128]);
    int l = (int)threadIdx.x;
    cp_async16(tile + l * 4, in + l * 4, l % 3 != 0);
    cp_async_commit();
    cp_async16(tile + 128 + l * 4, in + (31 - l) * 4, l % 3 != 1);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    for (int i = 0; i < 4; i++)
        o[l * 4 + i] = tile[(l ^ 1) * 4 + i];
    cp_async_wait<0>();
    __syncthreads();
    for (int i = 0; i < 4; i++)
        o[128 + l * 4 + i] = tile[128 + (l ^ 1) * 4 + i];
}

static __global__ void shuffles(uint32_t *o, const uint32_t *in)
{
    int l = (int)threadIdx.x;
    uint32_t v = in[l];
    o[l] = __shfl_xor_sync(0xffffffffu, v, 5);
    o[32 + l] = __shfl_down_sync(0xffffffffu, v, 3);
    o[64 + l] = __shfl_up_sync(0xffffffffu, v, 7);
    o[96 + l] = __shfl_sync(0xffffffffu, v, 11);
    o[128 + l] = __shfl_xor_sync(0xffffffffu, v, 2, 8);
    o[160 + l] = __ballot_sync(0xffffffffu, (int)(v & 1));
}

/* Whole numbers, so that the order of the sum does not matter. */
static __global__ void sums(uint32_t *o, const uint32_t *in)
{
    int l = (int)threadIdx.x;
    float v = (float)(in[l] & 1023), s = warp_sum(v), m = warp_max(v);
    memcpy(o + l, &s, 4);
    memcpy(o + 32 + l, &m, 4);
}

/* Words are floats of every kind; 256 threads. */
template <class T> static __global__ void conversions(uint32_t *o, const uint32_t *in)
{
    int i = (int)threadIdx.x;
    float f;
    memcpy(&f, in + i, 4);
    T t = narrow<T>(f);
    uint16_t bits;
    float back = real(t);
    memcpy(&bits, &t, 2);
    o[i] = isnan(f) ? 0x7fffu : bits;
    if (isnan(f))
        o[256 + i] = 0x7fc00000u;
    else
        memcpy(o + 256 + i, &back, 4);
}

static __global__ void words(uint32_t *o, const uint32_t *in)
{
    int i = (int)threadIdx.x;
    uint64_t key = (uint64_t)in[0] << 32 | in[1];
    rng_words(o + i * 4, key, (uint64_t)in[i] << 3, (uint64_t)in[i + 1] << 32 | (uint64_t)i);
}

/* Packs of 16 bytes of bf16, as every streaming kernel moves them. */
static __global__ void packs(uint32_t *o, const uint32_t *in)
{
    int i = (int)threadIdx.x;
    Pack<bf16, 8> p = load<bf16, 8>((const bf16 *)in + i * 8), q;
    for (int k = 0; k < 8; k++)
        q.v[k] = p.v[7 - k];
    store<bf16, 8>((bf16 *)o + i * 8, q);
}

static __global__ void functions(uint32_t *o, const uint32_t *in)
{
    int i = (int)threadIdx.x;
    float x = (float)(in[i] >> 8) * (1.0f / (1 << 24)) * 16 - 8; /* -8 .. 8 */
    float v[4] = {__expf(x), __logf(fabsf(x) + 0.5f), rsqrtf(fabsf(x) + 0.01f), tanhf(x)};
    memcpy(o + i * 4, v, sizeof v);
}

/* ---- inputs ---- */

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 32);
}

/* NVIDIA's own conversions work on the host too; those of common.cuh do not. */
static bf16 host_narrow(float x, bf16)
{
    return __float2bfloat16(x);
}
static f16 host_narrow(float x, f16)
{
    return __float2half(x);
}

template <class T> static uint32_t pair(float a, float b)
{
    T v[2] = {host_narrow(a, T()), host_narrow(b, T())};
    uint32_t w;
    memcpy(&w, v, 4);
    return w;
}

/* Fragments of a and b: small whole numbers (every sum is exact) or numbers around 1. */
template <class T> static std::vector<uint32_t> fragments(uint64_t seed, bool whole)
{
    std::vector<uint32_t> v(192);
    for (uint32_t &w : v) {
        float x[2];
        for (float &f : x)
            f = whole ? (float)(int)(next(&seed) % 9) - 4
                      : (float)next(&seed) / 4294967296.0f * 2 - 1;
        w = pair<T>(x[0], x[1]);
    }
    return v;
}

static std::vector<uint32_t> random_words(uint64_t seed, size_t n)
{
    std::vector<uint32_t> v(n);
    for (uint32_t &w : v)
        w = next(&seed);
    return v;
}

/* Borders of bf16 and fp16, ties, denormals, infinities, NaN, and bits at random. */
static std::vector<uint32_t> floats()
{
    static const uint32_t known[] = {
        0,          0x80000000, 0x3f800000, 0x3f808000, 0x3f818000, 0x3f80ffff, 0x3f807fff,
        0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0x477fe000, 0x477fefff, 0x477ff000,
        0x33000000, 0x33000001, 0x33800000, 0x38800000, 0x387fc000, 0x387fe000, 0x387fffff,
        0x00000001, 0x00400000, 0x007fffff, 0x3f801000, 0x3f803000, 0x3f802000, 0xc77ff000,
        0x7f7f7fff, 0x7f7f8000, 0x00008000, 0x00018000};
    std::vector<uint32_t> v = random_words(77, 256);
    memcpy(v.data(), known, sizeof known);
    return v;
}

/* ---- the table ---- */

struct Row {
    const char *name;
    std::vector<uint32_t> in;
    size_t out;     /* words */
    double allowed; /* of the greater of 1 and the value; 0: the bits must agree */
    void (*launch)(uint32_t *o, const uint32_t *in);
};

static std::vector<Row> rows()
{
    auto whole_bf16 = fragments<bf16>(1, true), some_bf16 = fragments<bf16>(2, false);
    auto whole_f16 = fragments<f16>(3, true), some_f16 = fragments<f16>(4, false);
    return {
        {"mma bf16, whole numbers", whole_bf16, 128, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(product<bf16>, 1, 32, 0, 0, o, i); }},
        {"mma fp16, whole numbers", whole_f16, 128, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(product<f16>, 1, 32, 0, 0, o, i); }},
        {"mma bf16", some_bf16, 128, 5e-5,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(product<bf16>, 1, 32, 0, 0, o, i); }},
        {"mma fp16", some_f16, 128, 5e-5,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(product<f16>, 1, 32, 0, 0, o, i); }},
        {"ldmatrix", random_words(5, 128), 128, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(matrices<false>, 1, 32, 0, 0, o, i); }},
        {"ldmatrix transposed", random_words(6, 128), 128, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(matrices<true>, 1, 32, 0, 0, o, i); }},
        {"cp.async, two groups", random_words(7, 128), 256, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(copies, 1, 32, 0, 0, o, i); }},
        {"shuffles and ballot", random_words(8, 32), 192, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(shuffles, 1, 32, 0, 0, o, i); }},
        {"sums of a warp", random_words(9, 32), 64, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(sums, 1, 32, 0, 0, o, i); }},
        {"float to bf16 and back", floats(), 512, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(conversions<bf16>, 1, 256, 0, 0, o, i); }},
        {"float to fp16 and back", floats(), 512, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(conversions<f16>, 1, 256, 0, 0, o, i); }},
        {"random words", random_words(10, 65), 256, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(words, 1, 64, 0, 0, o, i); }},
        {"packs of 16 bytes", random_words(11, 256), 256, 0,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(packs, 1, 64, 0, 0, o, i); }},
        {"exp, log, rsqrt, tanh", random_words(12, 64), 256, 4e-6,
         [](uint32_t *o, const uint32_t *i) { LAUNCH(functions, 1, 64, 0, 0, o, i); }},
    };
}

static bool good(cudaError_t e, const char *what)
{
    if (e != cudaSuccess)
        printf("# %s: %s\n", what, cudaGetErrorString(e));
    return e == cudaSuccess;
}

static bool run(const Row &r, std::vector<uint32_t> *out)
{
    uint32_t *in = nullptr, *o = nullptr;
    out->assign(r.out, 0);
    bool ok = good(cudaMalloc((void **)&in, r.in.size() * 4), "memory") &&
              good(cudaMalloc((void **)&o, r.out * 4), "memory") &&
              good(cudaMemcpy(in, r.in.data(), r.in.size() * 4, cudaMemcpyHostToDevice), "copy") &&
              good(cudaMemset(o, 0, r.out * 4), "clear");
    if (ok) {
        r.launch(o, in);
        ok = good(cudaGetLastError(), "launch") && good(cudaDeviceSynchronize(), "run") &&
             good(cudaMemcpy(out->data(), o, r.out * 4, cudaMemcpyDeviceToHost), "copy back");
    }
    cudaFree(in);
    cudaFree(o);
    return ok;
}

/* How far the words, as floats, are apart; 0 also for equal bits. */
static double apart(uint32_t a, uint32_t b)
{
    float x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    double d = fabs((double)x - (double)y) / fmax(1, fabs((double)y));
    return a == b ? 0 : d >= 0 ? d : INFINITY;
}

static bool compare(const Row &r, const std::vector<uint32_t> &got, FILE *f)
{
    std::vector<uint32_t> want(r.out);
    if (fread(want.data(), 4, r.out, f) != r.out) {
        printf("# the file ends early\n");
        return false;
    }
    double worst = 0;
    for (size_t i = 0; i < r.out; i++) {
        bool same = got[i] == want[i];
        if (r.allowed > 0)
            worst = fmax(worst, apart(got[i], want[i]));
        if (r.allowed > 0 ? apart(got[i], want[i]) <= r.allowed : same)
            continue;
        printf("# word %zu is %08x, the emulator has %08x\n", i, got[i], want[i]);
        return false;
    }
    if (worst > 0)
        printf("# off by at most %.2g, %.2g allowed\n", worst, r.allowed);
    return true;
}

int main(int argc, char **argv)
{
    bool write = argc == 3 && strcmp(argv[1], "--write") == 0;
    if (!write && !(argc == 3 && strcmp(argv[1], "--against") == 0)) {
        fprintf(stderr, "usage: primitives --write FILE | --against FILE\n");
        return 2;
    }
    FILE *f = fopen(argv[2], write ? "wb" : "rb");
    if (!f) {
        fprintf(stderr, "primitives: %s does not open\n", argv[2]);
        return 1;
    }
    int n = 0, bad = 0;
    std::vector<uint32_t> out;
    for (const Row &r : rows()) {
        bool ok = run(r, &out);
        if (ok && write)
            ok = fwrite(out.data(), 4, r.out, f) == r.out;
        else if (ok)
            ok = compare(r, out, f);
        bad += !ok;
        printf("%sok %d - %s\n", ok ? "" : "not ", ++n, r.name);
    }
    if (fclose(f) != 0)
        bad++;
    printf("1..%d\n", n);
    return bad != 0;
}
