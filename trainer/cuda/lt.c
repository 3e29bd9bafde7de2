/* lt: plans for matrix products, kept by shape, see lt.h. */
#include "trainer/cuda/lt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* What decides a plan: the product without its pointers. */
struct key {
    int32_t type, out_type, ta, tb, accumulate, tf32, epilogue, align;
    int64_t m, n, k, lda, ldb, ldd;
};
struct plan {
    struct plan *next;
    struct key key;
    bool works;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
};
enum { BUCKETS = 64 };
struct lt {
    struct lt_api api;
    cublasLtHandle_t handle;
    struct plan *plan[BUCKETS];
    char version[32];
};

struct lt *lt_new(struct err *e)
{
    struct lt *t = mem_zero(sizeof *t);
    if (lt_load(&t->api, e) < 0)
        goto fail;
    cublasStatus_t rc = t->api.create(&t->handle);
    if (rc != CUBLAS_STATUS_SUCCESS) {
        err_set(e, "cublasLtCreate: status %d", (int)rc);
        goto fail;
    }
    size_t v = t->api.version();
    snprintf(t->version, sizeof t->version, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return t;
fail:
    free(t);
    return NULL;
}

void lt_free(struct lt *t)
{
    if (!t)
        return;
    for (int i = 0; i < BUCKETS; i++)
        for (struct plan *p = t->plan[i], *next; p; p = next) {
            next = p->next;
            if (p->desc)
                t->api.desc_destroy(p->desc);
            if (p->a)
                t->api.layout_destroy(p->a);
            if (p->b)
                t->api.layout_destroy(p->b);
            if (p->d)
                t->api.layout_destroy(p->d);
            free(p);
        }
    if (t->handle)
        t->api.destroy(t->handle);
    free(t);
}

const char *lt_version(const struct lt *t)
{
    return t->version;
}

static cudaDataType_t data_type(enum dtype t)
{
    return t == DTYPE_BF16 ? CUDA_R_16BF : t == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue(enum lt_epilogue e)
{
    static const cublasLtEpilogue_t known[] = {
        [LT_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
        [LT_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [LT_GELU_BIAS] = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        [LT_BIAS_GRAD] = CUBLASLT_EPILOGUE_BGRADA,
    };
    return known[e];
}

/* How well the pointers are aligned decides which kernels may run: 1 to 16 bytes. */
static int32_t alignment(const struct lt_product *p)
{
    uintptr_t all = (uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->d | (uintptr_t)p->aux |
                    (uintptr_t)p->bias | 16;
    return (int32_t)(all & (~all + 1));
}

static bool set(struct lt *t, cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                const void *value, size_t n)
{
    return t->api.desc_set(d, what, value, n) == CUBLAS_STATUS_SUCCESS;
}

/* The pointers of an epilogue belong to the call, not to the plan. */
static bool set_pointers(struct lt *t, const struct plan *k, const struct lt_product *p,
                         const void *bias, const void *aux)
{
    bool ok = true;
    if (p->epilogue != LT_PLAIN)
        ok = set(t, k->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (p->epilogue == LT_GELU_BIAS)
        ok = ok && set(t, k->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
    return ok;
}

static bool describe(struct lt *t, struct plan *k, const struct lt_product *p)
{
    cublasOperation_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                      tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasComputeType_t compute = p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasLtEpilogue_t ep = epilogue(p->epilogue);
    cudaDataType_t in = data_type(p->type), out = data_type(p->out_type);
    uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, kk = (uint64_t)p->k;
    /* The heuristic reads alignments off these two and nothing behind them: the plan must not count on
     * more than every call with its key has. */
    const void *aligned = (const void *)(uintptr_t)k->key.align;
    if (t->api.desc_create(&k->desc, compute, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS ||
        !set(t, k->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta) ||
        !set(t, k->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb) ||
        !set(t, k->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &ep, sizeof ep))
        return false;
    if (p->epilogue == LT_GELU_BIAS &&
        !set(t, k->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p->ldd, sizeof p->ldd))
        return false;
    return t->api.layout_create(&k->a, in, p->ta ? kk : m, p->ta ? m : kk, p->lda) ==
               CUBLAS_STATUS_SUCCESS &&
           t->api.layout_create(&k->b, in, p->tb ? n : kk, p->tb ? kk : n, p->ldb) ==
               CUBLAS_STATUS_SUCCESS &&
           t->api.layout_create(&k->d, out, m, n, p->ldd) == CUBLAS_STATUS_SUCCESS &&
           set_pointers(t, k, p, aligned, aligned);
}

static bool choose(struct lt *t, struct plan *k, size_t room)
{
    static const cublasLtMatmulPreferenceAttributes_t align[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    uint32_t bytes = (uint32_t)k->key.align;
    bool ok = t->api.preference_create(&pref) == CUBLAS_STATUS_SUCCESS &&
              t->api.preference_set(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
                                    sizeof room) == CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof align / sizeof *align; i++)
        ok = ok &&
             t->api.preference_set(pref, align[i], &bytes, sizeof bytes) == CUBLAS_STATUS_SUCCESS;
    ok = ok && t->api.heuristic(t->handle, k->desc, k->a, k->b, k->d, k->d, pref, 1, &found, &n) ==
                   CUBLAS_STATUS_SUCCESS;
    ok = ok && n > 0 && found.state == CUBLAS_STATUS_SUCCESS;
    if (ok)
        k->algo = found.algo;
    if (pref)
        t->api.preference_destroy(pref);
    return ok;
}

static struct key key_of(const struct lt_product *p)
{
    return (struct key){
        .type = p->type,
        .out_type = p->out_type,
        .ta = p->ta,
        .tb = p->tb,
        .accumulate = p->accumulate,
        .tf32 = p->tf32,
        .epilogue = p->epilogue,
        .align = alignment(p),
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldd = p->ldd,
    };
}

static struct plan *plan_of(struct lt *t, const struct lt_product *p, size_t room)
{
    struct key key = key_of(p); /* no padding: 8 x 4 + 6 x 8 bytes */
    uint64_t hash = (uint64_t)p->m * 31 + (uint64_t)p->n * 17 + (uint64_t)p->k * 7;
    struct plan **bucket = &t->plan[hash % BUCKETS];
    for (struct plan *k = *bucket; k; k = k->next)
        if (memcmp(&k->key, &key, sizeof key) == 0)
            return k;
    struct plan *k = mem_zero(sizeof *k);
    k->key = key;
    k->works = describe(t, k, p) && choose(t, k, room);
    k->next = *bucket;
    *bucket = k;
    return k;
}

enum lt_result lt_run(struct lt *t, const struct lt_product *p, void *workspace, size_t room,
                      cudaStream_t s, int *status)
{
    struct plan *k = plan_of(t, p, room);
    float one = 1, beta = p->accumulate ? 1 : 0;
    if (!k->works || !set_pointers(t, k, p, p->bias, p->aux))
        return LT_UNSUPPORTED;
    cublasStatus_t rc = t->api.matmul(t->handle, k->desc, &one, p->a, k->a, p->b, k->b, &beta, p->d,
                                      k->d, p->d, k->d, &k->algo, workspace, room, s);
    *status = (int)rc;
    if (rc == CUBLAS_STATUS_NOT_SUPPORTED || rc == CUBLAS_STATUS_INVALID_VALUE) {
        k->works = false;
        return LT_UNSUPPORTED;
    }
    return rc == CUBLAS_STATUS_SUCCESS ? LT_DONE : LT_FAILED;
}
