/* classifier: softmax cross-entropy and its gradient in place, a row at a time. */
#include <math.h>
#include <string.h>

#include "trainer/cpu/impl.h"

struct classifier_job {
    struct cpu *c;
    float *loss, *logits;
    const int32_t *targets;
    int64_t N, V, width, rows; /* V logits in a row of width */
    float scale;
    bool grad;
};

/* -log softmax = log(sum of exp(x - max)) + max - x[target]. A NaN in the row makes the sum NaN,
 * and so the loss and the whole gradient; so does a maximum of +inf, by inf - inf. */
static void row(const struct classifier_job *j, int64_t i)
{
    const struct vec *v = j->c->vec;
    float *x = j->logits + i * j->width;
    int32_t target = j->targets[i];
    if (j->grad && j->width > j->V)
        memset(x + j->V, 0, (size_t)(j->width - j->V) * sizeof *x);
    if (target < 0) {
        j->loss[i] = 0;
        if (j->grad)
            memset(x, 0, (size_t)j->V * sizeof *x);
        return;
    }
    float max = v->max(x, j->V), at = x[target];
    double sum = v->exp_sum(j->grad ? x : NULL, x, max, j->V);
    j->loss[i] = (float)(log(sum) + ((double)max - (double)at));
    if (!j->grad)
        return;
    v->scale(x, (float)((double)j->scale / sum), j->V);
    x[target] -= j->scale;
}

static void task_rows(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct classifier_job *j = ctx;
    int64_t from = task * j->rows, to = from + j->rows < j->N ? from + j->rows : j->N;
    for (int64_t i = from; i < to; i++)
        row(j, i);
}

void cpu_classifier(struct backend *b, struct tensor *loss, struct tensor *logits,
                    const struct tensor *targets, const struct tensor *scale, bool grad,
                    int64_t vocab)
{
    struct classifier_job j = {
        .c = cpu_of(b),
        .loss = loss->data,
        .logits = logits->data,
        .targets = targets->data,
        .V = vocab,
        .width = logits->dim[logits->ndim - 1],
        .scale = grad ? *(const float *)scale->data : 0,
        .grad = grad,
        .N = 1,
    };
    for (int i = 0; i < logits->ndim - 1; i++)
        j.N *= logits->dim[i];
    for (int64_t i = 0; i < j.N; i++)
        if (j.targets[i] < -1 || j.targets[i] >= j.V) {
            backend_fail(b, "classifier: target %d of row %lld is outside the vocabulary of %lld",
                         j.targets[i], (long long)i, (long long)j.V);
            return;
        }
    j.rows = cpu_rows_per_task(j.N);
    pool_run(j.c->pool, (j.N + j.rows - 1) / j.rows, task_rows, &j);
}
