/* rng: Philox4x32-10 streams and a keyed permutation, see rng.h. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

/* Two multipliers and two Weyl constants of Philox4x32 (SC11 paper, table 2 and section 4.3). */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

void rng_at(uint64_t key, uint64_t lo, uint64_t hi, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi,
             c3 = (uint32_t)(hi >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* FNV-1a over the name, then the finaliser of splitmix64 over both: any two names differ. */
uint64_t rng_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    h ^= seed + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

struct rng rng_make(uint64_t seed, const char *name, uint64_t counter)
{
    return (struct rng){.key = rng_key(seed, name), .hi = counter};
}

uint32_t rng_u32(struct rng *r)
{
    if (r->left == 0) {
        rng_at(r->key, r->at++, r->hi, r->out);
        r->left = 4;
    }
    return r->out[4 - r->left--];
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t lo = rng_u32(r);
    return lo | (uint64_t)rng_u32(r) << 32;
}

double rng_unit(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

/* Rejection of the uneven tail: unbiased. */
uint64_t rng_below(struct rng *r, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t x;
    do {
        x = rng_u64(r);
    } while (x >= limit);
    return x % n;
}

double rng_normal(struct rng *r)
{
    double u = 1.0 - rng_unit(r), v = rng_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

void rng_shuffle(struct rng *r, void *v, size_t n, size_t size)
{
    unsigned char *p = v, tmp[256];
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(r, i);
        unsigned char *a = p + (i - 1) * size, *b = p + j * size;
        for (size_t at = 0; a != b && at < size; at += sizeof tmp) {
            size_t k = size - at < sizeof tmp ? size - at : sizeof tmp;
            memcpy(tmp, a + at, k);
            memcpy(a + at, b + at, k);
            memcpy(b + at, tmp, k);
        }
    }
}

/* Balanced Feistel network over 2h bits, 4^h the smallest power of four >= n; values beyond n walk
 * on along their cycle, at most 4 steps expected (Black and Rogaway, CT-RSA 2002). */
uint64_t rng_permute(uint64_t key, uint64_t n, uint64_t i)
{
    unsigned half = 1;
    while (half < 32 && n > (uint64_t)1 << (2 * half))
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (unsigned round = 0; round < 6; round++) {
            uint32_t f[4];
            rng_at(key, right, round, f);
            uint64_t next = left ^ ((f[0] | (uint64_t)f[1] << 32) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
