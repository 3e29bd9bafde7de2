/* decode: the cache of keys and values, and attention of one new position a row. */
#include <math.h>
#include <string.h>

#include "trainer/cpu/impl.h"

struct decode_job {
    struct cpu *c;
    int64_t B, T, C, HS, heads, positions;
    const float *qkv;
    const int32_t *pos;
    float *k, *v, *y;
};

static struct decode_job job_of(struct backend *b, struct tensor *k, struct tensor *v,
                                const struct tensor *qkv, const struct tensor *pos, int heads,
                                int64_t T)
{
    int64_t C = qkv->dim[qkv->ndim - 1] / 3;
    return (struct decode_job){
        .c = cpu_of(b),
        .B = k->dim[0],
        .T = T,
        .C = C,
        .HS = C / heads,
        .heads = heads,
        .positions = k->dim[2],
        .qkv = qkv->data,
        .pos = pos->data,
        .k = k->data,
        .v = v->data,
    };
}

static bool inside(struct backend *b, const struct decode_job *j, const char *op)
{
    for (int64_t i = 0; i < j->B; i++)
        if (j->pos[i] >= 0 && j->pos[i] + j->T > j->positions) {
            backend_fail(b, "%s: position %lld of row %lld, the cache has %lld", op,
                         (long long)(j->pos[i] + j->T - 1), (long long)i, (long long)j->positions);
            return false;
        }
    return true;
}

/* Keys and values of T positions of one (row, head) into its cache. */
static void store(const struct decode_job *j, int64_t task)
{
    int64_t b = task / j->heads, h = task % j->heads, W = 3 * j->C;
    size_t bytes = (size_t)j->HS * sizeof(float);
    for (int64_t t = 0; t < j->T; t++) {
        const float *from = j->qkv + (b * j->T + t) * W + h * j->HS;
        int64_t to = (task * j->positions + j->pos[b] + t) * j->HS;
        memcpy(j->k + to, from + j->C, bytes);
        memcpy(j->v + to, from + 2 * j->C, bytes);
    }
}

static void write_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct decode_job *j = ctx;
    if (j->pos[task / j->heads] >= 0)
        store(j, task);
}

void cpu_kv_write(struct backend *b, struct tensor *k, struct tensor *v, const struct tensor *qkv,
                  const struct tensor *pos, int heads)
{
    struct decode_job j = job_of(b, k, v, qkv, pos, heads, qkv->dim[1]);
    if (inside(b, &j, "kv_write"))
        pool_run(j.c->pool, j.B * heads, write_task, &j);
}

/* Both products are those of one row with a dense matrix: the keys, [n, HS] against q, and the
 * values, s against [n, HS]. */
static void step_task(void *ctx, int64_t task, int worker)
{
    const struct decode_job *j = ctx;
    const struct vec *v = j->c->vec;
    int64_t b = task / j->heads, h = task % j->heads, n = j->pos[b] + 1, HS = j->HS;
    float *y = j->y + b * j->C + h * HS;
    if (n <= 0) {
        memset(y, 0, (size_t)HS * sizeof *y);
        return;
    }
    store(j, task);
    float *s = cpu_scratch(j->c, worker, (size_t)(j->positions + 9 * HS));
    const float *q = j->qkv + b * 3 * j->C + h * HS;
    struct vec_few scores = {.m = 1, .n = n, .k = HS, .ldx = HS, .ldy = n, .x = q, .y = s};
    struct vec_few out = {.m = 1, .n = HS, .k = n, .ldx = n, .ldy = HS, .x = s, .y = y};
    scores.w = j->k + task * j->positions * HS;
    scores.room = s + j->positions;
    out.w = j->v + task * j->positions * HS;
    v->few_out_in(&scores);
    v->scale(s, (float)(1 / sqrt((double)HS)), n);
    double sum = v->exp_sum(s, s, v->max(s, n), n);
    v->few_in_out(&out);
    v->scale(y, (float)(1 / sum), HS);
}

void cpu_attention_step(struct backend *b, struct tensor *y, struct tensor *k, struct tensor *v,
                        const struct tensor *qkv, const struct tensor *pos, int heads)
{
    struct decode_job j = job_of(b, k, v, qkv, pos, heads, 1);
    j.y = y->data;
    if (inside(b, &j, "attention_step"))
        pool_run(j.c->pool, j.B * heads, step_task, &j);
}
