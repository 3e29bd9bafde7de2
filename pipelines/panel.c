/* panel: asking the passes of a panel, and what comes of them. See pipelines/panel.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "pipelines/panel_private.h"

/* ---- one pass ------------------------------------------------------------------------------- */

static int open_pass(struct panel *p, struct err *e)
{
    struct judge_asker *g = &p->g;
    struct judge_job j = p->j->judge;
    j.protocol = JUDGE_JOINT;
    j.c.judge = p->c.judge;
    j.c.prompt = p->c.prompt;
    j.c.seed = p->c.seed;
    j.c.temperature = p->c.temperature;
    j.c.max_tokens = p->c.max_tokens;
    judge_asker_init(g, &j);
    g->pass = p->now.number;
    g->entrants = p->now.model.n;
    g->entrant = mem_array(g->entrants + 1, sizeof *g->entrant);
    for (size_t k = 0; k < g->entrants; k++) {
        struct str role = p->now.role.v[k], hash = p->now.hash.v[k];
        const char *path = panel_answers(p, p->now.path.v[k], hash);
        char hex[SHA256_HEX];
        g->entrant[k] = (struct judge_entrant){.name = p->now.model.v[k],
                                               .path = path,
                                               .role = str_eqz(role, "reference") ? ROLE_REFERENCE
                                                       : str_eqz(role, "empty")   ? ROLE_EMPTY
                                                                                  : ROLE_MODEL};
        if (path && sha256_file(path, hex, e))
            return -1;
        if (path && !str_eqz(hash, hex))
            return err_set(e, "%s has changed since it was judged", path);
    }
    if (judge_open(g, str_dup(p->a, p->c.items), "joint100", false, p->a, e))
        return -1;
    if (g->prompt.protocol != JUDGE_JOINT)
        return err_code(e, EXIT_USAGE, "prompt %.*s is none for joint questions",
                        STR_ARG(g->prompt.name));
    return 0;
}

/* The largest block that stays within the judge's context. */
static int fit_size(struct panel *p, struct err *e)
{
    int64_t context = p->c.context, own = p->g.model.context, anchors = 0;
    if (own && (!context || own < context))
        context = own;
    if (p->is_new) {
        for (size_t i = 0; i < p->now.role.n; i++)
            anchors += str_eqz(p->now.role.v[i], "anchor");
        int64_t all = (int64_t)p->now.model.n - anchors, most = JUDGE_MOST - anchors;
        p->now.size = p->passes ? p->pass[0].size : p->c.size ? p->c.size : all;
        p->now.size = p->now.size < most ? p->now.size : most;
    }
    for (int64_t first = p->now.size;; p->now.size--) {
        panel_questions(&p->g, &p->now);
        int64_t need = panel_longest(&p->g);
        if (!context || need <= context || !p->is_new) {
            if (p->now.size < first)
                log_info("%lld answers beside the anchors fit the context of %lld tokens",
                         (long long)p->now.size, (long long)context);
            return 0;
        }
        if (p->now.size == 1)
            return err_set(e, "a question needs about %lld tokens, the judge's context has %lld",
                           (long long)need, (long long)context);
    }
}

/* Before the first question of a pass: who is in it never changes again. */
static int record_pass(struct panel *p, struct err *e)
{
    if (!p->is_new)
        return 0;
    if (panel_design_write(p, e) || panel_keep_answers(p, e))
        return -1;
    struct records *w = records_open(path_join(p->a, p->j->dir, "passes.msgpack"),
                                     &panel_pass_schema, RECORD_APPEND, e);
    p->now.judge = str_z(p->g.identity);
    p->now.prompt = str_z(p->g.prompt.hash);
    p->now.items = str_z(p->items_hash);
    p->now.questions = (int64_t)p->g.store->asks;
    if (!w)
        return -1;
    if (records_append(w, &p->now, e) || records_sync(w, e)) {
        records_abort(w);
        return -1;
    }
    return records_close(w, e);
}

static int check_same(const struct panel *p, struct err *e)
{
    const struct panel_pass *first = p->passes ? &p->pass[0] : NULL;
    if (first && !str_eqz(first->items, p->items_hash))
        return err_set(e, "%.*s has changed since the first pass", STR_ARG(p->c.items));
    if (first && !str_eqz(first->prompt, p->g.prompt.hash))
        return err_set(e, "the prompt has changed since the first pass: that is another panel");
    if (first && !str_eqz(first->judge, p->g.identity))
        return err_set(e, "the judge is \"%s\", in the first pass it was \"%.*s\"", p->g.identity,
                       STR_ARG(first->judge));
    return 0;
}

/* Opens, plans, records and asks p->now. */
static int ask_pass(struct panel *p, struct stage *st, struct err *e)
{
    const char *journal = path_join(p->a, p->j->dir, "verdicts.msgpack");
    judge_close(&p->g);
    if (open_pass(p, e) || check_same(p, e) || panel_make_anchors(p, e) || fit_size(p, e))
        return -1;
    if (p->j->judge.dry)
        return judge_dry(&p->g, journal, e);
    for (size_t k = 0; k < p->g.entrants; k++)
        if (p->g.entrant[k].path && stage_input(st, p->g.entrant[k].path, e))
            return -1;
    if (!p->started && (stage_spare(st, e) || record_pass(p, e) || stage_start(st, e)))
        return -1;
    if (p->started && record_pass(p, e))
        return -1;
    p->started = true;
    int rc = judge_ask_all(&p->g, journal, e);
    buf_printf(&p->spent, "judge, pass %lld: ", (long long)p->now.number);
    size_t at = p->spent.n;
    judge_spent(&p->g, &p->spent);
    memmove(p->spent.p + at, p->spent.p + at + 2, p->spent.n - at - 2); /* "; " in front */
    buf_cut(&p->spent, p->spent.n - 2);
    buf_addc(&p->spent, '\n');
    return rc ? rc : judge_check_failed(&p->g, e);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int load_table(struct panel *p, struct panel_table *t, struct err *e)
{
    struct items items;
    if (items_load(&items, str_dup(p->a, p->c.items), e))
        return -1;
    int rc = panel_table_load(t, p->j->dir, &items, p->j->judge.c.max_failed, e);
    items_release(&items);
    return rc;
}

/* The report, and if all went well the files. */
static int finish(struct panel *p, struct stage *st, FILE *to, int rc, struct err *e)
{
    struct panel_table t;
    struct err later = {0};
    double lo = p->g.prompt.hi > p->g.prompt.lo ? (double)p->g.prompt.lo : NAN;
    if (load_table(p, &t, rc ? &later : e))
        return -1;
    if (!t.judged && rc) { /* nothing to sum up */
        panel_table_release(&t);
        return -1;
    }
    if (panel_print(&t, p->j->baseline, lo, (double)p->g.prompt.hi, to, rc ? &later : e) && !rc)
        rc = -1;
    if (p->spent.n)
        fputs(p->spent.p, to);
    if (rc == 0 && p->started) {
        rc = panel_write(&t, p->j->dir, st, p->a, e);
        if (rc == 0) {
            stage_fact(st, "served", json_of_z(judge_served(&p->g, p->a)));
            stage_fact(st, "scale",
                       json_of_z(arena_printf(p->a, "%lld..%lld", (long long)p->g.prompt.lo,
                                              (long long)p->g.prompt.hi)));
            rc = stage_end(st, e);
        }
    }
    panel_table_release(&t);
    return rc;
}

/* Passes that are not whole, before anything new is asked: *last, if the last one was among them. */
static int ask_open(struct panel *p, struct stage *st, bool *last, struct err *e)
{
    struct panel_table t;
    bool *open = mem_array(p->passes + 1, sizeof *open);
    int rc = panel_table_load(&t, p->j->dir, NULL, p->j->judge.c.max_failed, e);
    for (size_t k = 0; rc == 0 && k < p->passes; k++)
        open[k] = !t.whole[k];
    for (size_t k = 0; rc == 0 && k < p->passes; k++) {
        if (!open[k])
            continue;
        log_info("pass %zu is unfinished, %lld of %lld questions have a verdict: it goes on first",
                 k + 1, (long long)t.outcome[k][OUTCOME_SCORED], (long long)p->pass[k].questions);
        p->now = p->pass[k];
        p->is_new = false;
        rc = ask_pass(p, st, e);
    }
    *last = p->passes && open[p->passes - 1];
    free(open);
    panel_table_release(&t);
    return rc;
}

int panel_run(const struct panel_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct panel p = {.j = j, .a = a};
    struct stage st;
    bool last;
    int rc = -1;
    stage_begin(&st, "panel", 1, j->dir, NULL, NULL);
    if (panel_design(&p, e) || panel_passes(j->dir, &p.pass, &p.passes, a, e))
        goto out;
    rc = ask_open(&p, &st, &last, e);
    p.finished = last;
    if (rc == 0)
        rc = panel_make_pass(&p, e);
    if (rc == 0 && (p.is_new || !last))
        rc = ask_pass(&p, &st, e);
    if (j->judge.dry || (rc && !p.started && !p.passes))
        goto out;
    stage_setting(&st, "judge", p.g.identity ? p.g.identity : "");
    stage_setting(&st, "pass", arena_printf(a, "%lld", (long long)p.now.number));
    /* No question can be asked, but what is there can be told. */
    if (rc == 0 || p.started || (!p.is_new && p.now.number && !j->responses.n))
        rc = finish(&p, &st, to, rc, e);
out:
    stage_release(&st);
    judge_close(&p.g);
    buf_release(&p.spent);
    return rc;
}
