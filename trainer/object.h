/* object: shared objects beside the tool, libassay_NAME.so there or in $ASSAY_LIBDIR.
 *
 * What such an object needs (err, mem, backend_fail) it finds in the tool, which is linked with
 * -rdynamic. One that cannot be loaded (no driver, no MPI on this machine) costs one sentence and
 * never the program: that is what dlopen is for.
 */
#ifndef TRAINER_OBJECT_H
#define TRAINER_OBJECT_H

#include <stdbool.h>

#include "base/err.h"

/* The address of a symbol, to be copied into a pointer to its function; the object stays open. NULL
 * and e: not built, does not load, lacks the symbol. */
void *object_symbol(const char *name, const char *symbol, struct err *e);
bool object_exists(const char *name); /* the file is there; it may still not load */

#endif
