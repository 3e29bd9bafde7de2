/* stand_ins: what the emulated backend has in place of libraries that are found at run time. */
#include "trainer/cuda/impl.h"

int lt_load(struct lt_api *api, struct err *e)
{
    (void)e;
    *api = (struct lt_api){
        .create = cublasLtCreate,
        .destroy = cublasLtDestroy,
        .version = cublasLtGetVersion,
        .desc_create = cublasLtMatmulDescCreate,
        .desc_destroy = cublasLtMatmulDescDestroy,
        .desc_set = cublasLtMatmulDescSetAttribute,
        .layout_create = cublasLtMatrixLayoutCreate,
        .layout_destroy = cublasLtMatrixLayoutDestroy,
        .preference_create = cublasLtMatmulPreferenceCreate,
        .preference_destroy = cublasLtMatmulPreferenceDestroy,
        .preference_set = cublasLtMatmulPreferenceSetAttribute,
        .heuristic = cublasLtMatmulAlgoGetHeuristic,
        .matmul = cublasLtMatmul,
    };
    return 0;
}
