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

bool judge_answer(const struct judge_asker *g, int32_t item, int32_t entrant, struct str *text)
{
    const struct judge_entrant *x = &g->entrant[entrant];
    *text = (struct str){0};
    if (x->role == ROLE_REFERENCE)
        *text = g->items.v[item].reference;
    if (x->role != ROLE_MODEL)
        return true;
    const struct response *r = responses_find(&x->responses, g->items.v[item].id);
    if (!r || r->finish == FINISH_ERROR)
        return false;
    *text = r->text;
    return true;
}

int32_t judge_rep(const struct judge_asker *g, int32_t item, int32_t entrant)
{
    return g->rep[(size_t)item * g->entrants + (size_t)entrant];
}

int judge_load_answers(struct judge_asker *g, struct err *e)
{
    for (size_t k = 0; k < g->entrants; k++) {
        struct judge_entrant *x = &g->entrant[k];
        size_t found = 0;
        if (x->role != ROLE_MODEL)
            continue;
        if (x->path && responses_load(&x->responses, x->path, e))
            return -1;
        for (size_t i = 0; i < g->items.n; i++)
            found += responses_find(&x->responses, g->items.v[i].id) != NULL;
        if (!found)
            return err_set(e, "%s answers no item of these", x->path ? x->path : "an entrant");
    }
    g->rep = mem_array(g->items.n * g->entrants, sizeof *g->rep);
    for (size_t i = 0; i < g->items.n; i++)
        for (size_t k = 0; k < g->entrants; k++) {
            int32_t *rep = &g->rep[i * g->entrants + k];
            struct str text, other;
            *rep = judge_answer(g, (int32_t)i, (int32_t)k, &text) ? (int32_t)k : -1;
            for (size_t j = 0; j < k && *rep == (int32_t)k; j++)
                if (judge_rep(g, (int32_t)i, (int32_t)j) == (int32_t)j &&
                    judge_answer(g, (int32_t)i, (int32_t)j, &other) && str_eq(text, other))
                    *rep = (int32_t)j;
        }
    return 0;
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
    if (judge_prompt_load(&g->prompt, prompt, a, e) || (items && items_load(&g->items, items, e)) ||
        judge_load_answers(g, e) || model_open(&g->model, str_dup(a, c->judge), &o, e))
        return -1;
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
    for (size_t i = 0; g->v && i < g->n; i++)
        buf_release(&g->v[i].question);
    for (size_t i = 0; i < g->entrants; i++)
        responses_release(&g->entrant[i].responses);
    free(g->entrant);
    free(g->v);
    free(g->rep);
    model_close(&g->model);
    items_release(&g->items);
    arena_release(&g->arena);
}
