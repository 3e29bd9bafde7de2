/* train_open: what is decided before the first step: options and their key, the model on its device,
 * where a folder's run goes on.
 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "trainer/checkpoint_io.h"
#include "trainer/schedule.h"
#include "trainer/segments.h"
#include "trainer/step.h"
#include "trainer/train_folder.h"
#include "trainer/train_private.h"

#define STAGE_VERSION 1

/* ---- what is decided before anything runs ---- */

int train_config_check(const struct train_config *c, struct err *e)
{
    if (c->stochastic_rounding && c->precision < PRECISION_BF16)
        return err_code(e, EXIT_USAGE, "train.stochastic_rounding is of bf16 and fp16, not of %s",
                        precision_names[c->precision]);
    return 0;
}

int64_t train_tokens(const struct model_config *m, const struct train_config *c, struct err *e)
{
    int64_t tokens, step = c->batch * m->context;
    if (schedule_tokens(c->tokens, params_count(m), &tokens, e))
        return -1;
    return schedule_steps(tokens, c->batch, m->context) * step;
}

struct gpt2_use train_use(const struct model_config *m, const struct train_config *c,
                          const struct backend_prefers *prefers, int64_t micro)
{
    return (struct gpt2_use){
        .batch = micro,
        .length = m->context,
        .train = true,
        .grain = prefers->grain_rows ? step_sequences(prefers->grain_rows, m->context) : 0,
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
    struct gpt2_use use = train_use(m, c, prefers, 1);
    return step_micro(m, &use, c->batch, c->micro_batch, free_bytes, e);
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

int train_prepare(struct trainer *t, struct err *e)
{
    if (t->model.from.n)
        return err_code(e, EXIT_USAGE, "model.from = %.*s: there is nothing to pre-train",
                        STR_ARG(t->model.from));
    if (train_config_check(&t->c, e) ||
        backend_takes(str_dup(&t->arena, t->c.backend), t->model.width, t->model.heads, e) ||
        tokens_open(&t->tokens, t->o->shards, "train", e) || resolve_vocab(t, e))
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

/* ---- where it starts ---- */

int train_open_model(struct trainer *t, struct err *e)
{
    const char *name = str_dup(&t->arena, t->c.backend);
    /* Of several ranks each takes its part of the step. */
    struct train_config own = t->c;
    own.batch = step_share(&t->ranks, t->c.batch);
    own.ranks = t->ranks.many ? t->ranks.meet.world : 1;
    if (step_backend(&t->backend, &t->ranks, name, t->c.threads, t->c.precision, "train.precision",
                     e))
        return -1;
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
    t->finite_step = isfinite(found->last_loss) ? found->step : 0;
    gpt2_refresh(t->m, found->updates);
    log_info("going on from step %lld of %lld (%s)", (long long)found->step, (long long)t->steps,
             dir);
    /* A kill may have come between the folder's rename and the links, or before an older one went:
     * behind the last step nothing else would take that away. */
    bool last = found->step == t->steps;
    if (folder_links(t->o->out, found->step, found->best_step, e) ||
        (last &&
         folder_prune(t->o->out, t->c.checkpoint_every, t->steps, t->c.keep, found->best_step, e)))
        return -1;
    return 1;
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

int train_settle(struct trainer *t, struct err *e)
{
    struct train_state found = {0};
    struct err ignored;
    bool goes_on = folder_newest(t->o->out, &found, &t->arena, &ignored) > 0 &&
                   str_eqz(found.config_key, t->key);
    bool done = goes_on && (found.step == t->steps ||
                            file_exists(path_join(&t->arena, t->o->out, "manifest.json")));
    return folder_settle(t->o->out, goes_on, e) || (done && folder_replaced(t->o->out, e)) ? -1 : 0;
}

/* The run that is in the folder stays until this one has a checkpoint. */
static int put_aside(struct trainer *t, int64_t step, struct err *e)
{
    char why[400] = "";
    if (step)
        checkpoint_differs(folder_step(&t->arena, t->o->out, step),
                           json_get(t->stage.doc, "options"), why, sizeof why);
    log_warn(
        "%s holds step %lld of a run with other %s%s; starting over. It is kept until this run's "
        "first checkpoint: stop before that, train with its options, and it is back",
        t->o->out, (long long)step, why[0] ? "options: " : "options or data", why);
    return folder_put_aside(t->o->out, e);
}

int train_start(struct trainer *t, struct err *e)
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
    bool other = !same && (have || file_exists(path_join(&t->arena, t->o->out, "manifest.json")));
    if ((other && put_aside(t, found.step, e)) || stage_start(&t->stage, e) ||
        checkpoint_sweep(t->o->out, e))
        return -1;
    if (same)
        return load_checkpoint(t, &found, e);
    t->state.config_key = str_copy(&t->arena, str_z(t->key));
    if (t->c.precision == PRECISION_FP16) {
        struct scaler k;
        scaler_start(&k);
        t->state.loss_scale = k.scale;
    }
    return folder_clear(t->o->out, e) || gpt2_init(t->m, (uint64_t)t->c.seed, e) ? -1 : 0;
}

int train_begin_segment(struct trainer *t, const char *journal, struct err *e)
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
    const char *backend = t->backend.ops->name, *card = t->telemetry.device;
    if (h && !hardware_is_of(h, str_z(backend)))
        log_warn("hardware file %.*s names %lld x %.*s (backend = %s), this run is on %s: no MFU, "
                 "no price and no cost are taken from it",
                 STR_ARG(h->name), (long long)h->count, STR_ARG(h->device),
                 hardware_backends[h->backend], backend);
    else if (h && !hardware_is_card(h, str_z(card)))
        log_warn(
            "hardware file %.*s is of %.*s (driver_name = %.*s), this run is on %s: no peak, no "
            "price and no cost are taken from it",
            STR_ARG(h->name), STR_ARG(h->device), STR_ARG(h->driver_name), card);
    else if (h)
        s.hardware = *h;
    return segments_add(t->o->out, &s, last, t->state.seconds, e);
}
