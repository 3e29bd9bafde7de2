/* config: run, hardware and task files (INI through inih), then --set, then options.
 *
 * A file has [section] blocks of "key = value"; a schema with one STRUCT row a section describes
 * all of it. `include = other.ini` before any section loads another file of the same folder first
 * (depth 8). Unknown sections and keys are refused with file and line.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include "base/err.h"
#include "base/field.h"
#include "base/str.h"

/* Defaults, then the file, then each "section.key=value" of sets. Required rows must be set. */
int config_load(const struct schema *s, void *dst, const char *path, struct strs sets,
                struct arena *a, struct err *e);
/* The same from text in memory; name is for messages. */
int config_parse(const struct schema *s, void *dst, const char *name, struct str text,
                 struct arena *a, struct err *e);

#endif
