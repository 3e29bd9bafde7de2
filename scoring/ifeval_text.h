/* ifeval_text: what the checks need from text, with the meaning of Python's str and re, because
 * that is what the reference is written in.
 */
#ifndef SCORING_IFEVAL_TEXT_H
#define SCORING_IFEVAL_TEXT_H

#include "scoring/ifeval.h"

/* Character classes of Python 3, spelled out so that the library's version decides nothing. */
#define PY_SPACE                                                                                   \
    "\\x09-\\x0d\\x1c-\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"      \
    "\\x{205f}\\x{3000}"
#define PY_WORD  "\\p{L}\\p{N}_"
#define PY_DIGIT "\\p{Nd}"

struct str py_strip(struct str s);                     /* str.strip() */
struct str py_strip_of(struct str s, const char *set); /* str.strip(set); ASCII */
struct str py_word(struct str s);                      /* s.split()[0]; s is not blank */
struct str py_lower(struct str s, struct arena *a);
struct str py_without(struct str s, char c, struct arena *a); /* s.replace(c, "") */
/* s.split(sep), pieces in the arena. */
struct strs py_split(struct str s, struct str sep, struct arena *a);

/* re.findall: spans of all hits in the arena. slot: which of the ask's patterns this is. */
int ifeval_findall(struct ifeval_ask *x, int slot, struct str pattern, unsigned flags,
                   struct str text, struct strs *hits, struct err *e);
/* How many; -1 with e. */
int64_t ifeval_count(struct ifeval_ask *x, int slot, struct str pattern, unsigned flags,
                     struct str text, struct err *e);
/* Python syntax in a pattern that comes with an instruction: \w \b \d \s as Python has them. */
struct str ifeval_pattern(struct str python, struct arena *a);

/* Arguments: false / -1 with e when they are missing or of another kind. */
int ifeval_arg_str(const struct ifeval_ask *x, const char *name, struct str *out, struct err *e);
int ifeval_arg_int(const struct ifeval_ask *x, const char *name, int64_t *out, struct err *e);
/* n `relation` threshold: "less than" or "at least". */
int ifeval_relation(const struct ifeval_ask *x, const char *relation, const char *threshold,
                    int64_t n, struct err *e);

/* As Python's json.loads takes it: scalars, NaN, Infinity and doubled keys are fine. */
bool ifeval_json(struct str s);

#endif
