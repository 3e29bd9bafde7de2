/* record_pack: one struct as one msgpack map and back. Inside formats only; see record.h.
 *
 * A payload is bytes from outside: it is measured before msgpack-c sees it, so that an element
 * count or a length that is not backed by bytes allocates nothing.
 */
#ifndef FORMATS_RECORD_PACK_H
#define FORMATS_RECORD_PACK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/field.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#define RECORD_DEPTH    32        /* nested maps and arrays */
#define RECORD_ELEMENTS (1 << 25) /* in one payload; bounds what decoding may allocate */

/* Bytes of the first whole value in s, or 0 and why. */
size_t record_measure(struct str s, struct err *e);
/* Appends the map to out. */
void record_pack(const struct schema *s, const void *rec, struct buf *out);
/* Fills *rec: defaults, then the map. Copies strings to the arena. */
int record_unpack(const struct schema *s, void *rec, struct str payload, struct arena *a,
                  struct err *e);
/* The map as it is, without a table. NULL on error. Binary that is not UTF-8 shows as U+FFFD, an
 * integer above int64 as its digits in a string, an extension as {"ext", "bytes"}. */
struct json *record_unpack_json(struct str payload, struct err *e);

#endif
