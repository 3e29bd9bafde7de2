/* comm: what ranks say to each other. "self" (one rank), "shm" (ranks of one machine on CPUs), "mpi"
 * (CPU ranks anywhere); "nccl" comes with the CUDA backend.
 *
 * The backend owns the compute queue, comm its own. A collective takes the ticket of the compute
 * queue to start after and returns one of comm's queue for wait(), so overlap can be said. Nothing
 * returns an error: the first failure stays in c->fault, and sync() reports it with rank and host.
 * comm_*() below are what is called: they look at the arguments once for all comms, the table's rows
 * move what is left.
 * Sums are taken in rank order, so they are the same on every rank and every run. bf16 and f16 are
 * summed in f32 and rounded once. A rank that dies ends every collective: an implementation that
 * waits asks rendezvous_failed(c->meet) while it does.
 *
 * nccl lives in libassay_cuda.so beside its backend, which exports
 * `const struct comm_ops *assay_comm(int abi)`, NULL when it was built for another BACKEND_ABI;
 * mpi in libassay_mpi.so (trainer/mpi_object.h).
 */
#ifndef TRAINER_COMM_H
#define TRAINER_COMM_H

#include "trainer/backend.h"
#include "trainer/rendezvous.h"

struct comm;
struct comm_ops {
    int abi; /* BACKEND_ABI */
    const char *name;
    int (*open)(struct comm *c, struct backend *b, struct err *e);
    void (*close)(struct comm *c);
    ticket (*all_reduce)(struct comm *c, struct tensor *t, ticket after); /* sum, in place */
    /* part = this rank's 1/world of the sum over ranks of whole: the whole has world times as many
     * elements. part lies outside of whole or at its own place there, here and in all_gather; what
     * else is in whole afterwards is undefined. With one rank they are the same storage. */
    ticket (*reduce_scatter)(struct comm *c, struct tensor *part, const struct tensor *whole,
                             ticket after);
    ticket (*all_gather)(struct comm *c, struct tensor *whole, const struct tensor *part,
                         ticket after);
    ticket (*broadcast)(struct comm *c, struct tensor *t, int root, ticket after);
    /* What is queued on the backend behind this call starts when ticket t is reached; where the
     * compute queue is the calling thread, it waits. Adds to c->waited. */
    void (*wait)(struct comm *c, ticket t);
    /* All is done, or the first failure. */
    int (*sync)(struct comm *c, struct err *e);
};
struct comm {
    const struct comm_ops *ops;
    int rank, world, local;
    struct rendezvous *meet; /* NULL: one rank */
    struct backend *backend;
    double waited; /* seconds that the compute queue stood still for collectives */
    void *impl;
    struct err fault;
    bool failed;
};

/* Registry (trainer/comms.c). meet NULL: one rank; else it is borrowed and gives rank, world and
 * local. name NULL or "auto": self for one rank, nccl on a cuda backend, shm when all ranks are on this
 * machine, else mpi. */
int comm_open(struct comm *c, const char *name, struct backend *b, struct rendezvous *meet,
              struct err *e);
void comm_close(struct comm *c);

/* The rows of the table behind checks. Behind a failure they queue nothing and return 0, a ticket
 * that nobody waits for. */
ticket comm_all_reduce(struct comm *c, struct tensor *t, ticket after);
ticket comm_reduce_scatter(struct comm *c, struct tensor *part, const struct tensor *whole,
                           ticket after);
ticket comm_all_gather(struct comm *c, struct tensor *whole, const struct tensor *part,
                       ticket after);
ticket comm_broadcast(struct comm *c, struct tensor *t, int root, ticket after);
void comm_wait(struct comm *c, ticket t);
int comm_sync(struct comm *c, struct err *e);

#endif
