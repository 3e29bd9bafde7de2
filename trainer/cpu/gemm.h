/* gemm: one matrix product on the calling thread, through oneDNN. */
#ifndef TRAINER_CPU_GEMM_H
#define TRAINER_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Row-major: C[m,n] = op(A)[m,k] op(B)[k,n], or += with accumulate. ta, tb: the matrix is stored
 * transposed. lda, ldb, ldc: floats between stored rows. Returns 0, or oneDNN's status. */
int gemm_f32(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
             const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc);
/* "oneDNN 2.6.3 avx512_core_bf16": the library and the instructions it will use. */
void gemm_describe(char *out, size_t n);

#endif
