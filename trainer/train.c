/* train: the loop of pre-training, see train.h. What comes before it is in train_open.c; checkpoints,
 * validation and the manifest are in train_end.c.
 */
#include "trainer/train.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "trainer/schedule.h"
#include "trainer/step.h"
#include "trainer/train_folder.h"
#include "trainer/train_private.h"

/* Steps over which spikes are judged, and before which nothing is called a spike. */
#define SPIKE_WINDOW 128
#define SPIKE_LEARN  50

/* ---- one step ---- */

/* 0 done; 1 when a signal came between two micro-batches: the step is dropped, it changed nothing. */
static int gradients(struct trainer *t, const struct loader_batch *b, double *loss, double *stalled,
                     struct err *e)
{
    struct step_rows rows = {.ids = b->ids,
                             .targets = b->targets,
                             .seq = b->seq,
                             .n = b->n,
                             .T = t->model.context,
                             .valid = t->c.batch * t->model.context,
                             .seed = (uint64_t)t->c.seed,
                             .step = (uint64_t)b->step,
                             .loss_scale = t->state.loss_scale};
    double sum;
    int rc = step_gradients(t->m, &t->ranks, &rows, t->micro, t->loss, &sum, e);
    if (rc || train_step_agreed(t, &sum, stalled, e))
        return rc ? rc : -1;
    *loss = sum / (double)rows.valid;
    return 0;
}

/* Exponential mean and variance over about SPIKE_WINDOW accepted steps. */
static void spike_learn(int64_t n, double x, double *mean, double *var)
{
    double a = 1.0 / (double)(n + 1 < SPIKE_WINDOW ? n + 1 : SPIKE_WINDOW), d = x - *mean;
    *mean += a * d;
    *var = (1 - a) * (*var + a * d * d);
}

static double spike_limit(const struct trainer *t, double mean, double var)
{
    if (!(t->c.spike_z > 0) || t->state.spike_n < SPIKE_LEARN)
        return 0;
    return mean + t->c.spike_z * sqrt(var);
}

/* The newest checkpoint whose weights made a finite loss in the step behind it: a loss that is none
 * comes of the weights, so the newest of all may be as bad as what runs. */
static void last_good(const struct trainer *t, char *out, size_t n)
{
    struct i64s steps = {0};
    struct arena a = {0};
    struct err ignored;
    size_t good;
    snprintf(out, n, "there is no checkpoint yet");
    if (folder_list(t->o->out, &steps, &a, &ignored) == 0 && steps.n) {
        for (good = steps.n; good && steps.v[good - 1] >= t->finite_step; good--)
            ;
        const char *newest = folder_step(&a, t->o->out, steps.v[steps.n - 1]);
        if (good == steps.n)
            snprintf(out, n, "the last good checkpoint is %s", newest);
        else if (good)
            snprintf(out, n,
                     "the weights of %s are no good already, the last good checkpoint is %s: "
                     "without those behind it the run goes on there",
                     newest, folder_step(&a, t->o->out, steps.v[good - 1]));
        else
            snprintf(out, n,
                     "the weights of %s are no good already, and no older checkpoint is here",
                     newest);
    }
    arena_release(&a);
}

static int stop_sentence(const struct trainer *t, int64_t step, double loss, double norm,
                         struct err *e)
{
    char last[1400];
    last_good(t, last, sizeof last);
    if (t->c.spike_z > 0)
        return err_set(e, "step %lld: %lld updates in a row were skipped (loss %g, norm %g); %s",
                       (long long)step, (long long)t->state.skipped_in_row, fabs(loss), fabs(norm),
                       last);
    return err_set(e,
                   "step %lld: the loss is %g and the gradient's norm %g; nothing of it went into "
                   "the weights; %s",
                   (long long)step, fabs(loss), fabs(norm), last); /* fabs: "nan", never "-nan" */
}

static bool overflowed(struct trainer *t, struct metrics_row *r)
{
    struct train_state *s = &t->state;
    struct scaler k = {s->loss_scale, s->loss_scale_good, s->overflows};
    bool left_out = step_overflowed(&k, r->norm, t->c.loss_scale_every, r);
    s->loss_scale = k.scale;
    s->loss_scale_good = k.good;
    s->overflows = k.overflows;
    return left_out;
}

static int update(struct trainer *t, struct metrics_row *r, struct err *e)
{
    struct train_state *s = &t->state;
    double most_loss = spike_limit(t, s->spike_mean_loss, s->spike_var_loss);
    double most_norm = spike_limit(t, s->spike_mean_norm, s->spike_var_norm);
    bool bad = !isfinite(r->loss) || (most_loss > 0 && r->loss > most_loss);
    struct gpt2_update u = {.lr = r->lr,
                            .beta1 = t->c.beta1,
                            .beta2 = t->c.beta2,
                            .eps = t->c.eps,
                            .weight_decay = t->c.weight_decay,
                            .clip = t->c.clip,
                            .decay = t->c.decay,
                            .step = s->updates + 1,
                            /* above the least of all norms: it is only measured */
                            .skip_above = bad ? DBL_MIN : most_norm,
                            .loss_scale = s->loss_scale};
    if (gpt2_update(t->m, &u, &r->norm, e))
        return -1;
    if (overflowed(t, r))
        return 0;
    r->skipped = bad || !isfinite(r->norm) || (most_norm > 0 && r->norm > most_norm);
    if (!r->skipped) {
        spike_learn(s->spike_n, r->loss, &s->spike_mean_loss, &s->spike_var_loss);
        spike_learn(s->spike_n, r->norm, &s->spike_mean_norm, &s->spike_var_norm);
        s->spike_n++;
        s->updates++;
        s->skipped_in_row = 0;
        return 0;
    }
    s->skipped++;
    s->skipped_in_row++;
    if (t->c.spike_z > 0 && s->skipped_in_row < t->c.max_skips)
        return 0;
    t->ranks.agreed = true; /* from the same numbers on all ranks */
    return stop_sentence(t, r->step, r->loss, r->norm, e);
}

/* 0 done, 1 dropped by a signal. */
static int one_step(struct trainer *t, struct err *e)
{
    struct loader_batch b;
    struct train_state *s = &t->state;
    double before = clock_now(), stalled = -loader_stalled(t->loader);
    double waited = t->ranks.comm.waited;
    int rc = loader_next(t->loader, &b, e);
    if (rc <= 0)
        return rc < 0 ? -1
                      : err_set(e, "the loader ended before step %lld", (long long)s->step + 1);
    struct metrics_row r = {.step = b.step,
                            .tokens = b.step * t->c.batch * t->model.context,
                            .lr = schedule_lr(&t->c, b.step, t->steps),
                            .val_loss = NAN};
    stalled += loader_stalled(t->loader);
    rc = gradients(t, &b, &r.loss, &stalled, e);
    if (rc)
        return rc;
    if (isfinite(r.loss))
        t->finite_step = r.step;
    if (update(t, &r, e))
        return -1;
    s->step = r.step;
    s->tokens = r.tokens;
    s->last_loss = r.loss;
    if (isfinite(r.loss)) {
        s->interval_loss += r.loss;
        s->interval_steps++;
    }
    double seconds = clock_now() - before;
    r.ms = seconds * 1e3;
    r.ms_data = stalled * 1e3;
    r.ms_comm = (t->ranks.comm.waited - waited) * 1e3;
    r.tokens_per_s = (double)(t->c.batch * t->model.context) / seconds;
    r.seconds = s->seconds + clock_now() - t->counted;
    if (t->c.val_every > 0 && (s->step % t->c.val_every == 0 || s->step == t->steps)) {
        double began = clock_now();
        if (train_validate(t, e))
            return -1;
        r.val_loss = t->val_loss;
        r.ms_val = (clock_now() - began) * 1e3;
    }
    telemetry_step(&t->telemetry, &r, s->step == t->steps);
    char note[80];
    snprintf(note, sizeof note, "loss %.4f", r.loss);
    progress_set(&t->bar, (double)s->tokens, note);
    return ranks_first(&t->ranks) ? metrics_add(&t->metrics, &r, e) : 0;
}

/* ---- the loop ---- */

bool train_out_of_hours(const struct trainer *t)
{
    return t->c.max_hours > 0 && clock_now() - t->begun >= t->c.max_hours * 3600;
}

static int loop(struct trainer *t, struct err *e)
{
    int64_t every = t->c.checkpoint_every;
    while (t->state.step < t->steps) {
        if (one_step(t, e) < 0)
            return -1;
        int64_t step = t->state.step;
        bool regular = step == t->steps || (every > 0 && step % every == 0);
        if (!t->ranks.many)
            t->stop =
                (interrupt_raised() ? STOP_SIGNAL : 0) | (train_out_of_hours(t) ? STOP_HOURS : 0);
        t->interrupted = step < t->steps && t->stop;
        if (t->interrupted && step == 0)
            return err_code(e, EXIT_INCOMPLETE,
                            "interrupted in the first step: there is nothing to save yet");
        if ((regular || t->interrupted) && train_checkpoint(t, e))
            return -1;
        t->ranks.agreed = t->interrupted;
        if (t->interrupted)
            return err_code(
                e, EXIT_INCOMPLETE,
                "%s at step %lld of %lld; the checkpoint is whole, run it again to go on",
                t->stop & STOP_SIGNAL ? "interrupted" : "out of train.max_hours", (long long)step,
                (long long)t->steps);
    }
    return 0;
}

static int train_all(struct trainer *t, struct err *e)
{
    struct loader_options lo = {.batch = t->c.batch,
                                .context = t->model.context,
                                .vocab = t->model.vocab,
                                .first_step = t->state.step + 1,
                                .last_step = t->steps,
                                .seed = (uint64_t)t->c.seed,
                                .shuffle = t->c.shuffle};
    const char *path = path_join(&t->arena, t->o->out, "metrics.jsonl");
    ranks_part(&t->ranks, t->c.batch, &lo.lo, &lo.hi);
    double per_step = (double)(t->c.batch * t->model.context);
    if (!(t->loader = loader_open(&t->tokens, &lo, e)))
        return -1;
    telemetry_begin(&t->telemetry, &t->backend, t->o->hardware,
                    schedule_flops(&t->model, t->model.context), (int)t->c.precision,
                    t->ranks.meet.world);
    if (ranks_first(&t->ranks) &&
        (train_begin_segment(t, path, e) || metrics_open(&t->metrics, path, t->state.step, e)))
        return -1;
    t->begun = t->counted = clock_now();
    progress_begin(&t->bar, "train", "tokens", (double)t->steps * per_step,
                   (double)t->state.step * per_step);
    int rc = loop(t, e);
    progress_end(&t->bar);
    log_debug("this rank took %lld tokens out of the shards", (long long)loader_read(t->loader));
    return rc;
}

static void trainer_release(struct trainer *t)
{
    ranks_release(&t->ranks);
    loader_close(t->loader);
    metrics_close(&t->metrics);
    gpt2_free(t->m);
    backend_close(&t->backend);
    tokens_close(&t->tokens);
    tokens_close(&t->val);
    stage_release(&t->stage);
    file_unlock(&t->lock);
    free(t->loss);
    arena_release(&t->arena);
}

/* Of rank 0 that hangs in its device when another is gone. */
static void last_word(void *ctx, const struct err *why)
{
    const struct trainer *t = ctx;
    folder_failed(t->o->out, t->state.step, why);
}

int train_run(const struct train_options *o, struct err *e)
{
    struct trainer t = {.o = o, .model = o->run->model, .c = o->run->train};
    int rc = -1, fresh = 0, resumed = 0;
    bool began = false;
    if (ranks_join(&t.ranks, o->seat, "train", e) || train_prepare(&t, e) || train_same(&t, e))
        goto out;
    bool first = ranks_first(&t.ranks);
    if (first &&
        (stage_spare(&t.stage, e) || file_mkdirs(o->out, e) ||
         file_lock(&t.lock, path_join(&t.arena, o->out, ".lock"), false, e) || train_settle(&t, e)))
        goto out;
    fresh = first && stage_fresh(&t.stage);
    if (ranks_tell(&t.ranks, &fresh, sizeof fresh, e))
        goto out;
    if (fresh) {
        rc = EXIT_DONE;
        goto out;
    }
    if (train_open_model(&t, e) || (first && (resumed = train_start(&t, e)) < 0))
        goto out;
    began = first;
    if (first) {
        folder_begin(o->out);
        rendezvous_last_word(&t.ranks.meet, last_word, &t);
    }
    if (train_spread(&t, resumed, e) || train_all(&t, e) || (first && train_finish(&t, e)))
        goto out;
    rc = EXIT_DONE;
out:
    rc = ranks_end(&t.ranks, rc, e);
    if (rc < 0 && began)
        folder_failed(o->out, t.state.step, e);
    else if (rc < 0 && !(ranks_first(&t.ranks) && folder_refused(o->out, t.lock.held, e)) &&
             t.lock.held)
        folder_leave(o->out);
    trainer_release(&t);
    return rc;
}
