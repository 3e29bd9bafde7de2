/* corpus: the known-answer corpus, texts whose entropy and whose facts are known.
 *
 * Documents are drawn independently from one grammar over a fixed world (corpus_world.c), so the
 * bits of each are known (oracle_bits) and no model can beat their mean except by leak or bug.
 * The facts that the documents state are what the instructions ask about. Questions are split by
 * fact: the questions of a held-out fact are never trained on, the fact itself is stated in the
 * documents like every other.
 */
#ifndef DATASETS_CORPUS_H
#define DATASETS_CORPUS_H

#include <stdint.h>

#include "base/json.h"
#include "datasets/grammar.h"
#include "formats/doc.h"

enum {
    CORPUS_PEOPLE = 24,
    CORPUS_KINDS = 4,
    CORPUS_VALUES = 12, /* of each kind */
    CORPUS_STATEMENTS = 3,
    CORPUS_QUESTIONS = 3,
    CORPUS_GRADES = 5, /* right, reworded, padded, wrong, empty */
};

/* {who} and {what} are the places of the name and the value. */
struct corpus_kind {
    const char *name;
    const char *value[CORPUS_VALUES];
    const char *statement[CORPUS_STATEMENTS]; /* the first is the form of answers */
    const char *question[CORPUS_QUESTIONS];
};
struct corpus_person {
    const char *name;
    const char *value[CORPUS_KINDS];
};
struct corpus_line {
    const char *rule;
    int64_t weight;
    const char *pattern;
};
extern const struct corpus_kind corpus_kinds[CORPUS_KINDS];
extern const struct corpus_person corpus_people[CORPUS_PEOPLE];
extern const struct corpus_line corpus_lines[]; /* ended by a row without a rule */

/* A pattern with {who} and {what} filled in; with `who` every "@" becomes "." and the name, so that
 * rules get their person's own copy. NULL leaves its places as they are. In the arena. */
const char *corpus_fill(struct arena *a, const char *pattern, const char *who, const char *what);

/* The grammar of documents, start rule "document". */
int corpus_grammar(struct grammar *g, struct err *e);
/* Document `index` of the corpus with this seed: does not depend on any other. Strings in a. */
struct doc corpus_doc(const struct grammar *g, uint64_t seed, int64_t index, struct buf *scratch,
                      struct arena *a);

/* "test" for one fact a person (24), "val" for 8 more, else "train". */
const char *corpus_split(int person, int kind);
/* The array of instruct.json: id, instruction, input, output, cluster, split, choices, graded. */
struct json *corpus_instructions(void);
/* truth.json: people, facts with their split and statements, and the grammar's weights. */
struct json *corpus_truth(const struct grammar *g);

#endif
