/* common: scratch memory, task sizes, partial sums and dropout masks for the ops, see impl.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/cpu/impl.h"

static float *grow(float **p, size_t *have, size_t n)
{
    if (*have < n) {
        free(*p);
        *p = mem_aligned(64, n * sizeof **p);
        *have = n;
    }
    return *p;
}

float *cpu_scratch(struct cpu *c, int worker, size_t n)
{
    return grow(&c->scratch[worker], &c->scratch_n[worker], n);
}

float *cpu_partial(struct cpu *c, size_t n)
{
    return grow(&c->partial, &c->partial_n, n);
}

/* About 64 tasks, so that many threads find work, but not below 8 rows: a task must outweigh its
 * handing out. */
int64_t cpu_rows_per_task(int64_t rows)
{
    int64_t n = (rows + 63) / 64;
    return n < 8 ? 8 : n;
}

struct partials_job {
    struct cpu *c;
    float *dst;
    const float *partial;
    int64_t stride, partials, n;
};
enum { PARTIAL_COLUMNS = 512 };

static void partials_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct partials_job *j = ctx;
    int64_t at = task * PARTIAL_COLUMNS;
    int64_t n = j->n - at < PARTIAL_COLUMNS ? j->n - at : PARTIAL_COLUMNS;
    for (int64_t k = 0; k < j->partials; k++)
        j->c->vec->add(j->dst + at, j->partial + k * j->stride + at, n);
}

void cpu_add_partials(struct cpu *c, float *dst, const float *partial, int64_t stride,
                      int64_t partials, int64_t n)
{
    struct partials_job j = {c, dst, partial, stride, partials, n};
    pool_run(c->pool, (n + PARTIAL_COLUMNS - 1) / PARTIAL_COLUMNS, partials_task, &j);
}

/* word < p * 2^32 for an integer word means word < ceil(p * 2^32); p < 1 has 24 bits, so the
 * product is exact and the ceiling fits. */
struct cpu_drop cpu_drop(struct dropout d)
{
    if (d.p == 0)
        return (struct cpu_drop){0};
    return (struct cpu_drop){
        .on = true,
        .key = d.key,
        .below = (uint32_t)ceil((double)d.p * 4294967296.0),
        .keep = (float)(1.0 / (1.0 - (double)d.p)),
        .seq = d.seq->data,
    };
}

void cpu_mask(const struct cpu *c, const struct cpu_drop *d, float *mask, int64_t s, uint64_t first,
              int64_t n)
{
    c->vec->drop(mask, d->key, d->seq[s], first, d->below, d->keep, n);
}
