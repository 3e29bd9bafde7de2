/* metrics: metrics.jsonl, the journal of a training run: one JSON object a line, one line a step.
 *
 * {"step","tokens","loss","lr","norm","ms","ms_data","tokens_per_s","seconds"} always; "epoch", "val_loss"
 * with "ms_val", "ms_comm", "skipped", "loss_scale", "overflow" where there is something to say; and in the rows where the
 * device was asked (trainer/telemetry.h) {"memory","power_w","energy_j","mfu"}, null what it did not
 * say. step counts from 1, loss is in nats a valid target over all micro-batches of the step, norm is
 * before clipping. Numbers that are not finite are
 * null. A run that goes on from a checkpoint cuts the file back to that step first, so no step is
 * there twice; a torn last line is dropped; damage before it is an error that names the line.
 */
#ifndef TRAINER_METRICS_H
#define TRAINER_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct metrics_row {
    int64_t step, tokens, epoch; /* epoch 0: not said */
    double loss, lr, norm;
    double val_loss;    /* NaN: none */
    double ms, ms_data; /* of the step; waiting for data */
    double ms_val;      /* of the validation behind it; 0: none */
    double ms_comm;     /* of the step, standing still for other ranks; 0: none */
    double tokens_per_s;
    double seconds;                        /* of training so far, over all its starts */
    bool skipped;                          /* the update was left out: a spike */
    double loss_scale;                     /* fp16; 0: none */
    bool overflow;                         /* fp16: left out, the loss's scale was too large */
    bool measured;                         /* the four behind are there; NaN what is unknown */
    double memory, power_w, energy_j, mfu; /* bytes on the device, W, J since this start */
};
struct metrics {
    int fd;
    const char *path;
    bool open;
};
/* Keeps the lines of steps <= keep and appends behind them; keep 0 starts an empty file. */
int metrics_open(struct metrics *m, const char *path, int64_t keep, struct err *e);
int metrics_add(struct metrics *m, const struct metrics_row *r, struct err *e);
int metrics_sync(struct metrics *m, struct err *e);
void metrics_close(struct metrics *m);

/* All rows of a file, in the arena. */
int metrics_read(const char *path, struct metrics_row **rows, size_t *n, struct arena *a,
                 struct err *e);
/* q-quantile (0..1) of v by linear interpolation; sorts v. NaN if n is 0. */
double metrics_quantile(double *v, size_t n, double q);

#endif
