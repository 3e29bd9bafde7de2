/* cast: f32 to bf16, to the nearest, ties to even. */
#include <string.h>

#include "trainer/cpu/impl.h"
#include "trainer/tensor.h"

enum { PIECE = 1 << 18 };

struct cast_job {
    uint16_t *to;
    const float *from;
    int64_t n;
};

/* The half below the bits that stay, less one, plus their last bit: a carry rounds up. NaN keeps its
 * sign and stays one, whatever its low bits. */
static uint16_t nearest(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
}

static void cast_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct cast_job *j = ctx;
    int64_t from = task * PIECE, to = from + PIECE < j->n ? from + PIECE : j->n;
    for (int64_t i = from; i < to; i++)
        j->to[i] = nearest(j->from[i]);
}

void cpu_cast(struct backend *b, struct tensor *dst, const struct tensor *src,
              const struct rounding *r)
{
    struct cast_job j = {dst->data, src->data, tensor_count(src)};
    if (r) {
        backend_fail(b, "cast: the CPU does not round stochastically");
        return;
    }
    pool_run(cpu_of(b)->pool, (j.n + PIECE - 1) / PIECE, cast_task, &j);
}
