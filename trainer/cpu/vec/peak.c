/* peak: multiply-adds that never leave the registers, to measure what a core can do at most. */
#include "trainer/cpu/vec/kernels.h"

enum { CHAINS = 10 }; /* covers a latency of 5 at two a cycle */

double VEC(vec_peak)(int64_t rounds, float *sink)
{
    VF s[CHAINS];
    const VF a = SPLAT(0.999f), b = SPLAT(0.001f);
    for (int i = 0; i < CHAINS; i++)
        s[i] = SPLAT((float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            s[i] = s[i] * a + b;
    for (int i = 1; i < CHAINS; i++)
        s[0] += s[i];
    *sink = VEC(vec_sum)(s[0]);
    return 2.0 * (double)rounds * CHAINS * LANES;
}
