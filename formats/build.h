/* build: what this binary is. Filled by the Makefile (formats/build.c gets -D flags). */
#ifndef FORMATS_BUILD_H
#define FORMATS_BUILD_H

struct build_info {
    const char *version;  /* "0.1.0" */
    const char *commit;   /* 40 hex, or "unknown" */
    int dirty;            /* 1: the tree differed from the commit, -1: unknown */
    const char *compiler; /* "gcc 12.2.0" */
    const char *flags;    /* CFLAGS */
};
extern const struct build_info build_info;

#endif
