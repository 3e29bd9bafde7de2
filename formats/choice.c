/* choice: see formats/choice.h. */
#include "formats/choice.h"

#include <math.h>

const char *const choice_metrics[] = {"acc", "acc_norm_char", "acc_norm_byte", "acc_norm_token",
                                      NULL};

const char choice_not_asked[] = "not asked: ";

struct str choice_context(const struct item *it, size_t i)
{
    if (it->contexts.n == it->choices.n)
        return it->contexts.v[i];
    return it->contexts.n ? it->contexts.v[0] : (struct str){0};
}

static double length_of(const struct item *it, const struct response *r, enum choice_norm norm,
                        size_t i)
{
    struct str s = it->choices.v[i];
    int64_t chars = 0;
    if (norm == CHOICE_SUM)
        return 1;
    if (norm == CHOICE_BYTE)
        return (double)s.n;
    if (norm == CHOICE_TOKEN)
        return i < r->choice_tokens.n ? (double)r->choice_tokens.v[i] : 0;
    for (size_t at = 0; at < s.n; at++)
        chars += (s.p[at] & 0xC0) != 0x80;
    return (double)chars;
}

void choice_pick(const struct item *it, const struct response *r, enum choice_norm norm,
                 struct choice_pick *out)
{
    double best = -INFINITY;
    bool gold = false;
    *out = (struct choice_pick){.first = -1, .worth = NAN};
    if (!it->choices.n || r->choice_logprob.n != it->choices.n) {
        out->why = "it has not one log-probability a choice";
        return;
    }
    for (size_t i = 0; i < it->choices.n; i++) {
        double sum = r->choice_logprob.v[i], length = length_of(it, r, norm, i);
        if (isnan(sum) || sum == INFINITY)
            out->why = "a log-probability is not a number";
        else if (!(length > 0))
            out->why = "a choice has no length to divide by";
        if (out->why) {
            out->first = -1;
            return;
        }
        double v = sum / length;
        if (v > best || out->first < 0) {
            out->first = (int64_t)i;
            out->tied = 0;
            gold = false;
            best = v;
        }
        if (v == best) {
            out->tied++;
            gold = gold || it->gold == (int64_t)i;
        }
    }
    if (it->gold < 0 || it->gold >= (int64_t)it->choices.n)
        out->why = "the right choice is not known";
    else
        out->worth = gold ? 1 / (double)out->tied : 0;
}
