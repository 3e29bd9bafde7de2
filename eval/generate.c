/* generate: see eval/generate.h.
 *
 * A round: free rows take tasks and are prefilled, then one step moves every row that lives. A row's next id is picked as soon as its logits are there, so
 * `id` is always chosen but not yet in the cache.
 */
#include "eval/generate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"

enum { PAD = 32, STEP_ROWS = 8 };

struct row {
    bool live, fresh; /* fresh: taken this round, not prefilled yet */
    struct gen_task task;
    int64_t kept; /* ids of the prompt in the cache */
    int32_t id;   /* the last id picked; goes to position `pos` */
    int64_t pos;
    int32_t *seen; /* [context + 1] ids of the sequence so far; NULL until a penalty needs it */
};
struct engine {
    struct gpt2 *m;
    const struct gen_calls *calls;
    int64_t rows, batch, context, vocab; /* batch: rows, up to a multiple of 8 */
    struct row *row;
    struct sampler *sampler;
    float *logits;      /* [batch, vocab] */
    struct row *scored; /* while its prompt is told */
    int32_t *ids, *pos;
    bool drained;
};

int64_t generate_keep(int64_t n, int64_t max_new, int64_t context)
{
    int64_t room = context / 4 > 1 ? context / 4 : 1;
    if (max_new < room)
        room = max_new;
    int64_t keep = context - room > 1 ? context - room : 1;
    return n < keep ? n : keep;
}

static int finish(struct engine *g, struct row *r, enum finish how, struct err *e)
{
    r->live = false;
    return g->calls->done(g->calls->ctx, &r->task, how, e);
}

static bool wants_seen(const struct gen_task *t)
{
    return t->rule.repeat > 0 && t->rule.repeat != 1;
}

/* Picks the row's next id from its logits and says how it goes on. */
static int advance(struct engine *g, struct row *r, const float *logits, struct err *e)
{
    struct gen_task *t = &r->task;
    if (t->max_new < 1)
        return finish(g, r, FINISH_LENGTH, e);
    const float *from = sample_repeat(g->sampler, logits, r->seen, r->kept + t->made,
                                      wants_seen(t) ? t->rule.repeat : 1);
    int32_t id = sample_pick(g->sampler, from, &t->rule, t->seed, (uint64_t)t->made);
    t->last = id;
    t->logits = logits;
    if (id < 0)
        return finish(g, r, FINISH_ERROR, e);
    if (id == t->eos)
        return finish(g, r, FINISH_STOP, e);
    if (wants_seen(t))
        r->seen[r->kept + t->made] = id;
    t->made++;
    int stop = g->calls->token(g->calls->ctx, t, id, e);
    if (stop < 0)
        return -1;
    if (stop)
        return finish(g, r, FINISH_STOP, e);
    if (t->made >= t->max_new || r->pos >= g->context)
        return finish(g, r, FINISH_LENGTH, e);
    r->id = id;
    return 0;
}

/* The task in a row that next() has filled. */
static int begin(struct engine *g, struct row *r, struct err *e)
{
    struct gen_task *t = &r->task;
    if (t->n < 1)
        return err_set(e, "a prompt without ids can't be continued");
    if (t->whole && t->n > g->context)
        return err_set(e, "a prompt of %lld ids is longer than the context of %lld",
                       (long long)t->n, (long long)g->context);
    t->made = 0;
    t->last = -1;
    t->logits = NULL;
    r->kept = t->whole ? t->n : generate_keep(t->n, t->max_new, g->context);
    t->cropped = t->n - r->kept;
    r->pos = r->kept;
    r->live = r->fresh = true;
    if (wants_seen(t)) {
        if (!r->seen)
            r->seen = mem_array((size_t)g->context + 1, sizeof *r->seen);
        memcpy(r->seen, t->ids + t->cropped, (size_t)r->kept * sizeof *r->seen);
    }
    return t->max_new < 1 && !t->scored ? finish(g, r, FINISH_LENGTH, e) : 0;
}

/* Fills free rows. */
static int take(struct engine *g, struct err *e)
{
    for (int64_t i = 0; i < g->rows && !g->drained; i++) {
        struct row *r = &g->row[i];
        while (!r->live && !g->drained) {
            *r = (struct row){.task = {.eos = -1}, .seen = r->seen};
            int rc = g->calls->next(g->calls->ctx, &r->task, e);
            if (rc < 0)
                return -1;
            if (rc == 2)
                return 0;
            if (rc == 0)
                g->drained = true;
            else if (begin(g, r, e))
                return -1;
        }
    }
    return 0;
}

static int64_t up_to(int64_t n, int64_t step, int64_t most)
{
    int64_t up = (n + step - 1) / step * step;
    return up < most ? up : most;
}

int64_t generate_batch(int64_t rows)
{
    return up_to(rows, STEP_ROWS, INT64_MAX);
}

static int tell(void *ctx, int64_t pos, const float *logits, struct err *e)
{
    struct engine *g = ctx;
    struct row *r = g->scored;
    if (pos + 1 == r->kept)
        return advance(g, r, logits, e);
    return g->calls->prompt(g->calls->ctx, &r->task, pos, logits, e);
}

static int prefill_row(struct engine *g, int64_t i, struct err *e)
{
    struct row *r = &g->row[i];
    int64_t T = up_to(r->kept, PAD, g->context);
    int32_t len = (int32_t)r->kept;
    memset(g->ids, 0, (size_t)T * sizeof *g->ids);
    memcpy(g->ids, r->task.ids + r->task.cropped, (size_t)r->kept * sizeof *g->ids);
    r->fresh = false;
    if (r->task.scored && g->calls->prompt) {
        g->scored = r;
        return gpt2_prefill_each(g->m, i, g->ids, len, T, tell, g, e);
    }
    if (gpt2_prefill_at(g->m, i, g->ids, &len, 1, T, g->logits, e))
        return -1;
    return advance(g, r, g->logits, e);
}

static int prefill(struct engine *g, struct err *e)
{
    for (int64_t i = 0; i < g->rows; i++)
        if (g->row[i].live && g->row[i].fresh && prefill_row(g, i, e))
            return -1;
    return 0;
}

/* One id further for every live row. *any: there was one. */
static int step(struct engine *g, bool *any, struct err *e)
{
    int64_t used = 0;
    for (int64_t i = 0; i < g->batch; i++) {
        struct row *r = &g->row[i];
        g->ids[i] = r->live ? r->id : 0;
        g->pos[i] = r->live ? (int32_t)r->pos : -1;
        if (r->live)
            used = i + 1;
    }
    *any = used > 0;
    if (!used)
        return 0;
    if (gpt2_step(g->m, g->ids, g->pos, gpt2_step_rows(g->m, used), g->logits, e))
        return -1;
    for (int64_t i = 0; i < used; i++) {
        struct row *r = &g->row[i];
        if (!r->live)
            continue;
        r->pos++;
        if (advance(g, r, g->logits + i * g->vocab, e))
            return -1;
    }
    return 0;
}

int generate_run(struct gpt2 *m, int64_t rows, const struct gen_calls *calls, struct err *e)
{
    const struct model_config *c = gpt2_config(m);
    struct engine g = {
        .m = m, .calls = calls, .rows = rows, .context = c->context, .vocab = c->vocab};
    bool any = true;
    int rc = 0;
    g.batch = generate_batch(rows);
    g.row = mem_array((size_t)g.batch, sizeof *g.row);
    int64_t pick = calls->limit > 0 && calls->limit < c->vocab ? calls->limit : c->vocab;
    g.sampler = sampler_new(pick);
    g.logits = mem_array((size_t)g.batch, (size_t)c->vocab * sizeof *g.logits);
    g.ids = mem_array((size_t)(g.batch + c->context), sizeof *g.ids);
    g.pos = mem_array((size_t)g.batch, sizeof *g.pos);
    while (rc == 0 && (any || !g.drained)) {
        rc = take(&g, e) || prefill(&g, e) || step(&g, &any, e) ? -1 : 0;
        if (rc == 0 && any && !calls->patient && interrupt_raised())
            rc = err_code(e, EXIT_INCOMPLETE, "interrupted");
    }
    for (int64_t i = 0; i < g.batch; i++)
        free(g.row[i].seen);
    free(g.row);
    sampler_free(g.sampler);
    free(g.logits);
    free(g.ids);
    free(g.pos);
    return rc;
}
