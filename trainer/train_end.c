/* train_end: what a run leaves behind: checkpoints, validation losses, the manifest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "trainer/checkpoint_io.h"
#include "trainer/schedule.h"
#include "trainer/train_folder.h"
#include "trainer/train_private.h"

int train_validate(struct trainer *t, struct err *e)
{
    int64_t T = t->model.context, n = t->micro;
    int32_t *window = mem_array((size_t)T + 1, sizeof *window);
    int32_t *ids = mem_array((size_t)(n * T), sizeof *ids);
    int32_t *targets = mem_array((size_t)(n * T), sizeof *targets);
    double sum = 0;
    int64_t lo, hi;
    int rc = -1;
    ranks_part(&t->ranks, t->val_windows, &lo, &hi);
    for (int64_t w = lo; w < hi; w += n) {
        int64_t rows = hi - w < n ? hi - w : n;
        for (int64_t i = 0; i < rows; i++) {
            if (tokens_get(&t->val, (w + i) * T, T + 1, t->model.vocab, window, e))
                goto out;
            memcpy(ids + i * T, window, (size_t)T * sizeof *ids);
            memcpy(targets + i * T, window + 1, (size_t)T * sizeof *ids);
        }
        if (gpt2_losses(t->m, ids, targets, rows, T, t->loss, e))
            goto out;
        for (int64_t k = 0; k < rows * T; k++)
            sum += t->loss[k];
    }
    if (ranks_sum(&t->ranks, &sum, 1, e))
        goto out;
    t->val_loss = sum / (double)(t->val_windows * T);
    t->val_step = t->state.step;
    rc = 0;
out:
    free(window);
    free(ids);
    free(targets);
    return rc;
}

/* Is this regular checkpoint the best so far: by validation if there is any, else by the mean
 * training loss since the one before. */
static int judge(struct trainer *t, struct err *e)
{
    struct train_state *s = &t->state;
    double loss = s->interval_steps ? s->interval_loss / (double)s->interval_steps : NAN;
    if (t->c.val_every > 0) {
        if (t->val_step != s->step && train_validate(t, e))
            return -1;
        loss = t->val_loss;
    }
    if (isfinite(loss) && (!s->best_step || loss < s->best_loss)) {
        s->best_step = s->step;
        s->best_loss = loss;
    }
    s->interval_loss = 0;
    s->interval_steps = 0;
    return 0;
}

int train_checkpoint(struct trainer *t, struct err *e)
{
    struct train_state *s = &t->state;
    const char *out = t->o->out, *dir = folder_step(&t->arena, out, s->step);
    int64_t eot = t->tokens.info.vocab_size ? t->tokens.info.eot : -1;
    if (!t->interrupted && judge(t, e))
        return -1;
    double now = clock_now();
    s->seconds += now - t->counted;
    t->counted = now;
    double energy = telemetry_used(&t->telemetry);
    if (train_checkpoint_agreed(t, &energy, e))
        return -1;
    s->energy_j += energy;
    if (!ranks_first(&t->ranks))
        return 0;
    struct checkpoint_made made = {.by = t->key,
                                   .options = json_get(t->stage.doc, "options"),
                                   .vocab_hash = t->tokens.info.vocab_hash};
    /* The journal first: it may know more steps than the newest checkpoint, never fewer. */
    if (metrics_sync(&t->metrics, e))
        return -1;
    if (file_is_dir(dir) && checkpoint_remove(dir, e))
        return -1;
    if (checkpoint_save(dir, t->m, eot, s, &made, e) || folder_links(out, s->step, s->best_step, e))
        return -1;
    if (t->interrupted)
        return 0;
    return folder_replaced(out, e) ||
                   folder_prune(out, t->c.checkpoint_every, t->steps, t->c.keep, s->best_step, e)
               ? -1
               : 0;
}

static void add_times(struct trainer *t, const struct metrics_row *r, size_t n)
{
    double *v = mem_array(n + 1, sizeof *v);
    double all = 0, data = 0;
    struct rusage use;
    for (size_t i = 0; i < n; i++) {
        v[i] = r[i].ms;
        all += r[i].ms;
        data += r[i].ms_data;
    }
    stage_volatile(&t->stage, "step_ms_p10", json_of_num(metrics_quantile(v, n, 0.1)));
    stage_volatile(&t->stage, "step_ms_p50", json_of_num(metrics_quantile(v, n, 0.5)));
    stage_volatile(&t->stage, "step_ms_p90", json_of_num(metrics_quantile(v, n, 0.9)));
    for (size_t i = 0; i < n; i++)
        v[i] = r[i].tokens_per_s;
    double rate = metrics_quantile(v, n, 0.5);
    free(v);
    stage_volatile(&t->stage, "tokens_per_second", json_of_num(rate));
    stage_volatile(&t->stage, "gflops",
                   json_of_num(rate * schedule_flops(&t->model, t->model.context) / 1e9));
    stage_volatile(&t->stage, "stall_share", json_of_num(all > 0 ? data / all : 0));
    telemetry_facts(&t->telemetry, &t->stage, t->state.energy_j, r, n, rate, t->ranks.meet.world);
    if (t->ranks.many) {
        stage_volatile(&t->stage, "comm", json_of_z(t->ranks.comm.ops->name));
        stage_volatile(&t->stage, "zero", json_of_int(t->c.zero));
    }
    stage_volatile(&t->stage, "ranks", json_of_int(t->ranks.meet.world));
    stage_volatile(&t->stage, "train_seconds", json_of_num(t->state.seconds));
    stage_volatile(&t->stage, "micro_batch", json_of_int(t->micro));
    stage_volatile(&t->stage, "backend", json_of_z(t->backend.ops->describe(&t->backend)));
    char started[32];
    struct clock *c = clock_system();
    clock_iso(c->wall(c) - (clock_now() - t->begun), started);
    stage_volatile(&t->stage, "started", json_of_z(started));
    if (getrusage(RUSAGE_SELF, &use) == 0)
        stage_volatile(&t->stage, "peak_rss", json_of_int((int64_t)use.ru_maxrss * 1024));
}

/* A summary of the curve: the whole of it stays in metrics.jsonl. */
static struct json *curve(const struct metrics_row *r, size_t n)
{
    struct json *o = json_obj();
    double least = INFINITY, tail = 0;
    size_t at = 0, last = n / 10 ? n / 10 : 1;
    for (size_t i = 0; i < n; i++)
        if (r[i].loss < least) {
            least = r[i].loss;
            at = i;
        }
    for (size_t i = n > last ? n - last : 0; i < n; i++)
        tail += r[i].loss;
    json_put(o, "first_loss", json_of_num(n ? r[0].loss : NAN));
    json_put(o, "least_loss", json_of_num(n ? least : NAN));
    json_put(o, "least_step", json_of_int(n ? r[at].step : 0));
    json_put(o, "last_tenth_loss", json_of_num(n ? tail / (double)(n < last ? n : last) : NAN));
    return o;
}

int train_finish(struct trainer *t, struct err *e)
{
    const struct train_state *s = &t->state;
    struct arena a = {0};
    const char *out = t->o->out, *dir = folder_step(&a, out, s->step);
    struct metrics_row *rows;
    size_t n;
    int rc = -1;
    if (!isfinite(s->last_loss)) {
        err_set(e,
                "step %lld, the last: the loss is %g, so the run is no good; lower train.lr, or "
                "raise train.warmup",
                (long long)s->step, fabs(s->last_loss));
        goto out;
    }
    if (metrics_read(path_join(&a, out, "metrics.jsonl"), &rows, &n, &a, e))
        goto out;
    if ((int64_t)n != s->step) {
        err_set(e, "%s/metrics.jsonl has %zu of %lld steps", out, n, (long long)s->step);
        goto out;
    }
    stage_fact(&t->stage, "parameters", json_of_int(params_count(&t->model)));
    stage_fact(&t->stage, "steps", json_of_int(s->step));
    stage_fact(&t->stage, "tokens", json_of_int(s->tokens));
    stage_fact(&t->stage, "seed", json_of_int(t->c.seed));
    stage_fact(&t->stage, "loss", json_of_num(s->last_loss));
    stage_fact(&t->stage, "skipped", json_of_int(s->skipped));
    stage_fact(&t->stage, "overflows", json_of_int(s->overflows));
    stage_fact(&t->stage, "best_step", json_of_int(s->best_step));
    stage_fact(&t->stage, "best_loss", json_of_num(s->best_step ? s->best_loss : NAN));
    stage_fact(&t->stage, "best_by",
               json_of_z(t->c.val_every > 0 ? "val_loss" : "mean training loss of the interval"));
    stage_fact(&t->stage, "windows", json_of_int(loader_windows(t->tokens.n, t->model.context)));
    stage_fact(&t->stage, "flops_token", json_of_num(schedule_flops(&t->model, t->model.context)));
    stage_fact(&t->stage, "curve", curve(rows, n));
    if (t->c.val_every > 0) {
        stage_fact(&t->stage, "val_loss", json_of_num(rows[n - 1].val_loss));
        stage_fact(&t->stage, "val_windows", json_of_int(t->val_windows));
    }
    add_times(t, rows, n);
    if (stage_output(&t->stage, path_join(&a, dir, "model.safetensors"), e) ||
        stage_output(&t->stage, path_join(&a, dir, "config.json"), e) || stage_end(&t->stage, e))
        goto out;
    log_info("loss %.4f after %lld steps, %lld tokens; %s", s->last_loss, (long long)s->step,
             (long long)s->tokens, dir);
    rc = 0;
out:
    arena_release(&a);
    return rc;
}
