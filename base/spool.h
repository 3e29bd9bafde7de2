/* spool: big arrays that lie on disk, so that a million of something needs no more memory than a
 * thousand.
 *
 * A spool is bytes without an end, zero where nothing was written, behind a cache of at most 1 MiB.
 * What stays within the cache never reaches the disk; the rest goes to a nameless file in $TMPDIR
 * (else /var/tmp, else /tmp, which may be memory). It is scratch: nothing of it outlives the process,
 * so it is no artefact and goes past struct file_os.
 *
 * Errors stick: a spool that could not be read or written gives zeros from then on, and spool_check
 * says why. Callers look before they use what they got for good. Not for two threads at once.
 */
#ifndef BASE_SPOOL_H
#define BASE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct spool_page;

/* Zeroed is empty. */
struct spool {
    struct spool_page *page; /* direct-mapped cache */
    int fd;                  /* once there is a file: 1 + its descriptor */
    uint64_t end;            /* behind the last byte that was written */
    bool failed;
    struct err why;
};

void spool_read(struct spool *s, uint64_t at, void *p, size_t n);
void spool_write(struct spool *s, uint64_t at, const void *p, size_t n);
uint64_t spool_append(struct spool *s, const void *p, size_t n); /* where it stands */
int spool_check(const struct spool *s, struct err *e);           /* -1 with the first error */
void spool_release(struct spool *s);

/* A hash table on a spool: numbers under hashes. Several may share a hash: the caller compares what
 * the numbers mean. Zeroed is empty. */
struct spool_index {
    struct spool slots;
    uint64_t cap, n;
};
void spool_index_add(struct spool_index *x, uint64_t hash, uint64_t value);
/* The next number under a hash into *value; *probe starts as 0. False: there are no more. */
bool spool_index_next(struct spool_index *x, uint64_t hash, uint64_t *probe, uint64_t *value);
void spool_index_release(struct spool_index *x);

#endif
