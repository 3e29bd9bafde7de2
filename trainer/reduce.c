/* reduce: buckets of gradients over ranks, ZeRO-1, see reduce.h. */
#include "trainer/reduce.h"

#include <stdlib.h>

#include "trainer/gpt2_private.h"

/* Elements of a bucket: an eighth of a small model, so that tests have several; 32 MiB at most, where
 * links reach their full rate. */
#define LEAST ((int64_t)1 << 12)
#define MOST  ((int64_t)8 << 20)
#define SHARE 8
/* Pieces begin at multiples of 256 bytes. */
#define ALIGN 64

static int64_t up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int64_t reduce_extent(int64_t count, int ranks)
{
    return ranks > 1 ? up(count, (int64_t)ranks * ALIGN) : count;
}

static int64_t bucket_of(int64_t count, int ranks)
{
    int64_t n = count / SHARE;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n;
    return up(n, (int64_t)ranks * ALIGN);
}

int reduce_pieces(int64_t count, int ranks)
{
    int64_t n = bucket_of(count, ranks);
    return (int)((reduce_extent(count, ranks) + n - 1) / n);
}

struct reduce_piece reduce_piece(int64_t count, int ranks, int rank, int k)
{
    int64_t n = bucket_of(count, ranks), all = reduce_extent(count, ranks);
    struct reduce_piece p = {.bucket = k * n};
    p.whole = all - p.bucket < n ? all - p.bucket : n;
    p.n = p.whole / ranks;
    p.at = p.bucket + rank * p.n;
    p.used = count - p.at < p.n ? count - p.at : p.n;
    if (p.used < 0)
        p.used = 0;
    p.home = p.bucket / ranks;
    return p;
}

/* ---- a model's gradients ---- */

struct reducer {
    struct gpt2 *m;
    struct comm *c;
    int64_t count;
    int buckets, left; /* left: buckets [0, left) have not gone in this step */
    int early;
    ticket last;
};

static struct reduce_piece piece(const struct reducer *r, int k)
{
    return reduce_piece(r->count, r->c->world, r->c->rank, k);
}

static struct tensor bucket_view(const struct tensor *flat, const struct reduce_piece *p)
{
    return tensor_1d(flat->type, (char *)flat->data + (size_t)p->bucket * dtype_size(flat->type),
                     p->whole);
}

static struct tensor piece_view(const struct tensor *flat, int64_t at, int64_t n)
{
    return tensor_1d(flat->type, (char *)flat->data + (size_t)at * dtype_size(flat->type), n);
}

/* Backward runs from the end to the start, and so do the buckets. */
static void on_ready(void *ctx, int64_t from)
{
    struct reducer *r = ctx;
    const struct tensor *g = &r->m->g.flat;
    ticket after = 0;
    bool marked = false;
    while (r->left > 0) {
        struct reduce_piece p = piece(r, r->left - 1);
        if (p.bucket < from)
            break;
        if (!marked)
            after = op_mark(r->m->b);
        marked = true;
        struct tensor whole = bucket_view(g, &p), part = piece_view(g, p.at, p.n);
        if (gpt2_sharded(r->m))
            r->last = comm_reduce_scatter(r->c, &part, &whole, after);
        else
            r->last = comm_all_reduce(r->c, &whole, after);
        r->left--;
    }
}

static int on_sum(void *ctx, double *v, struct err *e)
{
    struct reducer *r = ctx;
    double *all = mem_array((size_t)r->c->world, sizeof *all);
    int rc = rendezvous_gather(r->c->meet, v, sizeof *v, all, e);
    *v = 0;
    for (int i = 0; i < r->c->world; i++)
        *v += all[i];
    free(all);
    return rc;
}

static int on_share(void *ctx, struct err *e)
{
    struct reducer *r = ctx;
    const struct tensor *w = &r->m->w.flat;
    ticket after = op_mark(r->m->b), last = 0;
    for (int k = 0; k < r->buckets; k++) {
        struct reduce_piece p = piece(r, k);
        struct tensor whole = bucket_view(w, &p), part = piece_view(w, p.at, p.n);
        last = comm_all_gather(r->c, &whole, &part, after);
    }
    comm_wait(r->c, last);
    return comm_sync(r->c, e);
}

static int on_whole(void *ctx, const struct tensor *share, struct err *e)
{
    struct reducer *r = ctx;
    ticket after = op_mark(r->m->b), last = 0;
    for (int k = 0; k < r->buckets; k++) {
        struct reduce_piece p = piece(r, k);
        struct tensor whole = bucket_view(&r->m->g.flat, &p);
        struct tensor part = piece_view(share, p.home, p.n);
        last = comm_all_gather(r->c, &whole, &part, after);
    }
    comm_wait(r->c, last);
    return comm_sync(r->c, e);
}

struct reducer *reducer_new(struct gpt2 *m, struct comm *c)
{
    struct reducer *r = mem_zero(sizeof *r);
    *r = (struct reducer){.m = m, .c = c, .count = m->params.count};
    r->buckets = reduce_pieces(r->count, c->world);
    struct gpt2_peers p = {on_ready, on_sum, on_share, on_whole, r};
    gpt2_join(m, &p);
    return r;
}

void reducer_free(struct reducer *r)
{
    if (!r)
        return;
    struct gpt2_peers none = {0};
    gpt2_join(r->m, &none);
    free(r);
}

void reducer_begin(struct reducer *r)
{
    r->left = r->buckets;
    r->last = 0;
}

void reducer_rest(struct reducer *r)
{
    on_ready(r, 0);
}

int reducer_finish(struct reducer *r, struct err *e)
{
    r->early = r->buckets - r->left;
    reducer_rest(r); /* what backward did not tell: there was none */
    comm_wait(r->c, r->last);
    return comm_sync(r->c, e);
}

int reducer_early(const struct reducer *r)
{
    return r->early;
}

int reducer_buckets(const struct reducer *r)
{
    return r->buckets;
}

/* ---- rank 0's to all ---- */

static int spread(struct reducer *r, const struct tensor *flat, struct err *e)
{
    struct tensor t = *flat;
    comm_wait(r->c, comm_broadcast(r->c, &t, 0, op_mark(r->m->b)));
    return comm_sync(r->c, e);
}

int reducer_weights(struct reducer *r, struct err *e)
{
    if (spread(r, &r->m->w.flat, e))
        return -1;
    gpt2_refresh(r->m, 0);
    return op_sync(r->m->b, e);
}

int reducer_spread(struct reducer *r, float *flat, struct err *e)
{
    if (r->c->rank == 0 && gpt2_put(r->m, 'g', flat, e))
        return -1;
    if (spread(r, &r->m->g.flat, e))
        return -1;
    return r->c->rank ? gpt2_get(r->m, 'g', flat, e) : 0;
}
