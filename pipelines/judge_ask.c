/* judge_ask: see pipelines/judge_ask.h. Opening and answers are in judge_open.c, the journal is in
 * judge_journal.c, what is said at the end in judge_sum.c. */
#include "pipelines/judge_ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "formats/verdict.h"
#include "pipelines/judge_journal.h"

enum { TRY_SEEDS = 1000, IN_VAIN = 8 };

size_t judge_values(const struct judge_asker *g, const struct judge_ask *q)
{
    return g->prompt.protocol == JUDGE_JOINT ? (size_t)q->n : 1;
}

static void build_question(const struct judge_asker *g, const struct judge_ask *q,
                           struct judge_view *v, struct buf *out)
{
    judge_look(g, q->item, q->who, q->n, v);
    judge_question(&g->prompt, g->structured, &v->it, v->answer, (size_t)q->n, out);
}

void judge_add(struct judge_asker *g, int32_t item, const int32_t *who, int32_t n, int32_t repeat)
{
    struct judge_ask q = {.item = item, .n = n, .repeat = repeat, .outcome = OUTCOME_NOT_RUN};
    memcpy(q.who, who, (size_t)n * sizeof *who);
    for (int32_t i = 0; i < n; i++)
        q.value[i] = NAN;
    q.detail = judge_store_name(g->store, STR_LIT("not asked"));
    judge_look(g, item, who, n, &g->view);
    judge_key(&g->view.it, g->view.answer, (size_t)n, str_z(g->identity), &g->prompt, repeat,
              q.key);
    judge_append(g->store, g->pass ? 0 : (size_t)repeat, &q);
}

void judge_questions(const struct judge_asker *g, int32_t item, int32_t repeat, size_t *first,
                     size_t *n)
{
    judge_about(g->store, g->pass ? 0 : (size_t)repeat, (size_t)item, first, n);
}

/* ---- caps ----------------------------------------------------------------------------------- */

/* What a question may cost at most, in the unit of the cap that is set. */
static double bound_of(const struct judge_asker *g, const struct judge_live *l, bool money)
{
    int64_t out = g->c.max_tokens * (int64_t)judge_values(g, &l->q);
    if (!money)
        return (double)((int64_t)l->question.n + out);
    return price_of(g->price, (int64_t)l->question.n, out);
}

/* The cap that asking l would pass; NULL: none. A cap of tokens is looked at when it is reached, one
 * of money before it is passed: open and uncounted requests are taken at their upper bound. */
static const char *cap_before(const struct judge_asker *g, const struct judge_live *l)
{
    const struct judge_caps *c = &g->caps;
    if (c->seconds > 0 && g->clock->now(g->clock) - g->started >= c->seconds)
        return "the cap of time is reached";
    if (c->tokens > 0 &&
        (double)(g->tokens_in + g->tokens_out) + (g->uncounted ? g->bound : 0) >= (double)c->tokens)
        return "the cap of tokens is reached";
    if (c->money > 0 &&
        price_of(g->price, g->tokens_in, g->tokens_out) + g->bound + bound_of(g, l, true) >
            c->money)
        return "the cap of money would be passed";
    return NULL;
}

/* ---- the two calls of a model --------------------------------------------------------------- */

/* A place for a question; it goes back to the idle ones. */
static struct judge_live *live_take(struct judge_asker *g)
{
    struct judge_live *l = g->idle;
    if (l) {
        g->idle = l->next;
        return l;
    }
    l = mem_zero(sizeof *l);
    l->older = g->made;
    g->made = l;
    return l;
}

static void live_return(struct judge_asker *g, struct judge_live *l)
{
    l->next = g->idle;
    g->idle = l;
}

/* A server that cuts a long prompt says nothing, so what can't fit is not asked. */
static bool too_long(struct judge_asker *g, struct judge_live *l)
{
    struct buf why = {0};
    int64_t need = (int64_t)l->question.n / 4 + g->c.max_tokens * (int64_t)judge_values(g, &l->q);
    if (!g->model.context || need <= g->model.context)
        return false;
    buf_printf(&why, "the question needs about %lld tokens, the context has %lld", (long long)need,
               (long long)g->model.context);
    l->q.detail = judge_store_text(g->store, buf_str(&why));
    l->q.state = ASK_DECIDED;
    judge_put(g->store, &l->q);
    g->decided++;
    g->failed++;
    buf_release(&why);
    return true;
}

/* The next question that waits, with its text; false: none. */
static bool find_waiting(struct judge_asker *g, struct judge_live *l)
{
    for (; g->next < g->store->asks; g->next++) {
        judge_get(g->store, g->next, &l->q);
        if (l->q.state != ASK_WAITING)
            continue;
        buf_cut(&l->question, 0);
        build_question(g, &l->q, &l->view, &l->question);
        if (!too_long(g, l))
            return true;
    }
    return false;
}

static int next_question(void *ctx, struct request *out, struct err *e)
{
    struct judge_asker *g = ctx;
    struct judge_live *l;
    if (g->capped)
        return 0;
    l = live_take(g);
    bool found = find_waiting(g, l);
    if (judge_store_check(g->store, e)) {
        live_return(g, l);
        return -1;
    }
    g->capped = found ? cap_before(g, l) : NULL;
    if (!found || g->capped) {
        live_return(g, l);
        return 0;
    }
    g->next++;
    l->q.state = ASK_UNDER_WAY;
    l->q.asked++;
    judge_put(g->store, &l->q);
    l->bound = bound_of(g, l, g->caps.money > 0);
    g->bound += l->bound;
    *out =
        (struct request){.id = l->view.it.id,
                         .prompt = buf_str(&l->question),
                         .max_tokens = g->c.max_tokens * (int64_t)judge_values(g, &l->q),
                         .temperature = g->c.temperature,
                         .seed = (uint64_t)(g->c.seed + l->q.asked - 1 + TRY_SEEDS * l->q.repeat),
                         .tag = l};
    if (g->structured) {
        size_t at = l->question.n; /* the schema lives behind the question in one buffer */
        judge_schema(&g->prompt, (size_t)l->q.n, &l->question);
        out->prompt = (struct str){l->question.p, at};
        out->schema = (struct str){l->question.p + at, l->question.n - at};
    }
    g->sent++;
    return 1;
}

static void note_progress(struct judge_asker *g)
{
    char note[120] = "", money[80] = "", text[PRICE_TEXT];
    double spent = price_of(g->price, g->tokens_in, g->tokens_out);
    if (isfinite(spent))
        snprintf(money, sizeof money, ", %s%s %.*s", g->uncounted ? "at least " : "",
                 price_text(spent, text), STR_ARG(g->price->currency));
    snprintf(note, sizeof note, "%lld failed%s", (long long)g->failed, money);
    progress_set(&g->bar, (double)(g->kept + g->decided), note);
}

/* Unknown is not zero: the bounds of a reply without counts and of tries that ran into the timeout
 * (which the server may have worked on) stay. */
static void count_cost(struct judge_asker *g, const struct judge_live *l, const struct response *r)
{
    int64_t late = g->model.timed_out - g->timed_out;
    g->timed_out += late;
    g->bound += (double)late * l->bound;
    if (r->tokens_in != FIELD_NONE_I64 && r->tokens_out != FIELD_NONE_I64) {
        g->tokens_in += r->tokens_in;
        g->tokens_out += r->tokens_out;
        g->bound -= l->bound;
    } else if (r->finish != FINISH_ERROR) {
        g->uncounted++;
    } else {
        g->bound -= l->bound;
    }
}

/* A judge that starts with nothing but failures of one's own making is not paid for the rest of them. */
static void look_at_start(struct judge_asker *g, int outcome, size_t have, struct str detail)
{
    g->fruitful = g->fruitful || have > 0;
    if (g->fruitful || g->kept || g->c.max_failed >= 1 || g->capped ||
        (outcome != OUTCOME_TRUNCATED && outcome != OUTCOME_PARSE_FAILED))
        return;
    g->in_vain++;
    g->cut += outcome == OUTCOME_TRUNCATED;
    if (g->in_vain < IN_VAIN)
        return;
    const char *panel = g->pass ? "; a panel keeps its own, so that is another panel" : "";
    if (2 * g->cut >= g->in_vain)
        g->capped =
            arena_printf(&g->arena,
                         "%lld of the first %d verdicts were cut at %lld tokens, and none is "
                         "there: a judge that "
                         "reasons first needs more, --max-tokens %d, say%s",
                         (long long)g->cut, IN_VAIN, (long long)g->c.max_tokens, 2000, panel);
    else
        g->capped = arena_printf(
            &g->arena,
            "none of the first %d replies is a verdict (the last: %.*s): try --structured on, or "
            "another prompt; --max-failed 1 asks all the same",
            IN_VAIN, STR_ARG(detail));
}

static int got_answer(void *ctx, const struct request *out, const struct response *r, struct err *e)
{
    struct judge_asker *g = ctx;
    struct judge_live *l = out->tag;
    struct judge_ask *q = &l->q;
    struct arena each = {0};
    double value[JUDGE_MOST];
    struct str detail;
    size_t n = judge_values(g, q), have = 0;
    int outcome = judge_verdict(&g->prompt, g->structured, r, (size_t)q->n, value, &detail, &each);
    int rc = judge_journal_add(g, l, value, outcome, detail, r, e);
    count_cost(g, l, r);
    for (size_t i = 0; i < n; i++) {
        if (isnan(q->value[i])) /* what was there already stays */
            q->value[i] = value[i];
        have += !isnan(q->value[i]);
    }
    q->outcome = have == n ? OUTCOME_SCORED : outcome;
    q->detail = judge_store_text(g->store, detail);
    if (r->finish != FINISH_ERROR)
        q->served = judge_store_name(g->store, r->model);
    bool again = q->outcome == OUTCOME_PARSE_FAILED && q->asked < g->asks;
    q->state = again ? ASK_WAITING : ASK_DECIDED;
    judge_put(g->store, q);
    g->decided += !again;
    g->failed += !again && q->outcome != OUTCOME_SCORED;
    look_at_start(g, outcome, have, detail);
    note_progress(g);
    arena_release(&each);
    live_return(g, l);
    return rc;
}

static size_t count_waiting(const struct judge_asker *g)
{
    struct judge_ask q;
    size_t waiting = 0;
    for (size_t i = 0; i < g->store->asks; i++) {
        judge_get(g->store, i, &q);
        waiting += q.state == ASK_WAITING;
    }
    return waiting;
}

/* Rounds: a model that was told "no more" is asked anew for what could not be parsed. */
static int ask_rounds(struct judge_asker *g, struct err *e)
{
    for (;;) {
        if (!count_waiting(g))
            return 0;
        g->next = 0;
        if (g->model.ops->answer(&g->model, next_question, got_answer, g, e))
            return -1;
        if (g->capped)
            return err_code(e, EXIT_INCOMPLETE, "%s", g->capped);
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

void judge_estimate(struct judge_asker *g, int64_t *tokens, double *money)
{
    int64_t in = 0, out = 0;
    struct buf b = {0};
    struct judge_ask q;
    for (size_t i = 0; i < g->store->asks; i++) {
        judge_get(g->store, i, &q);
        if (q.state != ASK_WAITING)
            continue;
        buf_cut(&b, 0);
        build_question(g, &q, &g->view, &b);
        in += (int64_t)b.n / 4 + 1;
        out += g->c.max_tokens * (int64_t)judge_values(g, &q);
    }
    buf_release(&b);
    *tokens = in + out;
    *money = price_of(g->price, in, out);
}

static void say_plan(struct judge_asker *g)
{
    int64_t tokens;
    double money;
    char text[PRICE_TEXT];
    struct buf b = {0};
    judge_estimate(g, &tokens, &money);
    buf_printf(&b, "%s: %zu questions to ask, %lld kept, at most %lld tokens or so",
               judge_protocol_names[g->prompt.protocol], count_waiting(g), (long long)g->kept,
               (long long)tokens);
    if (isfinite(money))
        buf_printf(&b, ", %s %.*s", price_text(money, text), STR_ARG(g->price->currency));
    log_info("%s", b.p);
    buf_release(&b);
}

int judge_dry(struct judge_asker *g, const char *journal, struct err *e)
{
    if (file_exists(journal) && judge_journal_read(g, journal, e))
        return -1;
    say_plan(g);
    return 0;
}

int judge_ask_all(struct judge_asker *g, const char *journal, struct err *e)
{
    struct err ignored;
    if (g->caps.money > 0 && !g->price)
        return err_code(e, EXIT_USAGE, "a cap of money needs a price: give --price FILE");
    g->journal = records_open(journal, &verdict_schema, RECORD_APPEND, e);
    if (!g->journal || judge_journal_read(g, journal, e))
        return -1;
    say_plan(g);
    g->model.idle = judge_journal_sync;
    progress_begin(&g->bar, "judge", "verdicts", (double)g->store->asks, (double)g->kept);
    int rc = ask_rounds(g, e);
    progress_end(&g->bar);
    if (records_close(g->journal, rc ? &ignored : e) && rc == 0)
        rc = -1;
    g->journal = NULL;
    return rc;
}
