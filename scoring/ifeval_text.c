/* ifeval_text: see scoring/ifeval_text.h. */
#include "scoring/ifeval_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/lower.h"
#include "base/regex.h"

/* str.isspace() of Python 3. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

struct str py_strip(struct str s)
{
    size_t from = 0, at = 0, end = 0;
    bool begun = false;
    while (at < s.n) {
        size_t was = at;
        if (is_space(utf8_next(s, &at)))
            continue;
        if (!begun)
            from = was;
        begun = true;
        end = at;
    }
    return begun ? (struct str){s.p + from, end - from} : (struct str){s.p, 0};
}

struct str py_strip_of(struct str s, const char *set)
{
    while (s.n && strchr(set, s.p[0]) && s.p[0]) {
        s.p++;
        s.n--;
    }
    while (s.n && strchr(set, s.p[s.n - 1]) && s.p[s.n - 1])
        s.n--;
    return s;
}

struct str py_word(struct str s)
{
    size_t at = 0;
    s = py_strip(s);
    while (at < s.n) {
        size_t was = at;
        if (is_space(utf8_next(s, &at)))
            return (struct str){s.p, was};
    }
    return s;
}

struct str py_lower(struct str s, struct arena *a)
{
    struct buf b = {0};
    lower_text(s, &b);
    struct str out = str_copy(a, buf_str(&b));
    buf_release(&b);
    return out;
}

struct str py_without(struct str s, char c, struct arena *a)
{
    char *p = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != c)
            p[n++] = s.p[i];
    return (struct str){p, n};
}

static void push(struct strs *s, size_t *cap, struct str x, struct arena *a)
{
    if (s->n == *cap) {
        struct str *v = arena_array(a, *cap = *cap ? 2 * *cap : 8, sizeof *v);
        if (s->n)
            memcpy(v, s->v, s->n * sizeof *v);
        s->v = v;
    }
    s->v[s->n++] = x;
}

struct strs py_split(struct str s, struct str sep, struct arena *a)
{
    struct strs out = {0};
    size_t cap = 0;
    for (ptrdiff_t at; (at = str_find(s, sep)) >= 0;) {
        push(&out, &cap, (struct str){s.p, (size_t)at}, a);
        s.p += (size_t)at + sep.n;
        s.n -= (size_t)at + sep.n;
    }
    push(&out, &cap, s, a);
    return out;
}

/* ---- patterns ------------------------------------------------------------------------------- */

struct str ifeval_pattern(struct str python, struct arena *a)
{
    static const char *const in[] = {"\\w", "\\W", "\\d", "\\s", "\\S", "\\b"};
    static const char *const out[] = {
        "[" PY_WORD "]",
        "[^" PY_WORD "]",
        "[" PY_DIGIT "]",
        "[" PY_SPACE "]",
        "[^" PY_SPACE "]",
        "(?:(?<=[" PY_WORD "])(?![" PY_WORD "])|(?<![" PY_WORD "])(?=[" PY_WORD "]))"};
    struct buf b = {0};
    bool class = false;
    for (size_t i = 0; i < python.n; i++) {
        size_t k = 6;
        struct str rest = {python.p + i, python.n - i};
        for (k = 0; k < 6 && !str_starts(rest, in[k]); k++)
            ;
        if (k < 6 && !class) {
            buf_addz(&b, out[k]);
            i++;
            continue;
        }
        if (python.p[i] == '\\' && i + 1 < python.n) {
            buf_add(&b, python.p + i++, 2);
            continue;
        }
        class = python.p[i] == '[' ? true : python.p[i] == ']' ? false : class;
        buf_addc(&b, python.p[i]);
    }
    struct str s = str_copy(a, buf_str(&b));
    buf_release(&b);
    return s;
}

static int compile(struct ifeval_ask *x, int slot, struct str pattern, unsigned flags,
                   struct err *e)
{
    struct buf b = {0};
    if (x->slot[slot].re)
        return 0;
    buf_addz(&b, "(*LF)"); /* lines end at LF only, as in Python, whatever PCRE2 was built for */
    buf_adds(&b, pattern);
    x->slot[slot].re = regex_new(buf_str(&b), flags, e);
    buf_release(&b);
    if (!x->slot[slot].re)
        return -1;
    x->slot[slot].m = regex_match_new(x->slot[slot].re);
    if (slot >= x->slots)
        x->slots = slot + 1;
    return 0;
}

int ifeval_findall(struct ifeval_ask *x, int slot, struct str pattern, unsigned flags,
                   struct str text, struct strs *hits, struct err *e)
{
    size_t at = 0, from, to, cap = 0;
    int rc = 0;
    *hits = (struct strs){0};
    if (compile(x, slot, pattern, flags, e))
        return -1;
    while (at <= text.n &&
           (rc = regex_find(x->slot[slot].re, x->slot[slot].m, text, at, &from, &to, e)) == 1) {
        push(hits, &cap, (struct str){text.p + from, to - from}, x->a);
        at = to;
        if (from == to && at < text.n)
            utf8_next(text, &at);
        else if (from == to)
            break;
    }
    return rc < 0 ? -1 : 0;
}

int64_t ifeval_count(struct ifeval_ask *x, int slot, struct str pattern, unsigned flags,
                     struct str text, struct err *e)
{
    struct strs hits;
    return ifeval_findall(x, slot, pattern, flags, text, &hits, e) ? -1 : (int64_t)hits.n;
}

/* ---- arguments ------------------------------------------------------------------------------ */

int ifeval_arg_str(const struct ifeval_ask *x, const char *name, struct str *out, struct err *e)
{
    *out = json_str(json_get(x->args, name));
    return out->n ? 0 : err_set(e, "it has no text \"%s\"", name);
}

int ifeval_arg_int(const struct ifeval_ask *x, const char *name, int64_t *out, struct err *e)
{
    const struct json *v = json_get(x->args, name);
    double d = json_num(v);
    if (!(d >= 0 && d <= 1e15))
        return err_set(e, "it has no number \"%s\" from 0 on", name);
    *out = (int64_t)d;
    return (double)*out == d ? 0 : err_set(e, "\"%s\" is no whole number", name);
}

int ifeval_relation(const struct ifeval_ask *x, const char *relation, const char *threshold,
                    int64_t n, struct err *e)
{
    struct str r;
    int64_t want;
    if (n < 0 || ifeval_arg_str(x, relation, &r, e) || ifeval_arg_int(x, threshold, &want, e))
        return -1;
    if (str_eqz(r, "less than"))
        return n < want;
    if (str_eqz(r, "at least"))
        return n >= want;
    return err_set(e, "\"%s\" is \"%.*s\", want \"less than\" or \"at least\"", relation,
                   STR_ARG(r));
}

/* ---- JSON as Python's json.loads takes it --------------------------------------------------- */

enum { JSON_DEPTH = 900 }; /* Python's own limit on recursion is near 1000 */

struct scan {
    const char *p, *end;
};
static void blanks(struct scan *s)
{
    while (s->p < s->end && strchr(" \t\n\r", *s->p) && *s->p)
        s->p++;
}
static bool word(struct scan *s, const char *w)
{
    size_t n = strlen(w);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
        return false;
    s->p += n;
    return true;
}
static bool digits(struct scan *s)
{
    const char *from = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > from;
}

static bool number(struct scan *s)
{
    word(s, "-");
    if (!word(s, "0") && !digits(s))
        return false;
    struct scan was = *s;
    if (word(s, ".") && !digits(s))
        *s = was;
    was = *s;
    if (word(s, "e") || word(s, "E")) {
        if (!word(s, "+"))
            word(s, "-");
        if (!digits(s))
            *s = was;
    }
    return true;
}

static bool string(struct scan *s)
{
    if (!word(s, "\""))
        return false;
    while (s->p < s->end && *s->p != '"') {
        if ((unsigned char)*s->p < 0x20)
            return false;
        if (*s->p++ != '\\')
            continue;
        if (s->p >= s->end || !*s->p || !strchr("\"\\/bfnrtu", *s->p))
            return false;
        if (*s->p++ == 'u')
            for (int i = 0; i < 4; i++, s->p++)
                if (s->p >= s->end || !*s->p || !strchr("0123456789abcdefABCDEF", *s->p))
                    return false;
    }
    return word(s, "\"");
}

static bool value(struct scan *s, int depth);

static bool members(struct scan *s, char close, int depth)
{
    const char end[] = {close, 0};
    blanks(s);
    if (word(s, end))
        return true;
    for (;;) {
        blanks(s);
        if (close == '}') {
            if (!string(s))
                return false;
            blanks(s);
            if (!word(s, ":"))
                return false;
            blanks(s);
        }
        if (!value(s, depth + 1))
            return false;
        blanks(s);
        if (word(s, end))
            return true;
        if (!word(s, ","))
            return false;
    }
}

static bool value(struct scan *s, int depth)
{
    if (s->p >= s->end || depth > JSON_DEPTH)
        return false;
    if (word(s, "{"))
        return members(s, '}', depth);
    if (word(s, "["))
        return members(s, ']', depth);
    if (*s->p == '"')
        return string(s);
    return word(s, "true") || word(s, "false") || word(s, "null") || word(s, "NaN") ||
           word(s, "Infinity") || word(s, "-Infinity") || number(s);
}

bool ifeval_json(struct str s)
{
    struct scan x = {s.p, s.p + s.n};
    blanks(&x);
    if (!value(&x, 0))
        return false;
    blanks(&x);
    return x.p == x.end;
}
