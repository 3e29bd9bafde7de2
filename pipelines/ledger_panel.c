/* ledger_panel: the verdicts of a panel as metrics of the runs it judged, see ledger.h.
 *
 * Verdicts of one pass compare with each other and with nothing else: each pass is a task of its own.
 * Across passes only the panel's own report speaks, through its anchors. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "formats/manifest.h"
#include "pipelines/ledger.h"
#include "pipelines/result.h"

/* Scores of a run in one pass: RUN.msgpack, or RUN-SEED.msgpack of each fine-tuning seed. */
static struct strs scores_of(const struct result *r, const char *dir, const struct strs *names,
                             struct arena *a)
{
    struct strs paths = {0};
    for (size_t i = 0; i < names->n; i++) {
        struct str rest = names->v[i];
        if (!str_ends(rest, ".msgpack"))
            continue;
        rest.n -= strlen(".msgpack");
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

static int add_pass(struct ledger *l, const char *panel, const char *dir, struct str pass,
                    const struct json *facts, size_t *added, struct err *e)
{
    struct arena *a = &l->arena;
    struct strs names;
    static const char *const none[] = {NULL};
    if (file_list(dir, &names, a, e) != 0)
        return -1;
    for (size_t r = 0; r < l->n; r++) {
        struct strs paths = scores_of(&l->v[r], dir, &names, a);
        struct metrics m = {.a = a};
        if (!paths.n)
            continue;
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
            struct str served = json_str(json_get(facts, "served"));
            strs_push(id, str_printf(a, "served=%.*s", STR_ARG(served)), a);
            *have = (struct list){v, have->n + 1};
            (*added)++;
        }
        free(m.v);
        if (rc != 0)
            return -1;
    }
    return 0;
}

int ledger_panel(struct ledger *l, const char *dir, struct err *e)
{
    struct arena *a = &l->arena;
    const char *scores = path_join(a, dir, "scores");
    struct strs passes;
    size_t added = 0;
    struct json *man = manifest_read(dir, e);
    if (!man)
        return -1;
    int rc = file_list(scores, &passes, a, e);
    for (size_t i = 0; rc == 0 && i < passes.n; i++)
        rc = add_pass(l, arena_strdup(a, path_base(dir)),
                      path_join(a, scores, str_dup(a, passes.v[i])), passes.v[i],
                      json_get(man, "facts"), &added, e);
    json_free(man);
    if (rc == 0 && !added)
        return err_set(e, "%s: this panel judged none of these runs", dir);
    return rc;
}
