/* panel: the passes of a panel. See pipelines/panel.h. */
#include "pipelines/panel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "base/log.h"

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

struct panel {
    const struct panel_job *j;
    struct panel_config c;
    struct judge_asker g;
    struct panel_pass *pass;
    size_t passes;
    struct panel_pass now; /* the pass that is asked */
    bool is_new;
    char items_hash[SHA256_HEX];
    struct arena *a;
};

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
    p->c.size = j->size;
    p->c.anchors = j->anchors;
    p->c.sanity = j->sanity;
    p->c.seed = j->judge.c.seed;
    p->c.temperature = j->judge.c.temperature;
    p->c.max_tokens = j->judge.c.max_tokens;
    p->c.context = j->context;
    return 0;
}

/* With the first pass: what was refused before it left nothing. */
static int write_ini(struct panel *p, struct err *e)
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

static int read_design(struct panel *p, struct err *e)
{
    const char *path = path_join(p->a, p->j->dir, "panel.ini");
    struct ini ini;
    if (!file_exists(path)) {
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
    return 0;
}

/* ---- who is in the pass --------------------------------------------------------------------- */

/* Where a model was seen first; NULL: never. */
static const struct panel_pass *known(const struct panel *p, struct str name, size_t *at)
{
    for (size_t k = 0; k < p->passes; k++)
        for (*at = 0; *at < p->pass[k].model.n; ++*at)
            if (str_eq(p->pass[k].model.v[*at], name))
                return &p->pass[k];
    return NULL;
}

static void add(struct panel *p, struct str name, const char *role, struct str path,
                struct str hash)
{
    strs_push(&p->now.model, name, p->a);
    strs_push(&p->now.role, str_z(role), p->a);
    strs_push(&p->now.path, path, p->a);
    strs_push(&p->now.hash, hash, p->a);
}

/* The given responses: new ones into the pass; known ones must be the same as before. */
static int add_new(struct panel *p, struct err *e)
{
    struct judge_asker given = {0};
    int rc = judge_entrants(&given, p->j->responses, p->a, e);
    for (size_t k = 0; rc == 0 && k < given.entrants; k++) {
        char hex[SHA256_HEX];
        size_t at;
        const struct panel_pass *before = known(p, given.entrant[k].name, &at);
        rc = sha256_file(given.entrant[k].path, hex, e);
        if (rc == 0 && !before)
            add(p, given.entrant[k].name, "new", str_z(given.entrant[k].path),
                str_z(arena_strdup(p->a, hex)));
        else if (rc == 0 && !str_eqz(before->hash.v[at], hex))
            rc = err_code(e, EXIT_USAGE,
                          "%.*s has other answers than in pass %lld: give them another name",
                          STR_ARG(given.entrant[k].name), (long long)before->number);
    }
    judge_close(&given);
    return rc;
}

static void add_known(struct panel *p, struct str name, const char *role)
{
    size_t at;
    const struct panel_pass *before = known(p, name, &at);
    add(p, name, role, before->path.v[at], before->hash.v[at]);
}

struct rank {
    struct str name;
    double mean;
};

static int by_mean(const void *x, const void *y)
{
    const struct rank *a = x, *b = y;
    return a->mean != b->mean ? (a->mean < b->mean ? -1 : 1) : str_cmp(a->name, b->name);
}

/* Models of before, from the lowest to the highest, so that a stretched scale is seen. */
static int add_rejudged(struct panel *p, struct err *e)
{
    struct panel_table t;
    if (panel_table_load(&t, p->j->dir, NULL, e))
        return -1;
    struct rank *v = mem_array(t.models + 1, sizeof *v);
    size_t n = 0, want = p->j->rejudge < 0 ? SIZE_MAX : (size_t)p->j->rejudge;
    for (size_t m = 0; m < t.models; m++) {
        int32_t newest = panel_newest(&t, m);
        double sum = 0, count = 0;
        size_t at;
        if (t.is_anchor[m] || t.is_sanity[m])
            continue;
        for (size_t i = 0; newest >= 0 && i < t.items; i++) {
            double d = panel_at(&t, t.d, (size_t)newest, m, i);
            if (!isnan(d)) {
                sum += d;
                count++;
            }
        }
        struct str name = known(p, t.model[m], &at)->model.v[at]; /* outlives the table */
        if (count > 0)
            v[n++] = (struct rank){name, sum / count};
    }
    qsort(v, n, sizeof *v, by_mean);
    want = want < n ? want : n;
    for (size_t k = 0; k < want; k++)
        add_known(p, v[want > 1 ? k * (n - 1) / (want - 1) : n / 2].name, "rejudged");
    if (want < LINK_LEAST)
        log_warn("only %zu models can be judged again: a link to earlier passes needs 3; --rejudge "
                 "all asks about all of them anew",
                 want);
    free(v);
    panel_table_release(&t);
    return 0;
}

static void add_sanity(struct panel *p)
{
    if (!p->c.sanity)
        return;
    add(p, STR_LIT("=reference"), "reference", (struct str){0}, (struct str){0});
    add(p, STR_LIT("=empty"), "empty", (struct str){0}, (struct str){0});
}

static void add_anchors(struct panel *p)
{
    for (size_t i = 0; i < p->pass[0].model.n; i++)
        if (str_eqz(p->pass[0].role.v[i], "anchor"))
            add_known(p, p->pass[0].model.v[i], "anchor");
}

/* What is asked now: the last pass again, or a new one. */
static int make_pass(struct panel *p, struct err *e)
{
    p->now = (struct panel_pass){.number = (int64_t)p->passes + 1};
    if (add_new(p, e))
        return -1;
    p->is_new = p->now.model.n || (p->j->rejudge < 0 && p->passes);
    if (!p->is_new && !p->passes)
        return err_code(e, EXIT_USAGE, "--responses is missing: this panel has no models yet");
    if (!p->is_new) {
        p->now = p->pass[p->passes - 1];
        return 0;
    }
    if (p->passes) {
        if (add_rejudged(p, e))
            return -1;
        add_anchors(p);
    } else if (p->now.model.n < 2) {
        return err_code(e, EXIT_USAGE, "a panel starts with at least two models");
    }
    if (!p->passes || p->j->rejudge < 0)
        add_sanity(p);
    return 0;
}

/* First pass: the roles of its anchors, once their answers are there. */
static int make_anchors(struct panel *p, struct err *e)
{
    struct strs names = p->c.anchors;
    size_t want = (size_t)p->c.anchor_count, fresh = 0;
    if (p->passes)
        return 0;
    for (size_t i = 0; i < p->now.model.n; i++)
        fresh += str_eqz(p->now.role.v[i], "new");
    if (!names.n)
        panel_choose_anchors(&p->g, want < fresh ? want : fresh - 1, &names, p->a);
    for (size_t k = 0; k < names.n; k++) {
        size_t i = 0;
        while (i < p->now.model.n && !str_eq(p->now.model.v[i], names.v[k]))
            i++;
        if (i == p->now.model.n)
            return err_code(e, EXIT_USAGE, "the anchor %.*s has no responses", STR_ARG(names.v[k]));
        p->now.role.v[i] = STR_LIT("anchor");
    }
    return 0;
}

static int open_pass(struct panel *p, struct err *e)
{
    struct judge_asker *g = &p->g;
    struct judge_job j = p->j->judge;
    j.protocol = JUDGE_JOINT;
    j.c.judge = p->c.judge;
    j.c.prompt = p->c.prompt;
    j.c.seed = p->c.seed;
    j.c.temperature = p->c.temperature;
    j.c.max_tokens = p->c.max_tokens;
    judge_asker_init(g, &j);
    g->pass = p->now.number;
    g->entrants = p->now.model.n;
    g->entrant = mem_array(g->entrants + 1, sizeof *g->entrant);
    for (size_t k = 0; k < g->entrants; k++) {
        struct str role = p->now.role.v[k], path = p->now.path.v[k];
        char hex[SHA256_HEX];
        g->entrant[k] = (struct judge_entrant){.name = p->now.model.v[k],
                                               .path = path.n ? str_dup(p->a, path) : NULL,
                                               .role = str_eqz(role, "reference") ? ROLE_REFERENCE
                                                       : str_eqz(role, "empty")   ? ROLE_EMPTY
                                                                                  : ROLE_MODEL};
        if (path.n && sha256_file(g->entrant[k].path, hex, e))
            return -1;
        if (path.n && !str_eqz(p->now.hash.v[k], hex))
            return err_set(e, "%s has changed since it was judged", g->entrant[k].path);
    }
    if (judge_open(g, str_dup(p->a, p->c.items), "joint100", false, p->a, e))
        return -1;
    if (g->prompt.protocol != JUDGE_JOINT)
        return err_code(e, EXIT_USAGE, "prompt %.*s is none for joint questions",
                        STR_ARG(g->prompt.name));
    return 0;
}

/* The largest block that stays within the judge's context. */
static int fit_size(struct panel *p, struct err *e)
{
    int64_t context = p->c.context ? p->c.context : p->g.model.context, anchors = 0;
    if (p->is_new) {
        for (size_t i = 0; i < p->now.role.n; i++)
            anchors += str_eqz(p->now.role.v[i], "anchor");
        int64_t all = (int64_t)p->now.model.n - anchors, most = JUDGE_MOST - anchors;
        p->now.size = p->passes ? p->pass[0].size : p->c.size ? p->c.size : all;
        p->now.size = p->now.size < most ? p->now.size : most;
    }
    for (int64_t first = p->now.size;; p->now.size--) {
        panel_questions(&p->g, &p->now);
        int64_t need = panel_longest(&p->g);
        if (!context || need <= context || !p->is_new) {
            if (p->now.size < first)
                log_info("%lld answers beside the anchors fit the context of %lld tokens",
                         (long long)p->now.size, (long long)context);
            return 0;
        }
        if (p->now.size == 1)
            return err_set(e, "a question needs about %lld tokens, the judge's context has %lld",
                           (long long)need, (long long)context);
    }
}

/* Before the first question of a pass: who is in it never changes again. */
static int record_pass(struct panel *p, struct err *e)
{
    if (!p->is_new)
        return 0;
    if (write_ini(p, e))
        return -1;
    struct records *w = records_open(path_join(p->a, p->j->dir, "passes.msgpack"),
                                     &panel_pass_schema, RECORD_APPEND, e);
    p->now.judge = str_z(p->g.identity);
    p->now.prompt = str_z(p->g.prompt.hash);
    p->now.items = str_z(p->items_hash);
    if (!w)
        return -1;
    if (records_append(w, &p->now, e) || records_sync(w, e)) {
        records_abort(w);
        return -1;
    }
    return records_close(w, e);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int check_same(const struct panel *p, struct err *e)
{
    const struct panel_pass *first = p->passes ? &p->pass[0] : NULL;
    if (first && !str_eqz(first->items, p->items_hash))
        return err_set(e, "%.*s has changed since the first pass", STR_ARG(p->c.items));
    if (first && !str_eqz(first->prompt, p->g.prompt.hash))
        return err_set(e, "the prompt has changed since the first pass: that is another panel");
    if (first && !str_eqz(first->judge, p->g.identity))
        return err_set(e, "the judge is \"%s\", in the first pass it was \"%.*s\"", p->g.identity,
                       STR_ARG(first->judge));
    return 0;
}

static int finish(struct panel *p, struct stage *st, FILE *to, int rc, struct err *e)
{
    struct panel_table t;
    struct items items;
    struct buf spent = {0};
    struct err later = {0};
    if (rc && !p->g.kept && p->g.decided == p->g.failed)
        return -1; /* nothing to sum up */
    if (items_load(&items, str_dup(p->a, p->c.items), rc ? &later : e))
        return -1;
    int bad = panel_table_load(&t, p->j->dir, &items, rc ? &later : e);
    items_release(&items);
    if (bad)
        return -1;
    if (panel_print(&t, p->j->baseline, to, rc ? &later : e) && !rc)
        rc = -1;
    judge_spent(&p->g, &spent);
    fprintf(to, "judge: %s\n", spent.p + 2);
    buf_release(&spent);
    if (rc == 0)
        rc = judge_check_failed(&p->g, e);
    if (rc == 0)
        rc = panel_write(&t, p->j->dir, st, p->a, e);
    if (rc == 0) {
        stage_fact(st, "served", json_of_z(judge_served(&p->g, p->a)));
        rc = stage_end(st, e);
    }
    panel_table_release(&t);
    return rc;
}

int panel_run(const struct panel_job *j, FILE *to, struct arena *a, struct err *e)
{
    struct panel p = {.j = j, .a = a};
    struct stage st;
    const char *journal = path_join(a, j->dir, "verdicts.msgpack");
    int rc = -1;
    stage_begin(&st, "panel", 1, j->dir, NULL, NULL);
    if (read_design(&p, e) || panel_passes(j->dir, &p.pass, &p.passes, a, e) || make_pass(&p, e) ||
        open_pass(&p, e) || check_same(&p, e) || make_anchors(&p, e) || fit_size(&p, e))
        goto out;
    if (j->judge.dry) {
        rc = judge_dry(&p.g, journal, e);
        goto out;
    }
    stage_setting(&st, "judge", p.g.identity);
    stage_setting(&st, "pass", arena_printf(a, "%lld", (long long)p.now.number));
    for (size_t k = 0; k < p.g.entrants; k++)
        if (p.g.entrant[k].path && stage_input(&st, p.g.entrant[k].path, e))
            goto out;
    if (record_pass(&p, e) || stage_start(&st, e))
        goto out;
    rc = judge_ask_all(&p.g, journal, e);
    rc = finish(&p, &st, to, rc, e);
out:
    stage_release(&st);
    judge_close(&p.g);
    return rc;
}
