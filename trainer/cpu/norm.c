/* norm: residual addition, dropout and layer norm in one pass over the rows. */
#include <string.h>

#include "trainer/cpu/impl.h"

struct norm_job {
    struct cpu *c;
    int64_t N, T, C, rows;
    const float *x, *r, *w, *bias;
    float *sum, *y, *mean, *rstd;
    float eps;
    struct cpu_drop drop;
    /* backward */
    float *dsum, *dr, *partial;
    const float *dy;
};

static void fwd_task(void *ctx, int64_t task, int worker)
{
    const struct norm_job *j = ctx;
    const struct vec *v = j->c->vec;
    int64_t from = task * j->rows, C = j->C;
    int64_t to = from + j->rows < j->N ? from + j->rows : j->N;
    float *mask = j->drop.on ? cpu_scratch(j->c, worker, (size_t)C) : NULL;
    for (int64_t i = from; i < to; i++) {
        const float *row = j->x + i * C;
        if (j->r) {
            if (mask)
                cpu_mask(j->c, &j->drop, mask, i / j->T, (uint64_t)(i % j->T * C), C);
            v->add_masked(j->sum + i * C, row, j->r + i * C, mask, C);
            row = j->sum + i * C;
        }
        float mean, rstd;
        v->norm(j->y + i * C, &mean, &rstd, row, j->w, j->bias, j->eps, C);
        if (j->mean)
            j->mean[i] = mean;
        if (j->rstd)
            j->rstd[i] = rstd;
    }
}

static int64_t tasks_of(const struct norm_job *j)
{
    return (j->N + j->rows - 1) / j->rows;
}

static struct norm_job job_of(struct backend *b, const struct tensor *x, struct dropout drop)
{
    int64_t C = x->dim[x->ndim - 1], N = 1;
    for (int i = 0; i < x->ndim - 1; i++)
        N *= x->dim[i];
    return (struct norm_job){
        .c = cpu_of(b),
        .N = N,
        .T = x->ndim == 3 ? x->dim[1] : N,
        .C = C,
        .rows = cpu_rows_per_task(N),
        .drop = cpu_drop(drop),
    };
}

void cpu_add_norm_fwd(struct backend *b, struct tensor *sum, struct tensor *y, struct tensor *mean,
                      struct tensor *rstd, const struct tensor *x, const struct tensor *r,
                      const struct tensor *w, const struct tensor *bias, float eps,
                      struct dropout drop)
{
    struct norm_job j = job_of(b, x, drop);
    j.x = x->data;
    j.r = r ? r->data : NULL;
    j.sum = r ? sum->data : NULL;
    j.y = y->data;
    j.mean = mean ? mean->data : NULL;
    j.rstd = rstd ? rstd->data : NULL;
    j.w = w->data;
    j.bias = bias->data;
    j.eps = eps;
    pool_run(j.c->pool, tasks_of(&j), fwd_task, &j);
}

/* partial: of each task, dw then dbias. */
static void bwd_task(void *ctx, int64_t task, int worker)
{
    const struct norm_job *j = ctx;
    const struct vec *v = j->c->vec;
    int64_t from = task * j->rows, C = j->C;
    int64_t to = from + j->rows < j->N ? from + j->rows : j->N;
    float *dw = j->partial + task * 2 * C;
    memset(dw, 0, (size_t)(2 * C) * sizeof *dw);
    float *mask = j->drop.on ? cpu_scratch(j->c, worker, (size_t)C) : NULL;
    for (int64_t i = from; i < to; i++) {
        float *dsum = j->dsum + i * C;
        v->norm_grad(dsum, dw, dw + C, j->dy + i * C, j->x + i * C, j->mean[i], j->rstd[i], j->w,
                     C);
        if (mask) {
            cpu_mask(j->c, &j->drop, mask, i / j->T, (uint64_t)(i % j->T * C), C);
            v->mul(j->dr + i * C, dsum, mask, C);
        } else if (j->dr && j->dr != j->dsum)
            memcpy(j->dr + i * C, dsum, (size_t)C * sizeof *dsum);
    }
}

void cpu_add_norm_bwd(struct backend *b, struct tensor *dsum, struct tensor *dr, struct tensor *dw,
                      struct tensor *dbias, const struct tensor *dy, const struct tensor *sum,
                      const struct tensor *mean, const struct tensor *rstd, const struct tensor *w,
                      struct dropout drop)
{
    struct norm_job j = job_of(b, sum, drop);
    j.x = sum->data;
    j.dsum = dsum->data;
    j.dr = dr ? dr->data : NULL;
    j.dy = dy->data;
    j.mean = mean->data;
    j.rstd = rstd->data;
    j.w = w->data;
    int64_t tasks = tasks_of(&j);
    j.partial = cpu_partial(j.c, (size_t)(tasks * 2 * j.C));
    pool_run(j.c->pool, tasks, bwd_task, &j);
    cpu_add_partials(j.c, dw->data, j.partial, 2 * j.C, tasks, j.C);
    cpu_add_partials(j.c, dbias->data, j.partial + j.C, 2 * j.C, tasks, j.C);
}
