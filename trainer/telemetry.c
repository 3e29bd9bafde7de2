/* telemetry: readings of devices, see telemetry.h. */
#include "trainer/telemetry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define EVERY 0.5

/* Dense peaks of bf16 as nanochat has them (its file common.py, 2026-07), by the names that drivers
 * give: another card of the same chip has other clocks, so only whole names count. */
static const struct {
    const char *name;
    double tflops;
} peaks[] = {
    {"GeForce RTX 3090", 71}, {"GeForce RTX 4090", 165.2}, {"A100-SXM4-40GB", 312},
    {"A100-SXM4-80GB", 312},  {"A100-PCIE-40GB", 312},     {"A100 80GB PCIe", 312},
    {"H100 PCIe", 756},       {"H100 80GB HBM3", 989},     {"H200", 989},
    {"B200", 2250},
};

double telemetry_peak(const char *device)
{
    if (strncmp(device, "NVIDIA ", 7) == 0)
        device += 7;
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (strcmp(device, peaks[i].name) == 0)
            return peaks[i].tflops;
    return NAN;
}

/* Pages of this process in memory: what a backend on the host uses. */
static double resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long long size = 0, pages = 0;
    bool ok = f && fscanf(f, "%lld %lld", &size, &pages) == 2;
    if (f)
        fclose(f);
    return ok ? (double)pages * (double)sysconf(_SC_PAGESIZE) : NAN;
}

static struct device_reading ask(const struct telemetry *t)
{
    struct device_reading r = {
        .memory_used = NAN, .memory_total = NAN, .power_w = NAN, .energy_j = NAN};
    if (t->backend->ops->reading)
        t->backend->ops->reading(t->backend, &r);
    else
        r.memory_used = resident();
    return r;
}

static void find_peak(struct telemetry *t, const struct hardware *h, int precision, int world)
{
    double one = telemetry_peak(t->device);
    struct str backend = str_z(t->backend->ops->name);
    t->peak = NAN;
    snprintf(t->peak_from, sizeof t->peak_from, "unknown");
    if (h && !(hardware_is_of(h, backend) && hardware_is_card(h, str_z(t->device))))
        h = NULL;
    if (h && h->peak_tflops > 0) {
        int64_t used = hardware_used(h, backend, world);
        t->peak = h->peak_tflops * 1e12 * (double)used;
        snprintf(t->peak_from, sizeof t->peak_from, "hardware file %.*s: %lld x %g TFLOP/s",
                 STR_ARG(h->name), (long long)used, h->peak_tflops);
    } else if (!isnan(one) && precision < PRECISION_BF16) {
        snprintf(t->peak_from, sizeof t->peak_from,
                 "unknown: the table of devices has none of %s, and no hardware file sets %s",
                 precision_names[precision], hardware_peak_key(precision));
    } else if (!isnan(one)) {
        t->peak = one * 1e12 * world;
        snprintf(t->peak_from, sizeof t->peak_from, "table of devices, %s: %d x %g TFLOP/s",
                 t->device, world, one);
    }
}

void telemetry_begin(struct telemetry *t, struct backend *b, const struct hardware *hardware,
                     double flops_token, int precision, int world)
{
    *t = (struct telemetry){.clock = t->clock ? t->clock : clock_system(),
                            .every = t->every > 0 ? t->every : EVERY,
                            .backend = b,
                            .flops_token = flops_token};
    struct device_reading r = ask(t);
    memcpy(t->device, r.device, sizeof t->device);
    memcpy(t->driver, r.driver, sizeof t->driver);
    find_peak(t, hardware, precision, world);
    t->counter = r.energy_j;
    t->power = r.power_w;
    t->last = t->clock->now(t->clock);
    t->memory_most = r.memory_used;
}

/* Joules since the last reading. */
static double used(struct telemetry *t, const struct device_reading *r, double seconds)
{
    double counted = r->energy_j - t->counter;
    if (counted >= 0) /* not so for NaN, and for a driver that was loaded anew */
        return counted;
    t->by_power = true;
    return (r->power_w + t->power) / 2 * seconds;
}

static struct device_reading read_now(struct telemetry *t)
{
    double now = t->clock->now(t->clock);
    struct device_reading d = ask(t);
    t->energy += used(t, &d, now - t->last);
    t->counter = d.energy_j;
    t->power = d.power_w;
    t->last = now;
    t->memory_most = fmax(t->memory_most, d.memory_used); /* of a number and NaN: the number */
    return d;
}

void telemetry_step(struct telemetry *t, struct metrics_row *r, bool now)
{
    if (t->asked && !now && t->clock->now(t->clock) - t->last < t->every)
        return;
    struct device_reading d = read_now(t);
    t->asked = true;
    r->measured = true;
    r->memory = d.memory_used;
    r->power_w = d.power_w;
    r->energy_j = t->energy;
    r->mfu = r->tokens_per_s * t->flops_token / t->peak;
}

double telemetry_used(struct telemetry *t)
{
    read_now(t);
    double joules = t->energy - t->energy_taken;
    t->energy_taken = t->energy;
    return joules;
}

/* ---- the manifest ---- */

static void fact(struct stage *s, const char *name, double v)
{
    stage_volatile(s, name, json_of_num(v)); /* null when it is not a number */
}

void telemetry_facts(const struct telemetry *t, struct stage *s, double energy,
                     const struct metrics_row *rows, size_t n, double rate, int world)
{
    double ms = 0, comm = 0, memory = t->memory_most;
    for (size_t i = 0; i < n; i++) {
        ms += rows[i].ms;
        comm += rows[i].ms_comm;
        if (rows[i].measured)
            memory = fmax(memory, rows[i].memory);
    }
    fact(s, "comm_share", ms > 0 ? comm / ms : NAN);
    fact(s, "memory_most", memory);
    fact(s, "energy_j", energy);
    stage_volatile(s, "energy_from",
                   json_of_z(isnan(energy) ? "unknown"
                             : t->by_power ? "power over time"
                                           : "the device's counter"));
    fact(s, "mfu", rate * t->flops_token / t->peak);
    fact(s, "peak_tflops", t->peak / 1e12);
    stage_volatile(s, "peak_from", json_of_z(t->peak_from));
    stage_volatile(s, "backend_name", json_of_z(t->backend->ops->name));
    stage_volatile(s, "ranks", json_of_int(world));
    stage_volatile(s, "device", json_of_z(t->device[0] ? t->device : "unknown"));
    stage_volatile(s, "driver", json_of_z(t->driver[0] ? t->driver : "unknown"));
}
