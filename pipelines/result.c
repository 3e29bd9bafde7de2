/* result: a run folder collected, see result.h. Paths are those that pipelines/stages.c writes. */
#include "pipelines/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "formats/shard.h"
#include "pipelines/money.h"
#include "pipelines/result_collect.h"
#include "pipelines/result_segments.h"
#include "trainer/gpt2.h"

void collect_missing(struct collector *c, const char *name)
{
    buf_printf(&c->missing, "%s%s", c->missing.n ? ", " : "", name);
}

const char *collect_path(struct collector *c, const char *name)
{
    return path_join(c->a, c->dir, name);
}

struct json *collect_manifest(struct collector *c, const char *artefact, struct err *e)
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

double collect_fact(const struct json *m, const char *name)
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

/* ---- the parts of a run ------------------------------------------------------------------------- */

static int collect_pretrain(struct collector *c, struct err *e)
{
    struct result *r = c->r;
    const char *dir = collect_path(c, "pretrain");
    if (r->config.model.from.n)
        return 0; /* started at a checkpoint: nothing was trained here */
    if (!file_exists(manifest_path(c->a, dir))) { /* killed or still running: its curve is there */
        collect_missing(c, "pretrain");
        r->parameters = params_count(&r->config.model);
        return file_exists(path_join(c->a, dir, "metrics.jsonl")) ? collect_curve(c, dir, e) : 0;
    }
    if (collect_stale(c, dir)) { /* what trained on other shards says nothing of these */
        collect_missing(c, "pretrain");
        r->parameters = params_count(&r->config.model);
        return 0;
    }
    struct json *m = collect_manifest(c, dir, e);
    if (!m)
        return -1;
    r->steps = fact_int(m, "steps");
    r->skipped = fact_int(m, "skipped");
    r->overflows = fact_int(m, "overflows");
    r->tokens = fact_int(m, "tokens");
    r->parameters = fact_int(m, "parameters");
    r->timing.train_seconds = collect_fact(m, "train_seconds");
    r->timing.tokens_per_second = collect_fact(m, "tokens_per_second");
    r->timing.step_ms_p10 = collect_fact(m, "step_ms_p10");
    r->timing.step_ms_p50 = collect_fact(m, "step_ms_p50");
    r->timing.step_ms_p90 = collect_fact(m, "step_ms_p90");
    r->timing.stall_share = collect_fact(m, "stall_share");
    r->timing.mfu = collect_fact(m, "mfu");
    r->timing.comm_share = collect_fact(m, "comm_share");
    r->timing.energy_j = collect_fact(m, "energy_j");
    double rss = collect_fact(m, "peak_rss");
    r->timing.peak_rss = isnan(rss) ? FIELD_NONE_I64 : (int64_t)rss;
    r->software.backend = fact_str(c, m, "backend");
    c->backend = fact_str(c, m, "backend_name");
    c->device = fact_str(c, m, "device");
    if (str_eqz(c->device, "unknown"))
        c->device = (struct str){0};
    double ranks = collect_fact(m, "ranks");
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
        result_segments(r, collect_path(&c, "pretrain"), hw = machine_of(&c, hw), a, e) != 0) {
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
