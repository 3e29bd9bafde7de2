/* schedule: how many steps, and the learning rate of each. Pure functions. */
#ifndef TRAINER_SCHEDULE_H
#define TRAINER_SCHEDULE_H

#include <stdint.h>

#include "base/err.h"
#include "formats/run.h"

/* Tokens from "800K", "3.2G", "5000" or "20n" (n: parameters). EXIT_USAGE if it is none. */
int schedule_tokens(struct str text, int64_t parameters, int64_t *tokens, struct err *e);

/* Steps that cover `tokens`: rounded up to whole steps of batch x context. */
int64_t schedule_steps(int64_t tokens, int64_t batch, int64_t context);

/* Learning rate of step 1..steps. Warm-up: linear from lr / W to lr in W = warmup x steps steps
 * (rounded up); then with q running from 0 towards 1 over the rest, as a share of lr above min_lr:
 * constant 1 | linear 1 - q | cosine (1 + cos(pi q)) / 2 (Loshchilov and Hutter, arXiv 1608.03983)
 * | wsd 1 until the last fifth of the steps, there 1 - sqrt(q') (Hagele et al., arXiv 2405.18392). */
double schedule_lr(const struct train_config *c, int64_t step, int64_t steps);

/* FLOP of training on one token: 6 N + 6 L C T, forward and backward, causal attention counted
 * once (the formula of llm.c; N: all parameters, L layers, C width, T positions). */
double schedule_flops(const struct model_config *c, int64_t length);

#endif
