/* instruct: the questions about the corpus' facts, and the truth behind both.
 *
 * The right answer is the first statement of the fact, word for word as documents state it: a model
 * that learnt the fact continues it the same way. `choices` are all values of the kind: an answer
 * is right if it names the right one and no other (scoring/exact.c). Graded answers come in the
 * order of grade_names: right, reworded, padded, wrong, empty.
 */
#include <string.h>

#include "datasets/corpus.h"

const char *corpus_split(int person, int kind)
{
    if (kind == person % CORPUS_KINDS)
        return "test";
    return kind == (person + 2) % CORPUS_KINDS && person % 3 == 0 ? "val" : "train";
}

static const char *state(struct arena *a, int person, int kind, int statement)
{
    return corpus_fill(a, corpus_kinds[kind].statement[statement], corpus_people[person].name,
                       corpus_people[person].value[kind]);
}

/* The value of somebody else: true of another person, wrong here. */
static const char *wrong_value(int person, int kind, int question)
{
    const char *right = corpus_people[person].value[kind];
    int at = (person + 5 + question) % CORPUS_PEOPLE;
    while (strcmp(corpus_people[at].value[kind], right) == 0)
        at = (at + 1) % CORPUS_PEOPLE;
    return corpus_people[at].value[kind];
}

static struct json *graded(struct arena *a, int person, int kind, int question)
{
    const char *right = state(a, person, kind, 0);
    const char *wrong = corpus_fill(a, corpus_kinds[kind].statement[0], corpus_people[person].name,
                                    wrong_value(person, kind, question));
    struct json *v = json_arr();
    json_push(v, json_of_z(right));
    json_push(v, json_of_z(state(a, person, kind, 1)));
    json_push(v, json_of_z(arena_printf(a,
                                        "Thank you for the question. %s I hope that this helps, "
                                        "and please ask again if it does not.",
                                        right)));
    json_push(v, json_of_z(wrong));
    json_push(v, json_of_z(""));
    return v;
}

static const char *fact_id(struct arena *a, int person, int kind)
{
    return arena_printf(a, "%s-%s", corpus_kinds[kind].name, corpus_people[person].name);
}

static struct json *one_item(struct arena *a, int person, int kind, int question)
{
    struct json *v = json_obj(), *choices = json_arr();
    const struct corpus_kind *k = &corpus_kinds[kind];
    const char *fact = fact_id(a, person, kind);
    json_put(v, "id", json_of_z(arena_printf(a, "%s-%d", fact, question + 1)));
    json_put(v, "instruction",
             json_of_z(corpus_fill(a, k->question[question], corpus_people[person].name, NULL)));
    json_put(v, "input", json_of_z(""));
    json_put(v, "output", json_of_z(state(a, person, kind, 0)));
    json_put(v, "cluster", json_of_z(fact));
    json_put(v, "split", json_of_z(corpus_split(person, kind)));
    for (int i = 0; i < CORPUS_VALUES; i++)
        json_push(choices, json_of_z(k->value[i]));
    json_put(v, "choices", choices);
    json_put(v, "graded", graded(a, person, kind, question));
    return v;
}

struct json *corpus_instructions(void)
{
    struct arena a = {0};
    struct json *all = json_arr();
    for (int p = 0; p < CORPUS_PEOPLE; p++)
        for (int k = 0; k < CORPUS_KINDS; k++)
            for (int q = 0; q < CORPUS_QUESTIONS; q++)
                json_push(all, one_item(&a, p, k, q));
    arena_release(&a);
    return all;
}

static struct json *one_fact(struct arena *a, int person, int kind)
{
    struct json *v = json_obj(), *said = json_arr();
    json_put(v, "id", json_of_z(fact_id(a, person, kind)));
    json_put(v, "who", json_of_z(corpus_people[person].name));
    json_put(v, "kind", json_of_z(corpus_kinds[kind].name));
    json_put(v, "value", json_of_z(corpus_people[person].value[kind]));
    json_put(v, "split", json_of_z(corpus_split(person, kind)));
    for (int s = 0; s < CORPUS_STATEMENTS; s++)
        json_push(said, json_of_z(state(a, person, kind, s)));
    json_put(v, "statements", said);
    return v;
}

static struct json *rules_of(const struct grammar *g)
{
    struct json *rules = json_obj();
    for (int i = 0; i < g->rules; i++) {
        struct json *alts = json_arr();
        for (int k = 0; k < g->rule[i].alts; k++) {
            struct json *pair = json_arr();
            json_push(pair, json_of_int(g->rule[i].alt[k].weight));
            json_push(pair, json_of_str(g->rule[i].alt[k].pattern));
            json_push(alts, pair);
        }
        json_put(rules, g->rule[i].name, alts);
    }
    return rules;
}

struct json *corpus_truth(const struct grammar *g)
{
    struct arena a = {0};
    struct json *v = json_obj(), *facts = json_arr(), *grammar = json_obj();
    for (int p = 0; p < CORPUS_PEOPLE; p++)
        for (int k = 0; k < CORPUS_KINDS; k++)
            json_push(facts, one_fact(&a, p, k));
    json_put(v, "facts", facts);
    json_put(grammar, "start", json_of_z(g->rule[g->start].name));
    json_put(grammar, "longest_bytes", json_of_int((int64_t)g->rule[g->start].longest));
    json_put(grammar, "rules", rules_of(g));
    json_put(v, "grammar", grammar);
    arena_release(&a);
    return v;
}
