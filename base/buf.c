/* buf: growable bytes with a cap, see buf.h. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

char *buf_room(struct buf *b, size_t n)
{
    size_t end;
    if (b->over)
        return NULL;
    if (__builtin_add_overflow(b->n, n, &end) || end == SIZE_MAX || (b->max && end > b->max)) {
        b->over = true;
        return NULL;
    }
    if (end + 1 > b->cap) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap < end + 1)
            cap = cap > SIZE_MAX / 2 ? end + 1 : cap * 2;
        b->p = mem_grow(b->p, cap);
        b->cap = cap;
    }
    return b->p + b->n;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
    char *to = buf_room(b, n);
    if (!to)
        return -1;
    if (n)
        memcpy(to, p, n);
    b->n += n;
    b->p[b->n] = '\0';
    return 0;
}

int buf_addz(struct buf *b, const char *z)
{
    return buf_add(b, z, strlen(z));
}

int buf_adds(struct buf *b, struct str s)
{
    return buf_add(b, s.p, s.n);
}

int buf_addc(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    int r = -1;
    if (n >= 0 && buf_room(b, (size_t)n)) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
        r = 0;
    }
    va_end(again);
    return r;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return r;
}

void buf_cut(struct buf *b, size_t n)
{
    if (n < b->n) {
        b->n = n;
        b->p[n] = '\0';
    }
}

struct str buf_str(const struct buf *b)
{
    return (struct str){b->p ? b->p : "", b->n};
}

char *buf_take(struct buf *b)
{
    char *p = b->p ? b->p : mem_strdup("");
    *b = (struct buf){.max = b->max};
    return p;
}

void buf_release(struct buf *b)
{
    free(b->p);
    *b = (struct buf){.max = b->max};
}
