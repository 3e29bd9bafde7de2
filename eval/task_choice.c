/* task_choice: `assay eval --task choice`: a task file, rows, log-probabilities. Eval/choice.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "eval/choice.h"
#include "eval/tasks.h"
#include "formats/checkpoint.h"
#include "formats/choice.h"
#include "formats/manifest.h"
#include "formats/record.h"

static void share(struct stage *st, const char *name, double sum, int64_t n)
{
    if (n)
        stage_fact(st, name, json_of_num(sum / (double)n));
}

/* What the share could be at least and at most, were the missing ones there. */
static void bounds(struct stage *st, const char *name, double sum, int64_t missing, int64_t n)
{
    struct json *o;
    if (!missing)
        return;
    o = json_obj();
    json_put(o, "lowest", json_of_num(sum / (double)n));
    json_put(o, "highest", json_of_num((sum + (double)missing) / (double)n));
    char key[40];
    snprintf(key, sizeof key, "%s_bounds", name);
    stage_fact(st, key, o);
}

/* Where every item has but one choice (LAMBADA), nothing is chosen and acc is no metric of it. */
static bool several(const struct choice_counts *c)
{
    return c->continuations > c->items;
}

/* {"acc": [times choice 0 was taken, choice 1, ...], ...} of items whose right choice is not known. */
static struct json *taken(const struct choice_counts *c)
{
    struct json *all = json_obj();
    for (int k = 0; k < CHOICE_NORMS; k++) {
        struct json *a = json_arr();
        int n = CHOICE_TAKEN;
        while (n && !c->taken[k][n - 1])
            n--;
        for (int i = 0; i < n; i++)
            json_push(a, json_of_int(c->taken[k][i]));
        json_put(all, choice_metrics[k], a);
    }
    return all;
}

static const char *const encodings[] = {"joined", "apart"};

static void facts(struct stage *st, const struct eval_job *j, const struct model *m,
                  const struct items *x, const struct task *t, struct choice_counts *c)
{
    char hex[SHA256_HEX];
    struct json *id = json_obj();
    choice_hash(x, hex);
    json_put(id, "task", json_of_z(t->name));
    json_put(id, "items", json_of_z(model_told_items(m, hex))); /* contexts and shots are in it */
    if (m->canned) {
        model_told(m, "encoding", id);
        model_told(m, "shots", id);
        model_told(m, "precision", id);
        if (json_get(m->told, "lost_heads"))
            model_told(m, "lost_heads", id);
    } else {
        json_put(id, "encoding", json_of_z(encodings[t->encoding == ENCODING_APART]));
        json_put(id, "shots", json_of_int(j->c.shots));
        if (m->precision)
            json_put(id, "precision", json_of_z(m->precision));
        eval_lost_heads(st, id, c->lost, c->items, m->context);
    }
    stage_fact(st, "identity", id);
    stage_fact(st, "model", json_of_z(m->ops->identity(m)));
    stage_fact(st, "metric", json_of_str(t->metric));
    stage_fact(st, "items", json_of_int(c->items));
    stage_fact(st, "continuations", json_of_int(c->continuations));
    stage_fact(st, "tokens", json_of_int(c->tokens));
    stage_fact(st, "failed", json_of_int(c->failed.n));
    failed_fact(&c->failed, "failed_ids", st);
    stage_fact(st, "invalid", json_of_int(c->invalid));
    failed_fact(&c->bad, "invalid_ids", st);
    stage_fact(st, "tied", json_of_int(c->tied));
    for (int k = 0; k < CHOICE_NORMS; k++)
        share(st, choice_metrics[k], c->sum[k], c->valid[k]);
    for (int k = 0; k < CHOICE_NORMS && several(c); k++)
        bounds(st, choice_metrics[k], c->sum[k], c->gradable - c->valid[k], c->gradable);
    bounds(st, "acc_greedy", c->greedy, c->gradable - c->heard, c->gradable);
    if (c->unknown)
        stage_fact(st, "taken", taken(c));
    share(st, "acc_greedy", c->greedy, c->heard);
    share(st, "nats_answer", c->nats, c->heard);
    if (c->flat < 0)
        stage_fact(st, "flat", json_of_num(c->flat));
}

/* What was taken by the task's own norm, and that nothing is right or wrong. */
static void say_taken(const struct task *t, const struct choice_counts *c, struct buf *to)
{
    int norm = CHOICE_SUM;
    for (int k = 0; k < CHOICE_NORMS; k++)
        norm = str_eqz(t->metric, choice_metrics[k]) ? k : norm;
    buf_printf(to, " taken by %s:", choice_metrics[norm]);
    for (int i = 0, n = 0; i < CHOICE_TAKEN; i++)
        if (c->taken[norm][i])
            buf_printf(to, "%s choice %d%s %lld times", n++ ? "," : "", i,
                       i + 1 == CHOICE_TAKEN ? " or later" : "", (long long)c->taken[norm][i]);
    buf_printf(to, "; %lld %s no right choice, so %s not scored;", (long long)c->unknown,
               c->unknown == 1 ? "item has" : "items have", c->unknown == 1 ? "it is" : "they are");
}

static void say(const struct task *t, const struct choice_counts *c, struct buf *to)
{
    int64_t n = c->heard;
    buf_printf(to, "%s:", t->name);
    for (int k = 0; k < CHOICE_NORMS; k++)
        if (c->valid[k])
            buf_printf(to, " %s %.4f%s", choice_metrics[k], c->sum[k] / (double)c->valid[k],
                       k + 1 < CHOICE_NORMS ? "," : ";");
    if (n > 0 && !several(c))
        buf_printf(to, " acc_greedy %.4f, ppl_answer %.4f;", c->greedy / (double)n,
                   exp(c->nats / (double)n));
    if (c->unknown)
        say_taken(t, c, to);
    buf_printf(to, " %lld items", (long long)c->items);
    if (c->tied)
        buf_printf(to, ", %lld tied", (long long)c->tied);
    if (c->invalid + c->failed.n)
        buf_printf(to, ", %lld invalid, %lld failed", (long long)c->invalid,
                   (long long)c->failed.n);
    int64_t valid = several(c) ? c->valid[CHOICE_SUM] : c->heard;
    double sum = several(c) ? c->sum[CHOICE_SUM] : c->greedy;
    if (c->gradable > valid)
        buf_printf(to, ": %s of all between %.4f and %.4f", several(c) ? "acc" : "acc_greedy",
                   sum / (double)c->gradable,
                   (sum + (double)(c->gradable - valid)) / (double)c->gradable);
}

static int shoot(const struct eval_job *j, const struct task *t, struct items *x, struct err *e)
{
    struct items pool = {0};
    int rc;
    if (!j->c.shots)
        return 0;
    if (!j->shots_from)
        return choice_shots(x, x, t, j->c.shots, j->c.seed, e);
    rc = task_items(t, j->shots_from, &pool, e);
    rc = rc ? rc : choice_shots(x, &pool, t, j->c.shots, j->c.seed, e);
    items_release(&pool);
    return rc;
}

/* Recorded values of texts that were encoded by the other rule, of another task's or of items with
 * more or fewer shots are none of this task. */
static int check_told(const struct model *m, const struct eval_job *j, const struct task *t,
                      struct err *e)
{
    const char *want = encodings[t->encoding == ENCODING_APART];
    struct str told = json_str(json_get(m->told, "encoding"));
    struct str task = json_str(json_get(m->told, "task"));
    int64_t shots = json_int(json_get(m->told, "shots"), j->c.shots);
    if (told.n && !str_eqz(told, want))
        return err_code(e, EXIT_USAGE,
                        "task %s encodes context and choice %s, but the replayed values are of "
                        "texts encoded %.*s: take a task file with that rule, or ask the model "
                        "again",
                        t->name, want, STR_ARG(told));
    if (task.n && !str_eqz(task, t->name))
        return err_code(e, EXIT_USAGE,
                        "the replayed values are of the task %.*s, not of %s: take the task file "
                        "with that name, or ask the model again",
                        STR_ARG(task), t->name);
    if (shots != j->c.shots)
        return err_code(e, EXIT_USAGE,
                        "the replayed values are of items with %lld shots, not %lld: give --shots "
                        "%lld and the seed they were drawn by, or ask the model again",
                        (long long)shots, (long long)j->c.shots, (long long)shots);
    return 0;
}

static int work(const struct eval_job *j, struct stage *st, const char *spec, const struct task *t,
                FILE *to, struct err *e)
{
    struct items items = {0};
    struct model m = {0};
    struct choice_counts c = {0};
    struct model_options mo = {.vocab = j->vocab,
                               .backend = j->backend,
                               .threads = j->threads,
                               .precision = j->c.precision,
                               .batch = j->c.batch,
                               .concurrency = j->concurrency,
                               .timeout = j->timeout,
                               .retries = j->retries,
                               .max_requests = j->max_requests};
    struct buf line = {0};
    int rc = -1;
    if (task_items(t, j->items, &items, e) || shoot(j, t, &items, e) ||
        (j->items_out &&
         (items_save(&items, j->items_out, e) || stage_output(st, j->items_out, e))) ||
        model_open(&m, spec, &mo, e) || check_told(&m, j, t, e) ||
        choice_run(&m, &items, t->encoding == ENCODING_APART, j->out, &c, e))
        goto out;
    facts(st, j, &m, &items, t, &c);
    say(t, &c, &line);
    eval_line(st, &line);
    if (stage_output(st, j->out, e) || stage_end(st, e))
        goto out;
    fprintf(to, "%s\n", line.p);
    rc = 0;
out:
    buf_release(&line);
    failed_release(&c.failed);
    failed_release(&c.bad);
    model_close(&m);
    items_release(&items);
    return rc;
}

/* The values are there, and so are those that are none: too many are an error, found again where nothing
 * had to be done. */
static int check_invalid(const struct eval_job *j, const struct task *t, struct arena *a,
                         struct err *e)
{
    struct json *m = manifest_read(j->out, e);
    const struct json *f = json_get(m, "facts"), *ids = json_get(f, "invalid_ids");
    int64_t invalid = json_int(json_get(f, "invalid"), 0),
            items = json_int(json_get(f, "items"), 0);
    struct buf names = {0};
    int rc = m ? 0 : -1;
    for (size_t i = 0; i < json_size(ids) && i < 10; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", str_dup(a, json_str(json_at(ids, i))));
    if (json_size(ids) > 10)
        buf_addz(&names, "...");
    if (m && (double)invalid > j->c.max_invalid * (double)items)
        rc = err_set(e,
                     "%s: %lld of %lld items are invalid, a log-probability of theirs is no finite "
                     "number (%s): look at the model's weights. %s holds the others and bounds; "
                     "--max-invalid (eval.max_invalid in a run) is the share to go on with",
                     t->name, (long long)invalid, (long long)items, names.n ? names.p : "", j->out);
    /* make keeps what was asked, and must not take it for done. */
    struct err told;
    if (rc && m && file_outdate(manifest_path(a, j->out), &told))
        log_warn("%s", told.msg);
    buf_release(&names);
    json_free(m);
    return rc;
}

/* The answers are there; the items as asked may not be. */
static int leave_items(const struct eval_job *j, const struct task *t, struct err *e)
{
    struct items items = {0};
    int rc = 0;
    if (j->items_out && file_exists(j->out)) /* sealed: nothing is put beside what is not here */
        rc = task_items(t, j->items, &items, e) || shoot(j, t, &items, e) ||
                     items_save(&items, j->items_out, e)
                 ? -1
                 : 0;
    items_release(&items);
    return rc;
}

int eval_choice(const struct eval_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct stage st;
    struct task t;
    const char *spec;
    int rc = -1;
    stage_begin(&st, "eval", 1, j->out, NULL, NULL);
    stage_setting(&st, "task", "choice");
    if (j->c.precision)
        stage_setting(&st, "precision", precision_names[j->c.precision]);
    if (task_load(&t, j->task_file, a, e) || eval_model_input(&st, j, &spec, a, e) ||
        stage_input_whole(&st, j->items, e) || (j->vocab && stage_input_whole(&st, j->vocab, e)) ||
        (j->shots_from && stage_input_whole(&st, j->shots_from, e)))
        goto out;
    if (t.kind != TASK_KIND_CHOICE) {
        err_code(e, EXIT_USAGE, "%s is no choice task", t.path);
        goto out;
    }
    stage_setting(&st, "task_hash", t.hash);
    if (model_replays(spec))
        stage_setting(&st, "replay", "1"); /* states what the recorded file's manifest says */
    stage_setting(&st, "shots", arena_printf(a, "%lld", (long long)j->c.shots));
    if (j->c.shots)
        stage_setting(&st, "seed", arena_printf(a, "%lld", (long long)j->c.seed));
    if (stage_fresh(&st)) {
        rc = leave_items(j, &t, e);
        eval_line_again(j->out, to);
    } else {
        rc = record_spare(j->out, e) || stage_start(&st, e) || work(j, &st, spec, &t, to, e) ? -1
                                                                                             : 0;
    }
    rc = rc ? rc : check_invalid(j, &t, a, e);
out:
    stage_release(&st);
    return rc;
}
