/* blocks: which answers to one item stand in one question, when there are more than fit.
 *
 * Every model of an item is in exactly one block, blocks have one size, and over the items each
 * model meets each other about equally often: of some seeded orders of an item's models the one is
 * taken whose pairs have met least. What the last block lacks is filled with models that are then
 * judged twice on that item; each model fills about equally often.
 */
#ifndef SCORING_BLOCKS_H
#define SCORING_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct blocks {
    int32_t models, size;
    int64_t *met;    /* [models][models] */
    int64_t *filled; /* [models] */
    uint64_t seed;
};
void blocks_init(struct blocks *b, int32_t models, int32_t size, uint64_t seed);
void blocks_release(struct blocks *b);
/* Splits who[n] (distinct, of 0..models-1) of one item into blocks: out[count * size], where a block
 * that cannot be filled (n < size) ends in -1. item seeds the orders. Returns count. */
int32_t blocks_item(struct blocks *b, const int32_t *who, int32_t n, uint64_t item, int32_t *out);

#endif
