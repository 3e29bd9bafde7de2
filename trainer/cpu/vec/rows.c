/* rows: sums, products and layer norm over one row.
 *
 * A sum goes into the lanes of two or four registers and is folded at the end in a fixed tree, so
 * it depends on n and the level, on nothing else.
 */
#include <math.h>
#include <string.h>

#include "trainer/cpu/vec/kernels.h"

typedef float V4 __attribute__((vector_size(16)));
typedef float V4_IN_MEMORY __attribute__((vector_size(16), aligned(4), may_alias));

/* Sum of the lanes: quarters first, then pairs. */
__attribute__((always_inline)) static inline float fold(VF v)
{
    float t[LANES];
    STORE(t, v);
    V4 s = *(const V4_IN_MEMORY *)t;
    for (int i = 4; i < LANES; i += 4)
        s += *(const V4_IN_MEMORY *)(t + i);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

float VEC(vec_sum)(VF v)
{
    return fold(v);
}

/* `v > m ? v : m` keeps m when v is NaN, so a NaN may get lost here: the sum of exponentials that
 * follows finds it. */
float VEC(vec_max)(const float *x, int64_t n)
{
    float m[4][LANES], best = x[0];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        m[0][k] = m[1][k] = m[2][k] = m[3][k] = best;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < LANES; k++)
                m[j][k] = x[i + j * LANES + k] > m[j][k] ? x[i + j * LANES + k] : m[j][k];
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            m[0][k] = x[i + k] > m[0][k] ? x[i + k] : m[0][k];
    for (int j = 1; j < 4; j++)
        for (int k = 0; k < LANES; k++)
            m[0][k] = m[j][k] > m[0][k] ? m[j][k] : m[0][k];
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int k = 0; k < w; k++)
            m[0][k] = m[0][k + w] > m[0][k] ? m[0][k + w] : m[0][k];
    best = m[0][0];
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

void VEC(vec_scale)(float *x, float by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= by;
}

void VEC(vec_add)(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void VEC(vec_axpy)(float *y, float a, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

void VEC(vec_mul)(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

float VEC(vec_dot)(const float *a, const float *b, int64_t n)
{
    VF s[4] = {SPLAT(0), SPLAT(0), SPLAT(0), SPLAT(0)};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            s[k] += LOAD(a + i + k * LANES) * LOAD(b + i + k * LANES);
    for (; i + LANES <= n; i += LANES)
        s[0] += LOAD(a + i) * LOAD(b + i);
    float sum = fold((s[0] + s[1]) + (s[2] + s[3]));
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

double VEC(vec_sum_squares)(const float *x, int64_t n)
{
    double s[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            s[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (int w = 8; w > 0; w /= 2)
        for (int k = 0; k < w; k++)
            s[k] += s[k + w];
    return s[0] + sum;
}

void VEC(vec_add_masked)(float *s, const float *x, const float *r, const float *mask, int64_t n)
{
    if (mask)
        for (int64_t i = 0; i < n; i++)
            s[i] = x[i] + mask[i] * r[i];
    else
        for (int64_t i = 0; i < n; i++)
            s[i] = x[i] + r[i];
}

void VEC(vec_softmax_grad)(float *dp, const float *p, const float *mask, float delta, float scale,
                           int64_t n)
{
    if (mask)
        for (int64_t i = 0; i < n; i++)
            dp[i] = p[i] * (dp[i] * mask[i] - delta) * scale;
    else
        for (int64_t i = 0; i < n; i++)
            dp[i] = p[i] * (dp[i] - delta) * scale;
}

static float row_sum(const float *x, int64_t n)
{
    VF s[2] = {SPLAT(0), SPLAT(0)};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        s[0] += LOAD(x + i);
        s[1] += LOAD(x + i + LANES);
    }
    for (; i + LANES <= n; i += LANES)
        s[0] += LOAD(x + i);
    float sum = fold(s[0] + s[1]);
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

/* Two passes: the variance of differences from the mean does not cancel. */
static float row_variance(const float *x, float mean, int64_t n)
{
    VF s[2] = {SPLAT(0), SPLAT(0)};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        VF a = LOAD(x + i) - mean, b = LOAD(x + i + LANES) - mean;
        s[0] += a * a;
        s[1] += b * b;
    }
    for (; i + LANES <= n; i += LANES) {
        VF a = LOAD(x + i) - mean;
        s[0] += a * a;
    }
    float sum = fold(s[0] + s[1]);
    for (; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum / (float)n;
}

void VEC(vec_norm)(float *y, float *mean, float *rstd, const float *x, const float *w,
                   const float *bias, float eps, int64_t n)
{
    float m = row_sum(x, n) / (float)n;
    float r = 1.0f / sqrtf(row_variance(x, m, n) + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - m) * r * w[i] + bias[i];
    *mean = m;
    *rstd = r;
}

/* With xhat = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - xhat mean(g xhat)). */
void VEC(vec_norm_grad)(float *dx, float *dw, float *dbias, const float *dy, const float *x,
                        float mean, float rstd, const float *w, int64_t n)
{
    VF sg = SPLAT(0), sx = SPLAT(0);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        VF g = LOAD(dy + i) * LOAD(w + i);
        sg += g;
        sx += g * ((LOAD(x + i) - mean) * rstd);
    }
    float a = fold(sg), b = fold(sx);
    for (; i < n; i++) {
        a += dy[i] * w[i];
        b += dy[i] * w[i] * ((x[i] - mean) * rstd);
    }
    a /= (float)n;
    b /= (float)n;
    for (i = 0; i < n; i++) {
        float h = (x[i] - mean) * rstd;
        dx[i] += (dy[i] * w[i] - a - h * b) * rstd;
        dw[i] += dy[i] * h;
        dbias[i] += dy[i];
    }
}

/* Blocks of 4 x 4 in registers, the borders one by one. */
void VEC(vec_transpose)(float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows,
                        int64_t columns, float by)
{
    int64_t r4 = rows / 4 * 4, c4 = columns / 4 * 4;
    for (int64_t c = 0; c < c4; c += 4)
        for (int64_t r = 0; r < r4; r += 4) {
            const float *f = from + r * ldf + c;
            float *t = to + c * ldt + r;
            V4 a[4], b[4];
            for (int k = 0; k < 4; k++)
                a[k] = *(const V4_IN_MEMORY *)(f + k * ldf) * by;
            b[0] = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);
            b[1] = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
            b[2] = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
            b[3] = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
            *(V4_IN_MEMORY *)t = __builtin_shufflevector(b[0], b[2], 0, 1, 4, 5);
            *(V4_IN_MEMORY *)(t + ldt) = __builtin_shufflevector(b[0], b[2], 2, 3, 6, 7);
            *(V4_IN_MEMORY *)(t + 2 * ldt) = __builtin_shufflevector(b[1], b[3], 0, 1, 4, 5);
            *(V4_IN_MEMORY *)(t + 3 * ldt) = __builtin_shufflevector(b[1], b[3], 2, 3, 6, 7);
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < r4 ? c4 : 0; c < columns; c++)
            to[c * ldt + r] = from[r * ldf + c] * by;
}
