/* plan_roof: time of a step by a roofline (Williams, Waterman and Patterson, CACM 52:4, 2009).
 *
 * Products run at a share of the peak and passes over memory at a share of the bandwidth, one after
 * the other: a norm does not hide behind a product here. Both shares are assumed and printed. Bytes
 * are of the operations that gpt2_block.c calls, each reading and writing whole tensors once.
 */
#ifndef TRAINER_PLAN_ROOF_H
#define TRAINER_PLAN_ROOF_H

#include "trainer/plan.h"

/* Bytes of one step on one device; a token's are times its tokens. */
enum roof_pass { ROOF_NORMS, ROOF_ATTENTION, ROOF_MLP, ROOF_BIASES, ROOF_HEAD, ROOF_ADAMW, ROOFS };
extern const char *const roof_names[];

struct roof_step {
    int64_t tokens;  /* on this device */
    int64_t passes;  /* micro-batches */
    int64_t devices; /* that share the moments, where zero is on */
};
void plan_roof_bytes(const struct model_config *m, const struct train_config *c,
                     const char *backend, const struct roof_step *s, double bytes[ROOFS]);
/* Fills p->roof and what a device reaches without communication; NaN where peak or bandwidth is not
 * known. p->micro_batch and the rest of the plan are set. */
void plan_roof(struct plan_result *p, const struct plan_options *o);
void plan_print_roof(const struct plan_result *p, const struct plan_options *o, FILE *to);

#endif
