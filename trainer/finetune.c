/* finetune: epochs over examples, early stop, the best weights back, see finetune.h. What comes before
 * the first step is in finetune_open.c.
 */

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/thread.h"
#include "trainer/checkpoint_io.h"
#include "trainer/finetune_private.h"
#include "trainer/step.h"
#include "trainer/train_folder.h"

/* AdamW's betas and eps are torch's defaults, which public fine-tuning recipes use. */
#define BETA1 0.9
#define BETA2 0.999
#define EPS   1e-8

/* ---- training ---- */

static double rate(const struct tuner *t, int64_t step)
{
    int64_t warm = (int64_t)ceil(t->c.warmup * (double)t->steps - 1e-9);
    return step < warm ? t->c.lr * (double)step / (double)warm : t->c.lr;
}

/* The gradients of the B examples `which` on all ranks; *valid: their targets. 1: as step_gradients. */
static int gradients(struct tuner *t, const int64_t *which, int64_t B, int64_t *valid, double *loss,
                     struct err *e)
{
    struct step_rows rows = {.ids = t->ids,
                             .targets = t->targets,
                             .seq = t->seq,
                             .seed = (uint64_t)t->c.seed,
                             .step = (uint64_t)t->step,
                             .loss_scale = t->scaler.scale};
    struct ranks_step s = {0};
    int64_t lo, hi;
    *valid = rows.valid = example_shape(&t->train, which, B, &rows.T);
    ranks_part(&t->ranks, B, &lo, &hi);
    rows.n = hi - lo;
    example_fill(&t->train, which + lo, rows.n, rows.T, t->ids, t->targets, t->seq);
    int rc = step_gradients(t->m, &t->ranks, &rows, t->micro, t->loss, &s.loss, e);
    s.stop = interrupt_raised();
    if (rc || step_agree(&t->ranks, &s, t->step == 1, e))
        return rc ? rc : -1;
    t->stop = s.stop;
    *loss = s.loss / (double)*valid;
    return 0;
}

static int update(struct tuner *t, int64_t epoch, struct metrics_row *r, struct err *e)
{
    struct gpt2_update u = {.lr = r->lr,
                            .beta1 = BETA1,
                            .beta2 = BETA2,
                            .eps = EPS,
                            .weight_decay = t->c.weight_decay,
                            .clip = t->c.clip,
                            .decay = DECAY_MATRICES,
                            .step = t->updates + 1,
                            .loss_scale = t->scaler.scale};
    if (gpt2_update(t->m, &u, &r->norm, e))
        return -1;
    if (step_overflowed(&t->scaler, r->norm, t->o->run->train.loss_scale_every, r))
        return 0;
    t->updates++;
    if (isfinite(r->loss) && isfinite(r->norm))
        return 0;
    t->ranks.agreed = true; /* from the same numbers on all ranks */
    return err_set(e,
                   "epoch %lld, step %lld: the loss is %g and the gradient's norm %g; nothing was "
                   "written",
                   (long long)epoch, (long long)t->step, fabs(r->loss), fabs(r->norm));
}

static int interrupted(struct tuner *t, int64_t epoch, struct err *e)
{
    t->ranks.agreed = true;
    return err_code(e, EXIT_INCOMPLETE, "interrupted in epoch %lld; run it again",
                    (long long)epoch);
}

static int one_step(struct tuner *t, const int64_t *which, int64_t B, int64_t epoch,
                    struct metrics_row *r, struct err *e)
{
    double before = clock_now(), waited = t->ranks.comm.waited;
    int64_t valid;
    t->step++;
    *r = (struct metrics_row){
        .step = t->step, .epoch = epoch, .lr = rate(t, t->step), .val_loss = NAN};
    int rc = gradients(t, which, B, &valid, &r->loss, e);
    if (rc)
        return rc < 0 ? -1 : interrupted(t, epoch, e);
    t->tokens += valid;
    r->tokens = t->tokens;
    if (update(t, epoch, r, e))
        return -1;
    double seconds = clock_now() - before;
    r->ms = seconds * 1e3;
    r->ms_comm = (t->ranks.comm.waited - waited) * 1e3;
    r->tokens_per_s = (double)valid / seconds;
    r->seconds = clock_now() - t->begun;
    return 0;
}

/* Mean loss over all validation examples, in file order; of several ranks each takes its part. */
static int validate(struct tuner *t, double *loss, struct err *e)
{
    double sum[2] = {0}; /* of losses, of targets */
    int64_t lo, hi;
    ranks_part(&t->ranks, t->val.n, &lo, &hi);
    for (int64_t i = lo; i < hi; i += t->micro) {
        int64_t n = hi - i < t->micro ? hi - i : t->micro, T;
        for (int64_t k = 0; k < n; k++)
            t->rows[k] = i + k;
        sum[1] += (double)example_shape(&t->val, t->rows, n, &T);
        example_fill(&t->val, t->rows, n, T, t->ids, t->targets, t->seq);
        if (gpt2_losses(t->m, t->ids, t->targets, n, T, t->loss, e))
            return -1;
        for (int64_t k = 0; k < n * T; k++)
            sum[0] += t->loss[k];
    }
    if (ranks_sum(&t->ranks, sum, 2, e))
        return -1;
    *loss = sum[1] > 0 ? sum[0] / sum[1] : NAN;
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
        if (!t->ranks.many)
            t->stop = interrupt_raised();
        if (t->stop)
            return interrupted(t, epoch, e);
        if (one_step(t, t->order + i, B, epoch, &r, e))
            return -1;
        if (i + B == t->train.n && t->val.n && validate(t, &r.val_loss, e))
            return -1;
        if (ranks_first(&t->ranks) && metrics_add(&t->metrics, &r, e))
            return -1;
        snprintf(note, sizeof note, "epoch %lld, loss %.4f", (long long)epoch, r.loss);
        progress_set(&t->bar, (double)t->step, note);
        if (i + B == t->train.n && t->val.n && !isfinite(r.val_loss)) {
            t->ranks.agreed = true;
            return err_set(e, "epoch %lld: the validation loss is %g", (long long)epoch,
                           fabs(r.val_loss));
        }
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
    if (ranks_equal(&t->ranks, t->m, t->step, e))
        return -1;
    if (!ranks_first(&t->ranks))
        return 0;
    struct checkpoint_made made = {.by = key,
                                   .vocab_hash = manifest_vocab(&t->arena, t->o->examples)};
    if (metrics_sync(&t->metrics, e) || checkpoint_save(dir, t->m, t->eos, NULL, &made, e) ||
        file_symlink("checkpoint", link, e))
        return -1;
    stage_fact(&t->stage, "seed", json_of_int(t->c.seed));
    stage_fact(&t->stage, "parameters", json_of_int(params_count(gpt2_config(t->m))));
    stage_fact(&t->stage, "steps", json_of_int(t->step));
    stage_fact(&t->stage, "tokens", json_of_int(t->tokens));
    stage_fact(&t->stage, "overflows", json_of_int(t->scaler.overflows));
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
    stage_volatile(&t->stage, "ranks", json_of_int(t->ranks.meet.world));
    stage_volatile(&t->stage, "micro_batch", json_of_int(t->micro));
    if (t->ranks.many)
        stage_volatile(&t->stage, "comm", json_of_z(t->ranks.comm.ops->name));
    stage_volatile(&t->stage, "backend", json_of_z(t->backend.ops->describe(&t->backend)));
    if (stage_output(&t->stage, path_join(&t->arena, dir, "model.safetensors"), e) ||
        stage_output(&t->stage, path_join(&t->arena, dir, "config.json"), e))
        return -1;
    return stage_end(&t->stage, e) || folder_replaced(t->o->out, e) ? -1 : 0;
}

/* A run whose manifest is there has replaced the one before; one without has not, so that is back. */
static int settle(struct tuner *t, struct err *e)
{
    bool done = file_exists(path_join(&t->arena, t->o->out, "manifest.json"));
    return folder_settle(t->o->out, done, e) || (done && folder_replaced(t->o->out, e)) ? -1 : 0;
}

/* Nothing of two runs is mixed: what a killed one left goes; a whole one, of other options, stays aside
 * until this one is whole. */
static int clear(struct tuner *t, struct err *e)
{
    const char *dir = path_join(&t->arena, t->o->out, "checkpoint");
    if (file_exists(path_join(&t->arena, t->o->out, "manifest.json"))) {
        log_warn(
            "%s holds a fine-tuning with other options, examples or weights; starting over. It "
            "is kept until this one is whole",
            t->o->out);
        if (folder_put_aside(t->o->out, e))
            return -1;
    }
    if (stage_start(&t->stage, e) || checkpoint_sweep(t->o->out, e))
        return -1;
    return file_is_dir(dir) ? checkpoint_remove(dir, e) : 0;
}

/* Of rank 0 that hangs in its device when another is gone. */
static void last_word(void *ctx, const struct err *why)
{
    const struct tuner *t = ctx;
    folder_failed(t->o->out, t->step, why);
}

int finetune_run(const struct finetune_options *o, struct err *e)
{
    struct tuner t = {.o = o, .c = o->run->finetune, .eos = -1};
    bool began = false;
    int rc = -1, fresh = 0;
    if (ranks_join(&t.ranks, o->seat, "finetune", e) || tuner_prepare(&t, e) || tuner_same(&t, e))
        goto out;
    bool first = ranks_first(&t.ranks);
    if (first &&
        (stage_spare(&t.stage, e) || file_mkdirs(o->out, e) ||
         file_lock(&t.lock, path_join(&t.arena, o->out, ".lock"), false, e) || settle(&t, e)))
        goto out;
    fresh = first && stage_fresh(&t.stage);
    if (ranks_tell(&t.ranks, &fresh, sizeof fresh, e))
        goto out;
    if (fresh) {
        rc = EXIT_DONE;
        goto out;
    }
    if (tuner_open_examples(&t, e) || tuner_open_model(&t, e) || (first && clear(&t, e)))
        goto out;
    began = first;
    if (first) {
        folder_begin(o->out);
        rendezvous_last_word(&t.ranks.meet, last_word, &t);
    }
    if (first && metrics_open(&t.metrics, path_join(&t.arena, o->out, "metrics.jsonl"), 0, e))
        goto out;
    if (tune(&t, e) || restore(&t, e) || finish(&t, e))
        goto out;
    rc = EXIT_DONE;
out:
    rc = ranks_end(&t.ranks, rc, e);
    if (rc < 0 && began)
        folder_failed(o->out, t.step, e);
    else if (rc < 0 && t.lock.held)
        folder_leave(o->out);
    tuner_release(&t);
    return rc;
}
