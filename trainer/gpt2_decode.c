/* gpt2_decode: one token at a time, with a cache of keys and values.
 *
 * A prefill is an ordinary forward pass that also writes k and v into the cache; positions behind a
 * row's own length hold values of padding, which no later step reads: a step at position p stores
 * its own k and v there first and reads 0..p.
 */
#include "trainer/gpt2_private.h"

#include <stdlib.h>

static int check_decode(const struct gpt2 *m, int64_t row, int64_t B, struct err *e)
{
    if (!m->use.decode)
        return err_set(e, "model: it was not opened for decoding");
    if (row < 0 || B < 1 || row + B > m->use.batch)
        return err_set(e, "model: cache rows %lld to %lld, but there are %lld", (long long)row,
                       (long long)(row + B), (long long)m->use.batch);
    return 0;
}

int gpt2_prefill_at(struct gpt2 *m, int64_t row, const int32_t *ids, const int32_t *len, int64_t B,
                    int64_t T, float *logits, struct err *e)
{
    if (check_decode(m, row, B, e) || gpt2_check(m, ids, B, T, e))
        return -1;
    for (int64_t b = 0; b < B; b++)
        if (len[b] < 1 || len[b] > T)
            return err_set(e, "model: a prompt of %d ids in a batch of %lld positions", len[b],
                           (long long)T);
    int64_t group = m->rows / T < 1 ? 1 : m->rows / T;
    int32_t *zero = mem_array((size_t)B, sizeof *zero);
    int64_t *used = mem_array((size_t)B, sizeof *used);
    int rc = 0;
    for (int64_t b = 0; b < B; b++)
        used[b] = len[b];
    for (int64_t b = 0; b < B && !rc; b += group) {
        int64_t n = B - b < group ? B - b : group;
        struct gpt2_pass p = {.B = n, .T = T, .cache_row = row + b};
        struct tensor pos = tensor_1d(DTYPE_I32, m->pos, n);
        op_put(m->b, &pos, zero);
        gpt2_put_padded(m, ids + b * T, used + b, n, T);
        gpt2_forward(m, &p);
        for (int64_t i = 0; i < n && !rc; i++) {
            struct tensor t = gpt2_head_step(m, i * T + len[b + i] - 1, 1);
            rc = gpt2_fetch(m, &t, logits + (b + i) * m->vocab, e);
        }
    }
    free(used);
    free(zero);
    return rc;
}

int gpt2_prefill(struct gpt2 *m, const int32_t *ids, const int32_t *len, int64_t B, int64_t T,
                 float *logits, struct err *e)
{
    return gpt2_prefill_at(m, 0, ids, len, B, T, logits, e);
}

/* Rows of the head in multiples of 8, so that the shapes of its product hardly vary. */
int gpt2_prefill_each(struct gpt2 *m, int64_t row, const int32_t *ids, int64_t len, int64_t T,
                      gpt2_each_fn *each, void *ctx, struct err *e)
{
    if (check_decode(m, row, 1, e) || gpt2_check(m, ids, 1, T, e))
        return -1;
    if (len < 1 || len > T)
        return err_set(e, "model: a prompt of %lld ids in a batch of %lld positions",
                       (long long)len, (long long)T);
    struct gpt2_pass p = {.B = 1, .T = T, .cache_row = row};
    struct tensor pos = tensor_1d(DTYPE_I32, m->pos, 1);
    int64_t most = m->head_rows, at = 0;
    float *logits = mem_array((size_t)most, (size_t)m->vocab * sizeof *logits);
    int rc = 0;
    op_put(m->b, &pos, &(int32_t){0});
    gpt2_put_padded(m, ids, &len, 1, T);
    gpt2_forward(m, &p);
    while (at < len && !rc) {
        /* The last position goes alone, as in a prefill that wants no other. */
        int64_t want = at + 1 < len ? len - 1 - at : 1;
        want = want < most ? want : most;
        int64_t n = want == 1 ? 1 : (want + 7) / 8 * 8;
        n = n < most ? n : most;
        n = n < T - at ? n : T - at;
        struct tensor t = want == 1 ? gpt2_head_step(m, at, 1) : gpt2_head(m, at, n);
        rc = gpt2_fetch(m, &t, logits, e);
        for (int64_t i = 0; i < want && !rc; i++)
            rc = each(ctx, at + i, logits + i * m->vocab, e);
        at += want;
    }
    free(logits);
    return rc;
}

/* Idle rows take id 0 at position 0: computed and thrown away, they touch no cache. */
static int put_step(struct gpt2 *m, const int32_t *ids, const int32_t *pos, int64_t B,
                    int32_t *host, struct err *e)
{
    for (int64_t b = 0; b < B; b++) {
        if (pos[b] >= m->use.length)
            return err_set(e, "model: position %d in row %lld, but it was opened for %lld", pos[b],
                           (long long)b, (long long)m->use.length);
        if (pos[b] >= 0 && (ids[b] < 0 || ids[b] >= m->vocab))
            return err_set(e, "model: id %d in row %lld is outside the vocabulary of %lld", ids[b],
                           (long long)b, (long long)m->vocab);
        host[b] = pos[b] < 0 ? 0 : ids[b];
        host[B + b] = pos[b] < 0 ? 0 : pos[b];
    }
    struct tensor t = tensor_2d(DTYPE_I32, m->ids, B, 1), at = tensor_1d(DTYPE_I32, m->pos, B);
    op_put(m->b, &t, host);
    op_put(m->b, &at, host + B);
    return 0;
}

int64_t gpt2_step_rows(const struct gpt2 *m, int64_t used)
{
    int64_t even = (used + 7) / 8 * 8;
    if (m->b->ops->linear_step)
        return used;
    return even < m->use.batch ? even : m->use.batch;
}

int gpt2_step(struct gpt2 *m, const int32_t *ids, const int32_t *pos, int64_t B, float *logits,
              struct err *e)
{
    if (check_decode(m, 0, B, e))
        return -1;
    int32_t *host = mem_array((size_t)B * 2, sizeof *host);
    int rc = put_step(m, ids, pos, B, host, e);
    free(host);
    if (rc)
        return -1;
    gpt2_forward_step(m, pos, B);
    for (int64_t b = 0; b < B; b += m->head_rows) {
        int64_t n = B - b < m->head_rows ? B - b : m->head_rows;
        struct tensor out = gpt2_head_step(m, b, n);
        if (gpt2_fetch(m, &out, logits + b * m->vocab, e))
            return -1;
    }
    return 0;
}
