/* telemetry: what a training run says about its machine: memory, power, energy, share of the peak.
 *
 * What nobody tells is NaN here and null in metrics.jsonl and in the manifest: never 0. Devices are
 * asked at the first and the last step and every `every` seconds between, because some take
 * milliseconds to answer; rows between carry no readings. A row tells of the device of the rank that
 * writes the journal: energy since this start. The train state and the manifest are over all ranks,
 * and over all starts: once energy is unknown it stays unknown.
 *
 * Energy is the device's own counter, else power over time (the fact "energy_from" says which).
 *
 * MFU = tokens/s x (6 N + 6 L C T) / peak, where the peak is that of one device at the run's precision
 * times the devices that ranks keep busy: the hardware file's, if it is of this backend and card, else
 * by the device's name in a table, which knows bf16 and fp16 only.
 */
#ifndef TRAINER_TELEMETRY_H
#define TRAINER_TELEMETRY_H

#include "formats/manifest.h"
#include "formats/run.h"
#include "trainer/backend.h"
#include "trainer/metrics.h"

struct clock;

struct telemetry {
    struct clock *clock; /* set before telemetry_begin; NULL: the system's */
    double every;        /* likewise: seconds between readings, 0: half a second */
    struct backend *backend;
    double flops_token, peak; /* peak: FLOP/s of the devices in use; NaN: unknown */
    char peak_from[200];
    bool asked;                   /* in a step */
    double last;                  /* when the device was asked */
    double counter, power;        /* what it said then */
    double energy, energy_taken;  /* J of this start, and what telemetry_used took of it */
    bool by_power;                /* energy has power times time in it */
    double memory_most;           /* bytes, over this start's readings */
    char device[128], driver[64]; /* "": not told */
};

/* Dense bf16 peak of one device by the name that its driver gives, TFLOP/s; NaN: not in the table. */
double telemetry_peak(const char *device);

/* hardware: at the run's precision (hardware_at); NULL: none was given. */
void telemetry_begin(struct telemetry *t, struct backend *b, const struct hardware *hardware,
                     double flops_token, int precision, int world);
/* Fills the row's readings if it is time, or if now is true. r->tokens_per_s is set. */
void telemetry_step(struct telemetry *t, struct metrics_row *r, bool now);
/* Joules of this rank since the last call; for the train state, where the sum over ranks goes. */
double telemetry_used(struct telemetry *t);
/* Facts into the manifest: energy of all ranks and starts, rows of the whole run, rate: median
 * tokens/s, world: ranks. */
void telemetry_facts(const struct telemetry *t, struct stage *s, double energy,
                     const struct metrics_row *rows, size_t n, double rate, int world);

#endif
