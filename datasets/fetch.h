/* fetch: brings a known source, a URL or a file to its place, checked, with a manifest. */
#ifndef DATASETS_FETCH_H
#define DATASETS_FETCH_H

#include <stdint.h>

#include "base/err.h"

struct fetch {
    const char *what;   /* name of a source, an http(s) or file URL, or a path */
    const char *out;    /* a file; for a source of several files a folder */
    const char *mirror; /* "" or a folder or URL that replaces the source's host */
    const char *sha256; /* "" or 64 hex, for a single file */
    int64_t files;      /* at most so many files of the source; 0: all */
    int64_t tries;      /* attempts without progress */
};

/* Prints "SHA256  PATH" of each file that was brought to stdout. A second call with the same
 * arguments finds its manifest and does nothing. What was fetched stays when a later file fails. */
int fetch_run(const struct fetch *f, struct err *e);

/* The same for a source that may stand in no table. */
struct source;
int fetch_source(const struct source *s, const struct fetch *f, struct err *e);

#endif
