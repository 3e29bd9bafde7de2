/* words: see words.h. */
#include "scoring/words.h"

#include <stdlib.h>
#include <string.h>

static bool is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_punct(unsigned char c)
{
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
           (c > 'z' && c < 0x7f);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* A part of a word, for whole-word matches: anything but white space and ASCII punctuation. */
static bool is_word(unsigned char c)
{
    return !is_space(c) && !is_punct(c);
}

/* Bytes of the punctuation mark at the start of s (or at its end), 0 if there is none. */
static size_t punct_at(struct str s, bool end)
{
    /* Quotation marks, dashes, ellipsis and bullets: U+2010..U+2026, that is E2 80 90..A6. */
    const unsigned char *p = (const unsigned char *)s.p + (end && s.n >= 3 ? s.n - 3 : 0);
    if (s.n >= 3 && p[0] == 0xE2 && p[1] == 0x80 && p[2] >= 0x90 && p[2] <= 0xA6)
        return 3;
    if (s.n >= 2) { /* « and »: C2 AB, C2 BB */
        p = (const unsigned char *)s.p + (end ? s.n - 2 : 0);
        if (p[0] == 0xC2 && (p[1] == 0xAB || p[1] == 0xBB))
            return 2;
    }
    if (!s.n)
        return 0;
    unsigned char c = (unsigned char)s.p[end ? s.n - 1 : 0];
    return is_punct(c) || is_space(c);
}

struct str words_plain(struct str text, struct arena *a)
{
    char *out = arena_alloc(a, text.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool no_break = c == 0xC2 && i + 1 < text.n && (unsigned char)text.p[i + 1] == 0xA0;
        i += no_break;
        if (!is_space(c) && !no_break)
            out[n++] = lower(text.p[i]);
        else if (n && out[n - 1] != ' ')
            out[n++] = ' ';
    }
    struct str s = {out, n};
    for (size_t k; (k = punct_at(s, false)); s.n -= k)
        s.p += k;
    for (size_t k; (k = punct_at(s, true));)
        s.n -= k;
    return s;
}

static bool occurs_at(struct str text, size_t at, struct str name)
{
    if (!name.n || name.n > text.n - at || memcmp(text.p + at, name.p, name.n) != 0)
        return false;
    bool before = at == 0 || !is_word((unsigned char)text.p[at - 1]);
    bool after = at + name.n == text.n || !is_word((unsigned char)text.p[at + name.n]);
    return before && after;
}

int words_named(struct str text, struct strs names, size_t *first)
{
    bool *seen = mem_array(names.n ? names.n : 1, sizeof *seen);
    int count = 0;
    for (size_t at = 0; at < text.n;) {
        size_t best = names.n;
        for (size_t k = 0; k < names.n; k++)
            if ((best == names.n || names.v[k].n > names.v[best].n) &&
                occurs_at(text, at, names.v[k]))
                best = k;
        if (best == names.n) {
            at++;
            continue;
        }
        at += names.v[best].n;
        if (!seen[best] && count++ == 0)
            *first = best;
        seen[best] = true;
    }
    free(seen);
    return count;
}

static int by_bytes(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    return str_cmp(*x, *y);
}

struct strs words_bag(struct str text, struct arena *a)
{
    char *out = arena_alloc(a, text.n + 1);
    struct strs bag = {arena_array(a, text.n / 2 + 1, sizeof *bag.v), 0};
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        struct str w = {out + n, 0};
        for (; i < text.n && !is_space((unsigned char)text.p[i]); i++)
            if (!is_punct((unsigned char)text.p[i]))
                out[n++] = lower(text.p[i]);
        w.n = (size_t)(out + n - w.p);
        if (w.n && !str_eqz(w, "a") && !str_eqz(w, "an") && !str_eqz(w, "the"))
            bag.v[bag.n++] = w;
        while (i < text.n && is_space((unsigned char)text.p[i]))
            i++;
    }
    qsort(bag.v, bag.n, sizeof *bag.v, by_bytes);
    return bag;
}
