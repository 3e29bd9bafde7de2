/* task_instruct: answers of a model to instructions, see eval/tasks.h and eval/instruct.h. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "eval/instruct.h"
#include "eval/tasks.h"
#include "formats/checkpoint.h"
#include "formats/manifest.h"
#include "formats/record.h"
#include "formats/task.h"

/* Of what is asked, so that two runs over the same items share it wherever the file lies. */
static void items_hash(const struct items *x, char hex[SHA256_HEX])
{
    struct sha256 h;
    sha256_begin(&h);
    for (size_t i = 0; i < x->n; i++) {
        const struct str part[] = {x->v[i].id, x->v[i].instruction, x->v[i].input,
                                   x->v[i].reference};
        for (size_t k = 0; k < 4; k++) {
            uint64_t n = part[k].n;
            sha256_add(&h, &n, sizeof n);
            sha256_add(&h, part[k].p, part[k].n);
        }
    }
    sha256_end_hex(&h, hex);
}

static const char *decoding(const struct eval_job *j, struct arena *a)
{
    const struct eval_config *c = &j->c;
    struct buf b = {0};
    if (c->temperature > 0)
        buf_printf(&b, "temperature %g, top_k %lld, top_p %g, seed %lld", c->temperature,
                   (long long)c->top_k, c->top_p, (long long)c->seed);
    else
        buf_addz(&b, "greedy");
    if (c->temperature > 0 && c->min_p > 0)
        buf_printf(&b, ", min_p %g", c->min_p);
    if (c->repetition_penalty != 1)
        buf_printf(&b, ", repetition penalty %g", c->repetition_penalty);
    buf_printf(&b, ", at most %lld tokens", (long long)c->max_new_tokens);
    for (size_t i = 0; i < j->c.stop.n; i++) {
        buf_addz(&b, ", stop ");
        json_quote(j->c.stop.v[i], &b);
    }
    const char *out = str_dup(a, buf_str(&b));
    buf_release(&b);
    return out;
}

static void facts(struct stage *st, const struct eval_job *j, const struct model *m,
                  const struct items *items, const struct template *t, struct instruct_counts *c,
                  struct arena *a)
{
    char hex[SHA256_HEX];
    struct json *id = json_obj();
    items_hash(items, hex);
    json_put(id, "items", json_of_z(model_told_items(m, hex)));
    if (m->canned) {
        model_told(m, "template", id);
        model_told(m, "decoding", id);
        model_told(m, "precision", id);
        if (json_get(m->told, "lost_heads"))
            model_told(m, "lost_heads", id);
    } else {
        json_put(id, "template",
                 m->ops->remote ? json_of_str(str_printf(a, "%s in the server's own", t->hash))
                                : json_of_z(t->hash));
        json_put(id, "decoding", json_of_z(decoding(j, a)));
        if (m->precision)
            json_put(id, "precision", json_of_z(m->precision));
        eval_lost_heads(st, id, c->lost, c->items, m->context);
    }
    stage_fact(st, "identity", id);
    stage_fact(st, "model", json_of_z(m->ops->identity(m)));
    stage_fact(st, "items", json_of_int(c->items));
    for (int i = 0; finish_names[i]; i++)
        stage_fact(st, finish_names[i], json_of_int(c->finish[i]));
    stage_fact(st, "length_context", json_of_int(c->full));
    failed_fact(&c->failed, "failed_ids", st);
    stage_fact(st, "empty", json_of_int(c->empty));
    stage_fact(st, "tokens_out", json_of_int(c->tokens_out));
    stage_volatile(st, "slowest_ms", json_of_num(c->slowest_ms));
}

/* Items as they are, or rows through a generate task, which may add constraints to each. */
static int load(const struct eval_job *j, struct stage *st, const struct task *task,
                struct items *items, struct err *e)
{
    int rc = task ? task_items(task, j->items, items, e) : items_load(items, j->items, e);
    if (rc || !j->items_out)
        return rc;
    return items_save(items, j->items_out, e) || (st && stage_output(st, j->items_out, e)) ? -1 : 0;
}

/* The answers are there; the items as asked may not be. */
static int leave_items(const struct eval_job *j, const struct task *task, struct err *e)
{
    struct items items = {0};
    if (!j->items_out || !file_exists(j->out)) /* sealed: nothing is put beside what is not here */
        return 0;
    int rc = load(j, NULL, task, &items, e);
    items_release(&items);
    return rc;
}

/* What would be left out without a word. */
static int check_sampling(const struct eval_job *j, const struct model *m, struct err *e)
{
    if (!m->ops->remote || (j->c.min_p == 0 && j->c.repetition_penalty == 1))
        return 0;
    return err_code(e, EXIT_USAGE, "%s: servers are not asked for %s; leave it out", j->model,
                    j->c.min_p > 0 ? "min_p" : "a repetition penalty");
}

static void say(const struct eval_job *j, const struct model *m, const struct instruct_counts *c,
                struct buf *to)
{
    long long cut = c->finish[FINISH_LENGTH] - c->full;
    buf_printf(to, "instruct: %lld answers, %lld ended by themselves, %lld cut",
               (long long)c->items, (long long)c->finish[FINISH_STOP], cut);
    if (!m->canned) /* where those of a replay were cut, their own decoding says */
        buf_printf(to, " at %lld tokens", (long long)j->c.max_new_tokens);
    if (c->full)
        buf_printf(to, ", %lld ended by the model's context", (long long)c->full);
    if (c->full && m->context)
        buf_printf(to, " of %lld tokens", (long long)m->context);
    if (c->empty)
        buf_printf(to, ", %lld empty", (long long)c->empty);
    if (c->finish[FINISH_FILTER] + c->finish[FINISH_ERROR])
        buf_printf(to, ", %lld filtered, %lld failed", (long long)c->finish[FINISH_FILTER],
                   (long long)c->finish[FINISH_ERROR]);
}

static int work(const struct eval_job *j, struct stage *st, const char *spec,
                const struct template *t, const struct task *task, FILE *to, struct arena *a,
                struct err *e)
{
    struct items items = {0};
    struct model m = {0};
    struct instruct_counts c = {0};
    struct model_options mo = {.vocab = j->vocab,
                               .backend = j->backend,
                               .threads = j->threads,
                               .precision = j->c.precision,
                               .batch = j->c.batch,
                               .concurrency = j->concurrency,
                               .timeout = j->timeout,
                               .retries = j->retries,
                               .max_requests = j->max_requests};
    struct instruct_options o = {.template_ = t,
                                 .max_new = j->c.max_new_tokens,
                                 .temperature = j->c.temperature,
                                 .top_k = j->c.top_k,
                                 .top_p = j->c.top_p,
                                 .min_p = j->c.min_p,
                                 .repeat = j->c.repetition_penalty,
                                 .seed = j->c.seed,
                                 .stop = j->c.stop};
    struct buf line = {0};
    int rc = -1;
    if (load(j, st, task, &items, e) || model_open(&m, spec, &mo, e) || check_sampling(j, &m, e) ||
        instruct_run(&m, &items, &o, j->out, &c, e))
        goto out;
    facts(st, j, &m, &items, t, &c, a);
    say(j, &m, &c, &line);
    eval_line(st, &line);
    if (stage_output(st, j->out, e) || stage_end(st, e))
        goto out;
    fprintf(to, "%s\n", line.p);
    rc = 0;
out:
    buf_release(&line);
    failed_release(&c.failed);
    model_close(&m);
    items_release(&items);
    return rc;
}

int eval_model_input(struct stage *st, const struct eval_job *j, const char **spec, struct arena *a,
                     struct err *e)
{
    *spec = j->model;
    if (strncmp(j->model, "replay:", 7) == 0)
        return stage_input_whole(st, j->model + 7, e);
    if (!file_is_dir(j->model)) {
        stage_setting(st, "model", j->model);
        return 0;
    }
    *spec = checkpoint_resolve(a, j->model, e);
    return *spec ? stage_input_whole(st, *spec, e) : -1;
}

int eval_instruct(const struct eval_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct stage st;
    struct template t;
    struct task task;
    const char *spec;
    int rc = -1;
    stage_begin(&st, "eval", 1, j->out, NULL, NULL);
    stage_setting(&st, "task", "instruct");
    if (j->c.precision)
        stage_setting(&st, "precision", precision_names[j->c.precision]);
    if (j->task_file && task_load(&task, j->task_file, a, e))
        goto out;
    if (j->task_file && task.kind != TASK_KIND_GENERATE) {
        err_code(e, EXIT_USAGE, "%s is no generate task", task.path);
        goto out;
    }
    if (template_load(&t, j->template_, a, e) || eval_model_input(&st, j, &spec, a, e) ||
        stage_input_whole(&st, j->items, e) || (j->vocab && stage_input_whole(&st, j->vocab, e)))
        goto out;
    bool replay =
        model_replays(spec); /* how it was asked is what the recorded file's manifest says */
    stage_setting(&st, replay ? "replay" : "template", replay ? "1" : t.hash);
    if (j->task_file)
        stage_setting(&st, "task_hash", task.hash);
    if (!replay)
        stage_setting(&st, "decoding", decoding(j, a));
    if (stage_fresh(&st)) {
        rc = leave_items(j, j->task_file ? &task : NULL, e);
        eval_line_again(j->out, to);
    } else {
        rc = record_spare(j->out, e) || stage_start(&st, e) ||
                     work(j, &st, spec, &t, j->task_file ? &task : NULL, to, a, e)
                 ? -1
                 : 0;
    }
out:
    stage_release(&st);
    return rc;
}
