/* text: bytes of a model that may end within a character.
 *
 * Byte-level vocabularies split characters over tokens and an untrained model emits bytes that are
 * no UTF-8 at all; what leaves the room as text is well-formed.
 */
#ifndef EVAL_TEXT_H
#define EVAL_TEXT_H

#include "base/buf.h"
#include "base/str.h"

/* Appends s with every maximal ill-formed subpart as one U+FFFD (Unicode 15, section 3.9). */
void text_repair(struct str s, struct buf *out);
/* Bytes of s without a last character that is begun but not ended (0..3 bytes less). */
size_t text_whole(struct str s);

/* Earliest place where one of the stop strings begins in s, looking only at hits that end behind
 * byte `from`; -1: none. */
ptrdiff_t text_stop(struct str s, size_t from, struct strs stops);
/* Bytes at the end of s that could be the beginning of a stop string: what a stream holds back. */
size_t text_held(struct str s, struct strs stops);

#endif
