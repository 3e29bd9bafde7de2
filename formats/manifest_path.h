/* manifest_path: names around a manifest. Inside formats only; see manifest.h. */
#ifndef FORMATS_MANIFEST_PATH_H
#define FORMATS_MANIFEST_PATH_H

#include "base/mem.h"

/* The folder that the paths of an artefact's manifest are relative to. In the arena. */
const char *manifest_folder(struct arena *a, const char *artefact);
/* `path` seen from the folder `from`, by text: ".." is resolved, symbolic links are not. */
const char *path_relative(struct arena *a, const char *from, const char *path);

#endif
