/* schemas: the record kinds that formats knows by name, for readers that are given any file. */
#ifndef FORMATS_SCHEMAS_H
#define FORMATS_SCHEMAS_H

#include "base/field.h"

extern const struct schema *const record_schemas[];  /* ended by NULL */
const struct schema *schema_named(const char *name); /* NULL: unknown */

#endif
