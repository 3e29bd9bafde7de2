/* compare_options: options in which runs differ, see compare_print.h. */
#include <string.h>

#include "pipelines/compare_print.h"
#include "pipelines/ledger.h"

static const char *z(struct arena *a, struct str s)
{
    return s.n ? str_dup(a, s) : "-";
}

/* Of many runs: each value once, with the runs that have it. */
static const char *value_groups(const struct comparison *c, const char *const *value,
                                struct arena *a)
{
    enum { NAMED = 4 };
    struct buf b = {0};
    for (size_t i = 0; i < c->nruns; i++) {
        size_t first = 0, n = 0;
        while (strcmp(value[first], value[i]) != 0)
            first++;
        if (first != i)
            continue;
        for (size_t k = i; k < c->nruns; k++)
            n += strcmp(value[k], value[i]) == 0;
        buf_printf(&b, "%s%s: ", b.n ? "; " : "", *value[i] ? value[i] : "(empty)");
        if (n > NAMED)
            buf_printf(&b, "%zu runs", n);
        for (size_t k = i, told = 0; n <= NAMED && k < c->nruns; k++)
            if (strcmp(value[k], value[i]) == 0)
                buf_printf(&b, "%s%.*s", told++ ? ", " : "", STR_ARG(c->run[k].run));
    }
    const char *s = arena_strdup(a, b.p);
    buf_release(&b);
    return s;
}

/* The values of one option; true if they differ. Of what could not be read none is known. */
static bool option_values(const struct comparison *c, size_t at, const struct field *k,
                          const char **value, struct arena *a)
{
    bool differs = false;
    const char *first = NULL;
    for (size_t i = 0; i < c->nruns; i++) {
        struct buf b = {0};
        if (ledger_unreadable(&c->run[i])) {
            value[i] = "?";
            continue;
        }
        field_text(k, (const char *)&c->run[i].config + at, &b);
        value[i] = arena_strdup(a, b.p ? b.p : "");
        buf_release(&b);
        first = first ? first : value[i];
        differs = differs || strcmp(value[i], first) != 0;
    }
    return differs;
}

/* Options in which the runs differ, by the run file's table. Names and prices are no options. */
void compare_options_differ(const struct comparison *c, enum table_format f, const char *in,
                            struct arena *a, struct buf *out)
{
    enum { COLUMNS = 6 };
    struct table t;
    bool many = c->nruns > COLUMNS;
    const char **cells = arena_array(a, c->nruns + 1, sizeof *cells), *two[2];
    table_begin(&t, many ? 2 : c->nruns + 1, "");
    two[0] = cells[0] = "option";
    two[1] = "values";
    for (size_t i = 0; i < c->nruns; i++)
        cells[i + 1] = z(a, c->run[i].run);
    table_row(&t, many ? two : cells);
    for (const struct field *s = run_schema.fields; s->name; s++) {
        if (strcmp(s->name, "run") == 0)
            continue;
        for (const struct field *k = s->sub->fields; k->name; k++) {
            if (strcmp(s->name, "data") == 0 && strcmp(k->name, "run") == 0)
                continue; /* where data were made, not what they are: hashes say that */
            if (!option_values(c, s->at + k->at, k, cells + 1, a))
                continue;
            two[0] = cells[0] = arena_printf(a, "%s.%s", s->name, k->name);
            two[1] = many ? value_groups(c, cells + 1, a) : NULL;
            table_row(&t, many ? two : cells);
        }
    }
    if (t.rows > 1) {
        buf_addz(out, f == TABLE_MD ? "\nOptions that differ:\n\n" : "\noptions that differ\n");
        table_write(&t, f, in, out);
    } else {
        buf_addz(out, "\nno option differs\n");
    }
    table_release(&t);
}
