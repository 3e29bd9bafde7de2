/* command: what the command line offers, one const struct a cmd_*.c file.
 *
 * cmd_x.c is options and glue only; pipelines/main.c lists all commands. run() returns an
 * enum exit_code, or -1 with the sentence in e (then e->code is the status).
 */
#ifndef BASE_COMMAND_H
#define BASE_COMMAND_H

#include "base/err.h"
#include "base/field.h"

struct command {
    const char *room, *name; /* name may be two words: "vocab train" */
    const char *summary;     /* one line for `assay help` */
    const char *details;     /* paragraphs for `assay help NAME`; may be NULL */
    const struct schema *options;
    int (*run)(void *opt, struct arena *a, struct err *e);
};

#endif
