/* err: a failure is one sentence.
 *
 * Functions that can fail take a `struct err *` as their last argument and return -1 (or NULL)
 * after filling it. The sentence is built outward: the cause is set where it happened, callers
 * wrap it with what they were doing: "train: open data/x.bin: No such file or directory".
 * The code is the exit status that main() will use; wrapping keeps it.
 * Running out of memory dies (base/mem.h); broken invariants assert; neither passes here.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,     /* an input, the disk or the network failed us */
    EXIT_USAGE = 2,      /* an option, key or value was wrong */
    EXIT_GATE = 3,       /* a gate's rule was not met */
    EXIT_INCOMPLETE = 4, /* resumable: cap reached, interrupted, judge unavailable */
};

struct err {
    int code; /* an enum exit_code; 0 reads as EXIT_FAILED */
    char msg[1024];
};

/* Sets the cause, code EXIT_FAILED. Returns -1, so: return err_set(e, ...). */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_set with another exit code, e.g. EXIT_USAGE or EXIT_INCOMPLETE. */
int err_code(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set and appends ": " and the text of errno. */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts context before the cause: "CONTEXT: cause". Keeps the code. Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
