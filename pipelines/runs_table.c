/* runs_table: see runs_table.h. */
#include "pipelines/runs_table.h"

#include <math.h>
#include <string.h>

#include "pipelines/ledger.h"
#include "pipelines/query.h"

const char *show_count(struct arena *a, double v)
{
    if (isnan(v))
        return "-";
    if (v >= 1e9)
        return arena_printf(a, "%.2fG", v / 1e9);
    if (v >= 1e6)
        return arena_printf(a, "%.2fM", v / 1e6);
    if (v >= 1e4)
        return arena_printf(a, "%.1fk", v / 1e3);
    return arena_printf(a, "%.0f", v);
}

const char *show_seconds(struct arena *a, double s)
{
    if (isnan(s))
        return "-";
    if (s >= 7200)
        return arena_printf(a, "%.1f h", s / 3600);
    return s >= 180 ? arena_printf(a, "%.1f min", s / 60) : arena_printf(a, "%.0f s", s);
}

const char *show_str(struct arena *a, struct str s)
{
    return s.n ? str_dup(a, s) : "-";
}

const char *show_cost(struct arena *a, double v, const struct result *r)
{
    if (isnan(v))
        return "-";
    struct str c = r->hardware.price_currency;
    return arena_printf(a, "%.2f%s%.*s", v, c.n ? " " : "", STR_ARG(c));
}

const char *show_p(struct arena *a, double p)
{
    return isnan(p) ? "-" : p < 0.0001 ? "<0.0001" : arena_printf(a, "%.4f", p);
}

const char *show_machine(struct arena *a, const struct result *r)
{
    return show_str(a, r->hardware.name.n ? r->hardware.name : r->hardware.cpu);
}

struct strs listed_names(struct strs words, struct arena *a)
{
    struct strs out = {0};
    for (size_t i = 0; i < words.n; i++)
        for (struct str rest = words.v[i]; rest.n;) {
            struct str one = str_trim(str_cut(&rest, ','));
            if (one.n)
                strs_push(&out, one, a);
        }
    return out;
}

void runs_table(const struct result *v, size_t n, enum table_format f, const char *indent,
                struct buf *out)
{
    static const char *const head[] = {"run",   "group", "seed", "params",  "tokens", "steps",
                                       "train", "tok/s", "cost", "machine", "commit", "status"};
    static const char *const fields[] = {"group",
                                         "seed",
                                         "parameters",
                                         "tokens",
                                         "steps",
                                         "timing.train_seconds",
                                         "timing.tokens_per_second",
                                         "cost_train",
                                         "hardware.price_currency",
                                         "hardware.name",
                                         "software.commit",
                                         "status"};
    struct arena arena = {0}, *a = &arena;
    struct table t;
    if (f == TABLE_CSV) { /* for programs: numbers as they are, under the names of their fields */
        struct strs columns = {0};
        struct err none;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            strs_push(&columns, str_z(fields[i]), a);
        runs_table_columns(v, n, columns, -1, f, indent, out, &none); /* these fields are there */
        arena_release(a);
        return;
    }
    table_begin(&t, 12, "llrrrrrrrlll");
    table_row(&t, head);
    for (size_t i = 0; i < n; i++) {
        const struct result *r = &v[i];
        bool known = !ledger_unreadable(r);
        struct str commit = r->software.commit;
        commit.n = commit.n > 8 ? 8 : commit.n;
        const char *cells[] = {
            show_str(a, r->run),
            show_str(a, r->group),
            known ? arena_printf(a, "%lld", (long long)r->seed) : "-",
            r->parameters > 0 ? show_count(a, (double)r->parameters) : "-",
            known ? show_count(a, (double)r->tokens) : "-",
            known ? arena_printf(a, "%lld", (long long)r->steps) : "-",
            show_seconds(a, r->timing.train_seconds),
            show_count(a, r->timing.tokens_per_second),
            show_cost(a, r->cost_train, r),
            show_machine(a, r),
            arena_printf(a, "%s%s", show_str(a, commit), r->software.dirty == 1 ? "+" : ""),
            show_str(a, r->status)};
        table_row(&t, cells);
    }
    table_write(&t, f, indent, out);
    table_release(&t);
    arena_release(a);
}

static bool is_real(const struct query_field *f)
{
    return !f->row || f->row->type == FIELD_F64;
}

static bool is_number(const struct query_field *f)
{
    return is_real(f) || f->row->type == FIELD_I64;
}

static const char *cell(const struct query_field *f, const struct result *r, int digits, bool full,
                        struct arena *a)
{
    struct query_value v = query_value(f, r, a);
    if (!v.known)
        return full ? "" : "-";
    if (!is_real(f) || full)
        return v.text;
    return digits >= 0 ? arena_printf(a, "%.*f", digits, v.num) : arena_printf(a, "%.4g", v.num);
}

/* The run's name stands first anyway. */
static struct strs without_name(struct strs columns, struct arena *a)
{
    struct strs out = {0};
    for (size_t i = 0; i < columns.n; i++)
        if (!str_eqz(columns.v[i], "run"))
            strs_push(&out, columns.v[i], a);
    return out;
}

static int fields_of(const struct result *v, size_t n, struct strs columns,
                     struct query_field **out, struct arena *a, struct err *e)
{
    *out = arena_array(a, columns.n + 1, sizeof **out);
    for (size_t k = 0; k < columns.n; k++)
        if (query_field(&(*out)[k], columns.v[k], v, n, a, e) != 0)
            return err_wrap(e, "column");
    return 0;
}

int runs_table_columns(const struct result *v, size_t n, struct strs columns, int digits,
                       enum table_format f, const char *indent, struct buf *out, struct err *e)
{
    struct arena a = {0};
    struct query_field *field;
    struct table t;
    columns = without_name(columns, &a);
    int rc = fields_of(v, n, columns, &field, &a, e);
    if (rc == 0) {
        char *align = arena_alloc(&a, columns.n + 2);
        const char **cells = arena_array(&a, columns.n + 1, sizeof *cells);
        table_begin(&t, columns.n + 1, align);
        align[0] = 'l';
        cells[0] = "run";
        for (size_t k = 0; k < columns.n; k++) {
            align[k + 1] = is_number(&field[k]) ? 'r' : 'l';
            cells[k + 1] = field[k].name;
        }
        table_row(&t, cells);
        for (size_t i = 0; i < n; i++) {
            cells[0] = show_str(&a, v[i].run);
            for (size_t k = 0; k < columns.n; k++)
                cells[k + 1] = cell(&field[k], &v[i], digits, f == TABLE_CSV, &a);
            table_row(&t, cells);
        }
        table_write(&t, f, indent, out);
        table_release(&t);
    }
    arena_release(&a);
    return rc;
}

int runs_json(const struct result *v, size_t n, struct strs columns, struct json **out,
              struct err *e)
{
    struct arena a = {0};
    struct query_field *field;
    int rc = fields_of(v, n, columns, &field, &a, e);
    *out = rc == 0 ? json_arr() : NULL;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct json *o = json_obj();
        if (columns.n == 0) {
            json_free(o);
            o = json_of_struct(&result_schema, &v[i], false);
        }
        json_put(o, "run", json_of_str(v[i].run));
        for (size_t k = 0; k < columns.n; k++) {
            struct query_value x = query_value(&field[k], &v[i], &a);
            json_put(o, field[k].name,
                     !x.known               ? json_of_null()
                     : is_real(&field[k])   ? json_of_num(x.num)
                     : is_number(&field[k]) ? json_of_int((int64_t)x.num)
                                            : json_of_z(x.text));
        }
        json_push(*out, o);
    }
    arena_release(&a);
    return rc;
}
