/* rendezvous: how ranks find each other, hear of each other's end, and share small things.
 *
 * A way tells a rank its number and where rank 0 listens:
 *
 *   one         no other rank: nothing is opened
 *   fork        assay train --ranks N started them (trainer/launch.h); socket pairs, no addresses
 *   mpi         mpirun with libassay_mpi.so beside the tool; the address goes through MPI
 *   slurm       srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, the step's first node
 *   env+file    RANK, WORLD_SIZE (LOCAL_RANK), address in a file all see: ASSAY_RENDEZVOUS=PATH
 *   env+tcp     the same with MASTER_ADDR and MASTER_PORT, as torchrun sets them
 *
 * From there all ways are one: each rank holds two stream sockets to rank 0. Over one the calls
 * below go, over the other a thread of each rank tells that it lives. A rank whose socket closes or
 * that is silent for too long ends the job: every rank's next call (and every collective, which
 * asks rendezvous_failed) fails with the sentence "rank 2 on HOST: ...". A rank that does not get
 * that far, because it hangs in a device, is ended by its thread a few seconds later.
 *
 * For small things: everything goes through rank 0. Gradients go through trainer/comm.h.
 * Limits: ASSAY_RANK_START (25) seconds until all ranks are there, ASSAY_RANK_SILENCE (15) seconds
 * without a sign of life.
 *
 * Calls are collective: every rank makes the same ones in the same order, from one thread;
 * rendezvous_failed and rendezvous_why from any. A call of another kind or size on one rank is an
 * error that names it.
 */
#ifndef TRAINER_RENDEZVOUS_H
#define TRAINER_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct rendezvous_impl;
struct rendezvous {
    int rank, world;
    int local,
        local_world; /* number on this machine and how many are on it: the device's ordinal */
    char host[64];   /* of this rank */
    const char *way; /* a name of the table above */
    struct rendezvous_impl *impl; /* NULL: one */
};

/* A rank that the launcher started: see trainer/launch.h. */
struct rendezvous_seat {
    int rank, world;
    int *
        sockets; /* rank 0: two a rank in rank order from rank 1; others: two. rendezvous_open takes it */
};
struct rendezvous_options {
    const struct rendezvous_seat *seat; /* NULL: by the environment */
    double start, silence;              /* seconds; 0: as above */
};

/* Finds out who we are and meets all ranks; fails within `start` naming the ranks that did not
 * come. o may be NULL. */
int rendezvous_open(struct rendezvous *r, const struct rendezvous_options *o, struct err *e);
/* Does the environment say that there are other ranks? */
bool rendezvous_told(void);
/* Whether the limits of the environment are times: for a launcher, before it starts anybody. */
int rendezvous_limits(struct err *e);
/* Leaves in order; after a failure tells nobody. Accepts a zeroed one. */
void rendezvous_close(struct rendezvous *r);

/* root's n bytes into everybody's. */
int rendezvous_share(struct rendezvous *r, int root, void *bytes, size_t n, struct err *e);
/* Everybody's n bytes, in rank order, to everybody: all [world * n]. */
int rendezvous_gather(struct rendezvous *r, const void *mine, size_t n, void *all, struct err *e);
int rendezvous_barrier(struct rendezvous *r, struct err *e);

/* Has a rank died, left too early or given up? Any thread may ask at any time. */
bool rendezvous_failed(const struct rendezvous *r);
/* Fills e with which rank, where and why; returns -1, so: return rendezvous_why(r, e). */
int rendezvous_why(const struct rendezvous *r, struct err *e);
/* Shall this rank say what failed? Rank 0 does, and the others when rank 0 is gone. */
bool rendezvous_speaks(const struct rendezvous *r);
/* What to do before a process that hangs in its device is ended by its thread, from that thread. */
void rendezvous_last_word(struct rendezvous *r, void (*say)(void *ctx, const struct err *why),
                          void *ctx);
/* This rank gives up: all others end with "rank N on HOST: why". */
void rendezvous_abort(struct rendezvous *r, const struct err *why);

#endif
