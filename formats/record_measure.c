/* record_measure: how long one msgpack value is, without building it.
 *
 * Types and lengths after https://github.com/msgpack/msgpack/blob/master/spec.md. One pass, no
 * recursion, no allocation: a count or length that is not backed by bytes ends it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "formats/record_pack.h"

static uint64_t big_endian(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

/* One value at p of n > 0 bytes without its elements: *size bytes with text or binary, *inner
 * values follow inside it. *box: it is a map or array. False: cut or not msgpack. */
static bool measure_one(const unsigned char *p, size_t n, uint64_t *size, uint64_t *inner,
                        bool *box)
{
    /* from 0xc0: bytes of a length field behind the type byte, fixed bytes behind that */
    static const struct {
        unsigned char len, fixed;
    } shape[32] = {
        [0x04] = {1, 0},  [0x05] = {2, 0}, [0x06] = {4, 0},                  /* bin */
        [0x07] = {1, 1},  [0x08] = {2, 1}, [0x09] = {4, 1},                  /* ext */
        [0x0a] = {0, 4},  [0x0b] = {0, 8},                                   /* float */
        [0x0c] = {0, 1},  [0x0d] = {0, 2}, [0x0e] = {0, 4}, [0x0f] = {0, 8}, /* uint */
        [0x10] = {0, 1},  [0x11] = {0, 2}, [0x12] = {0, 4}, [0x13] = {0, 8}, /* int */
        [0x14] = {0, 2},  [0x15] = {0, 3}, [0x16] = {0, 5}, [0x17] = {0, 9},
        [0x18] = {0, 17}, [0x19] = {1, 0}, [0x1a] = {2, 0}, [0x1b] = {4, 0}, /* str */
        [0x1c] = {2, 0},  [0x1d] = {4, 0}, [0x1e] = {2, 0}, [0x1f] = {4, 0}, /* array, map */
    };
    unsigned b = p[0];
    *size = 1;
    *inner = 0;
    *box = true;
    if (b >= 0x80 && b <= 0x8f) {
        *inner = 2 * (b & 15);
    } else if (b >= 0x90 && b <= 0x9f) {
        *inner = b & 15;
    } else if (b >= 0xdc && b <= 0xdf) {
        size_t len = shape[b - 0xc0].len;
        if (n < 1 + len)
            return false;
        *size = 1 + len;
        *inner = big_endian(p + 1, len) * (b >= 0xde ? 2 : 1);
    } else {
        *box = false;
        if (b == 0xc1)
            return false;
        if (b >= 0xa0 && b <= 0xbf) {
            *size = 1 + (b & 31);
        } else if (b >= 0xc0 && b < 0xe0) {
            size_t len = shape[b - 0xc0].len;
            if (n < 1 + len)
                return false;
            *size = 1 + len + shape[b - 0xc0].fixed + big_endian(p + 1, len);
        }
    }
    return *size <= n;
}

size_t record_measure(struct str s, struct err *e)
{
    const unsigned char *p = (const unsigned char *)s.p;
    uint64_t left[RECORD_DEPTH + 1] = {1}, total = 0;
    size_t at = 0;
    int depth = 0;
    for (;;) {
        while (left[depth] == 0) {
            if (depth-- == 0)
                return at;
        }
        uint64_t size, inner;
        bool box;
        left[depth]--;
        if (at >= s.n || !measure_one(p + at, s.n - at, &size, &inner, &box)) {
            err_set(e, "byte %zu of the map is cut or no msgpack", at);
            return 0;
        }
        at += (size_t)size;
        total += inner;
        if (inner > s.n - at || total > RECORD_ELEMENTS) {
            err_set(e, "byte %zu of the map claims %llu elements", at, (unsigned long long)inner);
            return 0;
        }
        if (!box)
            continue;
        if (depth == RECORD_DEPTH) {
            err_set(e, "maps nested deeper than %d", RECORD_DEPTH);
            return 0;
        }
        left[++depth] = inner;
    }
}
