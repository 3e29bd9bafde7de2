/* nccl: NVIDIA's collectives, the only door to them. Found at run time (nccl_load.c; tests put their
 * own in its place): a machine with one GPU need not have them.
 *
 * NCCL's header is a package of its own, so what is used of it is declared here, from the reference of
 * NCCL 2 (its numbers have not changed since 2.10). All calls return 0 for success. */
#ifndef TRAINER_CUDA_NCCL_H
#define TRAINER_CUDA_NCCL_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "base/err.h"

enum { NCCL_SUM = 0 };                                                  /* ncclRedOp_t */
enum { NCCL_I32 = 2, NCCL_U64 = 5, NCCL_F16, NCCL_F32, NCCL_BF16 = 9 }; /* ncclDataType_t */
enum { NCCL_IN_PROGRESS = 7 };                                          /* ncclResult_t */
enum { NCCL_LEAST = 21000 }; /* bf16 is there from 2.10 on */

struct nccl_id { /* ncclUniqueId */
    char internal[128];
};
struct ncclComm;

struct nccl_api {
    int (*version)(int *v);
    int (*unique_id)(struct nccl_id *id);
    int (*init)(struct ncclComm **c, int world, struct nccl_id id, int rank);
    int (*destroy)(struct ncclComm *c);
    int (*abort)(struct ncclComm *c);
    int (*async_error)(struct ncclComm *c, int *rc);
    const char *(*error_string)(int rc);
    int (*all_reduce)(const void *send, void *recv, size_t n, int type, int op, struct ncclComm *c,
                      cudaStream_t s);
    int (*reduce_scatter)(const void *send, void *recv, size_t n, int type, int op,
                          struct ncclComm *c, cudaStream_t s);
    int (*all_gather)(const void *send, void *recv, size_t n, int type, struct ncclComm *c,
                      cudaStream_t s);
    int (*broadcast)(const void *send, void *recv, size_t n, int type, int root, struct ncclComm *c,
                     cudaStream_t s);
};
int nccl_load(struct nccl_api *api, struct err *e);

#endif
