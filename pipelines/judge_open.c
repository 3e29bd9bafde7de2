/* judge_open: who is judged by whom: entrants, their answers, the judge. See judge_ask.h. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "pipelines/judge_ask.h"

enum { JSON_TOKENS = 16 }; /* keys, braces and the white space that a grammar allows */

/* Names become parts of file names and of tables. */
static int check_name(struct str name, struct err *e)
{
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] <= ' ' || strchr("/,\x7f", name.p[i]))
            return err_code(e, EXIT_USAGE, "\"%.*s\" is no name: it has a space, comma or slash",
                            STR_ARG(name));
    if (!name.n || *name.p == '.' || *name.p == '=' || name.n > 100)
        return err_code(e, EXIT_USAGE, "\"%.*s\" is no name for an entrant", STR_ARG(name));
    return 0;
}

int judge_entrants(struct judge_asker *g, struct strs specs, struct arena *a, struct err *e)
{
    g->entrant = mem_array(specs.n + 2, sizeof *g->entrant); /* two for the sanity answers */
    for (size_t i = 0; i < specs.n; i++) {
        struct str path = specs.v[i], name = str_cut(&path, '=');
        if (!path.n || memchr(name.p, '/', name.n)) {
            path = specs.v[i];
            name = str_z(path_base(str_dup(a, path)));
            if (str_ends(name, ".msgpack"))
                name.n -= 8;
            else if (str_ends(name, ".json"))
                name.n -= 5;
        }
        if (check_name(name, e))
            return -1;
        if (judge_entrant_find(g, name) >= 0)
            return err_code(e, EXIT_USAGE,
                            "two responses are named %.*s: give them names, --responses NAME=FILE",
                            STR_ARG(name));
        g->entrant[g->entrants++] =
            (struct judge_entrant){.name = str_copy(a, name), .path = str_dup(a, path)};
    }
    return 0;
}

int judge_entrant_find(const struct judge_asker *g, struct str name)
{
    for (size_t i = 0; i < g->entrants; i++)
        if (str_eq(g->entrant[i].name, name))
            return (int)i;
    return -1;
}

/* Where the text of an answer stands; false: there is none. */
static bool answer_at(const struct judge_asker *g, int32_t item, int32_t entrant, uint64_t *at)
{
    enum judge_role role = g->entrant[entrant].role;
    *at = role == ROLE_REFERENCE ? JUDGE_REFERENCE
          : role == ROLE_MODEL   ? judge_store_cell(g->store, (size_t)item, (size_t)entrant).at
                                 : 0;
    return role != ROLE_MODEL || *at;
}

void judge_look(const struct judge_asker *g, int32_t item, const int32_t *who, int32_t n,
                struct judge_view *v)
{
    uint64_t at[JUDGE_MOST];
    for (int32_t i = 0; i < n; i++)
        answer_at(g, item, who[i], &at[i]);
    judge_store_view(g->store, (size_t)item, at, (size_t)n, v);
}

int32_t judge_rep(const struct judge_asker *g, int32_t item, int32_t entrant)
{
    return judge_store_cell(g->store, (size_t)item, (size_t)entrant).rep - 1;
}

struct loading {
    struct judge_asker *g;
    size_t entrant, found;
};

static int take_response(void *ctx, const struct response *r, struct err *e)
{
    struct loading *x = ctx;
    size_t item = judge_store_find(x->g->store, r->item);
    if (item == (size_t)-1)
        return judge_store_check(x->g->store, e)
                   ? -1
                   : err_set(e, "%s: response for item \"%.*s\", which is not among the %zu items",
                             x->g->entrant[x->entrant].path, STR_ARG(r->item), x->g->store->items);
    judge_store_answer(x->g->store, item, x->entrant, r->finish == FINISH_ERROR ? NULL : &r->text);
    x->found++;
    return judge_store_check(x->g->store, e);
}

/* The first entrant with the answer that entrant k gives. */
static int32_t find_rep(const struct judge_asker *g, int32_t item, int32_t k, struct judge_view *v)
{
    uint64_t at;
    if (!answer_at(g, item, k, &at))
        return -1;
    for (int32_t j = 0; j < k; j++) {
        int32_t both[2] = {j, k};
        if (judge_rep(g, item, j) != j)
            continue;
        judge_look(g, item, both, 2, v);
        if (str_eq(v->answer[0], v->answer[1]))
            return j;
    }
    return k;
}

int judge_load_answers(struct judge_asker *g, struct err *e)
{
    for (size_t k = 0; k < g->entrants; k++) {
        struct judge_entrant *x = &g->entrant[k];
        struct loading l = {g, k, 0};
        if (x->role != ROLE_MODEL || !x->path)
            continue;
        if (responses_each(x->path, take_response, &l, e))
            return -1;
        if (!l.found)
            return err_set(e, "%s answers no item of these", x->path);
    }
    for (size_t i = 0; i < g->store->items; i++)
        for (size_t k = 0; k < g->entrants; k++)
            judge_store_set_rep(g->store, i, k, find_rep(g, (int32_t)i, (int32_t)k, &g->view));
    return judge_store_check(g->store, e);
}

/* Answers in one question at most. */
static size_t most_shown(const struct judge_asker *g)
{
    if (g->pass)
        return JUDGE_MOST;
    if (g->prompt.protocol != JUDGE_JOINT)
        return g->prompt.protocol == JUDGE_SINGLE ? 1 : 2;
    return g->entrants < JUDGE_MOST ? g->entrants : JUDGE_MOST;
}

int judge_open(struct judge_asker *g, const char *items, const char *prompt_default,
               bool exact_tokens, struct arena *a, struct err *e)
{
    const struct judge_config *c = &g->c;
    struct str prompt = c->prompt.n ? c->prompt : str_z(prompt_default);
    struct model_options o = {.concurrency = c->concurrency,
                              .timeout = c->timeout,
                              .retries = c->retries,
                              .max_requests = c->max_requests,
                              .clock = g->clock};
    if (!g->clock)
        g->clock = clock_system();
    g->started = g->clock->now(g->clock);
    g->store->entrants = g->entrants;
    if (judge_prompt_load(&g->prompt, prompt, a, e) ||
        (items && judge_store_items(g->store, items, e)) || judge_load_answers(g, e) ||
        model_open(&g->model, str_dup(a, c->judge), &o, e))
        return -1;
    g->store->most = most_shown(g);
    if (!exact_tokens && g->c.max_tokens < g->prompt.tokens)
        g->c.max_tokens = g->prompt.tokens;
    if (!exact_tokens && g->structured)
        g->c.max_tokens += JSON_TOKENS;
    g->identity =
        arena_printf(a, "%s temperature=%g seed=%lld max_tokens=%lld%s",
                     g->model.ops->identity(&g->model), c->temperature, (long long)c->seed,
                     (long long)g->c.max_tokens, g->structured ? " structured" : "");
    return 0;
}

void judge_close(struct judge_asker *g)
{
    records_abort(g->journal);
    for (struct judge_live *l = g->made, *older; l; l = older) {
        older = l->older;
        buf_release(&l->view.text);
        buf_release(&l->question);
        free(l);
    }
    buf_release(&g->view.text);
    free(g->entrant);
    model_close(&g->model);
    if (g->store)
        judge_store_release(g->store);
    free(g->store);
    arena_release(&g->arena);
}
