/* merge: byte pair merging of one piece.
 *
 * A pair table maps two adjacent token ids to the token they become and the rank of that merge; of
 * all pairs in a piece the one of the smallest rank is merged first, of equal ranks the left-most
 * (Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units", ACL
 * 2016, on bytes). The table is immutable once filled and shared by threads; scratch is per thread.
 */
#ifndef TOKENIZER_MERGE_H
#define TOKENIZER_MERGE_H

#include <stddef.h>
#include <stdint.h>

#define PAIR_NONE UINT32_MAX /* the rank of a pair that does not merge */

struct pair {
    uint64_t key; /* left << 32 | right; all ones: empty */
    uint32_t rank, id;
};
struct pair_table {
    struct pair *v;
    uint64_t mask;
    size_t n;
};
/* Adds a pair; one that is there already keeps its first rank and 0 is returned, else 1. */
int pair_add(struct pair_table *t, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
const struct pair *pair_find(const struct pair_table *t, uint32_t left, uint32_t right);
void pair_release(struct pair_table *t);

/* Memory for long pieces, and what was done. Zeroed is ready. */
struct merge_scratch {
    void *p;
    size_t cap;
    uint64_t work; /* pairs looked at and heap moves so far: bounded by n log n, tested */
};
void merge_release(struct merge_scratch *s);

/* Merges the n token ids of a piece (its bytes as tokens) in place; returns how many are left.
 * Short pieces by scanning for the smallest rank, long ones with a heap: O(n log n), no recursion.
 * n < 2^32 - 1. `limit`: only merges of a smaller rank (PAIR_NONE: all). */
size_t merge_ids(const struct pair_table *t, int32_t *ids, size_t n, uint32_t limit,
                 struct merge_scratch *s);

#endif
