/* map: from borrowed strings to numbers; insertion order is kept. For joining ids. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Zeroed is empty. Keys are borrowed and must outlive the map. */
struct map {
    struct str *key; /* in insertion order, n of them */
    int64_t *value;
    uint32_t *slot; /* 1 + index into key, 0 empty; cap of them, a power of two */
    size_t n, cap;
};
/* Index of the key in insertion order, or -1. */
ptrdiff_t map_find(const struct map *m, struct str key);
/* Adds key with value unless it is there. Returns its index; *added (may be NULL) says which. */
size_t map_add(struct map *m, struct str key, int64_t value, int *added);
void map_release(struct map *m);

#endif
