/* task_filter: the filters of templates in task files, see formats/task.h. Letters are ASCII where a filter
 * changes their case. */
#include <stdlib.h>
#include <string.h>

#include "formats/task.h"

enum { QUOTED = 60 }; /* bytes of a text that a sentence repeats */

static char up(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
}
static char down(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static struct str trim(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    return str_trim(s);
}

static struct str lstrip(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    while (s.n && strchr(" \t\r\n", s.p[0]) && s.p[0])
        s = (struct str){s.p + 1, s.n - 1};
    return s;
}

static struct str lower(struct str s, struct str arg, struct arena *a)
{
    char *p = arena_bytes(a, s.p ? s.p : "", s.n);
    (void)arg;
    for (size_t i = 0; i < s.n; i++)
        p[i] = down(p[i]);
    return (struct str){p, s.n};
}

static struct str capitalize(struct str s, struct str arg, struct arena *a)
{
    s = lower(s, arg, a);
    if (s.n)
        ((char *)(uintptr_t)s.p)[0] = up(s.p[0]);
    return s;
}

static struct str lower_first(struct str s, struct str arg, struct arena *a)
{
    char *p = arena_bytes(a, s.p ? s.p : "", s.n);
    (void)arg;
    if (s.n)
        p[0] = down(p[0]);
    return (struct str){p, s.n};
}

static struct str drop_last(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    while (s.n && (s.p[s.n - 1] & 0xC0) == 0x80)
        s.n--;
    s.n -= s.n > 0;
    return s;
}

static struct str before(struct str s, struct str arg, struct arena *a)
{
    (void)a;
    return (struct str){s.p, (size_t)str_find(s, arg)}; /* it is there: template_filter looks */
}

static struct str after(struct str s, struct str arg, struct arena *a)
{
    (void)a;
    size_t at = (size_t)str_find(s, arg) + arg.n;
    return (struct str){s.p + at, s.n - at};
}

static size_t last_blank(struct str s)
{
    size_t i = s.n;
    while (i > 0 && s.p[i - 1] != ' ')
        i--;
    return i; /* behind it; 0: none */
}

static struct str last_word(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    size_t at = last_blank(s);
    return (struct str){s.p + at, s.n - at};
}

static struct str but_last_word(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    size_t at = last_blank(s);
    return (struct str){s.p, at ? at - 1 : 0};
}

static size_t starts_blank(struct str s)
{
    return s.n && s.p[0] && strchr(" \t\r\n", s.p[0]) ? 1 : 0;
}

static struct str first_blank(struct str s, struct str arg, struct arena *a)
{
    (void)arg, (void)a;
    return (struct str){s.p, starts_blank(s)};
}

static struct str but_first_blank(struct str s, struct str arg, struct arena *a)
{
    size_t n = starts_blank(s);
    (void)arg, (void)a;
    return (struct str){s.p + n, s.n - n};
}

/* a=b;c=d: the text that equals a left side becomes its right. */
static struct str map(struct str s, struct str arg, struct arena *a)
{
    (void)a;
    while (arg.n) {
        struct str pair = str_cut(&arg, ';'), from = str_cut(&pair, '=');
        if (str_eq(from, s))
            return pair;
    }
    return s;
}

static struct str replace(struct str s, const char *old, const char *new, struct arena *a)
{
    struct buf b = {0};
    for (ptrdiff_t at; (at = str_find(s, str_z(old))) >= 0;) {
        buf_add(&b, s.p, (size_t)at);
        buf_addz(&b, new);
        s.p += (size_t)at + strlen(old);
        s.n -= (size_t)at + strlen(old);
    }
    buf_adds(&b, s);
    struct str out = str_copy(a, buf_str(&b));
    buf_release(&b);
    return out;
}

/* As lm-evaluation-harness and the data's authors clean it. */
static struct str wikihow(struct str s, struct str arg, struct arena *a)
{
    struct buf b = {0};
    (void)arg;
    s = replace(str_trim(s), " [title]", ". ", a);
    while (s.n) { /* \[.*?\], not across lines */
        ptrdiff_t open = str_find(s, STR_LIT("["));
        struct str rest = open < 0 ? (struct str){0} : (struct str){s.p + open, s.n - (size_t)open};
        ptrdiff_t close = open < 0 ? -1 : str_find(rest, STR_LIT("]"));
        if (close >= 0 && memchr(rest.p, '\n', (size_t)close))
            close = -1;
        size_t keep = open < 0 ? s.n : (size_t)open + (close < 0),
               skip = close < 0 ? 0 : (size_t)close + 1;
        buf_add(&b, s.p, keep);
        s = (struct str){s.p + keep + skip, s.n - keep - skip};
    }
    struct str out = replace(buf_str(&b), "  ", " ", a);
    buf_release(&b);
    return out;
}

static const struct filter {
    const char *name;
    bool arg;
    struct str (*apply)(struct str s, struct str arg, struct arena *a);
} filters[] = {
    {"trim", false, trim},
    {"lstrip", false, lstrip},
    {"lower", false, lower},
    {"capitalize", false, capitalize},
    {"lower_first", false, lower_first},
    {"drop_last", false, drop_last},
    {"first_blank", false, first_blank},
    {"but_first_blank", false, but_first_blank},
    {"before", true, before},
    {"after", true, after},
    {"last_word", false, last_word},
    {"but_last_word", false, but_last_word},
    {"map", true, map},
    {"wikihow", false, wikihow},
};

static const struct filter *filter_of(struct str spec, struct str *arg)
{
    struct str name = str_cut(&spec, ':');
    *arg = spec;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (str_eqz(name, filters[i].name) && filters[i].arg == (spec.n > 0))
            return &filters[i];
    return NULL;
}

int template_filter(struct str s, struct str chain, struct arena *a, struct str *out, struct err *e)
{
    struct str arg;
    while (chain.n) {
        struct str spec = str_cut(&chain, '|');
        const struct filter *f = filter_of(spec, &arg);
        if (!f) /* template_filters has refused what is none */
            continue;
        if ((f->apply == before || f->apply == after) && str_find(s, arg) < 0)
            return err_set(e, "there is no \"%.*s\" in \"%.*s\", as %.*s wants", STR_ARG(arg),
                           (int)(s.n < QUOTED ? s.n : QUOTED), s.p, STR_ARG(spec));
        s = f->apply(s, arg, a);
    }
    *out = s;
    return 0;
}

int template_filters(struct str chain, struct err *e)
{
    struct str arg;
    while (chain.n) {
        struct str spec = str_cut(&chain, '|');
        if (!filter_of(spec, &arg))
            return err_code(e, EXIT_USAGE, "no filter is called \"%.*s\"", STR_ARG(spec));
    }
    return 0;
}
