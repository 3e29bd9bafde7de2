/* buf: growable bytes with a cap.
 *
 * Invariants: p[n] is NUL whenever p is not NULL, so p can be read as a C string. Zeroed is empty
 * and uncapped. A buffer fed from outside gets a max; an addition that would pass it adds nothing,
 * sets `over` and returns -1, and so do all later ones.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf {
    char *p;
    size_t n, cap;
    size_t max; /* 0: no cap */
    bool over;
};

int buf_add(struct buf *b, const void *p, size_t n);
int buf_addz(struct buf *b, const char *z);
int buf_adds(struct buf *b, struct str s);
int buf_addc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap);
char *buf_room(struct buf *b, size_t n); /* n writable bytes behind the end; NULL if over */
void buf_cut(struct buf *b, size_t n);   /* shorten to n bytes */
struct str buf_str(const struct buf *b); /* borrowed until the next change */
char *buf_take(struct buf *b);           /* caller frees; b is empty again */
void buf_release(struct buf *b);

#endif
