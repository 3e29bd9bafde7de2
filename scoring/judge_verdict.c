/* judge_verdict: what a judge's reply amounts to. See scoring/judge.h for the shapes.
 *
 * The parser is a small scanner, not a search: each accepted shape is matched from the first byte
 * of a line to its last, so "grade A is not earned, 3 of 10" can't become a number.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "scoring/judge.h"

enum { DETAIL_MAX = 160 };

static bool take_word(struct str *s, const char *lower)
{
    size_t n = strlen(lower);
    if (s->n < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s->p[i];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != lower[i])
            return false;
    }
    s->p += n;
    s->n -= n;
    return true;
}

static void take_space(struct str *s)
{
    while (s->n && (*s->p == ' ' || *s->p == '\t')) {
        s->p++;
        s->n--;
    }
}

/* 1 to 6 digits without a leading zero; -1: none. */
static long take_int(struct str *s)
{
    long v = 0;
    size_t n = 0;
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9' && n < 6)
        v = v * 10 + (s->p[n++] - '0');
    if (n == 0 || n == 6 || (n > 1 && *s->p == '0'))
        return -1;
    s->p += n;
    s->n -= n;
    return v;
}

struct shape {
    long value;    /* pairwise: 2 for A, 1 for a tie, 0 for B */
    bool labelled; /* "Score:" stood in front */
    bool scaled;   /* "/100" stood behind */
};

/* What stands where the number is: a number, or who has won. */
static long take_value(const struct judge_prompt *p, struct str *s)
{
    if (p->protocol != JUDGE_PAIRWISE)
        return take_int(s);
    bool bracket = take_word(s, "[[");
    long v = take_word(s, "tie") ? 1 : take_word(s, "a") ? 2 : take_word(s, "b") ? 0 : -1;
    return bracket && !take_word(s, "]]") ? -1 : v;
}

static bool take_label(const struct judge_prompt *p, struct str *s)
{
    if (p->protocol == JUDGE_PAIRWISE)
        return take_word(s, "verdict") || take_word(s, "winner");
    return take_word(s, "score") || take_word(s, "grade") || take_word(s, "rating");
}

/* The whole line has a verdict's shape; the number may still be out of range. Bold marks may stand
 * around the line, the label or the number, in pairs. */
static bool line_shape(const struct judge_prompt *p, struct str line, struct shape *out)
{
    char top[32], of[32];
    struct str s = str_trim(line);
    int bold = take_word(&s, "**");
    snprintf(top, sizeof top, "%lld", (long long)p->hi);
    snprintf(of, sizeof of, "out of %lld", (long long)p->hi);
    out->labelled = take_label(p, &s);
    if (out->labelled) {
        bold += take_word(&s, "**");
        take_space(&s);
        if (!take_word(&s, ":") && !take_word(&s, "="))
            return false;
        bold += take_word(&s, "**");
        take_space(&s);
        bold += take_word(&s, "**");
    }
    out->value = take_value(p, &s);
    if (out->value < 0)
        return false;
    bold += take_word(&s, "**");
    out->scaled = false;
    if (p->protocol != JUDGE_PAIRWISE) {
        take_space(&s);
        out->scaled = take_word(&s, of);
        if (!out->scaled && take_word(&s, "/")) { /* "85 / 100" */
            take_space(&s);
            if (!take_word(&s, top))
                return false;
            out->scaled = true;
        }
    } else if (out->labelled) {
        take_word(&s, ".");
    }
    bold += take_word(&s, "**");
    return s.n == 0 && bold % 2 == 0;
}

static struct str quote(struct arena *a, const char *why, struct str text)
{
    struct str t = str_trim(text);
    size_t n = t.n;
    if (n > DETAIL_MAX) {
        n = DETAIL_MAX;
        while (n && ((unsigned char)t.p[n] & 0xC0) == 0x80)
            n--;
    }
    return str_printf(a, "%s: \"%.*s%s\"", why, (int)n, t.p ? t.p : "", n < t.n ? "..." : "");
}

/* Drops a closed <think> block in front. false: it never closes. */
static bool drop_think(struct str *s)
{
    *s = str_trim(*s);
    if (!str_starts(*s, "<think>"))
        return true;
    ptrdiff_t end = str_find(*s, STR_LIT("</think>"));
    if (end < 0)
        return false;
    *s = str_trim((struct str){s->p + end + 8, s->n - (size_t)end - 8});
    return true;
}

static bool in_scale(const struct judge_prompt *p, double v)
{
    return v >= (double)p->lo && v <= (double)p->hi;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int verdict_of_lines(const struct judge_prompt *p, struct str text, double *value,
                            struct str *detail, struct arena *a)
{
    struct shape last = {0}, other;
    struct str rest = text, line = {0};
    size_t lines = 0;
    bool got = false;
    while (rest.n) {
        struct str l = str_trim(str_cut(&rest, '\n'));
        if (!l.n)
            continue;
        lines++;
        line = l;
        bool hit = line_shape(p, l, &other);
        if (got && hit && other.value != last.value) {
            *detail = quote(a, "two different verdicts", text);
            return OUTCOME_PARSE_FAILED;
        }
        if (hit) {
            last = other;
            got = true;
        }
    }
    if (!lines) {
        *detail = STR_LIT("empty answer");
        return OUTCOME_PARSE_FAILED;
    }
    if (!line_shape(p, line, &last)) {
        *detail = quote(a, "no verdict", text);
        return OUTCOME_PARSE_FAILED;
    }
    *value = p->protocol == JUDGE_PAIRWISE ? (double)last.value / 2 : (double)last.value;
    if (!in_scale(p, *value)) {
        *value = NAN;
        *detail = str_printf(a, "out of %lld..%lld: \"%.*s\"", (long long)p->lo, (long long)p->hi,
                             STR_ARG(line));
        return OUTCOME_PARSE_FAILED;
    }
    *detail = quote(a, "matched", line);
    return OUTCOME_SCORED;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* The JSON of a reply: all of it, at most in one code fence. */
static struct str without_fence(struct str s)
{
    s = str_trim(s);
    if (str_starts(s, "\xEF\xBB\xBF"))
        s = str_trim((struct str){s.p + 3, s.n - 3});
    if (!str_starts(s, "```") || s.n < 6 || !str_ends(s, "```"))
        return s;
    struct str body = {s.p + 3, s.n - 6}, rest = body, word = str_trim(str_cut(&rest, '\n'));
    return str_eqz(word, "json") || !word.n ? str_trim(rest) : s;
}

/* A number of the scale, or a text that is one ("85", "85/100"); NaN: neither. */
static double json_score(const struct judge_prompt *p, const struct json *v)
{
    struct shape shape;
    double x = json_num(v);
    if (json_kind(v) == JSON_STR && line_shape(p, json_str(v), &shape) && !shape.labelled)
        x = p->protocol == JUDGE_PAIRWISE ? (double)shape.value / 2 : (double)shape.value;
    else if (p->protocol == JUDGE_PAIRWISE)
        return NAN;
    bool whole = x == floor(x) || p->protocol == JUDGE_PAIRWISE;
    return isfinite(x) && whole && in_scale(p, x) ? x : NAN;
}

/* Which answer a key speaks of; -1: none that was asked for. */
static int slot_of(const struct judge_prompt *p, size_t n, const char *key)
{
    if (p->protocol == JUDGE_SINGLE)
        return strcmp(key, "score") ? -1 : 0;
    if (p->protocol == JUDGE_PAIRWISE)
        return strcmp(key, "verdict") ? -1 : 0;
    return key[0] >= 'A' && key[0] < (char)('A' + n) && !key[1] ? key[0] - 'A' : -1;
}

static int verdict_of_json(const struct judge_prompt *p, struct str text, size_t n, double *value,
                           struct str *detail, struct arena *a)
{
    struct err why = {0};
    struct json *doc = json_parse_lone(without_fence(text), &why);
    struct buf lacks = {0};
    const struct json *v;
    const char *key;
    void *it = NULL;
    int outcome = OUTCOME_PARSE_FAILED;
    if (json_kind(doc) != JSON_OBJ) {
        *detail = quote(a, doc ? "no JSON object" : "no JSON", text);
        goto out;
    }
    while (json_each(doc, &it, &key, &v)) {
        int at = slot_of(p, n, key);
        if (at >= 0) {
            value[at] = json_score(p, v);
            continue;
        }
        for (size_t i = 0; i < n; i++) /* whoever invents answers may have mixed them up */
            value[i] = NAN;
        *detail = quote(a, "a key that was not asked for", text);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        if (isnan(value[i]) && p->protocol == JUDGE_JOINT)
            buf_printf(&lacks, "%s%c", lacks.n ? ", " : "", (char)('A' + i));
        else if (isnan(value[i]))
            buf_addz(&lacks, "it");
    if (lacks.n) {
        const char *say = arena_printf(a, "no usable value for %s", lacks.p);
        *detail = quote(a, say, text);
        goto out;
    }
    *detail = quote(a, "matched", text);
    outcome = OUTCOME_SCORED;
out:
    json_free(doc);
    buf_release(&lacks);
    return outcome;
}

/* ---- all of it ------------------------------------------------------------------------------ */

int judge_verdict(const struct judge_prompt *p, bool structured, const struct response *r, size_t n,
                  double *value, struct str *detail, struct arena *a)
{
    size_t values = p->protocol == JUDGE_JOINT ? n : 1;
    for (size_t i = 0; i < values; i++)
        value[i] = NAN;
    *detail = (struct str){0};
    if (!r)
        return OUTCOME_NOT_RUN;
    struct str text = r->text;
    switch (r->finish) {
    case FINISH_STOP:
        if (!drop_think(&text)) {
            *detail = STR_LIT("<think> never closes");
            return OUTCOME_TRUNCATED;
        }
        if (p->protocol == JUDGE_JOINT || structured)
            return verdict_of_json(p, text, values, value, detail, a);
        return verdict_of_lines(p, text, value, detail, a);
    case FINISH_LENGTH: /* "10" may be the head of "100" */
        *detail = r->detail.n && !r->text.n ? str_copy(a, r->detail)
                                            : quote(a, "cut at the token limit", text);
        return OUTCOME_TRUNCATED;
    case FINISH_FILTER:
        *detail = r->detail.n ? str_copy(a, r->detail) : STR_LIT("the server's filter");
        return OUTCOME_REFUSED;
    default:
        *detail = r->detail.n ? str_copy(a, r->detail) : STR_LIT("no answer");
        return OUTCOME_TRANSPORT_FAILED;
    }
}
