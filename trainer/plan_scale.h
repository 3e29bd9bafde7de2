/* plan_scale: the same run on 1 to 1,024 devices, by an alpha-beta model of its communication.
 *
 * A message of m bytes takes alpha + m / beta (Hockney, Parallel Computing 20, 1994). Gradients are
 * summed by a ring inside of each machine (reduce-scatter), rings between machines over the shares,
 * and a ring inside again (all-gather); a ring of p does p - 1 messages of 1/p of the data each way
 * (Patarasu and Yuan, J. Parallel Distrib. Comput. 69, 2009). All but the last bucket hides behind
 * the backward half of the last pass. The global batch stays; devices without a sequence idle.
 */
#ifndef TRAINER_PLAN_SCALE_H
#define TRAINER_PLAN_SCALE_H

#include <stdio.h>

#include "trainer/plan.h"

struct scale_options {
    double link_gbs, link_us, net_gbs, net_us;
    int64_t node;           /* devices of a machine */
    double gradient_bytes;  /* of one step, summed over all devices */
    double bucket_bytes;    /* summed at once */
    double overlap;         /* share of the backward pass that can hide communication */
    double device_flops;    /* FLOP/s that one device reaches */
    double flops_token;     /* with recomputation */
    int64_t batch, context; /* sequences of a step, tokens of one */
    int64_t micro;          /* most sequences at once; 0: any */
};
struct scale {
    int64_t devices, busy, per_device, passes;
    double compute, comm, exposed, step; /* seconds of a step */
    double tokens_per_s, efficiency;     /* of linear, against one device */
};
void plan_scale(struct scale *s, const struct scale_options *o, int64_t devices);
/* Seconds of one sum over `devices` of `bytes`. */
double plan_allreduce(const struct scale_options *o, int64_t devices, double bytes);
/* What is assumed for a machine, from its file or else from defaults that are said. */
struct scale_options plan_scale_options(const struct plan_result *p, const struct plan_options *o);
void plan_print_scale(const struct plan_result *p, const struct plan_options *o, FILE *to);

#endif
