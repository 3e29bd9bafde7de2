/* panel_plan: anchors, and blocks of answers. See pipelines/panel.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "pipelines/panel.h"
#include "scoring/blocks.h"
#include "scoring/scorer.h"

/* ---- anchors -------------------------------------------------------------------------------- */

struct rank {
    int32_t entrant;
    double mean;
};

static int by_mean(const void *x, const void *y)
{
    const struct rank *p = x, *q = y;
    if (p->mean != q->mean)
        return p->mean < q->mean ? -1 : 1;
    return p->entrant - q->entrant;
}

void panel_choose_anchors(const struct judge_asker *g, size_t want, struct strs *names,
                          struct arena *a)
{
    struct err ignored = {0};
    const struct scorer *overlap = scorer_find(STR_LIT("overlap"), &ignored);
    struct rank *v = mem_array(g->entrants + 1, sizeof *v);
    struct judge_view view = {0};
    size_t n = 0;
    for (size_t k = 0; k < g->entrants; k++) {
        const struct judge_entrant *x = &g->entrant[k];
        double sum = 0;
        if (x->role != ROLE_MODEL)
            continue;
        for (size_t i = 0; i < g->store->items; i++) {
            int32_t who = (int32_t)k;
            struct arena each = {0};
            struct score s = {0};
            if (judge_rep(g, (int32_t)i, who) < 0)
                continue;
            judge_look(g, (int32_t)i, &who, 1, &view);
            struct response r = {.item = view.it.id, .text = view.answer[0]};
            overlap->score(&view.it, &r, &s, &each);
            sum += s.outcome == OUTCOME_SCORED ? s.value : 0;
            arena_release(&each);
        }
        v[n++] = (struct rank){(int32_t)k, sum / (double)g->store->items};
    }
    qsort(v, n, sizeof *v, by_mean);
    for (size_t i = 0; i < want && i < n; i++)
        strs_push(names, g->entrant[v[(n - want) / 2 + i].entrant].name, a);
    buf_release(&view.text);
    free(v);
}

/* ---- questions ------------------------------------------------------------------------------ */

static bool has_role(const struct panel_pass *pass, struct str name, const char *role)
{
    for (size_t i = 0; i < pass->model.n; i++)
        if (str_eq(pass->model.v[i], name))
            return str_eqz(pass->role.v[i], role);
    return false;
}

/* The distinct answers to one item: those of anchors, and the others. */
static void sort_answers(const struct judge_asker *g, const struct panel_pass *pass, int32_t item,
                         int32_t *anchor, int32_t *anchors, int32_t *who, int32_t *n)
{
    *anchors = *n = 0;
    for (int32_t k = 0; k < (int32_t)g->entrants; k++) {
        int32_t rep = judge_rep(g, item, k);
        bool known = false;
        if (rep < 0 || !has_role(pass, g->entrant[k].name, "anchor"))
            continue;
        for (int32_t i = 0; i < *anchors; i++)
            known = known || anchor[i] == rep;
        if (!known)
            anchor[(*anchors)++] = rep;
    }
    for (int32_t k = 0; k < (int32_t)g->entrants; k++) {
        bool anchored = false;
        for (int32_t i = 0; i < *anchors; i++)
            anchored = anchored || anchor[i] == k;
        if (judge_rep(g, item, k) == k && !anchored)
            who[(*n)++] = k;
    }
}

void panel_questions(struct judge_asker *g, const struct panel_pass *pass)
{
    struct blocks b;
    int32_t size = (int32_t)pass->size, most = (int32_t)g->entrants;
    int32_t *who = mem_array((size_t)most * 3 + (size_t)size, sizeof *who);
    int32_t *anchor = who + most, *out = anchor + most, anchors, n;
    blocks_init(&b, most, size, (uint64_t)g->c.seed);
    judge_forget(g->store);
    for (int32_t i = 0; i < (int32_t)g->store->items; i++) {
        sort_answers(g, pass, i, anchor, &anchors, who, &n);
        judge_look(g, i, NULL, 0, &g->view);
        int32_t count = blocks_item(&b, who, n, sha256_u64(g->view.it.id), out);
        for (int32_t k = 0; k < (count ? count : anchors > 1); k++) {
            int32_t shown[JUDGE_MOST], m = 0;
            for (int32_t x = 0; x < anchors; x++)
                shown[m++] = anchor[x];
            for (int32_t x = 0; count && x < size && out[k * size + x] >= 0; x++)
                shown[m++] = out[k * size + x];
            judge_shuffle(g, i, shown, m);
            judge_add(g, i, shown, m, (int32_t)pass->number);
        }
    }
    blocks_release(&b);
    free(who);
}

int64_t panel_longest(const struct judge_asker *g)
{
    int64_t most = 0;
    struct judge_view v = {0};
    struct buf b = {0};
    struct judge_ask q;
    for (size_t i = 0; i < g->store->asks; i++) {
        judge_get(g->store, i, &q);
        buf_cut(&b, 0);
        judge_look(g, q.item, q.who, q.n, &v);
        judge_question(&g->prompt, g->structured, &v.it, v.answer, (size_t)q.n, &b);
        int64_t tokens = (int64_t)b.n / 3 + 1 + g->c.max_tokens * q.n;
        most = tokens > most ? tokens : most;
    }
    buf_release(&v.text);
    buf_release(&b);
    return most;
}
