/* table: the kernels of one level, see vec.h. */
#include "trainer/cpu/vec/kernels.h"

extern const struct vec VEC(vec);
const struct vec VEC(vec) = {
    .name = VEC_QUOTE(ISA),
    .exp = VEC(vec_exp),
    .exp_sum = VEC(vec_exp_sum),
    .max = VEC(vec_max),
    .scale = VEC(vec_scale),
    .add = VEC(vec_add),
    .axpy = VEC(vec_axpy),
    .mul = VEC(vec_mul),
    .dot = VEC(vec_dot),
    .sum_squares = VEC(vec_sum_squares),
    .gelu = VEC(vec_gelu),
    .gelu_grad = VEC(vec_gelu_grad),
    .norm = VEC(vec_norm),
    .norm_grad = VEC(vec_norm_grad),
    .add_masked = VEC(vec_add_masked),
    .softmax_grad = VEC(vec_softmax_grad),
    .drop = VEC(vec_drop),
    .adamw = VEC(vec_adamw),
    .transpose = VEC(vec_transpose),
    .mm = VEC(vec_mm),
    .few_in_out = VEC(vec_few_in_out),
    .few_out_in = VEC(vec_few_out_in),
    .peak = VEC(vec_peak),
};
