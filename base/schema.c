/* schema: whole structs through their tables: defaults, keys, near misses, the canonical text. See
 * field.h; one value at a time is field.c.
 */
#include "base/field.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* " (help)" or nothing, for the end of a sentence. */
static void add_help(const struct field *f, struct buf *b)
{
    if (f->help && *f->help)
        buf_printf(b, " (%s)", f->help);
}

int schema_defaults(const struct schema *s, void *dst, struct arena *a, struct err *e)
{
    memset(dst, 0, s->size);
    for (const struct field *f = s->fields; f->name; f++) {
        char *member = (char *)dst + f->at;
        if (f->type == FIELD_STRUCT) {
            if (schema_defaults(f->sub, member, a, e) != 0)
                return -1;
        } else if (f->type != FIELD_LIST && f->type != FIELD_REST && f->def) {
            if (field_parse(f, member, str_z(f->def), a, e) != 0)
                return err_wrap(e, "default of %s.%s", s->name, f->name);
        }
    }
    return 0;
}

const struct field *schema_find(const struct schema *s, void *dst, const char *key, void **member)
{
    size_t n = strcspn(key, ".");
    for (const struct field *f = s->fields; f->name; f++) {
        if (strlen(f->name) != n || memcmp(f->name, key, n) != 0)
            continue;
        char *at = dst ? (char *)dst + f->at : NULL;
        if (key[n] == '.')
            return f->type == FIELD_STRUCT ? schema_find(f->sub, at, key + n + 1, member) : NULL;
        if (member)
            *member = at;
        return f;
    }
    return NULL;
}

struct near {
    const char *key;
    char *name;
    const struct field *row;
    int best;
};

/* Compares the key with every full name below s, and a bare key with last names. */
static void look_near(const struct schema *s, const char *prefix, struct near *q)
{
    for (const struct field *f = s->fields; f->name; f++) {
        char full[128];
        snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "." : "", f->name);
        if (f->type == FIELD_STRUCT) {
            look_near(f->sub, full, q);
            continue;
        }
        if (f->type == FIELD_LIST || f->type == FIELD_REST || (f->flags & FIELD_HIDDEN))
            continue;
        int d = str_distance(q->key, full);
        size_t n = strlen(prefix) + 1;
        if (*prefix && strncmp(q->key, full, n) == 0 && d > 1 + (int)(strlen(q->key) - n) / 2)
            d = q->best; /* only the section is alike */
        if (*prefix && strcmp(q->key, f->name) == 0)
            d = 1; /* the section was forgotten */
        else if (strlen(f->name) > 3 && strncmp(q->key, full, strlen(full)) == 0 && d > 2)
            d = 2; /* more was said than the key has: train.batchsize */
        if (d < q->best) {
            q->best = d;
            q->row = f;
            snprintf(q->name, 128, "%s", full);
        }
    }
}

const struct field *schema_near(const struct schema *s, const char *key, char name[128])
{
    int allowed = 1 + (int)strlen(key) / 4;
    struct near q = {key, name, NULL, (allowed < 3 ? allowed : 3) + 1};
    look_near(s, "", &q);
    return q.row;
}

int schema_set(const struct schema *s, void *dst, const char *key, struct str text, struct arena *a,
               struct err *e)
{
    void *member = NULL;
    const struct field *f = schema_find(s, dst, key, &member);
    if (f && f->type != FIELD_REST) {
        struct field named = *f; /* so that a refusal says the full key */
        named.name = key;
        return field_parse(&named, member, text, a, e);
    }
    char name[128];
    struct buf b = {0};
    f = schema_near(s, key, name);
    buf_printf(&b, "unknown key \"%.*s\"", 60, key);
    if (f) {
        buf_printf(&b, "; did you mean \"%s\"?", name);
        add_help(f, &b);
    }
    err_code(e, EXIT_USAGE, "%s", b.p);
    buf_release(&b);
    return -1;
}

static bool is_given(struct strs given, const char *name)
{
    for (size_t i = 0; i < given.n; i++)
        if (str_eqz(given.v[i], name))
            return true;
    return false;
}

static int required_below(const struct schema *s, const char *prefix, struct strs given,
                          struct err *e)
{
    for (const struct field *f = s->fields; f->name; f++) {
        char full[128];
        snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "." : "", f->name);
        if (f->type == FIELD_STRUCT) {
            if (required_below(f->sub, full, given, e) != 0)
                return -1;
        } else if (f->type != FIELD_LIST && f->type != FIELD_REST && !f->def &&
                   !is_given(given, full)) {
            struct buf b = {0};
            buf_printf(&b, "\"%s\" is missing", full);
            add_help(f, &b);
            err_code(e, EXIT_USAGE, "%s", b.p);
            buf_release(&b);
            return -1;
        }
    }
    return 0;
}

int schema_required(const struct schema *s, struct strs given, struct err *e)
{
    return required_below(s, "", given, e);
}

static void canonical_below(const struct schema *s, const char *prefix, const void *src,
                            struct buf *out)
{
    for (const struct field *f = s->fields; f->name; f++) {
        const char *member = (const char *)src + f->at;
        char full[256];
        if ((f->flags & FIELD_VOLATILE) || f->type == FIELD_REST)
            continue;
        snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "." : "", f->name);
        if (f->type == FIELD_STRUCT) {
            canonical_below(f->sub, full, member, out);
        } else if (f->type == FIELD_LIST) {
            const struct list *l = (const struct list *)member;
            for (size_t i = 0; i < l->n; i++) {
                char one[288];
                snprintf(one, sizeof one, "%s.%zu", full, i);
                canonical_below(f->sub, one, (const char *)l->v + i * f->sub->size, out);
            }
        } else {
            buf_printf(out, "%s = ", full);
            if (f->type == FIELD_STR) {
                struct str v = *(const struct str *)member;
                for (size_t i = 0; i < v.n; i++) {
                    unsigned char c = (unsigned char)v.p[i];
                    buf_printf(out, c < 0x20 || c == 0x7F || c == '\\' ? "\\x%02x" : "%c", c);
                }
            } else {
                field_text(f, member, out);
            }
            buf_addc(out, '\n');
        }
    }
}

void schema_canonical(const struct schema *s, const void *src, struct buf *out)
{
    canonical_below(s, "", src, out);
}
