/* choice: which choice a model takes, from the log-probabilities in a response. Pure functions.
 *
 * The best is the one with the largest sum / length, length being 1, or the characters, bytes
 * (UTF-8) or tokens of the choice. Characters and bytes are of the choice without its delimiter, as
 * lm-evaluation-harness counts them; tokens are those summed over, as llm.c counts them.
 * k choices tied at the top share it: each is worth 1/k. A log-probability that is NaN or +inf, or a
 * choice without a length, makes the item invalid: no choice is taken.
 */
#ifndef FORMATS_CHOICE_H
#define FORMATS_CHOICE_H

#include "formats/item.h"

enum choice_norm { CHOICE_SUM, CHOICE_CHAR, CHOICE_BYTE, CHOICE_TOKEN, CHOICE_NORMS };
extern const char *const choice_metrics[]; /* "acc", "acc_norm_char", ...; NULL-ended */

/* How the detail of a response begins whose choices can't be asked of its model at all, such as one
 * longer than the context: no failure of a server or network. */
extern const char choice_not_asked[];

struct choice_pick {
    int64_t first, tied; /* the first of `tied` at the top; -1: none is taken */
    double worth;        /* of the gold one: 1/tied if it is among them, else 0 */
    const char *why;     /* NULL; else why there is no worth (static text) */
};
void choice_pick(const struct item *it, const struct response *r, enum choice_norm norm,
                 struct choice_pick *out);

/* What choice i stands behind. */
struct str choice_context(const struct item *it, size_t i);

#endif
