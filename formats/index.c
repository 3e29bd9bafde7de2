/* index: open addressing with linear probing over hash64, at most half full. */
#include "formats/index.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"

struct index_slot {
    struct str key;
    uint64_t hash;
    size_t at;
    bool used;
};

static struct index_slot *probe(const struct index *x, struct str key, uint64_t hash)
{
    size_t i = hash & (x->cap - 1);
    while (x->slot[i].used && (x->slot[i].hash != hash || !str_eq(x->slot[i].key, key)))
        i = (i + 1) & (x->cap - 1);
    return &x->slot[i];
}

static void grow(struct index *x)
{
    struct index old = *x;
    x->cap = old.cap ? old.cap * 2 : 64;
    x->slot = mem_array(x->cap, sizeof *x->slot);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slot[i].used)
            *probe(x, old.slot[i].key, old.slot[i].hash) = old.slot[i];
    free(old.slot);
}

size_t index_find(const struct index *x, struct str key)
{
    if (!x->cap)
        return INDEX_NONE;
    const struct index_slot *s = probe(x, key, hash64(key.p, key.n, 0));
    return s->used ? s->at : INDEX_NONE;
}

size_t index_add(struct index *x, struct str key, size_t at)
{
    if (2 * (x->n + 1) > x->cap)
        grow(x);
    uint64_t hash = hash64(key.p, key.n, 0);
    struct index_slot *s = probe(x, key, hash);
    if (s->used)
        return s->at;
    *s = (struct index_slot){key, hash, at, true};
    x->n++;
    return INDEX_NONE;
}

void index_release(struct index *x)
{
    free(x->slot);
    *x = (struct index){0};
}
