/* lt_load: finds cuBLASLt at run time, of the major version that this object was built with. */
#include "trainer/cuda/lt.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "trainer/cuda/find.h"

enum { MAJOR = CUDART_VERSION / 1000 };

static void *open_library(struct err *e)
{
    static const char *const homes[] = {"CUDA_HOME", NULL};
    char name[32], why[256];
    snprintf(name, sizeof name, "libcublasLt.so.%d", MAJOR);
    void *so = find_library(name, homes, why, sizeof why);
    if (!so)
        err_set(e, "matrix products need cuBLASLt %d (%s); install it or set CUDA_HOME", MAJOR,
                why);
    return so;
}

int lt_load(struct lt_api *api, struct err *e)
{
    const struct {
        const char *name;
        void *at; /* a pointer to a function pointer */
    } rows[] = {
        {"cublasLtCreate", &api->create},
        {"cublasLtDestroy", &api->destroy},
        {"cublasLtGetVersion", &api->version},
        {"cublasLtMatmulDescCreate", &api->desc_create},
        {"cublasLtMatmulDescDestroy", &api->desc_destroy},
        {"cublasLtMatmulDescSetAttribute", &api->desc_set},
        {"cublasLtMatrixLayoutCreate", &api->layout_create},
        {"cublasLtMatrixLayoutDestroy", &api->layout_destroy},
        {"cublasLtMatmulPreferenceCreate", &api->preference_create},
        {"cublasLtMatmulPreferenceDestroy", &api->preference_destroy},
        {"cublasLtMatmulPreferenceSetAttribute", &api->preference_set},
        {"cublasLtMatmulAlgoGetHeuristic", &api->heuristic},
        {"cublasLtMatmul", &api->matmul},
    };
    void *so = open_library(e);
    if (!so)
        return -1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(so, rows[i].name);
        if (!symbol)
            return err_set(e, "cuBLASLt has no %s", rows[i].name);
        memcpy(rows[i].at, &symbol, sizeof symbol); /* ISO C has no other way */
    }
    return 0;
}
