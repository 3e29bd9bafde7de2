/* tap: the test harness. A test is a main() of CHECKs; prove reads what it prints.
 *
 * CHECK prints "ok N - text" or "not ok" with file and line and what was seen. It never returns
 * from the caller. SKIP names what is missing. tap_done() prints the plan and is main's result.
 * In CI (CI=true) a SKIP of shared data is a failure: it must be there.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdarg.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tap_n, tap_bad;

__attribute__((format(printf, 4, 5), unused)) static bool tap_ok(bool ok, const char *file,
                                                                 int line, const char *fmt, ...)
{
    va_list ap;
    printf("%sok %d - ", ok ? "" : "not ", ++tap_n);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    if (!ok) {
        tap_bad++;
        printf("# at %s:%d\n", file, line);
    }
    fflush(stdout);
    return ok;
}
#define CHECK(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_INT(a, b, ...)                                                                       \
    tap_int((long long)(a), (long long)(b), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_STR(a, b, ...) tap_str((a), (b), __FILE__, __LINE__, __VA_ARGS__)
/* |a - b| <= tol; NaN fails. */
#define CHECK_NEAR(a, b, tol, ...) tap_near((a), (b), (tol), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 5, 6), unused)) static bool
tap_int(long long a, long long b, const char *file, int line, const char *fmt, ...)
{
    char s[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    bool ok = tap_ok(a == b, file, line, "%s", s);
    if (!ok)
        printf("# got %lld, want %lld\n", a, b);
    return ok;
}
__attribute__((format(printf, 5, 6), unused)) static bool
tap_str(const char *a, const char *b, const char *file, int line, const char *fmt, ...)
{
    char s[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    bool ok = tap_ok(a && b && strcmp(a, b) == 0, file, line, "%s", s);
    if (!ok)
        printf("# got  \"%s\"\n# want \"%s\"\n", a ? a : "(null)", b ? b : "(null)");
    return ok;
}
__attribute__((format(printf, 6, 7), unused)) static bool
tap_near(double a, double b, double tol, const char *file, int line, const char *fmt, ...)
{
    char s[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    bool ok = tap_ok(fabs(a - b) <= tol, file, line, "%s", s);
    if (!ok)
        printf("# got %.17g, want %.17g, off by %.3g, allowed %.3g\n", a, b, fabs(a - b), tol);
    return ok;
}
#define SKIP(what) tap_skip((what), __FILE__, __LINE__)
__attribute__((unused)) static void tap_skip(const char *what, const char *file, int line)
{
    const char *ci = getenv("CI");
    if (ci && *ci)
        tap_ok(false, file, line, "%s is missing, and CI must have it", what);
    else
        printf("ok %d # SKIP %s is not here\n", ++tap_n, what);
}
/* Path of a file of the shared data: $ASSAY_DATA, else ../shared/data; NULL if not there. */
__attribute__((unused)) static const char *tap_data(const char *name)
{
    static char path[8][1024];
    static int at;
    char *p = path[at++ & 7];
    const char *dir = getenv("ASSAY_DATA");
    snprintf(p, sizeof path[0], "%s/%s", dir && *dir ? dir : "../shared/data", name);
    return access(p, R_OK) == 0 ? p : NULL;
}
/* A scratch folder of this process, made on first use, under $TMPDIR or /tmp. */
__attribute__((unused)) static const char *tap_tmp(void)
{
    static char dir[256];
    if (!dir[0]) {
        const char *t = getenv("TMPDIR");
        snprintf(dir, sizeof dir, "%s/assay-test-XXXXXX", t && *t ? t : "/tmp");
        if (!mkdtemp(dir)) {
            perror("mkdtemp");
            exit(1);
        }
    }
    return dir;
}
__attribute__((unused)) static int tap_done(void)
{
    printf("1..%d\n", tap_n);
    return tap_bad ? 1 : 0;
}

#endif
