/* split: what each pattern makes of a text, the short cut against PCRE2, names and published texts.
 *
 * Expected pieces are worked out by hand from the patterns' rules (reference: tokenizer, section 3).
 */
#include "tests/tap.h"

#include "base/buf.h"
#include "base/rng.h"
#include "tokenizer/split.h"

static struct err err;

/* The pieces of a text with bars between them. */
static const char *pieces(const char *pattern, const char *text, bool plain)
{
    static char out[512];
    const struct split_pattern *p = split_find(str_z(pattern), &err);
    struct split *s = p ? split_new(p, &err) : NULL;
    struct splitter *x;
    struct str t = str_z(text);
    size_t n = 0, end;
    if (!s)
        return NULL;
    x = splitter_new(s, plain);
    for (size_t at = 0; at < t.n; at = end) {
        if (split_next(x, t, at, &end, &err) || end <= at || n + (end - at) + 2 > sizeof out)
            return NULL;
        if (at > 0)
            out[n++] = '|';
        memcpy(out + n, t.p + at, end - at);
        n += end - at;
    }
    out[n] = 0;
    splitter_free(x);
    split_free(s);
    return out;
}

static void rules(void)
{
    static const struct {
        const char *pattern, *text, *want, *what;
    } t[] = {
        {"gpt2", "Hello, it's 2026!", "Hello|,| it|'s| 2026|!", "words, numbers, marks"},
        {"gpt2", "IT'S", "IT|'|S", "contractions in lower case only"},
        {"gpt2", "a   b", "a|  | b", "the last blank goes with the word"},
        {"gpt2", "a \n", "a| \n", "white space at the end is one piece"},
        {"gpt2", "x\xe1\xa0\x8ey", "x|\xe1\xa0\x8e|y", "U+180E is no white space"},
        {"gpt2", "a\n\nb", "a|\n|\n|b", "only the last of a run stands alone"},
        {"cl100k", "IT'S", "IT|'S", "contractions in any case"},
        {"cl100k", "12345", "123|45", "digits in threes"},
        {"cl100k", "(a)\n\nb", "(a|)\n\n|b", "a lead mark, line feeds join the mark in front"},
        {"cl100k", " \n \nb", " \n \n|b", "white space up to the last line feed"},
        {"cl100k", "a\tb", "a|\tb", "a tab leads a word"},
        {"o200k", "HelloWorld's", "Hello|World's", "a split at the change of case, a joined tail"},
        {"o200k", "./\n/x", "./\n/|x", "a slash joins like a line feed"},
        {"o200k", "e\xcc\x81t", "e\xcc\x81t", "marks belong to words"},
        {"llama3", "1234 I'LL", "123|4| I|'LL", "llama3 is cl100k's first form"},
        {"qwen2", "1234 a", "1|2|3|4| a", "qwen2 has single digits"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        CHECK_STR(pieces(t[i].pattern, t[i].text, true), t[i].want, "%s: %s", t[i].pattern,
                  t[i].what);
        CHECK_STR(pieces(t[i].pattern, t[i].text, false), t[i].want,
                  "%s: the same with the short cut", t[i].pattern);
    }
}

/* On parts that make a word end, or look as if. */
static void short_cuts(void)
{
    static const char *const parts[] = {
        "ab",        "I",  "'s", "'",        "'LL",       " ",       "  ", "\n",
        "\r",        "12", "3",  ".",        "!?",        "Q",       "_",  "\xc3\xa9",
        "x\xcc\x81", "\t", "/",  "\xc5\xbf", "'\xc5\xbf", "\xc2\xa0"};
    for (const struct split_pattern *p = split_patterns; p->name; p++) {
        struct split *s = split_new(p, &err);
        if (!CHECK(s != NULL, "pattern %s compiles: %s", p->name, err.msg))
            continue;
        struct splitter *quick = splitter_new(s, false), *plain = splitter_new(s, true);
        struct rng rng = rng_make(2, "short_cuts", 0);
        int bad = 0, n = 0;
        for (int round = 0; round < 30000; round++) {
            struct buf text = {0};
            for (int k = 1 + (int)rng_below(&rng, 8); k > 0; k--)
                buf_addz(&text, parts[rng_below(&rng, sizeof parts / sizeof *parts)]);
            for (size_t at = 0, a, b; at < text.n; at = b, n++) {
                if (split_next(quick, buf_str(&text), at, &a, &err) ||
                    split_next(plain, buf_str(&text), at, &b, &err) || a != b || b <= at) {
                    if (bad++ < 3)
                        printf("# \"%s\" at %zu\n", text.p, at);
                    break;
                }
            }
            buf_release(&text);
        }
        CHECK(bad == 0 && n > 100000, "%s: %d pieces are PCRE2's (%d texts differ)", p->name, n,
              bad);
        splitter_free(quick);
        splitter_free(plain);
        split_free(s);
    }
}

static void names(void)
{
    static const char *const also[] = {"gpt2", "r50k_base", "cl100k_base", "o200k_base", "qwen2"};
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        CHECK(split_find(str_z(also[i]), &err) != NULL, "%s is known", also[i]);
    CHECK(!split_find(STR_LIT(""), &err) && !split_find(STR_LIT("base"), &err) &&
              !split_find(STR_LIT("r50k p50k"), &err),
          "other texts are not");
    CHECK_INT(err.code, EXIT_USAGE, "which is a usage error");
    CHECK_STR(err.msg,
              "no split pattern \"r50k p50k\"; there are gpt2, cl100k, o200k, llama3, qwen2",
              "that lists what there is");
    for (const struct split_pattern *p = split_patterns; p->name; p++) {
        bool all = p->published[0] != NULL;
        for (const char *const *t = p->published; *t; t++)
            all = all && split_find_published(str_z(*t)) == p;
        CHECK(all, "%s is found by each of its published texts", p->name);
    }
    CHECK(!split_find_published(STR_LIT("\\w+")), "another regex is none of ours");
}

int main(void)
{
    rules();
    short_cuts();
    names();
    return tap_done();
}
