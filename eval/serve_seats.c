/* serve_seats: see eval/serve_seats.h. */
#include "eval/serve_seats.h"

#include <stddef.h>

static void out(struct seats *s, struct seat *x)
{
    if (!x->idle)
        return;
    *(x->prev ? &x->prev->next : &s->first) = x->next;
    *(x->next ? &x->next->prev : &s->last) = x->prev;
    x->prev = x->next = NULL;
    x->idle = false;
}

static void append(struct seats *s, struct seat *x)
{
    x->prev = s->last;
    x->next = NULL;
    *(s->last ? &s->last->next : &s->first) = x;
    s->last = x;
    x->idle = true;
}

struct seat *seats_take(struct seats *s, struct seat *x, int fd)
{
    struct seat *goes = ++s->n > s->max ? s->first : NULL;
    *x = (struct seat){.fd = fd};
    append(s, x);
    if (goes) {
        out(s, goes);
        goes->gone = true;
        s->n--;
    }
    return goes;
}

void seats_idle(struct seats *s, struct seat *x)
{
    out(s, x);
    if (!x->gone)
        append(s, x);
}

void seats_busy(struct seats *s, struct seat *x)
{
    out(s, x);
}

void seats_leave(struct seats *s, struct seat *x)
{
    out(s, x);
    s->n -= !x->gone;
}

bool seats_full(const struct seats *s)
{
    return s->n > s->max;
}
