/* grammar: adding, checking and drawing (see grammar.h). */
#include <math.h>
#include <string.h>

#include "datasets/grammar.h"

int grammar_find(const struct grammar *g, const char *rule)
{
    for (int i = 0; i < g->rules; i++)
        if (strcmp(g->rule[i].name, rule) == 0)
            return i;
    return -1;
}

static int rule_index(struct grammar *g, const char *name)
{
    int i = grammar_find(g, name);
    if (i >= 0)
        return i;
    if (g->rules == g->room) {
        g->room = g->room ? 2 * g->room : 64;
        struct grammar_rule *more = arena_array(&g->arena, (size_t)g->room, sizeof *more);
        if (g->rules)
            memcpy(more, g->rule, (size_t)g->rules * sizeof *more);
        g->rule = more;
    }
    g->rule[g->rules].name = arena_strdup(&g->arena, name);
    return g->rules++;
}

/* Cuts a pattern into texts and references. A brace without its partner is text. */
static void split_pattern(struct grammar *g, struct grammar_alt *alt)
{
    struct str rest = alt->pattern;
    size_t most = 1;
    for (size_t i = 0; i < rest.n; i++)
        most += rest.p[i] == '{' ? 2 : 0;
    struct grammar_piece *piece = arena_array(&g->arena, most, sizeof *piece);
    while (rest.n) {
        const char *open = memchr(rest.p, '{', rest.n);
        const char *shut = open ? memchr(open, '}', rest.n - (size_t)(open - rest.p)) : NULL;
        struct str text = {rest.p, shut ? (size_t)(open - rest.p) : rest.n};
        if (text.n)
            piece[alt->pieces++] = (struct grammar_piece){-1, text};
        rest.p += text.n;
        rest.n -= text.n;
        if (!shut)
            break;
        struct str name = {open + 1, (size_t)(shut - open) - 1};
        piece[alt->pieces++] =
            (struct grammar_piece){rule_index(g, str_dup(&g->arena, name)), {NULL, 0}};
        rest.p += name.n + 2;
        rest.n -= name.n + 2;
    }
    alt->piece = piece;
}

void grammar_add(struct grammar *g, const char *rule, int64_t weight, const char *pattern)
{
    int at = rule_index(g, rule);
    struct grammar_alt alt = {.weight = weight, .pattern = str_copy(&g->arena, str_z(pattern))};
    split_pattern(g, &alt); /* may move g->rule */
    struct grammar_rule *r = &g->rule[at];
    if (r->alts == r->room) {
        r->room = r->room ? 2 * r->room : 8;
        struct grammar_alt *more = arena_array(&g->arena, (size_t)r->room, sizeof *more);
        if (r->alts)
            memcpy(more, r->alt, (size_t)r->alts * sizeof *more);
        r->alt = more;
    }
    r->alt[r->alts++] = alt;
    r->total += weight;
}

enum { MARK_NEW, MARK_OPEN, MARK_DONE };

static int check_rule(struct grammar *g, int at, struct err *e)
{
    struct grammar_rule *r = &g->rule[at];
    if (r->mark == MARK_DONE)
        return 0;
    if (r->mark == MARK_OPEN)
        return err_set(e, "grammar: rule \"%s\" reaches itself", r->name);
    if (!r->alts)
        return err_set(e, "grammar: rule \"%s\" is used but has no alternative", r->name);
    r->mark = MARK_OPEN;
    for (int i = 0; i < r->alts; i++) {
        size_t n = 0;
        if (r->alt[i].weight <= 0)
            return err_set(e, "grammar: rule \"%s\" has a weight that is not positive", r->name);
        for (int k = 0; k < r->alt[i].pieces; k++) {
            const struct grammar_piece *p = &r->alt[i].piece[k];
            if (p->rule >= 0 && check_rule(g, p->rule, e))
                return -1;
            n += p->rule >= 0 ? g->rule[p->rule].longest : p->text.n;
        }
        r->longest = n > r->longest ? n : r->longest;
    }
    r->mark = MARK_DONE;
    return 0;
}

int grammar_close(struct grammar *g, const char *start, struct err *e)
{
    g->start = grammar_find(g, start);
    if (g->start < 0)
        return err_set(e, "grammar: there is no rule \"%s\" to start with", start);
    for (int i = 0; i < g->rules; i++)
        if (check_rule(g, i, e))
            return -1;
    return 0;
}

static double draw_rule(const struct grammar *g, int at, struct rng *r, struct buf *text)
{
    const struct grammar_rule *rule = &g->rule[at];
    int64_t ticket = (int64_t)rng_below(r, (uint64_t)rule->total);
    const struct grammar_alt *alt = rule->alt;
    while (ticket >= alt->weight)
        ticket -= alt++->weight;
    double bits = log2((double)rule->total / (double)alt->weight);
    for (int i = 0; i < alt->pieces; i++) {
        if (alt->piece[i].rule >= 0)
            bits += draw_rule(g, alt->piece[i].rule, r, text);
        else
            buf_adds(text, alt->piece[i].text);
    }
    return bits;
}

double grammar_draw(const struct grammar *g, struct rng *r, struct buf *text)
{
    return draw_rule(g, g->start, r, text);
}

void grammar_release(struct grammar *g)
{
    arena_release(&g->arena);
    *g = (struct grammar){0};
}
