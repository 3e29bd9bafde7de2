/* item: the tables of items, responses and scores, and reading whole files of them. */
#include "formats/item.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/stream.h"
#include "formats/constraint.h"
#include "formats/record.h"

#define MAX_LINE ((size_t)64 << 20)

const char *const grade_names[] = {"right", "reworded", "padded", "wrong", "empty", NULL};
const char *const outcome_names[] = {"scored",           "parse_failed", "refused", "truncated",
                                     "transport_failed", "not_run",      NULL};
const char *const finish_names[] = {"stop", "length", "filter", "error", NULL};

#define AT(m) offsetof(struct item, m)
static const struct field item_fields[] = {
    {"id", FIELD_STR, AT(id), NULL, .help = "unique in a file"},
    {"task", FIELD_STR, AT(task), "instruct", .help = "what is asked"},
    {"instruction", FIELD_STR, AT(instruction), NULL, .help = "the question or order"},
    {"input", FIELD_STR, AT(input), "", .help = "what it is about"},
    {"output", FIELD_STR, AT(reference), "", .help = "the right answer"},
    {"cluster", FIELD_STR, AT(cluster), "", .help = "items that share a source; empty: itself"},
    {"split", FIELD_STR, AT(split), "", .help = "train, val, test or empty"},
    {"choices", FIELD_STRS, AT(choices), "", .help = "answers to choose from"},
    {"graded", FIELD_STRS, AT(graded), "", .help = "answers of known quality, best first"},
    {"contexts", FIELD_STRS, AT(contexts), "", .help = "text before the choices, or before each"},
    {"delimiter", FIELD_STR, AT(delimiter), "", .help = "text between context and choice"},
    {"gold", FIELD_I64, AT(gold), "", .help = "index of the right choice"},
    {"constraints", FIELD_STRS, AT(constraints), "", .help = "checkable instructions, JSON texts"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema item_schema = {"item", 1, sizeof(struct item), item_fields};

#define AT(m) offsetof(struct response, m)
static const struct field response_fields[] = {
    {"item", FIELD_STR, AT(item), NULL, .help = "id of the item"},
    {"model", FIELD_STR, AT(model), "", .help = "who answered"},
    {"text", FIELD_STR, AT(text), "", .help = "the answer"},
    {"finish", FIELD_ENUM, AT(finish), "stop", .choices = finish_names, .help = "why it ends"},
    {"detail", FIELD_STR, AT(detail), "", .help = "of an error: what happened"},
    {"tokens_in", FIELD_I64, AT(tokens_in), "", .help = "tokens of the prompt"},
    {"tokens_out", FIELD_I64, AT(tokens_out), "", .help = "tokens of the answer"},
    {"ms", FIELD_F64, AT(ms), "", .help = "time taken, milliseconds", .flags = FIELD_VOLATILE},
    {"choice_logprob", FIELD_F64S, AT(choice_logprob), "",
     .help = "log probability of each choice, nats"},
    {"choice_tokens", FIELD_I64S, AT(choice_tokens), "", .help = "tokens of each choice"},
    {"choice_greedy", FIELD_I64S, AT(choice_greedy), "",
     .help = "1 where every token of the choice was the likeliest"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema response_schema = {"response", 1, sizeof(struct response), response_fields};

#define AT(m) offsetof(struct score, m)
static const struct field score_fields[] = {
    {"item", FIELD_STR, AT(item), NULL, .help = "id of the item"},
    {"scorer", FIELD_STR, AT(scorer), "", .help = "who scored"},
    {"cluster", FIELD_STR, AT(cluster), "", .help = "cluster of the item; empty: itself"},
    {"value", FIELD_F64, AT(value), "", .help = "the score; absent unless the outcome is scored"},
    {"weight", FIELD_F64, AT(weight), "", .help = "of this value in the mean; absent: 1"},
    {"outcome", FIELD_ENUM, AT(outcome), "scored", .choices = outcome_names,
     .help = "whether there is a score, or why not"},
    {"detail", FIELD_STR, AT(detail), "", .help = "what was matched, or why not"},
    {"judge", FIELD_STR, AT(judge), "", .help = "judges: identity served"},
    {"key", FIELD_STR, AT(key), "", .help = "judges: SHA-256 of all that was asked"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema score_schema = {"score", 1, sizeof(struct score), score_fields};

double score_weight(const struct score *s)
{
    return s->weight > 0 ? s->weight : 1;
}

/* ---- items ---------------------------------------------------------------------------------- */

/* obj.key as a string in the arena; absent or null: empty. */
static int row_str(const struct json *row, const char *key, struct arena *a, struct str *out,
                   struct err *e)
{
    const struct json *v = json_get(row, key);
    *out = (struct str){0};
    if (json_kind(v) == JSON_NULL)
        return 0;
    if (json_kind(v) != JSON_STR)
        return err_set(e, "\"%s\" is not a string", key);
    *out = str_copy(a, json_str(v));
    return 0;
}

static int row_strs(const struct json *row, const char *key, struct arena *a, struct strs *out,
                    struct err *e)
{
    const struct json *v = json_get(row, key);
    *out = (struct strs){0};
    if (json_kind(v) == JSON_NULL)
        return 0;
    if (json_kind(v) != JSON_ARR)
        return err_set(e, "\"%s\" is not an array of strings", key);
    out->n = json_size(v);
    out->v = arena_array(a, out->n, sizeof *out->v);
    for (size_t i = 0; i < out->n; i++) {
        if (json_kind(json_at(v, i)) != JSON_STR)
            return err_set(e, "\"%s\"[%zu] is not a string", key, i);
        out->v[i] = str_copy(a, json_str(json_at(v, i)));
    }
    return 0;
}

/* One JSON row. Keys that an item does not know (other data sets have many) are left alone. */
static int item_of_json(const struct json *row, struct item *it, struct arena *a, struct err *e)
{
    struct str need;
    if (json_kind(row) != JSON_OBJ)
        return err_set(e, "not a JSON object");
    *it = (struct item){.gold = FIELD_NONE_I64};
    if (json_get(row, "instruction_id_list"))
        return constraints_row(row, it, a, e);
    if (json_need_str(row, "instruction", &need, e) || json_need_str(row, "output", &need, e))
        return -1;
    if (row_str(row, "id", a, &it->id, e) || row_str(row, "task", a, &it->task, e) ||
        row_str(row, "instruction", a, &it->instruction, e) ||
        row_str(row, "input", a, &it->input, e) || row_str(row, "output", a, &it->reference, e) ||
        row_str(row, "cluster", a, &it->cluster, e) || row_str(row, "split", a, &it->split, e) ||
        row_strs(row, "choices", a, &it->choices, e) ||
        row_strs(row, "graded", a, &it->graded, e) ||
        constraints_of_json(json_get(row, "constraints"), a, &it->constraints, e))
        return -1;
    if (!it->task.n)
        it->task = STR_LIT("instruct");
    return 0;
}

/* Where one item lives: in `keep`, or in an arena of its own that dies behind its call. */
static struct arena *home(struct arena *keep, struct arena *own)
{
    return keep ? keep : own;
}

static int each_json(const char *path, struct arena *keep, item_fn *fn, void *ctx, struct err *e)
{
    struct json *doc = json_read(path, e);
    int rc = -1;
    if (!doc)
        return -1;
    if (json_kind(doc) != JSON_ARR) {
        err_set(e, "%s: not a JSON array of items", path);
        goto out;
    }
    for (size_t i = 0; i < json_size(doc); i++) {
        struct arena a = {0};
        struct item it;
        int got = item_of_json(json_at(doc, i), &it, home(keep, &a), e);
        if (got)
            err_wrap(e, "%s: item %zu", path, i + 1);
        else
            got = fn(ctx, &it, e);
        arena_release(&a);
        if (got)
            goto out;
    }
    rc = 0;
out:
    json_free(doc);
    return rc;
}

static int each_jsonl(const char *path, struct arena *keep, item_fn *fn, void *ctx, struct err *e)
{
    struct buf line = {0};
    int got = -1;
    struct stream *s = stream_open(path, e);
    if (!s)
        return -1;
    while ((got = stream_line(s, &line, MAX_LINE, e)) > 0) {
        struct str t = buf_str(&line);
        struct arena a = {0};
        struct item it;
        if (stream_lineno(s) == 1 && str_starts(t, "\xEF\xBB\xBF"))
            t = (struct str){t.p + 3, t.n - 3};
        t = str_trim(t);
        if (!t.n)
            continue;
        struct json *row = json_parse_lone(t, e);
        if (!row || item_of_json(row, &it, home(keep, &a), e))
            got = err_wrap(e, "%s:%lld", path, (long long)stream_lineno(s));
        else
            got = fn(ctx, &it, e);
        json_free(row);
        arena_release(&a);
        if (got < 0)
            break;
    }
    buf_release(&line);
    stream_close(s);
    return got;
}

static int each_record(const char *path, struct arena *keep, item_fn *fn, void *ctx, struct err *e)
{
    struct arena a = {0};
    struct item it;
    int got;
    struct records *r = records_open(path, &item_schema, RECORD_READ, e);
    if (!r)
        return -1;
    while ((got = records_next(r, &it, home(keep, &a), e)) > 0) {
        got = fn(ctx, &it, e);
        arena_release(&a);
        if (got)
            break;
    }
    arena_release(&a);
    if (got < 0) {
        records_abort(r);
        return -1;
    }
    return records_close(r, e);
}

static int each_item(const char *path, struct arena *keep, item_fn *fn, void *ctx, struct err *e)
{
    struct str s = str_z(path);
    if (file_is_dir(path))
        return err_set(e, "%s: is a folder, want a file of items", path);
    if (str_ends(s, ".msgpack"))
        return each_record(path, keep, fn, ctx, e);
    if (str_ends(s, ".json"))
        return each_json(path, keep, fn, ctx, e);
    if (str_ends(s, ".jsonl") || str_ends(s, ".jsonl.gz") || str_ends(s, ".jsonl.zst"))
        return each_jsonl(path, keep, fn, ctx, e);
    return err_set(e, "%s: want items as .json, .jsonl or .msgpack", path);
}

int items_each(const char *path, item_fn *fn, void *ctx, struct err *e)
{
    return each_item(path, NULL, fn, ctx, e);
}

void item_base_id(const struct item *it, char id[17])
{
    struct buf key = {0};
    char hex[SHA256_HEX];
    buf_adds(&key, it->instruction);
    buf_addc(&key, '\0');
    buf_adds(&key, it->input);
    sha256_hex(buf_str(&key), hex);
    buf_release(&key);
    memcpy(id, hex, 16);
    id[16] = '\0';
}

/* 16 hex digits of what is asked; repeats of one question get -2, -3... in file order. */
static struct str item_id(struct items *x, const struct item *it, struct index *made)
{
    char hex[17];
    item_base_id(it, hex);
    struct str base = str_copy(&x->arena, str_z(hex)), id = base;
    for (int k = 2; index_add(made, id, 0) != INDEX_NONE; k++)
        id = str_printf(&x->arena, "%.*s-%d", STR_ARG(base), k);
    return id;
}

static int items_ids(struct items *x, const char *path, struct err *e)
{
    struct index made = {0}, seen = {0};
    int rc = 0;
    for (size_t i = 0; i < x->n && !rc; i++) {
        if (!x->v[i].id.n)
            x->v[i].id = item_id(x, &x->v[i], &made);
        size_t other = index_add(&seen, x->v[i].id, i);
        if (other != INDEX_NONE)
            rc = err_set(e, "%s: items %zu and %zu share the id \"%.*s\"", path, other + 1, i + 1,
                         STR_ARG(x->v[i].id));
    }
    index_release(&made);
    index_release(&seen);
    return rc;
}

struct growing {
    struct items *x;
    size_t cap;
};

static int keep_item(void *ctx, const struct item *it, struct err *e)
{
    struct growing *g = ctx;
    (void)e;
    if (g->x->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->x->v = mem_grow(g->x->v, g->cap * sizeof *g->x->v);
    }
    g->x->v[g->x->n++] = *it;
    return 0;
}

int items_load(struct items *x, const char *path, struct err *e)
{
    struct growing g = {.x = x};
    *x = (struct items){0};
    int rc = each_item(path, &x->arena, keep_item, &g, e);
    if (!rc && !x->n)
        rc = err_set(e, "%s: no item in it", path);
    if (!rc)
        rc = items_ids(x, path, e);
    if (rc)
        items_release(x);
    return rc;
}

int items_save(const struct items *x, const char *path, struct err *e)
{
    struct records *r = records_open(path, &item_schema, RECORD_WRITE, e);
    if (!r)
        return -1;
    for (size_t i = 0; i < x->n; i++)
        if (records_append(r, &x->v[i], e)) {
            records_abort(r);
            return -1;
        }
    return records_close(r, e);
}

void items_release(struct items *x)
{
    free(x->v);
    arena_release(&x->arena);
    *x = (struct items){0};
}

/* ---- responses and scores: the last of each item -------------------------------------------- */

/* All records of a file, one for each item: *v gets n structs of s->size bytes (heap). key_at:
 * offset of the item's id. */
static int load_last(const char *path, const struct schema *s, size_t key_at, void **v, size_t *n,
                     struct arena *a, struct index *index, struct err *e)
{
    size_t cap = 0;
    char *all = NULL;
    int got;
    struct records *r = records_open(path, s, RECORD_READ, e);
    *v = NULL;
    *n = 0;
    if (!r)
        return -1;
    char *rec = mem_zero(s->size);
    while ((got = records_next(r, rec, a, e)) > 0) {
        struct str key;
        memcpy(&key, rec + key_at, sizeof key);
        size_t at = index_add(index, key, *n);
        if (at == INDEX_NONE)
            at = (*n)++;
        if (at >= cap) {
            cap = cap ? 2 * cap : 64;
            all = mem_grow(all, cap * s->size);
        }
        memcpy(all + at * s->size, rec, s->size);
    }
    free(rec);
    *v = all;
    if (got < 0) {
        records_abort(r);
        return -1;
    }
    return records_close(r, e);
}

/* Answers that stand in the items' own file. */
static int load_answered(struct responses *x, const char *path, struct err *e)
{
    struct items items;
    struct str text, model = str_printf(&x->arena, "model_response of %s", path_base(path));
    struct json *doc;
    int rc = 0;
    if (items_load(&items, path, e))
        return -1;
    doc = json_read(path, e);
    x->v = mem_array(items.n, sizeof *x->v);
    for (size_t i = 0; doc && !rc && i < items.n; i++) {
        const struct json *row = json_at(doc, i);
        rc = json_need_str(row, "model_response", &text, e);
        if (rc) {
            err_wrap(e, "%s: item %zu", path, i + 1);
            break;
        }
        x->v[x->n] = (struct response){.item = str_copy(&x->arena, items.v[i].id),
                                       .model = model,
                                       .text = str_copy(&x->arena, text),
                                       .tokens_in = FIELD_NONE_I64,
                                       .tokens_out = FIELD_NONE_I64,
                                       .ms = NAN};
        index_add(&x->index, x->v[x->n].item, x->n);
        x->n++;
    }
    json_free(doc);
    items_release(&items);
    return doc ? rc : -1;
}

int responses_load(struct responses *x, const char *path, struct err *e)
{
    void *v;
    *x = (struct responses){0};
    if (str_ends(str_z(path), ".json")) {
        int got = load_answered(x, path, e);
        if (got)
            responses_release(x);
        return got;
    }
    int rc = load_last(path, &response_schema, offsetof(struct response, item), &v, &x->n,
                       &x->arena, &x->index, e);
    x->v = v;
    if (rc)
        responses_release(x);
    return rc;
}

int responses_each(const char *path, response_fn *fn, void *ctx, struct err *e)
{
    struct arena a = {0};
    struct response got;
    int rc;
    if (str_ends(str_z(path), ".json")) {
        struct responses x;
        rc = responses_load(&x, path, e);
        for (size_t i = 0; !rc && i < x.n; i++)
            rc = fn(ctx, &x.v[i], e);
        responses_release(&x);
        return rc;
    }
    struct records *r = records_open(path, &response_schema, RECORD_READ, e);
    if (!r)
        return -1;
    while ((rc = records_next(r, &got, &a, e)) > 0) {
        rc = fn(ctx, &got, e);
        arena_release(&a);
        if (rc)
            break;
    }
    arena_release(&a);
    if (rc < 0) {
        records_abort(r);
        return -1;
    }
    return records_close(r, e);
}

const struct response *responses_find(const struct responses *x, struct str item)
{
    size_t at = index_find(&x->index, item);
    return at == INDEX_NONE ? NULL : &x->v[at];
}

void responses_release(struct responses *x)
{
    free(x->v);
    index_release(&x->index);
    arena_release(&x->arena);
    *x = (struct responses){0};
}

int scores_load(struct scores *x, const char *path, struct err *e)
{
    void *v;
    *x = (struct scores){0};
    int rc = load_last(path, &score_schema, offsetof(struct score, item), &v, &x->n, &x->arena,
                       &x->index, e);
    x->v = v;
    if (rc)
        scores_release(x);
    return rc;
}

const struct score *scores_find(const struct scores *x, struct str item)
{
    size_t at = index_find(&x->index, item);
    return at == INDEX_NONE ? NULL : &x->v[at];
}

void scores_release(struct scores *x)
{
    free(x->v);
    index_release(&x->index);
    arena_release(&x->arena);
    *x = (struct scores){0};
}
