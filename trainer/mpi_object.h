/* mpi_object: what libassay_mpi.so offers (trainer/comm_mpi.c), the only part that knows MPI.
 *
 * It exports `const struct mpi_object *assay_mpi(int abi)`, NULL when it was built for another
 * BACKEND_ABI, and is opened at run time: assay itself links no MPI.
 */
#ifndef TRAINER_MPI_OBJECT_H
#define TRAINER_MPI_OBJECT_H

#include "trainer/comm.h"

struct mpi_object {
    const struct comm_ops *comm;
    /* MPI_Init once a process; the numbers of this rank. */
    int (*start)(int *rank, int *world, int *local, int *local_world, struct err *e);
    int (*share)(void *bytes, size_t n, struct err *e); /* rank 0's to all, before comm opens */
    void (*stop)(void); /* MPI_Finalize: all ranks must come, so not after a failure */
};

#endif
