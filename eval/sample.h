/* sample: one id from one row of logits.
 *
 * Greedy (temperature 0): the largest logit, the lowest id among equals. Otherwise softmax of
 * logits / temperature, restricted to the top_k largest (0: all; equals by lower id) and then to
 * the smallest head of the sorted probabilities that reaches top_p (Holtzman et al. 2020, nucleus
 * sampling; the id that crosses is kept), then to those at least min_p times as likely as the
 * likeliest (Nguyen et al. 2024, arXiv 2407.01082), drawn by the inverse CDF. Sums are in double and
 * the maximum is subtracted first, so a logit of 100 is harmless (trainers.md 11.6).
 * Before all that, greedy too, the repetition penalty (Keskar et al. 2019, arXiv 1909.05858, in the
 * form of Hugging Face): logits of ids that stand in the sequence, prompt included, are divided by
 * it when positive and multiplied when negative.
 * The draw of step t is rng_make(seed, "sample", t): it depends on nothing else.
 */
#ifndef EVAL_SAMPLE_H
#define EVAL_SAMPLE_H

#include <stdint.h>

struct sample_rule {
    double temperature; /* 0: greedy */
    double top_p;       /* 1 (or 0): all */
    int64_t top_k;      /* 0: all */
    double min_p;       /* 0: all */
    double repeat;      /* repetition penalty; 1 (or 0): none */
};

struct sampler; /* scratch for rows of V logits */
struct sampler *sampler_new(int64_t V);
void sampler_free(struct sampler *s); /* NULL is fine */

/* The id, or -1 when a logit is NaN or +inf, or all are -inf: such a row has no distribution. */
int32_t sample_pick(struct sampler *s, const float *logits, const struct sample_rule *rule,
                    uint64_t seed, uint64_t step);

/* The logits with the repetition penalty of the n ids seen, each counted once: `logits` itself when
 * there is none, else a copy that lives until the next call. Ids outside of V are passed over. */
const float *sample_repeat(struct sampler *s, const float *logits, const int32_t *seen, int64_t n,
                           double penalty);

#endif
