/* stages_eval: the rules of a run behind its training: losses, tasks, fine-tuning, scores; see
 * stages_maker.h.
 */
#include <string.h>

#include "base/file.h"
#include "formats/task.h"
#include "pipelines/stages.h"
#include "pipelines/stages_maker.h"

void stages_losses(struct maker *m)
{
    const struct eval_config *v = &m->r->eval;
    if (v->windows) {
        const char *out = arena_printf(m->a, "%s/eval/windows.msgpack", m->dir);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        stages_rule(
            m, man,
            arena_printf(m->a, "%s %s %s", m->init_dep, m->shards_dep, stages_stamp(m, "eval")));
        stages_line(
            m, true,
            arena_printf(m->a,
                         "eval --task windows --config %s/run.ini --model %s --shards %s --out %s "
                         "$(HARDWARE_INI:%%=--hardware %%)",
                         m->dir, m->init, m->shards, out));
        stages_needs(m, man);
    }
    if (v->documents && m->r->data.kind != DATA_SHARDS) {
        const char *out = arena_printf(m->a, "%s/eval/documents.msgpack", m->dir);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        stages_rule(m, man,
                    arena_printf(m->a, "%s %s %s/data/manifest.json %s", m->init_dep, m->vocab_dep,
                                 m->data_dir, stages_stamp(m, "eval")));
        stages_line(
            m, true,
            arena_printf(m->a,
                         "eval --task documents --config %s/run.ini --model %s --vocab %s --items "
                         "%s/data/test.jsonl --out %s $(HARDWARE_INI:%%=--hardware %%)",
                         m->dir, m->init, m->vocab, m->data_dir, out));
        stages_needs(m, man);
    }
}

/* A generate task asked of one model: answers, and a score file for each scorer. tail: "-SEED" of a
 * fine-tuning, or "". */
struct answers {
    const char *name, *file, *rows, *model, *model_dep, *template_, *tail;
};
static void answer_rules(struct maker *m, const struct answers *t, const char *const *scorers)
{
    const char *stem = arena_printf(m->a, "%s/eval/%s%s", m->dir, t->name, t->tail);
    const char *man = arena_printf(m->a, "%s.msgpack.manifest.json", stem);
    stages_rule(m, man,
                arena_printf(m->a, "%s %s $(wildcard %s) %s", t->model_dep,
                             m->vocab_dep ? m->vocab_dep : "", t->rows, stages_stamp(m, "eval")));
    if (m->needs_data)
        stages_guard(m);
    stages_line(
        m, true,
        arena_printf(m->a,
                     "eval --task instruct --config %s/run.ini --model %s%s%s --template %s "
                     "--task-file %s --items %s --items-out %s.items.msgpack --out %s.msgpack",
                     m->dir, t->model, m->vocab ? " --vocab " : "", m->vocab ? m->vocab : "",
                     t->template_, t->file, t->rows, stem, stem));
    stages_needs(m, man);
    for (; *scorers; scorers++) {
        const char *out =
            arena_printf(m->a, "%s/scores/%s.%s%s.msgpack", m->dir, t->name, *scorers, t->tail);
        const char *scored = arena_printf(m->a, "%s.manifest.json", out);
        stages_rule(m, scored, arena_printf(m->a, "%s %s", man, stages_stamp(m, "score")));
        stages_line(
            m, false,
            arena_printf(
                m->a, "score --scorer %s --items %s.items.msgpack --responses %s.msgpack --out %s",
                *scorers, stem, stem, out));
        stages_needs(m, scored);
    }
}

/* The fine-tuned models answer where there are any, else the pretrained one. */
static void generate_rules(struct maker *m, struct answers t, const char *const *scorers)
{
    const struct finetune_config *f = &m->r->finetune;
    if (!m->instruct || !m->r->eval.instruct) {
        t.model = m->init;
        t.model_dep = m->init_dep;
        t.template_ = "bare";
        t.tail = "";
        answer_rules(m, &t, scorers);
        return;
    }
    t.template_ = str_dup(m->a, f->template_);
    for (int64_t k = 0; k < f->seeds; k++) {
        t.tail = arena_printf(m->a, "-%lld", (long long)(f->seed + k));
        t.model = arena_printf(m->a, "%s/finetune/%s", m->dir, t.tail + 1);
        t.model_dep = arena_printf(m->a, "%s/manifest.json", t.model);
        answer_rules(m, &t, scorers);
    }
}

/* A mistyped name would be found only after the training. Paths behind $DATA are make's to know. */
static int task_there(const struct maker *m, struct str task, struct str rows, struct err *e)
{
    struct task t;
    bool loaded = !memchr(task.p, '$', task.n);
    if (loaded && task_load(&t, str_dup(m->a, task), m->a, e))
        return err_wrap(e, "run %s: eval.tasks", m->in->name);
    if (loaded && t.kind == TASK_KIND_CHOICE && !task_has_gold(&t))
        return err_code(e, EXIT_USAGE,
                        "run %s: eval.tasks: %s has no gold, so nothing of it can be scored; leave "
                        "it out and ask it with `assay eval --task choice`, which counts what is "
                        "taken",
                        m->in->name, t.path);
    if (!memchr(rows.p, '$', rows.n) && !file_exists(str_dup(m->a, rows)))
        return err_code(
            e, EXIT_USAGE,
            "run %s: eval.tasks: the rows of %.*s, %.*s, are not there; a path behind $DATA is "
            "written with it in the run file, and DATA=folder says where that is",
            m->in->name, STR_ARG(task), STR_ARG(rows));
    return 0;
}

/* One entry of eval.tasks; eval/NAME.msgpack holds the answers, NAME.items.msgpack what was asked. */
static int task_rule(struct maker *m, struct str entry, struct err *e)
{
    struct str task = str_cut(&entry, '=');
    const char *name = stages_task_name(task, m->a), *file = stages_path(m, task, e);
    const char *rows = file && entry.n ? stages_path(m, entry, e) : NULL;
    if (!file || (entry.n && !rows))
        return -1;
    if (!rows || !*name)
        return err_code(e, EXIT_USAGE, "run %s: eval.tasks wants TASK=ROWS, not \"%.*s\"",
                        m->in->name, STR_ARG(task));
    if (task_there(m, task, entry, e))
        return -1;
    struct str metric;
    const char *const *scorers = stages_task_scorers(m->r, task, &metric, m->a);
    if (scorers) {
        generate_rules(m, (struct answers){.name = name, .file = file, .rows = rows}, scorers);
        return 0;
    }
    const char *out = arena_printf(m->a, "%s/eval/%s.msgpack", m->dir, name);
    const char *man = arena_printf(m->a, "%s.manifest.json", out);
    /* Invalid items end it with a whole result, dated back: make would throw away what was asked. */
    buf_printf(m->mk, "\n.PRECIOUS: %s", man);
    stages_rule(m, man,
                arena_printf(m->a, "%s %s $(wildcard %s) %s", m->init_dep,
                             m->vocab_dep ? m->vocab_dep : "", rows, stages_stamp(m, "eval")));
    if (m->needs_data)
        stages_guard(m);
    stages_line(
        m, true,
        arena_printf(
            m->a,
            "eval --task choice --config %s/run.ini --model %s%s%s --task-file %s --items %s "
            "--items-out %s/eval/%s.items.msgpack --shots %lld --out %s",
            m->dir, m->init, m->vocab ? " --vocab " : "", m->vocab ? m->vocab : "", file, rows,
            m->dir, name, (long long)m->r->eval.shots, out));
    stages_needs(m, man);
    return 0;
}

int stages_tasks(struct maker *m, struct err *e)
{
    const struct strs *t = &m->r->eval.tasks;
    for (size_t i = 0; i < t->n; i++) {
        struct str rest = t->v[i];
        const char *name = stages_task_name(str_cut(&rest, '='), m->a);
        for (size_t k = 0; k < i; k++) {
            struct str other = t->v[k];
            if (strcmp(stages_task_name(str_cut(&other, '='), m->a), name) == 0)
                return err_code(e, EXIT_USAGE,
                                "run %s: eval.tasks names %s twice, with rows %.*s and %.*s: give "
                                "one a task file of another name",
                                m->in->name, name, STR_ARG(other), STR_ARG(rest));
        }
        if (task_rule(m, t->v[i], e))
            return -1;
    }
    return 0;
}

static void score_rules(struct maker *m, int64_t seed, const char *responses, const char *rman)
{
    const struct score_config *s = &m->r->score;
    const char *items = arena_printf(m->a, "%s/instruct_test.msgpack", m->instruct);
    for (size_t i = 0; i < s->scorers.n; i++) {
        const char *name = stages_scorer_name(s->scorers.v[i], m->a);
        const char *out =
            arena_printf(m->a, "%s/scores/%s-%lld.msgpack", m->dir, name, (long long)seed);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        stages_rule(m, man, arena_printf(m->a, "%s %s", rman, stages_stamp(m, "score")));
        stages_line(m, false,
                    arena_printf(m->a, "score --scorer %s --items %s --responses %s --out %s", name,
                                 items, responses, out));
        stages_needs(m, man);
    }
    if (m->r->judge.judge.n) {
        const char *out = arena_printf(m->a, "%s/scores/judge-%lld", m->dir, (long long)seed);
        const char *man = arena_printf(m->a, "%s/manifest.json", out);
        stages_rule(m, man, arena_printf(m->a, "%s %s", rman, stages_stamp(m, "judge")));
        stages_line(m, false,
                    arena_printf(m->a,
                                 "judge --config %s/run.ini --items %s --responses %s --out %s",
                                 m->dir, items, responses, out));
        stages_needs(m, man);
    }
}

void stages_instruct(struct maker *m)
{
    const struct finetune_config *f = &m->r->finetune;
    if (!m->instruct || !m->r->eval.instruct)
        return;
    const char *examples = arena_printf(m->a, "%s/examples", m->dir);
    const char *eman = arena_printf(m->a, "%s/manifest.json", examples);
    stages_rule(m, eman,
                arena_printf(m->a, "%s/manifest.json %s %s", m->instruct, m->vocab_dep,
                             stages_stamp(m, "finetune")));
    stages_line(m, false,
                arena_printf(m->a,
                             "shard --instruct --vocab %s --in %s/instruct_train.msgpack --val "
                             "%s/instruct_val.msgpack --template %.*s --out %s",
                             m->vocab, m->instruct, m->instruct, STR_ARG(f->template_), examples));
    for (int64_t k = 0; k < f->seeds; k++) {
        int64_t seed = f->seed + k;
        const char *ft = arena_printf(m->a, "%s/finetune/%lld", m->dir, (long long)seed);
        const char *fman = arena_printf(m->a, "%s/manifest.json", ft);
        stages_rule(m, fman,
                    arena_printf(m->a, "%s %s %s %s", m->init_dep, eman,
                                 stages_stamp(m, "finetune"), stages_stamp(m, "train")));
        stages_line(m, true,
                    arena_printf(
                        m->a,
                        "finetune --config %s/run.ini --init %s --examples %s --seed %lld --out %s "
                        "$(HARDWARE_INI:%%=--hardware %%)",
                        m->dir, m->init, examples, (long long)seed, ft));
        stages_needs(m, fman);
        const char *out =
            arena_printf(m->a, "%s/eval/responses-%lld.msgpack", m->dir, (long long)seed);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        stages_rule(m, man,
                    arena_printf(m->a, "%s %s %s/manifest.json %s", fman, m->vocab_dep, m->instruct,
                                 stages_stamp(m, "eval")));
        stages_line(
            m, true,
            arena_printf(m->a,
                         "eval --task instruct --config %s/run.ini --model %s --vocab %s --items "
                         "%s/instruct_test.msgpack --template %.*s --out %s",
                         m->dir, ft, m->vocab, m->instruct, STR_ARG(f->template_), out));
        stages_needs(m, man);
        score_rules(m, seed, out, man);
    }
}
