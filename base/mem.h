/* mem: memory that is there or the process dies with one sentence, and arenas.
 *
 * Nobody in assay checks malloc: out of memory is not an error a tool can mend. Sizes that come
 * from a file are checked by the reader before they get here. Products of sizes go through
 * mem_array so that an overflow dies instead of wrapping.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t n);                 /* uninitialised; never NULL, also for n = 0 */
void *mem_zero(size_t n);                  /* zeroed */
void *mem_array(size_t count, size_t n);   /* zeroed, count * n checked */
void *mem_grow(void *p, size_t n);         /* realloc */
void *mem_aligned(size_t align, size_t n); /* zeroed; free with free() */
char *mem_strdup(const char *s);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* caller frees */

/* An arena owns many small things that die together. Zeroed is empty; release accepts that.
 * Not for two threads at once. */
struct arena {
    struct arena_block *head;
    size_t used; /* bytes handed out since the last release, for caps */
};

void *arena_alloc(struct arena *a, size_t n); /* zeroed, aligned to 16 */
void *arena_array(struct arena *a, size_t count, size_t n);
char *arena_strdup(struct arena *a, const char *s);
char *arena_bytes(struct arena *a, const void *p, size_t n); /* copy with a NUL behind */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_release(struct arena *a);

#endif
