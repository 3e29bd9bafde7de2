/* doc: a document is an id and its text, the only thing that goes from datasets to tokenizer.
 *
 * Sources by name: FILE.txt is one document (id: the file's name), FILE.jsonl has one a line with a
 * string field "text" (id: its "id" field, else "FILE:LINE"), each plain or gzip or zstd; a folder
 * is all such files in it, in name order. Text is the bytes between the quotes decoded; in .txt
 * files a UTF-8 BOM at the start is dropped only with `clean`.
 * An id never holds .gz or .zst: packing a file moves no document to another split.
 * Bad UTF-8: policy `replace` (U+FFFD per maximal subpart), `error`, or `raw` (.txt only: JSON text
 * must be UTF-8). Lines over 64 MiB and .txt files over 1 GiB are errors that name the place; so is
 * a file without a document.
 */
#ifndef FORMATS_DOC_H
#define FORMATS_DOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/field.h"
#include "base/mem.h"
#include "base/str.h"

enum bad_utf8 { BAD_UTF8_REPLACE, BAD_UTF8_ERROR, BAD_UTF8_RAW };
extern const char *const bad_utf8_names[]; /* "replace", "error", "raw", NULL */

struct doc {
    struct str id, text;
    double oracle_bits; /* -log2 p(text, end) of a known-answer corpus; NaN if unknown */
};
struct docs;

struct docs *docs_open(struct strs paths, enum bad_utf8 policy, struct err *e);
/* 1 got, 0 end, -1 error. *d is valid until the next call. */
int docs_next(struct docs *r, struct doc *d, struct err *e);
int64_t docs_replaced(const struct docs *r); /* documents that had bad UTF-8 */
double docs_fraction(const struct docs *r);  /* of the bytes of all paths, 0..1 */
/* Remembers the id of the document in hand (or of a piece of it). One that was there before is an error
 * that names both places: what is measured document by document is paired by id. */
int docs_once(struct docs *r, struct str id, struct err *e);
void docs_close(struct docs *r);
/* One JSONL line of a document (id, text, oracle_bits if known). */
void doc_write(const struct doc *d, struct buf *out);
/* True if the document belongs to the held-out split: sha256_u64(id) / 2^64 < share. */
bool doc_held_out(struct str id, double share);

#endif
