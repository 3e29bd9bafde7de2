/* logprob: see eval/logprob.h. */
#include "eval/logprob.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"

/* Rows in a pass: no more than any model for generation is opened for, see generate_batch(). */
enum { PAD = 32, POSITIONS = 1024, ROWS = 8 };

struct job {
    void *tag;
    struct logprob_value *v;
    size_t n, left;
    int64_t cropped;
    struct job *before, *after;
};
struct row {
    struct job *job;
    size_t choice;
    int32_t *target; /* [n] of the span */
};
struct queue {
    int64_t T, room, rows;
    int32_t *x; /* [room, T] */
    struct gpt2_span *span;
    struct row *row;
};
struct logprob {
    struct gpt2 *m;
    struct encoder *encoder;
    int32_t eot;
    logprob_done_fn *done;
    void *ctx;
    int64_t context, vocab, nq;
    struct queue *q; /* one for each multiple of PAD */
    struct queue *running;
    struct job *live;
    struct ids ids;
};

struct logprob *logprob_new(struct gpt2 *m, struct encoder *encoder, int32_t eot,
                            logprob_done_fn *done, void *ctx)
{
    struct logprob *p = mem_zero(sizeof *p);
    *p = (struct logprob){.m = m,
                          .encoder = encoder,
                          .eot = eot,
                          .done = done,
                          .ctx = ctx,
                          .context = gpt2_config(m)->context,
                          .vocab = gpt2_config(m)->vocab};
    p->nq = (p->context + PAD - 1) / PAD;
    p->q = mem_array((size_t)p->nq, sizeof *p->q);
    return p;
}

static void job_free(struct logprob *p, struct job *j)
{
    if (j->before)
        j->before->after = j->after;
    else
        p->live = j->after;
    if (j->after)
        j->after->before = j->before;
    free(j->v);
    free(j);
}

void logprob_free(struct logprob *p)
{
    if (!p)
        return;
    while (p->live)
        job_free(p, p->live);
    for (int64_t i = 0; i < p->nq; i++) {
        for (int64_t k = 0; k < p->q[i].rows; k++)
            free(p->q[i].row[k].target);
        free(p->q[i].x);
        free(p->q[i].span);
        free(p->q[i].row);
    }
    free(p->q);
    ids_release(&p->ids);
    free(p);
}

/* ---- ids ------------------------------------------------------------------------------------ */

/* Bytes of white space at the end of s, as Python's str.rstrip() takes it. */
static size_t blank_tail(struct str s)
{
    size_t end = 0;
    for (size_t at = 0; at < s.n;) {
        uint32_t c = utf8_next(s, &at);
        bool blank = (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
                     c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
                     c == 0x202F || c == 0x205F || c == 0x3000;
        end = blank ? end : at;
    }
    return s.n - end;
}

static int joined(struct encoder *x, struct str context, struct str continuation, struct ids *out,
                  size_t *from, struct err *e)
{
    struct buf text = {0};
    size_t begin = out->n, tail = utf8_valid(context) == context.n ? blank_tail(context) : 0;
    buf_adds(&text, context);
    buf_adds(&text, continuation);
    int rc = encode(x, (struct str){text.p, context.n - tail}, out, e);
    *from = out->n - begin;
    out->n = begin;
    rc = rc ? rc : encode(x, buf_str(&text), out, e);
    buf_release(&text);
    return rc;
}

int logprob_encode(struct encoder *x, struct str context, struct str continuation, bool apart,
                   int32_t eot, struct ids *out, size_t *from, struct err *e)
{
    out->n = 0;
    *from = 0;
    if (!context.n) { /* one EOT, not doubled when the continuation brings its own */
        ids_add(out, eot);
        if (encode(x, continuation, out, e))
            return -1;
        if (out->n > 1 && out->v[1] == eot)
            memmove(out->v, out->v + 1, --out->n * sizeof *out->v);
        *from = 1;
        return 0;
    }
    if (!apart)
        return joined(x, context, continuation, out, from, e);
    if (encode(x, context, out, e))
        return -1;
    *from = out->n;
    return encode(x, continuation, out, e);
}

/* ---- passes --------------------------------------------------------------------------------- */

static int take(void *ctx, int64_t b, int64_t pos, const float *logits, struct err *e)
{
    struct logprob *p = ctx;
    struct queue *q = p->running;
    struct row *r = &q->row[b];
    int32_t target = r->target[pos - q->span[b].from];
    double max = -INFINITY, sum = 0;
    int64_t best = 0;
    (void)e;
    for (int64_t i = 0; i < p->vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    max = logits[best];
    for (int64_t i = 0; i < p->vocab; i++)
        sum += exp((double)logits[i] - max); /* a NaN among them makes the sum one */
    struct logprob_value *v = &r->job->v[r->choice];
    v->sum += (double)logits[target] - max - log(sum);
    v->greedy = v->greedy && best == target && !isnan(sum);
    v->tokens++;
    return 0;
}

static int run(struct logprob *p, struct queue *q, struct err *e)
{
    int rc = 0;
    if (!q->rows)
        return 0;
    for (int64_t b = q->rows; b < q->room; b++) {
        q->span[b] = (struct gpt2_span){0};
        memset(q->x + b * q->T, 0, (size_t)q->T * sizeof *q->x);
    }
    p->running = q;
    if (gpt2_spans(p->m, q->x, q->room, q->T, q->span, take, p, e))
        return -1;
    for (int64_t b = 0; b < q->rows; b++) {
        struct job *j = q->row[b].job;
        free(q->row[b].target);
        q->row[b].target = NULL;
        if (--j->left || rc)
            continue;
        rc = p->done(p->ctx, j->tag, j->v, j->n, j->cropped, e);
        job_free(p, j);
    }
    q->rows = 0;
    if (!rc && interrupt_raised())
        rc = err_code(e, EXIT_INCOMPLETE, "interrupted");
    return rc;
}

int logprob_flush(struct logprob *p, struct err *e)
{
    for (int64_t i = p->nq; i-- > 0;)
        if (run(p, &p->q[i], e))
            return -1;
    return 0;
}

/* n ids whose last n - from are to be predicted; n - from <= context. */
static int row_add(struct logprob *p, struct job *j, size_t choice, const int32_t *ids, int64_t n,
                   int64_t from, struct err *e)
{
    int64_t lost = n - 1 > p->context ? n - 1 - p->context : 0;
    ids += lost;
    n -= lost;
    from -= lost;
    struct queue *q = &p->q[(n - 1 + PAD - 1) / PAD - 1];
    if (!q->x) {
        q->T = (q - p->q + 1) * PAD < p->context ? (q - p->q + 1) * PAD : p->context;
        q->room = POSITIONS / q->T > 1 ? POSITIONS / q->T : 1;
        q->room = q->room < ROWS ? q->room : ROWS;
        q->x = mem_array((size_t)q->room, (size_t)q->T * sizeof *q->x);
        q->span = mem_array((size_t)q->room, sizeof *q->span);
        q->row = mem_array((size_t)q->room, sizeof *q->row);
    }
    int64_t b = q->rows++;
    memset(q->x + b * q->T, 0, (size_t)q->T * sizeof *q->x);
    memcpy(q->x + b * q->T, ids, (size_t)(n - 1) * sizeof *ids);
    q->span[b] = (struct gpt2_span){from - 1, n - from};
    q->row[b] = (struct row){j, choice, mem_array((size_t)(n - from), sizeof *ids)};
    memcpy(q->row[b].target, ids + from, (size_t)(n - from) * sizeof *ids);
    if (lost > j->cropped)
        j->cropped = lost;
    return q->rows == q->room ? run(p, q, e) : 0;
}

/* Whether each continuation can be asked for at all, before any is queued. */
static int check(struct logprob *p, struct str prompt, struct strs choices, bool apart,
                 const char **why, struct err *e)
{
    size_t from;
    *why = choices.n ? NULL : "there is nothing to choose from";
    if (!prompt.n && p->eot < 0)
        *why = "the prompt is empty and there is no EOT to begin with";
    for (size_t i = 0; i < choices.n && !*why; i++) {
        if (logprob_encode(p->encoder, prompt, choices.v[i], apart, p->eot, &p->ids, &from, e))
            return -1;
        if (!from)
            *why = "the prompt has no ids of its own";
        else if (p->ids.n <= from)
            *why = "a choice has no ids of its own";
        else if ((int64_t)(p->ids.n - from) > p->context)
            *why = "a choice is longer than the context";
    }
    return *why ? 1 : 0;
}

int logprob_add(struct logprob *p, struct str prompt, struct strs choices, bool apart, void *tag,
                const char **why, struct err *e)
{
    int rc = check(p, prompt, choices, apart, why, e);
    if (rc)
        return rc;
    struct job *j = mem_zero(sizeof *j);
    *j = (struct job){.tag = tag, .n = choices.n, .left = choices.n, .after = p->live};
    j->v = mem_array(choices.n, sizeof *j->v);
    if (p->live)
        p->live->before = j;
    p->live = j;
    for (size_t i = 0; i < choices.n; i++)
        j->v[i].greedy = true;
    for (size_t i = 0, n = choices.n; i < n; i++) { /* j may be done and gone behind the last */
        size_t from;
        if (logprob_encode(p->encoder, prompt, choices.v[i], apart, p->eot, &p->ids, &from, e) ||
            row_add(p, j, i, p->ids.v, (int64_t)p->ids.n, (int64_t)from, e))
            return -1;
    }
    return 0;
}
