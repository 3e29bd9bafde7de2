/* field: a struct described once.
 *
 * One table of rows gives the command line, the run file, --help, JSON, msgpack records and
 * manifests of a struct. Texts become values through field_parse and only there, so every door
 * accepts and refuses the same things with the same sentence.
 *
 * Members by type:
 *   BOOL bool | I64 int64_t | F64 double | STR struct str | ENUM int (index into choices)
 *   STRS struct strs | F64S struct f64s | I64S struct i64s
 *   STRUCT the sub-struct itself | LIST struct list of sub-structs
 *   REST struct str: undecoded msgpack pairs of unknown keys, so they survive a rewrite
 * Strings and arrays live in the arena passed in. Unset is: NaN for F64 whose def is "", the
 * empty str for STR, INT64_MIN for I64 whose def is "" (written as null / left out). STRUCT, LIST
 * and REST rows take no default: their def is not read. A max below min means "no upper bound".
 */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

enum field_type {
    FIELD_BOOL,
    FIELD_I64,
    FIELD_F64,
    FIELD_STR,
    FIELD_ENUM,
    FIELD_STRS,
    FIELD_F64S,
    FIELD_I64S,
    FIELD_STRUCT,
    FIELD_LIST,
    FIELD_REST,
};

enum field_flag {
    FIELD_POSITIONAL = 1, /* command line: taken in order without a name; STRS takes the rest */
    FIELD_VOLATILE = 2,   /* left out of keys and of "same bytes" (times, hosts, commits) */
    FIELD_HIDDEN = 4,     /* accepted, not in --help */
    FIELD_ABOVE = 8,      /* of numbers: min itself is refused */
};

struct schema;
struct field {
    const char *name; /* key in files, --name on a command line ('_' is accepted as '-') */
    enum field_type type;
    size_t at;                  /* offsetof the member */
    const char *def;            /* default as text; NULL: required */
    double min, max;            /* of numbers, inclusive but for FIELD_ABOVE; both 0: unchecked */
    const char *const *choices; /* ENUM: names, NULL-ended; I64: the one name of 0 */
    const struct schema *sub;   /* STRUCT, LIST */
    const char *help;           /* one line, with the unit */
    unsigned flags;
};
struct schema {
    const char *name; /* "train", "response" */
    int version;
    size_t size;
    const struct field *fields; /* ended by a row without a name */
};
struct list {
    void *v; /* n sub-structs of sub->size bytes each */
    size_t n;
};

#define FIELD_NONE_I64 INT64_MIN

/* Sets every member to its default. A required one (def NULL) is left zero and remembered by
 * schema_args and config_load, which refuse if it stays unset. */
int schema_defaults(const struct schema *s, void *dst, struct arena *a, struct err *e);

/* Sets one member from text. key may be "section.key" for a STRUCT row. Unknown keys are refused
 * with EXIT_USAGE, the near miss and the row's help:
 *   unknown key "train.batchsize"; did you mean "train.batch_size"? (sequences in a global step) */
int schema_set(const struct schema *s, void *dst, const char *key, struct str text, struct arena *a,
               struct err *e);

/* The row of key ("section.key" goes down), or NULL; *member gets the address in dst if dst. */
const struct field *schema_find(const struct schema *s, void *dst, const char *key, void **member);

/* The row whose full name ("section.key") is nearest to an unknown key, and that name; NULL if none
 * is near enough to have been meant. */
const struct field *schema_near(const struct schema *s, const char *key, char name[128]);

/* Refuses the first required key that is not one of the full names ("section.key") in `given`. */
int schema_required(const struct schema *s, struct strs given, struct err *e);

/* Appends, for lists of unknown length; doubles in the arena. */
void strs_push(struct strs *s, struct str x, struct arena *a);

/* Parses argv (without program and command): --name value, --name=value, --flag / --no-flag for
 * BOOL, positionals; "--" ends options. A repeated STRS option appends, each value verbatim; if no
 * row is positional, the words behind it that do not start with '-' are its values too
 * (--in a.txt b.txt). Anything else given twice is refused. Fills defaults first and refuses a
 * required one that was not given. EXIT_USAGE on anything odd. */
int schema_args(const struct schema *s, void *dst, int argc, char **argv, struct arena *a,
                struct err *e);

/* --help text: one row an option with default and range. */
void schema_help(const struct schema *s, FILE *to);

/* A value as text that field_parse reads back to the same bits (%.17g where needed). Lists are
 * comma-separated; an element of STRS with a comma, an edge of white space or a control character
 * is written in double quotes with \\ \" \n \r \t and \xHH inside. */
void field_text(const struct field *f, const void *member, struct buf *out);
int field_parse(const struct field *f, void *member, struct str text, struct arena *a,
                struct err *e);

/* Refuses a number outside the row's range; for doors whose values are not text. */
int field_check(const struct field *f, double v, struct err *e);

/* "key = value" lines, every key in table order, STRUCT rows as "section.key": the canonical text
 * whose hash is a key. Elements of a LIST are "list.0.key". Volatile fields are left out; control
 * characters and backslashes in STR become \xHH, so no value can forge a line. */
void schema_canonical(const struct schema *s, const void *src, struct buf *out);

#endif
