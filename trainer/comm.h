/* comm: what ranks say to each other. "self" (one rank) now; "shm", "mpi" and "nccl" behind it.
 *
 * The backend owns the compute queue, comm its own. A collective takes the ticket of the compute
 * queue to start after and returns one to wait for, so overlap can be said. Nothing returns an
 * error: the first failure stays in c->fault, and sync() reports it with rank and host.
 * Sums are taken in rank order, so they are the same on every rank and every run.
 */
#ifndef TRAINER_COMM_H
#define TRAINER_COMM_H

#include "trainer/backend.h"

struct comm;
struct comm_ops {
    int abi; /* BACKEND_ABI */
    const char *name;
    int (*open)(struct comm *c, struct backend *b, struct err *e);
    void (*close)(struct comm *c);
    ticket (*all_reduce)(struct comm *c, struct tensor *t, ticket after); /* sum, in place */
    /* part = this rank's 1/world of the sum over ranks of whole. With one rank part is whole: they
     * must be the same storage, here and in all_gather. */
    ticket (*reduce_scatter)(struct comm *c, struct tensor *part, const struct tensor *whole,
                             ticket after);
    ticket (*all_gather)(struct comm *c, struct tensor *whole, const struct tensor *part,
                         ticket after);
    ticket (*broadcast)(struct comm *c, struct tensor *t, int root, ticket after);
    int (*sync)(struct comm *c, struct err *e);
};
struct comm {
    const struct comm_ops *ops;
    int rank, world, local;
    struct backend *backend;
    void *impl;
    struct err fault;
    bool failed;
};

/* Registry (trainer/comms.c). rank, world and local are set by the caller (all 0: one rank). name
 * NULL or "auto": self when world is 1. */
int comm_open(struct comm *c, const char *name, struct backend *b, struct err *e);
void comm_close(struct comm *c);

#endif
