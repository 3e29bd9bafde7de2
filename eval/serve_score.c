/* serve_score: log-probabilities from logits. Sums are in double; a row that holds a NaN or +inf
 * gives NaN, which ends the sequence as an error. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "eval/serve_private.h"

double serve_logprob(const float *logits, int64_t V, int32_t id, double *lse)
{
    float max = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < V; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int64_t i = 0; i < V; i++)
        sum += (double)expf(logits[i] - max);
    *lse = log(sum) + max;
    return logits[id] - *lse;
}

/* The k largest of n, largest first, equals by lower id. */
static int largest(const float *logits, int64_t n, int k, int32_t *ids)
{
    int have = 0;
    for (int64_t i = 0; i < n; i++) {
        if (have == k && !(k && logits[i] > logits[ids[k - 1]]))
            continue;
        int at = have < k ? have++ : k - 1;
        for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = (int32_t)i;
    }
    return have;
}

void seq_token(struct seq *q, int32_t id, const float *logits, int64_t V, int64_t limit, int k)
{
    if (q->tokens == q->tokens_cap) {
        q->tokens_cap = q->tokens_cap ? 2 * q->tokens_cap : 32;
        q->token = mem_grow(q->token, q->tokens_cap * sizeof *q->token);
    }
    struct serve_token *t = &q->token[q->tokens++];
    *t = (struct serve_token){.id = id, .begin = q->flow.text.n, .logprob = NAN};
    if (!logits)
        return;
    double lse;
    t->logprob = serve_logprob(logits, V, id, &lse);
    q->bad = q->bad || isnan(t->logprob);
    t->ntop = largest(logits, limit < V ? limit : V, k, t->top_id);
    for (int i = 0; i < t->ntop; i++)
        t->top[i] = logits[t->top_id[i]] - lse;
}
