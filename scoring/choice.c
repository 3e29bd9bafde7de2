/* choice: scorers of choices by their log-probabilities: acc and its three norms, whether the right
 * answer is what greedy decoding would say (LAMBADA), and its nats. See formats/choice.h.
 */
#include "formats/choice.h"

#include <math.h>

#include "scoring/answers.h"

static void invalid(struct score *out, const char *why, struct arena *a)
{
    out->outcome = OUTCOME_PARSE_FAILED;
    out->detail = str_printf(a, "invalid: %s", why);
}

static void pick(const struct item *it, const struct response *r, struct score *out,
                 enum choice_norm norm, struct arena *a)
{
    struct choice_pick p;
    score_outcome(it, r, out);
    if (out->outcome != OUTCOME_SCORED)
        return;
    choice_pick(it, r, norm, &p);
    if (p.why) {
        invalid(out, p.why, a);
        return;
    }
    out->value = p.worth;
    score_detail(out, r,
                 p.tied > 1 ? arena_printf(a, "choice %lld, tied with %lld more",
                                           (long long)p.first, (long long)p.tied - 1)
                            : arena_printf(a, "choice %lld", (long long)p.first),
                 a);
}

static void by_sum(const struct item *it, const struct response *r, struct score *o,
                   struct arena *a)
{
    pick(it, r, o, CHOICE_SUM, a);
}
static void by_char(const struct item *it, const struct response *r, struct score *o,
                    struct arena *a)
{
    pick(it, r, o, CHOICE_CHAR, a);
}
static void by_byte(const struct item *it, const struct response *r, struct score *o,
                    struct arena *a)
{
    pick(it, r, o, CHOICE_BYTE, a);
}
static void by_token(const struct item *it, const struct response *r, struct score *o,
                     struct arena *a)
{
    pick(it, r, o, CHOICE_TOKEN, a);
}

/* The right answer's own; an item with one choice may leave gold unsaid. */
static int gold_of(const struct item *it, const struct response *r, struct score *out,
                   struct arena *a)
{
    size_t gold = it->choices.n == 1 && it->gold < 0 ? 0 : (size_t)it->gold;
    score_outcome(it, r, out);
    if (out->outcome != OUTCOME_SCORED)
        return -1;
    if (gold >= it->choices.n || r->choice_logprob.n != it->choices.n ||
        r->choice_greedy.n != it->choices.n || r->choice_tokens.n != it->choices.n)
        invalid(out, "it has not one log-probability a choice", a);
    else if (!isfinite(r->choice_logprob.v[gold]))
        invalid(out, "a log-probability is not finite", a);
    else
        return (int)gold;
    return -1;
}

static void scored(struct score *out, const struct response *r, double value, struct arena *a)
{
    out->value = value;
    score_detail(out, r, "the right answer", a);
}

static void greedy(const struct item *it, const struct response *r, struct score *out,
                   struct arena *a)
{
    int gold = gold_of(it, r, out, a);
    if (gold >= 0)
        scored(out, r, r->choice_greedy.v[gold] != 0, a);
}

static void nats(const struct item *it, const struct response *r, struct score *out,
                 struct arena *a)
{
    int gold = gold_of(it, r, out, a);
    if (gold >= 0)
        scored(out, r, -r->choice_logprob.v[gold], a);
}

const struct scorer scorer_choice = {
    .name = "choice",
    .metric = "acc",
    .help = "the right choice has the largest log-probability; 1/k of k tied",
    .version = 1,
    .choices = true,
    .score = by_sum,
};
const struct scorer scorer_choice_char = {
    .name = "choice_char",
    .metric = "acc_norm_char",
    .help = "the same, divided by characters (acc_norm of lm-evaluation-harness)",
    .version = 1,
    .choices = true,
    .score = by_char,
};
const struct scorer scorer_choice_byte = {
    .name = "choice_byte",
    .metric = "acc_norm_byte",
    .help = "the same, divided by UTF-8 bytes (its acc_bytes)",
    .version = 1,
    .choices = true,
    .score = by_byte,
};
const struct scorer scorer_choice_token = {
    .name = "choice_token",
    .metric = "acc_norm_token",
    .help = "the same, divided by tokens (acc_norm of llm.c)",
    .version = 1,
    .choices = true,
    .score = by_token,
};
const struct scorer scorer_greedy = {
    .name = "greedy",
    .metric = "acc_greedy",
    .help = "greedy decoding would say the right answer (LAMBADA)",
    .version = 1,
    .choices = true,
    .score = greedy,
};
const struct scorer scorer_gold_nats = {
    .name = "gold_nats",
    .metric = "nats_answer",
    .help = "nats of the right answer; exp of the mean is LAMBADA's perplexity",
    .version = 1,
    .choices = true,
    .score = nats,
};
