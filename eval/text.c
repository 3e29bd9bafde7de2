/* text: see eval/text.h. */
#include "eval/text.h"

#include <string.h>

#include "base/json.h"

/* Bytes a first byte announces, 0 if it can't begin a character (RFC 3629). */
static size_t announced(unsigned char c)
{
    return c < 0x80                 ? 1
           : c >= 0xC2 && c <= 0xDF ? 2
           : c >= 0xE0 && c <= 0xEF ? 3
           : c >= 0xF0 && c <= 0xF4 ? 4
                                    : 0;
}

void text_repair(struct str s, struct buf *out)
{
    json_mend(s, out);
}

size_t text_whole(struct str s)
{
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        struct str tail = {s.p + s.n - back, back};
        size_t want = announced((unsigned char)tail.p[0]);
        if (want > back && utf8_bad(tail) == back)
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
