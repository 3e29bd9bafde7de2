/* drop: dropout masks from Philox4x32-10, many counters side by side.
 *
 * The same words as rng_at() of base/rng.h (source there); the test compares them bit for bit.
 */
#include "trainer/cpu/vec/kernels.h"

enum { SIDE = 16 }; /* counters at once */

/* words[j][i]: word j of counter lo + i. */
static void philox(uint32_t words[4][SIDE], uint64_t key, uint64_t lo, uint64_t hi)
{
    uint32_t c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE];
    for (int i = 0; i < SIDE; i++) {
        c0[i] = (uint32_t)(lo + (uint64_t)i);
        c1[i] = (uint32_t)((lo + (uint64_t)i) >> 32);
        c2[i] = (uint32_t)hi;
        c3[i] = (uint32_t)(hi >> 32);
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < SIDE; i++) {
            uint64_t p0 = (uint64_t)c0[i] * 0xD2511F53u, p1 = (uint64_t)c2[i] * 0xCD9E8D57u;
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
    for (int i = 0; i < SIDE; i++) {
        words[0][i] = c0[i];
        words[1][i] = c1[i];
        words[2][i] = c2[i];
        words[3][i] = c3[i];
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
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < 4; j++)
                part[4 * i + j] = words[j][i] < below ? 0.0f : keep;
        for (int64_t i = 0; i < take; i++)
            mask[done + i] = part[skip + i];
        done += take;
    }
}
