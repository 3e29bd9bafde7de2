/* judge: see pipelines/judge.h. */
#include "pipelines/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "eval/model.h"
#include "formats/index.h"
#include "formats/manifest.h"
#include "formats/record.h"
#include "scoring/judge.h"

#define SYNC_EVERY 0.1
#define SCORER     "judge_single"

enum state { WAITING, UNDER_WAY, DECIDED, NOTHING_TO_JUDGE };

/* One answer to judge. */
struct verdict {
    const struct item *item;
    struct str answer;
    char key[65];
    enum state state;
    int64_t asked;
    struct buf question; /* while under way */
    struct score score;
};
struct judge {
    const struct judge_job *j;
    struct judge_prompt prompt;
    struct items items;
    struct responses responses;
    struct model model;
    const char *identity; /* of the judge with its decoding */
    struct verdict *v;
    size_t n, next;
    struct records *journal;
    struct clock *clock;
    double started, synced;
    int64_t kept, asked, decided, tokens_in,
        tokens_out; /* tokens: FIELD_NONE_I64 once one is unknown */
    bool capped;
    struct progress bar;
    struct arena arena;
};

/* ---- what is to be judged ------------------------------------------------------------------- */

static struct score score_of(const struct verdict *v, int outcome, struct str detail)
{
    return (struct score){.item = v->item->id,
                          .scorer = STR_LIT(SCORER),
                          .cluster = v->item->cluster,
                          .value = NAN,
                          .outcome = outcome,
                          .detail = detail,
                          .key = str_z(v->key)};
}

static int make_verdicts(struct judge *g, struct err *e)
{
    size_t found = 0;
    g->n = g->items.n;
    g->v = mem_array(g->n, sizeof *g->v);
    for (size_t i = 0; i < g->n; i++) {
        struct verdict *v = &g->v[i];
        v->item = &g->items.v[i];
        const struct response *r = responses_find(&g->responses, v->item->id);
        found += r != NULL;
        if (r && r->finish != FINISH_ERROR) {
            v->answer = r->text;
            judge_key(v->item, v->answer, str_z(g->identity), &g->prompt, v->key);
            v->score = score_of(v, OUTCOME_NOT_RUN, STR_LIT("not asked"));
            continue;
        }
        v->state = NOTHING_TO_JUDGE;
        v->score = score_of(v, OUTCOME_NOT_RUN,
                            r ? STR_LIT("the model gave no answer") : STR_LIT("no response"));
    }
    if (!found)
        return err_set(e, "%s answers no item of %s", g->j->responses, g->j->items);
    return 0;
}

/* Takes over what was scored before. */
static int read_journal(struct judge *g, const char *path, struct err *e)
{
    struct index index = {0};
    struct score s;
    int rc;
    struct records *in = records_open(path, &score_schema, RECORD_READ, e);
    if (!in)
        return -1;
    for (size_t i = 0; i < g->n; i++)
        if (g->v[i].state == WAITING)
            index_add(&index, str_z(g->v[i].key), i);
    while ((rc = records_next(in, &s, &g->arena, e)) == 1) {
        size_t i = index_find(&index, s.key);
        if (i == INDEX_NONE || s.outcome != OUTCOME_SCORED)
            continue;
        g->kept += g->v[i].state == WAITING;
        g->v[i].state = DECIDED;
        g->v[i].score = s;
        g->v[i].score.cluster = g->v[i].item->cluster;
    }
    index_release(&index);
    if (rc < 0) {
        records_abort(in);
        return -1;
    }
    return records_close(in, e);
}

/* ---- the two calls of a model --------------------------------------------------------------- */

static bool cap_reached(const struct judge *g)
{
    const struct judge_job *j = g->j;
    if (j->max_seconds > 0 && g->clock->now(g->clock) - g->started >= j->max_seconds)
        return true;
    if (j->max_total_tokens <= 0 || g->tokens_in == FIELD_NONE_I64)
        return false;
    return g->tokens_in + g->tokens_out >= j->max_total_tokens;
}

static int next_question(void *ctx, struct request *q, struct err *e)
{
    struct judge *g = ctx;
    const struct judge_config *c = &g->j->c;
    (void)e;
    while (g->next < g->n && g->v[g->next].state != WAITING)
        g->next++;
    if (g->next == g->n)
        return 0;
    if (cap_reached(g)) {
        g->capped = true;
        return 0;
    }
    struct verdict *v = &g->v[g->next++];
    v->state = UNDER_WAY;
    judge_question(&g->prompt, v->item, v->answer, &v->question);
    *q = (struct request){.id = v->item->id,
                          .prompt = buf_str(&v->question),
                          .max_tokens = c->max_tokens,
                          .temperature = c->temperature,
                          .seed = (uint64_t)(c->seed + v->asked),
                          .tag = v};
    v->asked++;
    g->asked++;
    return 1;
}

static void add_tokens(int64_t *sum, int64_t n)
{
    if (n == FIELD_NONE_I64 || *sum == FIELD_NONE_I64)
        *sum = FIELD_NONE_I64; /* unknown is not zero */
    else
        *sum += n;
}

static int record(struct judge *g, const struct verdict *v, struct err *e)
{
    if (records_append(g->journal, &v->score, e))
        return -1;
    double now = clock_now();
    if (now - g->synced < SYNC_EVERY)
        return 0;
    g->synced = now;
    return records_sync(g->journal, e);
}

static int got_answer(void *ctx, const struct request *q, const struct response *r, struct err *e)
{
    struct judge *g = ctx;
    struct verdict *v = q->tag;
    v->score = score_of(v, OUTCOME_NOT_RUN, (struct str){0});
    v->score.outcome = judge_verdict(r, &v->score.value, &v->score.detail, &g->arena);
    if (r->finish != FINISH_ERROR) /* else nobody served it */
        v->score.judge = str_copy(&g->arena, r->model);
    add_tokens(&g->tokens_in, r->tokens_in);
    add_tokens(&g->tokens_out, r->tokens_out);
    buf_release(&v->question);
    bool again = v->score.outcome == OUTCOME_PARSE_FAILED && v->asked < g->j->asks;
    v->state = again ? WAITING : DECIDED;
    g->decided += !again;
    progress_set(&g->bar, (double)(g->kept + g->decided), NULL);
    return record(g, v, e);
}

/* Rounds: a model that was told "no more" is asked anew for what could not be parsed. */
static int ask_all(struct judge *g, struct err *e)
{
    for (;;) {
        size_t waiting = 0;
        for (size_t i = 0; i < g->n; i++)
            waiting += g->v[i].state == WAITING;
        if (!waiting)
            return 0;
        g->next = 0;
        if (g->model.ops->answer(&g->model, next_question, got_answer, g, e))
            return -1;
        if (g->capped)
            return err_code(e, EXIT_INCOMPLETE, "a cap of tokens or time is reached");
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

/* n, mean, interval, bounds, outcomes; one line. */
static void print_summary(const struct judge *g, const struct judge_summary *s, FILE *to)
{
    fprintf(to, "judge: %lld of %lld scored", (long long)s->count[OUTCOME_SCORED], (long long)s->n);
    if (isfinite(s->mean))
        fprintf(to, ", mean %.2f", s->mean);
    if (isfinite(s->lo))
        fprintf(to, " [%.2f, %.2f]", s->lo, s->hi);
    else if (s->why)
        fprintf(to, " (no interval: %s)", s->why);
    if (s->count[OUTCOME_SCORED] < s->n)
        fprintf(to, ", between %.2f and %.2f if all had a score", s->lo_all, s->hi_all);
    for (int i = 1; outcome_names[i]; i++)
        if (s->count[i])
            fprintf(to, ", %lld %s", (long long)s->count[i], outcome_names[i]);
    fprintf(to, "; %lld asked now, %lld kept", (long long)g->asked, (long long)g->kept);
    if (g->asked && g->tokens_in != FIELD_NONE_I64 && g->tokens_out != FIELD_NONE_I64)
        fprintf(to, "; %lld + %lld tokens", (long long)g->tokens_in, (long long)g->tokens_out);
    fputc('\n', to);
}

static struct judge_summary summarise(const struct judge *g)
{
    struct score *all = mem_array(g->n, sizeof *all);
    struct judge_summary s;
    for (size_t i = 0; i < g->n; i++)
        all[i] = g->v[i].score;
    judge_summarise(all, g->n, &s);
    free(all);
    return s;
}

static int check_failed(const struct judge *g, struct err *e)
{
    int64_t judged = 0, failed = 0;
    struct str first = {0};
    for (size_t i = 0; i < g->n; i++) {
        if (g->v[i].state == NOTHING_TO_JUDGE)
            continue;
        judged++;
        if (g->v[i].score.outcome == OUTCOME_SCORED)
            continue;
        failed++;
        if (!first.n)
            first = g->v[i].score.detail;
    }
    if ((double)failed <= g->j->c.max_failed * (double)judged)
        return 0;
    return err_code(e, EXIT_INCOMPLETE,
                    "%lld of %lld answers have no verdict, more than max_failed = %g (the first: "
                    "%.*s); what is scored is kept, run again to ask for these",
                    (long long)failed, (long long)judged, g->j->c.max_failed, STR_ARG(first));
}

static int write_scores(const struct judge *g, const char *path, struct err *e)
{
    struct records *w = records_open(path, &score_schema, RECORD_WRITE, e);
    if (!w)
        return -1;
    for (size_t i = 0; i < g->n; i++) {
        if (records_append(w, &g->v[i].score, e)) {
            records_abort(w);
            return -1;
        }
    }
    return records_close(w, e);
}

/* The models that answered, each once, in order of first sight. */
static const char *served(const struct judge *g, struct arena *a)
{
    struct index seen = {0};
    struct buf b = {0};
    for (size_t i = 0; i < g->n; i++) {
        struct str name = g->v[i].score.judge;
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

static void put_count(struct stage *st, const char *name, int64_t n)
{
    stage_fact(st, name, n == FIELD_NONE_I64 ? json_null() : json_of_int(n));
}

static void facts(struct stage *st, const struct judge *g, const struct judge_summary *s,
                  struct arena *a)
{
    struct json *id = json_obj();
    json_put(id, "protocol", json_of_z("single 0..100"));
    json_put(id, "prompt", json_of_z(g->prompt.hash));
    json_put(id, "judge", json_of_z(g->identity));
    json_put(id, "served", json_of_z(served(g, a)));
    stage_fact(st, "identity", id);
    stage_fact(st, "items", json_of_int(s->n));
    for (int i = 0; outcome_names[i]; i++)
        put_count(st, outcome_names[i], s->count[i]);
    stage_fact(st, "mean", json_of_num(s->mean));
    stage_fact(st, "lo", json_of_num(s->lo));
    stage_fact(st, "hi", json_of_num(s->hi));
    stage_fact(st, "lo_all", json_of_num(s->lo_all));
    stage_fact(st, "hi_all", json_of_num(s->hi_all));
}

static int finish(struct judge *g, struct stage *st, const struct judge_summary *s, struct arena *a,
                  struct err *e)
{
    const char *scores = path_join(a, g->j->out, "scores.msgpack");
    if (check_failed(g, e) || write_scores(g, scores, e) || stage_output(st, scores, e))
        return -1;
    facts(st, g, s, a);
    struct json *now = json_obj();
    json_put(now, "asked", json_of_int(g->asked));
    json_put(now, "kept", json_of_int(g->kept));
    if (g->tokens_in != FIELD_NONE_I64 && g->tokens_out != FIELD_NONE_I64) {
        json_put(now, "tokens_in", json_of_int(g->tokens_in));
        json_put(now, "tokens_out", json_of_int(g->tokens_out));
    }
    stage_volatile(st, "requests", now);
    return stage_end(st, e);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int open_judge(struct judge *g, struct arena *a, struct err *e)
{
    const struct judge_config *c = &g->j->c;
    struct model_options o = {.concurrency = c->concurrency,
                              .timeout = c->timeout,
                              .retries = c->retries,
                              .max_requests = c->max_requests,
                              .clock = g->j->clock};
    if (judge_prompt_load(&g->prompt, c->prompt, a, e) || items_load(&g->items, g->j->items, e) ||
        responses_load(&g->responses, g->j->responses, e) ||
        model_open(&g->model, str_dup(a, c->judge), &o, e))
        return -1;
    g->identity = arena_printf(a, "%s temperature=%g seed=%lld max_tokens=%lld",
                               g->model.ops->identity(&g->model), c->temperature,
                               (long long)c->seed, (long long)c->max_tokens);
    return make_verdicts(g, e);
}

static int work(struct judge *g, struct stage *st, FILE *to, struct arena *a, struct err *e)
{
    const char *path = path_join(a, g->j->out, "verdicts.msgpack");
    struct err ignored;
    g->journal = records_open(path, &score_schema, RECORD_APPEND, e);
    if (!g->journal || read_journal(g, path, e))
        return -1;
    progress_begin(&g->bar, "judge", "answers", (double)g->n, (double)g->kept);
    int rc = ask_all(g, e);
    progress_end(&g->bar);
    if (records_close(g->journal, rc ? &ignored : e) && rc == 0)
        rc = -1;
    g->journal = NULL;
    struct judge_summary s = summarise(g);
    print_summary(g, &s, to);
    return rc ? rc : finish(g, st, &s, a, e);
}

static void release(struct judge *g)
{
    records_abort(g->journal);
    for (size_t i = 0; g->v && i < g->n; i++)
        buf_release(&g->v[i].question);
    free(g->v);
    model_close(&g->model);
    responses_release(&g->responses);
    items_release(&g->items);
    arena_release(&g->arena);
}

int judge_run(const struct judge_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct judge g = {.j = j, .clock = j->clock ? j->clock : clock_system()};
    struct stage st;
    int rc = -1;
    g.started = g.clock->now(g.clock);
    stage_begin(&st, "judge", 1, j->out, NULL, NULL);
    if (open_judge(&g, a, e) || stage_input(&st, j->items, e) || stage_input(&st, j->responses, e))
        goto out;
    stage_setting(&st, "judge", g.identity);
    stage_setting(&st, "prompt", g.prompt.hash);
    rc = stage_fresh(&st) ? 0 : stage_start(&st, e) ? -1 : work(&g, &st, to, a, e);
out:
    stage_release(&st);
    release(&g);
    return rc;
}
