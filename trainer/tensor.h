/* tensor: making and measuring tensors, a part of the backends' contract (trainer/dtype.c). */
#ifndef TRAINER_TENSOR_H
#define TRAINER_TENSOR_H

#include "trainer/backend.h"

/* A tensor over data; the dimensions behind the last wanted one are not read. */
struct tensor tensor_make(enum dtype t, void *data, int ndim, int64_t d0, int64_t d1, int64_t d2,
                          int64_t d3);
struct tensor tensor_1d(enum dtype t, void *data, int64_t d0);
struct tensor tensor_2d(enum dtype t, void *data, int64_t d0, int64_t d1);
struct tensor tensor_3d(enum dtype t, void *data, int64_t d0, int64_t d1, int64_t d2);
int64_t tensor_count(const struct tensor *t); /* elements; -1 if it overflows or is negative */
size_t tensor_bytes(const struct tensor *t);
const char *dtype_name(enum dtype t); /* "f32" */

#endif
