/* drop: dropout masks from Philox4x32-10, many counters side by side.
 *
 * The same words as rng_at() of base/rng.h (source there); the test compares them bit for bit.
 */
#include <string.h>

#include "trainer/cpu/vec/kernels.h"

enum { SIDE = 16 }; /* counters at once */

typedef float V4 __attribute__((vector_size(16)));
typedef float V4_IN_MEMORY __attribute__((vector_size(16), aligned(4), may_alias));

/* words[j][i]: word j of counter lo + i. A word is kept in 64 bits: its products need no more. */
static void philox(uint32_t words[4][SIDE], uint64_t key, uint64_t lo, uint64_t hi)
{
    uint64_t c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE];
    for (int i = 0; i < SIDE; i++) {
        c0[i] = (uint32_t)(lo + (uint64_t)i);
        c1[i] = (lo + (uint64_t)i) >> 32;
        c2[i] = (uint32_t)hi;
        c3[i] = hi >> 32;
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < SIDE; i++) {
            uint64_t p0 = c0[i] * 0xD2511F53u, p1 = c2[i] * 0xCD9E8D57u;
            c0[i] = (p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = p1 & UINT32_MAX;
            c3[i] = p0 & UINT32_MAX;
        }
    for (int i = 0; i < SIDE; i++) {
        words[0][i] = (uint32_t)c0[i];
        words[1][i] = (uint32_t)c1[i];
        words[2][i] = (uint32_t)c2[i];
        words[3][i] = (uint32_t)c3[i];
    }
}

/* out[4 i + j] = word j of counter i as a factor: 4 x 4 blocks turned in registers. */
static void factors(float out[4 * SIDE], uint32_t words[4][SIDE], uint32_t below, float keep)
{
    float f[4][SIDE];
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < SIDE; i++)
            f[j][i] = words[j][i] < below ? 0.0f : keep;
    for (int i = 0; i < SIDE; i += 4) {
        V4 a[4], b[4];
        for (int j = 0; j < 4; j++)
            a[j] = *(const V4_IN_MEMORY *)&f[j][i];
        b[0] = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);
        b[1] = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
        b[2] = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
        b[3] = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
        *(V4_IN_MEMORY *)(out + 4 * i) = __builtin_shufflevector(b[0], b[2], 0, 1, 4, 5);
        *(V4_IN_MEMORY *)(out + 4 * i + 4) = __builtin_shufflevector(b[0], b[2], 2, 3, 6, 7);
        *(V4_IN_MEMORY *)(out + 4 * i + 8) = __builtin_shufflevector(b[1], b[3], 0, 1, 4, 5);
        *(V4_IN_MEMORY *)(out + 4 * i + 12) = __builtin_shufflevector(b[1], b[3], 2, 3, 6, 7);
    }
}

void VEC(vec_drop)(float *mask, uint64_t key, uint64_t seq, uint64_t first, uint32_t below,
                   float keep, int64_t n)
{
    uint32_t words[4][SIDE];
    float part[4 * SIDE];
    uint64_t at = first & ~(uint64_t)3; /* the first word of the counter that holds `first` */
    int64_t skip = (int64_t)(first - at);
    for (int64_t done = 0; done < n; at += 4 * SIDE, skip = 0) {
        philox(words, key, at >> 2, seq);
        int64_t take = 4 * SIDE - skip < n - done ? 4 * SIDE - skip : n - done;
        if (take == 4 * SIDE) {
            factors(mask + done, words, below, keep);
        } else {
            factors(part, words, below, keep);
            memcpy(mask + done, part + skip, (size_t)take * sizeof *mask);
        }
        done += take;
    }
}
