/* step: see trainer/step.h. */
#include "trainer/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

int64_t step_share(const struct ranks *r, int64_t batch)
{
    int world = r->many ? r->meet.world : 1;
    return (batch + world - 1) / world;
}

int64_t step_threads(const struct ranks *r, int64_t told)
{
    if (!r->many || told)
        return told;
    int64_t n = thread_cpus() / r->meet.local_world;
    return n > 0 ? n : 1;
}

int step_backend(struct backend *b, const struct ranks *r, const char *name, int64_t threads,
                 int precision, const char *key, struct err *e)
{
    int device = strcmp(name, "cpu") == 0 ? 0 : ranks_device(&r->meet);
    if (backend_open(b, name, device, (int)step_threads(r, threads), e))
        return -1;
    return gpt2_precision(b, precision, e) ? err_wrap(e, "%s", key) : 0;
}

/* ---- how many at once ---- */

int64_t step_sequences(int64_t rows, int64_t length)
{
    return length < rows ? rows / length : 1;
}

int64_t step_micro(const struct model_config *m, const struct gpt2_use *use, int64_t most,
                   int64_t told, int64_t free_bytes, struct err *e)
{
    int64_t n = told > 0 && told < most ? told : most;
    int64_t grain = use->grain ? use->grain : 1, rows = use->prefers->pass_rows;
    struct gpt2_plan plan;
    int64_t scratch = use->prefers->reserve, left = free_bytes;
    char text[256], room[32], beside[32], more[64] = "";
    if (!told && rows && n * use->length > rows)
        n = step_sequences(rows, use->length);
    if (free_bytes >= 0)
        left = free_bytes > scratch ? free_bytes - scratch : 0;
    for (n = (n + grain - 1) / grain * grain;; n -= grain) {
        struct gpt2_use with = *use;
        with.batch = n < most ? n : most;
        gpt2_plan(m, &with, &plan);
        if (free_bytes < 0 || plan.total <= left)
            return with.batch;
        if (n <= grain || told)
            break;
    }
    gpt2_plan_text(&plan, text, sizeof text);
    gpt2_size_text(free_bytes, room);
    gpt2_size_text(scratch, beside);
    if (scratch)
        snprintf(more, sizeof more, " and %s of scratch", beside);
    return err_set(e, "training %lld sequence%s of %lld at once needs %s%s, but %s are free",
                   (long long)n, n == 1 ? "" : "s", (long long)use->length, text, more, room);
}

/* ---- gradients ---- */

int step_gradients(struct gpt2 *m, struct ranks *r, const struct step_rows *b, int64_t micro,
                   float *loss, double *sum, struct err *e)
{
    *sum = 0;
    gpt2_zero_grad(m);
    if (r->many)
        reducer_begin(r->reduce);
    for (int64_t i = 0; i < b->n; i += micro) {
        int64_t n = b->n - i < micro ? b->n - i : micro;
        if (i > 0 && !r->many && interrupt_raised())
            return 1;
        struct gpt2_batch g = {.ids = b->ids + i * b->T,
                               .targets = b->targets + i * b->T,
                               .seq = b->seq + i,
                               .B = n,
                               .T = b->T,
                               .valid_total = b->valid,
                               .seed = b->seed,
                               .step = b->step,
                               .loss_scale = b->loss_scale,
                               .last = i + n >= b->n};
        if (gpt2_grad(m, &g, loss, e))
            return -1;
        for (int64_t k = 0; k < n * b->T; k++)
            *sum += loss[k];
    }
    if (r->many && !b->n)
        reducer_rest(r->reduce);
    return 0;
}

int step_agree(struct ranks *r, struct ranks_step *s, bool first, struct err *e)
{
    if (!r->many)
        return 0;
    /* Said while the last buckets are on their way. */
    if (ranks_agree(r, s, e) || reducer_finish(r->reduce, e))
        return -1;
    if (first)
        log_debug("%d of %d buckets of gradients go while backward runs", reducer_early(r->reduce),
                  reducer_buckets(r->reduce));
    return 0;
}

bool step_overflowed(struct scaler *k, double norm, int64_t grow_after, struct metrics_row *r)
{
    if (!(k->scale > 0))
        return false;
    r->loss_scale = k->scale;
    if (!isfinite(r->loss)) /* of the forward pass, which no scale reaches */
        return false;
    r->overflow = scaler_take(k, isfinite(norm), grow_after) == SCALER_OVERFLOW;
    return r->overflow;
}
