/* text: see eval/text.h. */
#include "eval/text.h"

#include <string.h>

/* Bytes a first byte announces, 0 if it can't begin a character (RFC 3629). */
static size_t announced(unsigned char c)
{
    return c < 0x80                 ? 1
           : c >= 0xC2 && c <= 0xDF ? 2
           : c >= 0xE0 && c <= 0xEF ? 3
           : c >= 0xF0 && c <= 0xF4 ? 4
                                    : 0;
}

/* Length of the maximal subpart at s.p[0]: the longest head of a well-formed character. */
static size_t subpart(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t want = announced(p[0]), n = 1;
    if (want < 2)
        return 1;
    for (; n < want && n < s.n; n++) {
        unsigned char lo = 0x80, hi = 0xBF;
        if (n == 1) {
            lo = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
            hi = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
        }
        if (p[n] < lo || p[n] > hi)
            break;
    }
    return n;
}

void text_repair(struct str s, struct buf *out)
{
    while (s.n) {
        size_t ok = utf8_valid(s);
        buf_add(out, s.p, ok);
        s.p += ok;
        s.n -= ok;
        if (!s.n)
            break;
        size_t bad = subpart(s);
        buf_add(out, "\xEF\xBF\xBD", 3);
        s.p += bad;
        s.n -= bad;
    }
}

size_t text_whole(struct str s)
{
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        struct str tail = {s.p + s.n - back, back};
        size_t want = announced((unsigned char)tail.p[0]);
        if (want > back && subpart(tail) == back)
            return s.n - back;
        if (want)
            break;
    }
    return s.n;
}

ptrdiff_t text_stop(struct str s, size_t from, struct strs stops)
{
    ptrdiff_t best = -1;
    for (size_t i = 0; i < stops.n; i++) {
        size_t n = stops.v[i].n;
        if (!n)
            continue;
        size_t begin = from >= n - 1 ? from - (n - 1) : 0;
        if (begin > s.n)
            continue;
        ptrdiff_t at = str_find((struct str){s.p + begin, s.n - begin}, stops.v[i]);
        if (at >= 0 && (best < 0 || at + (ptrdiff_t)begin < best))
            best = at + (ptrdiff_t)begin;
    }
    return best;
}

size_t text_held(struct str s, struct strs stops)
{
    size_t held = 0;
    for (size_t i = 0; i < stops.n; i++) {
        size_t most = stops.v[i].n ? stops.v[i].n - 1 : 0;
        for (size_t n = most < s.n ? most : s.n; n > held; n--)
            if (memcmp(s.p + s.n - n, stops.v[i].p, n) == 0)
                held = n;
    }
    return held;
}
