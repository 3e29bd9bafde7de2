/* judge: the pure half of an LLM judge: what it is asked, and what its answer means.
 *
 * Nothing here does I/O (but reading a prompt file) or knows of connections: pipelines/judge_ask.c
 * owns the loop. Protocols:
 *   single    one answer, one whole number of the prompt's scale (0..100, or a rubric 1..5)
 *   joint     several answers to one item under labels A, B, C...; JSON {"A": N, "B": N}
 *   pairwise  two answers; A, B or tie
 *
 * A verdict is anchored: a number somewhere in prose is never a score. Accepted are, for "single",
 *   the whole answer or its last line is N, N/TOP or N out of TOP, bare or behind "Score:",
 * in any case, with white space or ** around and nothing else; N is a plain integer of the scale. Two lines of that
 * shape with different numbers, another range, fences, fractions and other digits are no score.
 * For "pairwise" likewise "A", "B" or "tie", bare or behind "Verdict:". JSON (joint, or structured)
 * is the whole answer, at most in one code fence; keys that were not asked for void it. A closed
 * <think> block in front is dropped.
 */
#ifndef SCORING_JUDGE_H
#define SCORING_JUDGE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "formats/item.h"

enum judge_protocol { JUDGE_SINGLE, JUDGE_JOINT, JUDGE_PAIRWISE };
extern const char *const judge_protocol_names[]; /* NULL-ended */
enum { JUDGE_MOST = 26 };                        /* answers in one question: labels A..Z */

/* Prompts that ship with assay: data, in scoring/prompts.c. */
struct judge_prompt_text {
    const char *name, *text, *source;
};
extern const struct judge_prompt_text judge_prompts[]; /* ended by a row without a name */

struct judge_prompt {
    struct str name, text; /* text: without its head lines */
    char hash[65];         /* SHA-256 of the whole text */
    enum judge_protocol protocol;
    int64_t lo, hi; /* the scale */
    int64_t tokens; /* that a verdict may need (joint: for each answer); 0: not said */
};
/* `name` of a shipped prompt, else a file. Fields in the text are {instruction} {input}
 * {reference}, and by protocol {answer}; or {?answers}...{label}...{answer}...{/answers}, which
 * stands once for each answer, and {labels}; or {a} and {b}. {?NAME}...{/NAME} stands only where
 * the field is not empty. {instruction} must be there; any other {word} is an error that names it.
 * The text may begin with lines "#scale LO HI" (0 100) and "#tokens N". */
int judge_prompt_load(struct judge_prompt *p, struct str name, struct arena *a, struct err *e);

/* The question about n answers (single: 1, pairwise: 2, in the order shown). Fields are put in
 * once: braces inside them stay as they are. structured: a last line asks for JSON. */
void judge_question(const struct judge_prompt *p, bool structured, const struct item *it,
                    const struct str *answer, size_t n, struct buf *out);
/* The JSON schema of a verdict: every property required, none else (OpenAI's strict rules). */
void judge_schema(const struct judge_prompt *p, size_t n, struct buf *out);

/* What the judge's response r (NULL: never asked) amounts to: value[n], NaN where there is none
 * (pairwise: one value, 1 for the first answer, 0 for the second, 0.5 for a tie). SCORED only if
 * all have a value; a joint verdict that lacks some is PARSE_FAILED with the others' values. *detail
 * says in a few words what was matched or why there is no score; it lives in the arena. */
int judge_verdict(const struct judge_prompt *p, bool structured, const struct response *r, size_t n,
                  double *value, struct str *detail, struct arena *a);

/* SHA-256 over item, answers in the order shown, judge identity, prompt and the number of the
 * repeat: what a verdict depends on. Each part goes in with its length, so no two different lists
 * of parts have the same bytes. */
void judge_key(const struct item *it, const struct str *answer, size_t n, struct str identity,
               const struct judge_prompt *p, int64_t repeat, char hex[65]);

#endif
