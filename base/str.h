/* str: borrowed bytes with a length, never freed, never assumed NUL-terminated.
 *
 * A str points into an arena, a mapped file or a literal that outlives it. Text is bytes: nothing
 * here assumes UTF-8 except the utf8_ calls.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

struct str {
    const char *p;
    size_t n;
};
struct strs {
    struct str *v;
    size_t n;
};
struct f64s {
    double *v;
    size_t n;
};
struct i64s {
    int64_t *v;
    size_t n;
};

/* For printf: "%.*s", STR_ARG(s) */
#define STR_ARG(s) (int)(s).n, (s).p ? (s).p : ""
#define STR_LIT(s) ((struct str){(s), sizeof(s) - 1})

struct str str_z(const char *z); /* of a C string; NULL gives the empty str */
bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
int str_cmp(struct str a, struct str b); /* bytewise order */
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
struct str str_trim(struct str s);                   /* without ASCII white space at both ends */
struct str str_cut(struct str *rest, char sep);      /* up to sep; rest moves behind it */
ptrdiff_t str_find(struct str s, struct str needle); /* offset of the first hit, or -1 */
const char *str_dup(struct arena *a, struct str s);  /* NUL-terminated copy in the arena */
struct str str_copy(struct arena *a, struct str s);
struct str str_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Edit distance of two keys, for "did you mean"; at most 32 characters are compared. */
int str_distance(const char *a, const char *b);

/* Numbers from text: the whole str must be the number. i64 takes the suffixes K M G T or k m g t (1e3..1e12)
 * and underscores between digits; f64 takes what strtod takes but no hex, inf or nan.
 * Return 0, or -1 if it is not a number or out of range. */
int str_i64(struct str s, int64_t *out);
int str_f64(struct str s, double *out);

/* Offset of the first byte that is not well-formed UTF-8 (RFC 3629), or s.n if all is. */
size_t utf8_valid(struct str s);
/* Of a text that starts with an ill-formed sequence: the bytes that one U+FFFD stands for, the
 * maximal subpart of Unicode 15, 3.9: the longest start of a well-formed sequence, at least 1. */
size_t utf8_bad(struct str s);
/* Reads one code point of well-formed UTF-8 at s.p[*at] and moves *at behind it. */
uint32_t utf8_next(struct str s, size_t *at);
/* Writes cp as UTF-8, returns its 1-4 bytes. */
int utf8_put(char out[4], uint32_t cp);

#endif
