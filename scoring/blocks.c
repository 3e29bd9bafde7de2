/* blocks: see scoring/blocks.h. */
#include "scoring/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

enum { ORDERS = 24 };

void blocks_init(struct blocks *b, int32_t models, int32_t size, uint64_t seed)
{
    *b = (struct blocks){.models = models, .size = size, .seed = seed};
    b->met = mem_array((size_t)models * (size_t)models, sizeof *b->met);
    b->filled = mem_array((size_t)models, sizeof *b->filled);
}

void blocks_release(struct blocks *b)
{
    free(b->met);
    free(b->filled);
    *b = (struct blocks){0};
}

static int64_t *met_of(const struct blocks *b, int32_t x, int32_t y)
{
    return &b->met[(size_t)x * (size_t)b->models + (size_t)y];
}

/* How unbalanced the pairs get: the sum of squares grows by 2 met + 1 a pair. */
static double cost_of(const struct blocks *b, const int32_t *v, int32_t n)
{
    double sum = 0;
    for (int32_t from = 0; from < n; from += b->size)
        for (int32_t i = from; i < from + b->size && i < n; i++)
            for (int32_t k = i + 1; k < from + b->size && k < n; k++)
                sum += (double)*met_of(b, v[i], v[k]);
    return sum;
}

static void count_pairs(struct blocks *b, const int32_t *block)
{
    for (int32_t i = 0; i < b->size && block[i] >= 0; i++)
        for (int32_t k = 0; k < b->size && block[k] >= 0; k++)
            if (i != k)
                ++*met_of(b, block[i], block[k]);
}

/* The one of the earlier blocks that has filled least; ties by their order. */
static int32_t next_filler(struct blocks *b, const int32_t *v, int32_t n, const int32_t *last,
                           int32_t have)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t in = 0;
        for (int32_t k = 0; k < have; k++)
            in += last[k] == v[i];
        if (!in && (best < 0 || b->filled[v[i]] < b->filled[best]))
            best = v[i];
    }
    return best;
}

int32_t blocks_item(struct blocks *b, const int32_t *who, int32_t n, uint64_t item, int32_t *out)
{
    int32_t count = (n + b->size - 1) / b->size;
    int32_t *v = mem_array((size_t)n * 2 + 1, sizeof *v), *try = v + n;
    double best = 0;
    for (int o = 0; o < ORDERS; o++) {
        struct rng r = rng_make(b->seed + (uint64_t)o, "blocks", item);
        memcpy(try, who, (size_t)n * sizeof *try);
        rng_shuffle(&r, try, (size_t)n, sizeof *try);
        double cost = cost_of(b, try, n);
        if (o == 0 || cost < best) {
            best = cost;
            memcpy(v, try, (size_t)n * sizeof *v);
        }
    }
    memcpy(out, v, (size_t)n * sizeof *out);
    for (int32_t i = n; i < count * b->size; i++) {
        int32_t *last = &out[(count - 1) * b->size];
        out[i] = next_filler(b, v, n, last, (int32_t)(&out[i] - last));
        if (out[i] >= 0)
            b->filled[out[i]]++;
    }
    for (int32_t k = 0; k < count; k++)
        count_pairs(b, &out[k * b->size]);
    free(v);
    return count;
}
