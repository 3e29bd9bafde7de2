/* loss_pass: see eval/loss_pass.h. */
#include "eval/loss_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "eval/loss_keep.h"

enum { PAD = 32, POSITIONS = 1024 };

/* One row: x read, y predicted (-1: not counted). */
struct pass_queue {
    int64_t T, rows;
    int32_t *x, *y; /* [batch, T] */
    size_t *row;    /* [batch] */
};

int64_t loss_rows(int64_t context)
{
    return context < POSITIONS ? POSITIONS / context : 1;
}

void pass_init(struct pass *p, struct gpt2 *m, int64_t most, struct loss_units *units)
{
    int64_t batch = loss_rows(gpt2_config(m)->context);
    *p = (struct pass){.m = m, .batch = batch, .most = most, .units = units, .world = 1};
    if (units->meet) {
        p->rank = units->meet->rank;
        p->world = units->meet->world;
    }
    p->nq = (most + PAD - 1) / PAD;
    p->q = mem_array((size_t)p->nq, sizeof *p->q);
    p->loss = mem_array((size_t)batch, (size_t)most * sizeof *p->loss);
}

void pass_release(struct pass *p)
{
    for (int64_t i = 0; i < p->nq; i++) {
        free(p->q[i].x);
        free(p->q[i].y);
        free(p->q[i].row);
    }
    free(p->q);
    free(p->sum);
    free(p->loss);
}

/* The row that waits at place b of a queue, if a run before this one kept it. */
static const struct loss_row *kept(const struct pass *p, const struct pass_queue *q, int64_t b)
{
    size_t row = q->row[b];
    return loss_keep_find(p->units->keep, row, p->units->v[p->sum[row].unit].id);
}

/* Whether all that waits is kept: then it is taken and the queue is empty. */
static bool take_kept(struct pass *p, struct pass_queue *q)
{
    for (int64_t b = 0; b < q->rows; b++)
        if (!kept(p, q, b))
            return false;
    for (int64_t b = 0; b < q->rows; b++) {
        p->sum[q->row[b]].nats = kept(p, q, b)->nats;
        p->sum[q->row[b]].nats_end = kept(p, q, b)->nats_end;
    }
    q->rows = 0;
    return true;
}

/* Sums the losses of the row at place b, and keeps them. */
static int sum_row(struct pass *p, const struct pass_queue *q, int64_t b, struct err *e)
{
    struct row_sum *r = &p->sum[q->row[b]];
    struct loss_row row = {.unit = p->units->v[r->unit].id, .row = (int64_t)q->row[b]};
    for (int64_t t = 0; t < q->T; t++) {
        if (q->y[b * q->T + t] < 0)
            continue;
        *(t == r->end ? &row.nats_end : &row.nats) += p->loss[b * q->T + t];
        row.tokens++;
    }
    if (!isfinite(row.nats) || !isfinite(row.nats_end))
        return err_set(e, "%.*s: its loss is not finite", STR_ARG(row.unit));
    r->nats = row.nats;
    r->nats_end = row.nats_end;
    if (kept(p, q, b))
        return 0;
    p->done += (double)row.tokens;
    return loss_keep_add(p->units->keep, &row, e);
}

static int flush(struct pass *p, struct pass_queue *q, struct err *e)
{
    if (!q->rows || take_kept(p, q))
        return 0;
    for (int64_t i = q->rows * q->T; i < p->batch * q->T; i++) {
        q->x[i] = 0;
        q->y[i] = -1;
    }
    if (gpt2_losses(p->m, q->x, q->y, p->batch, q->T, p->loss, e))
        return -1;
    for (int64_t b = 0; b < q->rows; b++)
        if (sum_row(p, q, b, e))
            return -1;
    q->rows = 0;
    if (p->progress)
        progress_set(p->progress, p->done * p->world, NULL); /* the others are as far */
    return interrupt_raised() ? err_code(e, EXIT_INCOMPLETE, "interrupted") : 0;
}

/* The rank that computes a row: as many rows in a row as a pass takes. */
static int owner_of(const struct pass *p, size_t row)
{
    return (int)(row / (size_t)p->batch % (size_t)p->world);
}

/* Every rank gets the sums of all rows. */
static int exchange(struct pass *p, struct err *e)
{
    size_t n = p->nsums;
    if (p->world == 1 || !n)
        return 0;
    double *mine = mem_array(2 * n, sizeof *mine);
    double *all = mem_array(2 * n * (size_t)p->world, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        mine[2 * i] = p->sum[i].nats;
        mine[2 * i + 1] = p->sum[i].nats_end;
    }
    int rc = rendezvous_gather(p->units->meet, mine, 2 * n * sizeof *mine, all, e);
    for (size_t i = 0; i < n && !rc; i++) {
        const double *got = all + 2 * ((size_t)owner_of(p, i) * n + i);
        p->sum[i].nats = got[0];
        p->sum[i].nats_end = got[1];
    }
    free(mine);
    free(all);
    return rc;
}

int pass_row(struct pass *p, size_t unit, const int32_t *x, const int32_t *y, int64_t n,
             int64_t from, int64_t end, struct err *e)
{
    struct pass_queue *q = &p->q[(n + PAD - 1) / PAD - 1];
    if (!q->x) {
        int64_t T = (q - p->q + 1) * PAD;
        q->T = T < p->most ? T : p->most;
        q->x = mem_array((size_t)p->batch, (size_t)q->T * sizeof *q->x);
        q->y = mem_array((size_t)p->batch, (size_t)q->T * sizeof *q->y);
        q->row = mem_array((size_t)p->batch, sizeof *q->row);
    }
    int32_t *qx = q->x + q->rows * q->T, *qy = q->y + q->rows * q->T;
    for (int64_t t = 0; t < q->T; t++) {
        qx[t] = t < n ? x[t] : 0;
        qy[t] = t >= from && t < n ? y[t] : -1;
    }
    if (p->nsums == p->sums_cap) {
        p->sums_cap = p->sums_cap ? 2 * p->sums_cap : 256;
        p->sum = mem_grow(p->sum, p->sums_cap * sizeof *p->sum);
    }
    p->sum[p->nsums] = (struct row_sum){.unit = unit, .end = end};
    if (owner_of(p, p->nsums) != p->rank) {
        p->nsums++;
        return 0;
    }
    q->row[q->rows++] = p->nsums++;
    return q->rows == p->batch ? flush(p, q, e) : 0;
}

int pass_finish(struct pass *p, struct err *e)
{
    for (int64_t i = p->nq; i-- > 0;)
        if (p->q[i].x && flush(p, &p->q[i], e))
            return -1;
    if (exchange(p, e))
        return -1;
    for (size_t i = 0; i < p->nsums; i++) {
        struct loss_unit *u = &p->units->v[p->sum[i].unit];
        u->nats += p->sum[i].nats;
        if (p->sum[i].end >= 0)
            u->nats_end = p->sum[i].nats_end;
    }
    return 0;
}
