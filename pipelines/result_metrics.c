/* result_metrics: loss units and scores become metrics with their values, see result.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "formats/item.h"
#include "formats/record.h"
#include "pipelines/result.h"
#include "scoring/scorer.h"
#include "scoring/stats.h"

#define LN2 0.693147180559945309417

static struct metric *add(struct metrics *m, const char *name, const char *task, const char *unit)
{
    m->v = mem_grow(m->v, (m->n + 1) * sizeof *m->v);
    struct metric *x = &m->v[m->n++];
    *x = (struct metric){.name = str_z(name), .task = str_z(task), .unit = str_z(unit)};
    x->value = x->lo = x->hi = NAN;
    return x;
}

static void room(struct metric *x, size_t n, struct arena *a)
{
    x->ids = (struct strs){arena_array(a, n, sizeof(struct str)), n};
    x->cluster = (struct strs){arena_array(a, n, sizeof(struct str)), n};
    x->num = (struct f64s){arena_array(a, n, sizeof(double)), n};
    x->den = (struct f64s){arena_array(a, n, sizeof(double)), n};
}

/* An identity object of an artefact's manifest ("identity", or "identity_token" for what matters to
 * measures per token only), as "key=value"; and its note. */
static void identity_add(struct metric *x, const struct json *facts, const char *name,
                         struct arena *a)
{
    const struct json *id = json_get(facts, name), *v;
    size_t n = json_size(id), have = x->identity.n;
    struct str *all = arena_array(a, have + n + 1, sizeof *all);
    if (have)
        memcpy(all, x->identity.v, have * sizeof *all);
    void *it = NULL;
    const char *key;
    while (json_each(id, &it, &key, &v)) {
        struct buf b = {0};
        if (json_kind(v) == JSON_STR)
            buf_adds(&b, json_str(v));
        else
            json_write(v, &b);
        all[have++] = str_printf(a, "%s=%s", key, b.p ? b.p : "");
        buf_release(&b);
    }
    x->identity = (struct strs){all, have};
    if (json_str(json_get(facts, "note")).n)
        x->note = str_copy(a, json_str(json_get(facts, "note")));
}

void metric_finish(struct metric *m, struct arena *a)
{
    size_t n = m->ids.n, kept = 0;
    double *num = arena_array(a, n, sizeof *num), *den = arena_array(a, n, sizeof *den), sum = 0;
    int32_t *cl = arena_array(a, n, sizeof *cl);
    bool binary = true;
    struct map seen = {0};
    m->n = (int64_t)n;
    m->n_invalid = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(m->num.v[i])) {
            m->n_invalid++;
            continue;
        }
        struct str key = m->cluster.v[i].n ? m->cluster.v[i] : m->ids.v[i];
        cl[kept] = (int32_t)map_add(&seen, key, 0, NULL);
        num[kept] = m->num.v[i];
        den[kept] = m->den.v[i];
        binary = binary && den[kept] == 1 && (num[kept] == 0 || num[kept] == 1);
        sum += num[kept++];
    }
    m->clusters = (int64_t)seen.n;
    map_release(&seen);
    struct estimate est = stats_ratio(num, den, cl, kept, 0.95);
    m->value = est.value;
    m->lo = est.why ? NAN : est.lo;
    m->hi = est.why ? NAN : est.hi;
    if (str_eqz(m->unit, "share")) { /* t knows no borders, a share has them */
        m->lo = m->lo < 0 ? 0 : m->lo;
        m->hi = m->hi > 1 ? 1 : m->hi;
    }
    /* All right or all wrong has no spread to measure: Wilson's interval, at the number of clusters,
     * which is the least that is known. Independent right-or-wrong items have it anyway. */
    bool flat = binary && kept > 0 && (sum == 0 || sum == (double)kept);
    if (flat || (binary && kept > 0 && m->clusters == (int64_t)kept)) {
        int64_t units = m->clusters;
        stats_wilson(sum == 0 ? 0 : flat ? units : (int64_t)sum, units, 0.95, &m->lo, &m->hi);
    }
}

static void finish_loss(struct metrics *m, struct metric *x, bool primary)
{
    x->primary = primary;
    metric_finish(x, m->a);
}

/* Fills metric x from units by one of four rules. The oracle knows text and end together. */
enum loss_rule { NATS_TOKEN, BITS_BYTE, EXCESS_BITS_BYTE, BITS_END };
static void fill_loss(struct metric *x, const struct loss_unit *u, size_t n, enum loss_rule rule,
                      struct arena *a)
{
    room(x, n, a);
    for (size_t i = 0; i < n; i++) {
        double bits = u[i].nats / LN2, end = u[i].nats_end / LN2, whole = bits;
        whole += isnan(end) ? 0 : end; /* older units hold it in nats */
        x->ids.v[i] = u[i].id;
        x->cluster.v[i] = u[i].cluster;
        x->num.v[i] = rule == NATS_TOKEN  ? u[i].nats
                      : rule == BITS_BYTE ? bits
                      : rule == BITS_END  ? end
                                          : whole - u[i].oracle_bits;
        x->den.v[i] = (double)(rule == NATS_TOKEN ? u[i].tokens
                               : rule == BITS_END ? 1
                                                  : u[i].bytes);
    }
}

int metrics_add_loss(struct metrics *m, const char *task, const char *path, struct err *e)
{
    bool documents = strcmp(task, "documents") == 0;
    struct records *r = records_open(path, &loss_unit_schema, RECORD_READ, e);
    struct loss_unit *u = NULL;
    struct json *man = NULL;
    size_t n = 0, cap = 0;
    int rc = -1, got;
    bool bytes = true, oracle = true, ends = true;
    if (!r)
        return -1;
    for (;;) {
        if (n == cap)
            u = mem_grow(u, (cap = cap ? 2 * cap : 1024) * sizeof *u);
        if ((got = records_next(r, &u[n], m->a, e)) != 1)
            break;
        bytes = bytes && u[n].bytes > 0;
        oracle = oracle && !isnan(u[n].oracle_bits);
        ends = ends && !isnan(u[n].nats_end);
        n++;
    }
    if (got < 0)
        goto out;
    if (n == 0) {
        err_set(e, "%s: holds no loss units", path);
        goto out;
    }
    if (!(man = manifest_read(path, e)))
        goto out;
    const struct json *facts = json_get(man, "facts");
    struct metric *x = add(m, "nll_token", task, "nats/token");
    identity_add(x, facts, "identity", m->a);
    struct strs identity = x->identity; /* bits per byte compare across vocabularies */
    identity_add(x, facts, "identity_token", m->a);
    fill_loss(x, u, n, NATS_TOKEN, m->a);
    finish_loss(m, x, !documents); /* documents are compared by bytes: vocabularies may differ */
    if (bytes && documents) {
        x = add(m, "bits_byte", task, "bits/byte");
        x->identity = identity;
        fill_loss(x, u, n, BITS_BYTE, m->a);
        finish_loss(m, x, true);
    }
    if (bytes && oracle && documents) {
        x = add(m, "excess_bits_byte", task, "bits/byte above the oracle");
        x->identity = identity;
        fill_loss(x, u, n, EXCESS_BITS_BYTE, m->a);
        finish_loss(m, x, false); /* the same differences as bits_byte: it counts once */
    }
    if (ends && documents) {
        x = add(m, "bits_end", task, "bits/document, for its end");
        x->identity = identity;
        fill_loss(x, u, n, BITS_END, m->a);
        finish_loss(m, x, false);
    }
    rc = 0;
out:
    json_free(man);
    free(u);
    records_close(r, &(struct err){0});
    return rc;
}

int metrics_add_scores(struct metrics *m, const char *name, const char *task, struct strs paths,
                       const char *const *items, struct err *e)
{
    struct scores *s = mem_array(paths.n, sizeof *s);
    struct buf note = {0};
    size_t open = 0;
    int rc = -1;
    bool judge = strncmp(name, "judge", 5) == 0;
    for (; open < paths.n; open++)
        if (scores_load(&s[open], str_dup(m->a, paths.v[open]), e) != 0)
            goto out;
    struct metric *x = add(m, name, task, judge ? "points of 100" : "share");
    x->higher_better = x->primary = true;
    for (const char *const *p = items; *p; p++) {
        struct json *man = manifest_read(*p, e);
        if (!man)
            goto out;
        identity_add(x, json_get(man, "facts"), "identity", m->a);
        json_free(man);
    }
    room(x, s[0].n, m->a);
    for (size_t i = 0; i < s[0].n; i++) {
        const struct score *first = &s[0].v[i];
        double sum = 0;
        for (size_t k = 0; k < paths.n; k++) {
            const struct score *v = i < s[k].n ? &s[k].v[i] : NULL;
            if (!v || !str_eq(v->item, first->item)) {
                err_set(e, "%.*s: item %.*s of the first seed's scores is not at its place",
                        STR_ARG(paths.v[k]), STR_ARG(first->item));
                goto out;
            }
            sum += v->outcome == OUTCOME_SCORED ? v->value : NAN;
        }
        x->ids.v[i] = str_copy(m->a, first->item);
        x->cluster.v[i] = str_copy(m->a, first->cluster);
        x->den.v[i] = score_weight(first);
        x->num.v[i] = sum / (double)paths.n * x->den.v[i];
    }
    metric_finish(x, m->a);
    if (paths.n > 1) {
        buf_printf(&note, "%.*s%sfine-tuning seeds:", STR_ARG(x->note), x->note.n ? "; " : "");
        for (size_t k = 0; k < paths.n; k++) {
            double sum = 0, weight = 0;
            for (size_t i = 0; i < s[k].n; i++)
                if (s[k].v[i].outcome == OUTCOME_SCORED) {
                    sum += s[k].v[i].value * score_weight(&s[k].v[i]);
                    weight += score_weight(&s[k].v[i]);
                }
            buf_printf(&note, " %.4g", weight > 0 ? sum / weight : NAN);
        }
        x->note = str_copy(m->a, buf_str(&note));
    }
    rc = 0;
out:
    for (size_t k = 0; k < open; k++)
        scores_release(&s[k]);
    free(s);
    buf_release(&note);
    return rc;
}

/* One scorer over all items of a choice task. primary: name of the task's published metric. */
static int add_choice(struct metrics *m, const char *task, const char *scorer,
                      const struct items *items, const struct responses *responses,
                      const struct json *facts, struct err *e)
{
    const struct scorer *s = scorer_find(str_z(scorer), e);
    if (!s)
        return -1;
    bool nats = strcmp(s->metric, "nats_answer") == 0;
    struct metric *x = add(m, s->metric, task, nats ? "nats" : "share");
    x->higher_better = !nats;
    x->primary = str_eqz(json_str(json_get(facts, "metric")), s->metric);
    identity_add(x, facts, "identity", m->a);
    struct str *all = arena_array(m->a, x->identity.n + 2, sizeof *all);
    if (x->identity.n)
        memcpy(all, x->identity.v, x->identity.n * sizeof *all);
    all[x->identity.n] = str_printf(m->a, "scorer=%s", s->name);
    all[x->identity.n + 1] = str_printf(m->a, "scorer_version=%d", s->version);
    x->identity = (struct strs){all, x->identity.n + 2};
    room(x, items->n, m->a);
    for (size_t i = 0; i < items->n; i++) {
        struct score v = {0};
        s->score(&items->v[i], responses_find(responses, items->v[i].id), &v, m->a);
        x->ids.v[i] = str_copy(m->a, items->v[i].id);
        x->cluster.v[i] = str_copy(m->a, items->v[i].cluster);
        x->num.v[i] = v.outcome == OUTCOME_SCORED ? v.value : NAN;
        x->den.v[i] = 1;
    }
    metric_finish(x, m->a);
    return 0;
}

int metrics_add_choice(struct metrics *m, const char *task, const char *responses,
                       const char *items, struct err *e)
{
    static const char *const several[] = {"choice", "choice_char", "choice_byte", "choice_token",
                                          NULL};
    static const char *const one[] = {"greedy", "gold_nats", NULL};
    struct items asked = {0};
    struct responses got = {0};
    struct json *man = NULL;
    int rc = -1;
    if (items_load(&asked, items, e) || responses_load(&got, responses, e) ||
        !(man = manifest_read(responses, e)))
        goto out;
    rc = 0;
    for (const char *const *s = asked.v[0].choices.n > 1 ? several : one; *s && !rc; s++)
        rc = add_choice(m, task, *s, &asked, &got, json_get(man, "facts"), e);
out:
    json_free(man);
    items_release(&asked);
    responses_release(&got);
    return rc;
}
