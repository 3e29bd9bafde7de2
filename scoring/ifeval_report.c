/* ifeval_report: see scoring/ifeval_report.h. */
#include "scoring/ifeval_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* A text that says nothing, for the baseline of constant answers. */
static const char constant[] = "I am sorry but I cannot help with that.";

struct tally {
    int64_t prompts, instructions, prompt_strict, prompt_loose, strict, loose;
};
enum view { VIEW_ALL, VIEW_SUPPORTED, VIEW_EXACT, VIEWS };
static const char *const view_names[] = {"all", "supported", "exact"};

struct count {
    struct tally view[VIEWS];
    int64_t tiers[3], prompts[3]; /* instructions; prompts, by the worst of theirs */
    /* Of the answered ones alone, [0] instructions, [1] prompts; and how many have no answer. */
    int64_t heard[2][3], silent[2];
    struct map types;
    struct tally *by_type; /* [types.n] */
};

static void add_type(struct count *c, const struct ifeval_verdict *v)
{
    int added;
    size_t k = map_add(&c->types, v->id, 0, &added);
    if (added) {
        c->by_type = mem_grow(c->by_type, c->types.n * sizeof *c->by_type);
        c->by_type[k] = (struct tally){0};
    }
    c->by_type[k].instructions++;
    c->by_type[k].strict += v->strict;
    c->by_type[k].loose += v->loose;
}

/* answered false: there is no answer, so nothing is followed. */
static void add_item(struct count *c, const struct item *it, struct str answer, bool answered,
                     struct arena *a)
{
    struct tally t[VIEWS] = {{0}};
    bool whole[VIEWS] = {true, answered, answered};
    enum ifeval_tier worst = TIER_EXACT;
    for (size_t i = 0; i < it->constraints.n; i++) {
        struct ifeval_verdict v;
        ifeval_verdict(it->constraints.v[i], answer, &v, a);
        v.strict = v.strict && answered;
        v.loose = v.loose && answered;
        c->tiers[v.tier]++;
        c->heard[0][v.tier] += answered;
        c->silent[0] += !answered;
        worst = v.tier > worst ? v.tier : worst;
        add_type(c, &v);
        bool in[VIEWS] = {true, answered && v.tier != TIER_UNSUPPORTED,
                          answered && v.tier == TIER_EXACT};
        for (int k = 0; k < VIEWS; k++) {
            whole[k] = whole[k] && in[k];
            t[k].instructions += in[k];
            t[k].strict += in[k] && v.strict;
            t[k].loose += in[k] && v.loose;
        }
    }
    c->prompts[worst]++;
    c->heard[1][worst] += answered;
    c->silent[1] += !answered;
    for (int k = 0; k < VIEWS; k++) {
        struct tally *to = &c->view[k];
        int64_t n = (int64_t)it->constraints.n;
        to->instructions += t[k].instructions;
        to->strict += t[k].strict;
        to->loose += t[k].loose;
        to->prompts += whole[k];
        to->prompt_strict += whole[k] && t[k].strict == n;
        to->prompt_loose += whole[k] && t[k].loose == n;
    }
}

static void put_share(struct json *o, const char *name, int64_t part, int64_t of)
{
    json_put(o, name, json_of_num(of ? (double)part / (double)of : NAN));
}

/* The share that a metric is, of a tally. */
static double share_of(const struct tally *t, const char *metric)
{
    bool prompts = strncmp(metric, "ifeval_prompt", 13) == 0;
    bool strict = strstr(metric, "strict") != NULL;
    int64_t of = prompts ? t->prompts : t->instructions;
    int64_t part =
        prompts ? (strict ? t->prompt_strict : t->prompt_loose) : (strict ? t->strict : t->loose);
    return of ? (double)part / (double)of : NAN;
}

static struct json *tally_json(const struct tally *t)
{
    struct json *o = json_obj();
    json_put(o, "prompts", json_of_int(t->prompts));
    json_put(o, "instructions", json_of_int(t->instructions));
    put_share(o, "prompt_strict", t->prompt_strict, t->prompts);
    put_share(o, "prompt_loose", t->prompt_loose, t->prompts);
    put_share(o, "inst_strict", t->strict, t->instructions);
    put_share(o, "inst_loose", t->loose, t->instructions);
    return o;
}

static void count_release(struct count *c)
{
    map_release(&c->types);
    free(c->by_type);
}

static bool is_answered(const struct responses *responses, const struct item *it)
{
    const struct response *r = responses_find(responses, it->id);
    return r && r->finish != FINISH_ERROR && r->finish != FINISH_FILTER;
}

/* What every item gets when it is answered with one text; text.p NULL: with its own prompt. What is
 * supported, and *share, which is the metric, are over the items that have an answer, as the score
 * beside them is. */
static struct json *baseline(const struct items *items, const struct responses *responses,
                             struct str text, const char *metric, double *share)
{
    struct count c = {0}, heard = {0};
    struct arena a = {0};
    for (size_t i = 0; i < items->n; i++) {
        const struct item *it = &items->v[i];
        struct str answer = text.p ? text : it->instruction;
        if (!it->constraints.n)
            continue;
        add_item(&c, it, answer, true, &a);
        if (is_answered(responses, it))
            add_item(&heard, it, answer, true, &a);
    }
    struct json *o = tally_json(&c.view[VIEW_ALL]);
    json_put(o, "supported", tally_json(&heard.view[VIEW_SUPPORTED]));
    *share = share_of(&heard.view[VIEW_SUPPORTED], metric);
    count_release(&c);
    count_release(&heard);
    arena_release(&a);
    return o;
}

static struct str note_of(const struct count *c, const char *metric, const double base[3],
                          struct arena *a)
{
    bool prompts = strncmp(metric, "ifeval_prompt", 13) == 0;
    const int64_t *n = c->heard[prompts], silent = c->silent[prompts];
    struct str missing =
        silent ? str_printf(a, ", %lld without an answer", (long long)silent) : STR_LIT("");
    return str_printf(
        a,
        "of %lld %s %lld are checked exactly, %lld approximately, %lld are unsupported "
        "and have no value%.*s; without answering: empty %.4f, the prompt echoed %.4f, a "
        "constant sentence %.4f",
        (long long)(n[0] + n[1] + n[2] + silent), prompts ? "prompts" : "instructions",
        (long long)n[0], (long long)n[1], (long long)n[2], STR_ARG(missing), base[0], base[1],
        base[2]);
}

struct json *ifeval_report(const struct scorer *s, const struct items *items,
                           const struct responses *responses, struct str *note, struct arena *a)
{
    static const char *const names[] = {"empty", "echo", "constant"};
    const struct str texts[] = {STR_LIT(""), {0}, STR_LIT(constant)};
    double shares[3];
    struct count c = {0};
    struct json *o = json_obj(), *tiers = json_obj(), *types = json_obj(), *base = json_obj(),
                *prompts = json_obj();
    for (size_t i = 0; i < items->n; i++) {
        const struct item *it = &items->v[i];
        const struct response *r = responses_find(responses, it->id);
        struct str text = {0};
        bool answered = is_answered(responses, it);
        if (answered)
            ifeval_answer(r->text, &text); /* a think block that never closes leaves it empty */
        if (it->constraints.n)
            add_item(&c, it, text, answered, a);
    }
    for (int k = 0; ifeval_tier_names[k]; k++) {
        json_put(tiers, ifeval_tier_names[k], json_of_int(c.tiers[k]));
        json_put(prompts, ifeval_tier_names[k], json_of_int(c.prompts[k]));
    }
    json_put(o, "tiers", tiers);
    json_put(o, "prompts", prompts);
    for (int k = 0; k < VIEWS; k++)
        json_put(o, view_names[k], tally_json(&c.view[k]));
    for (size_t k = 0; k < c.types.n; k++) {
        struct json *t = json_obj();
        json_put(t, "n", json_of_int(c.by_type[k].instructions));
        json_put(t, "strict", json_of_int(c.by_type[k].strict));
        json_put(t, "loose", json_of_int(c.by_type[k].loose));
        json_put(types, str_dup(a, c.types.key[k]), t);
    }
    json_put(o, "types", types);
    for (int k = 0; k < 3; k++)
        json_put(base, names[k], baseline(items, responses, texts[k], s->metric, &shares[k]));
    json_put(o, "baselines", base);
    *note = note_of(&c, s->metric, shares, a);
    count_release(&c);
    return o;
}
