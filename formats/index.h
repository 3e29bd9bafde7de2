/* index: position of a key, for "the last record of a key wins" and for unique ids.
 *
 * Keys are borrowed and must outlive the index. Zeroed is empty; release accepts that.
 */
#ifndef FORMATS_INDEX_H
#define FORMATS_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct index {
    struct index_slot *slot;
    size_t cap, n;
};

#define INDEX_NONE ((size_t)-1)

size_t index_find(const struct index *x, struct str key); /* INDEX_NONE if absent */
/* The position of key if it is there, else INDEX_NONE after adding it with `at`. */
size_t index_add(struct index *x, struct str key, size_t at);
void index_release(struct index *x);

#endif
