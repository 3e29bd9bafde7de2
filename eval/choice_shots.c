/* choice_shots: solved rows before each item, and the hash of all that is asked. Eval/choice.h. */
#include <stdlib.h>

#include "base/rng.h"
#include "eval/choice.h"
#include "formats/choice.h"

static int draw(const struct items *pool, const struct item *it, int64_t shots, int64_t seed,
                size_t *out, struct err *e)
{
    uint64_t key = sha256_u64(it->id);
    struct rng r = rng_make((uint64_t)seed, "shots", key);
    int64_t have = 0;
    if ((int64_t)pool->n < shots + 1)
        return err_set(e, "%lld shots want more than %zu rows", (long long)shots, pool->n);
    while (have < shots) {
        size_t k = (size_t)rng_below(&r, pool->n);
        bool taken = str_eq(pool->v[k].id, it->id) &&
                     str_eq(choice_context(&pool->v[k], 0), choice_context(it, 0));
        for (int64_t i = 0; i < have; i++)
            taken = taken || out[i] == k;
        if (taken)
            continue;
        if (pool->v[k].gold < 0)
            return err_set(e, "row %.*s has no right choice to show", STR_ARG(pool->v[k].id));
        out[have++] = k;
    }
    return 0;
}

int choice_shots(struct items *x, const struct items *pool, const struct task *t, int64_t shots,
                 int64_t seed, struct err *e)
{
    size_t *at = mem_array((size_t)shots + 1, sizeof *at);
    struct buf b = {0};
    struct strs *fresh = arena_array(&x->arena, x->n, sizeof *fresh);
    int rc = 0;
    for (size_t i = 0; i < x->n && !rc; i++) {
        const struct item *it = &x->v[i];
        rc = draw(pool, it, shots, seed, at, e);
        buf_cut(&b, 0);
        buf_adds(&b, t->description);
        for (int64_t k = 0; k < shots && !rc; k++) {
            const struct item *s = &pool->v[at[k]];
            buf_adds(&b, choice_context(s, (size_t)s->gold));
            buf_adds(&b, s->delimiter);
            buf_adds(&b, s->choices.v[s->gold]);
            buf_adds(&b, t->shot_separator);
        }
        fresh[i] = (struct strs){arena_array(&x->arena, it->contexts.n, sizeof(struct str)),
                                 it->contexts.n};
        for (size_t c = 0; c < it->contexts.n; c++)
            fresh[i].v[c] = str_printf(&x->arena, "%.*s%.*s", (int)b.n, b.p ? b.p : "",
                                       STR_ARG(it->contexts.v[c]));
    }
    for (size_t i = 0; i < x->n && !rc; i++) /* only now: the pool may be x */
        x->v[i].contexts = fresh[i];
    buf_release(&b);
    free(at);
    return rc;
}

void choice_hash(const struct items *x, char hex[SHA256_HEX])
{
    struct sha256 h;
    sha256_begin(&h);
    for (size_t i = 0; i < x->n; i++) {
        const struct item *it = &x->v[i];
        sha256_part(&h, it->id);
        for (size_t k = 0; k < it->contexts.n; k++)
            sha256_part(&h, it->contexts.v[k]);
        sha256_part(&h, it->delimiter);
        for (size_t k = 0; k < it->choices.n; k++)
            sha256_part(&h, it->choices.v[k]);
        sha256_add(&h, &it->gold, sizeof it->gold);
    }
    sha256_end_hex(&h, hex);
}
