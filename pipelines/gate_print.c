/* gate_print: what a gate decided, for people and programs; see gate.h. */
#include <math.h>

#include "pipelines/gate.h"
#include "pipelines/runs_table.h"

const char *const gate_outcome_names[] = {"pass", "fail", "undecided", NULL};

const char *gate_number(struct arena *a, double v)
{
    return isnan(v) ? "unknown" : arena_printf(a, "%+.4g", v);
}

double gate_limit(const struct gate_check *k)
{
    return k->rule->kind == GATE_MARGIN ? k->margin : 0;
}

static void print_baseline(const struct gate *g, enum table_format f, struct buf *out)
{
    bool items = false, seeds = false;
    for (size_t i = 0; i < g->n; i++)
        *(g->v[i].rule->over == GATE_SEEDS ? &seeds : &items) = true;
    if (items)
        buf_printf(out, "against %.*s", STR_ARG(g->baseline.v[0]));
    for (size_t i = 0; seeds && i < g->baseline.n; i++)
        buf_printf(out, "%s%.*s",
                   i       ? ", "
                   : items ? "; over seeds against "
                           : "against ",
                   STR_ARG(g->baseline.v[i]));
    if (!seeds && g->baseline.n > 1)
        buf_printf(out, " alone: over items the first baseline counts, the other %zu do%s not",
                   g->baseline.n - 1, g->baseline.n == 2 ? "es" : "");
    buf_addz(out, f == TABLE_MD ? "\n\n" : "\n");
}

void gate_print(const struct gate *g, enum table_format f, struct buf *out)
{
    struct arena a = {0};
    struct table t;
    static const char *const head[] = {"gate",   "candidate", "rule", "worsening",
                                       "bounds", "limit",     "why"};
    if (f != TABLE_CSV)
        print_baseline(g, f, out);
    table_begin(&t, 7, "lllrlrl");
    table_row(&t, head);
    for (size_t i = 0; i < g->n; i++) {
        const struct gate_check *k = &g->v[i];
        const char *cells[] = {gate_outcome_names[k->outcome],
                               show_str(&a, k->candidate),
                               show_str(&a, k->rule->text),
                               isnan(k->worsening) ? "-" : gate_number(&a, k->worsening),
                               isnan(k->lo) ? "-"
                                            : arena_printf(&a, "[%s, %s]", gate_number(&a, k->lo),
                                                           gate_number(&a, k->hi)),
                               gate_number(&a, gate_limit(k)),
                               k->why};
        table_row(&t, cells);
    }
    table_write(&t, f, "", out);
    table_release(&t);
    arena_release(&a);
}

struct json *gate_json(const struct gate *g)
{
    struct json *o = json_arr();
    for (size_t i = 0; i < g->n; i++) {
        const struct gate_check *k = &g->v[i];
        struct json *j = json_obj();
        json_put(j, "gate", json_of_z(gate_outcome_names[k->outcome]));
        json_put(j, "candidate", json_of_str(k->candidate));
        json_put(j, "rule", json_of_str(k->rule->text));
        json_put(j, "worsening", json_of_num(k->worsening));
        json_put(j, "lo", json_of_num(k->lo));
        json_put(j, "hi", json_of_num(k->hi));
        json_put(j, "limit", json_of_num(gate_limit(k)));
        json_put(j, "alpha", json_of_num(k->alpha));
        json_put(j, "n", json_of_int(k->n));
        json_put(j, "needed", k->needed ? json_of_int(k->needed) : json_of_null());
        json_put(j, "why", json_of_z(k->why));
        json_push(o, j);
    }
    return o;
}
