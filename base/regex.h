/* regex: PCRE2 (8-bit, UTF, UCP, JIT) behind one door (base/regex.c).
 *
 * Patterns are compiled with UTF and UCP. "No match" and "failed" are different answers: a JIT
 * stack that is too small grows, then the interpreter runs with raised limits, then it is an error
 * that names the offset. A compiled regex may be shared by threads; a struct regex_match may not.
 */
#ifndef BASE_REGEX_H
#define BASE_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct regex;
struct regex_match; /* per thread: match data and JIT stack */

enum regex_flag { REGEX_CASELESS = 1, REGEX_MULTILINE = 2, REGEX_DOTALL = 4 };

struct regex *regex_new(struct str pattern, unsigned flags, struct err *e);
void regex_free(struct regex *r);
struct regex_match *regex_match_new(const struct regex *r);
void regex_match_free(struct regex_match *m);

/* First match of r in the well-formed UTF-8 `subject` at or behind byte `from`. Returns 1 with the
 * span in *start, *end; 0 for no match; -1 with e. The caller validates the UTF-8 once
 * (utf8_valid): this never does. */
int regex_find(const struct regex *r, struct regex_match *m, struct str subject, size_t from,
               size_t *start, size_t *end, struct err *e);
/* Group k of the last match: false if it did not take part. */
bool regex_group(const struct regex_match *m, struct str subject, int k, struct str *out);
const char *regex_version(void); /* "10.42 2022-12-11" */
const char *regex_unicode(void); /* "14.0.0" */

#endif
