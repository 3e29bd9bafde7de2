/* panel_design: panel.ini, the design that every pass of a panel is made with. See pipelines/panel.h. */
#include <math.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "pipelines/panel_private.h"

#define AT(m) offsetof(struct panel_config, m)
static const struct field config_fields[] = {
    {"items", FIELD_STR, AT(items), NULL, .help = "items with their right answers"},
    {"judge", FIELD_STR, AT(judge), NULL, .help = "spec of the judge"},
    {"prompt", FIELD_STR, AT(prompt), "joint100", .help = "a prompt for joint questions"},
    {"size", FIELD_I64, AT(size), "4", 0, 24,
     .help = "answers in a question beside the anchors; 0: all of them"},
    {"anchors", FIELD_STRS, AT(anchors), "", .help = "models in every question; empty: chosen"},
    {"anchor_count", FIELD_I64, AT(anchor_count), "2", 0, 8, .help = "anchors to choose"},
    {"sanity", FIELD_BOOL, AT(sanity), "true",
     .help = "judge the reference and an empty answer too"},
    {"seed", FIELD_I64, AT(seed), "123", 0, 9e15, .help = "of blocks and orders"},
    {"temperature", FIELD_F64, AT(temperature), "0", -1, 100, .help = "of the judge"},
    {"max_tokens", FIELD_I64, AT(max_tokens), "16", 1, 1048576, .help = "verdict on one answer"},
    {"context", FIELD_I64, AT(context), "0", 0, 1e9, .help = "the judge's context; 0: unknown"},
    {0},
};
#undef AT
static const struct schema config_schema = {"panel", 1, sizeof(struct panel_config), config_fields};
struct ini {
    struct panel_config panel;
};
static const struct field ini_fields[] = {
    {"panel", FIELD_STRUCT, offsetof(struct ini, panel), "", .sub = &config_schema,
     .help = "the design"},
    {0},
};
static const struct schema ini_schema = {"panel file", 1, sizeof(struct ini), ini_fields};

/* ---- panel.ini ------------------------------------------------------------------------------ */

/* The design of a new panel, from the options. */
static int make_design(struct panel *p, const char *path, struct err *e)
{
    const struct panel_job *j = p->j;
    struct ini ini;
    if (schema_defaults(&ini_schema, &ini, p->a, e))
        return -1;
    if (!j->items)
        return err_code(e, EXIT_USAGE, "--items is missing: there is no %s yet", path);
    if (!j->judge.c.judge.n)
        return err_code(e, EXIT_USAGE, "which judge? --judge ollama:MODEL, say");
    p->c = ini.panel;
    p->c.items = str_z(j->items);
    p->c.judge = j->judge.c.judge;
    if (j->judge.c.prompt.n)
        p->c.prompt = j->judge.c.prompt;
    if (j->size != FIELD_NONE_I64)
        p->c.size = j->size;
    p->c.anchors = j->anchors;
    p->c.sanity = j->sanity;
    p->c.seed = j->judge.c.seed;
    p->c.temperature = j->judge.c.temperature;
    p->c.max_tokens = j->judge.c.max_tokens;
    if (j->context != FIELD_NONE_I64)
        p->c.context = j->context;
    return 0;
}

int panel_design_write(struct panel *p, struct err *e)
{
    const char *path = path_join(p->a, p->j->dir, "panel.ini");
    struct buf out = {0}, text = {0};
    if (file_exists(path))
        return 0;
    buf_addz(&out, "# The design of a panel: every pass is made with it.\n[panel]\n");
    for (const struct field *f = config_fields; f->name; f++) {
        buf_cut(&text, 0);
        field_text(f, (const char *)&p->c + f->at, &text);
        buf_printf(&out, "%s = %s\n", f->name, text.p ? text.p : "");
    }
    int rc = file_mkdirs(p->j->dir, e) || file_write_all(path, buf_str(&out), e) ? -1 : 0;
    buf_release(&out);
    buf_release(&text);
    return rc;
}

/* ---- options of later passes ---------------------------------------------------------------- */

static int differs(struct err *e, const char *path, const char *option, const char *has)
{
    return err_code(e, EXIT_USAGE,
                    "%s has %s, which %s can't change: leave it out, or make another panel", path,
                    has, option);
}

static bool other_i64(int64_t given, int64_t has)
{
    return given != FIELD_NONE_I64 && given != has;
}

/* The design's anchors, or the chosen ones. */
static bool other_anchors(const struct panel *p, struct buf *has)
{
    const struct strs *given = &p->j->anchors;
    struct strs names = p->c.anchors;
    size_t same = 0;
    struct panel_pass *pass;
    size_t passes;
    struct err ignored;
    if (!names.n && panel_passes(p->j->dir, &pass, &passes, p->a, &ignored) == 0 && passes)
        for (size_t i = 0; i < pass[0].model.n; i++)
            if (str_eqz(pass[0].role.v[i], "anchor"))
                strs_push(&names, pass[0].model.v[i], p->a);
    for (size_t k = 0; k < names.n; k++) {
        buf_printf(has, "%s%.*s", k ? "," : "", STR_ARG(names.v[k]));
        for (size_t i = 0; i < given->n; i++)
            same += str_eq(given->v[i], names.v[k]);
    }
    return given->n && (same != names.n || given->n != names.n);
}

/* What a panel was made with is not changed by an option that would be ignored without a word. */
static int check_design(struct panel *p, const char *path, struct err *e)
{
    const struct panel_job *j = p->j;
    const struct panel_config *c = &p->c;
    struct arena *a = p->a;
    char hex[SHA256_HEX];
    struct buf anchors = {0};
    int rc = 0;
    if (j->items && !str_eqz(c->items, j->items)) {
        if (sha256_file(j->items, hex, e))
            return -1;
        if (strcmp(hex, p->items_hash) != 0)
            return differs(e, path, "--items",
                           arena_printf(a, "other items (%.*s)", STR_ARG(c->items)));
    }
    if (j->prompt.n && !str_eq(j->prompt, c->prompt))
        return differs(e, path, "--prompt", arena_printf(a, "prompt = %.*s", STR_ARG(c->prompt)));
    if (other_i64(j->size, c->size))
        return differs(e, path, "--panel-size", arena_printf(a, "size = %lld", (long long)c->size));
    if (other_i64(j->seed, c->seed))
        return differs(e, path, "--seed", arena_printf(a, "seed = %lld", (long long)c->seed));
    if (other_i64(j->context, c->context))
        return differs(e, path, "--context",
                       arena_printf(a, "context = %lld", (long long)c->context));
    if (other_i64(j->max_tokens, c->max_tokens))
        return differs(e, path, "--max-tokens",
                       arena_printf(a, "max_tokens = %lld", (long long)c->max_tokens));
    if (!isnan(j->temperature) && j->temperature != c->temperature)
        return differs(e, path, "--temperature",
                       arena_printf(a, "temperature = %g", c->temperature));
    if (!j->sanity && c->sanity)
        return differs(e, path, "--no-sanity", "sanity = true");
    if (other_anchors(p, &anchors))
        rc = differs(e, path, "--anchors", arena_printf(a, "the anchors %s", anchors.p));
    buf_release(&anchors);
    return rc;
}

int panel_design(struct panel *p, struct err *e)
{
    const char *path = path_join(p->a, p->j->dir, "panel.ini");
    struct ini ini;
    bool old = file_exists(path);
    if (!old) {
        if (make_design(p, path, e))
            return -1;
    } else {
        if (config_load(&ini_schema, &ini, path, (struct strs){0}, p->a, e))
            return -1;
        p->c = ini.panel;
    }
    if (sha256_file(str_dup(p->a, p->c.items), p->items_hash, e))
        return -1;
    if (p->j->judge.c.judge.n && !str_eq(p->j->judge.c.judge, p->c.judge))
        return err_code(e, EXIT_USAGE, "%s has the judge %.*s: another judge is another panel",
                        path, STR_ARG(p->c.judge));
    return old ? check_design(p, path, e) : 0;
}
