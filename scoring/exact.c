/* exact: 1 if the answer is the right one, else 0.
 *
 * The answer, or its first line if the reference is one line, equals the reference as words_plain
 * makes them. If the item lists choices and the reference names exactly one of them, the answer is
 * also right if it names that one and no other, as whole words: so a right value in other words, or
 * with polite padding, counts, and a list of all values does not. The words around the value are not
 * read: a denial of the right value counts as right.
 */
#include "scoring/answers.h"
#include "scoring/words.h"

static struct str first_line(struct str text)
{
    text = str_trim(text);
    return str_cut(&text, '\n');
}

static bool equal(struct str answer, struct str reference, struct arena *a)
{
    struct str want = words_plain(reference, a);
    if (str_eq(words_plain(answer, a), want))
        return true;
    struct str line = first_line(reference);
    return line.n == str_trim(reference).n && str_eq(words_plain(first_line(answer), a), want);
}

static double exact_value(const struct item *it, struct str answer, const char **detail,
                          struct arena *a)
{
    struct strs names = {arena_array(a, it->choices.n + 1, sizeof *names.v), it->choices.n};
    size_t want = 0, got = 0;
    if (equal(answer, it->reference, a)) {
        *detail = "equals the reference";
        return 1;
    }
    for (size_t i = 0; i < names.n; i++)
        names.v[i] = words_plain(it->choices.v[i], a);
    if (words_named(words_plain(it->reference, a), names, &want) != 1) {
        *detail = "differs from the reference";
        return 0;
    }
    int named = words_named(words_plain(answer, a), names, &got);
    if (named == 1) {
        *detail = arena_printf(a, "names \"%.*s\"%s", STR_ARG(it->choices.v[got]),
                               got == want ? "" : ", which is wrong");
        return got == want;
    }
    *detail = named ? arena_printf(a, "names %d of %zu choices", named, names.n)
                    : arena_printf(a, "names none of %zu choices", names.n);
    return 0;
}

static void score_exact(const struct item *it, const struct response *r, struct score *out,
                        struct arena *a)
{
    score_answer(it, r, exact_value, out, a);
}

const struct scorer scorer_exact = {
    .name = "exact",
    .metric = "acc_exact",
    .help = "1 if the answer equals the reference, or names the right one of the item's choices",
    .version = 1,
    .score = score_exact,
};
