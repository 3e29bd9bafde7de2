/* assay gate: exit 0 when every rule is met, 3 when one is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/log.h"
#include "pipelines/gate.h"
#include "pipelines/ledger.h"

enum { FORMAT_TABLE, FORMAT_MD, FORMAT_CSV, FORMAT_JSON };
static const char *const formats[] = {"table", "md", "csv", "json", NULL};
enum { UNDECIDED_FAIL, UNDECIDED_PASS };
static const char *const undecided[] = {"fail", "pass", NULL};

struct opt {
    struct strs results, baseline, rule;
    struct str rules;
    int64_t looks;
    int undecided, format;
};
static const struct field fields[] = {
    {.name = "results",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, results),
     .flags = FIELD_POSITIONAL,
     .help = "candidates: result files, run folders"},
    {.name = "baseline",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, baseline),
     .def = "",
     .help =
         "what they must hold against: a result or run folder; several are seeds of one recipe"},
    {.name = "rule",
     .type = FIELD_STRS,
     .at = offsetof(struct opt, rule),
     .def = "",
     .help = "e.g. \"bits_byte not_worse_by 0.01 at 95%\", or ... at 95% over seeds"},
    {.name = "rules",
     .type = FIELD_STR,
     .at = offsetof(struct opt, rules),
     .def = "",
     .help = "file of rules, one a line"},
    {.name = "looks",
     .type = FIELD_I64,
     .at = offsetof(struct opt, looks),
     .def = "0",
     .min = 0,
     .max = 100000,
     .help = "checkpoints that will be looked at in all; divides alpha; 0: those given"},
    {.name = "undecided",
     .type = FIELD_ENUM,
     .at = offsetof(struct opt, undecided),
     .def = "fail",
     .choices = undecided,
     .help = "what a rule counts as that the data cannot decide"},
    {.name = "format",
     .type = FIELD_ENUM,
     .at = offsetof(struct opt, format),
     .def = "table",
     .choices = formats,
     .help = "how to print"},
    {0},
};
static const struct schema options = {"gate", 1, sizeof(struct opt), fields};

static int take_rules(const struct opt *o, struct gate_rule **rules, size_t *n, struct arena *a,
                      struct err *e)
{
    struct gate_rule *file = NULL;
    size_t nfile = 0;
    if (o->rules.n && gate_rules_load(&file, &nfile, str_dup(a, o->rules), a, e) != 0)
        return -1;
    *rules = arena_array(a, nfile + o->rule.n + 1, sizeof **rules);
    for (*n = 0; *n < nfile; (*n)++)
        (*rules)[*n] = file[*n];
    for (size_t i = 0; i < o->rule.n; i++)
        if (gate_rule_parse(&(*rules)[(*n)++], o->rule.v[i], a, e) != 0)
            return -1;
    return *n ? 0 : err_code(e, EXIT_USAGE, "which rules? --rules FILE or --rule TEXT");
}

/* The first rule that was not met, and how many. */
static int verdict(const struct gate *g, bool undecided_passes, struct err *e)
{
    const struct gate_check *first = NULL;
    size_t bad = 0;
    for (size_t i = 0; i < g->n; i++) {
        const struct gate_check *k = &g->v[i];
        if (k->outcome == GATE_PASS || (k->outcome == GATE_UNDECIDED && undecided_passes))
            continue;
        first = first ? first : k;
        bad++;
    }
    if (!first)
        return EXIT_DONE;
    return err_code(e, EXIT_GATE, "%zu of %zu checks not met; %.*s: %.*s: %s: %s", bad, g->n,
                    STR_ARG(first->candidate), STR_ARG(first->rule->text),
                    gate_outcome_names[first->outcome], first->why);
}

/* A run held against itself passes whatever it is. */
static void warn_self(const struct ledger *base, const struct ledger *cand)
{
    for (size_t i = 0; i < cand->n; i++) {
        char *x = realpath(cand->path[i], NULL);
        for (size_t k = 0; x && k < base->n; k++) {
            char *y = realpath(base->path[k], NULL);
            if (y && strcmp(x, y) == 0)
                log_warn("%s is a baseline and a candidate: held against itself it passes whatever "
                         "it is",
                         cand->path[i]);
            free(y);
        }
        free(x);
    }
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct ledger base = {0}, cand = {0};
    struct gate g = {0};
    struct gate_rule *rules;
    struct buf out = {0};
    size_t n;
    int rc = -1;
    if (o->results.n == 0 || o->baseline.n == 0)
        return err_code(e, EXIT_USAGE, "want --baseline RESULT and at least one candidate");
    if (take_rules(o, &rules, &n, a, e) != 0 || ledger_load(&base, o->baseline, e) != 0 ||
        ledger_load(&cand, o->results, e) != 0)
        goto out;
    warn_self(&base, &cand);
    if (gate_run(&g, rules, n, base.v, base.n, cand.v, cand.n, o->looks, e) != 0)
        goto out;
    if (o->format == FORMAT_JSON) {
        struct json *j = gate_json(&g);
        json_write_pretty(j, &out);
        json_free(j);
    } else {
        gate_print(&g, (enum table_format)o->format, &out);
    }
    fwrite(out.p, 1, out.n, stdout);
    rc = verdict(&g, o->undecided == UNDECIDED_PASS, e);
out:
    buf_release(&out);
    gate_release(&g);
    ledger_release(&base);
    ledger_release(&cand);
    return rc;
}

const struct command cmd_gate = {
    .room = "pipelines",
    .name = "gate",
    .summary = "exit 0 when rules hold against a baseline, 3 when one does not",
    .details =
        "A rule is \"METRIC not_worse_by MARGIN at LEVEL\" (passes only when the worsening is "
        "shown\n"
        "to be below the margin) or \"METRIC not_significantly_worse at LEVEL\" (fails only when "
        "it\n"
        "is shown to be worse), with \"over seeds\" for recipes. Undecided is exit 3 unless\n"
        "--undecided=pass. docs/gate.md has CI examples.",
    .options = &options,
    .run = run,
};
