/* loss: see eval/loss.h. What goes through the model is in eval/loss_pass.c. */
#include "eval/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/loss_keep.h"
#include "eval/loss_pass.h"

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

/* Cluster names; a document of more tokens than 32 whole windows falls into blocks of as many as 16
 * have (a last block of less than 8 joins the one before), whatever the stride. */
static void windows_clusters(const struct windows *w, struct loss_units *out,
                             struct loss_totals *totals)
{
    int64_t block = LOSS_BLOCK * w->T;
    totals->documents = w->documents;
    for (int64_t from = 0, to; from < w->n; from = to) {
        for (to = from; to < w->n && w->document[to] == w->document[from];)
            to++;
        int64_t first = first_counted(w, from), tokens = first_counted(w, to) - first;
        bool is_long = tokens > LOSS_LONG_DOCUMENT * w->T;
        int64_t blocks = (tokens + block / 2) / block;
        totals->long_documents += is_long;
        for (int64_t i = from; i < to; i++) {
            int64_t k = (first_counted(w, i) - first) / block;
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
    p.done = out->keep ? (double)out->keep->kept_tokens / p.world : 0;
    progress_begin(&bar, "loss", "tokens", (double)(w.end - w.start - 1), p.done * p.world);
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
        if (pass_row(&p, out->n - 1, ids, ids + 1, n, from, -1, e))
            goto end;
    }
    rc = pass_finish(&p, e);
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
        if (pass_row(p, unit, ids + at, ids + at + 1, n, from, counted == targets ? n - 1 : -1, e))
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
        rc = pass_finish(&p, e);
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
