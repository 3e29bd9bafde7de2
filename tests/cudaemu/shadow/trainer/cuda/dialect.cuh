/* dialect: what trainer/cuda/dialect.cuh gives nvcc, given by the emulator instead. This folder
 * stands before the tree in the emulated build's include path. */
#ifndef TRAINER_CUDA_DIALECT_CUH
#define TRAINER_CUDA_DIALECT_CUH

#include "tests/cudaemu/emu.hpp"

#define LAUNCH(kernel, grid, block, dynamic, stream, ...)                                          \
    emu::launch_typed(emu::launch_name(__FILE__, __func__), kernel, grid, block, dynamic, stream, __VA_ARGS__)
#define SMEM(T, name, dims)                                                                        \
    typedef T name##_type dims;                                                                    \
    static const char name##_key = 0;                                                              \
    name##_type &name = *(name##_type *)emu::shared_array(&name##_key, sizeof(name##_type), 16)
#define DYN_SMEM(T, name) T *name = (T *)emu::block->dynamic

/* Vectors, so that a host compiler moves them at once too: watch.cpp counts moves. */
typedef uint32_t move8 __attribute__((vector_size(8)));
typedef uint32_t move16 __attribute__((vector_size(16)));

static inline void mma_16816(float *d, const uint32_t *a, const uint32_t *b, const float *c,
                             __nv_bfloat16, EMU_SITE)
{
    emu::mma_16816(d, a, b, c, false, file_, line_);
}
static inline void mma_16816(float *d, const uint32_t *a, const uint32_t *b, const float *c, __half,
                             EMU_SITE)
{
    emu::mma_16816(d, a, b, c, true, file_, line_);
}
static inline void ldmatrix_x4(uint32_t *r, const void *row, EMU_SITE)
{
    emu::ldmatrix_x4(r, row, false, file_, line_);
}
static inline void ldmatrix_x4_trans(uint32_t *r, const void *row, EMU_SITE)
{
    emu::ldmatrix_x4(r, row, true, file_, line_);
}
static inline void cp_async16(void *shared, const void *global, bool valid)
{
    emu::cp_async(shared, global, 16, valid ? 16 : 0);
}
static inline void cp_async_commit()
{
    emu::cp_commit();
}
template <int N> static inline void cp_async_wait()
{
    emu::cp_wait(N);
}

#endif
