/* kernels: the prototypes of the kernels that table.c lists, at the level being compiled. */
#ifndef TRAINER_CPU_VEC_KERNELS_H
#define TRAINER_CPU_VEC_KERNELS_H

#include "trainer/cpu/vec/simd.h"

void VEC(vec_exp)(float *y, const float *x, int64_t n);
double VEC(vec_exp_sum)(float *y, const float *x, float shift, int64_t n);
void VEC(vec_gelu)(float *y, const float *x, int64_t n);
void VEC(vec_gelu_grad)(float *dy, const float *x, int64_t n);
float VEC(vec_sum)(VF v);
float VEC(vec_max)(const float *x, int64_t n);
void VEC(vec_scale)(float *x, float by, int64_t n);
void VEC(vec_add)(float *y, const float *x, int64_t n);
void VEC(vec_axpy)(float *y, float a, const float *x, int64_t n);
void VEC(vec_mul)(float *y, const float *a, const float *b, int64_t n);
float VEC(vec_dot)(const float *a, const float *b, int64_t n);
double VEC(vec_sum_squares)(const float *x, int64_t n);
void VEC(vec_add_masked)(float *s, const float *x, const float *r, const float *mask, int64_t n);
void VEC(vec_softmax_grad)(float *dp, const float *p, const float *mask, float delta, float scale,
                           int64_t n);
void VEC(vec_norm)(float *y, float *mean, float *rstd, const float *x, const float *w,
                   const float *bias, float eps, int64_t n);
void VEC(vec_norm_grad)(float *dx, float *dw, float *dbias, const float *dy, const float *x,
                        float mean, float rstd, const float *w, int64_t n);
void VEC(vec_drop)(float *mask, uint64_t key, uint64_t seq, uint64_t first, uint32_t below,
                   float keep, int64_t n);
void VEC(vec_adamw)(float *p, const float *g, float *m, float *v, const struct vec_adamw *h,
                    int64_t n);
void VEC(vec_mm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t ai, int64_t al,
                 const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc);
void VEC(vec_transpose)(float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows,
                        int64_t columns, float by);
void VEC(vec_few_in_out)(const struct vec_few *p);
void VEC(vec_few_out_in)(const struct vec_few *p);
double VEC(vec_peak)(int64_t rounds, float *sink);

#endif
