/* linear: products with a weight matrix, with bias and gelu on each block while it is in cache.
 *
 * A product is cut into a grid of blocks of C whose borders depend on its shape only; each block is
 * one single-threaded call (gemm.c says why). The inner dimension is never cut. oneDNN sums in
 * another order when a side is shorter than 8 or so, so no block is thinner than 16 unless the
 * whole product is. With its AVX-512 kernels an output element then has the same bits whatever rows
 * and columns stand beside it, so an evaluation does not depend on its batch size; its AVX2 kernels
 * give equal values only up to rounding.
 */
#include <string.h>

#include "trainer/cpu/gemm.h"
#include "trainer/cpu/impl.h"

/* C[m,n] = op(A) op(B), cut into blocks of bm x bn. */
struct product {
    struct cpu *c;
    struct backend *b;
    int64_t m, n, k, bm, bn, down, across;
    bool ta, tb, accumulate;
    const float *a, *bb;
    float *out;
    /* epilogue of the forward pass */
    const float *bias;
    float *gelu; /* [m,n] or NULL */
    int failed;  /* oneDNN's status; any task's */
};

/* Borders: blocks of `size`, the last one takes what is left, and never less than LEAST. */
enum { LEAST = 16, UNIT_M = 16, UNIT_N = 48 }; /* UNIT: what oneDNN's kernels take at once */

static int64_t size_of(int64_t n, int64_t parts, int64_t unit)
{
    int64_t each = (n + parts - 1) / parts;
    return (each + unit - 1) / unit * unit;
}

static int64_t blocks(int64_t n, int64_t size)
{
    return n < LEAST ? 1 : (n - LEAST) / size + 1;
}

/* Sizes found by measuring one core (bench_gemm): 512 rows by 192 to 384 columns run within a few
 * per cent of the whole product, and so do smaller blocks of that form for smaller products. A
 * transposed B is packed anew for each block of rows, so there tall blocks matter more. Large
 * products get 16 blocks or more, so that many cores find work. */
static void cut(struct product *p)
{
    int64_t work = p->m * p->n / 1000 * p->k / 12000, most = p->tb ? 192 : 384;
    int64_t want = work < 4 ? 4 : work > 16 ? 16 : work;
    int64_t down = (p->m + 511) / 512, across = (p->n + most - 1) / most;
    for (;;) {
        p->bm = size_of(p->m, down, UNIT_M);
        p->bn = size_of(p->n, across, UNIT_N);
        if (down * across >= want || (p->bm <= 64 && p->bn <= 2 * UNIT_N))
            break;
        if (p->bm > 64 && (3 * p->bm >= 4 * p->bn || p->bn <= 2 * UNIT_N))
            down *= 2;
        else
            across *= 2;
    }
    p->down = blocks(p->m, p->bm);
    p->across = blocks(p->n, p->bn);
}

static void product_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    struct product *p = ctx;
    int64_t row = task / p->across, column = task % p->across;
    int64_t i = row * p->bm, m = row == p->down - 1 ? p->m - i : p->bm;
    int64_t j = column * p->bn, n = column == p->across - 1 ? p->n - j : p->bn;
    int64_t lda = p->ta ? p->m : p->k, ldb = p->tb ? p->k : p->n;
    int rc = gemm_f32(p->ta, p->tb, m, n, p->k, p->ta ? p->a + i : p->a + i * lda, lda,
                      p->tb ? p->bb + j * ldb : p->bb + j, ldb, p->accumulate,
                      p->out + i * p->n + j, p->n);
    if (rc != 0)
        __atomic_store_n(&p->failed, rc, __ATOMIC_RELAXED);
    for (int64_t r = i; r < i + m && (p->bias || p->gelu); r++) {
        float *out = p->out + r * p->n + j;
        if (p->bias)
            p->c->vec->add(out, p->bias + j, n);
        if (p->gelu)
            p->c->vec->gelu(p->gelu + r * p->n + j, out, n);
    }
}

static void product_run(struct product *p, const char *op)
{
    if (p->b->failed)
        return;
    cut(p);
    pool_run(p->c->pool, p->down * p->across, product_task, p);
    if (p->failed)
        backend_fail(p->b, "%s: oneDNN status %d", op, p->failed);
}

static int64_t rows_of(const struct tensor *x)
{
    int64_t n = 1;
    for (int i = 0; i < x->ndim - 1; i++)
        n *= x->dim[i];
    return n;
}

void cpu_linear_step(struct backend *b, struct tensor *y, const struct tensor *x,
                     const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                     struct tensor *pre)
{
    struct cpu_few few = {
        .m = rows_of(x),
        .n = y->dim[y->ndim - 1],
        .k = x->dim[x->ndim - 1],
        .out_in = layout == WEIGHT_OUT_IN,
        .bf16 = w->type == DTYPE_BF16,
        .x = x->data,
        .w = w->data,
        .y = pre ? pre->data : y->data,
        .bias = bias ? bias->data : NULL,
        .gelu = pre ? y->data : NULL,
    };
    cpu_linear_few(cpu_of(b), &few);
}

void cpu_linear_fwd(struct backend *b, struct tensor *y, const struct tensor *x,
                    const struct tensor *w, enum weight_layout layout, const struct tensor *bias,
                    struct tensor *pre)
{
    if (w->type == DTYPE_BF16) {
        cpu_linear_step(b, y, x, w, layout, bias, pre);
        return;
    }
    struct product p = {
        .c = cpu_of(b),
        .b = b,
        .m = rows_of(x),
        .n = y->dim[y->ndim - 1],
        .k = x->dim[x->ndim - 1],
        .tb = layout == WEIGHT_OUT_IN,
        .a = x->data,
        .bb = w->data,
        .out = pre ? pre->data : y->data,
        .bias = bias ? bias->data : NULL,
        .gelu = pre ? y->data : NULL,
    };
    product_run(&p, "linear_fwd");
}

/* dy *= gelu'(pre), and the column sums of blocks of rows. */
struct dy_job {
    struct cpu *c;
    float *dy, *partial; /* partial NULL: no sums */
    const float *pre;    /* NULL: no gelu */
    int64_t N, O, rows;
};

static void dy_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct dy_job *j = ctx;
    int64_t from = task * j->rows, O = j->O;
    int64_t to = from + j->rows < j->N ? from + j->rows : j->N;
    float *sums = j->partial ? j->partial + task * O : NULL;
    if (sums)
        memset(sums, 0, (size_t)O * sizeof *sums);
    for (int64_t i = from; i < to; i++) {
        if (j->pre)
            j->c->vec->gelu_grad(j->dy + i * O, j->pre + i * O, O);
        if (sums)
            j->c->vec->add(sums, j->dy + i * O, O);
    }
}

void cpu_linear_bwd(struct backend *b, struct tensor *dx, bool accumulate_dx, struct tensor *dw,
                    struct tensor *dbias, struct tensor *dy, const struct tensor *x,
                    const struct tensor *w, enum weight_layout layout, const struct tensor *pre)
{
    struct cpu *c = cpu_of(b);
    int64_t N = rows_of(x), I = x->dim[x->ndim - 1], O = dy->dim[dy->ndim - 1];
    if (pre || dbias) {
        struct dy_job j = {.c = c,
                           .dy = dy->data,
                           .pre = pre ? pre->data : NULL,
                           .N = N,
                           .O = O,
                           .rows = cpu_rows_per_task(N)};
        int64_t tasks = (N + j.rows - 1) / j.rows;
        j.partial = dbias ? cpu_partial(c, (size_t)(tasks * O)) : NULL;
        pool_run(c->pool, tasks, dy_task, &j);
        if (dbias)
            cpu_add_partials(c, dbias->data, j.partial, O, tasks, O);
    }
    bool in_out = layout == WEIGHT_IN_OUT;
    struct product grad = {
        .c = c,
        .b = b,
        .m = in_out ? I : O,
        .n = in_out ? O : I,
        .k = N,
        .ta = true,
        .accumulate = true,
        .a = in_out ? x->data : dy->data,
        .bb = in_out ? dy->data : x->data,
        .out = dw->data,
    };
    product_run(&grad, "linear_bwd");
    if (!dx)
        return;
    struct product back = {
        .c = c,
        .b = b,
        .m = N,
        .n = I,
        .k = O,
        .tb = in_out,
        .accumulate = accumulate_dx,
        .a = dy->data,
        .bb = w->data,
        .out = dx->data,
    };
    product_run(&back, "linear_bwd");
}

struct gelu_job {
    struct cpu *c;
    float *y;
    const float *x;
    int64_t n, columns, rows;
};

static void gelu_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct gelu_job *j = ctx;
    int64_t from = task * j->rows, to = from + j->rows < j->n ? from + j->rows : j->n;
    for (int64_t i = from; i < to; i++)
        j->c->vec->gelu(j->y + i * j->columns, j->x + i * j->columns, j->columns);
}

void cpu_gelu_fwd(struct backend *b, struct tensor *y, const struct tensor *pre)
{
    struct gelu_job j = {.c = cpu_of(b),
                         .y = y->data,
                         .x = pre->data,
                         .n = rows_of(pre),
                         .columns = pre->dim[pre->ndim - 1]};
    j.rows = cpu_rows_per_task(j.n);
    pool_run(j.c->pool, (j.n + j.rows - 1) / j.rows, gelu_task, &j);
}
