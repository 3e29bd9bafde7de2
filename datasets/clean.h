/* clean: what `--clean` does to a text, and cutting long texts at blank lines. Pure functions. */
#ifndef DATASETS_CLEAN_H
#define DATASETS_CLEAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

/* Appends the cleaned text: a byte order mark at its start goes, CR LF (also CR CR LF) becomes LF, two or more
 * blank lines in a row become one. Nothing else changes: words broken at line ends stay broken, a
 * CR alone and white space at line ends stay. Returns true if anything was changed. */
bool clean_text(struct str text, struct buf *out);

/* Takes the next piece off the front of *rest: whole paragraphs (up to a blank line) until it holds
 * at least `bytes` bytes; where that would be more than twice as much (no blank lines), up to the
 * first line end behind `bytes`; a rest shorter than half of `bytes` joins the piece before it. The blank
 * lines (or the line end) between two pieces belong to neither. False when nothing is left. */
bool clean_piece(struct str *rest, size_t bytes, struct str *piece);

#endif
