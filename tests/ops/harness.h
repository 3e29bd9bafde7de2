/* harness: arrays that live on the tested backend and on the host at once.
 *
 * A box is a tensor with random content (floats, kept as doubles for the reference). Behind it on
 * the device lies a guard of 16 floats that box_get checks, so a write beyond the end is seen on
 * any backend. Boxes die with the rig.
 */
#ifndef TESTS_OPS_HARNESS_H
#define TESTS_OPS_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/ops/reference.h"
#include "trainer/ops.h"

struct rig {
    struct backend b;
    struct arena arena;
    struct rng rng;
    bool guard_broken;
};
struct box {
    struct tensor t;
    int64_t n;
    double *want; /* what the reference reads or computed */
    float *got;   /* what the device has, after box_get */
};

/* The backend named by argv[1], else $ASSAY_BACKEND, else "cpu". Ends the test run if it does not
 * open. threads 0: all. */
const char *rig_backend(int argc, char **argv);
void rig_open(struct rig *r, const char *backend, int threads);
void rig_close(struct rig *r);

/* Random normal numbers times std around mean. ndim 1..4; unused dimensions 0. */
struct box box_new(struct rig *r, double mean, double std, int ndim, int64_t d0, int64_t d1,
                   int64_t d2, int64_t d3);
void box_put(struct rig *r, struct box *x);                    /* want -> device */
void box_get(struct rig *r, struct box *x);                    /* device -> got */
int32_t *ints_new(struct rig *r, struct tensor *t, int64_t n); /* host array; put with op_put */
uint64_t *ids_new(struct rig *r, struct tensor *t, int64_t n); /* sequence ids, put already */
double *doubles(struct rig *r, int64_t n);
double *copy_of(struct rig *r, const double *x, int64_t n);

/* Largest |got - want| / (|want| + rms of want); infinite for a NaN on one side only. */
double box_error(struct rig *r, struct box *x);
/* Sync; false and the reason as a comment on failure. */
bool rig_ok(struct rig *r);

#endif
