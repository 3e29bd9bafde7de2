/* ifeval: instructions that a program can check, the 25 types of IFEval (Zhou et al. 2023, arXiv
 * 2311.07911), with the meaning of its public reference checker.
 *
 * Tiers. exact: the verdict is the reference's. approximated: the reference uses a statistical
 * language guesser or a trained sentence splitter, and we use rules of our own (ifeval_language.h),
 * so verdicts may differ; docs/metrics.md has the measured agreement. unsupported: unknown types,
 * and known ones without their arguments (the reference would draw random ones). An unsupported
 * instruction has no verdict and is never a pass.
 *
 * strict: the answer is not blank and the check passes. loose: any of eight variants passes: as it
 * is, without its first line, without its last, without both, each also without every "*".
 * A closed <think> block at the start is no part of the answer; one that is not closed means the
 * answer was cut.
 */
#ifndef SCORING_IFEVAL_H
#define SCORING_IFEVAL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

enum ifeval_tier { TIER_EXACT, TIER_APPROXIMATED, TIER_UNSUPPORTED };
extern const char *const ifeval_tier_names[]; /* "exact", "approximated", "unsupported", NULL */

/* One instruction while it is checked against the variants of one answer. */
struct regex;
struct regex_match;
struct ifeval_ask {
    const struct json *args;
    struct arena *a;
    struct {
        struct regex *re;
        struct regex_match *m;
    } slot[16]; /* compiled once, used for all variants */
    int slots;
};
/* 1 followed, 0 not, -1 with e: it cannot be checked. text is well-formed UTF-8. */
typedef int ifeval_check_fn(struct ifeval_ask *x, struct str text, struct err *e);
struct ifeval_type {
    const char *id;
    enum ifeval_tier tier;
    ifeval_check_fn *check;
};
extern const struct ifeval_type ifeval_types[]; /* scoring/ifeval_types.c; ended by id NULL */

struct ifeval_verdict {
    enum ifeval_tier tier;
    bool strict, loose;
    struct str id, why; /* why: of unsupported */
};
/* constraint: formats/constraint.h. answer: any bytes. In the arena. */
void ifeval_verdict(struct str constraint, struct str answer, struct ifeval_verdict *v,
                    struct arena *a);
/* The answer without a closed think block; false: the block never closes, so the answer is empty. */
bool ifeval_answer(struct str text, struct str *answer);

#endif
