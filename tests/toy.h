/* toy: a GPT-2 whose logits are known by hand, so that tests of evaluation can tell an off-by-one
 * from a plausible number.
 *
 * Width V + T. Token v is the unit vector v, position t the unit vector V + t; attention and MLP
 * are zero. The final norm of x = e_v + e_{V+t} is (x - 2/C) / sd, so
 *   logit of id u behind id v at position t = (A[u][v] + A[u][V+t] - 2 mean(A[u])) / sd
 * with A the head's matrix. The next id depends on the last one and on its position, nothing else.
 */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "trainer/gpt2.h"

enum { TOY_V = 11, TOY_T = 8, TOY_C = TOY_V + TOY_T };

struct toy {
    struct backend b;
    struct gpt2 *m;
    float head[TOY_V][TOY_C];
    float eps;
};

static float *toy_at(float *flat, const struct params *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return flat + p->v[i].at;
    return NULL;
}

/* Puts the head into the model. */
__attribute__((unused)) static int toy_put(struct toy *t, struct err *e)
{
    const struct params *p = gpt2_params(t->m);
    float *flat = mem_array((size_t)p->count, sizeof *flat);
    float *wte = toy_at(flat, p, "wte.weight"), *wpe = toy_at(flat, p, "wpe.weight");
    float *norm = toy_at(flat, p, "ln_f.weight"), *head = toy_at(flat, p, "lm_head.weight");
    for (int v = 0; v < TOY_V; v++)
        wte[v * TOY_C + v] = 1;
    for (int i = 0; i < TOY_T; i++)
        wpe[i * TOY_C + TOY_V + i] = 1;
    for (int c = 0; c < TOY_C; c++)
        norm[c] = 1;
    memcpy(head, t->head, sizeof t->head);
    int rc = gpt2_put(t->m, 'w', flat, e);
    free(flat);
    return rc;
}

/* spread 0: uniform. */
__attribute__((unused)) static int toy_open(struct toy *t, int64_t batch, int threads, bool decode,
                                            double spread, struct err *e)
{
    struct model_config c = {.layers = 1,
                             .heads = 1,
                             .width = TOY_C,
                             .context = TOY_T,
                             .vocab = TOY_V,
                             .qkv_bias = true,
                             .norm_eps = 1e-5,
                             .init_std = 0.02};
    struct gpt2_use use = {.batch = batch, .length = TOY_T, .decode = decode};
    struct rng r = rng_make(5, "toy", 0);
    memset(t, 0, sizeof *t);
    t->eps = 1e-5f;
    for (int u = 0; u < TOY_V; u++)
        for (int i = 0; i < TOY_C; i++)
            t->head[u][i] = (float)(spread * rng_normal(&r));
    if (backend_open(&t->b, "cpu", 0, threads, e))
        return -1;
    t->m = gpt2_new(&t->b, &c, &use, e);
    return t->m ? toy_put(t, e) : -1;
}

__attribute__((unused)) static void toy_close(struct toy *t)
{
    gpt2_free(t->m);
    backend_close(&t->b);
}

__attribute__((unused)) static double toy_logit(const struct toy *t, int v, int pos, int u)
{
    double mean = 0, var = 2.0 / TOY_C - 4.0 / TOY_C / TOY_C;
    for (int c = 0; c < TOY_C; c++)
        mean += t->head[u][c] / (double)TOY_C;
    return (t->head[u][v] + t->head[u][TOY_V + pos] - 2 * mean) / sqrt(var + t->eps);
}

/* -log p(u | v at pos). */
__attribute__((unused)) static double toy_nats(const struct toy *t, int v, int pos, int u)
{
    double max = -INFINITY, sum = 0;
    for (int w = 0; w < TOY_V; w++)
        max = fmax(max, toy_logit(t, v, pos, w));
    for (int w = 0; w < TOY_V; w++)
        sum += exp(toy_logit(t, v, pos, w) - max);
    return log(sum) + max - toy_logit(t, v, pos, u);
}

#endif
