/* answers: what the pure scorers have in common: from a response to an outcome and an answer, and
 * scoring a whole file.
 */
#ifndef SCORING_ANSWERS_H
#define SCORING_ANSWERS_H

#include "scoring/scorer.h"

/* The worth of an answer; *detail says what was matched or why not. */
typedef double answer_fn(const struct item *it, struct str answer, const char **detail,
                         struct arena *a);

/* item, cluster, outcome, and a detail where there is no score; value is NaN. No text is read. */
void score_outcome(const struct item *it, const struct response *r, struct score *out);

/* The detail of a scored answer; says it when the answer was cut. */
void score_detail(struct score *out, const struct response *r, const char *detail, struct arena *a);

/* Fills *out. No response, or one that says the model can't be asked: not_run. One that ended in an error: transport_failed; by a
 * filter: refused; these have no value. Any other text is scored, an empty one too, and one that
 * was cut at its token limit, which the detail then says. */
void score_answer(const struct item *it, const struct response *r, answer_fn *value,
                  struct score *out, struct arena *a);

struct score_counts {
    int64_t outcome[OUTCOME_NOT_RUN + 1];
    int64_t cut;       /* scored, but cut at the token limit */
    int64_t unchecked; /* of not_run: there is a response, but it can't be asked or checked */
    double sum;        /* of value times weight */
    double weight, missing_weight; /* of those that are scored; of the others */
};
/* Scores all items in their order into v[items->n]. A response whose item is not there is an error
 * that names it. Strings live in a, items and responses. */
int score_all(const struct scorer *s, const struct items *items, const struct responses *responses,
              struct score *v, struct score_counts *n, struct arena *a, struct err *e);

#endif
