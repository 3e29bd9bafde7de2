/* vec: the vector kernels of the CPU backend, one table a level of the x86-64 ABI.
 *
 * trainer/cpu/vec/ is compiled once for each of v2 (SSE 4.2), v3 (AVX2, FMA) and v4 (AVX-512), or
 * once as "generic" elsewhere; machine.c picks a table at run time. A kernel works on one row or
 * block on the calling thread, its order of summation depends on n only. Pointers need no alignment
 * beyond a float's, n any size >= 0 unless said. NaN and infinities go through, never vanish.
 */
#ifndef TRAINER_CPU_VEC_VEC_H
#define TRAINER_CPU_VEC_VEC_H

#include <stdbool.h>
#include <stdint.h>

struct vec_adamw {
    float decay; /* p is multiplied by this: 1 - lr * weight_decay, or 1 */
    float b1, b2;
    float gscale;
    float rate; /* lr / (1 - b1^t) */
    float root; /* 1 / sqrt(1 - b2^t) */
    float eps;
};

/* y[m,n] = x[m,k] times a dense matrix of weights, f32 or bf16. */
struct vec_few {
    int64_t m, n, k, ldx, ldy;
    const float *x;
    const void *w;
    bool bf16;
    float *y, *room; /* room: few_out_in: scratch of (m + 8) k floats */
};

struct vec {
    const char *name; /* "v4" */

    /* y = exp(x), within 1 ulp in the normal range; below e^-87.3 0, above e^88.7 inf. */
    void (*exp)(float *y, const float *x, int64_t n);
    /* y = exp(x - shift), returns the sum. y NULL: only the sum. y may be x. */
    double (*exp_sum)(float *y, const float *x, float shift, int64_t n);
    float (*max)(const float *x, int64_t n); /* n > 0; of the numbers: NaN may be passed over */
    void (*scale)(float *x, float by, int64_t n);                     /* x *= by */
    void (*add)(float *y, const float *x, int64_t n);                 /* y += x */
    void (*axpy)(float *y, float a, const float *x, int64_t n);       /* y += a * x */
    void (*mul)(float *y, const float *a, const float *b, int64_t n); /* y = a * b */
    float (*dot)(const float *a, const float *b, int64_t n);
    double (*sum_squares)(const float *x, int64_t n);

    /* gelu's tanh form (Hendrycks and Gimpel, arXiv 1606.08415): y = gelu(x); dy *= gelu'(x). */
    void (*gelu)(float *y, const float *x, int64_t n);
    void (*gelu_grad)(float *dy, const float *x, int64_t n);

    /* One row of layer norm (Ba et al., arXiv 1607.06450), biased variance. */
    void (*norm)(float *y, float *mean, float *rstd, const float *x, const float *w,
                 const float *bias, float eps, int64_t n);
    /* dx += gradient of the row; dw += dy * xhat, dbias += dy. */
    void (*norm_grad)(float *dx, float *dw, float *dbias, const float *dy, const float *x,
                      float mean, float rstd, const float *w, int64_t n);
    /* s = x + mask * r; mask NULL: ones. s may be x. */
    void (*add_masked)(float *s, const float *x, const float *r, const float *mask, int64_t n);
    /* dS = P * (dP - delta) * scale, in place of dP. mask NULL: ones, else dP * mask first. */
    void (*softmax_grad)(float *dp, const float *p, const float *mask, float delta, float scale,
                         int64_t n);

    /* mask[i] = word i of the dropout stream below `below` ? 0 : keep (trainer/backend.h). */
    void (*drop)(float *mask, uint64_t key, uint64_t seq, uint64_t first, uint32_t below,
                 float keep, int64_t n);

    void (*adamw)(float *p, const float *g, float *m, float *v, const struct vec_adamw *h,
                  int64_t n);

    /* to[c * ldt + r] = from[r * ldf + c] * by */
    void (*transpose)(float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows,
                      int64_t columns, float by);
    /* C[m,n] = A[m,k] B[k,n], or += : element (i, l) of A at a[i * ai + l * al], so A may lie
     * either way. n must be a multiple of 16. For the small products inside attention. */
    void (*mm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t ai, int64_t al,
               const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc);

    /* Products of few rows (16 or so), which read w once, in the order of its addresses. A row's bits
     * do not depend on the rows beside it. w [k,n] or [n,k]. */
    void (*few_in_out)(const struct vec_few *p);
    void (*few_out_in)(const struct vec_few *p);

    /* Multiply-adds in registers only; returns their FLOP. The value in sink is of no interest. */
    double (*peak)(int64_t rounds, float *sink);
};

#endif
