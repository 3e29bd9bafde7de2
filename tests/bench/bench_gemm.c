/* bench_gemm: this machine's own limits, and how near the CPU backend's ops come.
 *
 * Every figure is the best of many short pieces by the wall clock, because other processes share
 * the cores; a run on a busy machine still shows less than the truth. FLOP are 2 m n k for a
 * product; attention counts only the scores that the causal mask keeps.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "trainer/cpu/gemm.h"
#include "trainer/cpu/machine.h"
#include "trainer/cpu/pool.h"
#include "trainer/cpu/vec/vec.h"
#include "trainer/ops.h"

enum { PIECES = 40 };

/* Best seconds of up to PIECES runs of fn, within about a second. */
static double best_of(void (*fn)(void *ctx), void *ctx)
{
    double best = INFINITY, begin = clock_now();
    for (int i = 0; i < PIECES && (i < 3 || clock_now() - begin < 1); i++) {
        double t = clock_now();
        fn(ctx);
        t = clock_now() - t;
        best = t < best ? t : best;
    }
    return best;
}

/* ---- limits -------------------------------------------------------------------------------- */

struct limits {
    struct pool *pool;
    const struct vec *vec;
    float *a, *b, *c;
    int64_t n, each;
    double flop;
};
enum { ROUNDS = 400000 };

static void fma_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    struct limits *l = ctx;
    double flop = l->vec->peak(ROUNDS, l->a + 16 * task);
    if (task == 0)
        l->flop = flop;
}
static void fma_run(void *ctx)
{
    struct limits *l = ctx;
    pool_run(l->pool, pool_threads(l->pool), fma_task, l);
}

static void read_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    struct limits *l = ctx;
    l->c[16 * task] = l->vec->max(l->a + task * l->each, l->each);
}
static void read_run(void *ctx)
{
    struct limits *l = ctx;
    pool_run(l->pool, l->n / l->each, read_task, l);
}

static void triad_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    struct limits *l = ctx;
    int64_t at = task * l->each;
    l->vec->add_masked(l->a + at, l->b + at, l->c + at, NULL, l->each);
}
static void triad_run(void *ctx)
{
    struct limits *l = ctx;
    pool_run(l->pool, l->n / l->each, triad_task, l);
}

static void limits(int threads)
{
    struct err e = {0};
    struct limits l = {.vec = cpu_vec(&e), .pool = pool_new(threads, &e)};
    if (!l.vec || !l.pool) {
        printf("limits: %s\n", e.msg);
        return;
    }
    l.n = (int64_t)48 << 20; /* floats: 192 MiB an array, far beyond any cache */
    l.each = 1 << 20;
    l.a = mem_aligned(64, (size_t)l.n * 4);
    l.b = mem_aligned(64, (size_t)l.n * 4);
    l.c = mem_aligned(64, (size_t)l.n * 4);
    double t = best_of(fma_run, &l);
    printf("limit  %d thread%s  multiply-add in registers %7.1f GFLOP/s", threads,
           threads > 1 ? "s" : " ", l.flop * threads / t / 1e9);
    t = best_of(read_run, &l);
    printf("   memory read %5.1f", (double)l.n * 4 / t / 1e9);
    t = best_of(triad_run, &l);
    printf(", a = b + c %5.1f GB/s\n", (double)l.n * 12 / t / 1e9);
    free(l.a);
    free(l.b);
    free(l.c);
    pool_free(l.pool);
}

/* ---- products ------------------------------------------------------------------------------ */

struct product {
    struct backend *b;
    struct tensor x, y, w, dx, dw;
    enum weight_layout layout;
    int64_t m, n, k;
};

static void library_run(void *ctx)
{
    struct product *p = ctx;
    gemm_f32(false, p->layout == WEIGHT_OUT_IN, p->m, p->n, p->k, p->x.data, p->k, p->w.data,
             p->layout == WEIGHT_OUT_IN ? p->k : p->n, false, p->y.data, p->n);
}
static void forward_run(void *ctx)
{
    struct product *p = ctx;
    op_linear_fwd(p->b, &p->y, &p->x, &p->w, p->layout, NULL, NULL);
}
static void backward_run(void *ctx)
{
    struct product *p = ctx;
    op_linear_bwd(p->b, &p->dx, false, &p->dw, NULL, &p->y, &p->x, &p->w, p->layout, NULL);
}

static struct tensor fresh(struct backend *b, int64_t d0, int64_t d1)
{
    struct tensor t = tensor_2d(DTYPE_F32, op_alloc(b, (size_t)(d0 * d1) * 4), d0, d1);
    float *p = t.data;
    for (int64_t i = 0; p && i < d0 * d1; i++)
        p[i] = (float)((i * 2654435761u) % 2001) / 1000 - 1;
    return t;
}

static void product(int64_t m, int64_t n, int64_t k, enum weight_layout layout)
{
    struct backend b;
    struct err e = {0};
    if (backend_open(&b, "cpu", 0, 0, &e) < 0) {
        printf("%s\n", e.msg);
        return;
    }
    bool oi = layout == WEIGHT_OUT_IN;
    struct product p = {.b = &b, .layout = layout, .m = m, .n = n, .k = k};
    p.x = fresh(&b, m, k);
    p.y = fresh(&b, m, n);
    p.w = fresh(&b, oi ? n : k, oi ? k : n);
    p.dx = fresh(&b, m, k);
    p.dw = fresh(&b, oi ? n : k, oi ? k : n);
    double flop = 2.0 * (double)m * (double)n * (double)k;
    printf("linear %5d x %-4d to %-5d %-8s  oneDNN alone %7.1f", (int)m, (int)k, (int)n,
           oi ? "(out,in)" : "(in,out)", flop / best_of(library_run, &p) / 1e9);
    printf("   forward %7.1f", flop / best_of(forward_run, &p) / 1e9);
    printf("   backward %7.1f GFLOP/s\n", 2 * flop / best_of(backward_run, &p) / 1e9);
    backend_close(&b);
}

/* ---- attention ----------------------------------------------------------------------------- */

struct attention {
    struct backend *b;
    struct tensor qkv, y, lse, dy, dqkv;
    int heads;
};
static void att_forward(void *ctx)
{
    struct attention *a = ctx;
    op_attention_fwd(a->b, &a->y, &a->lse, &a->qkv, a->heads, (struct dropout){0});
}
static void att_backward(void *ctx)
{
    struct attention *a = ctx;
    op_attention_bwd(a->b, &a->dqkv, &a->dy, &a->y, &a->qkv, &a->lse, a->heads,
                     (struct dropout){0});
}

static void attention(int64_t B, int64_t T, int heads, int64_t HS)
{
    struct backend b;
    struct err e = {0};
    if (backend_open(&b, "cpu", 0, 0, &e) < 0) {
        printf("%s\n", e.msg);
        return;
    }
    int64_t C = heads * HS;
    struct attention a = {.b = &b, .heads = heads};
    struct tensor *const t[] = {&a.qkv, &a.y, &a.dy, &a.dqkv};
    const int64_t width[] = {3 * C, C, C, 3 * C};
    for (int i = 0; i < 4; i++) {
        *t[i] = fresh(&b, B * T, width[i]);
        *t[i] = tensor_3d(DTYPE_F32, t[i]->data, B, T, width[i]);
    }
    a.lse = fresh(&b, B * heads, T);
    a.lse = tensor_3d(DTYPE_F32, a.lse.data, B, heads, T);
    double pairs = (double)(B * heads) * (double)(T * (T + 1)) / 2, dot = 2 * (double)HS;
    double f = best_of(att_forward, &a), k = best_of(att_backward, &a);
    printf(
        "attention %d x %-4d %2d heads of %-3d  forward %7.1f (%.2f ms)   backward %7.1f GFLOP/s "
        "(%.2f ms)\n",
        (int)B, (int)T, heads, (int)HS, 2 * pairs * dot / f / 1e9, f * 1e3,
        5 * pairs * dot / k / 1e9, k * 1e3);
    backend_close(&b);
}

int main(void)
{
    char model[128], dnnl[96];
    cpu_model(model, sizeof model);
    gemm_describe(dnnl, sizeof dnnl);
    int threads = thread_cpus();
    printf("%s, %d cores usable, %s\n", model, threads, dnnl);
    limits(1);
    if (threads > 1)
        limits(threads);
    static const struct {
        int64_t m, n, k;
        enum weight_layout layout;
    } shapes[] = {
        {512, 576, 192, WEIGHT_IN_OUT},   {512, 192, 192, WEIGHT_IN_OUT},
        {512, 768, 192, WEIGHT_IN_OUT},   {512, 192, 768, WEIGHT_IN_OUT},
        {512, 512, 192, WEIGHT_OUT_IN},   {1024, 1152, 384, WEIGHT_IN_OUT},
        {1024, 384, 1536, WEIGHT_IN_OUT}, {1024, 2304, 768, WEIGHT_IN_OUT},
        {1024, 768, 768, WEIGHT_IN_OUT},  {1024, 3072, 768, WEIGHT_IN_OUT},
        {1024, 768, 3072, WEIGHT_IN_OUT}, {256, 50257, 768, WEIGHT_OUT_IN},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        product(shapes[i].m, shapes[i].n, shapes[i].k, shapes[i].layout);
    attention(4, 128, 6, 32);
    attention(4, 64, 12, 64);
    attention(4, 256, 12, 64);
    attention(1, 1024, 12, 64);
    attention(1, 4096, 2, 64);
    attention(1, 1024, 4, 128);
    return 0;
}
