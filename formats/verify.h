/* verify: re-hash bulk against manifests. */
#ifndef FORMATS_VERIFY_H
#define FORMATS_VERIFY_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct verified {
    int64_t artefacts, files, bytes, sealed;
};

/* The artefact at path (or the one whose manifest path is), and in a folder all artefacts below it;
 * symbolic links to folders are not followed. A line an artefact goes to `to`. The first difference
 * is an error; so is a path without any manifest. Adds to *v. */
int verify_path(const char *path, struct verified *v, FILE *to, struct err *e);

#endif
