/* args: the command line and --help of a schema, see field.h.
 *
 * Nothing is guessed: an option given twice, a value that looks like an option and a word too many
 * are refused, because a mistyped command line that still runs costs money.
 */
#include "base/field.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

struct args {
    const struct schema *s;
    void *dst;
    struct arena *a;
    struct strs given; /* full names, '_' */
    bool positionals;  /* the schema has positional rows */
};

/* "--batch-size" as people write it, for sentences. */
static const char *option_name(struct arena *a, const char *key)
{
    char *z = arena_printf(a, "--%s", key);
    for (char *p = z + 2; *p; p++)
        if (*p == '_')
            *p = '-';
    return z;
}

static bool was_given(const struct args *g, const char *key)
{
    for (size_t i = 0; i < g->given.n; i++)
        if (str_eqz(g->given.v[i], key))
            return true;
    return false;
}

/* Keeps the row's sentence but calls the option as it was written. */
static int set_value(struct args *g, const struct field *f, void *member, const char *key,
                     const char *called, const char *text, struct err *e)
{
    if (f->type == FIELD_STRS) {
        struct strs *list = member;
        if (!was_given(g, key))
            *list = (struct strs){0};
        strs_push(list, str_copy(g->a, str_z(text)), g->a);
    } else {
        struct field named = *f;
        named.name = called;
        if (was_given(g, key))
            return err_code(e, EXIT_USAGE, "%s is given twice", called);
        if (field_parse(&named, member, str_z(text), g->a, e) != 0)
            return -1;
    }
    if (!was_given(g, key))
        strs_push(&g->given, str_z(key), g->a);
    return 0;
}

static int unknown_option(struct args *g, const char *word, const char *key, struct err *e)
{
    char name[128];
    const struct field *f = schema_near(g->s, key, name);
    if (!f)
        return err_code(e, EXIT_USAGE, "unknown option %s", word);
    return err_code(e, EXIT_USAGE, "unknown option %s; did you mean %s? (%s)", word,
                    option_name(g->a, name), f->help ? f->help : f->name);
}

/* An option at argv[i]; returns how many words it took, or -1. */
static int take_option(struct args *g, int argc, char **argv, int i, struct err *e)
{
    const char *word = argv[i], *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    char *key = arena_bytes(g->a, word + 2, n - 2);
    const char *called = arena_bytes(g->a, word, n);
    void *member = NULL;
    for (char *p = key; *p; p++)
        if (*p == '-')
            *p = '_';
    const struct field *f = schema_find(g->s, g->dst, key, &member);
    bool no = false;
    if (!f && strncmp(key, "no_", 3) == 0) {
        f = schema_find(g->s, g->dst, key + 3, &member);
        no = f && f->type == FIELD_BOOL;
        if (no && eq)
            return err_code(e, EXIT_USAGE, "%s takes no value", called);
        f = no ? f : NULL;
        key = no ? key + 3 : key;
    }
    if (!f || f->type == FIELD_STRUCT || f->type == FIELD_LIST || f->type == FIELD_REST)
        return unknown_option(g, called, key, e);
    if (f->type == FIELD_BOOL && !eq)
        return set_value(g, f, member, key, called, no ? "false" : "true", e) == 0 ? 1 : -1;
    if (eq)
        return set_value(g, f, member, key, called, eq + 1, e) == 0 ? 1 : -1;
    if (i + 1 >= argc)
        return err_code(e, EXIT_USAGE, "%s needs a value (%s)", called,
                        f->help ? f->help : f->name);
    if (strncmp(argv[i + 1], "--", 2) == 0)
        return err_code(e, EXIT_USAGE, "%s needs a value, got %s; write %s=%s if you mean it",
                        called, argv[i + 1], called, argv[i + 1]);
    if (set_value(g, f, member, key, called, argv[i + 1], e) != 0)
        return -1;
    int took = 2;
    while (f->type == FIELD_STRS && !g->positionals && i + took < argc &&
           argv[i + took][0] != '-') {
        if (set_value(g, f, member, key, called, argv[i + took], e) != 0)
            return -1;
        took++;
    }
    return took;
}

static int take_positional(struct args *g, const char *word, struct err *e)
{
    for (const struct field *f = g->s->fields; f->name; f++) {
        if (!(f->flags & FIELD_POSITIONAL) || (f->type != FIELD_STRS && was_given(g, f->name)))
            continue;
        return set_value(g, f, (char *)g->dst + f->at, f->name, f->name, word, e);
    }
    return err_code(e, EXIT_USAGE, "unexpected \"%s\"", word);
}

static int check_required(const struct args *g, struct err *e)
{
    struct err why = {0};
    if (schema_required(g->s, g->given, &why) == 0)
        return 0;
    for (const struct field *f = g->s->fields; f->name; f++) {
        if (f->def || f->type >= FIELD_STRUCT || was_given(g, f->name))
            continue;
        const char *name = f->flags & FIELD_POSITIONAL ? f->name : option_name(g->a, f->name);
        return err_code(e, EXIT_USAGE, "%s is missing (%s)", name, f->help ? f->help : "required");
    }
    *e = why;
    return -1;
}

int schema_args(const struct schema *s, void *dst, int argc, char **argv, struct arena *a,
                struct err *e)
{
    struct args g = {.s = s, .dst = dst, .a = a};
    bool options = true;
    for (const struct field *f = s->fields; f->name; f++)
        g.positionals = g.positionals || (f->flags & FIELD_POSITIONAL);
    if (schema_defaults(s, dst, a, e) != 0)
        return -1;
    for (int i = 0; i < argc;) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0) {
            options = false;
            i++;
        } else if (options && strncmp(word, "--", 2) == 0) {
            int took = take_option(&g, argc, argv, i, e);
            if (took < 0)
                return -1;
            i += took;
        } else if (options && word[0] == '-' && word[1]) {
            return err_code(e, EXIT_USAGE, "unknown option %s; options start with two dashes",
                            word);
        } else {
            if (take_positional(&g, word, e) != 0)
                return -1;
            i++;
        }
    }
    return check_required(&g, e);
}

/* ---- help ----------------------------------------------------------------------------------- */

/* What stands behind the option: "N", "X", "a|b", "TEXT...". Beside positional words an option takes
 * one value, so a list is the option given again. */
static void placeholder(const struct field *f, bool one, struct buf *b)
{
    switch (f->type) {
    case FIELD_BOOL:
    case FIELD_STRUCT:
    case FIELD_LIST:
    case FIELD_REST:
        break;
    case FIELD_I64:
        buf_addz(b, " N");
        break;
    case FIELD_F64:
        buf_addz(b, " X");
        break;
    case FIELD_STR:
        buf_addz(b, " TEXT");
        break;
    case FIELD_STRS:
        buf_addz(b, one ? " TEXT" : " TEXT...");
        break;
    case FIELD_I64S:
        buf_addz(b, " N,N...");
        break;
    case FIELD_F64S:
        buf_addz(b, " X,X...");
        break;
    case FIELD_ENUM:
        for (int i = 0; f->choices[i]; i++)
            buf_printf(b, "%s%s", i ? "|" : " ", f->choices[i]);
        break;
    }
}

/* " (default 8, 1 to 1024)", " (required)" or nothing. */
static void facts(const struct field *f, bool again, struct buf *b)
{
    const char *sep = " (";
    if (!f->def) {
        buf_printf(b, "%srequired", sep);
        sep = ", ";
    } else if (f->type == FIELD_BOOL && strcmp(f->def, "true") == 0) {
        buf_printf(b, "%son by default", sep);
        sep = ", ";
    } else if (*f->def && f->type != FIELD_BOOL) {
        buf_printf(b, "%sdefault %s", sep, f->def);
        sep = ", ";
    }
    if (f->min != 0 || f->max != 0) {
        bool low = f->min > -1e15, high = f->max >= f->min && f->max < 1e15;
        if (f->flags & FIELD_ABOVE) {
            buf_printf(b, "%sabove %.15g", sep, f->min);
            if (high)
                buf_printf(b, ", up to %.15g", f->max);
        } else if (low && high)
            buf_printf(b, "%s%.15g to %.15g", sep, f->min, f->max);
        else if (low)
            buf_printf(b, "%sat least %.15g", sep, f->min);
        else if (high)
            buf_printf(b, "%sat most %.15g", sep, f->max);
        if (low || high)
            sep = ", ";
    }
    if (again) {
        buf_printf(b, "%smay repeat", sep);
        sep = ", ";
    }
    if (*sep == ',')
        buf_addc(b, ')');
}

static void help_row(const struct field *f, const char *prefix, bool words, FILE *to)
{
    bool again = words && f->type == FIELD_STRS && !(f->flags & FIELD_POSITIONAL);
    struct buf left = {0}, right = {0};
    if (f->flags & FIELD_POSITIONAL) {
        for (const char *p = f->name; *p; p++)
            buf_addc(&left, (char)toupper((unsigned char)*p));
        buf_addz(&left, f->type == FIELD_STRS ? "..." : "");
    } else {
        bool on = f->type == FIELD_BOOL && f->def && strcmp(f->def, "true") == 0;
        buf_printf(&left, "--%s%s%s", on ? "no-" : "", prefix, f->name);
        for (char *p = left.p + 2; *p; p++)
            if (*p == '_')
                *p = '-';
        placeholder(f, words, &left);
    }
    buf_addz(&right, f->help ? f->help : "");
    facts(f, again, &right);
    if (left.n > 24)
        fprintf(to, "  %s\n  %-24s %s\n", left.p, "", right.p);
    else
        fprintf(to, "  %-24s %s\n", left.p, right.p);
    buf_release(&left);
    buf_release(&right);
}

static void help_below(const struct schema *s, const char *prefix, unsigned positional, bool words,
                       FILE *to)
{
    for (const struct field *f = s->fields; f->name; f++) {
        char below[128];
        if (f->flags & FIELD_HIDDEN || f->type == FIELD_LIST || f->type == FIELD_REST)
            continue;
        if (f->type == FIELD_STRUCT) {
            snprintf(below, sizeof below, "%s%s.", prefix, f->name);
            help_below(f->sub, below, positional, words, to);
        } else if ((f->flags & FIELD_POSITIONAL) == positional) {
            help_row(f, prefix, words, to);
        }
    }
}

void schema_help(const struct schema *s, FILE *to)
{
    bool words = false;
    for (const struct field *f = s->fields; f->name; f++)
        words = words || (f->flags & FIELD_POSITIONAL);
    help_below(s, "", FIELD_POSITIONAL, words, to);
    help_below(s, "", 0, words, to);
}
