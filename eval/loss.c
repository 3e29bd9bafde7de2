/* loss: see eval/loss.h. Rows wait in one queue for each padded length; a full queue is one
 * forward pass. Units are summed when all is done, in order of rows, so the batch never shows.
 */
#include "eval/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

enum { PAD = 32, POSITIONS = 1024 };

/* One row: x read, y predicted (-1: not counted); its losses go to nats[] of the unit. */
struct queue {
    int64_t T, rows;
    int32_t *x, *y; /* [batch, T] */
    size_t *row;    /* [batch] */
};
/* Sums of rows; added to their units at the end, so the order of flushes never shows. */
struct row_sum {
    size_t unit;
    int64_t end; /* position whose target is a document's closing EOT; -1: none */
    double nats, nats_end;
};
struct pass {
    struct gpt2 *m;
    int64_t batch, most; /* most: longest T */
    struct queue *q;     /* one for each multiple of PAD */
    int64_t nq;
    float *loss;
    struct row_sum *sum;
    size_t nsums, sums_cap;
    struct loss_units *units;
    int rank, world;
    struct progress *progress;
    double done;
};

void loss_units_release(struct loss_units *u)
{
    free(u->v);
    arena_release(&u->arena);
    *u = (struct loss_units){0};
}

static struct loss_unit *unit_add(struct loss_units *u)
{
    if (u->n == u->cap) {
        u->cap = u->cap ? 2 * u->cap : 256;
        u->v = mem_grow(u->v, u->cap * sizeof *u->v);
    }
    u->v[u->n] = (struct loss_unit){.oracle_bits = NAN, .nats_end = NAN};
    return &u->v[u->n++];
}

void loss_sum(const struct loss_units *u, struct loss_totals *t)
{
    t->nats = t->nats_end = 0;
    t->tokens = t->bytes = 0;
    for (size_t i = 0; i < u->n; i++) {
        t->nats += u->v[i].nats;
        t->nats_end += isnan(u->v[i].nats_end) ? 0 : u->v[i].nats_end;
        t->tokens += u->v[i].tokens;
        t->bytes = t->bytes < 0 || u->v[i].bytes < 0 ? -1 : t->bytes + u->v[i].bytes;
    }
}

/* ---- passes --------------------------------------------------------------------------------- */

int64_t loss_rows(int64_t context)
{
    return context < POSITIONS ? POSITIONS / context : 1;
}

static void pass_init(struct pass *p, struct gpt2 *m, int64_t most, struct loss_units *units)
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

static void pass_release(struct pass *p)
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

static int flush(struct pass *p, struct queue *q, struct err *e)
{
    if (!q->rows)
        return 0;
    for (int64_t i = q->rows * q->T; i < p->batch * q->T; i++) {
        q->x[i] = 0;
        q->y[i] = -1;
    }
    if (gpt2_losses(p->m, q->x, q->y, p->batch, q->T, p->loss, e))
        return -1;
    for (int64_t b = 0; b < q->rows; b++) {
        struct row_sum *r = &p->sum[q->row[b]];
        double sum = 0, end = 0;
        int64_t counted = 0;
        for (int64_t t = 0; t < q->T; t++) {
            if (q->y[b * q->T + t] < 0)
                continue;
            *(t == r->end ? &end : &sum) += p->loss[b * q->T + t];
            counted++;
        }
        if (!isfinite(sum) || !isfinite(end))
            return err_set(e, "%.*s: its loss is not finite", STR_ARG(p->units->v[r->unit].id));
        r->nats = sum;
        r->nats_end = end;
        p->done += (double)counted;
    }
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

/* Queues n positions: x[n], targets y[n] with those before `from` not counted and the one at `end`
 * (-1: none) summed apart. */
static int row_add(struct pass *p, size_t unit, const int32_t *x, const int32_t *y, int64_t n,
                   int64_t from, int64_t end, struct err *e)
{
    struct queue *q = &p->q[(n + PAD - 1) / PAD - 1];
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

/* Runs what still waits and gives the units their sums. */
static int flush_all(struct pass *p, struct err *e)
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

/* ---- windows -------------------------------------------------------------------------------- */

struct windows {
    const struct tokens *t;
    int64_t start, end, T, S, n; /* slice [start, end) of the split; n windows, S apart */
    int64_t vocab, eot;
    int32_t *document; /* [n] in which the window's first target lies, from 1; 0: before any EOT */
    int64_t documents; /* of which an id is a target, their EOT aside */
};

static int windows_make(struct windows *w, const struct gpt2 *m, const struct tokens *t,
                        const struct loss_slice *s, struct err *e)
{
    int64_t left = t->n - s->start - 1, n = s->tokens > 0 ? s->tokens : left;
    if (s->start < 0 || left < 1)
        return err_code(e, EXIT_USAGE, "the slice starts at token %lld, the split has %lld",
                        (long long)s->start, (long long)t->n);
    if (n > left)
        return err_code(e, EXIT_USAGE,
                        "%lld tokens to predict behind token %lld, but the split has only %lld",
                        (long long)n, (long long)s->start, (long long)left);
    if (s->window < 1 || s->window > gpt2_config(m)->context)
        return err_code(e, EXIT_USAGE, "windows of %lld for a context of %lld",
                        (long long)s->window, (long long)gpt2_config(m)->context);
    if (s->stride < 0 || s->stride > s->window)
        return err_code(e, EXIT_USAGE, "a stride of %lld for windows of %lld", (long long)s->stride,
                        (long long)s->window);
    *w = (struct windows){.t = t,
                          .start = s->start,
                          .end = s->start + 1 + n,
                          .T = s->window,
                          .S = s->stride ? s->stride : s->window,
                          .eot = s->eot,
                          .vocab = gpt2_config(m)->vocab};
    w->n = n <= w->T ? 1 : 1 + (n - w->T + w->S - 1) / w->S;
    return 0;
}

/* Place of the first target that window i counts. */
static int64_t first_counted(const struct windows *w, int64_t i)
{
    return w->start + 1 + (i ? w->T + (i - 1) * w->S : 0);
}

/* Numbers documents by the EOTs seen from the split's start, and counts those with a target. */
static int windows_documents(struct windows *w, struct err *e)
{
    enum { CHUNK = 1 << 16 };
    int32_t *ids = mem_array(CHUNK, sizeof *ids), seen = 0, counted = -1;
    int64_t next = 0, last = w->end - 1;
    int rc = 0;
    w->document = mem_array((size_t)w->n, sizeof *w->document);
    for (int64_t at = 0; at <= last && !rc; at += CHUNK) {
        int64_t n = last + 1 - at < CHUNK ? last + 1 - at : CHUNK;
        rc = tokens_get(w->t, at, n, w->vocab, ids, e);
        for (int64_t i = 0; i < n && !rc; i++) {
            seen += ids[i] == w->eot;
            if (next < w->n && at + i == first_counted(w, next))
                w->document[next++] = seen;
            if (at + i > w->start && ids[i] != w->eot && counted != seen) {
                w->documents++;
                counted = seen;
            }
        }
    }
    free(ids);
    return rc;
}

/* Cluster names; a document of more than 32 windows falls into blocks of 16 (a last block of less
 * than 8 joins the one before). */
static void windows_clusters(const struct windows *w, struct loss_units *out,
                             struct loss_totals *totals)
{
    totals->documents = w->documents;
    for (int64_t from = 0, to; from < w->n; from = to) {
        for (to = from; to < w->n && w->document[to] == w->document[from];)
            to++;
        bool is_long = to - from > LOSS_LONG_DOCUMENT;
        int64_t blocks = (to - from + LOSS_BLOCK / 2) / LOSS_BLOCK;
        totals->long_documents += is_long;
        for (int64_t i = from; i < to; i++) {
            int64_t k = (i - from) / LOSS_BLOCK;
            struct loss_unit *u = &out->v[i];
            u->cluster = is_long ? str_printf(&out->arena, "d%06d.%04lld", w->document[i],
                                              (long long)(k < blocks ? k : blocks - 1))
                                 : str_printf(&out->arena, "d%06d", w->document[i]);
        }
    }
}

static int64_t bytes_of(const struct i64s *bytes, const int32_t *ids, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= (int64_t)bytes->n)
            return -1;
        sum += bytes->v[ids[i]];
    }
    return sum;
}

int loss_windows(struct gpt2 *m, const struct tokens *t, const struct loss_slice *s,
                 struct loss_units *out, struct loss_totals *totals, struct err *e)
{
    struct windows w = {0};
    struct pass p = {0};
    struct progress bar;
    int32_t *ids = NULL;
    int rc = -1;
    *totals = (struct loss_totals){0};
    if (windows_make(&w, m, t, s, e) || windows_documents(&w, e))
        goto out;
    ids = mem_array((size_t)w.T + 1, sizeof *ids);
    pass_init(&p, m, w.T, out);
    progress_begin(&bar, "loss", "tokens", (double)(w.end - w.start - 1), 0);
    p.progress = &bar;
    for (int64_t i = 0; i < w.n; i++) {
        int64_t at = w.start + i * w.S, n = w.end - 1 - at < w.T ? w.end - 1 - at : w.T;
        int64_t from = first_counted(&w, i) - 1 - at; /* targets before it were counted already */
        if (tokens_get(t, at, n + 1, w.vocab, ids, e))
            goto end;
        struct loss_unit *u = unit_add(out);
        u->id = str_printf(&out->arena, "w%06lld", (long long)i);
        u->tokens = n - from;
        u->bytes = bytes_of(&t->info.token_bytes, ids + 1 + from, n - from);
        if (row_add(&p, out->n - 1, ids, ids + 1, n, from, -1, e))
            goto end;
    }
    rc = flush_all(&p, e);
end:
    progress_end(&bar);
    if (rc == 0) {
        windows_clusters(&w, out, totals);
        loss_sum(out, totals);
    }
out:
    pass_release(&p);
    free(ids);
    free(w.document);
    return rc;
}

/* ---- documents ------------------------------------------------------------------------------ */

/* Queues one document: ids[n + 2] is EOT, its ids, EOT. */
static int document_add(struct pass *p, size_t unit, const int32_t *ids, int64_t targets,
                        struct err *e)
{
    int64_t T = p->most, stride = T / 2 > 0 ? T / 2 : 1, counted = 0;
    for (int64_t at = 0; counted < targets; at += stride) {
        int64_t n = targets - at < T ? targets - at : T;
        int64_t from = counted - at;
        counted = at + n;
        if (row_add(p, unit, ids + at, ids + at + 1, n, from, counted == targets ? n - 1 : -1, e))
            return -1;
    }
    return 0;
}

int loss_documents(struct gpt2 *m, int32_t eot, loss_doc_fn *next, void *ctx,
                   struct loss_units *out, struct loss_totals *totals, struct err *e)
{
    struct pass p;
    struct loss_doc d;
    int32_t *ids = NULL;
    int rc;
    *totals = (struct loss_totals){0};
    pass_init(&p, m, gpt2_config(m)->context, out);
    while ((rc = next(ctx, &d, e)) == 1) {
        struct loss_unit *u = unit_add(out);
        u->id = u->cluster = str_copy(&out->arena, d.id);
        u->tokens = d.n;
        u->bytes = d.bytes;
        u->oracle_bits = d.oracle_bits;
        totals->documents++;
        ids = mem_grow(ids, (size_t)(d.n + 2) * sizeof *ids);
        ids[0] = ids[d.n + 1] = eot;
        if (d.n)
            memcpy(ids + 1, d.ids, (size_t)d.n * sizeof *ids);
        if (document_add(&p, out->n - 1, ids, d.n + 1, e)) {
            rc = -1;
            break;
        }
    }
    if (rc == 0)
        rc = flush_all(&p, e);
    if (rc == 0)
        loss_sum(out, totals);
    pass_release(&p);
    free(ids);
    return rc;
}

/* ---- oracle --------------------------------------------------------------------------------- */

static double gap_of(const struct loss_unit *u, int64_t text_bytes)
{
    double scale = u->bytes > 0 ? (double)text_bytes / (double)u->bytes : 1;
    double end = isnan(u->nats_end) ? 0 : u->nats_end; /* no bytes: nothing to scale */
    return u->nats / log(2) * scale + end / log(2) - u->oracle_bits;
}

int loss_check_oracle(const struct loss_units *u, const int64_t *text_bytes, struct loss_gap *gap,
                      struct err *e)
{
    enum { FEWEST = 10 };
    double sum = 0, squares = 0;
    *gap = (struct loss_gap){.mean = NAN, .se = NAN};
    for (size_t i = 0; i < u->n; i++) {
        if (isnan(u->v[i].oracle_bits))
            continue;
        gap->n++;
        sum += gap_of(&u->v[i], text_bytes[i]);
    }
    if (gap->n < FEWEST)
        return 0;
    gap->mean = sum / (double)gap->n;
    for (size_t i = 0; i < u->n; i++) {
        double d = gap_of(&u->v[i], text_bytes[i]) - gap->mean;
        squares += isnan(d) ? 0 : d * d;
    }
    gap->se = sqrt(squares / (double)(gap->n - 1) / (double)gap->n);
    if (gap->mean >= -3 * gap->se)
        return 0;
    return err_set(e,
                   "the loss is %.4f bits a document below what any model can reach (standard "
                   "error %.4f, %lld documents): test text was trained on, or sums and "
                   "denominators are wrong",
                   -gap->mean, gap->se, (long long)gap->n);
}
