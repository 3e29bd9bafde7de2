/* tasks: the two losses of `assay eval`, see eval/tasks.h. Answers: eval/task_instruct.c. */
#include "eval/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "eval/documents.h"
#include "eval/local.h"
#include "eval/loss.h"
#include "eval/loss_keep.h"
#include "formats/checkpoint.h"
#include "formats/manifest.h"
#include "formats/record.h"

static int write_units(const char *out, const struct loss_units *u, struct err *e)
{
    struct records *w = records_open(out, &loss_unit_schema, RECORD_WRITE, e);
    if (!w)
        return -1;
    for (size_t i = 0; i < u->n; i++) {
        if (records_append(w, &u->v[i], e)) {
            records_abort(w);
            return -1;
        }
    }
    return records_close(w, e);
}

static void loss_facts(struct stage *st, const struct loss_units *u, const struct loss_totals *t)
{
    stage_fact(st, "units", json_of_int((int64_t)u->n));
    stage_fact(st, "tokens", json_of_int(t->tokens));
    stage_fact(st, "nats", json_of_num(t->nats));
    stage_fact(st, "nll_token", json_of_num(t->nats / (double)t->tokens));
    stage_fact(st, "documents", json_of_int(t->documents));
    if (t->bytes > 0) {
        stage_fact(st, "bytes", json_of_int(t->bytes));
        stage_fact(st, "bits_byte", json_of_num(t->nats / log(2) / (double)t->bytes));
    }
}

static void put_text(struct json *o, const char *key, struct str v)
{
    json_put(o, key, json_of_str(v));
}

/* Of several ranks one writes and speaks. */
static bool writes(const struct eval_job *j)
{
    return !j->meet || j->meet->rank == 0;
}

/* Where this loss keeps what is done: everything that decides a sequence's value names it. vocab: the
 * vocabulary's hash where it is no input of the stage; a vocabulary may lie in the checkpoint's folder. */
static int keep_open(struct loss_keep *k, const struct eval_job *j, const struct stage *st,
                     const struct local_model *l, const char *vocab, struct err *e)
{
    struct buf id = {0};
    buf_adds(&id, buf_str(&st->key_text));
    buf_printf(&id, "backend %s\nprecision %s\nvocab %s\n", l->backend.ops->name, l->precision,
               vocab);
    int rc = loss_keep_open(k, j->out, buf_str(&id), j->meet, e);
    buf_release(&id);
    return rc;
}

/* ---- windows -------------------------------------------------------------------------------- */

/* SHA-256 of the ids that the slice reads: equal for equal slices, whatever the files. */
static int slice_hash(const struct tokens *t, int64_t start, int64_t n, int64_t vocab,
                      char hex[SHA256_HEX], struct err *e)
{
    enum { CHUNK = 1 << 16 };
    int32_t *ids = mem_array(CHUNK, sizeof *ids);
    struct sha256 h;
    int rc = 0;
    sha256_begin(&h);
    for (int64_t at = start; at < start + n && !rc; at += CHUNK) {
        int64_t k = start + n - at < CHUNK ? start + n - at : CHUNK;
        rc = tokens_get(t, at, k, vocab, ids, e);
        sha256_add(&h, ids, (size_t)k * sizeof *ids);
    }
    sha256_end_hex(&h, hex);
    free(ids);
    return rc;
}

static int windows_facts(struct stage *st, const char *precision, const struct tokens *t,
                         const struct loss_slice *s, const struct loss_units *u,
                         const struct loss_totals *totals, int64_t vocab, struct arena *a,
                         struct err *e)
{
    char hex[SHA256_HEX];
    struct json *id = json_obj();
    if (slice_hash(t, s->start, totals->tokens + 1, vocab, hex, e)) {
        json_free(id);
        return -1;
    }
    put_text(id, "vocab", t->info.vocab_hash.n ? t->info.vocab_hash : STR_LIT("unknown"));
    put_text(id, "slice",
             str_printf(a, "%lld+%lld %s", (long long)s->start, (long long)totals->tokens, hex));
    json_put(id, "context", json_of_int(s->window));
    json_put(id, "window", json_of_z("disjoint, 1 token carried, tail counted"));
    if (s->stride && s->stride < s->window)
        put_text(id, "window",
                 str_printf(a,
                            "%lld apart, the last %lld counted, tail counted, clusters by tokens",
                            (long long)s->stride, (long long)s->stride));
    json_put(id, "precision", json_of_z(precision));
    stage_fact(st, "identity", id);
    loss_facts(st, u, totals);
    if (s->eot < 0) {
        stage_fact(st, "documents", json_of_null());
        stage_fact(st, "clusters",
                   json_of_z(totals->long_documents ? "blocks of 16 windows" : "one"));
        stage_fact(
            st, "note",
            json_of_z("neither the shards nor the model say which id ends a document, so the "
                      "slice is read as one"));
        return 0;
    }
    stage_fact(st, "clusters",
               json_of_z(totals->long_documents ? "documents, long ones in blocks of 16 windows"
                                                : "documents"));
    if (totals->long_documents)
        stage_fact(st, "note",
                   json_of_str(str_printf(
                       a,
                       "%lld of %lld documents are longer than %d windows of %lld tokens: "
                       "their clusters are blocks of %d such, so the interval "
                       "speaks of these texts only",
                       (long long)totals->long_documents, (long long)totals->documents,
                       LOSS_LONG_DOCUMENT, (long long)s->window, LOSS_BLOCK)));
    return 0;
}

static int check_vocab(const struct eval_job *j, const struct tokens *t,
                       const struct local_model *l, struct err *e)
{
    if (t->info.vocab_size <= l->config.vocab)
        return local_same_vocab(l, j->shards, t->info.vocab_hash, t->info.vocab_size, e);
    return err_set(e, "%s has ids below %lld, but the model %s knows only %lld", j->shards,
                   (long long)t->info.vocab_size, j->model, (long long)l->config.vocab);
}

static void windows_line(const struct loss_slice *s, const struct loss_totals *t, size_t windows,
                         struct buf *to)
{
    double nll = t->nats / (double)t->tokens;
    buf_printf(to, "windows: nll_token %.6f nats/token, ppl_token %.4f", nll, exp(nll));
    if (t->bytes > 0)
        buf_printf(to, ", %.6f bits/byte", t->nats / log(2) / (double)t->bytes);
    buf_printf(to, "; %lld tokens in %zu windows of %lld, ", (long long)t->tokens, windows,
               (long long)s->window);
    if (s->eot < 0)
        buf_addz(to, "documents unknown");
    else
        buf_printf(to, "%lld documents", (long long)t->documents);
}

static int windows_work(const struct eval_job *j, struct stage *st, FILE *to, struct arena *a,
                        struct err *e)
{
    struct local_model l = {0};
    struct tokens t = {0};
    struct loss_keep keep = {0};
    struct loss_units u = {.meet = j->meet, .keep = &keep};
    struct loss_totals totals;
    struct local_options lo = {.backend = j->backend,
                               .threads = j->threads,
                               .rows = loss_rows,
                               .meet = j->meet,
                               .precision = j->c.precision};
    struct buf line = {0};
    int rc = -1;
    if (tokens_open(&t, j->shards, "test", e) || local_open(&l, j->model, &lo, e) ||
        check_vocab(j, &t, &l, e))
        goto out;
    struct loss_slice s = {.start = j->c.start,
                           .tokens = j->c.tokens,
                           .window = j->c.window ? j->c.window : l.config.context,
                           .stride = j->c.stride,
                           .eot = t.info.eot >= 0 ? t.info.eot : l.eos};
    if (keep_open(&keep, j, st, &l, "", e) || loss_windows(l.m, &t, &s, &u, &totals, e))
        goto out;
    if (!writes(j)) {
        rc = 0;
        goto out;
    }
    windows_line(&s, &totals, u.n, &line);
    eval_line(st, &line);
    if (windows_facts(st, l.precision, &t, &s, &u, &totals, l.config.vocab, a, e) ||
        write_units(j->out, &u, e) || stage_output(st, j->out, e) || stage_end(st, e))
        goto out;
    fprintf(to, "%s\n", line.p);
    rc = 0;
out:
    rc = loss_keep_close(&keep, rc, e);
    buf_release(&line);
    loss_units_release(&u);
    tokens_close(&t);
    local_close(&l);
    return rc;
}

/* Begins a stage over a checkpoint. *checkpoint: the folder itself. */
static int begin(struct stage *st, const char *task, int version, const struct eval_job *j,
                 const char **checkpoint, struct arena *a, struct err *e)
{
    stage_begin(st, "eval", version, j->out, NULL, NULL);
    stage_setting(st, "task", task);
    if (j->c.precision)
        stage_setting(st, "precision", precision_names[j->c.precision]);
    *checkpoint = checkpoint_resolve(a, j->model, e);
    return *checkpoint ? stage_input_whole(st, *checkpoint, e) : -1;
}

/* 1: there is work, 0: up to date, -1 error. All ranks hear it from rank 0, and whether they were asked
 * the same. */
static int may_begin(const struct eval_job *j, struct stage *st, struct err *e)
{
    struct {
        char asked[SHA256_HEX];
        int fresh;
    } mine = {0}, first;
    if (!j->meet)
        return stage_fresh(st) ? 0 : record_spare(st->out, e) || stage_start(st, e) ? -1 : 1;
    sha256_hex(buf_str(&st->key_text), mine.asked);
    mine.fresh = writes(j) && stage_fresh(st);
    if (writes(j) && !mine.fresh && (record_spare(st->out, e) || stage_start(st, e)))
        return -1;
    first = mine;
    if (rendezvous_share(j->meet, 0, &first, sizeof first, e))
        return -1;
    if (strcmp(first.asked, mine.asked) != 0)
        return err_set(e, "this rank was asked for another loss, checkpoint or text than rank 0");
    return !first.fresh;
}

int eval_windows(const struct eval_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct stage st;
    const char *checkpoint;
    int rc = -1;
    if (begin(&st, "windows", 1, j, &checkpoint, a, e) || stage_input(&st, j->shards, e))
        goto out;
    stage_setting(&st, "start", arena_printf(a, "%lld", (long long)j->c.start));
    stage_setting(&st, "tokens", arena_printf(a, "%lld", (long long)j->c.tokens));
    stage_setting(&st, "window", arena_printf(a, "%lld", (long long)j->c.window));
    if (j->c.stride) { /* clusters were counted in windows before, which only a stride shows */
        stage_setting(&st, "stride", arena_printf(a, "%lld", (long long)j->c.stride));
        stage_setting(&st, "clusters", "by tokens");
    }
    rc = may_begin(j, &st, e);
    if (rc > 0)
        rc = windows_work(j, &st, to, a, e);
    else if (rc == 0 && writes(j))
        eval_line_again(j->out, to);
out:
    stage_release(&st);
    return rc;
}

/* ---- documents ------------------------------------------------------------------------------ */

/* What saying "it ends here" costs, a document. */
static double bits_end(const struct loss_totals *t)
{
    return t->nats_end / log(2) / (double)t->documents;
}

static void documents_facts(struct stage *st, const char *precision,
                            const struct documents_result *r, const struct local_model *l,
                            const struct vocab *v, struct arena *a)
{
    struct json *id = json_obj(), *token = json_obj();
    json_put(id, "documents", json_of_z(r->hash));
    put_text(id, "rule",
             r->rolled ? str_printf(a,
                                    "each alone after EOT, end apart; longer than %lld ids: "
                                    "windows of %lld, half carried",
                                    (long long)l->config.context, (long long)l->config.context)
                       : STR_LIT("each alone after EOT, end apart"));
    json_put(id, "precision", json_of_z(precision));
    stage_fact(st, "identity", id);
    json_put(token, "vocab", json_of_z(v->hash));
    stage_fact(st, "identity_token", token);
    loss_facts(st, &r->units, &r->totals);
    stage_fact(st, "nats_end", json_of_num(r->totals.nats_end));
    stage_fact(st, "bits_end", json_of_num(bits_end(&r->totals)));
    stage_fact(st, "clusters", json_of_z("documents"));
    stage_fact(st, "replaced", json_of_int(r->replaced));
    stage_fact(st, "rolled", json_of_int(r->rolled));
    stage_fact(st, "words", json_of_int(r->words));
    stage_fact(st, "words_are", json_of_z("runs of what is no white space in the texts as given"));
    if (r->words > 0)
        stage_fact(st, "ppl_word", json_of_num(exp(r->totals.nats / (double)r->words)));
    if (!r->gap.n)
        return;
    struct json *o = json_obj();
    json_put(o, "documents", json_of_int(r->gap.n));
    json_put(o, "gap_bits", json_of_num(r->gap.mean));
    json_put(o, "se_bits", json_of_num(r->gap.se));
    stage_fact(st, "oracle", o);
}

static void documents_line(const struct documents_result *r, struct buf *to)
{
    const struct loss_totals *t = &r->totals;
    buf_addz(to, "documents: ");
    if (t->bytes > 0)
        buf_printf(to, "bits_byte %.6f, ", t->nats / log(2) / (double)t->bytes);
    buf_printf(to, "nll_token %.6f", t->nats / (double)t->tokens);
    if (r->words > 0)
        buf_printf(to, ", ppl_word %.4f", exp(t->nats / (double)r->words));
    buf_printf(to, ", bits_end %.4f", bits_end(t));
    buf_printf(to, "; %lld documents, %lld tokens, %lld bytes, %lld words", (long long)t->documents,
               (long long)t->tokens, (long long)t->bytes, (long long)r->words);
    if (isfinite(r->gap.mean))
        buf_printf(to, "; %+.4f +- %.4f bits a document above the oracle", r->gap.mean, r->gap.se);
}

static int documents_work(const struct eval_job *j, struct stage *st, FILE *to, struct arena *a,
                          struct err *e)
{
    struct local_model l = {0};
    struct vocab v = {0};
    struct loss_keep keep = {0};
    struct documents_result r = {.units = {.meet = j->meet, .keep = &keep}};
    struct local_options lo = {.backend = j->backend,
                               .threads = j->threads,
                               .rows = loss_rows,
                               .meet = j->meet,
                               .precision = j->c.precision};
    struct str path = str_z(j->items);
    struct buf line = {0};
    int rc = -1;
    if (local_open(&l, j->model, &lo, e) || local_vocab(&l, j->vocab, &v, e) ||
        keep_open(&keep, j, st, &l, v.hash, e) ||
        documents_run(&l, &v, (struct strs){&path, 1}, &r, e))
        goto out;
    if (!writes(j)) {
        rc = 0;
        goto out;
    }
    if (r.replaced)
        log_warn("%lld documents had bad UTF-8, read as U+FFFD", (long long)r.replaced);
    documents_facts(st, l.precision, &r, &l, &v, a);
    documents_line(&r, &line);
    eval_line(st, &line);
    if (write_units(j->out, &r.units, e) || stage_output(st, j->out, e) || stage_end(st, e))
        goto out;
    fprintf(to, "%s\n", line.p);
    rc = 0;
out:
    rc = loss_keep_close(&keep, rc, e);
    buf_release(&line);
    documents_release(&r);
    vocab_release(&v);
    local_close(&l);
    return rc;
}

int eval_documents(const struct eval_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct stage st;
    const char *checkpoint;
    int rc = -1;
    if (begin(&st, "documents", 2, j, &checkpoint, a, e) || stage_input_whole(&st, j->items, e) ||
        (j->vocab && stage_input_whole(&st, j->vocab, e)))
        goto out;
    rc = may_begin(j, &st, e);
    if (rc > 0)
        rc = documents_work(j, &st, to, a, e);
    else if (rc == 0 && writes(j))
        eval_line_again(j->out, to);
out:
    stage_release(&st);
    return rc;
}
