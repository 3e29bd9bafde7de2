/* panel_pass: who is in a pass of a panel, and with which answers. See pipelines/panel.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "pipelines/panel_private.h"

/* ---- answers -------------------------------------------------------------------------------- */

static const char *copy_path(const struct panel *p, struct str path, struct str hash)
{
    return arena_printf(p->a, "%s/answers/%.*s%s", p->j->dir, STR_ARG(hash),
                        str_ends(path, ".json") ? ".json" : ".msgpack");
}

const char *panel_answers(const struct panel *p, struct str path, struct str hash)
{
    if (!path.n)
        return NULL;
    const char *copy = copy_path(p, path, hash);
    return file_exists(copy) ? copy : str_dup(p->a, path);
}

int panel_keep_answers(struct panel *p, struct err *e)
{
    for (size_t i = 0; i < p->now.model.n; i++) {
        struct str path = p->now.path.v[i];
        struct file_map m;
        if (!path.n)
            continue;
        const char *copy = copy_path(p, path, p->now.hash.v[i]);
        if (file_exists(copy))
            continue;
        if (file_map(str_dup(p->a, path), &m, e))
            return -1;
        int rc = file_write_all(copy, (struct str){(const char *)m.p, m.n}, e);
        file_unmap(&m);
        if (rc)
            return -1;
    }
    return 0;
}

/* ---- who is in the pass --------------------------------------------------------------------- */

/* A new version of an anchor stands beside it, as NAME@HASH. */
static bool is_named(struct str in_pass, struct str name)
{
    return str_eq(in_pass, name) || (in_pass.n == name.n + 9 && in_pass.p[name.n] == '@' &&
                                     memcmp(in_pass.p, name.p, name.n) == 0);
}

/* Where a model was seen last, with these answers (hash; NULL: any); NULL: never. */
static const struct panel_pass *known(const struct panel *p, struct str name, const char *hash,
                                      size_t *at)
{
    for (size_t k = p->passes; k-- > 0;)
        for (*at = 0; *at < p->pass[k].model.n; ++*at)
            if (is_named(p->pass[k].model.v[*at], name) &&
                (!hash || str_eqz(p->pass[k].hash.v[*at], hash)))
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

static bool is_anchor(const struct panel *p, struct str name)
{
    for (size_t i = 0; p->passes && i < p->pass[0].model.n; i++)
        if (str_eqz(p->pass[0].role.v[i], "anchor") && str_eq(p->pass[0].model.v[i], name))
            return true;
    return false;
}

/* The given responses: new ones into the pass, and new answers of an old name. */
static int add_new(struct panel *p, struct err *e)
{
    struct judge_asker given = {0};
    int rc = judge_entrants(&given, p->j->responses, p->a, e);
    for (size_t k = 0; rc == 0 && k < given.entrants; k++) {
        const struct judge_entrant *x = &given.entrant[k];
        char hex[SHA256_HEX];
        size_t at;
        rc = sha256_file(x->path, hex, e);
        if (rc || known(p, x->name, hex, &at))
            continue;
        const struct panel_pass *before = known(p, x->name, NULL, &at);
        struct str name = x->name;
        if (before && is_anchor(p, name)) {
            name = str_printf(p->a, "%.*s@%.8s", STR_ARG(name), hex);
            log_info("%.*s has other answers than in pass %lld and is an anchor: the new ones are "
                     "judged as %.*s",
                     STR_ARG(x->name), (long long)before->number, STR_ARG(name));
        } else if (before) {
            log_info("%.*s has other answers than in pass %lld: they are judged as a new version, "
                     "the old one is %.*s@%.8s from now on",
                     STR_ARG(name), (long long)before->number, STR_ARG(name), before->hash.v[at].p);
        }
        add(p, name, "new", str_z(x->path), str_z(arena_strdup(p->a, hex)));
    }
    judge_close(&given);
    return rc;
}

/* In pass k, place i: with the answers of then. */
static void add_known(struct panel *p, size_t k, size_t i, const char *role)
{
    const struct panel_pass *x = &p->pass[k];
    add(p, x->model.v[i], role, x->path.v[i], x->hash.v[i]);
}

struct rank {
    struct str name;
    double mean;
    size_t pass, place;
};

static int by_mean(const void *x, const void *y)
{
    const struct rank *a = x, *b = y;
    return a->mean != b->mean ? (a->mean < b->mean ? -1 : 1) : str_cmp(a->name, b->name);
}

static double mean_d(const struct panel_table *t, size_t pass, size_t m)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < t->items; i++) {
        double d = panel_at(t, t->d, pass, m, i);
        if (isnan(d))
            continue;
        sum += d;
        count++;
    }
    return count > 0 ? sum / count : NAN;
}

/* One name stands once in a pass: not beside its own new version, nor beside an older one. */
static bool is_free(const struct panel *p, const struct rank *v, size_t n, struct str name)
{
    for (size_t i = 0; i < p->now.model.n; i++)
        if (str_eq(p->now.model.v[i], name))
            return false;
    for (size_t i = 0; i < n; i++)
        if (str_eq(v[i].name, name))
            return false;
    return true;
}

/* The answers are there as they were. */
static bool is_there(const struct panel *p, size_t k, size_t i)
{
    char hex[SHA256_HEX];
    struct err ignored;
    const struct panel_pass *x = &p->pass[k];
    const char *path = panel_answers(p, x->path.v[i], x->hash.v[i]);
    if (path && sha256_file(path, hex, &ignored) == 0 && str_eqz(x->hash.v[i], hex))
        return true;
    log_warn("%.*s can't be judged again: %s is gone or has changed", STR_ARG(x->model.v[i]), path);
    return false;
}

/* Models of before that can be judged again: a name's newest version. */
static size_t candidates(struct panel *p, const struct panel_table *t, struct rank *v)
{
    size_t n = 0;
    for (size_t k = p->passes; k-- > 0;)
        for (size_t i = 0; i < p->pass[k].model.n; i++) {
            size_t m = (size_t)t->at[k][i];
            int32_t newest = panel_newest(t, m);
            if (t->is_anchor[m] || t->is_sanity[m] || newest < 0 ||
                !is_free(p, v, n, p->pass[k].model.v[i]))
                continue;
            double mean = mean_d(t, (size_t)newest, m);
            if (!isnan(mean) && is_there(p, k, i))
                v[n++] = (struct rank){p->pass[k].model.v[i], mean, k, i};
        }
    qsort(v, n, sizeof *v, by_mean);
    return n;
}

/* Models of before, from the lowest to the highest, so that a stretched scale is seen. */
static int add_rejudged(struct panel *p, struct err *e)
{
    struct panel_table t;
    size_t want = p->j->rejudge < 0 ? SIZE_MAX : (size_t)p->j->rejudge;
    if (panel_table_load(&t, p->j->dir, NULL, p->j->judge.c.max_failed, e))
        return -1;
    struct rank *v = mem_array(t.models + 1, sizeof *v);
    size_t n = candidates(p, &t, v), take = want < n ? want : n;
    for (size_t k = 0; k < take; k++) {
        const struct rank *r = &v[take > 1 ? k * (n - 1) / (take - 1) : n / 2];
        add_known(p, r->pass, r->place, "rejudged");
    }
    if (n < LINK_LEAST)
        log_warn("this panel has only %zu models beside its anchors that can be judged again: a "
                 "link to earlier passes needs 3",
                 n);
    else if (take < LINK_LEAST)
        log_warn("%zu models are judged again: a link to earlier passes needs 3 (--rejudge 3)",
                 take);
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
            add_known(p, 0, i, "anchor");
}

/* The last pass has every model: a command with --rejudge all that was given again has gone on, and
 * does not pay for another such pass. */
static bool has_all(const struct panel *p)
{
    const struct strs *last = &p->pass[p->passes - 1].model;
    for (size_t k = 0; k < p->passes; k++)
        for (size_t i = 0; i < p->pass[k].model.n; i++) {
            bool there = false;
            for (size_t x = 0; x < last->n; x++)
                there = there || str_eq(last->v[x], p->pass[k].model.v[i]);
            if (!there)
                return false;
        }
    return true;
}

/* What is asked now: the last pass again, or a new one. */
int panel_make_pass(struct panel *p, struct err *e)
{
    p->now = (struct panel_pass){.number = (int64_t)p->passes + 1};
    if (add_new(p, e))
        return -1;
    p->is_new = p->now.model.n || (p->j->rejudge < 0 && p->passes && !(p->finished && has_all(p)));
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
int panel_make_anchors(struct panel *p, struct err *e)
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
