/* judge_report: scores, summaries and facts of a judging. See pipelines/judge.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/judge.h"
#include "scoring/agreement.h"
#include "scoring/stats.h"

static struct score blank(const struct judge_asker *g, int32_t item)
{
    static const char *const names[] = {"judge_single", "judge_joint", "judge_pairwise"};
    const struct item *it = &g->items.v[item];
    return (struct score){.item = it->id,
                          .scorer = str_z(names[g->prompt.protocol]),
                          .cluster = it->cluster,
                          .value = NAN,
                          .outcome = OUTCOME_NOT_RUN,
                          .detail = STR_LIT("no response")};
}

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

static int64_t repeats_of(const struct judge_asker *g)
{
    int64_t k = 1;
    for (size_t i = 0; i < g->n; i++)
        k = g->v[i].repeat + 1 > k ? g->v[i].repeat + 1 : k;
    return k;
}

void judge_scores_of(const struct judge_asker *g, int32_t k, struct score *v,
                     struct judge_noise *noise, struct arena *a)
{
    size_t repeats = (size_t)repeats_of(g), n = g->items.n;
    double *x = mem_array(n * repeats, sizeof *x);
    for (size_t i = 0; i < n * repeats; i++)
        x[i] = NAN;
    for (size_t i = 0; i < n; i++) {
        v[i] = blank(g, (int32_t)i);
        const struct response *r = responses_find(&g->entrant[k].responses, g->items.v[i].id);
        if (r && judge_rep(g, (int32_t)i, k) < 0)
            v[i].detail = STR_LIT("the model gave no answer");
    }
    for (size_t at = 0; at < g->n; at++) {
        const struct judge_ask *q = &g->v[at];
        struct score *s = &v[q->item];
        int32_t rep = judge_rep(g, q->item, k);
        double got;
        if (rep < 0 || !value_in(g, q, rep, &got))
            continue;
        x[(size_t)q->item * repeats + (size_t)q->repeat] = got;
        if (isnan(got) && s->outcome == OUTCOME_SCORED)
            continue; /* another repeat gave a value */
        s->outcome = isnan(got) ? q->outcome : OUTCOME_SCORED;
        s->detail = q->detail;
        s->judge = q->served;
        s->key = str_z(q->key);
    }
    for (size_t i = 0; i < n; i++) {
        double sum = 0, count = 0;
        for (size_t r = 0; r < repeats; r++)
            if (!isnan(x[i * repeats + r])) {
                sum += x[i * repeats + r];
                count++;
            }
        if (count > 0)
            v[i].value = sum / count;
        if (count > 1)
            v[i].detail = str_printf(a, "mean of %.0f verdicts", count);
    }
    agree_noise(x, n, repeats, &noise->judge_sd, &noise->item_sd, &noise->items);
    free(x);
}

/* Both orders of one item and repeat. */
struct orders {
    double first, second; /* as values of the pair's first entrant */
    int outcome;
    struct str detail, served;
};

static void fill_orders(const struct judge_asker *g, const int32_t pair[2], struct orders *o,
                        size_t repeats, struct judge_swaps *w)
{
    for (size_t at = 0; at < g->n; at++) {
        const struct judge_ask *q = &g->v[at];
        int32_t x = judge_rep(g, q->item, pair[0]), y = judge_rep(g, q->item, pair[1]);
        bool as_is = q->who[0] == x && q->who[1] == y, swapped = q->who[0] == y && q->who[1] == x;
        struct orders *to = &o[(size_t)q->item * repeats + (size_t)q->repeat];
        if ((!as_is && !swapped) || x == y)
            continue;
        if (as_is)
            to->first = q->value[0];
        else
            to->second = 1 - q->value[0];
        if (to->outcome == OUTCOME_SCORED || to->outcome == OUTCOME_NOT_RUN) {
            to->outcome = q->outcome;
            to->detail = q->detail;
        }
        to->served = q->served;
        if (!isnan(q->value[0]) && q->value[0] != 0.5) {
            w->decided++;
            w->first += q->value[0] == 1;
        }
    }
}

static void pair_score(struct orders *o, size_t repeats, struct score *s, struct judge_swaps *w)
{
    double sum = 0, count = 0;
    for (size_t r = 0; r < repeats; r++) {
        const struct orders *x = &o[r];
        if (isnan(x->first) || isnan(x->second)) {
            s->outcome = x->outcome == OUTCOME_SCORED ? OUTCOME_NOT_RUN : x->outcome;
            s->detail = x->outcome == OUTCOME_SCORED ? STR_LIT("one order is missing") : x->detail;
            continue;
        }
        bool tie = x->first == 0.5 || x->second == 0.5;
        w->both++;
        w->ties += tie;
        w->flips += !tie && x->first != x->second;
        sum += (x->first + x->second) / 2;
        count++;
        s->judge = x->served;
    }
    if (count == 0)
        return;
    s->outcome = OUTCOME_SCORED;
    s->value = sum / count;
    s->detail = STR_LIT("mean of both orders");
}

void judge_pair_scores(const struct judge_asker *g, const int32_t pair[2], struct score *v,
                       struct judge_swaps *swaps)
{
    size_t repeats = (size_t)repeats_of(g), n = g->items.n;
    struct orders *o = mem_array(n * repeats, sizeof *o);
    *swaps = (struct judge_swaps){0};
    for (size_t i = 0; i < n * repeats; i++)
        o[i] = (struct orders){.first = NAN, .second = NAN, .outcome = OUTCOME_NOT_RUN};
    fill_orders(g, pair, o, repeats, swaps);
    for (size_t i = 0; i < n; i++) {
        int32_t x = judge_rep(g, (int32_t)i, pair[0]), y = judge_rep(g, (int32_t)i, pair[1]);
        v[i] = blank(g, (int32_t)i);
        if (x < 0 || y < 0)
            continue;
        if (x == y) {
            v[i].value = 0.5;
            v[i].outcome = OUTCOME_SCORED;
            v[i].detail = STR_LIT("equal answers");
            continue;
        }
        pair_score(&o[i * repeats], repeats, &v[i], swaps);
    }
    free(o);
}

/* ---- lengths -------------------------------------------------------------------------------- */

static double characters(struct str s)
{
    double n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xC0) != 0x80;
    return n;
}

struct lengths {
    double pearson, spearman, mean;
};

/* Of scores with the length of the answer (other < 0), or with how much longer it is. */
static struct lengths lengths_of(const struct judge_asker *g, const struct score *v, int32_t k,
                                 int32_t other)
{
    double *len = mem_array(2 * g->items.n, sizeof *len), *val = len + g->items.n, sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < g->items.n; i++) {
        struct str x, y = {0};
        if (v[i].outcome != OUTCOME_SCORED || !judge_answer(g, (int32_t)i, k, &x) ||
            (other >= 0 && !judge_answer(g, (int32_t)i, other, &y)))
            continue;
        len[n] = characters(x) - characters(y);
        sum += len[n];
        val[n++] = v[i].value;
    }
    struct lengths l = {stats_pearson(len, val, n), stats_spearman(len, val, n),
                        n ? sum / (double)n : NAN};
    free(len);
    return l;
}

/* ---- to people ------------------------------------------------------------------------------ */

/* n, mean, interval, bounds, outcomes. */
static void put_summary(const struct judge_summary *s, const char *what, struct buf *b)
{
    buf_printf(b, "%lld of %lld scored", (long long)s->count[OUTCOME_SCORED], (long long)s->n);
    int digits = strcmp(what, "mean") == 0 ? 2 : 3;
    if (isfinite(s->mean))
        buf_printf(b, ", %s %.*f", what, digits, s->mean);
    if (isfinite(s->lo))
        buf_printf(b, " [%.*f, %.*f]", digits, s->lo, digits, s->hi);
    else if (s->why)
        buf_printf(b, " (no interval: %s)", s->why);
    if (s->count[OUTCOME_SCORED] < s->n)
        buf_printf(b, ", between %.*f and %.*f if all had a score", digits, s->lo_all, digits,
                   s->hi_all);
    for (int i = 1; outcome_names[i]; i++)
        if (s->count[i])
            buf_printf(b, ", %lld %s", (long long)s->count[i], outcome_names[i]);
}

static void put_lengths(const struct lengths *l, const char *what, FILE *to)
{
    if (isfinite(l->pearson))
        fprintf(to,
                "  length: mean %.0f characters%s, with the score Pearson %.3f, Spearman %.3f\n",
                l->mean, what, l->pearson, l->spearman);
}

static void print_entrant(const struct judge_asker *g, int32_t k, FILE *to, struct arena *a)
{
    struct score *v = mem_array(g->items.n, sizeof *v);
    struct judge_noise noise;
    struct judge_summary s;
    struct buf b = {0};
    judge_scores_of(g, k, v, &noise, a);
    judge_summarise(v, g->items.n, (double)g->prompt.lo, (double)g->prompt.hi, &s);
    put_summary(&s, "mean", &b);
    if (g->entrants == 1)
        judge_spent(g, &b);
    fprintf(to, "%.*s: %s\n", STR_ARG(g->entrants == 1 ? STR_LIT("judge") : g->entrant[k].name),
            b.p);
    struct lengths l = lengths_of(g, v, k, -1);
    put_lengths(&l, "", to);
    if (isfinite(noise.judge_sd))
        fprintf(to, "  noise: sd %.3g of one verdict (the judge), %.3g of items, over %lld items\n",
                noise.judge_sd, noise.item_sd, (long long)noise.items);
    buf_release(&b);
    free(v);
}

static void print_pair(const struct judge_asker *g, const int32_t pair[2], FILE *to)
{
    struct score *v = mem_array(g->items.n, sizeof *v);
    struct judge_swaps w;
    struct judge_summary s;
    struct buf b = {0};
    double lo, hi;
    judge_pair_scores(g, pair, v, &w);
    judge_summarise(v, g->items.n, 0, 1, &s);
    put_summary(&s, "share of wins", &b);
    fprintf(to, "%.*s against %.*s: %s\n", STR_ARG(g->entrant[pair[0]].name),
            STR_ARG(g->entrant[pair[1]].name), b.p);
    if (w.both) {
        stats_wilson(w.both - w.flips, w.both, 0.95, &lo, &hi);
        fprintf(to,
                "  swapped: %lld of %lld items keep their winner (%.3f [%.3f, %.3f]), %lld with a "
                "tie",
                (long long)(w.both - w.flips), (long long)w.both,
                (double)(w.both - w.flips) / (double)w.both, lo, hi, (long long)w.ties);
        if (w.decided)
            fprintf(to, "; the first answer wins %.3f", (double)w.first / (double)w.decided);
        fputc('\n', to);
    }
    struct lengths l = lengths_of(g, v, pair[0], pair[1]);
    put_lengths(&l, " more", to);
    buf_release(&b);
    free(v);
}

void judge_print(const struct judge_asker *g, const struct judge_job *j, FILE *to, struct arena *a)
{
    int32_t pair[2];
    if (g->prompt.protocol == JUDGE_PAIRWISE)
        for (size_t k = 0; judge_pair(g, j, k, pair); k++)
            print_pair(g, pair, to);
    else
        for (int32_t k = 0; k < (int32_t)g->entrants; k++)
            print_entrant(g, k, to, a);
    if (g->entrants > 1) {
        struct buf b = {0};
        judge_spent(g, &b);
        fprintf(to, "judge: %s\n", b.p + 2);
        buf_release(&b);
    }
}

/* ---- to files ------------------------------------------------------------------------------- */

int judge_save_scores(const struct score *v, size_t n, const char *path, struct err *e)
{
    struct records *w = records_open(path, &score_schema, RECORD_WRITE, e);
    if (!w)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (records_append(w, &v[i], e)) {
            records_abort(w);
            return -1;
        }
    }
    return records_close(w, e);
}

static void summary_facts(struct json *o, const struct judge_summary *s, const struct lengths *l)
{
    json_put(o, "items", json_of_int(s->n));
    for (int i = 0; outcome_names[i]; i++)
        json_put(o, outcome_names[i], json_of_int(s->count[i]));
    json_put(o, "mean", json_of_num(s->mean));
    json_put(o, "lo", json_of_num(s->lo));
    json_put(o, "hi", json_of_num(s->hi));
    json_put(o, "lo_all", json_of_num(s->lo_all));
    json_put(o, "hi_all", json_of_num(s->hi_all));
    json_put(o, "length_mean", json_of_num(l->mean));
    json_put(o, "length_pearson", json_of_num(l->pearson));
    json_put(o, "length_spearman", json_of_num(l->spearman));
}

static int write_entrant(const struct judge_asker *g, const struct judge_job *j, int32_t k,
                         struct stage *st, struct json *all, struct arena *a, struct err *e)
{
    struct score *v = arena_array(a, g->items.n, sizeof *v);
    struct judge_noise noise;
    struct judge_summary s;
    const char *path = g->entrants == 1 ? path_join(a, j->out, "scores.msgpack")
                                        : arena_printf(a, "%s/scores/%.*s.msgpack", j->out,
                                                       STR_ARG(g->entrant[k].name));
    judge_scores_of(g, k, v, &noise, a);
    judge_summarise(v, g->items.n, (double)g->prompt.lo, (double)g->prompt.hi, &s);
    if (judge_save_scores(v, g->items.n, path, e) || stage_output(st, path, e))
        return -1;
    struct json *o = json_obj();
    struct lengths l = lengths_of(g, v, k, -1);
    summary_facts(o, &s, &l);
    json_put(o, "judge_sd", json_of_num(noise.judge_sd));
    json_put(o, "item_sd", json_of_num(noise.item_sd));
    json_put(all, str_dup(a, g->entrant[k].name), o);
    return 0;
}

static int write_pair(const struct judge_asker *g, const struct judge_job *j, const int32_t pair[2],
                      struct stage *st, struct json *all, struct arena *a, struct err *e)
{
    struct score *v = arena_array(a, g->items.n, sizeof *v);
    struct judge_swaps w;
    struct judge_summary s;
    const char *name = arena_printf(a, "%.*s-vs-%.*s", STR_ARG(g->entrant[pair[0]].name),
                                    STR_ARG(g->entrant[pair[1]].name));
    const char *path = arena_printf(a, "%s/scores/%s.msgpack", j->out, name);
    judge_pair_scores(g, pair, v, &w);
    judge_summarise(v, g->items.n, 0, 1, &s);
    if (judge_save_scores(v, g->items.n, path, e) || stage_output(st, path, e))
        return -1;
    struct json *o = json_obj();
    struct lengths l = lengths_of(g, v, pair[0], pair[1]);
    summary_facts(o, &s, &l);
    json_put(o, "both_orders", json_of_int(w.both));
    json_put(o, "flips", json_of_int(w.flips));
    json_put(o, "ties", json_of_int(w.ties));
    json_put(o, "first_wins", json_of_int(w.first));
    json_put(o, "decided", json_of_int(w.decided));
    json_put(all, name, o);
    return 0;
}

static void facts(const struct judge_asker *g, const struct judge_job *j, struct stage *st,
                  struct json *all, struct arena *a)
{
    struct json *id = json_obj(), *now = json_obj();
    json_put(id, "protocol",
             json_of_z(arena_printf(a, "%s %lld..%lld", judge_protocol_names[g->prompt.protocol],
                                    (long long)g->prompt.lo, (long long)g->prompt.hi)));
    json_put(id, "prompt", json_of_z(g->prompt.hash));
    json_put(id, "judge", json_of_z(g->identity));
    json_put(id, "served", json_of_z(judge_served(g, a)));
    stage_fact(st, "identity", id);
    stage_fact(st, "repeat", json_of_int(j->repeat));
    if (json_size(all) == 1) { /* one: its facts stand on top */
        void *it = NULL;
        const char *key, *name;
        const struct json *one, *v;
        json_each(all, &it, &name, &one);
        it = NULL;
        while (json_each(one, &it, &key, &v))
            stage_fact(st, key, json_clone(v));
        json_free(all);
    } else {
        stage_fact(st, g->prompt.protocol == JUDGE_PAIRWISE ? "pairs" : "entrants", all);
    }
    json_put(now, "asked", json_of_int(g->sent));
    json_put(now, "kept", json_of_int(g->kept));
    json_put(now, "requests", json_of_int(g->model.sent));
    json_put(now, "timed_out", json_of_int(g->model.timed_out));
    json_put(now, "uncounted", json_of_int(g->uncounted));
    json_put(now, "tokens_in", json_of_int(g->tokens_in));
    json_put(now, "tokens_out", json_of_int(g->tokens_out));
    if (g->price && !g->uncounted) {
        json_put(now, "money", json_of_num(price_of(g->price, g->tokens_in, g->tokens_out)));
        json_put(now, "price", json_of_struct(&price_schema, g->price, false));
    }
    stage_volatile(st, "requests", now);
}

int judge_write(const struct judge_asker *g, const struct judge_job *j, struct stage *st,
                struct arena *a, struct err *e)
{
    struct json *all = json_obj();
    int32_t pair[2];
    int rc = 0;
    if (g->prompt.protocol == JUDGE_PAIRWISE)
        for (size_t k = 0; rc == 0 && judge_pair(g, j, k, pair); k++)
            rc = write_pair(g, j, pair, st, all, a, e);
    else
        for (int32_t k = 0; rc == 0 && k < (int32_t)g->entrants; k++)
            rc = write_entrant(g, j, k, st, all, a, e);
    if (rc) {
        json_free(all);
        return -1;
    }
    facts(g, j, st, all, a);
    return 0;
}
