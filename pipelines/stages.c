/* stages: the rules of one run up to its training and its result, see stages.h. */
#include "pipelines/stages.h"

#include <string.h>

#include "base/field.h"
#include "base/file.h"
#include "base/mem.h"
#include "datasets/sources.h"
#include "formats/doc.h"
#include "formats/task.h"
#include "pipelines/stages_maker.h"
#include "scoring/scorer.h"
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

const char *stages_scorer_name(struct str name, struct arena *a)
{
    struct err ignored = {0};
    const struct scorer *s = scorer_find(name, &ignored);
    return s ? s->name : str_dup(a, name);
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
        v[i] = stages_scorer_name(s->v[i], a);
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

const char *stages_path(struct maker *m, struct str path, struct err *e)
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

const char *stages_stamp(struct maker *m, const char *section)
{
    return arena_printf(m->a, "%s/%s.stamp", m->in->stamps, section);
}

void stages_rule(struct maker *m, const char *target, const char *deps)
{
    buf_printf(m->mk, "\n%s: %s\n", target, deps);
}

void stages_line(struct maker *m, bool computes, const char *command)
{
    buf_printf(m->mk, "\t$(Q)$(call UNSEALED,%s)%s%s$(TOOL) %s\n", m->dir, m->guard ? m->guard : "",
               computes ? "$(LOCK) " : "", command);
    m->guard = NULL;
}

void stages_guard(struct maker *m)
{
    m->guard = arena_printf(m->a,
                            "test -n \"$(DATA)\" || { echo \"run %s: its data lie outside the "
                            "tree; say where with DATA=folder\" >&2; exit 2; }; ",
                            m->in->name);
}

void stages_needs(struct maker *m, const char *manifest)
{
    buf_printf(&m->results, " %s", manifest);
}

/* ---- the stages, in the order of the data ------------------------------------------------------ */

/* Fetches a known source into $(DATA), or without one into a folder of its own: a folder NAME, or for a
 * source of one file NAME.EXT. Gives its path and its manifest. */
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
        *path = arena_printf(m->a, "$(or $(DATA)," STAGES_FETCHED ")/%s", z);
        *dep = arena_printf(m->a, "%s/manifest.json", *path);
    } else {
        const char *ext = strrchr(path_base(source_path(s, 0, &sha, m->a)), '.');
        *path = arena_printf(m->a, "$(or $(DATA)," STAGES_FETCHED ")/%s%s", z, ext ? ext : "");
        *dep = arena_printf(m->a, "%s.manifest.json", *path);
    }
    buf_printf(m->mk, "\nifndef FETCH_%s\nFETCH_%s := 1", z, z);
    stages_rule(m, *dep, "");
    const char *limit = files > 0 ? arena_printf(m->a, " --files %lld", (long long)files) : "";
    stages_line(m, false, arena_printf(m->a, "fetch %s --out %s%s", z, *path, limit));
    buf_addz(m->mk, "endif\n");
    return 0;
}

/* A path of a run file, or a source that is fetched first: the path and what make must see newer. */
static int locate(struct maker *m, struct str name, int64_t files, const char **path,
                  const char **dep, struct err *e)
{
    if (is_source(name))
        return fetch_rule(m, name, files, path, dep, e);
    if (!(*path = stages_path(m, name, e)))
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
    buf_printf(&deps, "%s", stages_stamp(m, "data"));
    if (d->kind == DATA_CORPUS) {
        stages_rule(m, arena_printf(m->a, "%s/corpus/manifest.json", m->dir),
                    stages_stamp(m, "data"));
        stages_line(m, false,
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
        stages_rule(m, arena_printf(m->a, "%s/data/manifest.json", m->dir), deps.p);
        if (m->needs_data)
            stages_guard(m);
        stages_line(m, false, cmd.p);
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
    stages_rule(m, m->vocab_dep,
                arena_printf(m->a, "%s/data/manifest.json %s", m->dir, stages_stamp(m, "vocab")));
    stages_line(
        m, false,
        arena_printf(m->a,
                     "vocab train --in %s/data/train.jsonl --size %lld --pattern %.*s --out %s",
                     m->dir, (long long)v->size, STR_ARG(v->pattern), m->vocab));
    return 0;
}

int64_t stages_shard_files(const struct run *r)
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
        return locate(m, d->shards, stages_shard_files(m->r), &m->shards, &m->shards_dep, e);
    m->shards = arena_printf(m->a, "%s/shards", m->dir);
    m->shards_dep = arena_printf(m->a, "%s/manifest.json", m->shards);
    stages_rule(m, m->shards_dep,
                arena_printf(m->a, "%s/data/manifest.json %s %s", m->dir, m->vocab_dep,
                             stages_stamp(m, "data")));
    stages_line(
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
        if (!(m->init = stages_path(m, m->r->model.from, e)))
            return -1;
        m->init_dep = arena_printf(m->a, "$(wildcard %s)", m->init);
        return 0;
    }
    m->init = arena_printf(m->a, "%s/pretrain", m->dir);
    m->init_dep = arena_printf(m->a, "%s/manifest.json", m->init);
    stages_rule(m, m->init_dep,
                arena_printf(m->a, "%s %s %s", m->shards_dep, stages_stamp(m, "model"),
                             stages_stamp(m, "train")));
    if (m->needs_data)
        stages_guard(m);
    stages_line(m, true,
                arena_printf(
                    m->a, "train --config %s --shards %s --out %s $(HARDWARE_INI:%%=--hardware %%)",
                    ini, m->shards, m->init));
    stages_needs(m, m->init_dep);
    return 0;
}

static void result_rule(struct maker *m)
{
    const char *out = arena_printf(m->a, "%s/result.msgpack", m->dir);
    stages_rule(m, arena_printf(m->a, "%s.manifest.json", out),
                arena_printf(m->a, "%s%s $(HARDWARE_INI)", stages_stamp(m, "run"),
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

static int check_scorers(const struct maker *m, struct err *e)
{
    const struct strs *s = &m->r->score.scorers;
    for (size_t i = 0; i < s->n; i++) {
        const struct scorer *x = scorer_find(s->v[i], e);
        if (!x)
            return err_wrap(e, "run %s: score.scorers", m->in->name);
        for (size_t k = 0; k < i; k++)
            if (scorer_find(s->v[k], e) == x)
                return err_code(e, EXIT_USAGE,
                                "run %s: score.scorers names %s twice, as %.*s and as %.*s: leave "
                                "one out",
                                m->in->name, x->name, STR_ARG(s->v[k]), STR_ARG(s->v[i]));
    }
    return 0;
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
    stages_losses(&m);
    if (stages_tasks(&m, e) != 0 || check_scorers(&m, e) != 0)
        goto out;
    stages_instruct(&m);
    result_rule(&m);
    buf_addz(mk, "endif\n");
    rc = 0;
out:
    buf_release(&m.results);
    return rc;
}
