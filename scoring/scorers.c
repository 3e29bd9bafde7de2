/* scorers: the table of pure scorers, and what they share. To add one: a file and a row here. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "formats/choice.h"
#include "scoring/answers.h"

extern const struct scorer scorer_exact, scorer_overlap, scorer_ifeval, scorer_ifeval_loose,
    scorer_ifeval_inst, scorer_ifeval_inst_loose, scorer_choice, scorer_choice_char,
    scorer_choice_byte, scorer_choice_token, scorer_greedy, scorer_gold_nats;
const struct scorer *const scorers[] = {
    &scorer_exact,
    &scorer_overlap,
    &scorer_ifeval,
    &scorer_ifeval_loose,
    &scorer_ifeval_inst,
    &scorer_ifeval_inst_loose,
    &scorer_choice,
    &scorer_choice_char,
    &scorer_choice_byte,
    &scorer_choice_token,
    &scorer_greedy,
    &scorer_gold_nats,
    NULL,
};

const struct scorer *scorer_find(struct str name, struct err *e)
{
    struct buf known = {0};
    for (const struct scorer *const *s = scorers; *s; s++)
        if (str_eqz(name, (*s)->name) || str_eqz(name, (*s)->metric))
            return *s;
    for (const struct scorer *const *s = scorers; *s; s++)
        buf_printf(&known, "%s%s (%s)", known.n ? ", " : "", (*s)->name, (*s)->metric);
    err_code(e, EXIT_USAGE,
             "there is no scorer \"%.*s\"; there are, each by its own or its metric's name: %s",
             STR_ARG(name), known.p);
    buf_release(&known);
    return NULL;
}

static int outcome_of(const struct response *r)
{
    if (!r)
        return OUTCOME_NOT_RUN;
    if (r->finish == FINISH_ERROR)
        return str_starts(r->detail, choice_not_asked) ? OUTCOME_NOT_RUN : OUTCOME_TRANSPORT_FAILED;
    return r->finish == FINISH_FILTER ? OUTCOME_REFUSED : OUTCOME_SCORED;
}

void score_outcome(const struct item *it, const struct response *r, struct score *out)
{
    out->item = it->id;
    out->cluster = it->cluster;
    out->outcome = outcome_of(r);
    out->value = NAN;
    if (out->outcome != OUTCOME_SCORED)
        out->detail = r ? r->detail : (struct str){NULL, 0};
}

void score_detail(struct score *out, const struct response *r, const char *detail, struct arena *a)
{
    if (r->finish != FINISH_LENGTH)
        out->detail = str_printf(a, "%s", detail);
    else if (r->detail.n) /* the context may have ended it, or cut its prompt */
        out->detail = str_printf(a, "%s; the answer was cut: %.*s", detail, STR_ARG(r->detail));
    else
        out->detail = str_printf(a, "%s; the answer was cut at its token limit", detail);
}

void score_answer(const struct item *it, const struct response *r, answer_fn *value,
                  struct score *out, struct arena *a)
{
    const char *detail = "";
    score_outcome(it, r, out);
    if (out->outcome != OUTCOME_SCORED)
        return;
    out->value = value(it, r->text, &detail, a);
    score_detail(out, r, detail, a);
}

static int check_responses(const struct scorer *s, const struct items *items,
                           const struct responses *responses, struct err *e)
{
    struct map ids = {0};
    int rc = 0;
    for (size_t i = 0; i < items->n; i++)
        map_add(&ids, items->v[i].id, 0, NULL);
    for (size_t i = 0; i < responses->n && !rc; i++)
        if (map_find(&ids, responses->v[i].item) < 0)
            rc = err_set(e, "response for item \"%.*s\", which is not among the %zu items",
                         STR_ARG(responses->v[i].item), items->n);
    map_release(&ids);
    for (size_t i = 0; i < responses->n && !rc && !s->choices; i++)
        if (responses->v[i].choice_logprob.n)
            rc = err_set(e,
                         "the response for item \"%.*s\" is no text but log-probabilities of "
                         "choices, which %s does not read; take --scorer choice",
                         STR_ARG(responses->v[i].item), s->name);
    return rc;
}

/* Scorers of choices want to be told the right one, of some item at least; of a lone one it is that. */
static int check_gold(const struct scorer *s, const struct items *items, struct err *e)
{
    for (size_t i = 0; i < items->n; i++)
        if (!s->choices || items->v[i].gold >= 0 || items->v[i].choices.n < 2)
            return 0;
    return err_set(e,
                   "none of the %zu items says which choice is right, so %s can't score them; give "
                   "the items a \"gold\" (a task file's gold)",
                   items->n, s->name);
}

static int check_constraints(const struct scorer *s, const struct items *items, struct err *e)
{
    for (size_t i = 0; i < items->n; i++)
        if (!s->constraints || items->v[i].constraints.n)
            return 0;
    return err_set(e,
                   "none of the %zu items has instructions to check, so %s can't score them; give "
                   "the items \"constraints\" (a task file's constraints), or take another scorer",
                   items->n, s->name);
}

int score_all(const struct scorer *s, const struct items *items, const struct responses *responses,
              struct score *v, struct score_counts *n, struct arena *a, struct err *e)
{
    *n = (struct score_counts){0};
    if (check_responses(s, items, responses, e) || check_gold(s, items, e) ||
        check_constraints(s, items, e))
        return -1;
    for (size_t i = 0; i < items->n; i++) {
        const struct response *r = responses_find(responses, items->v[i].id);
        v[i] = (struct score){.scorer = str_z(s->name), .weight = NAN};
        s->score(&items->v[i], r, &v[i], a);
        n->outcome[v[i].outcome]++;
        if (v[i].outcome == OUTCOME_SCORED) {
            n->sum += v[i].value * score_weight(&v[i]);
            n->weight += score_weight(&v[i]);
            n->cut += r->finish == FINISH_LENGTH;
        } else {
            n->missing_weight += score_weight(&v[i]);
            n->unchecked += r && v[i].outcome == OUTCOME_NOT_RUN;
        }
    }
    return 0;
}
