/* config: run, hardware and task files through inih, see config.h. This is its only includer.
 *
 * inih is compiled by the distribution: lines are cut at INI_MAX_LINE (200 bytes in Debian's),
 * indented lines continue the one before, and a section is not reported before its first key. So the
 * reader hands it one prepared line at a time: too long a line is refused instead of cut, an
 * indented line is a line of its own, and section headers are checked here.
 */
#include "base/config.h"

#include <ini.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define DEPTH_MAX 8
#define FILE_MAX  (1u << 20)

/* What is shared by a file and those that it includes. */
struct target {
    const struct schema *s;
    void *dst;
    struct arena *a;
    struct strs given; /* full keys that any file or --set has set */
    struct err *e;
    bool failed;
};

struct source {
    struct target *t;
    const char *name; /* for sentences */
    const char *dir;  /* of includes; NULL: not a file, so none */
    struct str rest;  /* text that inih has not seen */
    int line;         /* of the line that inih sees */
    int depth;
    bool in_section;
    struct strs seen; /* keys of this file, to refuse a second */
};

static int load_file(struct target *t, const char *path, int depth);

/* Puts file and line before the sentence. Returns 0, which stops inih's handler. */
static int fail(struct source *f)
{
    err_wrap(f->t->e, "%s:%d", f->name, f->line);
    f->t->failed = true;
    return 0;
}

static bool has(struct strs list, const char *key)
{
    for (size_t i = 0; i < list.n; i++)
        if (str_eqz(list.v[i], key))
            return true;
    return false;
}

/* ---- sections ------------------------------------------------------------------------------- */

static const char *near_section(const struct schema *s, const char *name)
{
    const char *near = NULL;
    int best = 3;
    for (const struct field *f = s->fields; f->name; f++) {
        int d = f->type == FIELD_STRUCT ? str_distance(name, f->name) : best;
        if (d < best) {
            best = d;
            near = f->name;
        }
    }
    return near;
}

/* A line "[name]": the schema must have it. */
static int check_section(struct source *f, struct str line)
{
    const struct schema *s = f->t->s;
    ptrdiff_t close = str_find(line, STR_LIT("]"));
    if (close < 0) {
        err_code(f->t->e, EXIT_USAGE, "a section is written [name], the ] is missing");
        fail(f);
        return -1;
    }
    const char *name = arena_bytes(f->t->a, line.p + 1, (size_t)close - 1);
    const struct field *row = schema_find(s, NULL, name, NULL);
    f->in_section = true;
    if (row && row->type == FIELD_STRUCT)
        return 0;
    const char *near = near_section(s, name);
    err_code(f->t->e, EXIT_USAGE, "unknown section [%.60s]%s%s%s", name,
             near ? "; did you mean [" : "", near ? near : "", near ? "]?" : "");
    fail(f);
    return -1;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* inih's reader, as fgets: the next line into to[0..room), NULL at the end or after a failure. */
static char *next_line(char *to, int room, void *ctx)
{
    struct source *f = ctx;
    if (f->t->failed || f->rest.n == 0)
        return NULL;
    f->line++;
    struct str line = str_trim(str_cut(&f->rest, '\n'));
    bool comment = line.n && (line.p[0] == ';' || line.p[0] == '#');
    if (comment)
        line.n = 0;
    if (line.n && memchr(line.p, 0, line.n)) {
        err_code(f->t->e, EXIT_USAGE, "the line holds a NUL byte");
        fail(f);
        return NULL;
    }
    if (line.n + 2 > (size_t)room) {
        err_code(f->t->e, EXIT_USAGE,
                 "the line has %zu bytes, at most %d are read; use --set for a longer value",
                 line.n, room - 2);
        fail(f);
        return NULL;
    }
    if (line.n && line.p[0] == '[' && check_section(f, line) != 0)
        return NULL;
    if (line.n)
        memcpy(to, line.p, line.n);
    to[line.n] = '\n';
    to[line.n + 1] = 0;
    return to;
}

static int include(struct source *f, const char *value)
{
    if (f->in_section || f->seen.n)
        err_code(f->t->e, EXIT_USAGE, "include must stand before every section and key");
    else if (!f->dir)
        err_code(f->t->e, EXIT_USAGE, "include works in a file only");
    else if (strchr(value, '/') || !*value)
        err_code(f->t->e, EXIT_USAGE,
                 "include takes the name of a file in the same folder, got \"%.60s\"", value);
    else if (f->depth + 1 >= DEPTH_MAX)
        err_code(f->t->e, EXIT_USAGE,
                 "includes are nested deeper than %d; does a file include itself?", DEPTH_MAX);
    else if (load_file(f->t, path_join(f->t->a, f->dir, value), f->depth + 1) == 0)
        return 1;
    return fail(f);
}

/* inih's handler: 1 goes on, 0 is an error. */
static int on_key(void *ctx, const char *section, const char *name, const char *value)
{
    struct source *f = ctx;
    struct target *t = f->t;
    if (t->failed)
        return 0;
    if (!f->in_section && strcmp(name, "include") == 0)
        return include(f, value);
    const char *key =
        f->in_section ? arena_printf(t->a, "%s.%s", section, name) : arena_strdup(t->a, name);
    if (has(f->seen, key)) {
        err_code(t->e, EXIT_USAGE, "\"%s\" is set twice in this file", key);
        return fail(f);
    }
    if (schema_set(t->s, t->dst, key, str_z(value), t->a, t->e) != 0)
        return fail(f);
    strs_push(&f->seen, str_z(key), t->a);
    if (!has(t->given, key))
        strs_push(&t->given, str_z(key), t->a);
    return 1;
}

/* ---- whole files ---------------------------------------------------------------------------- */

static int load_text(struct target *t, const char *name, const char *dir, struct str text,
                     int depth)
{
    struct source f = {.t = t, .name = name, .dir = dir, .rest = text, .depth = depth};
    if (str_starts(text, "\xEF\xBB\xBF"))
        f.rest = (struct str){text.p + 3, text.n - 3};
    int bad = ini_parse_stream(next_line, &f, on_key, &f);
    if (t->failed)
        return -1;
    if (bad < 0)
        mem_alloc(SIZE_MAX);
    if (bad > 0) {
        err_code(t->e, EXIT_USAGE, "%s:%d: want [section] or key = value", name, bad);
        t->failed = true;
        return -1;
    }
    return 0;
}

static int load_file(struct target *t, const char *path, int depth)
{
    struct buf b = {0};
    int rc = -1;
    if (file_read(path, &b, FILE_MAX, t->e) != 0)
        t->failed = true;
    else
        rc = load_text(t, path, path_dir(t->a, path), buf_str(&b), depth);
    buf_release(&b);
    return rc;
}

static int apply_set(struct target *t, struct str set)
{
    struct str value = set, key = str_trim(str_cut(&value, '='));
    if (key.n == set.n || key.n == 0)
        return err_code(t->e, EXIT_USAGE, "--set takes section.key=value, got \"%.60s\"",
                        str_dup(t->a, set));
    const char *name = str_dup(t->a, key);
    if (schema_set(t->s, t->dst, name, str_trim(value), t->a, t->e) != 0)
        return err_wrap(t->e, "--set");
    strs_push(&t->given, str_z(name), t->a);
    return 0;
}

int config_load(const struct schema *s, void *dst, const char *path, struct strs sets,
                struct arena *a, struct err *e)
{
    struct target t = {.s = s, .dst = dst, .a = a, .e = e};
    if (schema_defaults(s, dst, a, e) != 0 || load_file(&t, path, 0) != 0)
        return -1;
    if (!t.given.n) /* a cut or forgotten file, not a wish for all defaults */
        return err_set(e, "%s: holds no key", path);
    for (size_t i = 0; i < sets.n; i++)
        if (apply_set(&t, sets.v[i]) != 0)
            return -1;
    return schema_required(s, t.given, e) == 0 ? 0 : err_wrap(e, "%s", path);
}

int config_parse(const struct schema *s, void *dst, const char *name, struct str text,
                 struct arena *a, struct err *e)
{
    struct target t = {.s = s, .dst = dst, .a = a, .e = e};
    if (schema_defaults(s, dst, a, e) != 0 || load_text(&t, name, NULL, text, 0) != 0)
        return -1;
    return schema_required(s, t.given, e) == 0 ? 0 : err_wrap(e, "%s", name);
}
