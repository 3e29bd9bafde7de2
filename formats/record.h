/* record: append-only msgpack record files (*.msgpack), the journal and the artefact form.
 *
 * | bytes | what                                                                    |
 * |   8   | magic "ASSAYREC"                                                        |
 * |   4   | u32 format version, 1                                                   |
 * |   4   | u32 schema version                                                      |
 * |   4   | u32 length of the schema's name, at most 64, then the name              |
 * then per record
 * |   4   | u32 length of the payload, at most 256 MiB                              |
 * |   4   | u32 CRC-32C of the payload                                              |
 * |   n   | payload: one msgpack map, keys are the field names                      |
 *
 * Little-endian. A file whose last record is cut (by a kill) is readable: the torn tail is dropped
 * and said once on stderr, with its number, place and whether it is short or its checksum is wrong. Damage before the last record is an error with its offset; so is a
 * damaged length that would swallow whole records. Unknown keys
 * are kept in the REST row if the schema has one. Integers are written in their shortest form,
 * reals as float64, absent values are left out. Depth is limited to 32.
 * A file of an older schema version is read (new keys get their defaults), one of a newer is not.
 * msgpack-c behind one door: formats/record.c. One struct records is used by one thread.
 */
#ifndef FORMATS_RECORD_H
#define FORMATS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/field.h"
#include "base/json.h"
#include "base/mem.h"

struct records;

enum record_mode {
    RECORD_READ,
    RECORD_WRITE,  /* a new artefact: appears under its name at records_close */
    RECORD_APPEND, /* a journal: locked, a torn tail is cut, each append reaches the kernel */
};

struct records *records_open(const char *path, const struct schema *s, enum record_mode mode,
                             struct err *e);
/* With s = NULL and RECORD_READ any schema is read, by records_next_json only.
 * 1 got, 0 end, -1 failed. Strings and arrays of *rec live in the arena. */
int records_next(struct records *r, void *rec, struct arena *a, struct err *e);
/* The next record as it stands in the file; checked against the table if there is one. */
int records_next_json(struct records *r, struct json **v, struct err *e);
int records_append(struct records *r, const void *rec, struct err *e);
int records_sync(struct records *r, struct err *e); /* journals: fdatasync */
/* Ends it. On WRITE: flush, fsync, rename. Frees r also when it fails. */
int records_close(struct records *r, struct err *e);
void records_abort(struct records *r);        /* WRITE: no file appears. NULL is fine */
bool records_torn(const struct records *r);   /* a torn tail was dropped */
int records_version(const struct records *r); /* schema version in the file */

/* Refuses a path where somebody's file lies that is no record file: a new one would take its place. */
int record_spare(const char *path, struct err *e);

/* Name of the schema that a record file holds, for `assay cat`. */
int records_peek(const char *path, char name[65], int *version, struct err *e);

/* One struct as one msgpack map and back: used for result.msgpack and state.msgpack, which are
 * record files with one record. */
int record_save(const char *path, const struct schema *s, const void *rec, struct err *e);
int record_load(const char *path, const struct schema *s, void *rec, struct arena *a,
                struct err *e);

#endif
