/* lower: lower case of Unicode text, one letter at a time (no rule of Greek's last sigma). */
#ifndef BASE_LOWER_H
#define BASE_LOWER_H

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

uint32_t lower_of(uint32_t cp);
/* Appends the lower case of well-formed UTF-8; U+0130 becomes "i" and U+0307, as in Python. */
void lower_text(struct str s, struct buf *out);

#endif
