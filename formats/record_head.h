/* record_head: records without their bulk. A listing of a thousand results needs no per-item
 * values; leaving them out while the bytes are walked costs neither memory nor decoding.
 */
#ifndef FORMATS_RECORD_HEAD_H
#define FORMATS_RECORD_HEAD_H

#include "formats/record.h"

/* As record_load, but keys named in `without` (NULL-ended; "metrics.ids" goes into maps and lists of
 * maps) are passed over and keep their defaults. Checksum and structure are checked all the same. */
int record_load_without(const char *path, const struct schema *s, const char *const *without,
                        void *rec, struct arena *a, struct err *e);

/* The map in `payload` without those keys, appended to out. */
int record_slim(struct str payload, const char *const *without, struct buf *out, struct err *e);

#endif
