/* split: how a text is cut into pieces before byte pairs are merged.
 *
 * A split pattern is data: a row of split_patterns. Matches follow each other without gaps in all
 * of them; should a pattern ever leave bytes between two matches, those bytes are a piece of their
 * own, so nothing is lost. Each subject (a run of well-formed UTF-8 between special tokens) is cut
 * by itself: look-ahead sees its end as the end of the text.
 *
 * A struct split is immutable and may be shared by threads; a struct splitter is one thread's.
 */
#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

/* Which ASCII character may stand in front of a run of letters in one piece. It allows a short cut
 * in C for the commonest piece, an ASCII word; the pattern decides everything else. */
enum split_lead {
    SPLIT_LEAD_NONE,  /* no short cut */
    SPLIT_LEAD_SPACE, /* U+0020 */
    SPLIT_LEAD_ANY,   /* anything but CR, LF, a letter, a number, and the apostrophe */
};

struct split_pattern {
    const char *name;    /* "gpt2" */
    const char *also;    /* other names, separated by blanks; may be "" */
    const char *pattern; /* for PCRE2 */
    enum split_lead lead;
    /* Texts of the same pattern in tokenizer.json files, NULL-ended; the first is what we write:
     * it means the same to Oniguruma, the engine of Hugging Face. */
    const char *const *published;
};
extern const struct split_pattern split_patterns[]; /* ended by a row without a name */

/* By name; unknown: NULL and a sentence with the names there are (EXIT_USAGE). */
const struct split_pattern *split_find(struct str name, struct err *e);
/* By the text of the pattern as published in a tokenizer.json; NULL if it is none of ours. */
const struct split_pattern *split_find_published(struct str text);

struct split;
struct split *split_new(const struct split_pattern *p, struct err *e);
void split_free(struct split *s); /* NULL is fine */

struct splitter;
/* plain: without the short cut, all by PCRE2; for tests. */
struct splitter *splitter_new(const struct split *s, bool plain);
void splitter_free(struct splitter *s); /* NULL is fine */
/* The piece of the well-formed UTF-8 text that starts at byte `from` < text.n: its end in *end.
 * -1: the regex failed (not: did not match). */
int split_next(struct splitter *s, struct str text, size_t from, size_t *end, struct err *e);

#endif
