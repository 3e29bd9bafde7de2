/* dialect: the words that kernels of this folder use beyond plain CUDA C++.
 *
 * Kernels are compiled twice: by nvcc for the device, and by a host compiler for tests, where
 * tests/cudaemu puts another file of this name in front. So whatever is not plain CUDA that the
 * host can mimic line by line stands here: launches, shared memory, wide moves and inline PTX (PTX ISA 8.x,
 * sections on mma.m16n8k16, ldmatrix and cp.async; all from sm_80 on).
 */
#ifndef TRAINER_CUDA_DIALECT_CUH
#define TRAINER_CUDA_DIALECT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdint.h>

#define LAUNCH(kernel, grid, block, dynamic, stream, ...)                                          \
    kernel<<<(grid), (block), (dynamic), (stream)>>>(__VA_ARGS__)
#define SMEM(T, name, dims) __shared__ __align__(16) T name dims
#define DYN_SMEM(T, name)                                                                          \
    extern __shared__ __align__(128) unsigned char dynamic_shared[];                               \
    T *name = (T *)dynamic_shared

/* What moves at once. */
typedef uint2 move8;
typedef uint4 move16;

/* d[16x8] = a[16x16] b[16x8] + c, f32 sums; fragments as the PTX manual lays them out. The last
 * argument only says the type of a and b. */
static __device__ __forceinline__ void mma_16816(float *d, const uint32_t *a, const uint32_t *b,
                                                 const float *c, __nv_bfloat16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),
                   "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
static __device__ __forceinline__ void mma_16816(float *d, const uint32_t *a, const uint32_t *b,
                                                 const float *c, __half)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),
                   "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

/* Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void ldmatrix_x4(uint32_t *r, const void *row)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(s)
                 : "memory");
}
static __device__ __forceinline__ void ldmatrix_x4_trans(uint32_t *r, const void *row)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(s)
                 : "memory");
}

/* 16 bytes to shared memory behind the thread's back; zeros when not valid (nothing is read). */
static __device__ __forceinline__ void cp_async16(void *shared, const void *global, bool valid)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(s), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
static __device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> static __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
