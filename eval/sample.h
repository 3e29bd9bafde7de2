/* sample: one id from one row of logits.
 *
 * Greedy (temperature 0): the largest logit, the lowest id among equals. Otherwise softmax of
 * logits / temperature, restricted to the top_k largest (0: all; equals by lower id) and then to
 * the smallest head of the sorted probabilities that reaches top_p (Holtzman et al. 2020, nucleus
 * sampling; the id that crosses is kept), drawn by the inverse CDF. Sums are in double and the
 * maximum is subtracted first, so a logit of 100 is harmless (trainers.md 11.6).
 * The draw of step t is rng_make(seed, "sample", t): it depends on nothing else.
 */
#ifndef EVAL_SAMPLE_H
#define EVAL_SAMPLE_H

#include <stdint.h>

struct sample_rule {
    double temperature; /* 0: greedy */
    double top_p;       /* 1 (or 0): all */
    int64_t top_k;      /* 0: all */
};

struct sampler; /* scratch for rows of V logits */
struct sampler *sampler_new(int64_t V);
void sampler_free(struct sampler *s); /* NULL is fine */

/* The id, or -1 when a logit is NaN or +inf, or all are -inf: such a row has no distribution. */
int32_t sample_pick(struct sampler *s, const float *logits, const struct sample_rule *rule,
                    uint64_t seed, uint64_t step);

#endif
