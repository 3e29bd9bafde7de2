/* ifeval_language: rules that stand in for a trained language guesser and a trained sentence
 * splitter. Approximations: docs/metrics.md has how often they agree with what IFEval uses.
 *
 * Language: the script that most letters are of decides where only one of the languages is written
 * in it; Latin, Cyrillic, Arabic and Devanagari texts go to the language with the most of its
 * function words and own letters. Codes are ISO 639-1.
 */
#ifndef SCORING_IFEVAL_LANGUAGE_H
#define SCORING_IFEVAL_LANGUAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

bool ifeval_knows_language(struct str code);
/* A text without letters has no language: then any is right, as in the reference. */
bool ifeval_is_language(struct str text, struct str code);
bool ifeval_is_english(struct str text);

/* Sentences end at . ? ! before white space or the end, but not after known abbreviations and single
 * initials; a text that is not blank has at least one. */
int64_t ifeval_sentences(struct str text);

#endif
