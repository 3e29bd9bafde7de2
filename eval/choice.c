/* choice: see eval/choice.h. An item is one request for each of its different contexts. */
#include "eval/choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "eval/detail.h"
#include "eval/journal.h"
#include "formats/choice.h"
#include "formats/index.h"
#include "formats/record.h"

#define SYNC_EVERY 0.1    /* seconds between two fdatasyncs of the journal */
enum { FLAT_FEWEST = 4 }; /* continuations that may be alike by chance */

/* ---- asking --------------------------------------------------------------------------------- */

/* Choices [from, from + n) of item i, which share a context. */
struct part_asked {
    size_t item, from;
    struct strs choices;
};
struct asker {
    const struct items *x;
    struct response *got; /* by item */
    size_t *answered;     /* by item: choices whose values are there */
    struct records *journal;
    double synced;
    bool apart;
    size_t item, choice; /* next to ask */
    int64_t done;
    struct progress bar;
    struct arena arena;
};

static int next(void *ctx, struct request *q, struct err *e)
{
    struct asker *k = ctx;
    (void)e;
    while (k->item < k->x->n && k->answered[k->item] == k->x->v[k->item].choices.n)
        k->item++; /* by a run before this one; a new one counts only when all was asked */
    if (k->item == k->x->n)
        return 0;
    const struct item *it = &k->x->v[k->item];
    struct str context = choice_context(it, k->choice);
    struct part_asked *p = mem_zero(sizeof *p);
    struct buf b = {0};
    *p = (struct part_asked){.item = k->item, .from = k->choice};
    p->choices.v = mem_array(it->choices.n, sizeof *p->choices.v);
    while (k->choice < it->choices.n && str_eq(choice_context(it, k->choice), context)) {
        buf_cut(&b, 0);
        buf_adds(&b, it->delimiter);
        buf_adds(&b, it->choices.v[k->choice++]);
        p->choices.v[p->choices.n].n = b.n;
        p->choices.v[p->choices.n++].p = buf_take(&b);
    }
    if (k->choice == it->choices.n) {
        k->item++;
        k->choice = 0;
    }
    *q = (struct request){.kind = REQUEST_LOGPROB,
                          .id = it->id,
                          .prompt = context,
                          .choices = p->choices,
                          .apart = k->apart,
                          .tag = p};
    return 1;
}

/* Room for the values of all choices, NaN until they come. */
static void begin(struct asker *k, size_t i)
{
    size_t n = k->x->v[i].choices.n;
    struct response *r = &k->got[i];
    *r = (struct response){.item = k->x->v[i].id,
                           .tokens_in = FIELD_NONE_I64,
                           .tokens_out = FIELD_NONE_I64,
                           .ms = NAN};
    r->choice_logprob = (struct f64s){arena_array(&k->arena, n, sizeof(double)), n};
    r->choice_tokens = (struct i64s){arena_array(&k->arena, n, sizeof(int64_t)), n};
    r->choice_greedy = (struct i64s){arena_array(&k->arena, n, sizeof(int64_t)), n};
    for (size_t c = 0; c < n; c++)
        r->choice_logprob.v[c] = NAN;
}

static void part_free(struct part_asked *p)
{
    for (size_t c = 0; c < p->choices.n; c++)
        free((void *)(uintptr_t)p->choices.v[c].p);
    free(p->choices.v);
    free(p);
}

/* ---- the journal ---------------------------------------------------------------------------- */

static void journal_key(const struct model *m, const struct asker *k, char hex[SHA256_HEX])
{
    struct sha256 h;
    char items[SHA256_HEX];
    choice_hash(k->x, items);
    sha256_begin(&h);
    sha256_part(&h, str_z(m->ops->identity(m)));
    sha256_part(&h, str_z(items));
    sha256_part(&h, str_z(k->apart ? "apart" : "joined"));
    sha256_end_hex(&h, hex);
}

static int journal_add(struct asker *k, const struct response *r, struct err *e)
{
    double now = clock_now();
    if (records_append(k->journal, r, e))
        return -1;
    if (now - k->synced < SYNC_EVERY)
        return 0;
    k->synced = now;
    return records_sync(k->journal, e);
}

/* Takes whole answers of a run before this one. */
static int journal_read(struct asker *k, const char *path, struct choice_counts *c, struct err *e)
{
    struct response r;
    struct index index = {0};
    int rc;
    struct records *in = records_open(path, &response_schema, RECORD_READ, e);
    if (!in)
        return -1;
    for (size_t i = 0; i < k->x->n; i++)
        index_add(&index, k->x->v[i].id, i);
    while ((rc = records_next(in, &r, &k->arena, e)) == 1) {
        size_t i = index_find(&index, r.item), n = i == INDEX_NONE ? 0 : k->x->v[i].choices.n;
        if (i == INDEX_NONE || r.finish == FINISH_ERROR || r.choice_logprob.n != n ||
            r.choice_tokens.n != n || r.choice_greedy.n != n)
            continue;
        c->kept += k->answered[i] != n;
        k->done += k->answered[i] != n ? (int64_t)n : 0;
        k->answered[i] = n;
        k->got[i] = r;
    }
    index_release(&index);
    if (rc < 0) {
        records_abort(in);
        return -1;
    }
    return records_close(in, e);
}

static int take(void *ctx, const struct request *q, const struct response *r, struct err *e)
{
    struct asker *k = ctx;
    struct part_asked *p = q->tag;
    struct response *to = &k->got[p->item];
    size_t n = p->choices.n;
    bool whole = r->choice_logprob.n == n && r->choice_tokens.n == n && r->choice_greedy.n == n;
    int rc = 0;
    to->model = str_copy(&k->arena, r->model);
    if (r->finish == FINISH_ERROR || !whole) {
        to->finish = FINISH_ERROR;
        to->final = r->final;
        to->detail = r->finish == FINISH_ERROR
                         ? str_copy(&k->arena, r->detail)
                         : STR_LIT("the answer has not one log-probability a choice");
    } else {
        if (r->detail.n)
            to->detail = str_copy(&k->arena, r->detail);
        for (size_t c = 0; c < n; c++) {
            to->choice_logprob.v[p->from + c] = r->choice_logprob.v[c];
            to->choice_tokens.v[p->from + c] = r->choice_tokens.v[c];
            to->choice_greedy.v[p->from + c] = r->choice_greedy.v[c];
        }
        k->answered[p->item] += n;
        if (k->answered[p->item] == to->choice_logprob.n)
            rc = journal_add(k, to, e);
    }
    k->done += (int64_t)n;
    progress_set(&k->bar, (double)k->done, NULL);
    part_free(p);
    return rc;
}

/* ---- ending --------------------------------------------------------------------------------- */

/* Index of the right choice; none of them: not known. */
static size_t gold_of(const struct item *it)
{
    return it->choices.n == 1 && it->gold < 0 ? 0 : (size_t)it->gold;
}

/* What is taken where nothing is known to be right: counted, and said in the response's detail. */
static void note_taken(const struct item *it, struct response *r, struct choice_counts *c,
                       struct arena *a)
{
    struct buf b = {0};
    c->unknown++;
    for (int k = 0; k < CHOICE_NORMS; k++) {
        struct choice_pick p;
        choice_pick(it, r, (enum choice_norm)k, &p);
        if (p.first < 0)
            continue;
        c->taken[k][p.first < CHOICE_TAKEN ? p.first : CHOICE_TAKEN - 1]++;
        buf_printf(&b, "%s%lld by %s", b.n ? ", " : "takes choice ", (long long)p.first,
                   choice_metrics[k]);
    }
    if (b.n && r->detail.n)
        buf_printf(&b, "; %.*s", STR_ARG(r->detail));
    if (b.n)
        r->detail = str_copy(a, buf_str(&b));
    buf_release(&b);
}

/* The record says why no choice is taken of it. */
static void note_invalid(const struct item *it, struct response *r, struct choice_counts *c,
                         struct arena *a)
{
    size_t i = 0;
    while (isfinite(r->choice_logprob.v[i]))
        i++;
    struct str why = str_printf(a, "the log-probability of choice %zu is %s", i,
                                isnan(r->choice_logprob.v[i]) ? "NaN"
                                : r->choice_logprob.v[i] > 0  ? "infinite"
                                                              : "minus infinity");
    r->detail = r->detail.n ? str_printf(a, "invalid: %.*s; %.*s", STR_ARG(why), STR_ARG(r->detail))
                            : str_printf(a, "invalid: %.*s", STR_ARG(why));
    failed_add(&c->bad, it->id, why, true);
    c->invalid++;
}

static void grade(const struct item *it, struct response *r, struct choice_counts *c,
                  struct arena *a)
{
    bool valid = true;
    size_t gold = gold_of(it);
    for (size_t i = 0; i < r->choice_logprob.n; i++) {
        valid = valid && isfinite(r->choice_logprob.v[i]);
        c->tokens += r->choice_tokens.v[i];
    }
    if (!valid)
        note_invalid(it, r, c, a);
    if (gold >= it->choices.n) {
        note_taken(it, r, c, a);
        return;
    }
    c->graded++;
    c->gradable++;
    for (int k = 0; k < CHOICE_NORMS; k++) {
        struct choice_pick p;
        choice_pick(it, r, (enum choice_norm)k, &p);
        c->tied += k == CHOICE_SUM && p.tied > 1;
        if (p.why)
            continue;
        c->valid[k]++;
        c->sum[k] += p.worth;
    }
    if (valid) {
        c->heard++;
        c->greedy += (double)r->choice_greedy.v[gold];
        c->nats -= r->choice_logprob.v[gold];
    }
}

/* Values that are the same for every token are no model's, or one's that knows nothing: scored as they
 * are, the shortest choice would win. */
static void find_flat(const struct asker *k, struct choice_counts *c)
{
    double first = NAN;
    int64_t n = 0;
    for (size_t i = 0; i < k->x->n; i++) {
        const struct response *r = &k->got[i];
        for (size_t v = 0; v < r->choice_logprob.n && r->finish != FINISH_ERROR; v++, n++) {
            double each = r->choice_logprob.v[v] / (double)r->choice_tokens.v[v];
            first = n ? first : each;
            if (!(fabs(each - first) <= 1e-9 * fabs(first)))
                return;
        }
    }
    if (n < FLAT_FEWEST || !(first < 0))
        return;
    c->flat = first;
    log_warn("every token of all %lld continuations has the same log-probability, %g: these are no "
             "real ones, or the model knows nothing",
             (long long)n, first);
}

static int check(const struct model *m, struct asker *k, struct choice_counts *c, struct err *e)
{
    for (size_t i = 0; i < k->x->n; i++) {
        const struct item *it = &k->x->v[i];
        struct response *r = &k->got[i];
        c->items++;
        c->continuations += (int64_t)it->choices.n;
        c->lost += detail_lost(r->detail);
        if (r->finish != FINISH_ERROR) {
            grade(it, r, c, &k->arena);
            continue;
        }
        failed_add(&c->failed, it->id, r->detail, r->final || !m->ops->remote);
        c->gradable += gold_of(it) < it->choices.n;
    }
    find_flat(k, c);
    long long failed = c->failed.n, items = c->items;
    if (failed < items && failed + c->invalid == items)
        return err_set(
            e,
            "no item has a log-probability of each choice that is a number: %lld of %lld "
            "are invalid: %s; look at the model's weights",
            (long long)c->invalid, items, failed_words(&c->bad));
    if (!failed)
        return 0;
    const char *words = failed_words(&c->failed);
    if (c->failed.open)
        return err_code(e, EXIT_INCOMPLETE,
                        "%lld of %lld items are not answered; run again to ask for these: %s",
                        failed, items, words);
    if (failed == items)
        return err_set(e, "no item was answered: %s", words);
    log_warn("%lld of %lld items have no answer and are recorded so: %s", failed, items, words);
    return 0;
}

static int write_out(const struct asker *k, const char *out, struct err *e)
{
    struct records *w = records_open(out, &response_schema, RECORD_WRITE, e);
    if (!w)
        return -1;
    for (size_t i = 0; i < k->x->n; i++)
        if (records_append(w, &k->got[i], e)) {
            records_abort(w);
            return -1;
        }
    return records_close(w, e);
}

int choice_run(struct model *m, const struct items *x, bool apart, const char *out,
               struct choice_counts *c, struct err *e)
{
    struct asker k = {.x = x, .apart = apart};
    int64_t all = 0;
    char hex[SHA256_HEX];
    int rc = -1, closed;
    *c = (struct choice_counts){0};
    k.got = mem_array(x->n, sizeof *k.got);
    k.answered = mem_array(x->n, sizeof *k.answered);
    for (size_t i = 0; i < x->n; i++) {
        begin(&k, i);
        all += (int64_t)x->v[i].choices.n;
    }
    journal_key(m, &k, hex);
    const char *path = journal_path(&k.arena, out, hex);
    k.journal = records_open(path, &response_schema, RECORD_APPEND, e);
    if (!k.journal || journal_read(&k, path, c, e))
        goto out;
    if (c->kept)
        log_info("%lld of %zu items are answered already", (long long)c->kept, x->n);
    progress_begin(&k.bar, "choices", "continuations", (double)all, (double)k.done);
    rc = m->ops->answer(m, next, take, &k, e);
    progress_end(&k.bar);
    if (rc == 0)
        rc = check(m, &k, c, e);
    if (rc == 0)
        rc = write_out(&k, out, e);
out:
    closed = k.journal ? records_close(k.journal, rc ? &(struct err){0} : e) : 0;
    if (rc == 0 && closed == 0)
        unlink(path);
    free(k.got);
    free(k.answered);
    arena_release(&k.arena);
    return rc ? rc : closed;
}
