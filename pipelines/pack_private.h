/* pack_private: what pack.c and unpack.c share. */
#ifndef PIPELINES_PACK_PRIVATE_H
#define PIPELINES_PACK_PRIVATE_H

#include <stdbool.h>

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#define PACK_SCHEMA "assay pack"
enum { PACK_VERSION = 1 };

bool pack_is_manifest(const char *name);
/* Whether an artefact came without all of its outputs: by its manifest `rel`, as `sealed` and `verify`
 * see it. there: the files that came. */
bool pack_lacks_output(const struct json *manifest, const char *rel, const struct map *there,
                       struct arena *a);

#endif
