/* judge_scores: the score of each item, of one entrant or of a pair. See pipelines/judge.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/judge.h"

/* One item's score in the making; its texts live here. */
struct making {
    const struct judge_asker *g;
    struct judge_view view;
    struct buf detail, served;
    char key[65];
    struct score s;
};

static void say(struct making *m, const char *why)
{
    buf_cut(&m->detail, 0);
    buf_addz(&m->detail, why);
}

static void take_text(struct making *m, uint64_t at, struct buf *out)
{
    buf_cut(out, 0);
    judge_store_get(m->g->store, at, out);
}

static void begin(struct making *m, int32_t item)
{
    static const char *const names[] = {"judge_single", "judge_joint", "judge_pairwise"};
    judge_look(m->g, item, NULL, 0, &m->view);
    buf_cut(&m->served, 0);
    m->key[0] = '\0';
    m->s = (struct score){.item = m->view.it.id,
                          .scorer = str_z(names[m->g->prompt.protocol]),
                          .cluster = m->view.it.cluster,
                          .value = NAN,
                          .outcome = OUTCOME_NOT_RUN};
    say(m, "no response");
}

static int end(struct making *m, int32_t item, judge_score_fn *fn, void *ctx, struct err *e)
{
    m->s.detail = buf_str(&m->detail);
    m->s.judge = buf_str(&m->served);
    m->s.key = str_z(m->key);
    return fn(ctx, item, &m->s, e);
}

static int release(struct making *m, int rc, struct err *e)
{
    buf_release(&m->view.text);
    buf_release(&m->detail);
    buf_release(&m->served);
    return rc ? rc : judge_store_check(m->g->store, e);
}

/* ---- one entrant ---------------------------------------------------------------------------- */

/* The value that question q gives the answer of entrant `rep`; false: it does not show it. */
static bool value_in(const struct judge_asker *g, const struct judge_ask *q, int32_t rep, double *v)
{
    for (int32_t i = 0; i < q->n; i++)
        if (q->who[i] == rep) {
            *v = q->value[judge_values(g, q) > 1 ? i : 0];
            return true;
        }
    return false;
}

static void take_question(struct making *m, const struct judge_ask *q, double got)
{
    if (isnan(got) && m->s.outcome == OUTCOME_SCORED)
        return; /* another repeat gave a value */
    m->s.outcome = isnan(got) ? q->outcome : OUTCOME_SCORED;
    take_text(m, q->detail, &m->detail);
    take_text(m, q->served, &m->served);
    memcpy(m->key, q->key, sizeof m->key);
}

/* The values of all repeats into x, their mean into the score. */
static void of_item(struct making *m, int32_t item, int32_t k, double *x)
{
    const struct judge_asker *g = m->g;
    struct answer_cell c = judge_store_cell(g->store, (size_t)item, (size_t)k);
    double sum = 0, count = 0;
    if (c.asked && !c.rep)
        say(m, "the model gave no answer");
    for (size_t r = 0; r < g->store->rows; r++) {
        size_t first, n;
        x[r] = NAN;
        judge_questions(g, item, (int32_t)r, &first, &n);
        for (size_t i = 0; i < n && c.rep; i++) {
            struct judge_ask q;
            double got;
            judge_get(g->store, first + i, &q);
            if (!value_in(g, &q, c.rep - 1, &got))
                continue;
            x[r] = got;
            take_question(m, &q, got);
        }
        if (!isnan(x[r])) {
            sum += x[r];
            count++;
        }
    }
    if (count > 0)
        m->s.value = sum / count;
    if (count > 1) {
        buf_cut(&m->detail, 0);
        buf_printf(&m->detail, "mean of %.0f verdicts", count);
    }
}

int judge_each(const struct judge_asker *g, int32_t k, judge_score_fn *fn, void *ctx,
               struct agree_noise *noise, struct err *e)
{
    struct making m = {.g = g};
    double *x = mem_array(g->store->rows + 1, sizeof *x);
    int rc = 0;
    for (int32_t i = 0; i < (int32_t)g->store->items && rc == 0; i++) {
        begin(&m, i);
        of_item(&m, i, k, x);
        if (noise)
            agree_noise_add(noise, x, g->store->rows);
        rc = end(&m, i, fn, ctx, e);
    }
    free(x);
    return release(&m, rc, e);
}

/* ---- a pair --------------------------------------------------------------------------------- */

/* Both orders of one item and repeat. */
struct orders {
    double first, second; /* as values of the pair's first entrant */
    int outcome;
    uint64_t detail, served;
};

static struct orders orders_of(const struct judge_asker *g, int32_t item, int32_t repeat, int32_t x,
                               int32_t y, struct judge_swaps *w)
{
    struct orders o = {.first = NAN, .second = NAN, .outcome = OUTCOME_NOT_RUN};
    size_t first, n;
    judge_questions(g, item, repeat, &first, &n);
    for (size_t i = 0; i < n; i++) {
        struct judge_ask q;
        judge_get(g->store, first + i, &q);
        bool as_is = q.who[0] == x && q.who[1] == y, swapped = q.who[0] == y && q.who[1] == x;
        if (!as_is && !swapped)
            continue;
        if (as_is)
            o.first = q.value[0];
        else
            o.second = 1 - q.value[0];
        if (o.outcome == OUTCOME_SCORED || o.outcome == OUTCOME_NOT_RUN) {
            o.outcome = q.outcome;
            o.detail = q.detail;
        }
        o.served = q.served;
        if (!isnan(q.value[0]) && q.value[0] != 0.5) {
            w->decided++;
            w->first += q.value[0] == 1;
        }
    }
    return o;
}

static void pair_score(struct making *m, int32_t item, int32_t x, int32_t y, struct judge_swaps *w)
{
    double sum = 0, count = 0;
    for (size_t r = 0; r < m->g->store->rows; r++) {
        struct orders o = orders_of(m->g, item, (int32_t)r, x, y, w);
        if (isnan(o.first) || isnan(o.second)) {
            m->s.outcome = o.outcome == OUTCOME_SCORED ? OUTCOME_NOT_RUN : o.outcome;
            if (o.outcome == OUTCOME_SCORED)
                say(m, "one order is missing");
            else
                take_text(m, o.detail, &m->detail);
            continue;
        }
        bool tie = o.first == 0.5 || o.second == 0.5;
        w->both++;
        w->ties += tie;
        w->flips += !tie && o.first != o.second;
        sum += (o.first + o.second) / 2;
        count++;
        take_text(m, o.served, &m->served);
    }
    if (count == 0)
        return;
    m->s.outcome = OUTCOME_SCORED;
    m->s.value = sum / count;
    say(m, "mean of both orders");
}

int judge_each_pair(const struct judge_asker *g, const int32_t pair[2], judge_score_fn *fn,
                    void *ctx, struct judge_swaps *swaps, struct err *e)
{
    struct making m = {.g = g};
    struct judge_swaps own = {0};
    int rc = 0;
    for (int32_t i = 0; i < (int32_t)g->store->items && rc == 0; i++) {
        int32_t x = judge_rep(g, i, pair[0]), y = judge_rep(g, i, pair[1]);
        begin(&m, i);
        if (x >= 0 && x == y) {
            m.s.value = 0.5;
            m.s.outcome = OUTCOME_SCORED;
            say(&m, "equal answers");
        } else if (x >= 0 && y >= 0) {
            pair_score(&m, i, x, y, &own);
        }
        rc = end(&m, i, fn, ctx, e);
    }
    if (swaps)
        *swaps = own;
    return release(&m, rc, e);
}
