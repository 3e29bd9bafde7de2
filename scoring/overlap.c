/* overlap: F1 of the words that answer and reference share, 0 to 1.
 *
 * Words as in SQuAD's evaluation (scoring/words.h), counted as often as they occur: with c words in
 * common, precision c / answer words, recall c / reference words, F1 their harmonic mean. Two texts
 * without words agree (1), one without words and one with do not (0). It measures wording: a wrong
 * value in the right sentence scores high (tests/unit/test_scorers.c shows by how much).
 */
#include "scoring/answers.h"
#include "scoring/words.h"

static size_t common(struct strs a, struct strs b)
{
    size_t n = 0;
    for (size_t i = 0, k = 0; i < a.n && k < b.n;) {
        int order = str_cmp(a.v[i], b.v[k]);
        n += order == 0;
        i += order <= 0;
        k += order >= 0;
    }
    return n;
}

static double overlap_value(const struct item *it, struct str answer, const char **detail,
                            struct arena *a)
{
    struct strs got = words_bag(answer, a), want = words_bag(it->reference, a);
    size_t c = common(got, want);
    *detail = arena_printf(a, "%zu words in common, %zu in the answer, %zu in the reference", c,
                           got.n, want.n);
    if (!got.n || !want.n)
        return got.n == want.n;
    return 2 * (double)c / (double)(got.n + want.n);
}

static void score_overlap(const struct item *it, const struct response *r, struct score *out,
                          struct arena *a)
{
    score_answer(it, r, overlap_value, out, a);
}

const struct scorer scorer_overlap = {
    .name = "overlap",
    .metric = "f1_overlap",
    .help = "F1 of the words that answer and reference share (SQuAD's rule)",
    .version = 1,
    .score = score_overlap,
};
