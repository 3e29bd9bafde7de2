/* ifeval_types: the 25 checks, one function a type, in the order of the ids. Each says in a line
 * what the reference means where that is not what its name says.
 */
#include <string.h>

#include "base/lower.h"
#include "base/regex.h"
#include "scoring/ifeval_language.h"
#include "scoring/ifeval_text.h"

#define S "[" PY_SPACE "]"

/* ---- change_case: approximated, because "is it English" is ---------------------------------- */

/* isupper / islower: a cased letter, and none of the other case (title case counts as other). */
#define OTHER_UPPER                                                                                \
    "\\x{2160}-\\x{216f}\\x{24b6}-\\x{24cf}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"             \
    "\\x{1f170}-\\x{1f189}"
#define OTHER_LOWER                                                                                \
    "\\xaa\\xba\\x{2b0}-\\x{2b8}\\x{2c0}\\x{2c1}\\x{2e0}-\\x{2e4}\\x{345}\\x{37a}\\x{1d2c}-"       \
    "\\x{1d6a}\\x{1d78}\\x{1d9b}-\\x{1dbf}\\x{2071}\\x{207f}\\x{2090}-\\x{209c}\\x{2170}-"         \
    "\\x{217f}\\x{24d0}-\\x{24e9}\\x{2c7c}\\x{2c7d}\\x{a69c}\\x{a69d}\\x{a770}\\x{a7f8}"           \
    "\\x{a7f9}\\x{ab5c}-\\x{ab5f}"
#define UPPER "[\\p{Lu}" OTHER_UPPER "]"
#define LOWER "[\\p{Ll}" OTHER_LOWER "]"
#define TITLE "\\p{Lt}"

static int one_case(struct ifeval_ask *x, struct str text, const char *mine, const char *other,
                    struct err *e)
{
    int64_t have = ifeval_count(x, 0, str_z(mine), 0, text, e);
    int64_t wrong = ifeval_count(x, 1, str_z(other), 0, text, e);
    return have < 0 || wrong < 0 ? -1 : have > 0 && wrong == 0;
}

static int english_capital(struct ifeval_ask *x, struct str text, struct err *e)
{
    int rc = one_case(x, text, UPPER, LOWER "|" TITLE, e);
    return rc == 1 ? ifeval_is_english(text) : rc;
}

static int english_lowercase(struct ifeval_ask *x, struct str text, struct err *e)
{
    int rc = one_case(x, text, LOWER, UPPER "|" TITLE, e);
    return rc == 1 ? ifeval_is_english(text) : rc;
}

/* Words as a Penn Treebank tokenizer cuts them, near enough: signs off the ends of what stands
 * between blanks, and clitics ('S, N'T) apart. */
static int capital_words(struct ifeval_ask *x, struct str text, struct err *e)
{
    static const char tokens[] = "(?:(?!['\xE2\x80\x99](?i:s|m|d|ll|re|ve)\\b)[^" PY_SPACE
                                 "!-,:-@\\[-`{-~]|['](?=[\\p{L}]{3}))+|'(?i:s|m|d|ll|re|ve)\\b";
    struct strs hits;
    int64_t n = 0;
    if (ifeval_findall(x, 0, str_z(tokens), 0, text, &hits, e))
        return -1;
    for (size_t i = 0; i < hits.n; i++) {
        int64_t up = ifeval_count(x, 1, str_z(UPPER), 0, hits.v[i], e);
        int64_t low = up > 0 ? ifeval_count(x, 2, str_z(LOWER "|" TITLE), 0, hits.v[i], e) : 0;
        if (up < 0 || low < 0)
            return -1;
        n += up > 0 && low == 0;
    }
    return ifeval_relation(x, "capital_relation", "capital_frequency", n, e);
}

/* ---- combination ---------------------------------------------------------------------------- */

static int repeat_prompt(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct str want;
    if (ifeval_arg_str(x, "prompt_to_repeat", &want, e))
        return -1;
    want = py_lower(py_strip(want), x->a);
    text = py_lower(py_strip(text), x->a);
    return text.n >= want.n && memcmp(text.p, want.p, want.n) == 0;
}

static int two_responses(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct strs parts = py_split(text, STR_LIT("******"), x->a);
    struct str valid[2];
    size_t n = 0;
    (void)e;
    for (size_t i = 0; i < parts.n; i++) {
        struct str s = py_strip(parts.v[i]);
        if (!s.n && i && i + 1 < parts.n)
            return 0;
        if (s.n && n < 2)
            valid[n] = s;
        n += s.n > 0;
    }
    return n == 2 && !str_eq(valid[0], valid[1]);
}

/* ---- detectable_content --------------------------------------------------------------------- */

static int placeholders(struct ifeval_ask *x, struct str text, struct err *e)
{
    int64_t want, n = ifeval_count(x, 0, STR_LIT("\\[.*?\\]"), 0, text, e);
    return n < 0 || ifeval_arg_int(x, "num_placeholders", &want, e) ? -1 : n >= want;
}

/* Anywhere, not only at the start of a line. */
static int postscript(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct str marker, pattern;
    if (ifeval_arg_str(x, "postscript_marker", &marker, e))
        return -1;
    marker = py_strip(marker);
    if (str_eqz(marker, "P.P.S"))
        pattern = STR_LIT(S "*p\\." S "?p\\." S "?s.*$");
    else if (str_eqz(marker, "P.S."))
        pattern = STR_LIT(S "*p\\." S "?s\\..*$");
    else
        pattern =
            ifeval_pattern(str_printf(x->a, "%.*s.*$", STR_ARG(py_lower(marker, x->a))), x->a);
    int64_t n = ifeval_count(x, 0, pattern, REGEX_MULTILINE, py_lower(text, x->a), e);
    return n < 0 ? -1 : n > 0;
}

/* ---- detectable_format ---------------------------------------------------------------------- */

static int constrained_response(struct ifeval_ask *x, struct str text, struct err *e)
{
    (void)x, (void)e;
    return str_find(text, STR_LIT("My answer is yes.")) >= 0 ||
           str_find(text, STR_LIT("My answer is no.")) >= 0 ||
           str_find(text, STR_LIT("My answer is maybe.")) >= 0;
}

static int json_format(struct ifeval_ask *x, struct str text, struct err *e)
{
    static const char *const heads[] = {"```json", "```Json", "```JSON", "```"};
    (void)x, (void)e;
    text = py_strip(text);
    for (int i = 0; i < 4; i++) /* one behind the other, as the reference does */
        if (str_starts(text, heads[i]))
            text = (struct str){text.p + strlen(heads[i]), text.n - strlen(heads[i])};
    if (str_ends(text, "```"))
        text.n -= 3;
    return ifeval_json(py_strip(text));
}

static int multiple_sections(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct str key;
    int64_t want;
    if (ifeval_arg_str(x, "section_spliter", &key, e) ||
        ifeval_arg_int(x, "num_sections", &want, e))
        return -1;
    struct str pattern =
        ifeval_pattern(str_printf(x->a, "\\s?%.*s\\s?\\d+\\s?", STR_ARG(py_strip(key))), x->a);
    int64_t n = ifeval_count(x, 0, pattern, 0, text, e);
    return n < 0 ? -1 : n >= want;
}

/* Exactly so many; "*" at the start of a line but not "**", and "-". */
static int bullet_lists(struct ifeval_ask *x, struct str text, struct err *e)
{
    int64_t want;
    int64_t a = ifeval_count(x, 0, STR_LIT("^" S "*\\*[^\\*].*$"), REGEX_MULTILINE, text, e);
    int64_t b = ifeval_count(x, 1, STR_LIT("^" S "*-.*$"), REGEX_MULTILINE, text, e);
    return a < 0 || b < 0 || ifeval_arg_int(x, "num_bullets", &want, e) ? -1 : a + b == want;
}

static int highlights(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct strs one, two;
    int64_t want, n = 0;
    if (ifeval_findall(x, 0, STR_LIT("\\*[^\\n\\*]*\\*"), 0, text, &one, e) ||
        ifeval_findall(x, 1, STR_LIT("\\*\\*[^\\n\\*]*\\*\\*"), 0, text, &two, e) ||
        ifeval_arg_int(x, "num_highlights", &want, e))
        return -1;
    for (size_t i = 0; i < one.n; i++)
        n += py_strip(py_strip_of(one.v[i], "*")).n > 0;
    for (size_t i = 0; i < two.n; i++)
        n += py_strip((struct str){two.v[i].p + 2, two.v[i].n - 4}).n > 0;
    return n >= want;
}

static int title(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct strs hits;
    if (ifeval_findall(x, 0, STR_LIT("<<[^\\n]+>>"), 0, text, &hits, e))
        return -1;
    for (size_t i = 0; i < hits.n; i++) {
        struct str t = hits.v[i];
        while (t.n && t.p[0] == '<') {
            t.p++;
            t.n--;
        }
        while (t.n && t.p[t.n - 1] == '>')
            t.n--;
        if (py_strip(t).n)
            return 1;
    }
    return 0;
}

/* ---- keywords ------------------------------------------------------------------------------- */

/* The words of an array argument; each is a pattern. */
static int words(struct ifeval_ask *x, const char *name, struct strs *out, struct err *e)
{
    const struct json *v = json_get(x->args, name);
    out->n = json_kind(v) == JSON_ARR ? json_size(v) : 0;
    out->v = arena_array(x->a, out->n + 1, sizeof *out->v);
    for (size_t i = 0; i < out->n; i++)
        if (!(out->v[i] = json_str(json_at(v, i))).n)
            return err_set(e, "\"%s\"[%zu] is no text", name, i);
    if (out->n > 16)
        return err_set(e, "\"%s\" has %zu words, at most 16 are supported", name, out->n);
    return out->n ? 0 : err_set(e, "it has no \"%s\"", name);
}

static int existence(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct strs w;
    if (words(x, "keywords", &w, e))
        return -1;
    for (size_t i = 0; i < w.n; i++) {
        int64_t n = ifeval_count(x, (int)i, ifeval_pattern(w.v[i], x->a), REGEX_CASELESS, text, e);
        if (n <= 0)
            return (int)n;
    }
    return 1;
}

static int forbidden(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct strs w;
    if (words(x, "forbidden_words", &w, e))
        return -1;
    for (size_t i = 0; i < w.n; i++) {
        struct str p = ifeval_pattern(str_printf(x->a, "\\b%.*s\\b", STR_ARG(w.v[i])), x->a);
        int64_t n = ifeval_count(x, (int)i, p, REGEX_CASELESS, text, e);
        if (n)
            return n < 0 ? -1 : 0;
    }
    return 1;
}

static int frequency(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct str w;
    if (ifeval_arg_str(x, "keyword", &w, e))
        return -1;
    int64_t n = ifeval_count(x, 0, ifeval_pattern(py_strip(w), x->a), REGEX_CASELESS, text, e);
    return ifeval_relation(x, "relation", "frequency", n, e);
}

/* The reference draws a random letter for what is none of a to z; here it is what it is. */
static int letter_frequency(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct str letter;
    size_t at = 0;
    int64_t n = 0;
    if (ifeval_arg_str(x, "letter", &letter, e))
        return -1;
    letter = py_lower(py_strip(letter), x->a);
    text = py_lower(text, x->a);
    if (!letter.n)
        return err_set(e, "\"letter\" is blank");
    uint32_t want = utf8_next(letter, &at);
    if (at != letter.n)
        return err_set(e, "\"letter\" is more than one letter");
    for (at = 0; at < text.n;)
        n += utf8_next(text, &at) == want;
    return ifeval_relation(x, "let_relation", "let_frequency", n, e);
}

/* ---- language, length_constraints ----------------------------------------------------------- */

static int response_language(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct str want;
    if (ifeval_arg_str(x, "language", &want, e))
        return -1;
    if (!ifeval_knows_language(want))
        return err_set(e, "language \"%.*s\" is not known", STR_ARG(want));
    return ifeval_is_language(text, want);
}

/* The first word of the nth piece between two line feeds, where only pieces that are not blank count
 * for the number, but the nth is of all. */
static int nth_paragraph(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct strs parts = py_split(text, STR_LIT("\n\n"), x->a);
    int64_t want, nth, have = 0;
    struct str first;
    if (ifeval_arg_int(x, "num_paragraphs", &want, e) ||
        ifeval_arg_int(x, "nth_paragraph", &nth, e) || ifeval_arg_str(x, "first_word", &first, e))
        return -1;
    if (nth < 1)
        return err_set(e, "\"nth_paragraph\" counts from 1");
    for (size_t i = 0; i < parts.n; i++)
        have += py_strip(parts.v[i]).n > 0;
    if (nth > have || !py_strip(parts.v[nth - 1]).n)
        return 0;
    struct str word = py_word(parts.v[nth - 1]);
    while (word.n && word.p[0] == '\'')
        word = (struct str){word.p + 1, word.n - 1};
    while (word.n && word.p[0] == '"')
        word = (struct str){word.p + 1, word.n - 1};
    size_t n = 0;
    while (n < word.n && !(word.p[n] && strchr(".,?!'\"", word.p[n])))
        n++;
    word = py_lower((struct str){word.p, n}, x->a);
    return have == want && str_eq(word, py_lower(first, x->a));
}

/* Pieces between "***"; an empty one counts as none at the ends and fails in the middle. */
static int paragraphs(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct strs marks;
    int64_t want;
    if (ifeval_findall(x, 0, STR_LIT(S "?\\*\\*\\*" S "?"), 0, text, &marks, e) ||
        ifeval_arg_int(x, "num_paragraphs", &want, e))
        return -1;
    int64_t n = (int64_t)marks.n + 1;
    const char *from = text.p;
    for (size_t i = 0; i <= marks.n; i++) {
        const char *to = i < marks.n ? marks.v[i].p : text.p + text.n;
        bool blank = !py_strip((struct str){from, (size_t)(to - from)}).n;
        if (blank && i && i < marks.n)
            return 0;
        n -= blank;
        from = i < marks.n ? to + marks.v[i].n : to;
    }
    return n == want;
}

static int sentences(struct ifeval_ask *x, struct str text, struct err *e)
{
    return ifeval_relation(x, "relation", "num_sentences", ifeval_sentences(text), e);
}

static int number_words(struct ifeval_ask *x, struct str text, struct err *e)
{
    int64_t n = ifeval_count(x, 0, STR_LIT("[" PY_WORD "]+"), 0, text, e);
    return ifeval_relation(x, "relation", "num_words", n, e);
}

/* ---- punctuation, startend ------------------------------------------------------------------ */

static int no_comma(struct ifeval_ask *x, struct str text, struct err *e)
{
    (void)x, (void)e;
    return !memchr(text.p ? text.p : "", ',', text.n);
}

static int end_checker(struct ifeval_ask *x, struct str text, struct err *e)
{
    struct str want;
    if (ifeval_arg_str(x, "end_phrase", &want, e))
        return -1;
    want = py_lower(py_strip(want), x->a);
    text = py_lower(py_strip_of(py_strip(text), "\""), x->a);
    return text.n >= want.n && memcmp(text.p + text.n - want.n, want.p, want.n) == 0;
}

static int quotation(struct ifeval_ask *x, struct str text, struct err *e)
{
    (void)x, (void)e;
    text = py_strip(text);
    return text.n > 1 && text.p[0] == '"' && text.p[text.n - 1] == '"';
}

const struct ifeval_type ifeval_types[] = {
    {"change_case:capital_word_frequency", TIER_APPROXIMATED, capital_words},
    {"change_case:english_capital", TIER_APPROXIMATED, english_capital},
    {"change_case:english_lowercase", TIER_APPROXIMATED, english_lowercase},
    {"combination:repeat_prompt", TIER_EXACT, repeat_prompt},
    {"combination:two_responses", TIER_EXACT, two_responses},
    {"detectable_content:number_placeholders", TIER_EXACT, placeholders},
    {"detectable_content:postscript", TIER_EXACT, postscript},
    {"detectable_format:constrained_response", TIER_EXACT, constrained_response},
    {"detectable_format:json_format", TIER_EXACT, json_format},
    {"detectable_format:multiple_sections", TIER_EXACT, multiple_sections},
    {"detectable_format:number_bullet_lists", TIER_EXACT, bullet_lists},
    {"detectable_format:number_highlighted_sections", TIER_EXACT, highlights},
    {"detectable_format:title", TIER_EXACT, title},
    {"keywords:existence", TIER_EXACT, existence},
    {"keywords:forbidden_words", TIER_EXACT, forbidden},
    {"keywords:frequency", TIER_EXACT, frequency},
    {"keywords:letter_frequency", TIER_EXACT, letter_frequency},
    {"language:response_language", TIER_APPROXIMATED, response_language},
    {"length_constraints:nth_paragraph_first_word", TIER_EXACT, nth_paragraph},
    {"length_constraints:number_paragraphs", TIER_EXACT, paragraphs},
    {"length_constraints:number_sentences", TIER_APPROXIMATED, sentences},
    {"length_constraints:number_words", TIER_EXACT, number_words},
    {"punctuation:no_comma", TIER_EXACT, no_comma},
    {"startend:end_checker", TIER_EXACT, end_checker},
    {"startend:quotation", TIER_EXACT, quotation},
    {NULL, TIER_UNSUPPORTED, NULL},
};
