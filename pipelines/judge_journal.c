/* judge_journal: see judge_journal.h. */
#include "pipelines/judge_journal.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "formats/verdict.h"

#define SYNC_EVERY 0.1
enum { TEXT_MAX = 4096 };

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
    if (have == n) {
        g->kept++;
        q->state = ASK_DECIDED;
        q->outcome = OUTCOME_SCORED;
        q->detail = judge_store_text(g->store, r->detail);
        q->served = judge_store_name(g->store, r->judge);
    }
    judge_put(g->store, q);
}

/* The question with this key; false: none. The index of keys is made when the first is looked up. */
static bool find_key(const struct judge_asker *g, struct spool_index *keys, struct str key,
                     struct judge_ask *q)
{
    uint64_t probe = 0, no;
    for (size_t i = keys->n; i < g->store->asks; i++) {
        judge_get(g->store, i, q);
        spool_index_add(keys, hash64(q->key, strlen(q->key), 0), i);
    }
    while (spool_index_next(keys, hash64(key.p, key.n, 0), &probe, &no)) {
        judge_get(g->store, no, q);
        if (str_eqz(key, q->key))
            return true;
    }
    return false;
}

int judge_journal_read(struct judge_asker *g, const char *path, struct err *e)
{
    struct spool_index keys = {0};
    struct arena each = {0};
    struct verdict_record r;
    struct judge_ask q;
    int rc;
    struct records *in = records_open(path, &verdict_schema, RECORD_READ, e);
    if (!in)
        return -1;
    while ((rc = records_next(in, &r, &each, e)) == 1) {
        if (find_key(g, &keys, r.key, &q))
            take_over(g, &q, &r);
        arena_release(&each);
    }
    if (rc == 0 && (spool_check(&keys.slots, e) || judge_store_check(g->store, e)))
        rc = -1;
    spool_index_release(&keys);
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

int judge_journal_add(struct judge_asker *g, const struct judge_live *l, const double *value,
                      int outcome, struct str detail, const struct response *r, struct err *e)
{
    const struct judge_ask *q = &l->q;
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
        .item = l->view.it.id,
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
    g->model.idle_due = g->clock->now(g->clock) - g->synced >= SYNC_EVERY;
    return 0;
}

int judge_journal_sync(void *ctx, struct err *e)
{
    struct judge_asker *g = ctx;
    g->synced = g->clock->now(g->clock);
    return records_sync(g->journal, e);
}
