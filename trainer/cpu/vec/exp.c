/* exp: the exponential, the sums of softmax, and gelu, a register at a time.
 *
 * exp(x) = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2 (ln 2 in two parts, the first short
 * enough that n times it is exact: Cody and Waite, Software Manual for the Elementary Functions,
 * 1980), and e^r = 1 + r + r^2 P(r). P has degree 4 and was fitted for the least largest relative
 * error (Lawson's iteration): 0.05 of half an ulp. 2^n is applied in two halves so that results up
 * to the largest float come out right.
 */
#include <math.h>
#include <string.h>

#include "trainer/cpu/vec/kernels.h"

__attribute__((always_inline)) static inline VF exp_lanes(VF x)
{
    const VF low = SPLAT(-87.33654f), high = SPLAT(88.8f);
    const VF round = SPLAT(12582912.0f); /* 1.5 * 2^23: adding it leaves the integer in the bits */
    VI under = x < low;
    VF c = SELECT(under, low, x);
    c = SELECT(c > high, high, c);
    VF z = c * 1.44269504f + round;
    VF n = z - round;
    VF r = c - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    VF p = SPLAT(1.381453982e-3f);
    p = p * r + 8.368745142e-3f;
    p = p * r + 4.166839079e-2f;
    p = p * r + 1.666652040e-1f;
    p = p * r + 4.999999343e-1f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    VI k = (VI)z - (VI)round, half = k >> 1;
    VF y = p * (VF)((half + 127) << 23) * (VF)((k - half + 127) << 23);
    return (VF)(~under & (VI)y);
}

void VEC(vec_exp)(float *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        STORE(y + i, exp_lanes(LOAD(x + i)));
    if (i < n) {
        float t[LANES] = {0};
        memcpy(t, x + i, (size_t)(n - i) * sizeof *x);
        STORE(t, exp_lanes(LOAD(t)));
        memcpy(y + i, t, (size_t)(n - i) * sizeof *x);
    }
}

/* Four partial sums hide the latency of the additions; pieces of 4096 are added in double, so the
 * error does not grow with the vocabulary. */
enum { PIECE = 4096 };

double VEC(vec_exp_sum)(float *y, const float *x, float shift, int64_t n)
{
    double sum = 0;
    float last[LANES];
    int64_t i = 0;
    for (int64_t end; i + LANES <= n; i = end) {
        end = n - i < PIECE ? i + (n - i) / LANES * LANES : i + PIECE;
        VF s[2] = {SPLAT(0), SPLAT(0)};
        int64_t j = i;
        for (; j + 2 * LANES <= end; j += 2 * LANES) {
            VF a = exp_lanes(LOAD(x + j) - shift), b = exp_lanes(LOAD(x + j + LANES) - shift);
            if (y) {
                STORE(y + j, a);
                STORE(y + j + LANES, b);
            }
            s[0] += a;
            s[1] += b;
        }
        if (j < end) {
            VF a = exp_lanes(LOAD(x + j) - shift);
            if (y)
                STORE(y + j, a);
            s[0] += a;
        }
        sum += (double)VEC(vec_sum)(s[0] + s[1]);
    }
    if (i < n) {
        size_t bytes = (size_t)(n - i) * sizeof *x;
        for (int k = 0; k < LANES; k++)
            last[k] = -INFINITY;
        memcpy(last, x + i, bytes);
        STORE(last, exp_lanes(LOAD(last) - shift));
        if (y)
            memcpy(y + i, last, bytes);
        for (int64_t k = 0; k < n - i; k++)
            sum += (double)last[k];
    }
    return sum;
}

/* gelu(x) = x s with s = 1 / (1 + e), e = exp(-2 u), u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh
 * form without a tanh. e is kept finite, so s never meets inf * 0. Beyond -15 and 15 s is 0 or 1 to
 * the last bit. */
#define GELU_A 0.7978845608f
#define GELU_B 0.044715f

__attribute__((always_inline)) static inline VF at_least(VF x, float lo)
{
    return SELECT(x < SPLAT(lo), SPLAT(lo), x); /* NaN stays */
}

__attribute__((always_inline)) static inline VF clamp(VF x, float lo, float hi)
{
    VF y = at_least(x, lo);
    return SELECT(y > SPLAT(hi), SPLAT(hi), y);
}

__attribute__((always_inline)) static inline VF gelu_lanes(VF x)
{
    VF c = at_least(x, -15.0f); /* so that far below c s is 0, however large e may be */
    VF u = c * (c * c * GELU_B + 1.0f);
    VF e = exp_lanes(clamp(u * (-2 * GELU_A), -88.0f, 88.0f));
    return c / (e + 1.0f);
}

__attribute__((always_inline)) static inline VF gelu_grad_lanes(VF x)
{
    VF c = clamp(x, -15.0f, 15.0f);
    VF c2 = c * c;
    VF e = exp_lanes(clamp(c * (c2 * GELU_B + 1.0f) * (-2 * GELU_A), -88.0f, 88.0f));
    VF s = 1.0f / (e + 1.0f);
    VF du = (c2 * (3 * GELU_B) + 1.0f) * (2 * GELU_A);
    return s + c * (s * (e * s)) * du; /* 1 - s = e s, without cancellation */
}

void VEC(vec_gelu)(float *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        STORE(y + i, gelu_lanes(LOAD(x + i)));
    if (i < n) {
        float t[LANES] = {0};
        memcpy(t, x + i, (size_t)(n - i) * sizeof *x);
        STORE(t, gelu_lanes(LOAD(t)));
        memcpy(y + i, t, (size_t)(n - i) * sizeof *x);
    }
}

void VEC(vec_gelu_grad)(float *dy, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        STORE(dy + i, LOAD(dy + i) * gelu_grad_lanes(LOAD(x + i)));
    if (i < n) {
        float t[LANES] = {0};
        memcpy(t, x + i, (size_t)(n - i) * sizeof *x);
        STORE(t, gelu_grad_lanes(LOAD(t)));
        for (int64_t k = 0; i + k < n; k++)
            dy[i + k] *= t[k];
    }
}
