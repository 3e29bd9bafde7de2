/* lt: matrix products through cuBLASLt (NVIDIA, "cuBLASLt API"), the only door to it.
 *
 * The library is loaded when the first product is wanted, not linked: it is half a gigabyte, and a
 * machine without a driver must not pay for it. lt_load.c finds it; tests put their own in its place.
 *
 * A plan (descriptors, layouts, the first algorithm that the heuristic gives) is made once for each
 * shape and kept. Matrices are column-major here, as the library has them: a row-major y = x w is
 * y^T = w^T x^T.
 */
#ifndef TRAINER_CUDA_LT_H
#define TRAINER_CUDA_LT_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trainer/backend.h"

struct lt_api {
    __typeof__(&cublasLtCreate) create;
    __typeof__(&cublasLtDestroy) destroy;
    __typeof__(&cublasLtGetVersion) version;
    __typeof__(&cublasLtMatmulDescCreate) desc_create;
    __typeof__(&cublasLtMatmulDescDestroy) desc_destroy;
    __typeof__(&cublasLtMatmulDescSetAttribute) desc_set;
    __typeof__(&cublasLtMatrixLayoutCreate) layout_create;
    __typeof__(&cublasLtMatrixLayoutDestroy) layout_destroy;
    __typeof__(&cublasLtMatmulPreferenceCreate) preference_create;
    __typeof__(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    __typeof__(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    __typeof__(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    __typeof__(&cublasLtMatmul) matmul;
};
/* Fills the table; says what is missing. The library stays loaded. */
int lt_load(struct lt_api *api, struct err *e);

enum lt_epilogue {
    LT_PLAIN,
    LT_BIAS,      /* + bias [m], of the type of a */
    LT_GELU_BIAS, /* aux[m, n] = that, then gelu */
    LT_BIAS_GRAD, /* bias [m] = row sums of op(a) */
};
/* d[m, n] (+)= op(a)[m, k] op(b)[k, n], column-major. */
struct lt_product {
    enum dtype type, out_type; /* of a and b; of d */
    bool ta, tb, accumulate, tf32;
    int64_t m, n, k, lda, ldb, ldd;
    enum lt_epilogue epilogue;
    const void *a, *b;
    void *d, *bias, *aux;
};

struct lt;
struct lt *lt_new(struct err *e);
void lt_free(struct lt *t); /* accepts NULL */
const char *lt_version(const struct lt *t);
enum lt_result { LT_DONE, LT_UNSUPPORTED, LT_FAILED };
enum lt_result lt_run(struct lt *t, const struct lt_product *p, void *workspace, size_t room,
                      cudaStream_t s, int *status);

#endif
