/* gpt2_spans: logits of some positions of many sequences, for log-probabilities of continuations:
 * the head, which for a small model is a third of the work, runs only where it is asked for. And
 * sequences of unequal length in one pass.
 */
#include "trainer/gpt2_private.h"

#include <stdlib.h>

/* What attention weighs with 0 must still be finite: 0 x NaN is NaN. */
void gpt2_put_padded(struct gpt2 *m, const int32_t *ids, const int64_t *used, int64_t B, int64_t T)
{
    int32_t *host = mem_array((size_t)B, (size_t)T * sizeof *host);
    struct tensor t = tensor_2d(DTYPE_I32, m->ids, B, T);
    for (int64_t i = 0; i < B * T; i++)
        host[i] = i % T < used[i / T] || i % T == 0 ? ids[i] : -1;
    op_put(m->b, &t, host);
    free(host);
}

static int check_spans(const struct gpt2_span *s, int64_t B, int64_t T, struct err *e)
{
    for (int64_t b = 0; b < B; b++)
        if (s[b].from < 0 || s[b].n < 0 || s[b].from + s[b].n > T)
            return err_set(e, "model: positions %lld to %lld of %lld", (long long)s[b].from,
                           (long long)(s[b].from + s[b].n), (long long)T);
    return 0;
}

/* One sequence of a pass: its rows of the head in pieces of at most head_rows. */
static int tell(struct gpt2 *m, int64_t at, int64_t b, const struct gpt2_span *s, float *logits,
                gpt2_span_fn *take, void *ctx, struct err *e)
{
    for (int64_t i = 0; i < s->n;) {
        int64_t n = s->n - i < m->head_rows ? s->n - i : m->head_rows;
        struct tensor t = gpt2_head(m, at + s->from + i, n);
        if (gpt2_fetch(m, &t, logits, e))
            return -1;
        for (int64_t k = 0; k < n; k++)
            if (take(ctx, b, s->from + i + k, logits + k * m->vocab, e))
                return -1;
        i += n;
    }
    return 0;
}

int gpt2_spans(struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T,
               const struct gpt2_span *spans, gpt2_span_fn *take, void *ctx, struct err *e)
{
    if (gpt2_check(m, ids, B, T, e) || check_spans(spans, B, T, e))
        return -1;
    int64_t group = m->rows / T < 1 ? 1 : m->rows / T;
    float *logits = mem_array((size_t)m->head_rows, (size_t)m->vocab * sizeof *logits);
    int64_t *used = mem_array((size_t)B, sizeof *used);
    int rc = 0;
    for (int64_t b = 0; b < B; b++)
        used[b] = spans[b].n ? spans[b].from + spans[b].n : 0;
    for (int64_t b = 0; b < B && !rc; b += group) {
        int64_t n = B - b < group ? B - b : group;
        struct gpt2_pass p = {.B = n, .T = T, .cache_row = -1};
        gpt2_put_padded(m, ids + b * T, used + b, n, T);
        gpt2_forward(m, &p);
        for (int64_t i = 0; i < n && !rc; i++)
            rc = tell(m, i * T, b + i, &spans[b + i], logits, take, ctx, e);
    }
    free(used);
    free(logits);
    return rc;
}
