/* judge_plan: the questions of the three protocols. See pipelines/judge.h. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "pipelines/judge.h"

/* By name first, so that the order on the command line means nothing; then by the item's id, so that
 * the order of the items means nothing either. */
void judge_shuffle(const struct judge_asker *g, int32_t item, int32_t *who, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        for (int32_t k = i;
             k > 0 && str_cmp(g->entrant[who[k]].name, g->entrant[who[k - 1]].name) < 0; k--) {
            int32_t t = who[k];
            who[k] = who[k - 1];
            who[k - 1] = t;
        }
    struct judge_view v = {0};
    judge_look(g, item, NULL, 0, &v);
    struct rng r = rng_make((uint64_t)g->c.seed, "judge order", sha256_u64(v.it.id));
    buf_release(&v.text);
    rng_shuffle(&r, who, (size_t)n, sizeof *who);
}

bool judge_pair(const struct judge_asker *g, const struct judge_job *j, size_t k, int32_t pair[2])
{
    int base = j->baseline.n ? judge_entrant_find(g, j->baseline) : 0;
    size_t at = 0;
    for (int32_t x = 0; x < (int32_t)g->entrants; x++)
        for (int32_t y = 0; y < (int32_t)g->entrants; y++) {
            bool want = j->pairs == PAIRS_ALL ? x < y : y == base && x != base;
            if (want && at++ == k) {
                pair[0] = x;
                pair[1] = y;
                return true;
            }
        }
    return false;
}

static void plan_single(struct judge_asker *g, int32_t item, int32_t repeat)
{
    for (int32_t k = 0; k < (int32_t)g->entrants; k++)
        if (judge_rep(g, item, k) == k) /* an equal answer of another is not sent again */
            judge_add(g, item, &k, 1, repeat);
}

static void plan_joint(struct judge_asker *g, int32_t item, int32_t repeat)
{
    int32_t who[JUDGE_MOST], n = 0;
    for (int32_t k = 0; k < (int32_t)g->entrants && n < JUDGE_MOST; k++)
        if (judge_rep(g, item, k) == k)
            who[n++] = k;
    judge_shuffle(g, item, who, n);
    if (n)
        judge_add(g, item, who, n, repeat);
}

static void plan_pairs(struct judge_asker *g, const struct judge_job *j, int32_t item,
                       int32_t repeat)
{
    int32_t pair[2];
    for (size_t k = 0; judge_pair(g, j, k, pair); k++) {
        int32_t x = judge_rep(g, item, pair[0]), y = judge_rep(g, item, pair[1]), before[2];
        int32_t as_is[2] = {x, y}, swapped[2] = {y, x};
        bool known = false;
        for (size_t i = 0; i < k && judge_pair(g, j, i, before); i++) {
            int32_t p = judge_rep(g, item, before[0]), q = judge_rep(g, item, before[1]);
            known = known || (p == x && q == y) || (p == y && q == x);
        }
        if (x < 0 || y < 0 || x == y || known) /* equal answers are a tie, and sent once */
            continue;
        judge_add(g, item, as_is, 2, repeat);
        judge_add(g, item, swapped, 2, repeat);
    }
}

void judge_plan(struct judge_asker *g, const struct judge_job *j)
{
    for (int32_t r = 0; r < (int32_t)j->repeat; r++)
        for (int32_t i = 0; i < (int32_t)g->store->items; i++) {
            if (g->prompt.protocol == JUDGE_SINGLE)
                plan_single(g, i, r);
            else if (g->prompt.protocol == JUDGE_JOINT)
                plan_joint(g, i, r);
            else
                plan_pairs(g, j, i, r);
        }
}

int judge_plan_check(const struct judge_asker *g, const struct judge_job *j, struct err *e)
{
    if (g->prompt.protocol == JUDGE_JOINT && g->entrants > JUDGE_MOST)
        return err_code(e, EXIT_USAGE,
                        "%zu answers are too many for one question (%d): make a panel, --panel DIR",
                        g->entrants, JUDGE_MOST);
    if (g->prompt.protocol == JUDGE_PAIRWISE && g->entrants < 2)
        return err_code(e, EXIT_USAGE, "pairwise needs the responses of at least two");
    if (j->baseline.n && judge_entrant_find(g, j->baseline) < 0)
        return err_code(e, EXIT_USAGE, "no responses are named %.*s", STR_ARG(j->baseline));
    return 0;
}
