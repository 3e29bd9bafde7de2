/* plan: what a run needs on a machine, before it is rented: memory, micro-batch, time, money.
 *
 * Memory is gpt2_plan(), the list of buffers that train allocates, plus a reserve per device for
 * context and workspaces that is assumed and said. Time is work over speed: FLOP per token by
 * schedule_flops(), speed = devices x peak x a utilisation that is assumed and said, or a measured
 * rate that the caller gives. Nothing here is looked up from a table of results.
 */
#ifndef TRAINER_PLAN_H
#define TRAINER_PLAN_H

#include <stdio.h>

#include "base/err.h"
#include "formats/run.h"
#include "trainer/gpt2.h"

struct plan_options {
    const struct run *run;
    const struct hardware *hardware;
    double utilisation;  /* share of the peak, when no rate is given */
    double tokens_per_s; /* measured on the whole machine; NaN: none */
    double reserve_gib;  /* of a device, beside the planned buffers */
};
struct plan_result {
    struct model_config model;                     /* vocab and inner resolved */
    int64_t parameters, tokens, steps, per_device; /* sequences of a step on one device */
    int64_t micro_batch;                           /* largest that fits; 0: none does */
    int64_t devices, accumulation;                 /* passes of a step on each device */
    double flops_token, seconds, money;            /* NaN: unknown */
    double tokens_per_s;
};
int plan_make(struct plan_result *p, const struct plan_options *o, struct err *e);
void plan_print(const struct plan_result *p, const struct plan_options *o, FILE *to);

#endif
