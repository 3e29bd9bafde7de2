/* ranks: what the ranks of a training run, or of an evaluation, agree on, over trainer/rendezvous.h and trainer/comm.h.
 *
 * With one rank every call is done at once and changes nothing. Sums are taken in rank order from the
 * same numbers on every rank, so decisions made from them are the same everywhere. Rank 0 speaks and
 * writes for all; another rank speaks only when rank 0 is gone.
 */
#ifndef TRAINER_RANKS_H
#define TRAINER_RANKS_H

#include <stdint.h>

#include "base/str.h"
#include "trainer/comm.h"
#include "trainer/gpt2.h"
#include "trainer/reduce.h"

struct ranks {
    struct rendezvous meet;
    struct comm comm;
    struct reducer *reduce; /* NULL: one rank */
    bool many;
    bool agreed; /* the failure is the same on all ranks: nobody has to be told */
};

/* Meets the others; seat NULL: by the environment. Ranks but 0 fall silent; command: as they are called
 * when they must speak. */
int ranks_join(struct ranks *r, const struct rendezvous_seat *seat, const char *command,
               struct err *e);
/* text: lines "key = value" of everything that must be the same. Fails on all ranks, naming the rank,
 * its host and the first line that differs. */
int ranks_same(struct ranks *r, struct str text, struct err *e);
/* Opens comm (name: as comm_open) and joins the model. */
int ranks_open(struct ranks *r, const char *comm, struct backend *b, struct gpt2 *m, struct err *e);
/* The number of the device that this rank opens: its place on the machine, or 0 where
 * CUDA_VISIBLE_DEVICES shows it a single one (Slurm's --gpus-per-task=1). */
int ranks_device(const struct rendezvous *meet);
/* Two ranks on one GPU would wait for each other in NCCL, and each would take the other's memory. 1:
 * some do, and every rank says which; -1 error; 0 no. ranks_open() asks this too. */
int ranks_own_device(struct rendezvous *meet, const struct backend *b, struct err *e);
void ranks_release(struct ranks *r); /* before the model and the backend; accepts a zeroed one */

bool ranks_first(const struct ranks *r); /* this one writes and speaks */
/* Sequences [lo, hi) of n are this rank's: contiguous, as even as can be. */
void ranks_part(const struct ranks *r, int64_t n, int64_t *lo, int64_t *hi);
int ranks_tell(struct ranks *r, void *bytes, size_t n, struct err *e); /* rank 0's to all */
int ranks_sum(struct ranks *r, double *v, int n, struct err *e);       /* n values, in place */

/* What is said of each step. */
struct ranks_step {
    double loss;    /* sum over targets: summed */
    double stalled; /* seconds: the most of any rank */
    int stop;       /* bits: or */
};
int ranks_agree(struct ranks *r, struct ranks_step *s, struct err *e);
/* Do all ranks have the same weights, bit by bit? Names the rank that has others. */
int ranks_equal(struct ranks *r, struct gpt2 *m, int64_t step, struct err *e);

/* At the end. rc < 0: tells the others why (unless agreed), or learns from them; the result is -1 where
 * e is to be said, else the status. */
int ranks_end(struct ranks *r, int rc, struct err *e);

#endif
