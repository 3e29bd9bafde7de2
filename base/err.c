/* err: failures as sentences, see err.h. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static void set(struct err *e, int code, const char *fmt,
                                                      va_list ap)
{
    e->code = code;
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
}

int err_set(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(e, EXIT_FAILED, fmt, ap);
    va_end(ap);
    return -1;
}

int err_code(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set(e, code, fmt, ap);
    va_end(ap);
    return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int no = errno; /* before anything can change it */
    va_list ap;
    va_start(ap, fmt);
    set(e, EXIT_FAILED, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(no));
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char cause[sizeof e->msg];
    memcpy(cause, e->msg, sizeof cause);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", cause);
    return -1;
}
