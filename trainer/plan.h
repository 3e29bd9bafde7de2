/* plan: what a run needs on a machine, before it is rented: memory, micro-batch, time, money.
 *
 * Memory is gpt2_plan(), the list of buffers that train allocates, plus a reserve per device for
 * context and workspaces that is assumed and said. Time is work over speed: FLOP per token by
 * schedule_flops(), speed = devices x peak x a utilisation. The utilisation is, in this order: a
 * measured rate that the caller gives, that of measured runs on the same device (plan_calibrate), one
 * that the caller assumes, that of a roofline (plan_roof.h), or without a bandwidth a flat one; all
 * but the first two are assumptions that are said. Nothing here is looked up from a table of results.
 */
#ifndef TRAINER_PLAN_H
#define TRAINER_PLAN_H

#include <stdio.h>

#include "base/err.h"
#include "formats/result.h"
#include "formats/run.h"
#include "trainer/gpt2.h"

/* Memory of training `batch` sequences at once with this way of recomputing (c->recompute is not
 * read), on a device of this backend: what train allocates there. */
void plan_memory(const struct model_config *m, const struct train_config *c, const char *backend,
                 int64_t batch, enum recompute how, struct gpt2_plan *out);
/* Work of a step against that without recomputation, from 1: a forward pass of all blocks is a third of
 * their training. */
double plan_work(const struct model_config *m, enum recompute how);

/* How fast the device was in runs that were measured. */
struct calibration {
    double utilisation; /* share of the peak; NaN: no such run */
    const char *run;    /* the one nearest in size, borrowed */
    int64_t runs;       /* on this device, for the median */
};
/* Median share of the peak over the results on the same model of device and at the same precision
 * whose number of parameters is within a factor of four; the nearest in size gives its name. */
struct calibration plan_calibrate(const struct result *v, size_t n, const struct hardware *h,
                                  int precision, int64_t parameters, struct arena *a);

struct plan_options {
    const struct run *run;
    const struct hardware *hardware;
    double utilisation;  /* share of the peak, when no rate is given; NaN: by the roofline */
    double matrix_share; /* of the peak, in products; NaN: the hardware file's, or a default */
    double memory_share; /* that passes over memory are assumed to reach */
    double tokens_per_s; /* measured on the whole machine; NaN: none */
    double reserve_gib;  /* of a device, beside the planned buffers */
    int64_t devices;     /* to plan for; 0: one a rank, at most those of the machine */
    struct calibration measured;
};
/* A step of one device, see plan_roof.h. */
struct roof {
    double flops, bytes;
    double matrix, memory, exposed, step; /* seconds; NaN: unknown */
    double device_flops; /* FLOP/s, recomputation not counted, without communication */
};
enum rate_from { RATE_GIVEN, RATE_MEASURED, RATE_ASSUMED, RATE_ROOFLINE };
struct plan_result {
    struct model_config model;                     /* vocab and inner resolved */
    int64_t parameters, tokens, steps, per_device; /* sequences of a step on one device */
    int64_t micro_batch;                           /* largest that fits; 0: none does */
    int64_t largest[RECOMPUTES];                   /* the same for each way of recomputing */
    int64_t fits[2][RECOMPUTES]; /* on a device whatever the batch: of f32, of two bytes a number */
    int64_t devices, accumulation;      /* that the run uses; passes of a step on each of them */
    double flops_token, seconds, money; /* NaN: unknown */
    double utilisation, tokens_per_s;
    struct roof roof;
    enum rate_from rate_from;
    char refused[400]; /* of several machines: why the run is not for this one; "": it is */
};
/* Refuses (usage) what train refuses: a precision that the CPU lacks, devices of another backend, a
 * model that the backend's kernels do not take. plan_make() asks this too. */
int plan_possible(const struct plan_options *o, struct err *e);
int plan_make(struct plan_result *p, const struct plan_options *o, struct err *e);
/* Warns of what the run asks for and this machine cannot do. */
void plan_complain(const struct plan_result *p, const struct plan_options *o);
void plan_print(const struct plan_result *p, const struct plan_options *o, FILE *to);
/* Many machines, one row each; p and o are of n. Those without a price or peak come last. */
void plan_print_many(const struct plan_result *p, const struct plan_options *o, size_t n, FILE *to);

/* A number of hours or money with three digits at least, in out. */
const char *plan_digits(double v, char out[32]);

#endif
