/* split: the patterns, and walking a text with one.
 *
 * Sources: openai/tiktoken tiktoken_ext/openai_public.py (gpt2, cl100k, o200k), llama.cpp
 * src/llama-vocab.cpp and the published tokenizer.json files (llama3, qwen2). Written for PCRE2:
 * - \s becomes \p{White_Space}, for PCRE2's \s holds U+180E, which Unicode moved out of White_Space;
 * - $ becomes \z, for PCRE2's $ also matches before a last newline;
 * - possessive quantifiers where they cannot change a match; they save backtracking.
 */
#include "tokenizer/split.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/regex.h"

#define WS  "\\p{White_Space}"
#define NWS "\\P{White_Space}"
/* The classes of o200k's words: upper-ish and lower-ish letters; marks count as both. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TAIL  "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

static const char *const published_gpt2[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s",
    NULL,
};
static const char *const published_cl100k[] = {
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
    NULL,
};
static const char *const published_o200k[] = {
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const published_llama3[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const published_qwen2[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};

const struct split_pattern split_patterns[] = {
    {.name = "gpt2",
     .also = "r50k p50k r50k_base p50k_base",
     .pattern = "'(?:[sdmt]|ll|ve|re)"
                "| ?\\p{L}++"
                "| ?\\p{N}++"
                "| ?[^" WS "\\p{L}\\p{N}]++"
                "|" WS "++\\z"
                "|" WS "+(?!" NWS ")"
                "|" WS,
     .lead = SPLIT_LEAD_SPACE,
     .published = published_gpt2},
    {.name = "cl100k",
     .also = "cl100k_base",
     .pattern = "'(?i:[sdmt]|ll|ve|re)"
                "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++"
                "|\\p{N}{1,3}+"
                "| ?[^" WS "\\p{L}\\p{N}]++[\\r\\n]*+"
                "|" WS "++\\z"
                "|" WS "*[\\r\\n]"
                "|" WS "+(?!" NWS ")"
                "|" WS,
     .lead = SPLIT_LEAD_ANY,
     .published = published_cl100k},
    {.name = "o200k",
     .also = "o200k_base",
     .pattern = "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" TAIL "|[^\\r\\n\\p{L}\\p{N}]?" UPPER
                "+" LOWER "*" TAIL "|\\p{N}{1,3}+"
                "| ?[^" WS "\\p{L}\\p{N}]++[\\r\\n/]*+"
                "|" WS "*[\\r\\n]+"
                "|" WS "+(?!" NWS ")"
                "|" WS "+",
     .lead = SPLIT_LEAD_NONE,
     .published = published_o200k},
    {.name = "llama3",
     .also = "llama-bpe",
     .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
                "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++"
                "|\\p{N}{1,3}+"
                "| ?[^" WS "\\p{L}\\p{N}]++[\\r\\n]*+"
                "|" WS "*[\\r\\n]+"
                "|" WS "+(?!" NWS ")"
                "|" WS "+",
     .lead = SPLIT_LEAD_ANY,
     .published = published_llama3},
    {.name = "qwen2",
     .also = "",
     .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
                "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++"
                "|\\p{N}"
                "| ?[^" WS "\\p{L}\\p{N}]++[\\r\\n]*+"
                "|" WS "*[\\r\\n]+"
                "|" WS "+(?!" NWS ")"
                "|" WS "+",
     .lead = SPLIT_LEAD_ANY,
     .published = published_qwen2},
    {.name = NULL},
};

static bool has_name(const struct split_pattern *p, struct str name)
{
    struct str rest = str_z(p->also);
    if (str_eqz(name, p->name))
        return true;
    while (rest.n > 0) {
        if (str_eq(str_cut(&rest, ' '), name))
            return name.n > 0;
    }
    return false;
}

const struct split_pattern *split_find(struct str name, struct err *e)
{
    char names[128];
    size_t n = 0;
    for (const struct split_pattern *p = split_patterns; p->name; p++) {
        if (has_name(p, name))
            return p;
        for (const char *c = p->name; *c && n + 3 < sizeof names; c++)
            names[n++] = *c;
        names[n++] = p[1].name ? ',' : '\0';
        if (p[1].name && n + 1 < sizeof names)
            names[n++] = ' ';
    }
    err_code(e, EXIT_USAGE, "no split pattern \"%.*s\"; there are %s", STR_ARG(name), names);
    return NULL;
}

const struct split_pattern *split_find_published(struct str text)
{
    for (const struct split_pattern *p = split_patterns; p->name; p++) {
        for (const char *const *t = p->published; *t; t++) {
            if (str_eqz(text, *t))
                return p;
        }
        if (str_eqz(text, p->pattern))
            return p;
    }
    return NULL;
}

/* What one ASCII byte is for the short cut. */
enum class { OTHER, LETTER, NUMBER, BREAK, HIGH };

struct split {
    struct regex *regex;
    enum split_lead lead;
    uint8_t class[256];
    bool leads[256]; /* may stand in front of letters */
};

struct splitter {
    const struct split *split;
    struct regex_match *match;
    bool plain;
};

struct split *split_new(const struct split_pattern *p, struct err *e)
{
    struct split *s = mem_zero(sizeof *s);
    s->lead = p->lead;
    s->regex = regex_new(str_z(p->pattern), 0, e);
    if (!s->regex) {
        err_wrap(e, "split pattern %s", p->name);
        free(s);
        return NULL;
    }
    for (int c = 0; c < 256; c++) {
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        s->class[c] = c >= 128                 ? HIGH
                      : letter                 ? LETTER
                      : c >= '0' && c <= '9'   ? NUMBER
                      : c == '\r' || c == '\n' ? BREAK
                                               : OTHER;
        s->leads[c] = p->lead == SPLIT_LEAD_ANY ? s->class[c] == OTHER && c != '\'' : c == ' ';
    }
    return s;
}

void split_free(struct split *s)
{
    if (!s)
        return;
    regex_free(s->regex);
    free(s);
}

struct splitter *splitter_new(const struct split *s, bool plain)
{
    struct splitter *x = mem_zero(sizeof *x);
    x->split = s;
    x->match = regex_match_new(s->regex);
    x->plain = plain || s->lead == SPLIT_LEAD_NONE;
    return x;
}

void splitter_free(struct splitter *s)
{
    if (!s)
        return;
    regex_match_free(s->match);
    free(s);
}

/* An ASCII word: letters, with one lead character or none, that end at an ASCII non-letter or at
 * the end of the text. The patterns with a lead match exactly this there: no alternative before it
 * starts with a letter or with such a lead, and the letters are taken greedily. 0: not such a
 * word; the pattern must say (a byte of 128 or more may be another letter). */
static size_t ascii_word(const struct split *s, struct str text, size_t from)
{
    const unsigned char *p = (const unsigned char *)text.p;
    size_t at = from;
    if (s->leads[p[at]] && ++at == text.n)
        return 0;
    if (s->class[p[at]] != LETTER)
        return 0;
    while (at < text.n && s->class[p[at]] == LETTER)
        at++;
    return at < text.n && s->class[p[at]] == HIGH ? 0 : at;
}

int split_next(struct splitter *x, struct str text, size_t from, size_t *end, struct err *e)
{
    const struct split *s = x->split;
    size_t start, stop;
    int got;
    if (!x->plain && (*end = ascii_word(s, text, from)) != 0)
        return 0;
    got = regex_find(s->regex, x->match, text, from, &start, &stop, e);
    if (got < 0)
        return err_wrap(e, "split at byte %zu", from);
    /* No match, a gap, or an empty match: the bytes up to there are a piece, nothing is lost. */
    if (got == 0)
        *end = text.n;
    else if (start > from)
        *end = start;
    else if (stop > from)
        *end = stop;
    else
        utf8_next(text, &from), *end = from;
    return 0;
}
