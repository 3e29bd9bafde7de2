/* optim: which parameters decay, and the clipped AdamW step (gpt2_update of gpt2.h). */
#ifndef TRAINER_OPTIM_H
#define TRAINER_OPTIM_H

#include "trainer/gpt2.h"

/* Runs of the flat vector with one treatment, merged, covering [0, p->count). rule is an enum
 * decay_rule. The arena owns the result. */
struct adamw_segment *optim_segments(const struct params *p, int rule, struct arena *a, int *n);

/* Factor that brings a gradient of this norm under clip: min(1, clip / (norm + 1e-6)), torch's
 * clip_grad_norm_; 1 when clip is 0. */
double optim_clip(double norm, double clip);

#endif
