/* adamw: one run of parameters. Loshchilov and Hutter, arXiv 1711.05101, in torch's form, whose
 * rounding it follows: the square root is taken before its bias correction is applied. */
#include <math.h>

#include "trainer/cpu/vec/kernels.h"

void VEC(vec_adamw)(float *p, const float *g, float *m, float *v, const struct vec_adamw *h,
                    int64_t n)
{
    const float b1 = h->b1, b2 = h->b2, c1 = 1.0f - b1, c2 = 1.0f - b2, by = h->gscale,
                rate = h->rate, root = h->root, eps = h->eps, decay = h->decay;
    for (int64_t i = 0; i < n; i++) {
        float d = g[i] * by;
        float mi = b1 * m[i] + c1 * d, vi = b2 * v[i] + c2 * d * d;
        m[i] = mi;
        v[i] = vi;
        p[i] = p[i] * decay - rate * mi / (sqrtf(vi) * root + eps);
    }
}
