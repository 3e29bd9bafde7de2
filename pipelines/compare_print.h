/* compare_print: what the ways to show a comparison share. Others include compare.h. */
#ifndef PIPELINES_COMPARE_PRINT_H
#define PIPELINES_COMPARE_PRINT_H

#include "pipelines/compare.h"

/* What a difference says, with how it was counted; in the arena. */
const char *compare_says(const struct comparison *c, const struct delta *d, struct arena *a);
/* Options in which the runs differ, by the run file's table; each line begins with `in`. */
void compare_options_differ(const struct comparison *c, enum table_format f, const char *in,
                            struct arena *a, struct buf *out);
/* One row a run and metric, then one a recipe. */
void compare_csv(const struct comparison *c, struct arena *a, struct buf *out);

#endif
