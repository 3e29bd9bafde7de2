/* serve_seats: the connections of a transport, and which of them must go when there are too many.
 *
 * A seat is idle while its client has asked nothing yet, or nothing more: also while a request is
 * still coming in. Idle ones stand in a list, the one that was silent longest first. A new connection
 * beyond the limit takes the place of that one, so clients that open connections and say nothing
 * keep nobody out. Busy ones, whose answer is being made, are never sent away.
 */
#ifndef EVAL_SERVE_SEATS_H
#define EVAL_SERVE_SEATS_H

#include <stdbool.h>
#include <stdint.h>

struct seat {
    struct seat *prev, *next;
    int fd;
    bool idle; /* stands in the list */
    bool gone; /* was told to go: counts no more */
};
struct seats {
    struct seat *first, *last; /* idle: longest silent first */
    int64_t n, max;            /* all but those that were told to go; as many as there may be */
};

/* A new one, idle. Returns the seat that must go for it, or NULL. That one counts no more; its
 * seats_leave comes when its connection has ended. */
struct seat *seats_take(struct seats *s, struct seat *x, int fd);
void seats_idle(struct seats *s, struct seat *x); /* it said something, or has its answer */
void seats_busy(struct seats *s, struct seat *x); /* its request is whole */
void seats_leave(struct seats *s, struct seat *x);
/* More than there may be, and all the others are busy. */
bool seats_full(const struct seats *s);

#endif
