/* comparable: the table, see comparable.h. docs/metrics.md shows it, and tests/unit/test_compare.c
 * has a test a row and key. */
#include "pipelines/comparable.h"

#include <stdbool.h>
#include <string.h>

const struct comparable comparables[] = {
    {"nll_token", "windows", {"slice", "vocab", "context", "window", "precision"}},
    {"nll_token", "documents", {"documents", "rule", "precision", "vocab"}},
    {"bits_byte", "documents", {"documents", "rule", "precision"}},
    {"excess_bits_byte", "documents", {"documents", "rule", "precision"}},
    {"bits_end", "documents", {"documents", "rule", "precision"}},
    {"acc_exact", NULL, {"items", "template", "decoding", "scorer", "scorer_version"}},
    {"f1_overlap", NULL, {"items", "template", "decoding", "scorer", "scorer_version"}},
    {"acc", NULL, {"task", "items", "encoding", "shots", "scorer", "scorer_version"}},
    {"acc_norm_char", NULL, {"task", "items", "encoding", "shots", "scorer", "scorer_version"}},
    {"acc_norm_byte", NULL, {"task", "items", "encoding", "shots", "scorer", "scorer_version"}},
    {"acc_norm_token", NULL, {"task", "items", "encoding", "shots", "scorer", "scorer_version"}},
    {"acc_greedy", NULL, {"task", "items", "encoding", "shots", "scorer", "scorer_version"}},
    {"nats_answer", NULL, {"task", "items", "encoding", "shots", "scorer", "scorer_version"}},
    {"ifeval_prompt_strict", NULL, {"items", "template", "decoding", "scorer", "scorer_version"}},
    {"ifeval_prompt_loose", NULL, {"items", "template", "decoding", "scorer", "scorer_version"}},
    {"ifeval_inst_strict", NULL, {"items", "template", "decoding", "scorer", "scorer_version"}},
    {"ifeval_inst_loose", NULL, {"items", "template", "decoding", "scorer", "scorer_version"}},
    {"judge_single",
     NULL,
     {"items", "template", "decoding", "protocol", "prompt", "judge", "served"}},
    {"judge_joint",
     NULL,
     {"panel", "pass", "served"}}, /* a pass has one design, prompt and set of items */
    {0},
};

const struct comparable *comparable_row(struct str metric, struct str task)
{
    for (const struct comparable *c = comparables; c->metric; c++)
        if (str_eqz(metric, c->metric) && (!c->task || str_eqz(task, c->task)))
            return c;
    return NULL;
}

static struct str stated(const struct metric *m, struct str key)
{
    for (size_t i = 0; i < m->identity.n; i++) {
        struct str rest = m->identity.v[i], k = str_cut(&rest, '=');
        if (str_eq(k, key))
            return rest;
    }
    return (struct str){0};
}

/* What m states, for people. A hash is long and says nothing: its start is enough. Where assay measures
 * in fp32 it states no precision. */
static struct str shown(const struct metric *m, struct str key, struct str v, struct str other)
{
    if (v.n == 0)
        return m->ids.n && str_eqz(key, "precision") && !str_eqz(other, "fp32")
                   ? STR_LIT("fp32")
                   : STR_LIT("nothing");
    if (v.n == 64)
        v.n = 12;
    return v;
}

const char *comparable_refusal(const struct metric *a, const struct metric *b, struct arena *ar)
{
    const struct comparable *row = comparable_row(a->name, a->task);
    for (int side = 0; side < 2; side++) {
        const struct metric *x = side ? b : a;
        for (size_t i = 0; i < x->identity.n; i++) {
            struct str rest = x->identity.v[i], key = str_cut(&rest, '=');
            struct str va = stated(a, key), vb = stated(b, key);
            if (!str_eq(va, vb)) {
                struct str sa = shown(a, key, va, vb), sb = shown(b, key, vb, va);
                return arena_printf(ar, "%.*s differs: %.*s against %.*s", STR_ARG(key),
                                    STR_ARG(sa), STR_ARG(sb));
            }
        }
    }
    bool measured =
        a->ids.n || b->ids.n; /* what was published elsewhere states what its page says */
    for (const char *const *key = row && measured ? row->keys : NULL; key && *key; key++) {
        struct str v = stated(a, str_z(*key));
        if (v.n == 0 || str_eqz(v, "unknown"))
            return arena_printf(ar, "%s is %s in both", *key, v.n ? "unknown" : "not stated");
    }
    if (a->identity.n == 0)
        return "neither says what it was measured on";
    return NULL;
}
