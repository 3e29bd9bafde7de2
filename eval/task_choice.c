/* task_choice: `assay eval --task choice`: a task file, rows, log-probabilities. Eval/choice.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "eval/choice.h"
#include "eval/tasks.h"
#include "formats/checkpoint.h"
#include "formats/choice.h"
#include "formats/manifest.h"

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

static void facts(struct stage *st, const struct eval_job *j, const struct model *m,
                  const struct items *x, const struct task *t, struct choice_counts *c)
{
    char hex[SHA256_HEX];
    struct json *id = json_obj();
    choice_hash(x, hex);
    json_put(id, "task", json_of_z(t->name));
    json_put(id, "items", json_of_z(hex)); /* contexts with their shots are in it */
    json_put(id, "encoding", json_of_z(t->encoding == ENCODING_APART ? "apart" : "joined"));
    json_put(id, "shots", json_of_int(j->shots));
    if (m->precision)
        json_put(id, "precision", json_of_z(m->precision));
    stage_fact(st, "identity", id);
    stage_fact(st, "model", json_of_z(m->ops->identity(m)));
    stage_fact(st, "metric", json_of_str(t->metric));
    stage_fact(st, "items", json_of_int(c->items));
    stage_fact(st, "continuations", json_of_int(c->continuations));
    stage_fact(st, "tokens", json_of_int(c->tokens));
    stage_fact(st, "failed", json_of_int(c->failed.n));
    failed_fact(&c->failed, st);
    stage_fact(st, "invalid", json_of_int(c->invalid));
    stage_fact(st, "tied", json_of_int(c->tied));
    for (int k = 0; k < CHOICE_NORMS; k++)
        share(st, choice_metrics[k], c->sum[k], c->valid[k]);
    for (int k = 0; k < CHOICE_NORMS; k++)
        bounds(st, choice_metrics[k], c->sum[k], c->gradable - c->valid[k], c->gradable);
    if (c->unknown)
        stage_fact(st, "taken", taken(c));
    share(st, "acc_greedy", c->greedy, c->graded - c->invalid);
    share(st, "nats_answer", c->nats, c->graded - c->invalid);
}

/* What was taken by the task's own norm, and that nothing is right or wrong. */
static void say_taken(const struct task *t, const struct choice_counts *c, FILE *to)
{
    int norm = CHOICE_SUM;
    for (int k = 0; k < CHOICE_NORMS; k++)
        norm = str_eqz(t->metric, choice_metrics[k]) ? k : norm;
    fprintf(to, " taken by %s:", choice_metrics[norm]);
    for (int i = 0, n = 0; i < CHOICE_TAKEN; i++)
        if (c->taken[norm][i])
            fprintf(to, "%s choice %d%s %lld times", n++ ? "," : "", i,
                    i + 1 == CHOICE_TAKEN ? " or later" : "", (long long)c->taken[norm][i]);
    fprintf(to, "; %lld %s no right choice, so %s not scored;", (long long)c->unknown,
            c->unknown == 1 ? "item has" : "items have", c->unknown == 1 ? "it is" : "they are");
}

static void say(const struct task *t, const struct choice_counts *c, FILE *to)
{
    int64_t n = c->graded - c->invalid;
    fprintf(to, "%s:", t->name);
    for (int k = 0; k < CHOICE_NORMS; k++)
        if (c->valid[k])
            fprintf(to, " %s %.4f%s", choice_metrics[k], c->sum[k] / (double)c->valid[k],
                    k + 1 < CHOICE_NORMS ? "," : ";");
    if (n > 0 && c->continuations == c->items)
        fprintf(to, " acc_greedy %.4f, ppl_answer %.4f;", c->greedy / (double)n,
                exp(c->nats / (double)n));
    if (c->unknown)
        say_taken(t, c, to);
    fprintf(to, " %lld items", (long long)c->items);
    if (c->tied)
        fprintf(to, ", %lld tied", (long long)c->tied);
    if (c->invalid + c->failed.n)
        fprintf(to, ", %lld invalid, %lld failed", (long long)c->invalid, (long long)c->failed.n);
    if (c->gradable > c->valid[CHOICE_SUM])
        fprintf(to, ": acc of all between %.4f and %.4f", c->sum[CHOICE_SUM] / (double)c->gradable,
                (c->sum[CHOICE_SUM] + (double)(c->gradable - c->valid[CHOICE_SUM])) /
                    (double)c->gradable);
    fputc('\n', to);
}

static int shoot(const struct eval_job *j, const struct task *t, struct items *x, struct err *e)
{
    struct items pool = {0};
    int rc;
    if (!j->shots)
        return 0;
    if (!j->shots_from)
        return choice_shots(x, x, t, j->shots, j->c.seed, e);
    rc = task_items(t, j->shots_from, &pool, e);
    rc = rc ? rc : choice_shots(x, &pool, t, j->shots, j->c.seed, e);
    items_release(&pool);
    return rc;
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
    int rc = -1;
    if (task_items(t, j->items, &items, e) || shoot(j, t, &items, e) ||
        (j->items_out &&
         (items_save(&items, j->items_out, e) || stage_output(st, j->items_out, e))) ||
        model_open(&m, spec, &mo, e) ||
        choice_run(&m, &items, t->encoding == ENCODING_APART, j->out, &c, e))
        goto out;
    facts(st, j, &m, &items, t, &c);
    if (stage_output(st, j->out, e) || stage_end(st, e))
        goto out;
    say(t, &c, to);
    rc = 0;
out:
    failed_release(&c.failed);
    model_close(&m);
    items_release(&items);
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
        stage_input(&st, j->items, e) || (j->vocab && stage_input(&st, j->vocab, e)) ||
        (j->shots_from && stage_input(&st, j->shots_from, e)))
        goto out;
    if (t.kind != TASK_KIND_CHOICE) {
        err_code(e, EXIT_USAGE, "%s is no choice task", t.path);
        goto out;
    }
    stage_setting(&st, "task_hash", t.hash);
    stage_setting(&st, "shots", arena_printf(a, "%lld", (long long)j->shots));
    if (j->shots)
        stage_setting(&st, "seed", arena_printf(a, "%lld", (long long)j->c.seed));
    rc = stage_fresh(&st)      ? leave_items(j, &t, e)
         : stage_start(&st, e) ? -1
                               : work(j, &st, spec, &t, to, e);
out:
    stage_release(&st);
    return rc;
}
