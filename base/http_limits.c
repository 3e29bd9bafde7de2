/* http_limits: how long the headers about rate limits ask to wait. See base/http_private.h.
 *
 * Servers name a limit in the middle of a header (x-ratelimit-reset-tokens,
 * anthropic-ratelimit-tokens-reset), so whatever holds "ratelimit" and "reset" or "remaining" counts.
 * Resets come as a duration ("6m0s", "12ms"), in seconds, as seconds or milliseconds since 1970, or as
 * an RFC 3339 time. Some servers send -1 or 0: they know nothing.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/http_private.h"

/* "1h2m3.5s", "12ms", "7"; -1: something else. */
static double duration(struct str s)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"h", 3600}, {"m", 60}, {"s", 1}, {"d", 86400}};
    double sum = 0, v;
    if (!s.n)
        return -1;
    if (str_f64(s, &v) == 0)
        return v;
    while (s.n) {
        size_t n = 0, i;
        while (n < s.n && (isdigit((unsigned char)s.p[n]) || s.p[n] == '.'))
            n++;
        if (!n || str_f64((struct str){s.p, n}, &v))
            return -1;
        s = (struct str){s.p + n, s.n - n};
        for (i = 0; i < sizeof units / sizeof *units; i++)
            if (str_starts(s, units[i].name))
                break;
        if (i == sizeof units / sizeof *units)
            return -1;
        sum += v * units[i].seconds;
        n = strlen(units[i].name);
        s = (struct str){s.p + n, s.n - n};
    }
    return sum;
}

/* Seconds since 1970 of "2026-11-30T15:04:05.25Z" or "...+01:00"; NaN: something else. */
static double rfc3339(struct str s)
{
    char text[48];
    struct tm tm = {0};
    double fraction = 0, off = 0;
    if (s.n < 20 || s.n >= sizeof text)
        return NAN;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    const char *p = strptime(text, "%Y-%m-%d", &tm);
    if (!p || (*p != 'T' && *p != 't' && *p != ' ') || !(p = strptime(p + 1, "%H:%M:%S", &tm)))
        return NAN;
    if (*p == '.') {
        size_t n = strspn(p + 1, "0123456789");
        if (!n || str_f64((struct str){p, n + 1}, &fraction))
            fraction = 0;
        p += 1 + n;
    }
    if (*p == '+' || *p == '-') {
        int64_t h, m;
        if (strlen(p) != 6 || p[3] != ':' || str_i64((struct str){p + 1, 2}, &h) ||
            str_i64((struct str){p + 4, 2}, &m))
            return NAN;
        off = (*p == '-' ? -1 : 1) * (double)(h * 3600 + m * 60);
    } else if ((*p != 'Z' && *p != 'z') || p[1]) {
        return NAN;
    }
    return (double)timegm(&tm) + fraction - off;
}

double http_reset_wait(struct str s, double wall)
{
    double v = duration(s);
    if (v < 0)
        v = rfc3339(s) - wall;
    else if (v >= 1e12)
        v = v / 1000 - wall;
    else if (v >= 1e9)
        v -= wall;
    return v > 0 ? v : -1;
}

/* The name without the word, so that both headers of a limit meet; false: too long, or no such word. */
static bool cut_word(struct str name, const char *word, char *out, size_t size)
{
    size_t w = strlen(word), n = 0;
    for (size_t i = 0; i + w <= name.n; i++) {
        if (strncasecmp(name.p + i, word, w) != 0)
            continue;
        if (name.n - w >= size)
            return false;
        for (size_t k = 0; k < name.n; k++)
            if (k < i || k >= i + w)
                out[n++] = (char)tolower((unsigned char)name.p[k]);
        out[n] = '\0';
        return true;
    }
    return false;
}

void http_limits_take(struct http_limits *l, struct str name, struct str value, double wall)
{
    char key[sizeof l->v->name], plain[sizeof l->v->name];
    double remaining;
    bool reset = cut_word(name, "reset", key, sizeof key);
    int i = 0;
    if (!cut_word(name, "ratelimit", plain, sizeof plain) ||
        (!reset && !cut_word(name, "remaining", key, sizeof key)))
        return;
    while (i < l->n && strcmp(l->v[i].name, key) != 0)
        i++;
    if (i == HTTP_LIMITS)
        return;
    if (i == l->n) {
        l->v[l->n].reset = l->v[l->n].remaining = -1;
        memcpy(l->v[l->n++].name, key, sizeof key);
    }
    if (reset)
        l->v[i].reset = http_reset_wait(value, wall);
    else if (str_f64(value, &remaining) == 0)
        l->v[i].remaining = remaining;
}

double http_limits_wait(const struct http_limits *l, bool used_up)
{
    double most = -1;
    for (int i = 0; i < l->n; i++)
        if (l->v[i].reset > most && (!used_up || l->v[i].remaining == 0))
            most = l->v[i].reset;
    return most;
}
