/* result_evals: the evaluations of a run, see result_collect.h. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/result_collect.h"
#include "pipelines/stages.h"
#include "scoring/scorer.h"

/* 1: the evaluation called name is there, *path, and its seconds are counted; 0: it is missing, which
 * is noted. */
static int collect_eval(struct collector *c, const char *name, const char **path, struct err *e)
{
    *path = collect_path(c, arena_printf(c->a, "eval/%s.msgpack", name));
    if (!file_exists(*path) || collect_stale(c, *path)) {
        collect_missing(c, arena_printf(c->a, "eval/%s", name));
        return 0;
    }
    struct json *man = collect_manifest(c, *path, e);
    if (!man)
        return -1;
    c->eval_seconds += collect_fact(man, "seconds");
    json_free(man);
    return 1;
}

static int collect_loss(struct collector *c, struct metrics *m, const char *task, struct err *e)
{
    const char *path;
    int rc = collect_eval(c, task, &path, e);
    return rc > 0 ? metrics_add_loss(m, task, path, e) : rc;
}

static int collect_choice(struct collector *c, struct metrics *m, struct str entry, struct err *e)
{
    const char *name = stages_task_name(str_cut(&entry, '='), c->a), *path;
    int rc = collect_eval(c, name, &path, e);
    return rc > 0 ? metrics_add_choice(
                        m, name, path,
                        collect_path(c, arena_printf(c->a, "eval/%s.items.msgpack", name)), e)
                  : rc;
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
        artefact = collect_path(
            c, arena_printf(c->a, "scores/%s-%lld%s", name, seed, judge ? "" : ".msgpack"));
        const char *path = judge ? path_join(c->a, artefact, "scores.msgpack") : artefact;
        if (!file_exists(path))
            continue;
        if (collect_stale(c, artefact)) {
            collect_missing(c, arena_printf(c->a, "scores/%s-%lld", name, seed));
            continue;
        }
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
        collect_path(c, arena_printf(c->a, "eval/responses-%lld.msgpack", (long long)f->seed));
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
            collect_path(c, arena_printf(c->a, "scores/%s.%s%s.msgpack", task, scorer, tail));
        if (!file_exists(path) || collect_stale(c, path)) {
            collect_missing(c, arena_printf(c->a, "scores/%s.%s%s", task, scorer, tail));
            return 0;
        }
        if (stage_input(c->st, path, e) != 0)
            return -1;
        paths.v[paths.n++] = str_z(path);
        identity[0] = path;
        identity[1] = collect_path(c, arena_printf(c->a, "eval/%s%s.msgpack", task, tail));
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

int collect_metrics(struct collector *c, struct err *e)
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
