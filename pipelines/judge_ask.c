/* judge_ask: see pipelines/judge_ask.h. Opening and answers are in judge_open.c. */
#include "pipelines/judge_ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "formats/index.h"
#include "formats/verdict.h"

#define SYNC_EVERY 0.1
enum { TEXT_MAX = 4096, TRY_SEEDS = 1000 };

size_t judge_values(const struct judge_asker *g, const struct judge_ask *q)
{
    return g->prompt.protocol == JUDGE_JOINT ? (size_t)q->n : 1;
}

static void build_question(const struct judge_asker *g, const struct judge_ask *q, struct buf *out)
{
    struct str answer[JUDGE_MOST] = {{0}};
    for (int32_t i = 0; i < q->n; i++)
        judge_answer(g, q->item, q->who[i], &answer[i]);
    judge_question(&g->prompt, g->structured, &g->items.v[q->item], answer, (size_t)q->n, out);
}

void judge_add(struct judge_asker *g, int32_t item, const int32_t *who, int32_t n, int32_t repeat)
{
    struct str answer[JUDGE_MOST] = {{0}};
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 256;
        g->v = mem_grow(g->v, g->cap * sizeof *g->v);
    }
    struct judge_ask *q = &g->v[g->n++];
    *q = (struct judge_ask){.item = item,
                            .n = n,
                            .repeat = repeat,
                            .outcome = OUTCOME_NOT_RUN,
                            .detail = STR_LIT("not asked")};
    q->who = arena_array(&g->arena, (size_t)n, sizeof *q->who);
    memcpy(q->who, who, (size_t)n * sizeof *who);
    q->value = arena_array(&g->arena, judge_values(g, q), sizeof *q->value);
    for (size_t i = 0; i < judge_values(g, q); i++)
        q->value[i] = NAN;
    for (int32_t i = 0; i < n; i++)
        judge_answer(g, item, who[i], &answer[i]);
    judge_key(&g->items.v[item], answer, (size_t)n, str_z(g->identity), &g->prompt, repeat, q->key);
}

/* ---- the journal ---------------------------------------------------------------------------- */

/* Values that are missing are taken over; all there: decided. */
static void take_over(struct judge_asker *g, struct judge_ask *q, const struct verdict_record *r)
{
    size_t n = judge_values(g, q), have = 0;
    if (q->state == ASK_DECIDED || r->value.n != n)
        return;
    for (size_t i = 0; i < n; i++) {
        if (isnan(q->value[i]))
            q->value[i] = r->value.v[i];
        have += !isnan(q->value[i]);
    }
    if (have < n)
        return;
    g->kept++;
    q->state = ASK_DECIDED;
    q->outcome = OUTCOME_SCORED;
    q->detail = str_copy(&g->arena, r->detail);
    q->served = str_copy(&g->arena, r->judge);
}

static int read_journal(struct judge_asker *g, const char *path, struct err *e)
{
    struct index index = {0};
    struct arena each = {0};
    struct verdict_record r;
    int rc;
    struct records *in = records_open(path, &verdict_schema, RECORD_READ, e);
    if (!in)
        return -1;
    for (size_t i = 0; i < g->n; i++)
        index_add(&index, str_z(g->v[i].key), i);
    while ((rc = records_next(in, &r, &each, e)) == 1) {
        size_t i = index_find(&index, r.key);
        if (i != INDEX_NONE)
            take_over(g, &g->v[i], &r);
        arena_release(&each);
    }
    index_release(&index);
    arena_release(&each);
    if (rc < 0) {
        records_abort(in);
        return -1;
    }
    return records_close(in, e);
}

static struct str clip(struct str s)
{
    if (s.n > TEXT_MAX) {
        s.n = TEXT_MAX;
        while (s.n && ((unsigned char)s.p[s.n] & 0xC0) == 0x80)
            s.n--;
    }
    return s;
}

/* Who gave this answer to this item. */
static void put_names(const struct judge_asker *g, int32_t item, int32_t rep, struct buf *out)
{
    size_t from = out->n;
    for (int32_t k = 0; k < (int32_t)g->entrants; k++)
        if (judge_rep(g, item, k) == rep)
            buf_printf(out, "%s%.*s", out->n > from ? "," : "", STR_ARG(g->entrant[k].name));
}

static int record(struct judge_asker *g, const struct judge_ask *q, const double *value,
                  int outcome, struct str detail, const struct response *r, struct err *e)
{
    struct str shown[JUDGE_MOST];
    struct buf names = {0};
    size_t from[JUDGE_MOST + 1] = {0};
    for (int32_t i = 0; i < q->n; i++) {
        put_names(g, q->item, q->who[i], &names);
        from[i + 1] = names.n;
    }
    for (int32_t i = 0; i < q->n; i++)
        shown[i] = (struct str){names.p + from[i], from[i + 1] - from[i]};
    struct verdict_record v = {
        .item = g->items.v[q->item].id,
        .protocol = str_z(judge_protocol_names[g->prompt.protocol]),
        .key = str_z(q->key),
        .judge = r->finish == FINISH_ERROR ? (struct str){0} : r->model, /* else nobody served */
        .shown = {shown, (size_t)q->n},
        .value = {(double *)value, judge_values(g, q)},
        .outcome = outcome,
        .detail = detail,
        .text = clip(r->text),
        .repeat = q->repeat,
        .pass = g->pass ? q->repeat : 0,
        .tokens_in = r->tokens_in,
        .tokens_out = r->tokens_out,
        .ms = r->ms,
    };
    int rc = records_append(g->journal, &v, e);
    buf_release(&names);
    if (rc)
        return -1;
    double now = clock_now();
    if (now - g->synced < SYNC_EVERY)
        return 0;
    g->synced = now;
    return records_sync(g->journal, e);
}

/* ---- caps ----------------------------------------------------------------------------------- */

/* What a question may cost at most, in the unit of the cap that is set. */
static double bound_of(const struct judge_asker *g, const struct judge_ask *q, bool money)
{
    int64_t out = g->c.max_tokens * (int64_t)judge_values(g, q);
    if (!money)
        return (double)((int64_t)q->question.n + out);
    return price_of(g->price, (int64_t)q->question.n, out);
}

/* The cap that asking q would pass; NULL: none. A cap of tokens is looked at when it is reached, one
 * of money before it is passed: open and uncounted requests are taken at their upper bound. */
static const char *cap_before(const struct judge_asker *g, const struct judge_ask *q)
{
    const struct judge_caps *c = &g->caps;
    if (c->seconds > 0 && g->clock->now(g->clock) - g->started >= c->seconds)
        return "the cap of time is reached";
    if (c->tokens > 0 &&
        (double)(g->tokens_in + g->tokens_out) + (g->uncounted ? g->bound : 0) >= (double)c->tokens)
        return "the cap of tokens is reached";
    if (c->money > 0 &&
        price_of(g->price, g->tokens_in, g->tokens_out) + g->bound + bound_of(g, q, true) >
            c->money)
        return "the cap of money would be passed";
    return NULL;
}

/* ---- the two calls of a model --------------------------------------------------------------- */

/* A server that cuts a long prompt says nothing, so what can't fit is not asked. */
static bool too_long(struct judge_asker *g, struct judge_ask *q)
{
    int64_t need = (int64_t)q->question.n / 4 + g->c.max_tokens * (int64_t)judge_values(g, q);
    if (!g->model.context || need <= g->model.context)
        return false;
    q->detail = str_printf(&g->arena, "the question needs about %lld tokens, the context has %lld",
                           (long long)need, (long long)g->model.context);
    q->state = ASK_DECIDED;
    g->decided++;
    g->failed++;
    buf_release(&q->question);
    return true;
}

static int next_question(void *ctx, struct request *out, struct err *e)
{
    struct judge_asker *g = ctx;
    struct judge_ask *q;
    (void)e;
    do {
        while (g->next < g->n && g->v[g->next].state != ASK_WAITING)
            g->next++;
        if (g->next == g->n || g->capped)
            return 0;
        q = &g->v[g->next];
        build_question(g, q, &q->question);
    } while (too_long(g, q));
    g->capped = cap_before(g, q);
    if (g->capped) {
        buf_release(&q->question);
        return 0;
    }
    g->next++;
    q->state = ASK_UNDER_WAY;
    q->bound = bound_of(g, q, g->caps.money > 0);
    g->bound += q->bound;
    *out = (struct request){.id = g->items.v[q->item].id,
                            .prompt = buf_str(&q->question),
                            .max_tokens = g->c.max_tokens * (int64_t)judge_values(g, q),
                            .temperature = g->c.temperature,
                            .seed = (uint64_t)(g->c.seed + q->asked + TRY_SEEDS * q->repeat),
                            .tag = q};
    if (g->structured) {
        size_t at = q->question.n; /* the schema lives behind the question in one buffer */
        judge_schema(&g->prompt, (size_t)q->n, &q->question);
        out->prompt = (struct str){q->question.p, at};
        out->schema = (struct str){q->question.p + at, q->question.n - at};
    }
    q->asked++;
    g->sent++;
    return 1;
}

static void note_progress(struct judge_asker *g)
{
    char note[120] = "", money[40] = "";
    double spent = price_of(g->price, g->tokens_in, g->tokens_out);
    if (isfinite(spent))
        snprintf(money, sizeof money, ", %s%.4g %.*s", g->uncounted ? "at least " : "", spent,
                 STR_ARG(g->price->currency));
    snprintf(note, sizeof note, "%lld failed%s", (long long)g->failed, money);
    progress_set(&g->bar, (double)(g->kept + g->decided), note);
}

/* Unknown is not zero: the bounds of a reply without counts and of tries that ran into the timeout
 * (which the server may have worked on) stay. */
static void count_cost(struct judge_asker *g, const struct judge_ask *q, const struct response *r)
{
    int64_t late = g->model.timed_out - g->timed_out;
    g->timed_out += late;
    g->bound += (double)late * q->bound;
    if (r->tokens_in != FIELD_NONE_I64 && r->tokens_out != FIELD_NONE_I64) {
        g->tokens_in += r->tokens_in;
        g->tokens_out += r->tokens_out;
        g->bound -= q->bound;
    } else if (r->finish != FINISH_ERROR) {
        g->uncounted++;
    } else {
        g->bound -= q->bound;
    }
}

static int got_answer(void *ctx, const struct request *out, const struct response *r, struct err *e)
{
    struct judge_asker *g = ctx;
    struct judge_ask *q = out->tag;
    struct arena each = {0};
    double value[JUDGE_MOST];
    struct str detail;
    size_t n = judge_values(g, q), have = 0;
    int outcome = judge_verdict(&g->prompt, g->structured, r, (size_t)q->n, value, &detail, &each);
    int rc = record(g, q, value, outcome, detail, r, e);
    count_cost(g, q, r);
    for (size_t i = 0; i < n; i++) {
        if (isnan(q->value[i])) /* what was there already stays */
            q->value[i] = value[i];
        have += !isnan(q->value[i]);
    }
    q->outcome = have == n ? OUTCOME_SCORED : outcome;
    q->detail = str_copy(&g->arena, detail);
    if (r->finish != FINISH_ERROR)
        q->served = str_copy(&g->arena, r->model);
    buf_release(&q->question);
    bool again = q->outcome == OUTCOME_PARSE_FAILED && q->asked < g->asks;
    q->state = again ? ASK_WAITING : ASK_DECIDED;
    g->decided += !again;
    g->failed += !again && q->outcome != OUTCOME_SCORED;
    note_progress(g);
    arena_release(&each);
    return rc;
}

/* Rounds: a model that was told "no more" is asked anew for what could not be parsed. */
static int ask_rounds(struct judge_asker *g, struct err *e)
{
    for (;;) {
        size_t waiting = 0;
        for (size_t i = 0; i < g->n; i++)
            waiting += g->v[i].state == ASK_WAITING;
        if (!waiting)
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
    for (size_t i = 0; i < g->n; i++) {
        if (g->v[i].state != ASK_WAITING)
            continue;
        buf_cut(&b, 0);
        build_question(g, &g->v[i], &b);
        in += (int64_t)b.n / 4 + 1;
        out += g->c.max_tokens * (int64_t)judge_values(g, &g->v[i]);
    }
    buf_release(&b);
    *tokens = in + out;
    *money = price_of(g->price, in, out);
}

static void say_plan(struct judge_asker *g)
{
    int64_t tokens, waiting = 0;
    double money;
    struct buf b = {0};
    judge_estimate(g, &tokens, &money);
    for (size_t i = 0; i < g->n; i++)
        waiting += g->v[i].state == ASK_WAITING;
    buf_printf(&b, "%s: %lld questions to ask, %lld kept, at most %lld tokens or so",
               judge_protocol_names[g->prompt.protocol], (long long)waiting, (long long)g->kept,
               (long long)tokens);
    if (isfinite(money))
        buf_printf(&b, ", %.3g %.*s", money, STR_ARG(g->price->currency));
    log_info("%s", b.p);
    buf_release(&b);
}

int judge_dry(struct judge_asker *g, const char *journal, struct err *e)
{
    if (file_exists(journal) && read_journal(g, journal, e))
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
    if (!g->journal || read_journal(g, journal, e))
        return -1;
    say_plan(g);
    progress_begin(&g->bar, "judge", "verdicts", (double)g->n, (double)g->kept);
    int rc = ask_rounds(g, e);
    progress_end(&g->bar);
    if (records_close(g->journal, rc ? &ignored : e) && rc == 0)
        rc = -1;
    g->journal = NULL;
    return rc;
}

void judge_spent(const struct judge_asker *g, struct buf *out)
{
    buf_printf(out, "; %lld asked now, %lld kept", (long long)g->sent, (long long)g->kept);
    if (g->model.sent > g->sent)
        buf_printf(out, " (%lld requests with tries)", (long long)g->model.sent);
    if (g->model.timed_out)
        buf_printf(out, "; %lld timed out and may be billed all the same",
                   (long long)g->model.timed_out);
    if (!g->sent)
        return;
    if (g->uncounted)
        buf_printf(out, "; tokens of %lld replies unknown", (long long)g->uncounted);
    if (g->uncounted < g->sent)
        buf_printf(out, "; %lld + %lld tokens", (long long)g->tokens_in, (long long)g->tokens_out);
    double money = price_of(g->price, g->tokens_in, g->tokens_out);
    if (isfinite(money))
        buf_printf(out, "; %s%.4g %.*s", g->uncounted ? "at least " : "", money,
                   STR_ARG(g->price->currency));
}

int judge_check_failed(const struct judge_asker *g, struct err *e)
{
    int64_t failed = 0;
    struct str first = {0};
    for (size_t i = 0; i < g->n; i++) {
        if (g->v[i].outcome == OUTCOME_SCORED)
            continue;
        failed++;
        if (!first.n)
            first = g->v[i].detail;
    }
    if ((double)failed <= g->c.max_failed * (double)g->n)
        return 0;
    return err_code(e, EXIT_INCOMPLETE,
                    "%lld of %lld %s have no verdict, more than max_failed = %g (the first: "
                    "%.*s); what is scored is kept, run again to ask for these",
                    (long long)failed, (long long)g->n,
                    g->prompt.protocol == JUDGE_SINGLE ? "answers" : "questions", g->c.max_failed,
                    STR_ARG(first));
}

const char *judge_served(const struct judge_asker *g, struct arena *a)
{
    struct index seen = {0};
    struct buf b = {0};
    for (size_t i = 0; i < g->n; i++) {
        struct str name = g->v[i].served;
        if (name.n && index_add(&seen, name, i) == INDEX_NONE)
            buf_printf(&b, "%s%.*s", b.n ? ", " : "", STR_ARG(name));
    }
    const char *out = str_dup(a, buf_str(&b));
    if (seen.n > 1)
        log_warn("several models served this judge: %s", out);
    index_release(&seen);
    buf_release(&b);
    return out;
}
