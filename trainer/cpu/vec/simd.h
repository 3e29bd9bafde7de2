/* simd: vectors of the level being compiled, by GCC's and clang's vector extension.
 *
 * ISA is a level's name (Makefile); everything with a linker name is wrapped in VEC() so that the
 * levels can live in one program. VF and VI are register-wide; LOAD and STORE need no alignment.
 * SELECT works on masks as comparisons give them (0 or -1), bit by bit, so both compilers take it.
 */
#ifndef TRAINER_CPU_VEC_SIMD_H
#define TRAINER_CPU_VEC_SIMD_H

#include <stdint.h>

#include "trainer/cpu/vec/vec.h"

#define VEC_PASTE_(a, b) a##_##b
#define VEC_PASTE(a, b)  VEC_PASTE_(a, b)
#define VEC(name)        VEC_PASTE(name, ISA)
#define VEC_QUOTE_(a)    #a
#define VEC_QUOTE(a)     VEC_QUOTE_(a)

#define LANES_v2      4
#define LANES_v3      8
#define LANES_v4      16
#define LANES_generic 4
#define LANES         VEC_PASTE(LANES, ISA)

typedef float VF __attribute__((vector_size(LANES * 4)));
typedef int32_t VI __attribute__((vector_size(LANES * 4)));
typedef float VF_IN_MEMORY __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define LOAD(p)               ((VF)(*(const VF_IN_MEMORY *)(p)))
#define STORE(p, v)           (*(VF_IN_MEMORY *)(p) = (v))
#define SPLAT(x)              ((VF){0} + (x))
#define SELECT(mask, yes, no) ((VF)(((mask) & (VI)(yes)) | (~(mask) & (VI)(no))))

#endif
