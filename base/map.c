/* map: open addressing over hash64, see map.h. */
#include "base/map.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"

static size_t probe(const struct map *m, struct str key)
{
    size_t mask = m->cap - 1, i = hash64(key.p, key.n, 0) & mask;
    while (m->slot[i] && !str_eq(m->key[m->slot[i] - 1], key))
        i = (i + 1) & mask;
    return i;
}

ptrdiff_t map_find(const struct map *m, struct str key)
{
    if (m->cap == 0)
        return -1;
    return (ptrdiff_t)m->slot[probe(m, key)] - 1;
}

/* Kept at most half full. */
static void grow(struct map *m)
{
    m->cap = m->cap ? m->cap * 2 : 64;
    free(m->slot);
    m->slot = mem_array(m->cap, sizeof *m->slot);
    m->key = mem_grow(m->key, m->cap / 2 * sizeof *m->key);
    m->value = mem_grow(m->value, m->cap / 2 * sizeof *m->value);
    for (size_t k = 0; k < m->n; k++)
        m->slot[probe(m, m->key[k])] = (uint32_t)k + 1;
}

size_t map_add(struct map *m, struct str key, int64_t value, int *added)
{
    if (m->n >= m->cap / 2)
        grow(m);
    size_t i = probe(m, key);
    if (added)
        *added = m->slot[i] == 0;
    if (m->slot[i] == 0) {
        m->key[m->n] = key;
        m->value[m->n] = value;
        m->slot[i] = (uint32_t)++m->n;
    }
    return m->slot[i] - 1;
}

void map_release(struct map *m)
{
    free(m->key);
    free(m->value);
    free(m->slot);
    *m = (struct map){0};
}
