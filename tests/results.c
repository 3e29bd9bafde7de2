/* results: writes result files for tests of compare, gate and report.
 *
 *   results FILE NAME GROUP SEED [key=value]...
 * n: items (200), per: items a cluster (1), effect: how much worse (0), noise: of an item's own part
 * (0.02), shift: of all items, a seed's luck (0), docs: the identity's documents (abc), acc: share of
 * right answers (0.5), points: of the curve (200), items: 0 leaves the metrics out, title, notes,
 * price: an hour, tokens_s, status, judge: 1 adds judged scores, answers: 1 writes items and answers
 * beside FILE, as a run folder has them, panel=DIR: the run's scores in pass 1 of a panel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "formats/item.h"
#include "formats/manifest.h"
#include "formats/record.h"
#include "formats/result.h"

static struct arena arena;
static int argn;
static char **args;

static const char *text(const char *key, const char *def)
{
    size_t n = strlen(key);
    for (int i = 0; i < argn; i++)
        if (strncmp(args[i], key, n) == 0 && args[i][n] == '=')
            return args[i] + n + 1;
    return def;
}

static double number(const char *key, double def)
{
    const char *t = text(key, NULL);
    return t ? strtod(t, NULL) : def;
}

static struct metric blank(const char *name, const char *task, const char *unit, size_t n)
{
    struct metric m;
    struct err e;
    schema_defaults(&metric_schema, &m, &arena, &e);
    m.name = str_z(name);
    m.task = str_z(task);
    m.unit = str_z(unit);
    m.primary = true;
    m.n = (int64_t)n;
    m.ids = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m.cluster = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m.num = (struct f64s){arena_array(&arena, n, 8), n};
    m.den = (struct f64s){arena_array(&arena, n, 8), n};
    size_t per = (size_t)number("per", 1);
    for (size_t i = 0; i < n; i++) {
        m.ids.v[i] = str_printf(&arena, "%c%zu", *task, i);
        m.cluster.v[i] = str_printf(&arena, "c%zu", i / per);
    }
    m.clusters = (int64_t)((n + per - 1) / per);
    return m;
}

static void finish(struct metric *m, const char *identity)
{
    double num = 0, den = 0, square = 0;
    for (size_t i = 0; i < m->ids.n; i++) {
        num += m->num.v[i];
        den += m->den.v[i];
    }
    m->value = num / den;
    for (size_t i = 0; i < m->ids.n; i++)
        square += pow(m->num.v[i] - m->value * m->den.v[i], 2);
    m->lo = m->value - 1.96 * sqrt(square) / den;
    m->hi = m->value + 1.96 * sqrt(square) / den;
    for (struct str rest = str_z(identity); rest.n;)
        strs_push(&m->identity, str_cut(&rest, ';'), &arena);
}

static struct metric loss(int64_t seed, size_t n)
{
    struct metric m = blank("bits_byte", "documents", "bits/byte", n);
    struct rng shared = rng_make(1, "item", 0), own = rng_make((uint64_t)seed, "own", 0);
    double effect = number("effect", 0) + number("shift", 0), noise = number("noise", 0.02);
    for (size_t i = 0; i < n; i++) {
        m.den.v[i] = 10 + (double)(i % 7);
        m.num.v[i] =
            m.den.v[i] * (1 + effect + 0.3 * rng_normal(&shared) + noise * rng_normal(&own));
    }
    finish(&m, arena_printf(&arena, "documents=%s;rule=each;precision=fp32", text("docs", "abc")));
    return m;
}

static struct metric right(int64_t seed, size_t n)
{
    struct metric m = blank("acc_exact", "instruct", "share", n);
    struct rng shared = rng_make(2, "item", 0), own = rng_make((uint64_t)seed, "acc", 0);
    double acc = number("acc", 0.5);
    m.higher_better = true;
    for (size_t i = 0; i < n; i++) {
        double u = 0.8 * rng_unit(&shared) + 0.2 * rng_unit(&own);
        m.den.v[i] = 1;
        m.num.v[i] = u < acc;
    }
    finish(&m, "items=q;template=t;decoding=greedy;scorer=exact;scorer_version=1");
    return m;
}

static struct metric judged(int64_t seed, size_t n)
{
    struct metric m = blank("judge_single", "instruct", "points of 100", n);
    struct rng own = rng_make((uint64_t)seed, "judge", 0), shared = rng_make(3, "item", 0);
    m.higher_better = true;
    for (size_t i = 0; i < n; i++) {
        m.den.v[i] = 1;
        m.num.v[i] = (double)rng_below(&shared, 80) + (double)rng_below(&own, 20);
    }
    finish(&m, "items=q;template=t;decoding=greedy;protocol=single;prompt=p;judge=j;served=s");
    return m;
}

static void curve(struct result *r, size_t n)
{
    struct rng g = rng_make((uint64_t)r->seed, "curve", 0);
    struct result_curve *c = &r->curve;
    c->step = (struct i64s){arena_array(&arena, n, 8), n};
    c->tokens = (struct i64s){arena_array(&arena, n, 8), n};
    c->loss = (struct f64s){arena_array(&arena, n, 8), n};
    c->lr = (struct f64s){arena_array(&arena, n, 8), n};
    c->norm = (struct f64s){arena_array(&arena, n, 8), n};
    c->seconds = (struct f64s){arena_array(&arena, n, 8), n};
    for (size_t i = 0; i < n; i++) {
        double at = (double)(i + 1) / (double)n;
        c->step.v[i] = (int64_t)(at * (double)r->steps);
        c->tokens.v[i] = (int64_t)(at * (double)r->tokens);
        c->loss.v[i] = 3.5 + 6 * exp(-12 * at) + number("effect", 0) + 0.08 * rng_normal(&g);
        c->lr.v[i] = 4e-4;
        c->norm.v[i] = 0.5;
        c->seconds.v[i] = at * r->timing.train_seconds;
    }
}

/* data/instruct_test.msgpack and eval/responses-SEED.msgpack in the folder of FILE. */
static int answers(const char *file, const struct result *r, size_t n, struct err *e)
{
    const char *dir = path_dir(&arena, file);
    struct items x = {.v = arena_array(&arena, n, sizeof *x.v), .n = n};
    struct rng g = rng_make((uint64_t)r->seed, "answers", 0);
    const char *path = path_join(
        &arena, dir,
        arena_printf(&arena, "eval/responses-%lld.msgpack", (long long)r->config.finetune.seed));
    if (file_mkdirs_for(path, e) != 0)
        return -1;
    struct records *out = records_open(path, &response_schema, RECORD_WRITE, e);
    for (size_t i = 0; out && i < n; i++) {
        struct response p;
        schema_defaults(&item_schema, &x.v[i], &arena, e);
        schema_defaults(&response_schema, &p, &arena, e);
        p.item = x.v[i].id = str_printf(&arena, "i%zu", i);
        x.v[i].instruction = str_printf(&arena, "Question %zu: what is <b>%zu & 1</b>?", i, i);
        x.v[i].reference = str_printf(&arena, "It is %zu, and that is why \"%zu\" is right.", i, i);
        p.text = str_printf(&arena, "It is %llu.", (unsigned long long)rng_below(&g, 90) + i);
        if (records_append(out, &p, e) != 0)
            break;
    }
    if (!out || records_close(out, e) != 0)
        return -1;
    return items_save(&x, path_join(&arena, dir, "data/instruct_test.msgpack"), e);
}

/* DIR/scores/1/NAME.msgpack and a manifest, as a panel leaves them. */
static int panel(const char *dir, const struct result *r, size_t n, struct err *e)
{
    const char *path = arena_printf(&arena, "%s/scores/1/%.*s.msgpack", dir, STR_ARG(r->run));
    struct rng own = rng_make((uint64_t)r->seed, "panel", 0), shared = rng_make(4, "item", 0);
    struct stage st;
    if (file_mkdirs_for(path, e) != 0)
        return -1;
    struct records *out = records_open(path, &score_schema, RECORD_WRITE, e);
    for (size_t i = 0; out && i < n; i++) {
        struct score s;
        schema_defaults(&score_schema, &s, &arena, e);
        s.item = str_printf(&arena, "i%zu", i);
        s.value = (double)rng_below(&shared, 60) + (double)rng_below(&own, 20) - number("worse", 0);
        if (records_append(out, &s, e) != 0)
            break;
    }
    if (!out || records_close(out, e) != 0)
        return -1;
    stage_begin(&st, "panel", 1, dir, NULL, NULL);
    stage_fact(&st, "served", json_of_z("m"));
    int rc = stage_output(&st, path, e) || stage_end(&st, e) ? -1 : 0;
    stage_release(&st);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct result r;
    if (argc < 5) {
        fprintf(stderr, "usage: results FILE NAME GROUP SEED [key=value]...\n");
        return 2;
    }
    argn = argc - 5;
    args = argv + 5;
    schema_defaults(&result_schema, &r, &arena, &e);
    r.run = str_z(argv[2]);
    r.group = str_z(argv[3]);
    r.seed = strtol(argv[4], NULL, 10);
    r.title = str_z(text("title", ""));
    r.notes = str_z(text("notes", ""));
    r.status = str_z(text("status", "finished"));
    r.parameters = 163009536;
    r.tokens = 3260190720;
    r.config.train.batch = (int64_t)number("batch", 104);
    r.config.train.seed = r.seed;
    r.config.train.lr = number("lr", 4e-4);
    r.steps = r.tokens / (r.config.train.batch * 1024);
    r.timing.tokens_per_second = number("tokens_s", 262800);
    r.timing.train_seconds = (double)r.tokens / r.timing.tokens_per_second;
    r.timing.eval_seconds = 300;
    r.timing.mfu = 0.1;
    r.hardware.name = str_z(text("machine", "8xA100-40"));
    r.hardware.price_hour = number("price", NAN);
    r.hardware.price_currency = STR_LIT("USD");
    r.cost_train = r.timing.train_seconds / 3600 * r.hardware.price_hour;
    r.cost_total = (r.timing.train_seconds + 300) / 3600 * r.hardware.price_hour;
    curve(&r, (size_t)number("points", 200));
    size_t n = (size_t)number("n", 200);
    struct metric m[3] = {loss(r.seed, n), right(r.seed, n), judged(r.seed, n)};
    r.metrics = (struct list){m, number("items", 1) == 0 ? 0 : number("judge", 0) > 0 ? 3 : 2};
    int rc = record_save(argv[1], &result_schema, &r, &e);
    if (rc == 0 && number("answers", 0) > 0)
        rc = answers(argv[1], &r, n, &e);
    if (rc == 0 && text("panel", NULL))
        rc = panel(text("panel", NULL), &r, n, &e);
    if (rc)
        fprintf(stderr, "results: %s\n", e.msg);
    arena_release(&arena);
    return rc ? 1 : 0;
}
