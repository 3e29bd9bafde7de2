/* train: the loop of pre-training, see train.h. Checkpoints, validation and the manifest are in
 * train_end.c.
 */
#include "trainer/train.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "trainer/checkpoint_io.h"
#include "trainer/scaler.h"
#include "trainer/schedule.h"
#include "trainer/segments.h"
#include "trainer/train_folder.h"
#include "trainer/train_private.h"

#define STAGE_VERSION 1
/* Steps over which spikes are judged, and before which nothing is called a spike. */
#define SPIKE_WINDOW 128
#define SPIKE_LEARN  50

/* ---- what is decided before anything runs ---- */

int64_t train_tokens(const struct model_config *m, const struct train_config *c, struct err *e)
{
    int64_t tokens, step = c->batch * m->context;
    if (schedule_tokens(c->tokens, params_count(m), &tokens, e))
        return -1;
    return schedule_steps(tokens, c->batch, m->context) * step;
}

/* Sequences that reach this many rows, one at least. */
static int64_t sequences(int64_t rows, int64_t context)
{
    return context < rows ? rows / context : 1;
}

struct gpt2_use train_use(const struct model_config *m, const struct train_config *c,
                          const struct backend_prefers *prefers, int64_t micro)
{
    return (struct gpt2_use){
        .batch = micro,
        .length = m->context,
        .train = true,
        .grain = prefers->grain_rows ? sequences(prefers->grain_rows, m->context) : 0,
        .precision = c->precision,
        .recompute = c->recompute,
        .stochastic = c->stochastic_rounding,
        .seed = (uint64_t)c->seed,
        .prefers = prefers,
        .ranks = (int)c->ranks,
        .zero = c->zero != 0,
    };
}

int64_t train_micro_batch(const struct model_config *m, const struct train_config *c,
                          int64_t free_bytes, const struct backend_prefers *prefers, struct err *e)
{
    int64_t n = c->micro_batch > 0 && c->micro_batch < c->batch ? c->micro_batch : c->batch;
    int64_t grain = train_use(m, c, prefers, 1).grain;
    struct gpt2_plan plan;
    char text[256], room[32];
    if (!c->micro_batch && prefers->pass_rows && n * m->context > prefers->pass_rows)
        n = sequences(prefers->pass_rows, m->context);
    grain = grain ? grain : 1;
    if (free_bytes >= 0)
        free_bytes = free_bytes > prefers->reserve ? free_bytes - prefers->reserve : 0;
    for (n = (n + grain - 1) / grain * grain;; n -= grain) {
        int64_t micro = n < c->batch ? n : c->batch;
        struct gpt2_use use = train_use(m, c, prefers, micro);
        gpt2_plan(m, &use, &plan);
        if (free_bytes < 0 || plan.total <= free_bytes)
            return micro;
        if (n <= grain || c->micro_batch)
            break;
    }
    gpt2_plan_text(&plan, text, sizeof text);
    gpt2_size_text(free_bytes, room);
    return err_set(e, "training %lld sequence%s of %lld at once needs %s, but %s are free",
                   (long long)n, n == 1 ? "" : "s", (long long)m->context, text, room);
}

/* Options that change no number are out of the key. */
static struct train_config deciding(const struct train_config *c)
{
    struct train_config d = *c;
    d.threads = d.micro_batch = 0;
    d.recompute = RECOMPUTE_NONE;
    d.keep = 1;
    d.ranks = 0;
    d.max_hours = 0;
    d.backend = d.comm = (struct str){0};
    d.zero = 0;
    return d;
}

static int make_key(struct trainer *t, struct err *e)
{
    struct train_config d = deciding(&t->c);
    struct buf text = {0};
    char data[SHA256_HEX];
    if (manifest_hash(t->o->shards, data, e))
        return -1;
    schema_canonical(&model_config_schema, &t->model, &text);
    schema_canonical(&train_config_schema, &d, &text);
    buf_printf(&text, "shards = %s\nversion = %d\n", data, STAGE_VERSION);
    sha256_hex(buf_str(&text), t->key);
    buf_release(&text);
    stage_begin(&t->stage, "train", STAGE_VERSION, t->o->out, NULL, NULL);
    stage_options(&t->stage, "model", &model_config_schema, &t->model);
    stage_options(&t->stage, "train", &train_config_schema, &d);
    t->state.data_hash = str_copy(&t->arena, str_z(data));
    return stage_input(&t->stage, t->o->shards, e);
}

static int resolve_vocab(struct trainer *t, struct err *e)
{
    int64_t have = t->tokens.info.vocab_size;
    if (!t->model.vocab && !have)
        return err_code(e, EXIT_USAGE, "%s does not say its vocabulary's size: set model.vocab",
                        t->o->shards);
    if (!t->model.vocab)
        t->model.vocab = have;
    if (have > t->model.vocab)
        return err_code(e, EXIT_USAGE, "model.vocab = %lld, but the vocabulary of %s has %lld",
                        (long long)t->model.vocab, t->o->shards, (long long)have);
    return model_config_check(&t->model, e);
}

static int prepare(struct trainer *t, struct err *e)
{
    if (t->model.from.n)
        return err_code(e, EXIT_USAGE, "model.from = %.*s: there is nothing to pre-train",
                        STR_ARG(t->model.from));
    if (t->c.stochastic_rounding && t->c.precision < PRECISION_BF16)
        return err_code(e, EXIT_USAGE, "train.stochastic_rounding is of bf16 and fp16, not of %s",
                        precision_names[t->c.precision]);
    if (tokens_open(&t->tokens, t->o->shards, "train", e) || resolve_vocab(t, e))
        return -1;
    int64_t tokens = train_tokens(&t->model, &t->c, e);
    if (tokens < 0)
        return -1;
    t->steps = tokens / (t->c.batch * t->model.context);
    if (t->c.val_every > 0) {
        if (tokens_open(&t->val, t->o->shards, "test", e))
            return err_wrap(e, "train.val_every");
        int64_t want = (t->c.val_tokens + t->model.context - 1) / t->model.context;
        t->val_windows = loader_windows(t->val.n, t->model.context);
        if (t->val_windows < 1)
            return err_set(e, "train.val_every: the test split has no whole window");
        if (want > 0 && want < t->val_windows)
            t->val_windows = want;
    }
    return make_key(t, e);
}

/* Of several ranks each takes its part of the step, and of the cores of its machine. */
static struct train_config own_part(const struct trainer *t)
{
    struct train_config c = t->c;
    int world = t->ranks.many ? t->ranks.meet.world : 1;
    c.batch = (c.batch + world - 1) / world;
    c.ranks = world;
    if (t->ranks.many && !c.threads) {
        c.threads = thread_cpus() / t->ranks.meet.local_world;
        c.threads = c.threads > 0 ? c.threads : 1;
    }
    return c;
}

/* ---- where it starts ---- */

static int open_model(struct trainer *t, struct err *e)
{
    const char *name = str_dup(&t->arena, t->c.backend);
    struct train_config own = own_part(t);
    int device = strcmp(name, "cpu") == 0 ? 0 : t->ranks.meet.local;
    if (backend_open(&t->backend, name, device, (int)own.threads, e))
        return -1;
    if (gpt2_precision(&t->backend, t->c.precision, e))
        return err_wrap(e, "train.precision");
    const struct backend_prefers *prefers = backend_prefers(t->backend.ops->name);
    t->micro =
        train_micro_batch(&t->model, &own, t->backend.ops->memory_free(&t->backend), prefers, e);
    if (t->micro < 0)
        return -1;
    struct gpt2_use use = train_use(&t->model, &own, prefers, t->micro);
    use.rank = t->ranks.meet.rank;
    struct gpt2_plan plan;
    char text[256];
    gpt2_plan(&t->model, &use, &plan);
    gpt2_plan_text(&plan, text, sizeof text);
    if (!(t->m = gpt2_new(&t->backend, &t->model, &use, e)))
        return -1;
    t->loss = mem_array((size_t)(t->micro * t->model.context), sizeof *t->loss);
    log_info("%.1fM parameters, %lld steps of %lld x %lld tokens, %lld sequences at once, %s",
             (double)params_count(&t->model) / 1e6, (long long)t->steps, (long long)t->c.batch,
             (long long)t->model.context, (long long)t->micro, text);
    log_info("on %s", t->backend.ops->describe(&t->backend));
    return ranks_open(&t->ranks, str_dup(&t->arena, t->c.comm), &t->backend, t->m, e);
}

static int load_checkpoint(struct trainer *t, const struct train_state *found, struct err *e)
{
    const char *dir = folder_step(&t->arena, t->o->out, found->step);
    if (gpt2_load(t->m, dir, e) || (!t->ranks.many && checkpoint_load_moments(dir, t->m, e)))
        return -1;
    t->state = *found;
    gpt2_refresh(t->m, found->updates);
    log_info("going on from step %lld of %lld (%s)", (long long)found->step, (long long)t->steps,
             dir);
    /* A kill may have come between the folder's rename and the links. */
    return folder_links(t->o->out, found->step, found->best_step, e) ? -1 : 1;
}

/* --resume of a checkpoint that is of another run: refused by name. */
static int other_run(struct trainer *t, int64_t step, struct err *e)
{
    char why[400];
    checkpoint_differs(folder_step(&t->arena, t->o->out, step), json_get(t->stage.doc, "options"),
                       why, sizeof why);
    return err_set(e,
                   "--resume: the checkpoint of step %lld in %s was made with other %s%s; train "
                   "without --resume starts over",
                   (long long)step, t->o->out, why[0] ? "options: " : "data or options", why);
}

/* On rank 0: 1 goes on from a checkpoint, 0 afresh, -1 error. */
static int start(struct trainer *t, struct err *e)
{
    struct train_state found = {0};
    int have = folder_newest(t->o->out, &found, &t->arena, e);
    if (have < 0)
        return -1;
    bool same = have && str_eqz(found.config_key, t->key);
    if (t->o->resume && !have)
        return err_set(e, "--resume: %s holds no checkpoint", t->o->out);
    if (t->o->resume && !same)
        return other_run(t, found.step, e);
    if (stage_start(&t->stage, e) || checkpoint_sweep(t->o->out, e))
        return -1;
    if (same)
        return load_checkpoint(t, &found, e);
    if (have)
        log_warn("%s held step %lld of a run with other options or data; starting over", t->o->out,
                 (long long)found.step);
    t->state.config_key = str_copy(&t->arena, str_z(t->key));
    if (t->c.precision == PRECISION_FP16) {
        struct scaler k;
        scaler_start(&k);
        t->state.loss_scale = k.scale;
    }
    return folder_clear(t->o->out, e) || gpt2_init(t->m, (uint64_t)t->c.seed, e) ? -1 : 0;
}

/* ---- one step ---- */

/* 0 done; 1 when a signal came between two micro-batches: the step is dropped, it changed nothing. */
static int gradients(struct trainer *t, const struct loader_batch *b, double *loss, double *stalled,
                     struct err *e)
{
    int64_t T = t->model.context, valid = t->c.batch * T, lo, hi;
    double sum = 0;
    ranks_part(&t->ranks, t->c.batch, &lo, &hi);
    gpt2_zero_grad(t->m);
    if (t->ranks.many)
        reducer_begin(t->ranks.reduce);
    for (int64_t i = lo; i < hi; i += t->micro) {
        int64_t n = hi - i < t->micro ? hi - i : t->micro;
        if (i > 0 && !t->ranks.many && interrupt_raised())
            return 1;
        struct gpt2_batch g = {.ids = b->ids + i * T,
                               .targets = b->targets + i * T,
                               .seq = b->seq + i,
                               .B = n,
                               .T = T,
                               .valid_total = valid,
                               .seed = (uint64_t)t->c.seed,
                               .step = (uint64_t)b->step,
                               .loss_scale = t->state.loss_scale,
                               .last = i + n >= hi};
        if (gpt2_grad(t->m, &g, t->loss, e))
            return -1;
        for (int64_t k = 0; k < n * T; k++)
            sum += t->loss[k];
    }
    if (train_step_agreed(t, &sum, stalled, e))
        return -1;
    *loss = sum / (double)valid;
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

static int stop_sentence(const struct trainer *t, int64_t step, double loss, double norm,
                         struct err *e)
{
    char last[600] = "there is no checkpoint yet";
    struct i64s steps = {0};
    struct arena a = {0};
    struct err ignored;
    if (folder_list(t->o->out, &steps, &a, &ignored) == 0 && steps.n)
        snprintf(last, sizeof last, "the last good checkpoint is %s",
                 folder_step(&a, t->o->out, steps.v[steps.n - 1]));
    arena_release(&a);
    if (t->c.spike_z > 0)
        return err_set(e, "step %lld: %lld updates in a row were skipped (loss %g, norm %g); %s",
                       (long long)step, (long long)t->state.skipped_in_row, fabs(loss), fabs(norm),
                       last);
    return err_set(e,
                   "step %lld: the loss is %g and the gradient's norm %g; nothing of it went into "
                   "the weights; %s",
                   (long long)step, fabs(loss), fabs(norm), last); /* fabs: "nan", never "-nan" */
}

/* fp16: true when the step is left out because its gradients were scaled beyond what the format
 * holds. What the least scale does not help is the caller's. */
static bool overflowed(struct trainer *t, struct metrics_row *r)
{
    struct train_state *s = &t->state;
    struct scaler k = {s->loss_scale, s->loss_scale_good, s->overflows};
    if (!(s->loss_scale > 0))
        return false;
    r->loss_scale = k.scale;
    r->overflow = scaler_take(&k, isfinite(r->norm), t->c.loss_scale_every) == SCALER_OVERFLOW;
    s->loss_scale = k.scale;
    s->loss_scale_good = k.good;
    s->overflows = k.overflows;
    return r->overflow;
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

/* Which machine makes the steps from here on. Called while the journal still has the steps behind the
 * checkpoint, which a kill took. */
static int begin_segment(struct trainer *t, const char *journal, struct err *e)
{
    struct segment s = {.step = t->state.step, .tokens = t->state.tokens};
    struct metrics_row *rows;
    struct err ignored;
    double last = 0;
    char host[256] = "", now[32];
    size_t n;
    if (t->state.step && !metrics_read(journal, &rows, &n, &t->arena, &ignored) && n)
        last = rows[n - 1].seconds;
    gethostname(host, sizeof host - 1);
    clock_iso(clock_system()->wall(clock_system()), now);
    s.host = str_z(host);
    s.started = str_z(now);
    s.backend = str_z(t->backend.ops->describe(&t->backend));
    const struct hardware *h = t->o->hardware;
    const char *backend = t->backend.ops->name;
    if (h && hardware_is_of(h, str_z(backend)))
        s.hardware = *h;
    else if (h)
        log_warn("hardware file %.*s names %lld x %.*s (backend = %s), this run is on %s: no MFU, "
                 "no price and no cost are taken from it",
                 STR_ARG(h->name), (long long)h->count, STR_ARG(h->device),
                 hardware_backends[h->backend], backend);
    return segments_add(t->o->out, &s, last, t->state.seconds, e);
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
    double per_step = (double)(t->c.batch * t->model.context);
    if (!(t->loader = loader_open(&t->tokens, &lo, e)))
        return -1;
    if (ranks_first(&t->ranks) &&
        (begin_segment(t, path, e) || metrics_open(&t->metrics, path, t->state.step, e)))
        return -1;
    t->begun = t->counted = clock_now();
    telemetry_begin(&t->telemetry, &t->backend, t->o->hardware,
                    schedule_flops(&t->model, t->model.context), t->ranks.meet.world);
    progress_begin(&t->bar, "train", "tokens", (double)t->steps * per_step,
                   (double)t->state.step * per_step);
    int rc = loop(t, e);
    progress_end(&t->bar);
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

int train_run(const struct train_options *o, struct err *e)
{
    struct trainer t = {.o = o, .model = o->run->model, .c = o->run->train};
    int rc = -1, fresh = 0, resumed = 0;
    bool began = false;
    if (ranks_join(&t.ranks, o->seat, "train", e) || prepare(&t, e) || train_same(&t, e))
        goto out;
    bool first = ranks_first(&t.ranks);
    if (first && (stage_spare(&t.stage, e) || file_mkdirs(o->out, e) ||
                  file_lock(&t.lock, path_join(&t.arena, o->out, ".lock"), false, e)))
        goto out;
    fresh = first && stage_fresh(&t.stage);
    if (ranks_tell(&t.ranks, &fresh, sizeof fresh, e))
        goto out;
    if (fresh) {
        rc = EXIT_DONE;
        goto out;
    }
    if (open_model(&t, e) || (first && (resumed = start(&t, e)) < 0))
        goto out;
    began = first;
    if (first)
        folder_begin(o->out);
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
