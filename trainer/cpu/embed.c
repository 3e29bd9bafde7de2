/* embed: token and position embeddings. The gradient of a table row is summed by one task in the
 * order of the tokens, so it does not depend on the threads. */
#include <string.h>

#include "trainer/cpu/impl.h"

struct embed_job {
    struct cpu *c;
    struct backend *b;
    float *y; /* or dy */
    const int32_t *ids, *pos;
    float *wte, *wpe; /* or their gradients */
    int64_t B, T, C, V, positions, rows;
    struct cpu_drop drop;
};

static void fwd_task(void *ctx, int64_t task, int worker)
{
    struct embed_job *j = ctx;
    int64_t from = task * j->rows, N = j->B * j->T, C = j->C;
    int64_t to = from + j->rows < N ? from + j->rows : N;
    float *mask = j->drop.on ? cpu_scratch(j->c, worker, (size_t)C) : NULL;
    for (int64_t i = from; i < to; i++) {
        int64_t s = i / j->T, t = i % j->T, at = j->ids[i] < 0 ? 0 : t;
        int32_t id = j->ids[j->ids[i] < 0 ? s * j->T : i]; /* padding is the first one again */
        float *y = j->y + i * C;
        if (j->pos) {
            at += j->pos[s];
            if (j->pos[s] < 0) { /* an idle row of decoding */
                memset(y, 0, (size_t)C * sizeof *y);
                continue;
            }
        }
        j->c->vec->add_masked(y, j->wte + id * C, j->wpe + at * C, NULL, C);
        if (mask) {
            cpu_mask(j->c, &j->drop, mask, s, (uint64_t)(t * C), C);
            j->c->vec->mul(y, y, mask, C);
        }
    }
}

/* Ids and positions index tables: one outside is refused before anything is read. */
static bool inside(const struct embed_job *j, const char *op, bool padded)
{
    for (int64_t i = 0; i < j->B * j->T; i++) {
        bool idle = j->pos && j->pos[i / j->T] < 0;
        bool padding = padded && j->ids[i] == -1 && i % j->T != 0;
        if (!idle && !padding && (j->ids[i] < 0 || j->ids[i] >= j->V)) {
            backend_fail(j->b, "%s: id %d of row %lld is outside the vocabulary of %lld", op,
                         j->ids[i], (long long)i, (long long)j->V);
            return false;
        }
    }
    for (int64_t s = 0; j->pos && s < j->B; s++)
        if (j->pos[s] >= 0 && j->pos[s] + j->T > j->positions) {
            backend_fail(j->b, "%s: position %lld of row %lld, the table has %lld", op,
                         (long long)(j->pos[s] + j->T - 1), (long long)s, (long long)j->positions);
            return false;
        }
    return true;
}

static struct embed_job job_of(struct backend *b, const struct tensor *y, const struct tensor *ids,
                               const struct tensor *wte, const struct tensor *wpe,
                               struct dropout drop)
{
    int64_t N = y->dim[0] * y->dim[1];
    return (struct embed_job){
        .c = cpu_of(b),
        .b = b,
        .y = y->data,
        .ids = ids->data,
        .wte = wte->data,
        .wpe = wpe->data,
        .B = y->dim[0],
        .T = y->dim[1],
        .C = y->dim[2],
        .V = wte->dim[0],
        .positions = wpe->dim[0],
        .rows = cpu_rows_per_task(N),
        .drop = cpu_drop(drop),
    };
}

void cpu_embed_fwd(struct backend *b, struct tensor *y, const struct tensor *ids,
                   const struct tensor *wte, const struct tensor *wpe, const struct tensor *pos,
                   struct dropout drop)
{
    struct embed_job j = job_of(b, y, ids, wte, wpe, drop);
    j.pos = pos ? pos->data : NULL;
    if (inside(&j, "embed_fwd", true))
        pool_run(j.c->pool, (j.B * j.T + j.rows - 1) / j.rows, fwd_task, &j);
}

static void drop_task(void *ctx, int64_t task, int worker)
{
    struct embed_job *j = ctx;
    int64_t from = task * j->rows, N = j->B * j->T, C = j->C;
    int64_t to = from + j->rows < N ? from + j->rows : N;
    float *mask = cpu_scratch(j->c, worker, (size_t)C);
    for (int64_t i = from; i < to; i++) {
        cpu_mask(j->c, &j->drop, mask, i / j->T, (uint64_t)(i % j->T * C), C);
        j->c->vec->mul(j->y + i * C, j->y + i * C, mask, C);
    }
}

enum { SLICES = 16 }; /* of the vocabulary, by the low bits of the id */

/* Tasks 0..15 own a slice of the vocabulary; the ones behind own a block of positions. */
static void bwd_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    struct embed_job *j = ctx;
    const struct vec *v = j->c->vec;
    int64_t C = j->C, N = j->B * j->T;
    if (task < SLICES) {
        for (int64_t i = 0; i < N; i++)
            if (j->ids[i] % SLICES == task)
                v->add(j->wte + j->ids[i] * C, j->y + i * C, C);
        return;
    }
    int64_t from = (task - SLICES) * SLICES, to = from + SLICES < j->T ? from + SLICES : j->T;
    for (int64_t t = from; t < to; t++)
        for (int64_t s = 0; s < j->B; s++)
            v->add(j->wpe + t * C, j->y + (s * j->T + t) * C, C);
}

void cpu_embed_bwd(struct backend *b, struct tensor *dwte, struct tensor *dwpe, struct tensor *dy,
                   const struct tensor *ids, struct dropout drop)
{
    struct embed_job j = job_of(b, dy, ids, dwte, dwpe, drop);
    if (!inside(&j, "embed_bwd", false))
        return;
    if (j.drop.on)
        pool_run(j.c->pool, (j.B * j.T + j.rows - 1) / j.rows, drop_task, &j);
    pool_run(j.c->pool, SLICES + (j.T + SLICES - 1) / SLICES, bwd_task, &j);
}
