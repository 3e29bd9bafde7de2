/* task: see formats/task.h. */
#include "formats/task.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/stream.h"
#include "formats/constraint.h"
#include "formats/index.h"

#define MAX_LINE ((size_t)64 << 20)

static const char *const kinds[] = {"choice", "generate", NULL};
static const char *const encodings[] = {"joined", "apart", NULL};

#define AT(m) offsetof(struct task, m)
static const struct field task_fields[] = {
    {"title", FIELD_STR, AT(title), "", .help = "what it is"},
    {"source", FIELD_STR, AT(source), "", .help = "where the rows come from"},
    {"kind", FIELD_ENUM, AT(kind), "choice", .choices = kinds, .help = "choice or generate"},
    {"prompt", FIELD_STR, AT(prompt), "", .help = "template of what stands before the choices"},
    {"clean", FIELD_STR, AT(clean), "", .help = "filters over the whole prompt, or each context"},
    {"contexts", FIELD_STRS, AT(contexts), "", .help = "templates: what stands before each choice"},
    {"choices", FIELD_STRS, AT(choices), "", .help = "templates of the choices, or a list"},
    {"gold", FIELD_STR, AT(gold), "",
     .help = "template: index of the right choice, its label or its text"},
    {"labels", FIELD_STRS, AT(labels), "", .help = "templates of the labels that gold names"},
    {"gold_base", FIELD_I64, AT(gold_base), "0", 0, 1, .help = "what the first index is"},
    {"answer", FIELD_STR, AT(answer), "", .help = "generate: template of the right answer"},
    {"delimiter", FIELD_STR, AT(delimiter), "\\s", .help = "template: between context and choice"},
    {"encoding", FIELD_ENUM, AT(encoding), "joined", .choices = encodings,
     .help = "joined: encoded as one text (lm-eval); apart: each alone (llm.c)"},
    {"metric", FIELD_STR, AT(metric), "acc", .help = "the metric that is published for it"},
    {"id", FIELD_STR, AT(id), "", .help = "template of the item's id; empty: the row's number"},
    {"cluster", FIELD_STR, AT(cluster), "", .help = "template: items that share a source"},
    {"description", FIELD_STR, AT(description), "", .help = "text before the shots"},
    {"shot_separator", FIELD_STR, AT(shot_separator), "\\n\\n", .help = "text between shots"},
    {"constraints", FIELD_STRS, AT(constraints), "",
     .help = "generate: checkable instructions for every item, ids or JSON objects"},
    {0},
};
#undef AT
const struct schema task_schema = {"task", 1, sizeof(struct task), task_fields};

/* ---- finding and checking ------------------------------------------------------------------- */

static const char *find(const char *name, struct arena *a)
{
    static const char *const places[] = {"tasks", "../tasks", "../pipelines/tasks",
                                         "../../pipelines/tasks", NULL};
    char self[4096];
    if (file_exists(name) || strchr(name, '/'))
        return name;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    for (int i = 0; places[i]; i++) {
        const char *p = path_join(a, path_join(a, path_dir(a, self), places[i]),
                                  arena_printf(a, "%s.ini", name));
        if (file_exists(p))
            return p;
    }
    return NULL;
}

static int syntax(struct str s, const char *key, struct err *e)
{
    return template_syntax(s, e) ? err_wrap(e, "%s", key) : 0;
}

static int syntax_all(struct strs s, const char *key, struct err *e)
{
    for (size_t i = 0; i < s.n; i++)
        if (syntax(s.v[i], key, e))
            return -1;
    return 0;
}

/* One continuation is right or wrong by itself; the others rank several. */
static bool takes_one(struct str metric)
{
    return str_eqz(metric, "acc_greedy") || str_eqz(metric, "nats_answer");
}

static int check_metric(struct str metric, struct err *e)
{
    static const char *const names[] = {"acc", "acc_norm_char", "acc_norm_byte", "acc_norm_token",
                                        NULL};
    for (const char *const *n = names; *n; n++)
        if (str_eqz(metric, *n))
            return 0;
    if (takes_one(metric))
        return 0;
    return err_code(e, EXIT_USAGE,
                    "metric = %.*s is none of a choice task's: acc, acc_norm_char, acc_norm_byte, "
                    "acc_norm_token, acc_greedy, nats_answer",
                    STR_ARG(metric));
}

bool task_has_gold(const struct task *t)
{
    return t->gold.n || (takes_one(t->metric) && t->choices.n == 1);
}

static int check(struct task *t, struct arena *a, struct err *e)
{
    bool choice = t->kind == TASK_KIND_CHOICE;
    if (choice && !t->choices.n)
        return err_code(e, EXIT_USAGE, "a choice task needs choices");
    if (choice && check_metric(t->metric, e))
        return -1;
    if (!choice && !t->prompt.n)
        return err_code(e, EXIT_USAGE, "a generate task needs a prompt");
    if (t->prompt.n && t->contexts.n)
        return err_code(e, EXIT_USAGE, "either prompt or contexts, not both");
    for (size_t i = 0; i < t->constraints.n; i++)
        if (constraint_of_text(t->constraints.v[i], a, &t->constraints.v[i], e))
            return err_wrap(e, "constraints");
    return syntax(t->prompt, "prompt", e) || syntax_all(t->contexts, "contexts", e) ||
                   syntax_all(t->choices, "choices", e) || syntax(t->gold, "gold", e) ||
                   syntax_all(t->labels, "labels", e) || syntax(t->answer, "answer", e) ||
                   syntax(t->id, "id", e) || template_filters(t->clean, e) ||
                   syntax(t->cluster, "cluster", e) || syntax(t->delimiter, "delimiter", e)
               ? -1
               : 0;
}

/* Texts that are no templates still have escapes. */
static int plain(struct str *s, struct arena *a, struct err *e)
{
    return template_text(*s, NULL, a, s, e);
}

int task_load(struct task *t, const char *name, struct arena *a, struct err *e)
{
    static const struct field file_fields[] = {
        {"task", FIELD_STRUCT, 0, "", .sub = &task_schema, .help = "one task"},
        {0},
    };
    static const struct schema file = {"task file", 1, sizeof(struct task), file_fields};
    struct buf text = {0};
    const char *path = find(name, a);
    if (!path)
        return err_code(e, EXIT_USAGE, "task \"%s\": neither a task file nor a task of the tool",
                        name);
    if (config_load(&file, t, path, (struct strs){0}, a, e))
        return -1;
    schema_canonical(&task_schema, t, &text);
    sha256_hex(buf_str(&text), t->hash);
    buf_release(&text);
    t->path = path;
    struct str base = str_z(path_base(path));
    if (str_ends(base, ".ini"))
        base.n -= 4;
    t->name = str_dup(a, base);
    if (check(t, a, e) || plain(&t->description, a, e) || plain(&t->shot_separator, a, e))
        return err_wrap(e, "%s", path);
    return 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int64_t find_text(struct strs of, struct str s)
{
    int64_t k = 0;
    while (k < (int64_t)of.n && !str_eq(str_trim(of.v[k]), s))
        k++;
    return k;
}

/* Without labels: a number is an index, any other text the choice itself, as lm-evaluation-harness
 * takes its targets. A text of digits may be either (data sets write indices as texts): refused, where
 * one reading is as good as the other. */
static int bare_gold(const struct task *t, const struct json *row, const struct item *it,
                     struct str gold, int64_t *k, struct err *e)
{
    int64_t n = (int64_t)it->choices.n, index = -1, named = n;
    bool number = str_i64(gold, &index) == 0;
    index = number ? index - t->gold_base : -1;
    if (!number || template_text_only(t->gold, row))
        named = find_text(it->choices, gold);
    *k = named < n ? named : index;
    if (named < n && index >= 0 && index < n && index != named)
        return err_set(e,
                       "gold \"%.*s\" is the text of choice %lld and the index of choice %lld: "
                       "write an index as a number, or give the task labels like its choices",
                       STR_ARG(gold), (long long)named, (long long)index);
    return 0;
}

/* Index of the right choice; no gold template: unknown. */
static int gold_of(const struct task *t, const struct json *row, struct item *it, struct arena *a,
                   struct err *e)
{
    struct str gold;
    struct strs labels;
    int64_t k = 0;
    if (!t->gold.n)
        return 0;
    if (template_text(t->gold, row, a, &gold, e) || template_list(t->labels, row, a, &labels, e))
        return -1;
    gold = str_trim(gold);
    if (labels.n) {
        k = find_text(labels, gold);
        if (k == (int64_t)labels.n)
            return err_set(e, "gold \"%.*s\" is none of the %zu labels", STR_ARG(gold), labels.n);
    } else if (bare_gold(t, row, it, gold, &k, e)) {
        return -1;
    }
    if (k < 0 || k >= (int64_t)it->choices.n)
        return err_set(e, "gold \"%.*s\" is none of %zu choices", STR_ARG(gold), it->choices.n);
    it->gold = k;
    it->reference = it->choices.v[k];
    return 0;
}

static int choice_row(const struct task *t, const struct json *row, struct item *it,
                      struct arena *a, struct err *e)
{
    if (template_list(t->choices, row, a, &it->choices, e))
        return err_wrap(e, "choices");
    if (t->contexts.n) {
        if (template_list(t->contexts, row, a, &it->contexts, e))
            return err_wrap(e, "contexts");
        if (it->choices.n == 1) { /* one continuation behind each context */
            struct str one = it->choices.v[0];
            it->choices.n = it->contexts.n;
            it->choices.v = arena_array(a, it->contexts.n, sizeof one);
            for (size_t i = 0; i < it->choices.n; i++)
                it->choices.v[i] = one;
        }
        if (it->contexts.n != it->choices.n)
            return err_set(e, "%zu contexts for %zu choices", it->contexts.n, it->choices.n);
    } else {
        it->contexts = (struct strs){arena_array(a, 1, sizeof(struct str)), 1};
        if (template_text(t->prompt, row, a, &it->contexts.v[0], e))
            return err_wrap(e, "prompt");
    }
    if (!it->choices.n)
        return err_set(e, "it has no choices");
    if (it->choices.n == 1 && !takes_one(t->metric))
        return err_set(e,
                       "it has one choice, \"%.*s\": %.*s wants two or more to choose from (is "
                       "choices a list?)",
                       STR_ARG(it->choices.v[0]), STR_ARG(t->metric));
    if (it->choices.n > 1 && !t->gold.n && takes_one(t->metric))
        return err_set(e, "it has %zu choices and the task no gold: %.*s is that of the right one",
                       it->choices.n, STR_ARG(t->metric));
    for (size_t i = 0; i < it->contexts.n; i++)
        if (template_filter(it->contexts.v[i], t->clean, a, &it->contexts.v[i], e))
            return err_wrap(e, "clean");
    if (template_text(t->delimiter, row, a, &it->delimiter, e))
        return err_wrap(e, "delimiter");
    it->instruction = it->contexts.v[0];
    return gold_of(t, row, it, a, e);
}

/* Those of the task, then the row's own where it has IFEval's fields. */
static int add_constraints(const struct task *t, const struct json *row, struct item *it,
                           struct arena *a, struct err *e)
{
    struct item own = {0};
    if (t->kind == TASK_KIND_GENERATE && json_get(row, "instruction_id_list") &&
        constraints_row(row, &own, a, e))
        return -1;
    it->constraints.n = t->constraints.n + own.constraints.n;
    it->constraints.v = arena_array(a, it->constraints.n + 1, sizeof *it->constraints.v);
    for (size_t i = 0; i < t->constraints.n; i++)
        it->constraints.v[i] = str_copy(a, t->constraints.v[i]);
    for (size_t i = 0; i < own.constraints.n; i++)
        it->constraints.v[t->constraints.n + i] = own.constraints.v[i];
    return 0;
}

static int row_item(const struct task *t, const struct json *row, struct items *x, size_t *cap,
                    struct err *e)
{
    struct arena *a = &x->arena;
    if (json_kind(row) != JSON_OBJ)
        return err_set(e, "not a JSON object");
    if (x->n == *cap)
        x->v = mem_grow(x->v, (*cap = *cap ? 2 * *cap : 256) * sizeof *x->v);
    struct item *it = &x->v[x->n];
    *it = (struct item){.gold = FIELD_NONE_I64, .task = str_z(arena_strdup(a, t->name))};
    if ((t->id.n && template_text(t->id, row, a, &it->id, e)) ||
        (t->cluster.n && template_text(t->cluster, row, a, &it->cluster, e)))
        return -1;
    if (!t->id.n)
        it->id = str_printf(a, "%zu", x->n);
    if (t->kind == TASK_KIND_CHOICE) {
        if (choice_row(t, row, it, a, e))
            return -1;
    } else if (template_text(t->prompt, row, a, &it->instruction, e) ||
               (t->answer.n && template_text(t->answer, row, a, &it->reference, e))) {
        return -1;
    }
    if (add_constraints(t, row, it, a, e))
        return -1;
    x->n++;
    return 0;
}

static int load_jsonl(const struct task *t, const char *path, struct items *x, struct err *e)
{
    struct buf line = {0};
    size_t cap = 0;
    int got = -1;
    struct stream *s = stream_open(path, e);
    if (!s)
        return -1;
    while ((got = stream_line(s, &line, MAX_LINE, e)) > 0) {
        struct str text = str_trim(buf_str(&line));
        if (!text.n)
            continue;
        struct json *row = json_parse_lone(text, e);
        if (!row || row_item(t, row, x, &cap, e))
            got = err_wrap(e, "%s:%lld", path, (long long)stream_lineno(s));
        json_free(row);
        if (got < 0)
            break;
    }
    buf_release(&line);
    stream_close(s);
    return got;
}

static int load_json(const struct task *t, const char *path, struct items *x, struct err *e)
{
    struct json *doc = json_read(path, e);
    size_t cap = 0;
    int rc = doc ? 0 : -1;
    if (doc && json_kind(doc) != JSON_ARR)
        rc = err_set(e, "%s: not a JSON array of rows", path);
    for (size_t i = 0; !rc && i < json_size(doc); i++)
        if (row_item(t, json_at(doc, i), x, &cap, e))
            rc = err_wrap(e, "%s: row %zu", path, i + 1);
    json_free(doc);
    return rc;
}

int task_items(const struct task *t, const char *path, struct items *x, struct err *e)
{
    struct index seen = {0};
    *x = (struct items){0};
    int rc = str_ends(str_z(path), ".json") ? load_json(t, path, x, e) : load_jsonl(t, path, x, e);
    if (!rc && !x->n)
        rc = err_set(e, "%s: no row in it", path);
    for (size_t i = 0; !rc && i < x->n; i++) {
        size_t other = index_add(&seen, x->v[i].id, i);
        if (other != INDEX_NONE)
            rc = err_set(e, "%s: rows %zu and %zu share the id \"%.*s\"", path, other + 1, i + 1,
                         STR_ARG(x->v[i].id));
    }
    index_release(&seen);
    if (rc)
        items_release(x);
    return rc;
}
