/* log: what people read, on stderr.
 *
 * stdout is the product; everything here goes to stderr. --quiet drops info and progress. Lines
 * start with the command's name. A progress bar redraws one line on a terminal; in a pipe it prints
 * a line every 10 s at most, and one at the end if the work took a second. Thread-safe.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_QUIET, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_open(const char *command, enum log_level level);
/* The sentence a command ends with, at every level; main() calls it. */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Progress of `total` units (0: unknown). One at a time in a process. */
struct progress {
    const char *what, *unit; /* "train", "tokens" */
    double total, done, start, shown, resumed;
    bool tty, open;
    char note[160];
};
void progress_begin(struct progress *p, const char *what, const char *unit, double total,
                    double already);
/* note is what stands behind the bar ("loss 3.21"); may be NULL. */
void progress_set(struct progress *p, double done, const char *note);
void progress_end(struct progress *p);

#endif
