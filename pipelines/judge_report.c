/* judge_report: scores, summaries and facts of a judging. See pipelines/judge.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/judge.h"
#include "scoring/judge_summary.h"
#include "scoring/stats.h"

/* ---- adding up ------------------------------------------------------------------------------ */

static double characters(struct str s)
{
    double n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xC0) != 0x80;
    return n;
}

/* Scores into sums with the length of the answer (other < 0), or with how much longer it is; and into
 * a file, if there is one. */
struct measuring {
    const struct judge_asker *g;
    int32_t who, other;
    struct judge_sums sums;
    struct judge_view view;
    struct records *file;
};

static int measure_one(void *ctx, int32_t item, const struct score *s, struct err *e)
{
    struct measuring *x = ctx;
    int32_t who[2] = {x->who, x->other};
    double length = 0;
    judge_look(x->g, item, who, x->other < 0 ? 1 : 2, &x->view);
    length = characters(x->view.answer[0]);
    if (x->other >= 0)
        length -= characters(x->view.answer[1]);
    judge_sums_add(&x->sums, s, x->view.cluster, length);
    return x->file ? records_append(x->file, s, e) : 0;
}

struct measured {
    struct judge_summary s;
    double judge_sd, item_sd;
    int64_t noisy; /* items with at least two verdicts */
    struct judge_swaps swaps;
};

/* Of entrant who (other < 0) or of a pair. path: of the scores; NULL: not written. */
static int measure(const struct judge_asker *g, int32_t who, int32_t other, const char *path,
                   struct measured *out, struct err *e)
{
    struct measuring x = {.g = g, .who = who, .other = other};
    struct agree_noise noise = {0};
    struct err later;
    int32_t pair[2] = {who, other};
    bool one = other < 0;
    if (path && !(x.file = records_open(path, &score_schema, RECORD_WRITE, e)))
        return -1;
    int rc = one ? judge_each(g, who, measure_one, &x, &noise, e)
                 : judge_each_pair(g, pair, measure_one, &x, &out->swaps, e);
    if (judge_sums_end(&x.sums, one ? (double)g->prompt.lo : 0, one ? (double)g->prompt.hi : 1,
                       &out->s, rc ? &later : e))
        rc = -1;
    agree_noise_end(&noise, &out->judge_sd, &out->item_sd);
    out->noisy = noise.used;
    buf_release(&x.view.text);
    if (rc) {
        records_abort(x.file);
        return -1;
    }
    return x.file ? records_close(x.file, e) : 0;
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

static void put_lengths(const struct judge_summary *s, const char *what, FILE *to)
{
    if (isfinite(s->pearson))
        fprintf(to,
                "  length: mean %.0f characters%s, with the score Pearson %.3f, Spearman %.3f\n",
                round(s->length_mean) == 0 ? 0 : s->length_mean /* no "-0" */, what, s->pearson,
                s->spearman);
}

static int print_entrant(const struct judge_asker *g, int32_t k, FILE *to, struct err *e)
{
    struct measured m;
    struct buf b = {0};
    if (measure(g, k, -1, NULL, &m, e))
        return -1;
    put_summary(&m.s, "mean", &b);
    if (g->entrants == 1)
        judge_spent(g, &b);
    fprintf(to, "%.*s: %s\n", STR_ARG(g->entrants == 1 ? STR_LIT("judge") : g->entrant[k].name),
            b.p);
    put_lengths(&m.s, "", to);
    if (isfinite(m.judge_sd))
        fprintf(to, "  noise: sd %.3g of one verdict (the judge), %.3g of items, over %lld items\n",
                m.judge_sd, m.item_sd, (long long)m.noisy);
    buf_release(&b);
    return 0;
}

static int print_pair(const struct judge_asker *g, const int32_t pair[2], FILE *to, struct err *e)
{
    struct measured m;
    struct buf b = {0};
    double lo, hi;
    if (measure(g, pair[0], pair[1], NULL, &m, e))
        return -1;
    const struct judge_swaps *w = &m.swaps;
    put_summary(&m.s, "share of wins", &b);
    fprintf(to, "%.*s against %.*s: %s\n", STR_ARG(g->entrant[pair[0]].name),
            STR_ARG(g->entrant[pair[1]].name), b.p);
    if (w->both) {
        stats_wilson(w->both - w->flips, w->both, 0.95, &lo, &hi);
        fprintf(to,
                "  swapped: %lld of %lld items keep their winner (%.3f [%.3f, %.3f]), %lld with a "
                "tie",
                (long long)(w->both - w->flips), (long long)w->both,
                (double)(w->both - w->flips) / (double)w->both, lo, hi, (long long)w->ties);
        if (w->decided)
            fprintf(to, "; the first answer wins %.3f", (double)w->first / (double)w->decided);
        fputc('\n', to);
    }
    put_lengths(&m.s, " more", to);
    buf_release(&b);
    return 0;
}

int judge_print(const struct judge_asker *g, const struct judge_job *j, FILE *to, struct err *e)
{
    int32_t pair[2];
    int rc = 0;
    if (g->prompt.protocol == JUDGE_PAIRWISE)
        for (size_t k = 0; rc == 0 && judge_pair(g, j, k, pair); k++)
            rc = print_pair(g, pair, to, e);
    else
        for (int32_t k = 0; rc == 0 && k < (int32_t)g->entrants; k++)
            rc = print_entrant(g, k, to, e);
    if (rc == 0 && g->entrants > 1) {
        struct buf b = {0};
        judge_spent(g, &b);
        fprintf(to, "judge: %s\n", b.p + 2);
        buf_release(&b);
    }
    return rc;
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

static void summary_facts(struct json *o, const struct judge_summary *s)
{
    json_put(o, "items", json_of_int(s->n));
    for (int i = 0; outcome_names[i]; i++)
        json_put(o, outcome_names[i], json_of_int(s->count[i]));
    json_put(o, "mean", json_of_num(s->mean));
    json_put(o, "lo", json_of_num(s->lo));
    json_put(o, "hi", json_of_num(s->hi));
    json_put(o, "lo_all", json_of_num(s->lo_all));
    json_put(o, "hi_all", json_of_num(s->hi_all));
    json_put(o, "length_mean", json_of_num(s->length_mean));
    json_put(o, "length_pearson", json_of_num(s->pearson));
    json_put(o, "length_spearman", json_of_num(s->spearman));
}

static int write_entrant(const struct judge_asker *g, const struct judge_job *j, int32_t k,
                         struct stage *st, struct json *all, struct arena *a, struct err *e)
{
    struct measured m;
    const char *path = g->entrants == 1 ? path_join(a, j->out, "scores.msgpack")
                                        : arena_printf(a, "%s/scores/%.*s.msgpack", j->out,
                                                       STR_ARG(g->entrant[k].name));
    if (measure(g, k, -1, path, &m, e) || stage_output(st, path, e))
        return -1;
    struct json *o = json_obj();
    summary_facts(o, &m.s);
    json_put(o, "judge_sd", json_of_num(m.judge_sd));
    json_put(o, "item_sd", json_of_num(m.item_sd));
    json_put(all, str_dup(a, g->entrant[k].name), o);
    return 0;
}

static int write_pair(const struct judge_asker *g, const struct judge_job *j, const int32_t pair[2],
                      struct stage *st, struct json *all, struct arena *a, struct err *e)
{
    struct measured m;
    const char *name = arena_printf(a, "%.*s-vs-%.*s", STR_ARG(g->entrant[pair[0]].name),
                                    STR_ARG(g->entrant[pair[1]].name));
    const char *path = arena_printf(a, "%s/scores/%s.msgpack", j->out, name);
    if (measure(g, pair[0], pair[1], path, &m, e) || stage_output(st, path, e))
        return -1;
    struct json *o = json_obj();
    summary_facts(o, &m.s);
    json_put(o, "both_orders", json_of_int(m.swaps.both));
    json_put(o, "flips", json_of_int(m.swaps.flips));
    json_put(o, "ties", json_of_int(m.swaps.ties));
    json_put(o, "first_wins", json_of_int(m.swaps.first));
    json_put(o, "decided", json_of_int(m.swaps.decided));
    json_put(all, name, o);
    return 0;
}

/* Which answers each file of scores is of, for assay agree: their files' SHA-256, of a pair both. */
static struct json *answers_fact(const struct judge_asker *g, const struct judge_job *j,
                                 struct arena *a)
{
    struct json *o = json_obj();
    struct err ignored;
    char x[SHA256_HEX], y[SHA256_HEX];
    int32_t pair[2];
    if (j->labels)
        return o;
    if (g->prompt.protocol == JUDGE_PAIRWISE) {
        for (size_t k = 0; judge_pair(g, j, k, pair); k++) {
            const struct judge_entrant *p = &g->entrant[pair[0]], *q = &g->entrant[pair[1]];
            if (sha256_file(p->path, x, &ignored) == 0 && sha256_file(q->path, y, &ignored) == 0)
                json_put(o, arena_printf(a, "%.*s-vs-%.*s", STR_ARG(p->name), STR_ARG(q->name)),
                         json_of_z(arena_printf(a, "%s %s", x, y)));
        }
        return o;
    }
    for (size_t k = 0; k < g->entrants; k++)
        if (sha256_file(g->entrant[k].path, x, &ignored) == 0)
            json_put(o, str_dup(a, g->entrant[k].name), json_of_z(x));
    return o;
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
    stage_fact(st, "answers", answers_fact(g, j, a));
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
    json_put(now, "asked", json_of_int(judge_asked(g)));
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
