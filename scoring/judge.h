/* judge: the pure half of an LLM judge: what it is asked, and what its answer means.
 *
 * Protocol "single": one answer, one integer from 0 to 100. Nothing here does I/O (but reading a
 * prompt file) or knows of connections: pipelines/judge.c owns the loop.
 *
 * A verdict is anchored: a number somewhere in prose is never a score. Accepted are
 *   the whole answer is N or N/100, bare or behind "Score:";
 *   the last line is "Score: N", "Score: N/100", "Score: N out of 100" or "N/100",
 * in any case, with white space or ** around; N is a plain integer 0..100. Two lines of that shape
 * with different numbers, another range, fences, fractions and other digits are no score. A closed
 * <think> block in front is dropped.
 */
#ifndef SCORING_JUDGE_H
#define SCORING_JUDGE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "formats/item.h"

/* Prompts that ship with assay: data, in scoring/prompts.c. */
struct judge_prompt_text {
    const char *name, *text, *source;
};
extern const struct judge_prompt_text judge_prompts[]; /* ended by a row without a name */

struct judge_prompt {
    struct str name, text;
    char hash[65]; /* SHA-256 of the text */
};
/* `name` of a shipped prompt, else a file. Fields in the text are {instruction} {input}
 * {reference} {answer}; {?NAME}...{/NAME} stands only where the field is not empty. {answer} and
 * {instruction} must be there; any other {word} is an error that names it. */
int judge_prompt_load(struct judge_prompt *p, struct str name, struct arena *a, struct err *e);

/* The question about one answer. Fields are put in once: braces inside them stay as they are. */
void judge_question(const struct judge_prompt *p, const struct item *it, struct str answer,
                    struct buf *out);

/* What the judge's response r (NULL: never asked) amounts to. value is NaN unless *outcome is
 * OUTCOME_SCORED; *detail says in a few words what was matched or why there is no score; it lives
 * in the arena. Returns the outcome. */
int judge_verdict(const struct response *r, double *value, struct str *detail, struct arena *a);

/* SHA-256 over item, answer, judge identity and prompt: what a verdict depends on. Each part goes in
 * with its length, so no two different lists of parts have the same bytes. */
void judge_key(const struct item *it, struct str answer, struct str identity,
               const struct judge_prompt *p, char hex[65]);

/* Mean of the scores in 0..100 with what is not known: lo_all, hi_all are the means if every
 * unscored answer had got 0 or 100. */
struct judge_summary {
    int64_t n, count[6]; /* all, by enum outcome */
    double mean, lo, hi; /* of the scored; 95% interval, clusters respected; NaN: not estimable */
    const char *why;     /* no interval: why */
    double lo_all, hi_all;
};
void judge_summarise(const struct score *v, size_t n, struct judge_summary *out);

#endif
