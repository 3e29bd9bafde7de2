/* str: borrowed bytes and UTF-8, see str.h. */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct str str_z(const char *z)
{
    return (struct str){z, z ? strlen(z) : 0};
}

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_eqz(struct str a, const char *z)
{
    return str_eq(a, str_z(z));
}

int str_cmp(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    if (c)
        return c;
    return (a.n > b.n) - (a.n < b.n);
}

bool str_starts(struct str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.n >= n && (n == 0 || memcmp(s.p, prefix, n) == 0);
}

bool str_ends(struct str s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.n >= n && (n == 0 || memcmp(s.p + s.n - n, suffix, n) == 0);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n && is_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

struct str str_cut(struct str *rest, char sep)
{
    const char *at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;
    struct str head = *rest;
    if (!at) {
        rest->p = rest->p ? rest->p + rest->n : NULL;
        rest->n = 0;
        return head;
    }
    head.n = (size_t)(at - rest->p);
    rest->p = at + 1;
    rest->n -= head.n + 1;
    return head;
}

ptrdiff_t str_find(struct str s, struct str needle)
{
    if (needle.n == 0)
        return 0;
    if (s.n == 0)
        return -1;
    const char *at = memmem(s.p, s.n, needle.p, needle.n);
    return at ? at - s.p : -1;
}

const char *str_dup(struct arena *a, struct str s)
{
    return arena_bytes(a, s.p, s.n);
}

struct str str_copy(struct arena *a, struct str s)
{
    return (struct str){arena_bytes(a, s.p, s.n), s.n};
}

struct str str_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    struct str s = {NULL, n > 0 ? (size_t)n : 0};
    char *p = arena_alloc(a, s.n + 1);
    vsnprintf(p, s.n + 1, fmt, again);
    va_end(again);
    s.p = p;
    return s;
}

/* Levenshtein distance with a rolling row; keys are short. */
int str_distance(const char *a, const char *b)
{
    enum { MAX = 32 };
    size_t na = strnlen(a, MAX), nb = strnlen(b, MAX);
    int row[MAX + 1];
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diag = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int up = row[j];
            int best = diag + (a[i - 1] != b[j - 1]);
            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
            diag = up;
        }
    }
    return row[nb];
}

/* Copies a number's text without underscores between digits; false if it cannot be one. */
static bool number_text(struct str s, char *out, size_t cap)
{
    size_t n = 0;
    if (s.n == 0 || s.n >= cap || is_space(s.p[0]))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '\0')
            return false;
        if (c == '_') {
            bool between = i > 0 && i + 1 < s.n && s.p[i - 1] >= '0' && s.p[i - 1] <= '9' &&
                           s.p[i + 1] >= '0' && s.p[i + 1] <= '9';
            if (!between)
                return false;
            continue;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

int str_i64(struct str s, int64_t *out)
{
    char t[64];
    if (!number_text(s, t, sizeof t))
        return -1;
    size_t n = strlen(t);
    int64_t scale = 1;
    switch (t[n - 1]) {
    case 'K':
    case 'k':
        scale = 1000;
        break;
    case 'M':
    case 'm':
        scale = 1000000;
        break;
    case 'G':
    case 'g':
        scale = 1000000000;
        break;
    case 'T':
    case 't':
        scale = 1000000000000;
        break;
    default:
        break;
    }
    if (scale > 1)
        t[n - 1] = '\0';
    char *end;
    errno = 0;
    long long v = strtoll(t, &end, 10);
    if (end == t || errno)
        return -1;
    if (*end == '.' && scale > 1) { /* 1.5M */
        double d;
        if (str_f64(str_z(t), &d) != 0)
            return -1;
        d *= (double)scale;
        if (!(d > -9.2e18 && d < 9.2e18) || d != (double)(int64_t)d)
            return -1;
        *out = (int64_t)d;
        return 0;
    }
    if (*end || __builtin_mul_overflow((int64_t)v, scale, out))
        return -1;
    return 0;
}

int str_f64(struct str s, double *out)
{
    char t[64];
    if (!number_text(s, t, sizeof t))
        return -1;
    for (const char *p = t; *p; p++)
        if (!((*p >= '0' && *p <= '9') || *p == '.' || *p == '+' || *p == '-' || *p == 'e' ||
              *p == 'E'))
            return -1;
    char *end;
    errno = 0;
    double v = strtod(t, &end);
    if (end == t || *end || (errno == ERANGE && (v > 1 || v < -1)))
        return -1;
    *out = v;
    return 0;
}

/* Length of the well-formed sequence at p (n bytes left), 0 if it is malformed: RFC 3629 table. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
    unsigned c = p[0];
    if (c < 0x80)
        return 1;
    size_t want = c >= 0xC2 && c <= 0xDF   ? 2
                  : (c & 0xF0) == 0xE0     ? 3
                  : c >= 0xF0 && c <= 0xF4 ? 4
                                           : 0;
    if (want == 0 || want > n)
        return 0;
    unsigned lo = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned hi = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < want; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return want;
}

size_t utf8_valid(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0;
    while (i < s.n) {
        uint64_t w;
        if (i + 8 <= s.n) { /* eight ASCII bytes at once */
            memcpy(&w, p + i, 8);
            if ((w & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        size_t k = utf8_len(p + i, s.n - i);
        if (k == 0)
            return i;
        i += k;
    }
    return s.n;
}

size_t utf8_bad(struct str s)
{
    /* A subpart is what could still be completed: utf8_len's tests up to the end of what is here. */
    const unsigned char *p = (const unsigned char *)s.p;
    unsigned c = p[0];
    size_t want = c >= 0xC2 && c <= 0xDF   ? 2
                  : (c & 0xF0) == 0xE0     ? 3
                  : c >= 0xF0 && c <= 0xF4 ? 4
                                           : 1;
    unsigned lo = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned hi = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    size_t n = 1;
    for (; n < want && n < s.n && p[n] >= lo && p[n] <= hi; n++) {
        lo = 0x80;
        hi = 0xBF;
    }
    return n;
}

uint32_t utf8_next(struct str s, size_t *at)
{
    const unsigned char *p = (const unsigned char *)s.p + *at;
    if (p[0] < 0x80) {
        *at += 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *at += 2;
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] < 0xF0) {
        *at += 3;
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *at += 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
           (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

int utf8_put(char out[4], uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}
