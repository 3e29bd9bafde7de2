/* nccl_load: finds NCCL at run time: in NCCL_HOME, CUDA_HOME, where the loader looks, with pip. */
#include <dlfcn.h>
#include <string.h>

#include "trainer/cuda/find.h"
#include "trainer/cuda/nccl.h"

int nccl_load(struct nccl_api *api, struct err *e)
{
    static const char *const homes[] = {"NCCL_HOME", "CUDA_HOME", NULL};
    const struct {
        const char *name;
        void *at; /* a pointer to a function pointer */
    } rows[] = {
        {"ncclGetVersion", &api->version},
        {"ncclGetUniqueId", &api->unique_id},
        {"ncclCommInitRank", &api->init},
        {"ncclCommDestroy", &api->destroy},
        {"ncclCommAbort", &api->abort},
        {"ncclCommGetAsyncError", &api->async_error},
        {"ncclGetErrorString", &api->error_string},
        {"ncclAllReduce", &api->all_reduce},
        {"ncclReduceScatter", &api->reduce_scatter},
        {"ncclAllGather", &api->all_gather},
        {"ncclBroadcast", &api->broadcast},
    };
    char why[256];
    int version = 0;
    void *so = find_library("libnccl.so.2", homes, why, sizeof why);
    if (!so)
        return err_set(e, "several GPUs need NCCL 2 (%s); install it or set NCCL_HOME", why);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(so, rows[i].name);
        if (!symbol)
            return err_set(e, "NCCL has no %s", rows[i].name);
        memcpy(rows[i].at, &symbol, sizeof symbol); /* ISO C has no other way */
    }
    if (api->version(&version) != 0 || version < NCCL_LEAST)
        return err_set(e, "NCCL is %d.%d, 2.10 or later is needed: set NCCL_HOME to one",
                       version / 10000, version / 100 % 100);
    return 0;
}
