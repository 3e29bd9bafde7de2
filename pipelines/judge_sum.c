/* judge_sum: what a judge's loop says at its end, see judge_ask.h. */
#include <math.h>

#include "formats/index.h"
#include "formats/verdict.h"
#include "pipelines/judge_ask.h"

int64_t judge_asked(const struct judge_asker *g)
{
    bool remote = g->model.ops && g->model.ops->remote;
    return remote ? g->model.begun : g->sent; /* what waited when the run stopped was not asked */
}

void judge_spent(const struct judge_asker *g, struct buf *out)
{
    int64_t asked = judge_asked(g);
    char text[PRICE_TEXT];
    buf_printf(out, "; %lld asked now, %lld kept", (long long)asked, (long long)g->kept);
    if (g->model.sent > asked)
        buf_printf(out, " (%lld requests with tries)", (long long)g->model.sent);
    if (g->model.timed_out)
        buf_printf(out, "; %lld timed out and may be billed all the same",
                   (long long)g->model.timed_out);
    if (!asked)
        return;
    if (g->uncounted)
        buf_printf(out, "; tokens of %lld replies unknown", (long long)g->uncounted);
    if (g->uncounted < asked)
        buf_printf(out, "; %lld + %lld tokens", (long long)g->tokens_in, (long long)g->tokens_out);
    double money = price_of(g->price, g->tokens_in, g->tokens_out);
    if (isfinite(money))
        buf_printf(out, "; %s%s %.*s", g->uncounted ? "at least " : "", price_text(money, text),
                   STR_ARG(g->price->currency));
}

int judge_check_failed(const struct judge_asker *g, struct err *e)
{
    int64_t failed = 0;
    struct judge_ask q;
    struct buf first = {0};
    double all = (double)g->store->asks;
    for (size_t i = 0; i < g->store->asks; i++) {
        judge_get(g->store, i, &q);
        if (q.outcome == OUTCOME_SCORED)
            continue;
        if (!failed++)
            judge_store_get(g->store, q.detail, &first);
    }
    int rc = judge_store_check(g->store, e);
    if (rc == 0 && (double)failed > g->c.max_failed * all)
        rc = err_code(e, EXIT_INCOMPLETE,
                      "%lld of %.0f %s have no verdict, more than max_failed = %g (the first: "
                      "%.*s); what is scored is kept, run again to ask for these",
                      (long long)failed, all,
                      g->prompt.protocol == JUDGE_SINGLE ? "answers" : "questions", g->c.max_failed,
                      STR_ARG(first));
    buf_release(&first);
    return rc;
}

const char *judge_served(const struct judge_asker *g, struct arena *a)
{
    struct index seen = {0};
    struct buf b = {0}, name = {0};
    struct judge_ask q;
    uint64_t last = 0;
    for (size_t i = 0; i < g->store->asks; i++) {
        judge_get(g->store, i, &q);
        if (!q.served || q.served == last)
            continue;
        last = q.served;
        buf_cut(&name, 0);
        judge_store_get(g->store, last, &name);
        if (index_find(&seen, buf_str(&name)) != INDEX_NONE)
            continue;
        index_add(&seen, str_copy(a, buf_str(&name)), i);
        buf_printf(&b, "%s%s", b.n ? ", " : "", name.p);
    }
    const char *out = str_dup(a, buf_str(&b));
    if (seen.n > 1)
        log_warn("several models served this judge: %s", out);
    index_release(&seen);
    buf_release(&b);
    buf_release(&name);
    return out;
}
