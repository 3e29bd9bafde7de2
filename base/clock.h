/* clock: time as a seam, so that tests of waiting take milliseconds.
 *
 * All waiting in assay goes through a struct clock; clock_system() is the real one and
 * clock_fake() jumps instead of sleeping.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

struct clock {
    double (*now)(struct clock *c);  /* monotonic seconds */
    double (*wall)(struct clock *c); /* seconds since 1970, UTC */
    void (*sleep)(struct clock *c, double seconds);
    double at, wall_at, slept; /* of the fake one */
};

struct clock *clock_system(void);
struct clock clock_fake(double wall); /* sleep adds to now, wall and slept at once */

double clock_now(void);                    /* monotonic seconds of the system clock */
void clock_iso(double wall, char out[32]); /* "2026-11-30T09:40:31Z" */

#endif
