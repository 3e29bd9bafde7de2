/* export_mlflow: results to an MLflow server over its REST API 2.0, see export.h.
 *
 * Never doubled: a run is found by its tag assay.run; its tag assay.content is the hash of what it
 * holds, assay.complete says that all of it arrived. A complete run of the same content gets only its
 * tags and artefacts again. One that was cut in the middle is asked which steps of each metric it
 * has, and gets the others. MLflow can neither delete a metric's points nor change a parameter, so
 * other content means another run; the old one goes to the server's bin.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/json.h"
#include "base/map.h"
#include "pipelines/mlflow.h"

enum { MOST_METRICS = 1000, MOST_PARAMS = 100, MOST_VALUE = 500, MOST_PAGES = 1000 };

/* ---- experiment and run ----------------------------------------------------------------------- */

static struct json *object(const char *k, struct json *v)
{
    struct json *o = json_obj();
    json_put(o, k, v);
    return o;
}

static int experiment(struct mlflow_server *s, const char **id, struct err *e)
{
    const char *name = s->j->experiment;
    const char *find = arena_printf(&s->arena, "experiments/get-by-name?experiment_name=%s",
                                    mlflow_escaped(&s->arena, str_z(name)));
    struct json *r;
    struct str got;
    if (mlflow_call(s, find, NULL, &r, e))
        return -1;
    if (!r && mlflow_call(s, "experiments/create", object("name", json_of_z(name)), &r, e))
        return -1;
    const struct json *x = json_get(r, "experiment");
    bool deleted = str_eqz(json_str(json_get(x, "lifecycle_stage")), "deleted");
    int rc = json_need_str(x ? x : r, "experiment_id", &got, e);
    if (!rc)
        *id = str_dup(&s->arena, got);
    json_free(r);
    if (!rc && deleted)
        rc = err_set(
            e, "mlflow: experiment \"%s\" is in the server's bin; restore it, or name another",
            name);
    return rc;
}

static struct str tag_of(const struct json *run, const char *key)
{
    const struct json *t = json_get(json_get(run, "data"), "tags");
    for (size_t i = 0; i < json_size(t); i++)
        if (str_eqz(json_str(json_get(json_at(t, i), "key")), key))
            return json_str(json_get(json_at(t, i), "value"));
    return (struct str){0};
}

static struct json *tag(const char *key, struct str value)
{
    struct json *t = object("key", json_of_z(key));
    json_put(t, "value", json_of_str(value));
    return t;
}

struct remote {
    const char *id, *artifacts; /* id NULL: there is none */
    bool complete, had;         /* had: it was there before, perhaps with a part of the points */
};

static int take_run(struct mlflow_server *s, const struct json *run, struct remote *m,
                    struct err *e)
{
    struct str id, uri;
    const struct json *info = json_get(run, "info");
    if (json_need_str(info, "run_id", &id, e) || json_need_str(info, "artifact_uri", &uri, e))
        return err_wrap(e, "mlflow");
    m->id = str_dup(&s->arena, id);
    m->artifacts = str_dup(&s->arena, uri);
    return 0;
}

static int delete_run(struct mlflow_server *s, const char *id, struct err *e)
{
    return mlflow_call(s, "runs/delete", object("run_id", json_of_z(id)), NULL, e);
}

/* The run of this name and content; those of other content, or a second one, are deleted. */
static int find_run(struct mlflow_server *s, const char *exp, const struct result *r,
                    const struct flat *f, struct remote *m, struct err *e)
{
    struct json *q = json_obj(), *ids = json_arr(), *reply;
    struct buf filter = {0};
    int rc = 0;
    buf_addz(&filter, "tags.`assay.run` = '");
    for (size_t i = 0; i < r->run.n; i++) /* the filter language has no escape for a quote */
        if (r->run.p[i] != '\'')
            buf_addc(&filter, r->run.p[i]);
    buf_addc(&filter, '\'');
    json_push(ids, json_of_z(exp));
    json_put(q, "experiment_ids", ids);
    json_put(q, "filter", json_of_str(buf_str(&filter)));
    json_put(q, "run_view_type", json_of_z("ACTIVE_ONLY"));
    json_put(q, "max_results", json_of_int(100));
    buf_release(&filter);
    *m = (struct remote){0};
    if (mlflow_call(s, "runs/search", q, &reply, e))
        return -1;
    const struct json *runs = json_get(reply, "runs");
    for (size_t i = 0; i < json_size(runs) && !rc; i++) {
        const struct json *run = json_at(runs, i);
        struct remote one = {.had = true};
        if (!str_eq(tag_of(run, "assay.run"), r->run))
            continue;
        rc = take_run(s, run, &one, e);
        if (!rc && (m->id || !str_eqz(tag_of(run, "assay.content"), f->hash)))
            rc = delete_run(s, one.id, e);
        else if (!rc) {
            one.complete = str_eqz(tag_of(run, "assay.complete"), "1");
            *m = one;
        }
    }
    json_free(reply);
    return rc;
}

static int create_run(struct mlflow_server *s, const char *exp, const struct result *r,
                      const struct flat *f, struct remote *m, struct err *e)
{
    struct json *q = object("experiment_id", json_of_z(exp)), *tags = json_arr(), *reply;
    json_put(q, "run_name", json_of_str(r->run));
    if (f->start > 0)
        json_put(q, "start_time", json_of_int((int64_t)llround(f->start * 1e3)));
    json_push(tags, tag("assay.run", r->run));
    json_push(tags, tag("assay.content", str_z(f->hash)));
    json_put(q, "tags", tags);
    if (mlflow_call(s, "runs/create", q, &reply, e))
        return -1;
    int rc = take_run(s, json_get(reply, "run"), m, e);
    json_free(reply);
    return rc;
}

/* ---- points, parameters, tags ----------------------------------------------------------------- */

/* Steps that the server has of one metric, as keys of the map. */
static int history(struct mlflow_server *s, const char *id, const char *key, struct map *steps,
                   struct err *e)
{
    const char *token = "";
    for (int page = 0; page < MOST_PAGES; page++) {
        struct json *r;
        const char *path = arena_printf(
            &s->arena, "metrics/get-history?run_id=%s&metric_key=%s&max_results=25000%s%s", id,
            mlflow_escaped(&s->arena, str_z(key)), *token ? "&page_token=" : "", token);
        if (mlflow_call(s, path, NULL, &r, e))
            return -1;
        const struct json *v = json_get(r, "metrics");
        for (size_t i = 0; i < json_size(v); i++) {
            const struct json *step = json_get(json_at(v, i), "step");
            /* int64 of protobuf's JSON may be a string */
            struct str text = json_str(step);
            if (!text.n)
                text = str_printf(&s->arena, "%lld", (long long)json_int(step, 0));
            map_add(steps, str_copy(&s->arena, text), 0, NULL);
        }
        struct str next = json_str(json_get(r, "next_page_token"));
        token = next.n ? mlflow_escaped(&s->arena, next) : "";
        json_free(r);
        if (!*token)
            return 0;
    }
    return err_set(e, "mlflow: metric %s has no end", key);
}

static struct json *metric_json(const struct point *p)
{
    struct json *o = object("key", json_of_z(p->key));
    if (isfinite(p->value))
        json_put(o, "value", json_of_num(p->value));
    else
        json_put(o, "value",
                 json_of_z(isnan(p->value) ? "NaN"
                           : p->value > 0  ? "Infinity"
                                           : "-Infinity"));
    json_put(o, "timestamp", json_of_int((int64_t)llround(p->wall * 1e3)));
    json_put(o, "step", json_of_int(p->step));
    return o;
}

static int log_batch(struct mlflow_server *s, const char *id, const char *what, struct json *list,
                     struct err *e)
{
    struct json *q = object("run_id", json_of_z(id));
    json_put(q, what, list);
    return mlflow_call(s, "runs/log-batch", q, NULL, e);
}

/* All points, or when the run was there before, those that it lacks. */
static int send_points(struct mlflow_server *s, const struct remote *m, const struct flat *f,
                       int64_t *sent, struct err *e)
{
    struct json *list = json_arr();
    struct map have = {0};
    int rc = 0;
    for (size_t i = 0; i < f->n && !rc; i++) {
        const struct point *p = &f->v[i];
        if (m->had && (!i || strcmp(p->key, f->v[i - 1].key) != 0)) {
            map_release(&have);
            have = (struct map){0};
            rc = history(s, m->id, p->key, &have, e);
        }
        struct str step = str_printf(&s->arena, "%lld", (long long)p->step);
        if (rc || (m->had && map_find(&have, step) >= 0))
            continue;
        json_push(list, metric_json(p));
        ++*sent;
        if (json_size(list) == MOST_METRICS) {
            rc = log_batch(s, m->id, "metrics", list, e);
            list = json_arr();
        }
    }
    if (!rc && json_size(list)) {
        rc = log_batch(s, m->id, "metrics", list, e);
        list = NULL;
    }
    json_free(list);
    map_release(&have);
    return rc;
}

/* Pairs in batches; long values are cut at the length that every MLflow takes. */
static int send_pairs(struct mlflow_server *s, const char *id, const char *what, struct strs k,
                      struct strs v, struct err *e)
{
    for (size_t at = 0; at < k.n;) {
        struct json *list = json_arr();
        for (; at < k.n && json_size(list) < MOST_PARAMS; at++) {
            struct str value = v.v[at];
            if (value.n > MOST_VALUE) {
                value.n = MOST_VALUE;
                while (value.n && ((unsigned char)value.p[value.n] & 0xc0) == 0x80)
                    value.n--;
            }
            struct json *o = object("key", json_of_str(k.v[at]));
            json_put(o, "value", json_of_str(value));
            json_push(list, o);
        }
        if (log_batch(s, id, what, list, e))
            return -1;
    }
    return 0;
}

/* ---- the end -------------------------------------------------------------------- */

/* "killed at step 5" and the like have MLflow's five words. */
static const char *status_of(const struct result *r)
{
    static const struct {
        const char *begins, *word;
    } words[] = {{"failed", "FAILED"},         {"killed", "KILLED"},
                 {"incomplete", "KILLED"},     {"running", "RUNNING"},
                 {"not trained", "SCHEDULED"}, {"no result yet: fine-tuning failed", "FAILED"},
                 {"no result yet", "RUNNING"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_starts(r->status, words[i].begins))
            return words[i].word;
    return "FINISHED";
}

static int finish(struct mlflow_server *s, const struct remote *m, const struct result *r,
                  const struct flat *f, struct err *e)
{
    struct json *tags = json_arr(), *q = object("run_id", json_of_z(m->id));
    double end = 0;
    for (size_t i = 0; i < f->n; i++)
        end = fmax(end, f->v[i].wall);
    const char *status = status_of(r);
    json_push(tags, tag("assay.complete", STR_LIT("1")));
    json_put(q, "status", json_of_z(status));
    if (end > 0 && strcmp(status, "RUNNING") != 0)
        json_put(q, "end_time", json_of_int((int64_t)llround(end * 1e3)));
    if (mlflow_call(s, "runs/update", q, NULL, e)) {
        json_free(tags);
        return -1;
    }
    return log_batch(s, m->id, "tags", tags, e);
}

static int one_result(struct mlflow_server *s, const char *exp, const struct result *r,
                      const char *file, FILE *to, struct err *e)
{
    struct flat f;
    struct remote m;
    int64_t sent = 0;
    export_flatten(&f, r, &s->arena);
    if (find_run(s, exp, r, &f, &m, e) || (!m.id && create_run(s, exp, r, &f, &m, e)))
        return -1;
    if (!m.complete &&
        (send_pairs(s, m.id, "params", f.param, f.value, e) || send_points(s, &m, &f, &sent, e)))
        return -1;
    if (send_pairs(s, m.id, "tags", f.tag, f.tag_value, e) ||
        (file && mlflow_put(s, m.artifacts, "result.msgpack", file, e)) ||
        (s->j->report && mlflow_put(s, m.artifacts, "report.html", s->j->report, e)) ||
        finish(s, &m, r, &f, e))
        return -1;
    fprintf(to, "%s  %.*s  %s, %lld of %zu points sent\n", m.id, STR_ARG(r->run),
            m.complete ? "was complete"
            : m.had    ? "went on"
                       : "new",
            (long long)sent, f.n);
    return 0;
}

/* ---- opening ---------------------------------------------------------------------------------- */

int export_mlflow(const struct mlflow_job *j, const struct result *v, const char *const *files,
                  size_t n, FILE *to, struct err *e)
{
    struct mlflow_server s = {.j = j, .clock = j->clock ? j->clock : clock_system()};
    const char *exp;
    int rc = -1;
    mlflow_identify(&s);
    if (!(s.http = http_open(1, s.clock, e)) || experiment(&s, &exp, e))
        goto out;
    for (size_t i = 0; i < n; i++)
        if (one_result(&s, exp, &v[i], files ? files[i] : NULL, to, e)) {
            err_wrap(e, "run %.*s", STR_ARG(v[i].run));
            goto out;
        }
    rc = 0;
out:
    if (s.http)
        http_close(s.http);
    arena_release(&s.arena);
    return rc;
}
