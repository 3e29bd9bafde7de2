/* linear: products with a weight matrix: cuBLASLt, or a kernel of our own where it refuses, and bias,
 * gelu and bias gradients either inside of the product or in kernels around it.
 *
 * Which of the two is faster depends on library and device, so the first use of a shape measures
 * both and keeps the better; ASSAY_CUDA_TUNE=fused or separate decides without measuring (and makes
 * runs on one device repeat bit by bit), own takes kernels of our own only. Weights are f32 or of the activations' type: a model that
 * computes in bf16 or fp16 keeps such a copy of them; f32 weights beside narrow activations are
 * copied at each use. Their gradients are f32 always.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/cuda/impl.h"
#include "trainer/tensor.h"

struct tuned {
    struct tuned *next;
    int64_t m, n, k;
    int32_t type, what;
    bool fused;
};
enum { REPEATS = 3 };

void cuda_linear_release(struct cuda *c)
{
    for (struct tuned *t = c->tuned, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    c->tuned = NULL;
}

/* ---- one product, row-major: out[m, n] (+)= op(a) op(b) ---- */

struct product {
    const char *op;
    enum dtype type, out_type;
    int64_t m, n, k;
    bool ta, tb; /* a is stored [k, m], b is stored [n, k] */
    bool accumulate;
    const void *a, *b;
    void *out;
    enum lt_epilogue epilogue;
    void *bias, *aux;
};

/* Row-major out = A B is column-major out^T = B^T A^T: a and b change places. */
static enum lt_result through_library(struct backend *b, const struct product *p)
{
    struct cuda *c = cuda_of(b);
    struct lt_product l = {
        .type = p->type,
        .out_type = p->out_type,
        .ta = p->tb,
        .tb = p->ta,
        .accumulate = p->accumulate,
        .tf32 = c->tf32 && p->type == DTYPE_F32,
        .m = p->n,
        .n = p->m,
        .k = p->k,
        .lda = p->tb ? p->k : p->n,
        .ldb = p->ta ? p->m : p->k,
        .ldd = p->n,
        .epilogue = p->epilogue,
        .a = p->b,
        .b = p->a,
        .d = p->out,
        .bias = p->bias,
        .aux = p->aux,
    };
    int status = 0;
    if (c->tune == TUNE_OWN)
        return LT_UNSUPPORTED;
    enum lt_result rc = lt_run(c->lt, &l, c->workspace, LT_WORKSPACE, c->stream, &status);
    if (rc == LT_FAILED)
        backend_fail(b, "%s: cuBLASLt status %d", p->op, status);
    return rc;
}

static void product_plain(struct backend *b, const struct product *p)
{
    if (b->failed || through_library(b, p) != LT_UNSUPPORTED)
        return;
    struct cuda_product g = {
        .type = p->type,
        .out_type = p->out_type,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a_m = p->ta ? 1 : p->k,
        .a_k = p->ta ? p->m : 1,
        .b_k = p->tb ? 1 : p->n,
        .b_n = p->tb ? p->k : 1,
        .accumulate = p->accumulate,
    };
    cuda_ok(b, p->op, cuda_gemm(&g, p->out, p->a, p->b, cuda_of(b)->stream));
}

/* A parameter as the product wants it: itself, or its copy in the type of the activations. */
static void *param_as(struct backend *b, const char *op, enum scratch where, enum dtype type,
                      const struct tensor *t)
{
    if (t->type == type)
        return t->data;
    int64_t n = tensor_count(t);
    void *copy = cuda_scratch(b, where, (size_t)n * dtype_size(type));
    if (copy)
        cuda_ok(b, op, cuda_cast(type, copy, t->data, n, cuda_of(b)->stream));
    return copy;
}

/* Weights are f32 or of the type of the activations; biases and all gradients are f32. */
static bool types_ok(struct backend *b, const char *op, const struct tensor *w,
                     const struct tensor *x, const struct tensor *bias, const struct tensor *dw)
{
    const struct tensor *f32[] = {w->type == x->type ? NULL : w, bias, dw};
    return cuda_all_f32(b, op, f32, 3);
}

/* ---- choosing by measurement ---- */

typedef bool way(struct backend *b, void *job); /* false: this way is not supported */

static float measure(struct backend *b, way *f, void *job)
{
    cudaStream_t s = cuda_of(b)->stream;
    cudaEvent_t from = NULL, to = NULL;
    float ms = -1;
    if (!f(b, job)) /* once to warm up, and to hear whether it works at all */
        return -1;
    if (!cuda_ok(b, "tune", cudaEventCreate(&from)) || !cuda_ok(b, "tune", cudaEventCreate(&to)))
        goto out;
    bool ok = cuda_ok(b, "tune", cudaEventRecord(from, s));
    for (int i = 0; ok && i < REPEATS; i++)
        f(b, job);
    ok = ok && cuda_ok(b, "tune", cudaEventRecord(to, s)) &&
         cuda_ok(b, "tune", cudaEventSynchronize(to));
    if (ok)
        cuda_ok(b, "tune", cudaEventElapsedTime(&ms, from, to));
out:
    if (from)
        cudaEventDestroy(from);
    if (to)
        cudaEventDestroy(to);
    return ms;
}

/* Whether the fused way is to be taken for this shape. Both ways must be repeatable: what they write
 * they do not read. */
static bool take_fused(struct backend *b, const struct product *p, int what, way *fused,
                       way *separate, void *job)
{
    struct cuda *c = cuda_of(b);
    for (struct tuned *t = c->tuned; t; t = t->next)
        if (t->m == p->m && t->n == p->n && t->k == p->k && t->type == (int32_t)p->type &&
            t->what == what)
            return t->fused;
    struct tuned *t = mem_zero(sizeof *t);
    *t = (struct tuned){c->tuned, p->m, p->n, p->k, (int32_t)p->type, what, false};
    if (c->tune == TUNE_FUSED)
        t->fused = fused(b, job);
    else if (c->tune == TUNE_MEASURE) {
        float with = measure(b, fused, job);
        t->fused = with >= 0 && with <= measure(b, separate, job);
    }
    c->tuned = t;
    return t->fused;
}

/* ---- forward ---- */

struct fwd {
    struct product p; /* out: y, or pre with gelu */
    void *y;          /* gelu's output, or NULL */
    const float *bias;
    void *bias_as;
};

static bool fwd_fused(struct backend *b, void *job)
{
    struct fwd *f = job;
    struct product p = f->p;
    p.epilogue = f->y ? LT_GELU_BIAS : LT_BIAS;
    p.bias = f->bias_as;
    if (f->y) {
        p.out = f->y;
        p.aux = f->p.out;
    }
    return through_library(b, &p) == LT_DONE;
}

static bool fwd_separate(struct backend *b, void *job)
{
    struct fwd *f = job;
    product_plain(b, &f->p);
    if (!b->failed && (f->bias || f->y))
        cuda_ok(
            b, f->p.op,
            cuda_bias_gelu(f->p.type, f->y, f->p.out, f->bias, f->p.m, f->p.n, cuda_of(b)->stream));
    return true;
}

void cuda_op_linear_fwd(struct backend *b, struct tensor *y, const struct tensor *x,
                        const struct tensor *w, enum weight_layout layout,
                        const struct tensor *bias, struct tensor *pre)
{
    const char *op = "linear_fwd";
    bool plain = !bias && !pre && y->type == DTYPE_F32;
    const struct tensor *acts[] = {x, plain ? NULL : y, pre};
    if (!types_ok(b, op, w, x, bias, NULL) || !cuda_same_type(b, op, acts, 3))
        return;
    struct fwd f = {
        .p = {.op = op,
              .type = x->type,
              .out_type = y->type,
              .m = cuda_rows(x),
              .n = y->dim[y->ndim - 1],
              .k = x->dim[x->ndim - 1],
              .tb = layout == WEIGHT_OUT_IN,
              .a = x->data,
              .out = pre ? pre->data : y->data},
        .y = pre ? y->data : NULL,
        .bias = bias ? bias->data : NULL,
    };
    f.p.b = param_as(b, op, SCRATCH_WEIGHT, x->type, w);
    if (bias)
        f.bias_as = param_as(b, op, SCRATCH_BIAS, x->type, bias);
    if (b->failed)
        return;
    /* The library's gelu is an approximation that fp32 training would notice. */
    bool may = bias && (!pre || x->type != DTYPE_F32);
    if (!may || !take_fused(b, &f.p, pre != NULL, fwd_fused, fwd_separate, &f) || !fwd_fused(b, &f))
        fwd_separate(b, &f);
}

void cuda_op_gelu_fwd(struct backend *b, struct tensor *y, const struct tensor *pre)
{
    const struct tensor *acts[] = {pre, y};
    if (cuda_same_type(b, "gelu_fwd", acts, 2)) /* without a bias nothing of pre changes */
        cuda_ok(b, "gelu_fwd",
                cuda_bias_gelu(pre->type, y->data, (void *)(uintptr_t)pre->data, NULL,
                               cuda_rows(pre), pre->dim[pre->ndim - 1], cuda_of(b)->stream));
}

/* ---- backward ---- */

struct bwd {
    struct product grad; /* dw */
    struct tensor *dbias;
    const void *dy;
    int64_t N, O;
    float *sums, *partial; /* scratch: the bias gradient of this call, partial sums */
};

/* dw with dy's column sums, which are the row sums of the library's first operand. */
static bool grad_fused(struct backend *b, void *job)
{
    struct bwd *j = job;
    struct product p = j->grad;
    p.epilogue = LT_BIAS_GRAD;
    p.bias = j->sums;
    return through_library(b, &p) == LT_DONE;
}

static bool grad_separate(struct backend *b, void *job)
{
    struct bwd *j = job;
    product_plain(b, &j->grad);
    if (!b->failed) /* nothing of dy changes without pre */
        cuda_ok(b, j->grad.op,
                cuda_gelu_grad(j->grad.type, (void *)(uintptr_t)j->dy, NULL, j->dbias->data,
                               j->partial, j->N, j->O, cuda_of(b)->stream));
    return true;
}

/* For the measurement: both ways into scratch instead of what they would add to. */
static bool tune_grad(struct backend *b, struct bwd *j)
{
    struct bwd trial = *j;
    struct tensor sums = tensor_1d(DTYPE_F32, j->sums, j->O);
    trial.grad.accumulate = false;
    trial.grad.out = cuda_scratch(b, SCRATCH_OUT, (size_t)(j->grad.m * j->grad.n) * sizeof(float));
    trial.dbias = &sums;
    return trial.grad.out && take_fused(b, &j->grad, 2, grad_fused, grad_separate, &trial);
}

static void gradient_of_weight(struct backend *b, struct bwd *j, bool layout_in_out)
{
    int64_t partials = cuda_column_partials(j->N);
    if (!j->dbias) {
        product_plain(b, &j->grad);
        return;
    }
    j->partial = cuda_scratch(b, SCRATCH_PARTIAL, (size_t)(partials * j->O) * sizeof(float));
    j->sums = cuda_scratch(b, SCRATCH_BIAS, (size_t)j->O * sizeof(float));
    if (b->failed)
        return;
    /* dy is the library's first operand only when dw is stored [in, out]. */
    if (layout_in_out && tune_grad(b, j) && grad_fused(b, j))
        cuda_ok(b, j->grad.op,
                cuda_add_partials(j->dbias->data, NULL, j->sums, 1, j->O, cuda_of(b)->stream));
    else
        grad_separate(b, j);
}

void cuda_op_linear_bwd(struct backend *b, struct tensor *dx, bool accumulate_dx, struct tensor *dw,
                        struct tensor *dbias, struct tensor *dy, const struct tensor *x,
                        const struct tensor *w, enum weight_layout layout, const struct tensor *pre)
{
    const char *op = "linear_bwd";
    const struct tensor *acts[] = {x, dy, dx, pre};
    struct cuda *c = cuda_of(b);
    if (!types_ok(b, op, w, x, dbias, dw) || !cuda_same_type(b, op, acts, 4))
        return;
    int64_t N = cuda_rows(x), I = x->dim[x->ndim - 1], O = dy->dim[dy->ndim - 1];
    bool in_out = layout == WEIGHT_IN_OUT;
    struct bwd j = {
        .grad = {.op = op,
                 .type = x->type,
                 .out_type = DTYPE_F32,
                 .m = in_out ? I : O,
                 .n = in_out ? O : I,
                 .k = N,
                 .ta = true,
                 .accumulate = true,
                 .a = in_out ? x->data : dy->data,
                 .b = in_out ? dy->data : x->data,
                 .out = dw->data},
        .dbias = dbias,
        .dy = dy->data,
        .N = N,
        .O = O,
    };
    if (pre) { /* one pass for gelu's gradient and the column sums */
        size_t n = dbias ? (size_t)(cuda_column_partials(N) * O) * sizeof(float) : 0;
        float *partial = dbias ? cuda_scratch(b, SCRATCH_PARTIAL, n) : NULL;
        if (b->failed ||
            !cuda_ok(b, op,
                     cuda_gelu_grad(x->type, dy->data, pre->data, dbias ? dbias->data : NULL,
                                    partial, N, O, c->stream)))
            return;
        j.dbias = NULL;
    }
    gradient_of_weight(b, &j, in_out);
    if (b->failed || !dx)
        return;
    struct product back = {
        .op = op,
        .type = x->type,
        .out_type = x->type,
        .m = N,
        .n = I,
        .k = O,
        .tb = in_out,
        .accumulate = accumulate_dx,
        .a = dy->data,
        .b = param_as(b, op, SCRATCH_WEIGHT, x->type, w),
        .out = dx->data,
    };
    product_plain(b, &back);
}
