/* instruct: see eval/instruct.h. */
#include "eval/instruct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "eval/detail.h"
#include "eval/journal.h"
#include "formats/index.h"
#include "formats/record.h"

#define SYNC_EVERY 0.1 /* seconds between two fdatasyncs of the journal */

struct asker {
    const struct items *items;
    const struct instruct_options *o;
    struct response *got; /* by item; item.p NULL: not answered */
    struct buf *prompt;   /* by item, while it is under way */
    size_t next;
    struct records *journal;
    double synced;
    struct progress bar;
    int64_t done;
    struct arena arena;
};

uint64_t instruct_seed(int64_t seed, struct str id)
{
    struct buf b = {0};
    buf_printf(&b, "%lld", (long long)seed);
    buf_addc(&b, '\0');
    buf_adds(&b, id);
    uint64_t v = sha256_u64(buf_str(&b));
    buf_release(&b);
    return v;
}

/* ---- the journal ---------------------------------------------------------------------------- */

/* What an answer depends on. Doubles go in as text with all digits. */
static void journal_key(const struct model *m, const struct asker *k, char hex[SHA256_HEX])
{
    const struct instruct_options *o = k->o;
    struct sha256 h;
    struct buf b = {0};
    buf_printf(&b, "%lld %lld %lld %.17g %.17g", (long long)o->max_new, (long long)o->top_k,
               (long long)o->seed, o->temperature, o->top_p);
    if (o->min_p > 0 || (o->repeat > 0 && o->repeat != 1))
        buf_printf(&b, " %.17g %.17g", o->min_p, o->repeat);
    sha256_begin(&h);
    sha256_part(&h, str_z(m->ops->identity(m)));
    sha256_part(&h, str_z(o->template_->hash));
    sha256_part(&h, buf_str(&b));
    for (size_t i = 0; i < o->stop.n; i++)
        sha256_part(&h, o->stop.v[i]);
    for (size_t i = 0; i < k->items->n; i++) {
        const struct item *it = &k->items->v[i];
        sha256_part(&h, it->id);
        sha256_part(&h, it->instruction);
        sha256_part(&h, it->input);
    }
    sha256_end_hex(&h, hex);
    buf_release(&b);
}

/* Takes what a run before this one has answered; failures are asked again. */
static int journal_read(struct asker *k, const char *path, struct instruct_counts *c, struct err *e)
{
    struct response r;
    struct index index = {0};
    int rc;
    struct records *in = records_open(path, &response_schema, RECORD_READ, e);
    if (!in)
        return -1;
    for (size_t i = 0; i < k->items->n; i++)
        index_add(&index, k->items->v[i].id, i);
    while ((rc = records_next(in, &r, &k->arena, e)) == 1) {
        size_t i = index_find(&index, r.item);
        if (i == INDEX_NONE || r.finish == FINISH_ERROR)
            continue;
        c->kept += !k->got[i].item.p;
        k->got[i] = r;
    }
    index_release(&index);
    if (rc < 0) {
        records_abort(in);
        return -1;
    }
    return records_close(in, e);
}

/* ---- the two calls of a model --------------------------------------------------------------- */

static int next_item(void *ctx, struct request *q, struct err *e)
{
    struct asker *k = ctx;
    (void)e;
    while (k->next < k->items->n && k->got[k->next].item.p)
        k->next++;
    if (k->next == k->items->n)
        return 0;
    size_t i = k->next++;
    const struct item *it = &k->items->v[i];
    template_prompt(k->o->template_, it->instruction, it->input, &k->prompt[i]);
    *q = (struct request){.id = it->id,
                          .prompt = buf_str(&k->prompt[i]),
                          .stop = k->o->stop,
                          .max_tokens = k->o->max_new,
                          .temperature = k->o->temperature,
                          .top_p = k->o->top_p,
                          .top_k = k->o->top_k,
                          .min_p = k->o->min_p,
                          .repeat = k->o->repeat,
                          .seed = instruct_seed(k->o->seed, it->id),
                          .tag = &k->got[i]};
    return 1;
}

static int answered(void *ctx, const struct request *q, const struct response *r, struct err *e)
{
    struct asker *k = ctx;
    struct response *to = q->tag;
    *to = *r;
    to->item = q->id;
    to->model = str_copy(&k->arena, r->model);
    to->text = str_copy(&k->arena, str_trim(r->text));
    to->detail = str_copy(&k->arena, r->detail);
    to->choice_logprob = (struct f64s){0};
    to->rest = (struct str){0};
    buf_release(&k->prompt[to - k->got]);
    progress_set(&k->bar, (double)++k->done, NULL);
    if (records_append(k->journal, to, e))
        return -1;
    double now = clock_now();
    if (now - k->synced < SYNC_EVERY)
        return 0;
    k->synced = now;
    return records_sync(k->journal, e);
}

/* ---- ending --------------------------------------------------------------------------------- */

static void count(const struct asker *k, struct instruct_counts *c)
{
    c->items = (int64_t)k->items->n;
    for (size_t i = 0; i < k->items->n; i++) {
        const struct response *r = &k->got[i];
        c->finish[r->item.p ? r->finish : FINISH_ERROR]++;
        if (r->item.p && r->ms > c->slowest_ms)
            c->slowest_ms = r->ms;
        c->empty += r->item.p && r->finish != FINISH_ERROR && !r->text.n;
        c->lost += r->item.p && detail_lost(r->detail);
        c->full += r->item.p && r->finish == FINISH_LENGTH && detail_full(r->detail);
        if (r->item.p && r->tokens_out != FIELD_NONE_I64)
            c->tokens_out += r->tokens_out;
    }
}

static int check(const struct model *m, const struct asker *k, struct instruct_counts *c,
                 struct err *e)
{
    for (size_t i = 0; i < k->items->n; i++) {
        const struct response *r = &k->got[i];
        if (!r->item.p || r->finish == FINISH_ERROR)
            failed_add(&c->failed, k->items->v[i].id, r->detail,
                       r->item.p && (r->final || !m->ops->remote));
    }
    long long failed = c->failed.n, items = c->items;
    if (!failed)
        return 0;
    const char *words = failed_words(&c->failed);
    if (c->failed.open)
        return err_code(
            e, EXIT_INCOMPLETE,
            "%lld of %lld items are not answered; the others are kept, run again to ask "
            "for these: %s",
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
    for (size_t i = 0; i < k->items->n; i++) {
        struct response r = k->got[i];
        r.ms = NAN; /* the same answers are the same bytes; times are in the manifest */
        if (records_append(w, &r, e)) {
            records_abort(w);
            return -1;
        }
    }
    return records_close(w, e);
}

int instruct_run(struct model *m, const struct items *items, const struct instruct_options *o,
                 const char *out, struct instruct_counts *c, struct err *e)
{
    struct asker k = {.items = items, .o = o};
    char hex[SHA256_HEX];
    int rc = -1, closed;
    *c = (struct instruct_counts){0};
    k.got = mem_array(items->n, sizeof *k.got);
    k.prompt = mem_array(items->n, sizeof *k.prompt);
    journal_key(m, &k, hex);
    const char *path = journal_path(&k.arena, out, hex);
    k.journal = records_open(path, &response_schema, RECORD_APPEND, e);
    if (!k.journal || journal_read(&k, path, c, e))
        goto out;
    if (c->kept)
        log_info("%lld of %zu items are answered already", (long long)c->kept, items->n);
    k.done = c->kept;
    progress_begin(&k.bar, "answers", "items", (double)items->n, (double)c->kept);
    rc = m->ops->answer(m, next_item, answered, &k, e);
    progress_end(&k.bar);
    count(&k, c);
    if (rc == 0)
        rc = check(m, &k, c, e);
    if (rc == 0)
        rc = write_out(&k, out, e);
out:
    closed = k.journal ? records_close(k.journal, rc ? &(struct err){0} : e) : 0;
    if (rc == 0 && closed == 0)
        unlink(path);
    for (size_t i = 0; i < items->n; i++)
        buf_release(&k.prompt[i]);
    free(k.prompt);
    free(k.got);
    arena_release(&k.arena);
    return rc ? rc : closed;
}
