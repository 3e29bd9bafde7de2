/* clock: the system's time and a fake one, see clock.h. */
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double system_now(struct clock *c)
{
    (void)c;
    return read_clock(CLOCK_MONOTONIC);
}

static double system_wall(struct clock *c)
{
    (void)c;
    return read_clock(CLOCK_REALTIME);
}

static void system_sleep(struct clock *c, double seconds)
{
    (void)c;
    if (!(seconds > 0))
        return;
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL); /* a signal ends it early: whoever waits asks interrupt_raised() next */
}

struct clock *clock_system(void)
{
    static struct clock c = {system_now, system_wall, system_sleep, 0, 0, 0};
    return &c;
}

static double fake_now(struct clock *c)
{
    return c->at;
}

static double fake_wall(struct clock *c)
{
    return c->wall_at;
}

static void fake_sleep(struct clock *c, double seconds)
{
    if (!(seconds > 0))
        return;
    c->at += seconds;
    c->wall_at += seconds;
    c->slept += seconds;
}

struct clock clock_fake(double wall)
{
    return (struct clock){fake_now, fake_wall, fake_sleep, 0, wall, 0};
}

double clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

void clock_iso(double wall, char out[32])
{
    time_t t = (time_t)floor(wall);
    struct tm tm;
    if (!gmtime_r(&t, &tm) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, 32, "unknown");
}
