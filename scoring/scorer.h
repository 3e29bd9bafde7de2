/* scorer: a pure function of an item and a response. Same inputs, same score.
 *
 * scorers[] (scoring/scorers.c) lists them; adding one is a file and a row.
 */
#ifndef SCORING_SCORER_H
#define SCORING_SCORER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/item.h"

struct scorer {
    const char *name;   /* "exact", "overlap" */
    const char *metric; /* name of the mean: "acc_exact", "f1_overlap" */
    const char *help;
    bool choices;     /* reads log-probabilities of choices, not texts */
    bool constraints; /* checks the items' instructions, so there must be some */
    int version;      /* part of the metric's identity */
    /* r NULL: there is no response (OUTCOME_NOT_RUN, as where there is one that can't be checked).
     * Fills value, outcome, detail, weight. */
    void (*score)(const struct item *it, const struct response *r, struct score *out,
                  struct arena *a);
    /* More about all items, for the manifest's fact "report"; NULL: nothing. Caller frees. *note: one
     * sentence about the items and their scorer, which goes with the value wherever it is shown. */
    struct json *(*report)(const struct scorer *s, const struct items *items,
                           const struct responses *responses, struct str *note, struct arena *a);
};
extern const struct scorer *const scorers[];
const struct scorer *scorer_find(struct str name, struct err *e); /* by its name or its metric's */

#endif
