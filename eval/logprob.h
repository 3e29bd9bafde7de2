/* logprob: log-probabilities of continuations under a local model.
 *
 * A job is one text to continue with some continuations; its rows wait in a queue for each padded
 * length, and every pass of a length has the same shape, so a value has the same bits whatever else
 * is asked (see eval/loss.h). Sums are in double, of the log-softmax in double of float logits.
 * A row is the last C + 1 ids of context and continuation, without the last.
 */
#ifndef EVAL_LOGPROB_H
#define EVAL_LOGPROB_H

#include "base/err.h"
#include "base/str.h"
#include "tokenizer/bpe.h"
#include "trainer/gpt2.h"

/* Of one continuation. */
struct logprob_value {
    double sum;     /* nats; NaN when a logit is */
    int64_t tokens; /* summed over */
    bool greedy;    /* each was the likeliest */
};
/* All of a job are there; v[n] dies behind the call. cropped: ids that its contexts lost. */
typedef int logprob_done_fn(void *ctx, void *tag, const struct logprob_value *v, size_t n,
                            int64_t cropped, struct err *e);

struct logprob;
struct logprob *logprob_new(struct gpt2 *m, struct encoder *encoder, int32_t eot,
                            logprob_done_fn *done, void *ctx);
void logprob_free(struct logprob *p); /* NULL is fine; jobs under way are dropped */

/* Queues a job; texts are read before it returns. apart: see REQUEST_LOGPROB. 1: it can't be asked,
 * *why (static text) says why, and done() is not called for it; -1 with e. */
int logprob_add(struct logprob *p, struct str prompt, struct strs choices, bool apart, void *tag,
                const char **why, struct err *e);
/* Runs what waits. */
int logprob_flush(struct logprob *p, struct err *e);

/* Ids of context and continuation one behind the other; *from: where the continuation begins. */
int logprob_encode(struct encoder *x, struct str context, struct str continuation, bool apart,
                   int32_t eot, struct ids *out, size_t *from, struct err *e);

#endif
