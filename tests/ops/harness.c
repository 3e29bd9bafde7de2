/* harness: see harness.h. */
#include "tests/ops/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 16 };
static const float guard_value = 12345.0f;

const char *rig_backend(int argc, char **argv)
{
    const char *env = getenv("ASSAY_BACKEND");
    return argc > 1 ? argv[1] : env && *env ? env : "cpu";
}

void rig_open(struct rig *r, const char *backend, int threads)
{
    *r = (struct rig){.rng = rng_make(7, "ops", 0)};
    struct err e = {0};
    if (backend_open(&r->b, backend, 0, threads, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
}

void rig_close(struct rig *r)
{
    backend_close(&r->b);
    arena_release(&r->arena);
}

double *doubles(struct rig *r, int64_t n)
{
    return arena_array(&r->arena, (size_t)n, sizeof(double));
}

double *copy_of(struct rig *r, const double *x, int64_t n)
{
    return memcpy(doubles(r, n), x, (size_t)n * sizeof *x);
}

void box_put(struct rig *r, struct box *x)
{
    float *all = mem_array((size_t)(x->n + GUARD), sizeof *all);
    for (int64_t i = 0; i < x->n; i++) {
        all[i] = (float)x->want[i];
        x->want[i] = (double)all[i];
    }
    for (int64_t i = x->n; i < x->n + GUARD; i++)
        all[i] = guard_value;
    struct tensor t = tensor_1d(DTYPE_F32, x->t.data, x->n + GUARD);
    op_put(&r->b, &t, all);
    free(all);
}

void box_get(struct rig *r, struct box *x)
{
    struct tensor t = tensor_1d(DTYPE_F32, x->t.data, x->n + GUARD);
    op_get(&r->b, x->got, &t);
    rig_ok(r);
    for (int64_t i = x->n; i < x->n + GUARD; i++)
        if (x->got[i] != guard_value)
            r->guard_broken = true;
}

struct box box_new(struct rig *r, double mean, double std, int ndim, int64_t d0, int64_t d1,
                   int64_t d2, int64_t d3)
{
    struct box x = {.t = tensor_make(DTYPE_F32, NULL, ndim, d0, d1, d2, d3)};
    x.n = tensor_count(&x.t);
    x.t.data = op_alloc(&r->b, (size_t)(x.n + GUARD) * sizeof(float));
    x.want = doubles(r, x.n);
    x.got = arena_array(&r->arena, (size_t)(x.n + GUARD), sizeof(float));
    for (int64_t i = 0; i < x.n; i++)
        x.want[i] = mean + (std != 0 ? std * rng_normal(&r->rng) : 0);
    box_put(r, &x);
    return x;
}

int32_t *ints_new(struct rig *r, struct tensor *t, int64_t n)
{
    *t = tensor_1d(DTYPE_I32, op_alloc(&r->b, (size_t)n * sizeof(int32_t)), n);
    return arena_array(&r->arena, (size_t)n, sizeof(int32_t));
}

uint64_t *ids_new(struct rig *r, struct tensor *t, int64_t n)
{
    *t = tensor_1d(DTYPE_U64, op_alloc(&r->b, (size_t)n * sizeof(uint64_t)), n);
    uint64_t *v = arena_array(&r->arena, (size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = rng_u64(&r->rng);
    op_put(&r->b, t, v);
    return v;
}

bool rig_ok(struct rig *r)
{
    struct err e = {0};
    if (op_sync(&r->b, &e) == 0)
        return true;
    printf("# %s\n", e.msg);
    return false;
}

double box_error(struct rig *r, struct box *x)
{
    box_get(r, x);
    double square = 0, worst = 0;
    for (int64_t i = 0; i < x->n; i++)
        square += x->want[i] * x->want[i];
    double rms = sqrt(square / (double)x->n) + 1e-30;
    for (int64_t i = 0; i < x->n; i++) {
        double a = (double)x->got[i], w = x->want[i];
        if (a == w || (isnan(a) && isnan(w)))
            continue;
        double off = fabs(a - w) / (fabs(w) + rms);
        if (!(off <= worst))
            worst = isnan(off) ? INFINITY : off;
    }
    return worst;
}
