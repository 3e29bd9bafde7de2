/* choice: items with choices are asked for the log-probabilities of their choices, see
 * REQUEST_LOGPROB in eval/model.h. One response an item, in their order, with the values of all its
 * choices; formats/choice.h says what they mean.
 *
 * Few-shot: before each context stand `shots` rows of another file (or of the same one, never the
 * item itself), drawn without repeats by rng(seed, "shots", the item's id): description, then each
 * row's context, delimiter and right choice, a separator behind each.
 */
#ifndef EVAL_CHOICE_H
#define EVAL_CHOICE_H

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "eval/failed.h"
#include "eval/model.h"
#include "formats/item.h"
#include "formats/task.h"

enum { CHOICE_TAKEN = 26 }; /* the last counts all from there on */

struct choice_counts {
    int64_t items, continuations, tokens;
    int64_t kept;         /* items answered by a run before this one */
    int64_t lost;         /* items of which a context lost its head */
    int64_t invalid;      /* a value that is no number */
    int64_t heard;        /* graded ones whose values are all finite */
    double flat;          /* below 0: what every token of everything has; else they differ */
    int64_t tied, graded; /* graded: items whose right choice is known */
    double sum[4];        /* of worth, by enum choice_norm, over graded valid items */
    int64_t valid[4];
    int64_t gradable; /* graded, and failed ones whose right choice is known */
    int64_t unknown;  /* answered items whose right choice is not known */
    int64_t taken[4]
                 [CHOICE_TAKEN]; /* of those: which (of tied ones the first), by enum choice_norm */
    struct failed failed;        /* FINISH_ERROR */
    struct failed bad;           /* the invalid ones */
    double greedy, nats;         /* sums of the right choice's, over the heard ones */
};

/* Puts shots before the contexts of x, in x's arena. pool: rows to draw from, may be x itself as it
 * was before. Too few rows, or rows without a right choice, are an error. */
int choice_shots(struct items *x, const struct items *pool, const struct task *t, int64_t shots,
                 int64_t seed, struct err *e);

/* Of all that is asked: ids, contexts, delimiters, choices, gold. */
void choice_hash(const struct items *x, char hex[SHA256_HEX]);

/* Asks all; answers in order to out (a record file). While it runs each item's answer goes into a
 * journal beside it (OUT.KEY.journal; KEY: model, items, rule), so a run that was killed asks only for
 * what is missing. What fails again when asked again
 * is recorded so; a failure that may be gone ends with EXIT_INCOMPLETE and no file. c->failed and
 * c->bad are the caller's to release, also after an error. No answer at all is an error. */
int choice_run(struct model *m, const struct items *x, bool apart, const char *out,
               struct choice_counts *c, struct err *e);

#endif
