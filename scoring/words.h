/* words: texts made comparable for the exact and overlap scorers. Pure functions. */
#ifndef SCORING_WORDS_H
#define SCORING_WORDS_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/str.h"

/* Lower-case ASCII letters, runs of white space (ASCII and no-break space) to one space, none at the
 * ends, nor punctuation there (ASCII, and typographic quotes, dashes and ellipsis). In the arena. */
struct str words_plain(struct str text, struct arena *a);

/* Looks for whole-word occurrences of the names in the text, leftmost first and of two names at one
 * place the longer, so "New York" is not also "York". Text and names as words_plain makes them; empty
 * names never occur. Returns how many different names occur; *first gets the index of the first. */
int words_named(struct str text, struct strs names, size_t *first);

/* Words for token F1, as the SQuAD evaluation script makes them (Rajpurkar et al. 2016,
 * arXiv 1606.05250): lower-case, ASCII punctuation deleted, cut at white space, articles a, an, the
 * dropped. Sorted bytewise. */
struct strs words_bag(struct str text, struct arena *a);

#endif
