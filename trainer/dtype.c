/* dtype: element types and tensor shapes, see backend.h and ops.h. */
#include "trainer/tensor.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DTYPE_F32] = {"f32", 4}, [DTYPE_BF16] = {"bf16", 2}, [DTYPE_F16] = {"f16", 2},
    [DTYPE_I32] = {"i32", 4}, [DTYPE_U64] = {"u64", 8},
};

size_t dtype_size(enum dtype t)
{
    return dtypes[t].size;
}

const char *dtype_name(enum dtype t)
{
    return dtypes[t].name;
}

struct tensor tensor_make(enum dtype t, void *data, int ndim, int64_t d0, int64_t d1, int64_t d2,
                          int64_t d3)
{
    struct tensor x = {.data = data, .type = t, .ndim = ndim};
    const int64_t d[4] = {d0, d1, d2, d3};
    for (int i = 0; i < ndim && i < 4; i++)
        x.dim[i] = d[i];
    return x;
}

struct tensor tensor_1d(enum dtype t, void *data, int64_t d0)
{
    return tensor_make(t, data, 1, d0, 0, 0, 0);
}

struct tensor tensor_2d(enum dtype t, void *data, int64_t d0, int64_t d1)
{
    return tensor_make(t, data, 2, d0, d1, 0, 0);
}

struct tensor tensor_3d(enum dtype t, void *data, int64_t d0, int64_t d1, int64_t d2)
{
    return tensor_make(t, data, 3, d0, d1, d2, 0);
}

int64_t tensor_count(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        if (t->dim[i] < 0 || __builtin_mul_overflow(n, t->dim[i], &n))
            return -1;
    return n;
}

size_t tensor_bytes(const struct tensor *t)
{
    return (size_t)tensor_count(t) * dtype_size(t->type);
}
