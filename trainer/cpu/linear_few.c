/* linear_few: forward products of few rows by kernels of our own (vec/few.c), and all those with bf16
 * weights.
 *
 * w [k,n] is cut into parts of whole rows, which lie in one piece of memory each, and the parts' sums
 * are added in their order; w [n,k] into runs of rows. Borders depend on n and k only, so a row of y
 * has the same bits for any number of threads and whatever rows are beside it: an answer is the same
 * alone and in a batch.
 */
#include <string.h>

#include "trainer/cpu/impl.h"

enum {
    PART_ROWS = 96, /* of w [k,n], at least */
    PARTS = 16,     /* at most */
    OUTS = 256,     /* rows of w [n,k] in a task */
    SUM_COLUMNS = 768
};

struct few {
    struct cpu *c;
    struct cpu_few p;
    int64_t part, parts, across; /* rows of w in a part; pieces of SUM_COLUMNS */
    float *partial;              /* [parts, m, n] */
    bool last_sums; /* by whoever ends the last part: cheaper than handing out, for few sums */
    int64_t ended;
};

static const char *row_of(const struct cpu_few *p, int64_t row, int64_t width)
{
    return (const char *)p->w + row * width * (p->bf16 ? 2 : 4);
}

/* y += bias, gelu; columns [j, j + n) of row i, which is in cache. */
static void finish(const struct few *f, int64_t i, int64_t j, int64_t n)
{
    const struct cpu_few *p = &f->p;
    float *y = p->y + i * p->n + j;
    if (p->bias)
        f->c->vec->add(y, p->bias + j, n);
    if (p->gelu)
        f->c->vec->gelu(p->gelu + i * p->n + j, y, n);
}

static void sum_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct few *f = ctx;
    const struct cpu_few *p = &f->p;
    int64_t i = task / f->across, j = task % f->across * SUM_COLUMNS;
    int64_t n = p->n - j < SUM_COLUMNS ? p->n - j : SUM_COLUMNS;
    float *y = p->y + i * p->n + j;
    memcpy(y, f->partial + i * p->n + j, (size_t)n * sizeof *y);
    for (int64_t k = 1; k < f->parts; k++)
        f->c->vec->add(y, f->partial + (k * p->m + i) * p->n + j, n);
    finish(f, i, j, n);
}

static void part_task(void *ctx, int64_t task, int worker)
{
    struct few *f = ctx;
    const struct cpu_few *p = &f->p;
    int64_t from = task * f->part, k = p->k - from < f->part ? p->k - from : f->part;
    struct vec_few v = {.m = p->m,
                        .n = p->n,
                        .k = k,
                        .ldx = p->k,
                        .ldy = p->n,
                        .x = p->x + from,
                        .w = row_of(p, from, p->n),
                        .bf16 = p->bf16,
                        .y = f->partial + task * p->m * p->n};
    f->c->vec->few_in_out(&v);
    if (f->last_sums && __atomic_add_fetch(&f->ended, 1, __ATOMIC_ACQ_REL) == f->parts)
        for (int64_t i = 0; i < p->m * f->across; i++)
            sum_task(f, i, worker);
}

static void out_in_task(void *ctx, int64_t task, int worker)
{
    const struct few *f = ctx;
    const struct cpu_few *p = &f->p;
    int64_t from = task * OUTS, n = p->n - from < OUTS ? p->n - from : OUTS;
    struct vec_few v = {.m = p->m,
                        .n = n,
                        .k = p->k,
                        .ldx = p->k,
                        .ldy = p->n,
                        .x = p->x,
                        .w = row_of(p, from, p->k),
                        .bf16 = p->bf16,
                        .y = p->y + from,
                        .room = cpu_scratch(f->c, worker, (size_t)((p->m + 8) * p->k))};
    f->c->vec->few_out_in(&v);
    for (int64_t i = 0; i < p->m; i++)
        finish(f, i, from, n);
}

static void in_out(struct few *f)
{
    const struct cpu_few *p = &f->p;
    int64_t even = (p->k + PARTS - 1) / PARTS;
    f->part = even < PART_ROWS ? PART_ROWS : even;
    f->parts = (p->k + f->part - 1) / f->part;
    f->across = (p->n + SUM_COLUMNS - 1) / SUM_COLUMNS;
    f->partial = cpu_partial(f->c, (size_t)(f->parts * p->m * p->n));
    f->last_sums = p->m <= 2;
    pool_run(f->c->pool, f->parts, part_task, f);
    if (!f->last_sums)
        pool_run(f->c->pool, p->m * f->across, sum_task, f);
}

void cpu_linear_few(struct cpu *c, const struct cpu_few *all)
{
    for (int64_t at = 0; at < all->m; at += CPU_FEW) {
        struct few f = {.c = c, .p = *all};
        f.p.m = all->m - at < CPU_FEW ? all->m - at : CPU_FEW;
        f.p.x += at * f.p.k;
        f.p.y += at * f.p.n;
        f.p.gelu = all->gelu ? all->gelu + at * f.p.n : NULL;
        if (all->out_in)
            pool_run(c->pool, (f.p.n + OUTS - 1) / OUTS, out_in_task, &f);
        else
            in_out(&f);
    }
}
