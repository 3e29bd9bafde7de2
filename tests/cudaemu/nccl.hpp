/* nccl: NCCL's collectives for the emulator, see nccl.cpp. */
#ifndef TESTS_CUDAEMU_NCCL_HPP
#define TESTS_CUDAEMU_NCCL_HPP

#include "trainer/cuda/nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

int emu_nccl_version(int *v);
int emu_nccl_unique_id(struct nccl_id *id);
int emu_nccl_init(struct ncclComm **c, int world, struct nccl_id id, int rank);
int emu_nccl_destroy(struct ncclComm *c);
int emu_nccl_abort(struct ncclComm *c);
int emu_nccl_async_error(struct ncclComm *c, int *rc);
const char *emu_nccl_error_string(int rc);
int emu_nccl_all_reduce(const void *send, void *recv, size_t n, int type, int op,
                        struct ncclComm *c, cudaStream_t s);
int emu_nccl_reduce_scatter(const void *send, void *recv, size_t n, int type, int op,
                            struct ncclComm *c, cudaStream_t s);
int emu_nccl_all_gather(const void *send, void *recv, size_t n, int type, struct ncclComm *c,
                        cudaStream_t s);
int emu_nccl_broadcast(const void *send, void *recv, size_t n, int type, int root,
                       struct ncclComm *c, cudaStream_t s);
#ifdef __cplusplus
}
#endif

#endif
