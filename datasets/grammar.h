/* grammar: a small language whose probabilities are known exactly.
 *
 * A rule is a weighted choice between alternatives; an alternative is text with {references} to
 * other rules. No rule may reach itself, so every text is bounded and a derivation ends with
 * probability 1. The weights are integers, so a draw has exactly the probability weight / total.
 * If every text has one derivation (tests/unit/test_corpus.c parses it back), then -log2 of the
 * text's probability is the sum over the derivation's choices: no model can do better on average.
 *
 * Lines are built with grammar_add in any order and checked once by grammar_close. All memory
 * belongs to the grammar.
 */
#ifndef DATASETS_GRAMMAR_H
#define DATASETS_GRAMMAR_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

struct grammar_piece {
    int rule; /* index of the rule to expand, or -1: text */
    struct str text;
};
struct grammar_alt {
    int64_t weight;
    struct str pattern; /* as it was added */
    struct grammar_piece *piece;
    int pieces;
};
struct grammar_rule {
    const char *name;
    struct grammar_alt *alt;
    int alts, room;
    int64_t total;  /* sum of the weights */
    size_t longest; /* bytes of the longest text, after grammar_close */
    int mark;       /* of the walk in grammar_close */
};
struct grammar {
    struct grammar_rule *rule;
    int rules, room, start;
    struct arena arena;
};

/* Adds one alternative to a rule. An empty pattern is the empty text. */
void grammar_add(struct grammar *g, const char *rule, int64_t weight, const char *pattern);
/* Checks the grammar: every reference is a rule with alternatives, weights are positive, nothing
 * reaches itself. The error names the rule. */
int grammar_close(struct grammar *g, const char *start, struct err *e);
int grammar_find(const struct grammar *g, const char *rule); /* index, or -1 */
/* Appends one text drawn from the start rule; returns -log2 of the derivation's probability. */
double grammar_draw(const struct grammar *g, struct rng *r, struct buf *text);
void grammar_release(struct grammar *g);

#endif
