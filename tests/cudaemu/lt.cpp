/* lt: the part of cuBLASLt that the backend calls, in plain loops: column-major, f32 sums, the
 * epilogues. Shapes, types and leading dimensions are checked, and what the library has no fast
 * kernel for (16-byte borders) is refused, so that the caller's other path is taken too.
 */
#include <cublasLt.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cudaemu/emu.hpp"

namespace
{

struct Desc {
    bool tf32 = false;
    cublasOperation_t ta = CUBLAS_OP_N, tb = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void *bias = nullptr, *aux = nullptr;
    int64_t aux_ld = 0;
};
struct Layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
};
struct Job {
    Desc d;
    Layout a, b, o;
    const void *pa, *pb, *pc;
    void *out;
    float alpha, beta;
};

size_t size_of(cudaDataType_t t)
{
    return t == CUDA_R_32F ? 4 : 2;
}

float get(const void *p, cudaDataType_t t, size_t i)
{
    if (t == CUDA_R_16BF)
        return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
    if (t == CUDA_R_16F)
        return __half2float(((const __half *)p)[i]);
    return ((const float *)p)[i];
}

void put(void *p, cudaDataType_t t, size_t i, float v)
{
    if (t == CUDA_R_16BF)
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16(v);
    else if (t == CUDA_R_16F)
        ((__half *)p)[i] = __float2half(v);
    else
        ((float *)p)[i] = v;
}

float gelu(float x)
{
    return .5f * x * (1 + tanhf(.7978845608f * (x + .044715f * x * x * x)));
}

/* tf32 keeps 10 bits of the fraction; to the nearest, ties away. */
float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u)
        bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* op(x) as dense columns [rows][columns] of floats. */
std::vector<float> dense(const void *p, const Layout &l, bool transposed, size_t rows,
                         size_t columns, bool tf32)
{
    std::vector<float> v(rows * columns);
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < rows; i++) {
            float x = get(p, l.type, transposed ? i * (size_t)l.ld + j : j * (size_t)l.ld + i);
            v[j * rows + i] = tf32 && l.type == CUDA_R_32F ? to_tf32(x) : x;
        }
    return v;
}

void multiply(void *arg)
{
    const Job *j = (const Job *)arg;
    size_t m = j->o.rows, n = j->o.columns, k = j->d.ta == CUBLAS_OP_N ? j->a.columns : j->a.rows;
    std::vector<float> a = dense(j->pa, j->a, j->d.ta != CUBLAS_OP_N, m, k, j->d.tf32);
    std::vector<float> b = dense(j->pb, j->b, j->d.tb != CUBLAS_OP_N, k, n, j->d.tf32);
    std::vector<float> c(m);
    cublasLtEpilogue_t e = j->d.epilogue;
    for (size_t i = 0; e == CUBLASLT_EPILOGUE_BGRADA && i < m; i++) {
        double sum = 0;
        for (size_t q = 0; q < k; q++)
            sum += (double)a[q * m + i];
        put(j->d.bias, j->o.type, i, (float)sum);
    }
    bool bias = e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    for (size_t col = 0; col < n; col++) {
        memset(c.data(), 0, m * sizeof(float));
        for (size_t q = 0; q < k; q++) {
            float v = b[col * k + q];
            const float *x = &a[q * m];
            for (size_t i = 0; i < m; i++)
                c[i] += x[i] * v;
        }
        for (size_t i = 0; i < m; i++) {
            size_t at = col * (size_t)j->o.ld + i;
            float v = j->alpha * c[i];
            if (j->beta != 0)
                v += j->beta * get(j->pc, j->o.type, at);
            if (bias)
                v += get(j->d.bias, j->o.type, i);
            if (e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
                put(j->d.aux, j->o.type, col * (size_t)j->d.aux_ld + i, v);
                v = gelu(v);
            }
            put(j->out, j->o.type, at, v);
        }
    }
}

cublasStatus_t check(const Desc *d, const Layout *a, const Layout *b, const Layout *o)
{
    bool ta = d->ta != CUBLAS_OP_N, tb = d->tb != CUBLAS_OP_N;
    uint64_t m = ta ? a->columns : a->rows, k = ta ? a->rows : a->columns;
    uint64_t k2 = tb ? b->columns : b->rows, n = tb ? b->rows : b->columns;
    if (k != k2 || m != o->rows || n != o->columns || a->ld < (int64_t)a->rows ||
        b->ld < (int64_t)b->rows || o->ld < (int64_t)o->rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a->type != b->type || (o->type != a->type && o->type != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const Layout *all[] = {a, b, o};
    for (const Layout *l : all)
        if ((size_t)l->ld * size_of(l->type) % 16)
            return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = (cublasLtHandle_t)malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
        scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    Desc *made = new Desc;
    made->tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    *d = (cublasLtMatmulDesc_t)made;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete (Desc *)d;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t n)
{
    Desc *d = (Desc *)desc;
    const struct {
        cublasLtMatmulDescAttributes_t what;
        void *at;
        size_t n;
    } rows[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &d->ta, sizeof d->ta},
        {CUBLASLT_MATMUL_DESC_TRANSB, &d->tb, sizeof d->tb},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &d->epilogue, sizeof d->epilogue},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->bias, sizeof d->bias},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &d->aux, sizeof d->aux},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d->aux_ld, sizeof d->aux_ld},
    };
    for (const auto &r : rows)
        if (r.what == what) {
            if (n != r.n)
                return CUBLAS_STATUS_INVALID_VALUE;
            memcpy(r.at, value, n);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    *l = (cublasLtMatrixLayout_t) new Layout{type, rows, columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete (Layout *)l;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = (cublasLtMatmulPreference_t)malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t)
{
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t o,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t *found, int *n)
{
    cublasStatus_t s = check((Desc *)d, (Layout *)a, (Layout *)b, (Layout *)o);
    *n = 0;
    if (s != CUBLAS_STATUS_SUCCESS || wanted < 1)
        return s;
    memset(found, 0, sizeof *found);
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *pa, cublasLtMatrixLayout_t a, const void *pb,
                              cublasLtMatrixLayout_t b, const void *beta, const void *pc,
                              cublasLtMatrixLayout_t, void *out, cublasLtMatrixLayout_t o,
                              const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t stream)
{
    cublasStatus_t s = check((Desc *)d, (Layout *)a, (Layout *)b, (Layout *)o);
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    Job *j = new Job{*(Desc *)d, *(Layout *)a, *(Layout *)b,          *(Layout *)o,        pa, pb,
                     pc,         out,          *(const float *)alpha, *(const float *)beta};
    const void *pointers[] = {pa, pb, pc, out, j->d.bias, j->d.aux};
    for (int i = 0; i < 6; i++)
        emu::check_pointer("cublasLtMatmul", i, pointers[i]);
    emu::enqueue(
        stream,
        [](void *v) {
            multiply(v);
            emu::check_borders("cublasLtMatmul");
        },
        j, [](void *v) { delete (Job *)v; });
    return CUBLAS_STATUS_SUCCESS;
}
}
