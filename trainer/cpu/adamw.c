/* adamw: AdamW and the sum of squares over the flat vectors, in pieces of fixed size. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "trainer/cpu/impl.h"

enum { PIECE = 1 << 16 };

struct squares_job {
    const struct vec *vec;
    const float *x;
    double *sums;
    int64_t n;
};

static void squares_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct squares_job *j = ctx;
    int64_t at = task * PIECE;
    j->sums[task] = j->vec->sum_squares(j->x + at, j->n - at < PIECE ? j->n - at : PIECE);
}

void cpu_sum_squares(struct backend *b, struct tensor *dst, const struct tensor *x)
{
    struct cpu *c = cpu_of(b);
    struct squares_job j = {.vec = c->vec, .x = x->data, .n = 1};
    for (int i = 0; i < x->ndim; i++)
        j.n *= x->dim[i];
    int64_t tasks = (j.n + PIECE - 1) / PIECE;
    j.sums = (double *)cpu_partial(c, 2 * (size_t)tasks);
    pool_run(c->pool, tasks, squares_task, &j);
    double sum = 0;
    for (int64_t i = 0; i < tasks; i++)
        sum += j.sums[i];
    float *out = dst->data;
    *out = (float)((double)*out + sum);
}

struct adamw_job {
    const struct vec *vec;
    float *p, *m, *v;
    const float *g;
    const struct adamw *h;
    struct vec_adamw k;
};

/* One piece of lo..hi, cut again where segments meet. */
static void adamw_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct adamw_job *j = ctx;
    const struct adamw *h = j->h;
    int64_t from = h->lo + task * PIECE, to = from + PIECE < h->hi ? from + PIECE : h->hi;
    struct vec_adamw k = j->k;
    for (int i = 0; i < h->nsegments; i++) {
        const struct adamw_segment *s = &h->segments[i];
        int64_t a = s->begin > from ? s->begin : from, z = s->end < to ? s->end : to;
        if (a >= z)
            continue;
        k.decay = s->decay ? j->k.decay : 1.0f;
        j->vec->adamw(j->p + a, j->g + a, j->m + (a - h->lo), j->v + (a - h->lo), &k, z - a);
    }
}

void cpu_adamw(struct backend *b, struct tensor *params, const struct tensor *grads,
               struct tensor *m, struct tensor *v, const struct adamw *h,
               const struct tensor *gscale, const struct tensor *skip)
{
    struct cpu *c = cpu_of(b);
    if (*(const float *)skip->data != 0)
        return;
    double c1 = 1 - pow((double)h->beta1, (double)h->step);
    double c2 = 1 - pow((double)h->beta2, (double)h->step);
    struct adamw_job j = {
        .vec = c->vec,
        .p = params->data,
        .m = m->data,
        .v = v->data,
        .g = grads->data,
        .h = h,
        .k = {.decay = (float)(1 - (double)h->lr * (double)h->weight_decay),
              .b1 = h->beta1,
              .b2 = h->beta2,
              .gscale = *(const float *)gscale->data,
              .rate = (float)((double)h->lr / c1),
              .root = (float)(1 / sqrt(c2)),
              .eps = h->eps},
    };
    pool_run(c->pool, (h->hi - h->lo + PIECE - 1) / PIECE, adamw_task, &j);
}
