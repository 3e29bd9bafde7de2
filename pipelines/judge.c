/* judge: see pipelines/judge.h. */
#include "pipelines/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

const char *judge_default_prompt(enum judge_protocol p)
{
    static const char *const names[] = {"score100", "joint100", "pairwise"};
    return names[p];
}

void judge_asker_init(struct judge_asker *g, const struct judge_job *j)
{
    *g = (struct judge_asker){.store = mem_zero(sizeof *g->store),
                              .c = j->c,
                              .caps = j->caps,
                              .price = j->price,
                              .asks = j->asks,
                              .structured =
                                  j->structured == JSON_ASK ||
                                  (j->structured == JSON_AUTO && j->protocol == JUDGE_JOINT),
                              .clock = j->clock};
}

static int check_protocol(const struct judge_asker *g, const struct judge_job *j, struct err *e)
{
    if (g->prompt.protocol == j->protocol)
        return 0;
    return err_code(e, EXIT_USAGE, "prompt %.*s is one for --protocol %s", STR_ARG(g->prompt.name),
                    judge_protocol_names[g->prompt.protocol]);
}

static void settings(struct stage *st, const struct judge_asker *g, const struct judge_job *j,
                     struct arena *a)
{
    stage_setting(st, "judge", g->identity);
    stage_setting(st, "prompt", g->prompt.hash);
    stage_setting(st, "repeat", arena_printf(a, "%lld", (long long)j->repeat));
    if (g->prompt.protocol == JUDGE_PAIRWISE)
        stage_setting(st, "pairs",
                      arena_printf(a, "%s %.*s", j->pairs == PAIRS_ALL ? "all" : "baseline",
                                   STR_ARG(j->baseline)));
    for (size_t k = 0; k < g->entrants && g->entrants > 1; k++)
        stage_setting(st, arena_printf(a, "entrant %zu", k), str_dup(a, g->entrant[k].name));
}

static int work(struct judge_asker *g, const struct judge_job *j, const double *label,
                struct stage *st, FILE *to, struct arena *a, struct err *e)
{
    int rc = judge_ask_all(g, path_join(a, j->out, "verdicts.msgpack"), e);
    if (rc && !g->kept && g->decided == g->failed)
        return -1; /* nothing to sum up */
    struct err second;
    if (judge_print(g, j, to, rc ? &second : e))
        return -1;
    struct json *labels = label ? judge_labels_report(g, label, to) : NULL;
    if (rc == 0 && judge_check_failed(g, e) == 0 && judge_write(g, j, st, a, e) == 0) {
        if (labels)
            stage_fact(st, "labels", labels);
        return stage_end(st, e);
    }
    json_free(labels);
    return -1;
}

static int inputs(struct stage *st, const struct judge_asker *g, const struct judge_job *j,
                  struct err *e)
{
    if (stage_input_whole(st, j->labels ? j->labels : j->items, e))
        return -1;
    for (size_t k = 0; k < g->entrants; k++)
        if (g->entrant[k].path && stage_input_whole(st, g->entrant[k].path, e))
            return -1;
    return 0;
}

int judge_run(const struct judge_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct judge_asker g;
    struct stage st;
    double *label = NULL;
    int rc = -1;
    judge_asker_init(&g, j);
    stage_begin(&st, "judge", 2, j->out, NULL, NULL);
    if (j->labels ? judge_labels_load(&g, j->labels, &label, a, e)
                  : judge_entrants(&g, j->responses, a, e))
        goto out;
    if (judge_open(&g, j->labels ? NULL : j->items, judge_default_prompt(j->protocol),
                   j->exact_tokens, a, e) ||
        check_protocol(&g, j, e) || judge_plan_check(&g, j, e) || inputs(&st, &g, j, e))
        goto out;
    settings(&st, &g, j, a);
    if (stage_fresh(&st)) {
        rc = 0;
        goto out;
    }
    judge_plan(&g, j);
    if (j->dry) {
        rc = judge_dry(&g, path_join(a, j->out, "verdicts.msgpack"), e);
        goto out;
    }
    rc = stage_start(&st, e) ? -1 : work(&g, j, label, &st, to, a, e);
out:
    stage_release(&st);
    judge_close(&g);
    return rc;
}
