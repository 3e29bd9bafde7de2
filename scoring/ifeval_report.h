/* ifeval_report: what stands beside the score: the four numbers over all, over the exact tier and
 * over what has a verdict; each type's; and what answers score that do not answer.
 */
#ifndef SCORING_IFEVAL_REPORT_H
#define SCORING_IFEVAL_REPORT_H

#include "formats/item.h"
#include "scoring/ifeval.h"
#include "scoring/scorer.h"

/* {"tiers": {tier: instructions}, "prompts": {tier: prompts, each in the worst of its instructions'},
 *  "all" | "supported" | "exact": {"prompts", "instructions",
 *  "prompt_strict", ...}, "types": {id: {...}}, "baselines": {"empty" | "echo" | "constant":
 *  over all, and "supported": over what has verdicts}}.
 * all: over every prompt and instruction, unsupported ones and missing answers as not followed.
 * supported: prompts whose instructions all have verdicts and that have an answer; the
 * instructions that have verdicts. exact: the same for the exact tier alone.
 * *note: how many prompts (instructions, for metrics of them) are of which tier, and what answers get
 * by the metric of s that do not answer. It depends on the items alone. */
struct json *ifeval_report(const struct scorer *s, const struct items *items,
                           const struct responses *responses, struct str *note, struct arena *a);

#endif
