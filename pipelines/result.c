/* result: a run folder collected, see result.h. Paths are those that pipelines/stages.c writes. */
#include "pipelines/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stream.h"
#include "formats/shard.h"
#include "pipelines/money.h"
#include "pipelines/result_segments.h"
#include "pipelines/stages.h"
#include "scoring/scorer.h"
#include "trainer/gpt2.h"

enum { CURVE_POINTS = 1000 };

struct collector {
    struct result *r;
    const char *dir, *data_dir;
    struct stage *st;
    struct arena *a;
    double eval_seconds;
    struct str backend, device; /* that trained; empty: not told */
    int64_t ranks;
    struct buf missing; /* names of artefacts that the run file asks for and the folder lacks */
};

static void miss(struct collector *c, const char *name)
{
    buf_printf(&c->missing, "%s%s", c->missing.n ? ", " : "", name);
}

static const char *in_run(struct collector *c, const char *name)
{
    return path_join(c->a, c->dir, name);
}

/* The manifest of an artefact, registered as an input of the result. */
static struct json *take_manifest(struct collector *c, const char *artefact, struct err *e)
{
    struct json *m = manifest_read(artefact, e);
    if (!m)
        return NULL;
    if (stage_input(c->st, artefact, e) != 0) {
        json_free(m);
        return NULL;
    }
    return m;
}

static double fact(const struct json *m, const char *name)
{
    const struct json *v = json_get(json_get(m, "facts"), name);
    return json_num(v ? v : json_get(json_get(m, "volatile"), name));
}

static struct str fact_str(struct collector *c, const struct json *m, const char *name)
{
    const struct json *v = json_get(json_get(m, "facts"), name);
    return str_copy(c->a, json_str(v ? v : json_get(json_get(m, "volatile"), name)));
}

static int64_t fact_int(const struct json *m, const char *name)
{
    return json_int(json_get(json_get(m, "facts"), name), 0);
}

/* ---- the curve, from metrics.jsonl -------------------------------------------------------------- */

struct curve_row {
    double step, tokens, loss, lr, norm, seconds;
};

static int curve_read(const char *path, struct curve_row **rows, size_t *n, struct err *e)
{
    struct stream *s = stream_open(path, e);
    struct buf line = {0};
    size_t cap = 0;
    int got = -1;
    *rows = NULL;
    *n = 0;
    if (!s)
        return -1;
    while ((got = stream_line(s, &line, 1 << 20, e)) == 1) {
        struct err ignored;
        struct json *j = json_parse(buf_str(&line), &ignored);
        if (!j) /* a torn tail of a killed run */
            continue;
        struct curve_row row = {json_num(json_get(j, "step")), json_num(json_get(j, "tokens")),
                                json_num(json_get(j, "loss")), json_num(json_get(j, "lr")),
                                json_num(json_get(j, "norm")), json_num(json_get(j, "seconds"))};
        json_free(j);
        if (isnan(row.step) || isnan(row.loss))
            continue;
        if (*n == cap)
            *rows = mem_grow(*rows, (cap = cap ? 2 * cap : 1024) * sizeof **rows);
        (*rows)[(*n)++] = row;
    }
    buf_release(&line);
    stream_close(s);
    return got < 0 ? -1 : 0;
}

/* Thinned to at most CURVE_POINTS: means over equal runs of steps, so that no spike is lost. */
static void curve_thin(struct collector *c, const struct curve_row *rows, size_t n)
{
    struct result_curve *v = &c->r->curve;
    size_t per = (n + CURVE_POINTS - 1) / CURVE_POINTS, m = per ? (n + per - 1) / per : 0;
    v->step = (struct i64s){arena_array(c->a, m, 8), m};
    v->tokens = (struct i64s){arena_array(c->a, m, 8), m};
    v->loss = (struct f64s){arena_array(c->a, m, 8), m};
    v->lr = (struct f64s){arena_array(c->a, m, 8), m};
    v->norm = (struct f64s){arena_array(c->a, m, 8), m};
    v->seconds = (struct f64s){arena_array(c->a, m, 8), m};
    for (size_t i = 0; i < m; i++) {
        size_t from = i * per, to = from + per < n ? from + per : n;
        double loss = 0, norm = 0;
        for (size_t k = from; k < to; k++) {
            loss += rows[k].loss;
            norm += rows[k].norm;
        }
        const struct curve_row *last = &rows[to - 1];
        v->step.v[i] = (int64_t)last->step;
        v->tokens.v[i] = isnan(last->tokens) ? 0 : (int64_t)last->tokens;
        v->loss.v[i] = loss / (double)(to - from);
        v->norm.v[i] = norm / (double)(to - from);
        v->lr.v[i] = last->lr;
        v->seconds.v[i] = last->seconds;
    }
}

/* ---- the parts of a run ------------------------------------------------------------------------- */

static int collect_curve(struct collector *c, const char *dir, struct err *e)
{
    struct curve_row *rows;
    size_t n;
    if (curve_read(path_join(c->a, dir, "metrics.jsonl"), &rows, &n, e) != 0)
        return -1;
    curve_thin(c, rows, n);
    free(rows);
    return 0;
}

static int collect_pretrain(struct collector *c, struct err *e)
{
    struct result *r = c->r;
    const char *dir = in_run(c, "pretrain");
    if (r->config.model.from.n)
        return 0; /* started at a checkpoint: nothing was trained here */
    if (!file_exists(manifest_path(c->a, dir))) { /* killed or still running: its curve is there */
        miss(c, "pretrain");
        r->parameters = params_count(&r->config.model);
        return file_exists(path_join(c->a, dir, "metrics.jsonl")) ? collect_curve(c, dir, e) : 0;
    }
    struct json *m = take_manifest(c, dir, e);
    if (!m)
        return -1;
    r->steps = fact_int(m, "steps");
    r->skipped = fact_int(m, "skipped");
    r->overflows = fact_int(m, "overflows");
    r->tokens = fact_int(m, "tokens");
    r->parameters = fact_int(m, "parameters");
    r->timing.train_seconds = fact(m, "train_seconds");
    r->timing.tokens_per_second = fact(m, "tokens_per_second");
    r->timing.step_ms_p10 = fact(m, "step_ms_p10");
    r->timing.step_ms_p50 = fact(m, "step_ms_p50");
    r->timing.step_ms_p90 = fact(m, "step_ms_p90");
    r->timing.stall_share = fact(m, "stall_share");
    r->timing.mfu = fact(m, "mfu");
    r->timing.comm_share = fact(m, "comm_share");
    r->timing.energy_j = fact(m, "energy_j");
    double rss = fact(m, "peak_rss");
    r->timing.peak_rss = isnan(rss) ? FIELD_NONE_I64 : (int64_t)rss;
    r->software.backend = fact_str(c, m, "backend");
    c->backend = fact_str(c, m, "backend_name");
    c->device = fact_str(c, m, "device");
    if (str_eqz(c->device, "unknown"))
        c->device = (struct str){0};
    double ranks = fact(m, "ranks");
    c->ranks = ranks > 0 ? (int64_t)ranks : 0;
    r->started = fact_str(c, m, "started");
    json_free(m);
    return collect_curve(c, dir, e);
}

/* The hash of the items that are answered, from the folder's manifest: the file may be elsewhere. */
static int instruct_hash(struct collector *c, const char *data, struct err *e)
{
    struct json *m = manifest_read(data, e);
    if (!m)
        return -1;
    const struct json *out = json_get(m, "outputs");
    for (size_t i = 0; i < json_size(out); i++)
        if (str_eqz(json_str(json_get(json_at(out, i), "path")), "instruct_test.msgpack"))
            c->r->data.instruct_hash =
                str_copy(c->a, json_str(json_get(json_at(out, i), "sha256")));
    json_free(m);
    return 0;
}

/* From manifests alone, so that a run whose data lie on another machine can be collected. */
static int collect_data(struct collector *c, struct err *e)
{
    struct result_data *d = &c->r->data;
    const struct run *cfg = &c->r->config;
    char hex[SHA256_HEX];
    const char *data = path_join(c->a, c->data_dir, "data");
    if (file_exists(manifest_path(c->a, data))) {
        if (manifest_hash(data, hex, e) != 0)
            return -1;
        d->data_hash = str_z(arena_strdup(c->a, hex));
        if (instruct_hash(c, data, e) != 0)
            return -1;
    }
    const char *shards = path_join(c->a, c->data_dir, "shards");
    if (cfg->data.kind == DATA_SHARDS || !file_exists(manifest_path(c->a, shards)))
        return 0;
    struct shard_info t;
    struct json *m = manifest_read(shards, e);
    if (!m || json_to_struct(&shard_info_schema, &t, json_get(m, "facts"), c->a, e) != 0) {
        json_free(m);
        return err_wrap(e, "%s", shards);
    }
    json_free(m);
    d->vocab_hash = t.vocab_hash;
    d->text_hash = t.text_hash;
    d->vocab_size = t.vocab_size;
    d->train_tokens = t.train_tokens;
    d->test_tokens = t.test_tokens;
    d->train_docs = t.train_docs;
    d->test_docs = t.test_docs;
    d->train_bytes = t.train_bytes;
    d->test_bytes = t.test_bytes;
    return 0;
}

static int collect_loss(struct collector *c, struct metrics *m, const char *task, struct err *e)
{
    const char *path = in_run(c, arena_printf(c->a, "eval/%s.msgpack", task));
    if (!file_exists(path)) {
        miss(c, arena_printf(c->a, "eval/%s", task));
        return 0;
    }
    struct json *man = take_manifest(c, path, e);
    if (!man)
        return -1;
    c->eval_seconds += fact(man, "seconds");
    json_free(man);
    return metrics_add_loss(m, task, path, e);
}

static int collect_choice(struct collector *c, struct metrics *m, struct str entry, struct err *e)
{
    const char *name = stages_task_name(str_cut(&entry, '='), c->a);
    const char *path = in_run(c, arena_printf(c->a, "eval/%s.msgpack", name));
    if (!file_exists(path)) {
        miss(c, arena_printf(c->a, "eval/%s", name));
        return 0;
    }
    struct json *man = take_manifest(c, path, e);
    if (!man)
        return -1;
    c->eval_seconds += fact(man, "seconds");
    json_free(man);
    return metrics_add_choice(m, name, path,
                              in_run(c, arena_printf(c->a, "eval/%s.items.msgpack", name)), e);
}

/* Scores of one kind over the fine-tuning seeds: scores/NAME-SEED.msgpack, or for a judge the folder
 * scores/judge-SEED with scores.msgpack in it. */
static int collect_scores(struct collector *c, struct metrics *m, const char *metric,
                          const char *name, bool judge, struct err *e)
{
    const struct finetune_config *f = &c->r->config.finetune;
    size_t n = (size_t)f->seeds;
    struct strs paths = {arena_array(c->a, n, sizeof(struct str)), 0};
    const char *artefact = NULL;
    for (size_t k = 0; k < n; k++) {
        long long seed = (long long)f->seed + (long long)k;
        artefact =
            in_run(c, arena_printf(c->a, "scores/%s-%lld%s", name, seed, judge ? "" : ".msgpack"));
        const char *path = judge ? path_join(c->a, artefact, "scores.msgpack") : artefact;
        if (!file_exists(path))
            continue;
        if (stage_input(c->st, artefact, e) != 0)
            return -1;
        paths.v[paths.n++] = str_z(path);
    }
    if (paths.n == 0)
        return 0;
    if (paths.n != n)
        return err_set(
            e, "%s: scores/%s of %zu of %zu fine-tuning seeds are there; run the stages first",
            c->dir, name, paths.n, n);
    const char *responses =
        in_run(c, arena_printf(c->a, "eval/responses-%lld.msgpack", (long long)f->seed));
    const char *identity[] = {artefact, responses, NULL};
    return metrics_add_scores(m, metric, "instruct", paths, identity, e);
}

/* One scorer of a generate task: of the fine-tuned models where they answered, else of the pretrained
 * one. Only the task's own metric is primary: all are of the same items. */
static int collect_generated(struct collector *c, struct metrics *m, const char *task,
                             const char *scorer, bool tuned, struct str metric, struct err *e)
{
    const struct finetune_config *f = &c->r->config.finetune;
    const struct scorer *s = scorer_find(str_z(scorer), e);
    size_t n = tuned ? (size_t)f->seeds : 1;
    struct strs paths = {arena_array(c->a, n, sizeof(struct str)), 0};
    const char *identity[3] = {0};
    if (!s)
        return -1;
    for (size_t k = 0; k < n; k++) {
        const char *tail =
            tuned ? arena_printf(c->a, "-%lld", (long long)f->seed + (long long)k) : "";
        const char *path =
            in_run(c, arena_printf(c->a, "scores/%s.%s%s.msgpack", task, scorer, tail));
        if (!file_exists(path)) {
            miss(c, arena_printf(c->a, "scores/%s.%s%s", task, scorer, tail));
            return 0;
        }
        if (stage_input(c->st, path, e) != 0)
            return -1;
        paths.v[paths.n++] = str_z(path);
        identity[0] = path;
        identity[1] = in_run(c, arena_printf(c->a, "eval/%s%s.msgpack", task, tail));
    }
    if (metrics_add_scores(m, s->metric, task, paths, identity, e))
        return -1;
    m->v[m->n - 1].primary = str_eqz(metric, s->metric);
    return 0;
}

static int collect_task(struct collector *c, struct metrics *m, struct str entry, bool tuned,
                        struct err *e)
{
    struct str rest = entry, task = str_cut(&rest, '='), metric;
    const char *const *by = stages_task_scorers(&c->r->config, task, &metric, c->a);
    if (!by)
        return collect_choice(c, m, entry, e);
    for (; *by; by++)
        if (collect_generated(c, m, stages_task_name(task, c->a), *by, tuned, metric, e))
            return -1;
    return 0;
}

static int collect_metrics(struct collector *c, struct err *e)
{
    struct metrics m = {.a = c->a};
    const struct strs *s = &c->r->config.score.scorers;
    int rc = -1;
    const struct run *cfg = &c->r->config;
    if ((cfg->eval.windows && collect_loss(c, &m, "windows", e) != 0) ||
        (cfg->eval.documents && cfg->data.kind != DATA_SHARDS &&
         collect_loss(c, &m, "documents", e) != 0))
        goto out;
    bool instruct = cfg->eval.instruct && !str_eqz(cfg->data.instruct, "none") &&
                    (cfg->data.instruct.n || cfg->data.kind == DATA_CORPUS);
    for (size_t i = 0; i < cfg->eval.tasks.n; i++)
        if (collect_task(c, &m, cfg->eval.tasks.v[i], instruct, e) != 0)
            goto out;
    for (size_t i = 0; instruct && i < s->n; i++) {
        const struct scorer *x = scorer_find(s->v[i], e);
        if (!x || collect_scores(c, &m, x->metric, x->name, false, e) != 0)
            goto out;
    }
    if (instruct && cfg->judge.judge.n &&
        collect_scores(c, &m, "judge_single", "judge", true, e) != 0)
        goto out;
    struct metric *v = arena_array(c->a, m.n, sizeof *v);
    if (m.n)
        memcpy(v, m.v, m.n * sizeof *v);
    c->r->metrics = (struct list){v, m.n};
    rc = 0;
out:
    free(m.v);
    return rc;
}

static void collect_money(struct collector *c, const struct hardware *hw)
{
    struct result *r = c->r;
    struct bill b;
    r->cost_billed = r->config.about.billed;
    r->hardware.ranks = c->ranks;
    const struct result_segment *s = r->segments.v;
    if (hw) {
        r->hardware.name = hw->name;
        r->hardware.device = hw->device;
        r->hardware.devices = hw->count;
        r->hardware.used = c->ranks ? hardware_used(hw, c->backend, c->ranks) : 0;
        r->hardware.interconnect = hw->interconnect;
        r->hardware.price_hour = hw->price_hour;
        struct hardware at = *hw;
        hardware_at(&at, r->config.train.precision);
        r->hardware.peak_tflops = at.peak_tflops;
        r->hardware.price_currency = hw->price_currency;
        r->hardware.price_source = hw->price_source;
        r->hardware.price_date = hw->price_date;
    } else if (r->segments.n && s[r->segments.n - 1].hardware.n) {
        s += r->segments.n - 1;
        r->hardware.name = s->hardware;
        r->hardware.device = s->device;
        r->hardware.devices = s->devices;
        r->hardware.used = str_eqz(c->backend, "cpu") ? s->devices : c->ranks;
        r->hardware.price_hour = s->price_hour;
        r->hardware.price_currency = s->price_currency;
        r->hardware.price_source = s->price_source;
        r->hardware.price_date = s->price_date;
    }
    money_bill(&b, r, NULL, 0);
    r->timing.mfu = b.mfu;
    r->cost_train = b.train;
    r->cost_total = b.total;
}

/* The given machine, unless the run was trained on something else than its devices. */
static const struct hardware *machine_of(const struct collector *c, const struct hardware *hw)
{
    struct str asked = c->r->config.train.backend;
    struct str on = c->backend.n || str_eqz(asked, "auto") ? c->backend : asked;
    if (hw && !hardware_is_card(hw, c->device)) {
        log_warn("%s: hardware file %.*s is of %.*s (driver_name = %.*s), the run was on %.*s: the "
                 "result has no peak, price or cost of it",
                 c->dir, STR_ARG(hw->name), STR_ARG(hw->device), STR_ARG(hw->driver_name),
                 STR_ARG(c->device));
        return NULL;
    }
    if (!hw || !on.n || hardware_is_of(hw, on))
        return hw;
    log_warn("%s: hardware file %.*s names %lld x %.*s (backend = %s), the run was on %.*s: the "
             "result has no peak, price or cost of it",
             c->dir, STR_ARG(hw->name), (long long)hw->count, STR_ARG(hw->device),
             hardware_backends[hw->backend], STR_ARG(on));
    return NULL;
}

int result_collect(struct result *r, const char *dir, const struct hardware *hw, struct stage *st,
                   struct arena *a, struct err *e)
{
    struct collector c = {.r = r, .dir = dir, .st = st, .a = a};
    const char *ini = path_join(a, dir, "run.ini");
    if (schema_defaults(&result_schema, r, a, e) != 0)
        return -1;
    if (!file_exists(ini))
        return err_set(e, "%s: not a run folder, it has no run.ini", dir);
    if (run_load(&r->config, ini, (struct strs){0}, a, e) != 0)
        return -1;
    const struct run *cfg = &r->config;
    r->run = str_z(arena_strdup(a, path_base(dir)));
    r->group = cfg->about.group.n ? cfg->about.group : r->run;
    r->title = cfg->about.title;
    r->notes = cfg->about.notes;
    r->tags = cfg->about.tags;
    r->seed = cfg->train.seed;
    c.data_dir = cfg->data.run.n ? path_join(a, path_dir(a, dir), str_dup(a, cfg->data.run)) : dir;
    result_machine(&r->hardware, a);
    result_software(&r->software, a);
    if (collect_data(&c, e) != 0 || collect_pretrain(&c, e) != 0 || collect_metrics(&c, e) != 0 ||
        result_segments(r, in_run(&c, "pretrain"), hw = machine_of(&c, hw), a, e) != 0) {
        buf_release(&c.missing);
        return -1;
    }
    r->timing.eval_seconds = c.eval_seconds;
    collect_money(&c, hw);
    char now[32];
    struct clock *clock = clock_system();
    clock_iso(clock->wall(clock), now);
    r->ended = str_z(arena_strdup(a, now));
    r->status = c.missing.n ? str_printf(a, "incomplete: no %s", c.missing.p) : STR_LIT("finished");
    buf_release(&c.missing);
    return 0;
}
