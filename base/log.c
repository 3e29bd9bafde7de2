/* log: lines and one progress bar on stderr, see log.h.
 *
 * The state is static: stderr is one thing per process, and so is the lock around it. Control
 * characters in a line (from a damaged file's name, say) are shown as '?', so that no input can
 * drive the terminal.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define TTY_EVERY  0.1  /* seconds between two drawings of the bar */
#define PIPE_EVERY 10.0 /* seconds between two lines in a pipe */
#define WORTH      1.0  /* work shorter than this gets no closing line */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char name[64] = "assay";
static enum log_level shown_level = LOG_INFO;
static bool bar_drawn; /* the cursor stands behind a bar */

void log_open(const char *command, enum log_level level)
{
    pthread_mutex_lock(&lock);
    snprintf(name, sizeof name, "%s", command);
    shown_level = level;
    pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void clear_bar(void)
{
    if (bar_drawn)
        fputs("\r\033[K", stderr);
    bar_drawn = false;
}

/* One write a line, so that lines of several processes do not mix. The lock is held. */
static void put_line(struct buf *b)
{
    for (size_t i = 0; i < b->n; i++) {
        unsigned char c = (unsigned char)b->p[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F)
            b->p[i] = '?';
    }
    buf_addc(b, '\n');
    clear_bar();
    fwrite(b->p, 1, b->n, stderr);
    fflush(stderr);
}

__attribute__((format(printf, 3, 0))) static void say(enum log_level level, const char *kind,
                                                      const char *fmt, va_list ap)
{
    struct buf b = {0};
    pthread_mutex_lock(&lock);
    if (level <= shown_level) {
        buf_printf(&b, "%s: %s", name, kind);
        buf_vprintf(&b, fmt, ap);
        put_line(&b);
    }
    pthread_mutex_unlock(&lock);
    buf_release(&b);
}

void log_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(LOG_QUIET, "", fmt, ap);
    va_end(ap);
}

void log_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(LOG_WARN, "warning: ", fmt, ap);
    va_end(ap);
}

void log_info(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(LOG_INFO, "", fmt, ap);
    va_end(ap);
}

void log_debug(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(LOG_DEBUG, "", fmt, ap);
    va_end(ap);
}

/* ---- progress ------------------------------------------------------------------------------- */

/* "999", "12.3K", "4.56M": three digits. */
static void amount(double v, struct buf *b)
{
    static const char *const suffix[] = {"", "K", "M", "G", "T"};
    int k = 0;
    while (v >= 999.5 && k < 4) {
        v /= 1000;
        k++;
    }
    buf_printf(b, "%.*f%s", k == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v, suffix[k]);
}

/* "0:07", "12:34", "3:25:45", "4d 03:25". */
static void duration(double seconds, struct buf *b)
{
    long long s = (long long)(seconds + 0.5);
    if (s < 3600)
        buf_printf(b, "%lld:%02lld", s / 60, s % 60);
    else if (s < 86400)
        buf_printf(b, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        buf_printf(b, "%lldd %02lld:%02lld", s / 86400, s / 3600 % 24, s / 60 % 60);
}

static double rate(const struct progress *p, double now)
{
    double seconds = now - p->start;
    return seconds > 0 ? (p->done - p->resumed) / seconds : 0;
}

/* What is slower than one a second is counted by the minute. */
static void put_rate(const struct progress *p, double r, struct buf *b)
{
    bool slow = r > 0 && r < 1;
    amount(slow ? 60 * r : r, b);
    buf_printf(b, " %s/%s", p->unit, slow ? "min" : "s");
}

/* "1.20M/3.20M tokens, 12.9K tokens/s, 2:35 left, loss 3.21" */
static void describe(const struct progress *p, double now, struct buf *b)
{
    double r = rate(p, now);
    amount(p->done, b);
    if (p->total > 0) {
        buf_addc(b, '/');
        amount(p->total, b);
    }
    buf_printf(b, " %s", p->unit);
    if (r > 0) {
        buf_addz(b, ", ");
        put_rate(p, r, b);
    }
    if (r > 0 && p->total > p->done) {
        buf_addz(b, ", ");
        duration((p->total - p->done) / r, b);
        buf_addz(b, " left");
    }
    if (p->note[0])
        buf_printf(b, ", %s", p->note);
}

static int columns(void)
{
    struct winsize w;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20)
        return w.ws_col;
    return 80;
}

/* "train [#####.....]  43% 344K/800K tokens, ...", cut to the terminal. The lock is held. */
static void draw(const struct progress *p, double now)
{
    struct buf b = {0};
    int cols = columns(), width = cols >= 100 ? 20 : 8;
    buf_printf(&b, "%s ", p->what);
    if (p->total > 0) {
        double part = p->done / p->total;
        part = part < 0 ? 0 : part > 1 ? 1 : part;
        buf_addc(&b, '[');
        for (int i = 0; i < width; i++)
            buf_addc(&b, i < (int)(part * width) ? '#' : '.');
        buf_printf(&b, "] %3d%% ", (int)(part * 100));
    }
    describe(p, now, &b);
    size_t most = (size_t)cols - 1;
    if (b.n > most) {
        while (most && ((unsigned char)b.p[most] & 0xC0) == 0x80)
            most--; /* not inside a character */
        buf_cut(&b, most);
    }
    clear_bar();
    fwrite(b.p, 1, b.n, stderr);
    fflush(stderr);
    bar_drawn = true;
    buf_release(&b);
}

static void line(const struct progress *p, double now)
{
    struct buf b = {0};
    buf_printf(&b, "%s: ", name);
    if (strcmp(p->what, name) != 0)
        buf_printf(&b, "%s: ", p->what);
    if (p->total > 0)
        buf_printf(&b, "%d%%, ", (int)(100 * p->done / p->total));
    describe(p, now, &b);
    put_line(&b);
    buf_release(&b);
}

void progress_begin(struct progress *p, const char *what, const char *unit, double total,
                    double already)
{
    const char *term = getenv("TERM");
    double now = clock_now();
    pthread_mutex_lock(&lock);
    *p = (struct progress){.what = what,
                           .unit = unit,
                           .total = total,
                           .done = already,
                           .resumed = already,
                           .start = now,
                           .shown = now,
                           .open = true};
    p->tty = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    pthread_mutex_unlock(&lock);
}

void progress_set(struct progress *p, double done, const char *note)
{
    double now = clock_now();
    if (!p->open)
        return;
    pthread_mutex_lock(&lock);
    p->done = done;
    snprintf(p->note, sizeof p->note, "%s", note ? note : "");
    if (shown_level >= LOG_INFO && now - p->shown >= (p->tty ? TTY_EVERY : PIPE_EVERY)) {
        p->shown = now;
        if (p->tty)
            draw(p, now);
        else
            line(p, now);
    }
    pthread_mutex_unlock(&lock);
}

void progress_end(struct progress *p)
{
    double now = clock_now();
    if (!p->open)
        return;
    pthread_mutex_lock(&lock);
    p->open = false;
    clear_bar();
    if (shown_level >= LOG_INFO && now - p->start >= WORTH) {
        struct buf b = {0};
        buf_printf(&b, "%s: ", name);
        if (strcmp(p->what, name) != 0)
            buf_printf(&b, "%s: ", p->what);
        amount(p->done - p->resumed, &b);
        buf_printf(&b, " %s in ", p->unit);
        duration(now - p->start, &b);
        buf_addz(&b, ", ");
        put_rate(p, rate(p, now), &b);
        if (p->note[0])
            buf_printf(&b, ", %s", p->note);
        put_line(&b);
        buf_release(&b);
    }
    pthread_mutex_unlock(&lock);
}
