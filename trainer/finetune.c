/* finetune: epochs over examples, early stop, the best weights back, see finetune.h. */
#include "trainer/finetune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/thread.h"
#include "formats/manifest.h"
#include "trainer/checkpoint_io.h"
#include "trainer/gpt2.h"
#include "trainer/metrics.h"
#include "trainer/train_folder.h"

#define STAGE_VERSION 1
/* AdamW's betas and eps are torch's defaults, which public fine-tuning recipes use. */
#define BETA1 0.9
#define BETA2 0.999
#define EPS   1e-8

struct tuner {
    const struct finetune_options *o;
    struct finetune_config c;
    struct model_config model;
    struct arena arena;
    struct stage stage;
    struct file_lock lock;
    struct examples train_file, val_file;
    struct example_set train, val;
    struct backend backend;
    struct gpt2 *m;
    struct metrics metrics;
    struct progress bar;
    int64_t eos, micro, steps, step, tokens; /* steps: if no epoch is saved */
    int64_t epochs, best_epoch;              /* done; 0: none yet */
    double best_loss, first_loss, begun;     /* first: before the first step */
    float *best, *loss;
    int32_t *ids, *targets;
    uint64_t *seq;
    int64_t *order, *rows; /* of an epoch; of a validation batch */
};

/* ---- before the first step ---- */

static int open_examples(struct tuner *t, const char *name, struct examples *x,
                         struct example_set *set, struct err *e)
{
    int64_t limit = t->c.max_tokens > 0 && t->c.max_tokens < t->model.context ? t->c.max_tokens
                                                                              : t->model.context;
    const char *path = path_join(&t->arena, t->o->examples, name);
    if (examples_open(x, path, e) ||
        example_set_make(set, x, limit, t->model.vocab, t->c.mask_prompt, path, e))
        return -1;
    if (set->dropped || set->empty)
        log_warn("%s: %lld of %lld examples are longer than %lld tokens and %lld have no target; "
                 "they are left out",
                 path, (long long)set->dropped, (long long)x->n, (long long)limit,
                 (long long)set->empty);
    return 0;
}

/* Options that decide the weights. */
static int make_key(struct tuner *t, struct err *e)
{
    struct finetune_config d = t->c;
    d.seeds = 1;
    stage_begin(&t->stage, "finetune", STAGE_VERSION, t->o->out, NULL, NULL);
    stage_options(&t->stage, "finetune", &finetune_config_schema, &d);
    return stage_input(&t->stage, t->o->init, e) || stage_input(&t->stage, t->o->examples, e) ? -1
                                                                                              : 0;
}

static int prepare(struct tuner *t, struct err *e)
{
    if (t->o->seed >= 0)
        t->c.seed = t->o->seed;
    if (gpt2_config_of(t->o->init, &t->model, &t->eos, e))
        return -1;
    if (t->c.dropout >= 0)
        t->model.dropout = t->c.dropout;
    return make_key(t, e);
}

static int open_model(struct tuner *t, struct err *e)
{
    const struct train_config *c = &t->o->run->train;
    int64_t longest = t->train.longest > t->val.longest ? t->train.longest : t->val.longest;
    if (backend_open(&t->backend, str_dup(&t->arena, c->backend), 0, (int)c->threads, e))
        return -1;
    /* On a CPU one sequence goes back at a time, so a micro-batch that memory makes smaller decides no
     * bit; a GPU would idle. */
    struct gpt2_use use = {.batch = t->c.batch, .length = longest - 1, .train = true};
    struct gpt2_plan plan;
    use.prefers = backend_prefers(t->backend.ops->name);
    use.grain = use.prefers->grain_rows ? 1 : 0;
    int64_t room = t->backend.ops->memory_free(&t->backend);
    for (; use.batch > 1; use.batch--) {
        gpt2_plan(&t->model, &use, &plan);
        if (room < 0 || plan.total <= room)
            break;
    }
    if (!(t->m = gpt2_new(&t->backend, &t->model, &use, e)))
        return -1;
    t->micro = use.batch;
    size_t cells = (size_t)(t->c.batch * use.length);
    t->loss = mem_array(cells, sizeof *t->loss);
    t->ids = mem_array(cells, sizeof *t->ids);
    t->targets = mem_array(cells, sizeof *t->targets);
    t->seq = mem_array((size_t)t->c.batch, sizeof *t->seq);
    t->order = mem_array((size_t)t->train.n, sizeof *t->order);
    t->rows = mem_array((size_t)t->c.batch, sizeof *t->rows);
    t->best = mem_array((size_t)gpt2_params(t->m)->count, sizeof *t->best);
    return gpt2_load(t->m, t->o->init, e);
}

/* ---- training ---- */

static double rate(const struct tuner *t, int64_t step)
{
    int64_t warm = (int64_t)ceil(t->c.warmup * (double)t->steps - 1e-9);
    return step < warm ? t->c.lr * (double)step / (double)warm : t->c.lr;
}

/* Gradient of one batch in pieces of `micro` sequences: the scale is that of the whole batch. */
static int gradients(struct tuner *t, int64_t B, int64_t T, int64_t valid, double *loss,
                     struct err *e)
{
    double sum = 0;
    gpt2_zero_grad(t->m);
    for (int64_t i = 0; i < B; i += t->micro) {
        int64_t n = B - i < t->micro ? B - i : t->micro;
        struct gpt2_batch g = {.ids = t->ids + i * T,
                               .targets = t->targets + i * T,
                               .seq = t->seq + i,
                               .B = n,
                               .T = T,
                               .valid_total = valid,
                               .seed = (uint64_t)t->c.seed,
                               .step = (uint64_t)t->step};
        if (gpt2_grad(t->m, &g, t->loss, e))
            return -1;
        for (int64_t k = 0; k < n * T; k++)
            sum += t->loss[k];
    }
    *loss = valid ? sum / (double)valid : 0;
    return 0;
}

static int one_step(struct tuner *t, const int64_t *which, int64_t B, int64_t epoch,
                    struct metrics_row *r, struct err *e)
{
    double before = clock_now();
    int64_t T, valid = example_batch(&t->train, which, B, &T, t->ids, t->targets, t->seq);
    t->step++;
    t->tokens += valid;
    *r = (struct metrics_row){.step = t->step,
                              .tokens = t->tokens,
                              .epoch = epoch,
                              .lr = rate(t, t->step),
                              .val_loss = NAN};
    struct gpt2_update u = {.lr = r->lr,
                            .beta1 = BETA1,
                            .beta2 = BETA2,
                            .eps = EPS,
                            .weight_decay = t->c.weight_decay,
                            .clip = t->c.clip,
                            .decay = DECAY_MATRICES,
                            .step = t->step};
    if (gradients(t, B, T, valid, &r->loss, e) || gpt2_update(t->m, &u, &r->norm, e))
        return -1;
    if (!isfinite(r->loss) || !isfinite(r->norm))
        return err_set(e,
                       "epoch %lld, step %lld: the loss is %g and the gradient's norm %g; nothing "
                       "was written",
                       (long long)epoch, (long long)t->step, r->loss, r->norm);
    double seconds = clock_now() - before;
    r->ms = seconds * 1e3;
    r->tokens_per_s = (double)valid / seconds;
    r->seconds = clock_now() - t->begun;
    return 0;
}

/* Mean loss over all validation examples, in file order. */
static int validate(struct tuner *t, double *loss, struct err *e)
{
    double sum = 0;
    int64_t valid = 0;
    for (int64_t i = 0; i < t->val.n; i += t->micro) {
        int64_t n = t->val.n - i < t->micro ? t->val.n - i : t->micro, T;
        for (int64_t k = 0; k < n; k++)
            t->rows[k] = i + k;
        valid += example_batch(&t->val, t->rows, n, &T, t->ids, t->targets, t->seq);
        if (gpt2_losses(t->m, t->ids, t->targets, n, T, t->loss, e))
            return -1;
        for (int64_t k = 0; k < n * T; k++)
            sum += t->loss[k];
    }
    *loss = valid ? sum / (double)valid : NAN;
    return 0;
}

static void shuffle(struct tuner *t, int64_t epoch)
{
    struct rng r = rng_make((uint64_t)t->c.seed, "finetune order", (uint64_t)epoch);
    for (int64_t i = 0; i < t->train.n; i++)
        t->order[i] = i;
    rng_shuffle(&r, t->order, (size_t)t->train.n, sizeof *t->order);
}

static int one_epoch(struct tuner *t, int64_t epoch, struct err *e)
{
    shuffle(t, epoch);
    for (int64_t i = 0; i < t->train.n; i += t->c.batch) {
        int64_t B = t->train.n - i < t->c.batch ? t->train.n - i : t->c.batch;
        struct metrics_row r;
        char note[80];
        if (interrupt_raised())
            return err_code(e, EXIT_INCOMPLETE, "interrupted in epoch %lld; run it again",
                            (long long)epoch);
        if (one_step(t, t->order + i, B, epoch, &r, e))
            return -1;
        if (i + B == t->train.n && t->val.n && validate(t, &r.val_loss, e))
            return -1;
        if (metrics_add(&t->metrics, &r, e))
            return -1;
        snprintf(note, sizeof note, "epoch %lld, loss %.4f", (long long)epoch, r.loss);
        progress_set(&t->bar, (double)t->step, note);
        if (i + B == t->train.n && t->val.n && !isfinite(r.val_loss))
            return err_set(e, "epoch %lld: the validation loss is %g", (long long)epoch,
                           r.val_loss);
        if (i + B == t->train.n && t->val.n && (!t->best_epoch || r.val_loss < t->best_loss)) {
            t->best_epoch = epoch;
            t->best_loss = r.val_loss;
            if (gpt2_get(t->m, 'w', t->best, e)) /* a copy of the values, not of the place */
                return -1;
        }
    }
    t->epochs = epoch;
    return 0;
}

/* The best epoch's weights back into the model, and proof that they are: measured again, the
 * validation loss is the one seen then, to the last bit. */
static int restore(struct tuner *t, struct err *e)
{
    double again;
    if (!t->val.n) {
        t->best_epoch = t->epochs;
        return 0;
    }
    if (gpt2_put(t->m, 'w', t->best, e) || validate(t, &again, e))
        return -1;
    if (again != t->best_loss)
        return err_set(e,
                       "the weights of epoch %lld were put back, but their validation loss is "
                       "%.17g, not %.17g",
                       (long long)t->best_epoch, again, t->best_loss);
    log_info("epoch %lld of %lld is best: validation loss %.4f (%.4f before fine-tuning)",
             (long long)t->best_epoch, (long long)t->epochs, t->best_loss, t->first_loss);
    return 0;
}

static int tune(struct tuner *t, struct err *e)
{
    int64_t per_epoch = (t->train.n + t->c.batch - 1) / t->c.batch;
    t->steps = per_epoch * t->c.epochs;
    t->begun = clock_now();
    progress_begin(&t->bar, "finetune", "steps", (double)t->steps, 0);
    int rc = validate(t, &t->first_loss, e);
    for (int64_t epoch = 1; !rc && epoch <= t->c.epochs; epoch++) {
        rc = one_epoch(t, epoch, e);
        if (!rc && t->val.n && epoch - t->best_epoch >= t->c.patience)
            break;
    }
    progress_end(&t->bar);
    return rc;
}

/* ---- what is left behind ---- */

static int finish(struct tuner *t, struct err *e)
{
    const char *dir = path_join(&t->arena, t->o->out, "checkpoint");
    const char *link = path_join(&t->arena, t->o->out, "latest");
    char key[64];
    snprintf(key, sizeof key, "finetune, seed %lld", (long long)t->c.seed);
    if (metrics_sync(&t->metrics, e) || checkpoint_save(dir, t->m, t->eos, NULL, key, NULL, e) ||
        file_symlink("checkpoint", link, e))
        return -1;
    stage_fact(&t->stage, "seed", json_of_int(t->c.seed));
    stage_fact(&t->stage, "parameters", json_of_int(params_count(gpt2_config(t->m))));
    stage_fact(&t->stage, "steps", json_of_int(t->step));
    stage_fact(&t->stage, "tokens", json_of_int(t->tokens));
    stage_fact(&t->stage, "epochs", json_of_int(t->epochs));
    stage_fact(&t->stage, "best_epoch", json_of_int(t->best_epoch));
    stage_fact(&t->stage, "examples", json_of_int(t->train.n));
    stage_fact(&t->stage, "val_examples", json_of_int(t->val.n));
    stage_fact(&t->stage, "dropped", json_of_int(t->train.dropped + t->val.dropped));
    stage_fact(&t->stage, "without_target", json_of_int(t->train.empty + t->val.empty));
    if (t->val.n) {
        stage_fact(&t->stage, "val_loss", json_of_num(t->best_loss));
        stage_fact(&t->stage, "val_loss_before", json_of_num(t->first_loss));
    }
    stage_volatile(&t->stage, "train_seconds", json_of_num(clock_now() - t->begun));
    stage_volatile(&t->stage, "backend", json_of_z(t->backend.ops->describe(&t->backend)));
    if (stage_output(&t->stage, path_join(&t->arena, dir, "model.safetensors"), e) ||
        stage_output(&t->stage, path_join(&t->arena, dir, "config.json"), e))
        return -1;
    return stage_end(&t->stage, e);
}

/* Removes what an earlier run left, so that nothing of two runs is mixed. */
static int clear(struct tuner *t, struct err *e)
{
    const char *dir = path_join(&t->arena, t->o->out, "checkpoint");
    if (stage_start(&t->stage, e) || checkpoint_sweep(t->o->out, e))
        return -1;
    return file_is_dir(dir) ? checkpoint_remove(dir, e) : 0;
}

static void tuner_release(struct tuner *t)
{
    metrics_close(&t->metrics);
    gpt2_free(t->m);
    backend_close(&t->backend);
    example_set_release(&t->train);
    example_set_release(&t->val);
    examples_close(&t->train_file);
    examples_close(&t->val_file);
    stage_release(&t->stage);
    file_unlock(&t->lock);
    free(t->loss);
    free(t->ids);
    free(t->targets);
    free(t->seq);
    free(t->order);
    free(t->rows);
    free(t->best);
    arena_release(&t->arena);
}

int finetune_run(const struct finetune_options *o, struct err *e)
{
    struct tuner t = {.o = o, .c = o->run->finetune, .eos = -1};
    bool began = false;
    int rc = -1;
    if (prepare(&t, e) || stage_spare(&t.stage, e) || file_mkdirs(o->out, e) ||
        file_lock(&t.lock, path_join(&t.arena, o->out, ".lock"), false, e))
        goto out;
    if (stage_fresh(&t.stage)) {
        rc = EXIT_DONE;
        goto out;
    }
    if (open_examples(&t, "train.bin", &t.train_file, &t.train, e) ||
        open_examples(&t, "val.bin", &t.val_file, &t.val, e))
        goto out;
    if (!t.train.n) {
        err_set(e, "%s/train.bin has no example to train on", o->examples);
        goto out;
    }
    if (!t.val.n)
        log_warn("%s/val.bin is empty: the last epoch will be kept", o->examples);
    if (open_model(&t, e) || clear(&t, e))
        goto out;
    began = true;
    folder_begin(o->out);
    if (metrics_open(&t.metrics, path_join(&t.arena, o->out, "metrics.jsonl"), 0, e) ||
        tune(&t, e) || restore(&t, e) || finish(&t, e))
        goto out;
    rc = EXIT_DONE;
out:
    if (rc < 0 && began)
        folder_failed(o->out, t.step, e);
    else if (rc < 0 && t.lock.held)
        folder_leave(o->out);
    tuner_release(&t);
    return rc;
}
