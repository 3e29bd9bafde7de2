/* rng: randomness only from (seed, "name", counter).
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11;
 * constants of that paper), a counter-based generator: the same key and counter give the same bits
 * on every machine, thread count and backend. The name keeps two uses of one seed independent.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>
#include <stddef.h>

/* A stream: draws advance `at`. Copying it forks it. */
struct rng {
    uint64_t key, hi; /* counter = (at, hi) */
    uint64_t at;
    uint32_t out[4];
    int left;
};

struct rng rng_make(uint64_t seed, const char *name, uint64_t counter);
uint64_t rng_key(uint64_t seed, const char *name); /* for rng_at */

/* The four words at (lo, hi) under key: pure, for kernels (dropout, masks). */
void rng_at(uint64_t key, uint64_t lo, uint64_t hi, uint32_t out[4]);

uint32_t rng_u32(struct rng *r);
uint64_t rng_u64(struct rng *r);
double rng_unit(struct rng *r);                /* [0, 1), 53 bits */
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), unbiased; n > 0 */
double rng_normal(struct rng *r);              /* standard normal, Box-Muller in double */
void rng_shuffle(struct rng *r, void *v, size_t n, size_t size);

/* Keyed permutation of [0, n) in O(1) state: 6-round Feistel network with cycle walking.
 * Bijective for every n > 0; used for data order. */
uint64_t rng_permute(uint64_t key, uint64_t n, uint64_t i);

#endif
