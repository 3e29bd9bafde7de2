/* ifeval_report: what stands beside the score: the four numbers over all, over the exact tier and
 * over what has a verdict; each type's; and what answers score that do not answer.
 */
#ifndef SCORING_IFEVAL_REPORT_H
#define SCORING_IFEVAL_REPORT_H

#include "formats/item.h"
#include "scoring/ifeval.h"

/* {"tiers": {tier: instructions}, "all" | "supported" | "exact": {"prompts", "instructions",
 *  "prompt_strict", ...}, "types": {id: {...}}, "baselines": {"empty" | "echo" | "constant": ...}}.
 * all: over every prompt and instruction, unsupported ones and missing answers as not followed.
 * supported: prompts whose instructions all have verdicts and that have an answer; the
 * instructions that have verdicts. exact: the same for the exact tier alone. */
struct json *ifeval_report(const struct items *items, const struct responses *responses,
                           struct arena *a);

#endif
