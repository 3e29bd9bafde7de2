/* reduce: the gradients of ranks become one while the backward pass still runs; ZeRO-1.
 *
 * The flat vectors are cut into buckets, each bucket into one piece a rank:
 *
 *   | bucket 0: rank 0 | rank 1 | bucket 1: rank 0 | rank 1 | ... | last: rank 0 | rank 1 |
 *
 * Bucket and piece depend on the number of parameters and ranks alone; the last one is padded to a
 * multiple (reduce_extent), with zeros that no parameter uses. Backward fills the vector from its
 * end, so a bucket goes as soon as all behind its beginning is final: summed on all ranks, or with
 * use.zero on the rank that owns the piece, which alone keeps its moments and updates it, before all
 * get the new weights. A shard vector holds a rank's pieces one behind the other.
 */
#ifndef TRAINER_REDUCE_H
#define TRAINER_REDUCE_H

#include "trainer/comm.h"
#include "trainer/gpt2.h"

/* ---- how vectors are cut ---- */

int64_t reduce_extent(int64_t count, int ranks); /* elements to allocate; one rank: count */
int reduce_pieces(int64_t count, int ranks);     /* buckets */
struct reduce_piece {
    int64_t bucket, whole; /* the bucket: where it begins, elements */
    int64_t at, n;         /* the rank's piece: where it begins, elements */
    int64_t used;          /* of these parameters, not padding; 0: none */
    int64_t home;          /* where it begins in a shard vector */
};
struct reduce_piece reduce_piece(int64_t count, int ranks, int rank, int k);

/* ---- a model's gradients ---- */

/* Joins m (opened with the ranks of c) to the comm: both are borrowed. */
struct reducer;
struct reducer *reducer_new(struct gpt2 *m, struct comm *c);
void reducer_free(struct reducer *r); /* NULL is fine; before the model and the comm */

/* A step: begin, then gradients of all this rank's micro-batches, then finish: sums are there when it
 * returns. A rank without a sequence in the step calls rest in their place, at once: the others' buckets
 * wait for its zeros, and it must not wait for the others before it has sent them. */
void reducer_begin(struct reducer *r);
void reducer_rest(struct reducer *r); /* the buckets that have not gone go */
int reducer_finish(struct reducer *r, struct err *e);
int reducer_early(const struct reducer *r); /* buckets that went before finish was called */
int reducer_buckets(const struct reducer *r);

/* Everybody gets rank 0's weights. */
int reducer_weights(struct reducer *r, struct err *e);
/* Everybody gets rank 0's flat vector, through the gradients' place: flat [params count] on the host,
 * filled on rank 0. For moments, which gpt2_put then takes. */
int reducer_spread(struct reducer *r, float *flat, struct err *e);

#endif
