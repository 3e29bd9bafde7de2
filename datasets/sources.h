/* sources: public data that assay knows where to find.
 *
 * Adding one is a row in sources.c (and its files). A hash stands there only if it is published by
 * the makers or pinned by several independent projects; the others are recorded as they arrive.
 */
#ifndef DATASETS_SOURCES_H
#define DATASETS_SOURCES_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct source_file {
    const char *path;   /* below the host; with first <= last a printf pattern with one %06d */
    int first, last;    /* 0, 0: one file */
    const char *sha256; /* 64 hex; NULL: none is known */
};
struct source {
    const char *name, *what, *licence, *host;
    const struct source_file *files; /* in the order of fetching; ended by a row without a path */
    int64_t file_bytes;              /* of each file, where they are large; 0: small */
};
extern const struct source sources[]; /* ended by a row without a name */

const struct source *source_find(const char *name); /* NULL: unknown */
const char *source_near(const char *name);          /* a name close to it, or NULL */
size_t source_count(const struct source *s);        /* files */
/* File i: its path below the host (in the arena) and its hash or NULL. */
const char *source_path(const struct source *s, size_t i, const char **sha256, struct arena *a);

#endif
