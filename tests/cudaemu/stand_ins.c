/* stand_ins: what the emulated backend has in place of libraries that are found at run time. */
#include "tests/cudaemu/nccl.hpp"
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

int nccl_load(struct nccl_api *api, struct err *e)
{
    (void)e;
    *api = (struct nccl_api){
        .version = emu_nccl_version,
        .unique_id = emu_nccl_unique_id,
        .init = emu_nccl_init,
        .destroy = emu_nccl_destroy,
        .abort = emu_nccl_abort,
        .async_error = emu_nccl_async_error,
        .error_string = emu_nccl_error_string,
        .all_reduce = emu_nccl_all_reduce,
        .reduce_scatter = emu_nccl_reduce_scatter,
        .all_gather = emu_nccl_all_gather,
        .broadcast = emu_nccl_broadcast,
    };
    return 0;
}
