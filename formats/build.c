/* build: the facts that the Makefile knows about this binary. */
#include "formats/build.h"

#ifndef BUILD_VERSION
#define BUILD_VERSION "0.0.0"
#endif
#ifndef BUILD_COMMIT
#define BUILD_COMMIT "unknown"
#endif
#ifndef BUILD_DIRTY
#define BUILD_DIRTY -1
#endif
#ifndef BUILD_FLAGS
#define BUILD_FLAGS ""
#endif
#ifdef __clang__
#define BUILD_COMPILER "clang " __clang_version__
#else
#define BUILD_COMPILER "gcc " __VERSION__
#endif

const struct build_info build_info = {
    .version = BUILD_VERSION,
    .commit = BUILD_COMMIT,
    .dirty = BUILD_DIRTY,
    .compiler = BUILD_COMPILER,
    .flags = BUILD_FLAGS,
};
