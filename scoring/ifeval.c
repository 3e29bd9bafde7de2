/* ifeval: verdicts, and the four scorers made of them. See scoring/ifeval.h. */
#include "scoring/ifeval.h"

#include <math.h>
#include <string.h>

#include "base/regex.h"
#include "scoring/answers.h"
#include "scoring/ifeval_report.h"
#include "scoring/ifeval_text.h"

const char *const ifeval_tier_names[] = {"exact", "approximated", "unsupported", NULL};

static const struct ifeval_type *type_of(struct str id)
{
    for (const struct ifeval_type *t = ifeval_types; t->id; t++)
        if (str_eqz(id, t->id))
            return t;
    return NULL;
}

static void ask_release(struct ifeval_ask *x)
{
    for (int i = 0; i < x->slots; i++) {
        regex_match_free(x->slot[i].m);
        regex_free(x->slot[i].re);
    }
}

/* The text without its first line, its last, both; stripped. Lines end at LF. */
static void variants(struct str text, struct str v[8], struct arena *a)
{
    const char *first = memchr(text.p ? text.p : "", '\n', text.n);
    const char *last = text.n ? memrchr(text.p, '\n', text.n) : NULL;
    const char *end = text.p + text.n;
    v[0] = text;
    v[1] = v[2] = v[3] = (struct str){text.p, 0};
    if (first) {
        v[1] = py_strip((struct str){first + 1, (size_t)(end - first - 1)});
        v[2] = py_strip((struct str){text.p, (size_t)(last - text.p)});
        if (first < last)
            v[3] = py_strip((struct str){first + 1, (size_t)(last - first - 1)});
    }
    for (int i = 0; i < 4; i++)
        v[4 + i] = py_without(v[i], '*', a);
}

static void decide(struct ifeval_ask *x, const struct ifeval_type *t, struct str text,
                   struct ifeval_verdict *v)
{
    struct str all[8];
    struct err e;
    variants(text, all, x->a);
    for (int i = 0; i < 8 && !(v->strict && v->loose); i++) {
        int rc = t->check(x, all[i], &e);
        if (rc < 0) {
            v->tier = TIER_UNSUPPORTED;
            v->strict = v->loose = false;
            v->why = str_copy(x->a, str_z(e.msg));
            return;
        }
        bool pass = rc == 1 && py_strip(all[i]).n > 0;
        v->strict = v->strict || (i == 0 && pass);
        v->loose = v->loose || pass;
    }
}

void ifeval_verdict(struct str constraint, struct str answer, struct ifeval_verdict *v,
                    struct arena *a)
{
    struct err e;
    struct buf text = {0};
    struct json *args = json_parse(constraint, &e);
    *v = (struct ifeval_verdict){.tier = TIER_UNSUPPORTED,
                                 .id = str_copy(a, json_str(json_get(args, "id")))};
    const struct ifeval_type *t = type_of(v->id);
    if (t) {
        struct ifeval_ask x = {.args = args, .a = a};
        v->tier = t->tier;
        json_mend(answer, &text);
        decide(&x, t, buf_str(&text), v);
        ask_release(&x);
    } else {
        v->why = args ? STR_LIT("no such type of instruction is known")
                      : STR_LIT("it is no JSON object");
    }
    buf_release(&text);
    json_free(args);
}

bool ifeval_answer(struct str text, struct str *answer)
{
    struct str open = STR_LIT("<think>"), close = STR_LIT("</think>"), s = str_trim(text);
    *answer = text;
    if (s.n < open.n || memcmp(s.p, open.p, open.n) != 0)
        return true;
    ptrdiff_t at = str_find(s, close);
    if (at < 0) {
        *answer = (struct str){0};
        return false;
    }
    *answer = str_trim((struct str){s.p + at + close.n, s.n - (size_t)at - close.n});
    return true;
}

/* ---- scorers -------------------------------------------------------------------------------- */

/* With `all`: whether every instruction is followed; of an item with an unsupported one nobody knows.
 * Else the share of those that can be checked, which weighs as many as they are. */
static void score(const struct item *it, const struct response *r, struct score *out, bool loose,
                  bool all, struct arena *a)
{
    struct buf why = {0};
    struct str text;
    size_t passed = 0, checked = 0;
    score_outcome(it, r, out);
    out->weight = all || !it->constraints.n ? NAN : (double)it->constraints.n;
    if (out->outcome != OUTCOME_SCORED)
        return;
    bool answered = ifeval_answer(r->text, &text); /* else text is empty, which follows nothing */
    for (size_t i = 0; i < it->constraints.n; i++) {
        struct ifeval_verdict v;
        ifeval_verdict(it->constraints.v[i], text, &v, a);
        const char *sep = why.n ? ", " : "";
        if (v.tier == TIER_UNSUPPORTED) {
            buf_printf(&why, "%s%.*s is unsupported: %.*s", sep, STR_ARG(v.id), STR_ARG(v.why));
            continue;
        }
        bool pass = loose ? v.loose : v.strict;
        checked++;
        passed += pass;
        buf_printf(&why, "%s%.*s %s", sep, STR_ARG(v.id), pass ? "yes" : "no");
    }
    if (!checked || (all && checked < it->constraints.n)) {
        out->outcome = OUTCOME_NOT_RUN;
        out->detail = why.n ? str_copy(a, buf_str(&why)) : STR_LIT("the item has no constraints");
        buf_release(&why);
        return;
    }
    out->value = all ? passed == checked : (double)passed / (double)checked;
    out->weight = all ? NAN : (double)checked;
    score_detail(
        out, r,
        answered ? why.p
                 : arena_printf(a, "%s; its think block never closes, so it has no answer", why.p),
        a);
    buf_release(&why);
}

static void prompt_strict(const struct item *it, const struct response *r, struct score *out,
                          struct arena *a)
{
    score(it, r, out, false, true, a);
}
static void prompt_loose(const struct item *it, const struct response *r, struct score *out,
                         struct arena *a)
{
    score(it, r, out, true, true, a);
}
static void instruction_strict(const struct item *it, const struct response *r, struct score *out,
                               struct arena *a)
{
    score(it, r, out, false, false, a);
}
static void instruction_loose(const struct item *it, const struct response *r, struct score *out,
                              struct arena *a)
{
    score(it, r, out, true, false, a);
}

const struct scorer scorer_ifeval = {
    .name = "ifeval",
    .metric = "ifeval_prompt_strict",
    .help = "1 if every checkable instruction of the item is followed (strict)",
    .version = 2,
    .score = prompt_strict,
    .constraints = true,
    .report = ifeval_report,
};
const struct scorer scorer_ifeval_loose = {
    .name = "ifeval_loose",
    .metric = "ifeval_prompt_loose",
    .help = "the same, where any of eight trimmed variants of the answer may pass",
    .version = 2,
    .score = prompt_loose,
    .constraints = true,
    .report = ifeval_report,
};
const struct scorer scorer_ifeval_inst = {
    .name = "ifeval_inst",
    .metric = "ifeval_inst_strict",
    .help = "share of all checkable instructions that are followed (strict)",
    .version = 3,
    .score = instruction_strict,
    .constraints = true,
    .report = ifeval_report,
};
const struct scorer scorer_ifeval_inst_loose = {
    .name = "ifeval_inst_loose",
    .metric = "ifeval_inst_loose",
    .help = "share of all checkable instructions that are followed (loose)",
    .version = 3,
    .score = instruction_loose,
    .constraints = true,
    .report = ifeval_report,
};
