/* json: values in and out. jansson behind one door (base/json.c).
 *
 * Parsing is strict UTF-8, refuses duplicate keys, trailing text and nesting deeper than 256, and
 * allows U+0000 in strings. A lone surrogate escape (\ud83d) is an error of the text unless
 * json_parse_lone is used, which turns it into U+FFFD. Integers outside int64 are errors; NaN and
 * infinities are written as null.
 * A value is owned by whoever parsed or made it; json_put and json_push take the child over.
 * Borrowed pointers live as long as their root.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/field.h"
#include "base/str.h"

struct json;
enum json_kind { JSON_NULL, JSON_BOOL, JSON_INT, JSON_REAL, JSON_STR, JSON_ARR, JSON_OBJ };

struct json *json_parse(struct str text, struct err *e);      /* NULL on error: line, column, why */
struct json *json_parse_lone(struct str text, struct err *e); /* lone surrogates become U+FFFD */
struct json *json_read(const char *path, struct err *e);      /* a whole file; BOM skipped */
void json_free(struct json *v);                               /* NULL is fine */

enum json_kind json_kind(const struct json *v);                       /* of NULL: JSON_NULL */
const struct json *json_get(const struct json *obj, const char *key); /* NULL if absent or no obj */
const struct json *json_at(const struct json *arr, size_t i);
size_t json_size(const struct json *v); /* elements or members */
/* Members in insertion order: *it starts as NULL; false at the end. */
bool json_each(const struct json *obj, void **it, const char **key, const struct json **val);

struct str json_str(const struct json *v); /* {NULL, 0} if no string */
double json_num(const struct json *v);     /* int or real; NaN if neither */
int64_t json_int(const struct json *v, int64_t otherwise);
bool json_bool(const struct json *v); /* true only for true */
/* obj.key as a string, or an error naming the key. */
int json_need_str(const struct json *obj, const char *key, struct str *out, struct err *e);

struct json *json_obj(void);
struct json *json_arr(void);
struct json *json_of_str(struct str s); /* invalid UTF-8 is written as U+FFFD */
struct json *json_of_z(const char *z);
struct json *json_of_num(double v); /* NaN, inf: null */
struct json *json_of_int(int64_t v);
struct json *json_of_bool(bool v);
struct json *json_of_null(void);
struct json *json_clone(const struct json *v); /* deep */
void json_put(struct json *obj, const char *key, struct json *v);
void json_push(struct json *arr, struct json *v);

/* Compact, members in insertion order, reals with up to 17 digits (shortest that reads back). */
void json_write(const struct json *v, struct buf *out);
void json_write_pretty(const struct json *v, struct buf *out); /* 2-space indent, LF at the end */
void json_quote(struct str s, struct buf *out);                /* "..." of one string */

/* s with every ill-formed span (Unicode 3.9, maximal subpart) replaced by U+FFFD. */
void json_mend(struct str s, struct buf *out);

/* Structs through their tables. Unset values are left out. skip_volatile drops volatile rows. */
struct json *json_of_struct(const struct schema *s, const void *src, bool skip_volatile);
int json_to_struct(const struct schema *s, void *dst, const struct json *obj, struct arena *a,
                   struct err *e); /* unknown keys are refused, missing ones get defaults */
const char *json_library(void);    /* "2.14" */

#endif
