/* ledger_panel: the verdicts of a panel as metrics of the runs it judged, see ledger.h.
 *
 * Verdicts of one pass compare with each other and with nothing else: each pass is a task of its own.
 * Across passes only the panel's own report speaks, through its anchors. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "formats/manifest.h"
#include "pipelines/ledger.h"
#include "pipelines/panel.h"
#include "pipelines/result.h"

/* A name without the @HASH of a version. */
static struct str plain(struct str name)
{
    if (name.n > 9 && name.p[name.n - 9] == '@')
        name.n -= 9;
    return name;
}

static struct str name_of(struct str file)
{
    file.n -= strlen(".msgpack");
    return file;
}

/* Scores of a run in one pass: RUN.msgpack, or RUN-SEED.msgpack of each fine-tuning seed. */
static struct strs scores_of(const struct result *r, const char *dir, const struct strs *names,
                             struct arena *a)
{
    struct strs paths = {0};
    for (size_t i = 0; i < names->n; i++) {
        struct str rest = names->v[i];
        if (!str_ends(rest, ".msgpack"))
            continue;
        rest = plain(name_of(rest));
        bool own = str_eq(rest, r->run), seed = false;
        if (rest.n > r->run.n + 1 && rest.p[r->run.n] == '-' &&
            memcmp(rest.p, r->run.p, r->run.n) == 0) {
            int64_t n;
            seed = str_i64((struct str){rest.p + r->run.n + 1, rest.n - r->run.n - 1}, &n) == 0 &&
                   n >= r->config.finetune.seed &&
                   n < r->config.finetune.seed + r->config.finetune.seeds;
        }
        if (own || seed)
            strs_push(&paths, str_z(path_join(a, dir, str_dup(a, names->v[i]))), a);
    }
    return paths;
}

/* ---- whether they are of the answers that the run has now ----------------------------------- */

struct judged {
    const char *dir, *panel; /* the panel's folder and name */
    const struct json *facts;
    struct panel_pass *pass;
    size_t passes, added;
    bool *stale, *fresh; /* [results]: some scores are of other answers; of these */
};

/* The hash of the answers called `name` in a pass; empty: not known. */
static struct str judged_hash(const struct judged *x, struct str pass, struct str name)
{
    int64_t number;
    if (str_i64(pass, &number) || number < 1 || number > (int64_t)x->passes)
        return (struct str){0};
    const struct panel_pass *p = &x->pass[number - 1];
    for (size_t i = 0; i < p->model.n; i++)
        if (str_eq(p->model.v[i], name))
            return p->hash.v[i];
    return (struct str){0};
}

/* The run's answers are others than those that these scores are of. What is not there can't be told. */
static bool has_changed(const struct ledger *l, size_t r, const struct judged *x, struct str pass,
                        struct str path)
{
    struct arena *a = (struct arena *)&l->arena;
    struct str name = name_of(str_z(path_base(str_dup(a, path))));
    struct err ignored;
    char hex[SHA256_HEX];
    struct str want = judged_hash(x, pass, name);
    name = plain(name);
    int64_t seed = l->v[r].config.finetune.seed;
    if (name.n > l->v[r].run.n)
        str_i64((struct str){name.p + l->v[r].run.n + 1, name.n - l->v[r].run.n - 1}, &seed);
    const char *run = file_is_dir(l->path[r]) ? l->path[r] : path_dir(a, l->path[r]);
    const char *answers = arena_printf(a, "%s/eval/responses-%lld.msgpack", run, (long long)seed);
    return want.n && file_exists(answers) && sha256_file(answers, hex, &ignored) == 0 &&
           !str_eqz(want, hex);
}

/* Those of the answers that the run has now. false: some seed has none, so there is no mean. */
static bool keep_current(const struct ledger *l, size_t r, const struct judged *x, struct str pass,
                         struct strs *paths)
{
    struct arena *a = (struct arena *)&l->arena;
    struct strs good = {0}, old = {0};
    for (size_t i = 0; i < paths->n; i++)
        strs_push(has_changed(l, r, x, pass, paths->v[i]) ? &old : &good, paths->v[i], a);
    bool all = true;
    for (size_t i = 0; i < old.n; i++) {
        struct str name = plain(name_of(old.v[i]));
        bool newer = false;
        for (size_t k = 0; k < good.n; k++)
            newer = newer || str_eq(plain(name_of(good.v[k])), name);
        all = all && newer;
    }
    *paths = good;
    return all;
}

static int add_pass(struct ledger *l, struct judged *x, const char *dir, struct str pass,
                    struct err *e)
{
    struct arena *a = &l->arena;
    const char *panel = x->panel;
    struct strs names;
    static const char *const none[] = {NULL};
    if (file_list(dir, &names, a, e) != 0)
        return -1;
    for (size_t r = 0; r < l->n; r++) {
        struct strs paths = scores_of(&l->v[r], dir, &names, a);
        struct metrics m = {.a = a};
        bool current = keep_current(l, r, x, pass, &paths);
        x->stale[r] = x->stale[r] || !current;
        if (!paths.n || !current)
            continue;
        x->fresh[r] = true;
        int rc = metrics_add_scores(&m, "judge_joint", "instruct", paths, none, e);
        if (rc == 0) {
            struct list *have = &l->v[r].metrics;
            struct metric *v = arena_array(a, have->n + 1, sizeof *v);
            if (have->n)
                memcpy(v, have->v, have->n * sizeof *v);
            v[have->n] = m.v[0];
            v[have->n].task = str_printf(a, "%s pass %.*s", panel, STR_ARG(pass));
            struct strs *id = &v[have->n].identity;
            *id = (struct strs){0};
            strs_push(id, str_printf(a, "panel=%s", panel), a);
            strs_push(id, str_printf(a, "pass=%.*s", STR_ARG(pass)), a);
            struct str served = json_str(json_get(x->facts, "served"));
            strs_push(id, str_printf(a, "served=%.*s", STR_ARG(served)), a);
            *have = (struct list){v, have->n + 1};
            x->added++;
        }
        free(m.v);
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int no_manifest(const struct judged *x, struct err *e)
{
    if (!x->passes)
        return -1;
    return err_code(
        e, EXIT_INCOMPLETE,
        "panel %s is unfinished, so nothing is compared: assay judge --panel %s goes on", x->panel,
        x->dir);
}

/* What is left out is said: the column would hold what other answers got. */
static int say_stale(const struct ledger *l, const struct judged *x, struct err *e)
{
    const char *last = NULL;
    for (size_t r = 0; r < l->n; r++) {
        if (!x->stale[r] || x->fresh[r])
            continue;
        last = str_dup((struct arena *)&l->arena, l->v[r].run);
        log_warn("not comparable: run %s's answers changed since panel %s judged them; make judge "
                 "PANEL=%s RUNS=%s judges the new ones",
                 last, x->panel, x->panel, last);
    }
    if (x->added)
        return 0;
    return last ? err_set(e, "not comparable: run %s's answers changed since panel %s judged them",
                          last, x->panel)
                : err_set(e, "%s: this panel judged none of these runs", x->dir);
}

int ledger_panel(struct ledger *l, const char *dir, struct err *e)
{
    struct arena *a = &l->arena;
    const char *scores = path_join(a, dir, "scores");
    struct judged x = {.dir = dir, .panel = arena_strdup(a, path_base(dir))};
    struct strs passes;
    x.stale = arena_array(a, l->n + 1, sizeof *x.stale);
    x.fresh = arena_array(a, l->n + 1, sizeof *x.fresh);
    if (panel_passes(dir, &x.pass, &x.passes, a, e))
        return -1;
    struct json *man = manifest_read(dir, e);
    if (!man)
        return no_manifest(&x, e);
    x.facts = json_get(man, "facts");
    int rc = file_list(scores, &passes, a, e);
    for (size_t i = 0; rc == 0 && i < passes.n; i++)
        rc = add_pass(l, &x, path_join(a, scores, str_dup(a, passes.v[i])), passes.v[i], e);
    json_free(man);
    return rc ? rc : say_stale(l, &x, e);
}
