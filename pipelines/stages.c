/* stages: the rules of one run, see stages.h. */
#include "pipelines/stages.h"

#include <string.h>

#include "base/field.h"
#include "base/file.h"
#include "base/mem.h"
#include "datasets/sources.h"
#include "formats/doc.h"
#include "formats/task.h"
#include "trainer/train.h"

const char *const stage_sections[] = {"run",      "data", "vocab", "model", "train",
                                      "finetune", "eval", "score", "judge", NULL};

const char *stages_task_name(struct str task, struct arena *a)
{
    struct str base = str_z(path_base(str_dup(a, task)));
    if (str_ends(base, ".ini"))
        base.n -= 4;
    return str_dup(a, base);
}

const char *const *stages_task_scorers(const struct run *r, struct str task, struct str *metric,
                                       struct arena *a)
{
    static const char *const ifeval[] = {"ifeval", "ifeval_loose", "ifeval_inst",
                                         "ifeval_inst_loose", NULL};
    const struct strs *s = &r->score.scorers;
    struct task t;
    struct err ignored = {0};
    if (task_load(&t, str_dup(a, task), a, &ignored) || t.kind != TASK_KIND_GENERATE)
        return NULL;
    *metric = t.metric;
    if (str_starts(t.metric, "ifeval_"))
        return ifeval;
    const char **v = arena_array(a, s->n + 1, sizeof *v);
    for (size_t i = 0; i < s->n; i++)
        v[i] = str_dup(a, s->v[i]);
    return v;
}

/* ---- text ------------------------------------------------------------------------------------ */

void stages_section(const struct run *r, const char *section, struct buf *out)
{
    for (const struct field *f = run_schema.fields; f->name; f++) {
        if (strcmp(f->name, section) != 0)
            continue;
        const char *base = (const char *)r + f->at;
        buf_printf(out, "[%s]\n", section);
        for (const struct field *k = f->sub->fields; k->name; k++) {
            struct buf v = {0};
            field_text(k, base + k->at, &v);
            buf_printf(out, "%s = %s\n", k->name, v.p ? v.p : "");
            buf_release(&v);
        }
    }
}

void stages_ini(const struct run *r, struct buf *out)
{
    buf_addz(out, "# Written by `assay stages`: the run file with every default and override.\n");
    for (int i = 0; stage_sections[i]; i++) {
        buf_addc(out, '\n');
        stages_section(r, stage_sections[i], out);
    }
}

/* What the rules of one run are made of. Paths are make text. */
struct maker {
    const struct stages_in *in;
    const struct run *r;
    struct buf *mk;
    struct arena *a;
    const char *dir;      /* $(RUNS_DIR)/NAME */
    const char *data_dir; /* of the run that data, vocabulary and shards come from */
    const char *vocab, *vocab_dep, *shards, *shards_dep;
    const char *instruct; /* folder with instruct_*.msgpack, or NULL */
    const char *init, *init_dep;
    struct buf results; /* manifests that the result needs */
    bool needs_data;
    const char *guard; /* shell text before the next command line, or NULL */
};

/* A path of a run file as make text: $DATA and ${DATA} become $(DATA); other dollars and blanks can't
 * be said in make and are refused. */
static const char *make_path(struct maker *m, struct str path, struct err *e)
{
    struct buf b = {0};
    const char *out = NULL;
    for (size_t i = 0; i < path.n; i++) {
        struct str rest = {path.p + i, path.n - i};
        if (str_starts(rest, "$DATA") || str_starts(rest, "${DATA}") ||
            str_starts(rest, "$(DATA)")) {
            buf_addz(&b, "$(DATA)");
            i += (rest.p[1] == 'D' ? 5 : 7) - 1;
            m->needs_data = true;
            continue;
        }
        if (strchr("$ \t#:'\"\\;|&<>*?%", path.p[i])) {
            err_code(e, EXIT_USAGE,
                     "run %s: path %.*s has a character that make or the shell would change",
                     m->in->name, STR_ARG(path));
            goto out;
        }
        buf_addc(&b, path.p[i]);
    }
    out = arena_bytes(m->a, b.p, b.n);
out:
    buf_release(&b);
    return out;
}

/* A source by its name ("gpt2"), in contrast to a path: no slash, dot or dollar. */
static bool is_source(struct str s)
{
    return s.n > 0 && !memchr(s.p, '/', s.n) && !memchr(s.p, '$', s.n) && !memchr(s.p, '.', s.n);
}

static const char *stamp(struct maker *m, const char *section)
{
    return arena_printf(m->a, "%s/%s.stamp", m->in->stamps, section);
}

/* Opens a rule. guard: the run needs $(DATA) and says so when it is not given. */
static void rule(struct maker *m, const char *target, const char *deps)
{
    buf_printf(m->mk, "\n%s: %s\n", target, deps);
}

/* A stage whose bulk stayed on another machine is left alone (UNSEALED, run.mk): only then is it asked
 * for data, and run. */
static void line(struct maker *m, bool computes, const char *command)
{
    buf_printf(m->mk, "\t$(Q)$(call UNSEALED,%s)%s%s$(TOOL) %s\n", m->dir, m->guard ? m->guard : "",
               computes ? "$(LOCK) " : "", command);
    m->guard = NULL;
}

static void guard(struct maker *m)
{
    m->guard = arena_printf(m->a,
                            "test -n \"$(DATA)\" || { echo \"run %s: its data lie outside the "
                            "tree; say where with DATA=folder\" >&2; exit 2; }; ",
                            m->in->name);
}

static void needs(struct maker *m, const char *manifest)
{
    buf_printf(&m->results, " %s", manifest);
}

/* ---- the stages, in the order of the data ------------------------------------------------------ */

/* Fetches a known source into $(DATA): a folder NAME, or for a source of one file NAME.EXT. Gives its
 * path and its manifest. */
static int fetch_rule(struct maker *m, struct str name, int64_t files, const char **path,
                      const char **dep, struct err *e)
{
    const char *z = str_dup(m->a, name), *sha;
    const struct source *s = source_find(z);
    if (!s) {
        const char *near = source_near(z);
        return err_code(e, EXIT_USAGE, "run %s: no source is called \"%s\"%s%s%s", m->in->name, z,
                        near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    if (source_count(s) > 1) {
        *path = arena_printf(m->a, "$(DATA)/%s", z);
        *dep = arena_printf(m->a, "%s/manifest.json", *path);
    } else {
        const char *ext = strrchr(path_base(source_path(s, 0, &sha, m->a)), '.');
        *path = arena_printf(m->a, "$(DATA)/%s%s", z, ext ? ext : "");
        *dep = arena_printf(m->a, "%s.manifest.json", *path);
    }
    m->needs_data = true;
    buf_printf(m->mk, "\nifndef FETCH_%s\nFETCH_%s := 1", z, z);
    rule(m, *dep, "");
    guard(m);
    const char *limit = files > 0 ? arena_printf(m->a, " --files %lld", (long long)files) : "";
    line(m, false, arena_printf(m->a, "fetch %s --out %s%s", z, *path, limit));
    buf_addz(m->mk, "endif\n");
    return 0;
}

/* A path of a run file, or a source that is fetched first: the path and what make must see newer. */
static int locate(struct maker *m, struct str name, int64_t files, const char **path,
                  const char **dep, struct err *e)
{
    if (is_source(name))
        return fetch_rule(m, name, files, path, dep, e);
    if (!(*path = make_path(m, name, e)))
        return -1;
    *dep = arena_printf(m->a, "$(wildcard %s)", *path);
    return 0;
}

static int add_inputs(struct maker *m, const char *option, struct strs paths, struct buf *cmd,
                      struct buf *deps, struct err *e)
{
    for (size_t i = 0; i < paths.n; i++) {
        const char *path, *dep;
        if (locate(m, paths.v[i], 0, &path, &dep, e) != 0)
            return -1;
        buf_printf(cmd, " --%s %s", option, path);
        buf_printf(deps, " %s", dep);
    }
    return 0;
}

static int data_rules(struct maker *m, struct err *e)
{
    const struct run_data *d = &m->r->data;
    struct buf cmd = {0}, deps = {0};
    int rc = -1;
    bool docs = d->kind != DATA_SHARDS;
    buf_printf(&cmd, "split --out %s/data", m->dir);
    buf_printf(&deps, "%s", stamp(m, "data"));
    if (d->kind == DATA_CORPUS) {
        rule(m, arena_printf(m->a, "%s/corpus/manifest.json", m->dir), stamp(m, "data"));
        line(m, false,
             arena_printf(m->a, "corpus --out %s/corpus --docs %lld --seed %lld", m->dir,
                          (long long)d->docs, (long long)d->seed));
        buf_printf(&cmd, " --in %s/corpus/docs.jsonl", m->dir);
        buf_printf(&deps, " %s/corpus/manifest.json", m->dir);
    } else if (docs && (add_inputs(m, "in", d->train, &cmd, &deps, e) != 0 ||
                        add_inputs(m, "test-in", d->test, &cmd, &deps, e) != 0)) {
        goto out;
    }
    if (docs)
        buf_printf(&cmd, " --holdout %g --bad-utf8 %s%s", d->holdout, bad_utf8_names[d->bad_utf8],
                   d->clean ? " --clean" : "");
    if (docs && d->paragraphs > 0)
        buf_printf(&cmd, " --paragraphs %lld", (long long)d->paragraphs);
    const char *instruct = NULL;
    if (d->instruct.n == 0 && d->kind == DATA_CORPUS) {
        instruct = arena_printf(m->a, "%s/corpus/instruct.json", m->dir);
    } else if (d->instruct.n && !str_eqz(d->instruct, "none")) {
        const char *dep;
        if (locate(m, d->instruct, 0, &instruct, &dep, e) != 0)
            goto out;
        buf_printf(&deps, " %s", dep);
    }
    if (instruct) {
        buf_printf(&cmd, " --instruct %s --instruct-test %g --instruct-val %g", instruct,
                   d->instruct_test, d->instruct_val);
        m->instruct = arena_printf(m->a, "%s/data", m->dir);
    }
    if (docs || instruct) {
        rule(m, arena_printf(m->a, "%s/data/manifest.json", m->dir), deps.p);
        if (m->needs_data)
            guard(m);
        line(m, false, cmd.p);
    }
    rc = 0;
out:
    buf_release(&cmd);
    buf_release(&deps);
    return rc;
}

static int vocab_rules(struct maker *m, struct err *e)
{
    const struct run_vocab *v = &m->r->vocab;
    if (v->from.n)
        return locate(m, v->from, 0, &m->vocab, &m->vocab_dep, e);
    m->vocab = arena_printf(m->a, "%s/vocab.tiktoken", m->dir);
    m->vocab_dep = arena_printf(m->a, "%s.manifest.json", m->vocab);
    rule(m, m->vocab_dep,
         arena_printf(m->a, "%s/data/manifest.json %s", m->dir, stamp(m, "vocab")));
    line(m, false,
         arena_printf(m->a,
                      "vocab train --in %s/data/train.jsonl --size %lld --pattern %.*s --out %s",
                      m->dir, (long long)v->size, STR_ARG(v->pattern), m->vocab));
    return 0;
}

/* How many files of 1e8 tokens a run of public shards reads: its token budget, rounded up, and the
 * validation file. */
static int64_t shard_files(const struct run *r)
{
    struct err
        ignored; /* a budget that can't be computed here is refused by train, with its reason */
    int64_t tokens = train_tokens(&r->model, &r->train, &ignored);
    return tokens > 0 ? (tokens + 99999999) / 100000000 + 1 : 0;
}

static int shard_rules(struct maker *m, struct err *e)
{
    const struct run_data *d = &m->r->data;
    if (d->kind == DATA_SHARDS)
        return locate(m, d->shards, shard_files(m->r), &m->shards, &m->shards_dep, e);
    m->shards = arena_printf(m->a, "%s/shards", m->dir);
    m->shards_dep = arena_printf(m->a, "%s/manifest.json", m->shards);
    rule(m, m->shards_dep,
         arena_printf(m->a, "%s/data/manifest.json %s %s", m->dir, m->vocab_dep, stamp(m, "data")));
    line(
        m, false,
        arena_printf(m->a,
                     "shard --vocab %s --in %s/data/train.jsonl --test %s/data/test.jsonl --out %s "
                     "--shard-tokens %lld",
                     m->vocab, m->dir, m->dir, m->shards, (long long)d->shard_tokens));
    return 0;
}

static int train_rules(struct maker *m, struct err *e)
{
    const char *ini = arena_printf(m->a, "%s/run.ini", m->dir);
    if (m->r->model.from.n) {
        if (!(m->init = make_path(m, m->r->model.from, e)))
            return -1;
        m->init_dep = arena_printf(m->a, "$(wildcard %s)", m->init);
        return 0;
    }
    m->init = arena_printf(m->a, "%s/pretrain", m->dir);
    m->init_dep = arena_printf(m->a, "%s/manifest.json", m->init);
    rule(m, m->init_dep,
         arena_printf(m->a, "%s %s %s", m->shards_dep, stamp(m, "model"), stamp(m, "train")));
    if (m->needs_data)
        guard(m);
    line(m, true,
         arena_printf(m->a,
                      "train --config %s --shards %s --out %s $(HARDWARE_INI:%%=--hardware %%)",
                      ini, m->shards, m->init));
    needs(m, m->init_dep);
    return 0;
}

static void loss_rules(struct maker *m)
{
    const struct eval_config *v = &m->r->eval;
    if (v->windows) {
        const char *out = arena_printf(m->a, "%s/eval/windows.msgpack", m->dir);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        rule(m, man, arena_printf(m->a, "%s %s %s", m->init_dep, m->shards_dep, stamp(m, "eval")));
        line(m, true,
             arena_printf(m->a,
                          "eval --task windows --config %s/run.ini --model %s --shards %s --out %s "
                          "$(HARDWARE_INI:%%=--hardware %%)",
                          m->dir, m->init, m->shards, out));
        needs(m, man);
    }
    if (v->documents && m->r->data.kind != DATA_SHARDS) {
        const char *out = arena_printf(m->a, "%s/eval/documents.msgpack", m->dir);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        rule(m, man,
             arena_printf(m->a, "%s %s %s/data/manifest.json %s", m->init_dep, m->vocab_dep,
                          m->data_dir, stamp(m, "eval")));
        line(m, true,
             arena_printf(m->a,
                          "eval --task documents --config %s/run.ini --model %s --vocab %s --items "
                          "%s/data/test.jsonl --out %s $(HARDWARE_INI:%%=--hardware %%)",
                          m->dir, m->init, m->vocab, m->data_dir, out));
        needs(m, man);
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
    rule(m, man,
         arena_printf(m->a, "%s %s $(wildcard %s) %s", t->model_dep,
                      m->vocab_dep ? m->vocab_dep : "", t->rows, stamp(m, "eval")));
    if (m->needs_data)
        guard(m);
    line(m, true,
         arena_printf(m->a,
                      "eval --task instruct --config %s/run.ini --model %s%s%s --template %s "
                      "--task-file %s --items %s --items-out %s.items.msgpack --out %s.msgpack",
                      m->dir, t->model, m->vocab ? " --vocab " : "", m->vocab ? m->vocab : "",
                      t->template_, t->file, t->rows, stem, stem));
    needs(m, man);
    for (; *scorers; scorers++) {
        const char *out =
            arena_printf(m->a, "%s/scores/%s.%s%s.msgpack", m->dir, t->name, *scorers, t->tail);
        const char *scored = arena_printf(m->a, "%s.manifest.json", out);
        rule(m, scored, arena_printf(m->a, "%s %s", man, stamp(m, "score")));
        line(m, false,
             arena_printf(
                 m->a, "score --scorer %s --items %s.items.msgpack --responses %s.msgpack --out %s",
                 *scorers, stem, stem, out));
        needs(m, scored);
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
        return err_code(e, EXIT_USAGE, "run %s: eval.tasks: the rows of %.*s, %.*s, are not there",
                        m->in->name, STR_ARG(task), STR_ARG(rows));
    return 0;
}

/* One entry of eval.tasks; eval/NAME.msgpack holds the answers, NAME.items.msgpack what was asked. */
static int task_rule(struct maker *m, struct str entry, struct err *e)
{
    struct str task = str_cut(&entry, '=');
    const char *name = stages_task_name(task, m->a), *file = make_path(m, task, e);
    const char *rows = file && entry.n ? make_path(m, entry, e) : NULL;
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
    rule(m, man,
         arena_printf(m->a, "%s %s $(wildcard %s) %s", m->init_dep,
                      m->vocab_dep ? m->vocab_dep : "", rows, stamp(m, "eval")));
    if (m->needs_data)
        guard(m);
    line(m, true,
         arena_printf(
             m->a,
             "eval --task choice --config %s/run.ini --model %s%s%s --task-file %s --items %s "
             "--items-out %s/eval/%s.items.msgpack --shots %lld --out %s",
             m->dir, m->init, m->vocab ? " --vocab " : "", m->vocab ? m->vocab : "", file, rows,
             m->dir, name, (long long)m->r->eval.shots, out));
    needs(m, man);
    return 0;
}

static int task_rules(struct maker *m, struct err *e)
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
        const char *out = arena_printf(m->a, "%s/scores/%.*s-%lld.msgpack", m->dir,
                                       STR_ARG(s->scorers.v[i]), (long long)seed);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        rule(m, man, arena_printf(m->a, "%s %s", rman, stamp(m, "score")));
        line(m, false,
             arena_printf(m->a, "score --scorer %.*s --items %s --responses %s --out %s",
                          STR_ARG(s->scorers.v[i]), items, responses, out));
        needs(m, man);
    }
    if (m->r->judge.judge.n) {
        const char *out = arena_printf(m->a, "%s/scores/judge-%lld", m->dir, (long long)seed);
        const char *man = arena_printf(m->a, "%s/manifest.json", out);
        rule(m, man, arena_printf(m->a, "%s %s", rman, stamp(m, "judge")));
        line(m, false,
             arena_printf(m->a, "judge --config %s/run.ini --items %s --responses %s --out %s",
                          m->dir, items, responses, out));
        needs(m, man);
    }
}

static void instruct_rules(struct maker *m)
{
    const struct finetune_config *f = &m->r->finetune;
    if (!m->instruct || !m->r->eval.instruct)
        return;
    const char *examples = arena_printf(m->a, "%s/examples", m->dir);
    const char *eman = arena_printf(m->a, "%s/manifest.json", examples);
    rule(m, eman,
         arena_printf(m->a, "%s/manifest.json %s %s", m->instruct, m->vocab_dep,
                      stamp(m, "finetune")));
    line(m, false,
         arena_printf(m->a,
                      "shard --instruct --vocab %s --in %s/instruct_train.msgpack --val "
                      "%s/instruct_val.msgpack --template %.*s --out %s",
                      m->vocab, m->instruct, m->instruct, STR_ARG(f->template_), examples));
    for (int64_t k = 0; k < f->seeds; k++) {
        int64_t seed = f->seed + k;
        const char *ft = arena_printf(m->a, "%s/finetune/%lld", m->dir, (long long)seed);
        const char *fman = arena_printf(m->a, "%s/manifest.json", ft);
        rule(m, fman,
             arena_printf(m->a, "%s %s %s %s", m->init_dep, eman, stamp(m, "finetune"),
                          stamp(m, "train")));
        line(m, true,
             arena_printf(
                 m->a,
                 "finetune --config %s/run.ini --init %s --examples %s --seed %lld --out %s "
                 "$(HARDWARE_INI:%%=--hardware %%)",
                 m->dir, m->init, examples, (long long)seed, ft));
        needs(m, fman);
        const char *out =
            arena_printf(m->a, "%s/eval/responses-%lld.msgpack", m->dir, (long long)seed);
        const char *man = arena_printf(m->a, "%s.manifest.json", out);
        rule(m, man,
             arena_printf(m->a, "%s %s %s/manifest.json %s", fman, m->vocab_dep, m->instruct,
                          stamp(m, "eval")));
        line(m, true,
             arena_printf(m->a,
                          "eval --task instruct --config %s/run.ini --model %s --vocab %s --items "
                          "%s/instruct_test.msgpack --template %.*s --out %s",
                          m->dir, ft, m->vocab, m->instruct, STR_ARG(f->template_), out));
        needs(m, man);
        score_rules(m, seed, out, man);
    }
}

static void result_rule(struct maker *m)
{
    const char *out = arena_printf(m->a, "%s/result.msgpack", m->dir);
    rule(m, arena_printf(m->a, "%s.manifest.json", out),
         arena_printf(m->a, "%s%s $(HARDWARE_INI)", stamp(m, "run"),
                      m->results.p ? m->results.p : ""));
    /* Never sealed: it reads what every archive holds, and a price may come later. */
    buf_printf(m->mk, "\t$(Q)$(TOOL) result --run %s --out %s $(HARDWARE_INI:%%=--hardware %%)\n",
               m->dir, out);
    buf_printf(m->mk, "\n.PHONY: run-%s\nrun-%s: %s.manifest.json\n", m->in->name, m->in->name,
               out);
}

/* Data, vocabulary and shards of another run: only their names. */
static void borrow(struct maker *m)
{
    m->data_dir = arena_printf(m->a, "$(RUNS_DIR)/%.*s", STR_ARG(m->r->data.run));
    m->vocab = arena_printf(m->a, "%s/vocab.tiktoken", m->data_dir);
    m->vocab_dep = arena_printf(m->a, "%s.manifest.json", m->vocab);
    m->shards = arena_printf(m->a, "%s/shards", m->data_dir);
    m->shards_dep = arena_printf(m->a, "%s/manifest.json", m->shards);
    if (!str_eqz(m->r->data.instruct, "none"))
        m->instruct = arena_printf(m->a, "%s/data", m->data_dir);
    buf_printf(m->mk, "include $(BUILD)/runs/%.*s.mk\n", STR_ARG(m->r->data.run));
}

int stages_write(const struct stages_in *in, struct buf *mk, struct arena *a, struct err *e)
{
    struct maker m = {.in = in, .r = in->run, .mk = mk, .a = a};
    int rc = -1;
    m.dir = arena_printf(a, "$(RUNS_DIR)/%s", in->name);
    m.data_dir = m.dir;
    buf_printf(mk,
               "# Written by `assay stages %s`. One rule a stage: its target is a manifest.\n"
               "ifndef RUN_%s_MK\nRUN_%s_MK := 1\n",
               in->name, in->name, in->name);
    if (in->run->data.run.n) {
        borrow(&m);
    } else if (data_rules(&m, e) != 0 || vocab_rules(&m, e) != 0 || shard_rules(&m, e) != 0) {
        goto out;
    }
    if (train_rules(&m, e) != 0)
        goto out;
    loss_rules(&m);
    if (task_rules(&m, e) != 0)
        goto out;
    instruct_rules(&m);
    result_rule(&m);
    buf_addz(mk, "endif\n");
    rc = 0;
out:
    buf_release(&m.results);
    return rc;
}
