/* export_mlflow: results to an MLflow server over its REST API 2.0, see export.h.
 *
 * Never doubled: a run is found by its tag assay.run; its tag assay.content is the hash of what it
 * holds, assay.complete says that all of it arrived. A complete run of the same content gets only its
 * tags and artefacts again. One that was cut in the middle is asked which steps of each metric it
 * has, and gets the others. MLflow can neither delete a metric's points nor change a parameter, so
 * other content means another run; the old one goes to the server's bin.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/http.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "pipelines/export.h"

enum { MOST_METRICS = 1000, MOST_PARAMS = 100, MOST_VALUE = 500, MOST_PAGES = 1000, TRIES = 4 };
#define MOST_REPLY ((size_t)64 << 20)

struct server {
    const struct mlflow_job *j;
    struct http *http;
    struct clock *clock;
    const char *headers[4];
    bool secret;
    struct arena arena;
};

/* ---- one call --------------------------------------------------------------------------------- */

struct answer {
    int status;
    bool refused;
    double retry_after;
    struct buf body;
    char failure[256];
};

static void on_answer(void *ctx, const struct http_reply *r)
{
    struct answer *a = ctx;
    a->status = r->status;
    a->refused = r->refused;
    a->retry_after = r->retry_after;
    snprintf(a->failure, sizeof a->failure, "%s", r->failure ? r->failure : "");
    buf_cut(&a->body, 0);
    buf_adds(&a->body, r->body);
}

/* What the server says is wrong: MLflow's error_code and message. */
static int server_says(const char *what, const struct answer *a, struct err *e)
{
    struct err ignored;
    struct json *j = json_parse_lone(buf_str(&a->body), &ignored);
    struct str code = json_str(json_get(j, "error_code")), why = json_str(json_get(j, "message"));
    int rc;
    if (why.n > 300)
        why.n = 300;
    if (a->status == 401 || a->status == 403)
        rc = err_set(e,
                     "%s: the server refuses us (status %d); MLFLOW_TRACKING_TOKEN or _USERNAME "
                     "and _PASSWORD say who we are",
                     what, a->status);
    else if (code.n)
        rc = err_set(e, "%s: %.*s: %.*s", what, STR_ARG(code), STR_ARG(why));
    else
        rc = err_set(e, "%s: status %d; is this an MLflow server?", what, a->status);
    json_free(j);
    return rc;
}

/* Once more only when the request did not get in (no connection, 429, 503): a request that may have
 * been taken is left to the next export, which looks what is there. */
static int send(struct server *s, const struct http_request *q, const char *what, struct answer *a,
                struct err *e)
{
    for (int k = 1;; k++) {
        double wait = 0.5 * (1 << k);
        a->status = 0;
        if (http_send(s->http, q, on_answer, a, e))
            return -1;
        while (http_pending(s->http))
            if (http_poll(s->http, 1, e))
                return -1;
        bool again = a->refused || a->status == 429 || a->status == 503;
        if (!again || k == TRIES)
            break;
        if (a->retry_after > wait)
            wait = a->retry_after < 120 ? a->retry_after : 120;
        s->clock->sleep(s->clock, wait);
    }
    if (a->status == 0)
        return err_code(e, EXIT_INCOMPLETE, "%s: %s; run it again, it goes on", what, a->failure);
    if (a->status == 429 || a->status >= 500) {
        server_says(what, a, e);
        e->code = EXIT_INCOMPLETE;
        return -1;
    }
    return 0;
}

/* POST of body (taken) to /api/2.0/mlflow/PATH, or GET without one. *reply may be NULL. A 404 of a GET is
 * *reply = NULL and no error. */
static int call(struct server *s, const char *path, struct json *body, struct json **reply,
                struct err *e)
{
    struct answer a = {0};
    struct buf text = {0};
    int rc = -1;
    if (reply)
        *reply = NULL;
    if (body)
        json_write(body, &text);
    struct http_request q = {.url =
                                 arena_printf(&s->arena, "%s/api/2.0/mlflow/%s", s->j->url, path),
                             .method = body ? "POST" : "GET",
                             .headers = s->headers,
                             .body = body ? buf_str(&text) : (struct str){0},
                             .timeout = 120,
                             .max_body = MOST_REPLY,
                             .secret = s->secret};
    const char *query = strchr(path, '?');
    const char *what = query ? arena_printf(&s->arena, "mlflow: %.*s", (int)(query - path), path)
                             : arena_printf(&s->arena, "mlflow: %s", path);
    if (send(s, &q, what, &a, e))
        goto out;
    if (a.status == 404 && !body) {
        rc = 0;
    } else if (a.status != 200) {
        server_says(what, &a, e);
    } else if (!reply) {
        rc = 0;
    } else {
        *reply = json_parse_lone(buf_str(&a.body), e);
        rc = *reply ? 0 : err_wrap(e, "%s", what);
    }
out:
    json_free(body);
    buf_release(&text);
    buf_release(&a.body);
    return rc;
}

static const char *escaped(struct arena *a, struct str s)
{
    struct buf b = {0};
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-_.~", c);
        buf_printf(&b, plain && c ? "%c" : "%%%02X", c);
    }
    const char *out = arena_strdup(a, b.p ? b.p : "");
    buf_release(&b);
    return out;
}

/* ---- experiment and run ----------------------------------------------------------------------- */

static struct json *object(const char *k, struct json *v)
{
    struct json *o = json_obj();
    json_put(o, k, v);
    return o;
}

static int experiment(struct server *s, const char **id, struct err *e)
{
    const char *name = s->j->experiment;
    const char *find = arena_printf(&s->arena, "experiments/get-by-name?experiment_name=%s",
                                    escaped(&s->arena, str_z(name)));
    struct json *r;
    struct str got;
    if (call(s, find, NULL, &r, e))
        return -1;
    if (!r && call(s, "experiments/create", object("name", json_of_z(name)), &r, e))
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

static int take_run(struct server *s, const struct json *run, struct remote *m, struct err *e)
{
    struct str id, uri;
    const struct json *info = json_get(run, "info");
    if (json_need_str(info, "run_id", &id, e) || json_need_str(info, "artifact_uri", &uri, e))
        return err_wrap(e, "mlflow");
    m->id = str_dup(&s->arena, id);
    m->artifacts = str_dup(&s->arena, uri);
    return 0;
}

static int delete_run(struct server *s, const char *id, struct err *e)
{
    return call(s, "runs/delete", object("run_id", json_of_z(id)), NULL, e);
}

/* The run of this name and content; those of other content, or a second one, are deleted. */
static int find_run(struct server *s, const char *exp, const struct result *r, const struct flat *f,
                    struct remote *m, struct err *e)
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
    if (call(s, "runs/search", q, &reply, e))
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

static int create_run(struct server *s, const char *exp, const struct result *r,
                      const struct flat *f, struct remote *m, struct err *e)
{
    struct json *q = object("experiment_id", json_of_z(exp)), *tags = json_arr(), *reply;
    json_put(q, "run_name", json_of_str(r->run));
    if (f->start > 0)
        json_put(q, "start_time", json_of_int((int64_t)llround(f->start * 1e3)));
    json_push(tags, tag("assay.run", r->run));
    json_push(tags, tag("assay.content", str_z(f->hash)));
    json_put(q, "tags", tags);
    if (call(s, "runs/create", q, &reply, e))
        return -1;
    int rc = take_run(s, json_get(reply, "run"), m, e);
    json_free(reply);
    return rc;
}

/* ---- points, parameters, tags ----------------------------------------------------------------- */

/* Steps that the server has of one metric, as keys of the map. */
static int history(struct server *s, const char *id, const char *key, struct map *steps,
                   struct err *e)
{
    const char *token = "";
    for (int page = 0; page < MOST_PAGES; page++) {
        struct json *r;
        const char *path = arena_printf(
            &s->arena, "metrics/get-history?run_id=%s&metric_key=%s&max_results=25000%s%s", id,
            escaped(&s->arena, str_z(key)), *token ? "&page_token=" : "", token);
        if (call(s, path, NULL, &r, e))
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
        token = next.n ? escaped(&s->arena, next) : "";
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

static int log_batch(struct server *s, const char *id, const char *what, struct json *list,
                     struct err *e)
{
    struct json *q = object("run_id", json_of_z(id));
    json_put(q, what, list);
    return call(s, "runs/log-batch", q, NULL, e);
}

/* All points, or when the run was there before, those that it lacks. */
static int send_points(struct server *s, const struct remote *m, const struct flat *f,
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
static int send_pairs(struct server *s, const char *id, const char *what, struct strs k,
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

/* ---- artefacts and the end -------------------------------------------------------------------- */

/* PUT through the server's artefact proxy. */
static int put_artifact(struct server *s, const struct remote *m, const char *name,
                        const char *path, struct err *e)
{
    static const char scheme[] = "mlflow-artifacts:/";
    struct file_map map;
    struct answer a = {0};
    if (strncmp(m->artifacts, scheme, strlen(scheme)) != 0) {
        log_warn("mlflow: artefacts go to %s, which is no door of the server; %s is not sent",
                 m->artifacts, name);
        return 0;
    }
    const char *where = m->artifacts + strlen(scheme);
    while (*where == '/')
        where++;
    if (file_map(path, &map, e))
        return -1;
    struct http_request q = {.url = arena_printf(&s->arena,
                                                 "%s/api/2.0/mlflow-artifacts/artifacts/%s/%s",
                                                 s->j->url, where, name),
                             .method = "PUT",
                             .headers = s->headers + 1, /* without the content type of JSON */
                             .body = {(const char *)map.p, map.n},
                             .timeout = 600,
                             .secret = s->secret};
    const char *what = arena_printf(&s->arena, "mlflow: artefact %s", name);
    int rc = send(s, &q, what, &a, e);
    if (!rc && a.status != 200)
        rc = server_says(what, &a, e);
    file_unmap(&map);
    buf_release(&a.body);
    return rc;
}

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

static int finish(struct server *s, const struct remote *m, const struct result *r,
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
    if (call(s, "runs/update", q, NULL, e)) {
        json_free(tags);
        return -1;
    }
    return log_batch(s, m->id, "tags", tags, e);
}

static int one_result(struct server *s, const char *exp, const struct result *r, const char *file,
                      FILE *to, struct err *e)
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
        (file && put_artifact(s, &m, "result.msgpack", file, e)) ||
        (s->j->report && put_artifact(s, &m, "report.html", s->j->report, e)) ||
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

static const char *base64(struct arena *a, const char *text)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf b = {0};
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (i + k < n ? (unsigned char)text[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            buf_addc(&b, i + k > n ? '=' : digit[v >> (18 - 6 * k) & 63]);
    }
    const char *out = arena_strdup(a, b.p ? b.p : "");
    buf_release(&b);
    return out;
}

/* From the environment, as MLflow's own clients take them; never from options, never logged. */
static void identify(struct server *s)
{
    const char *token = getenv("MLFLOW_TRACKING_TOKEN"), *user = getenv("MLFLOW_TRACKING_USERNAME"),
               *password = getenv("MLFLOW_TRACKING_PASSWORD");
    s->headers[0] = "Content-Type: application/json";
    if (token && *token)
        s->headers[1] = arena_printf(&s->arena, "Authorization: Bearer %s", token);
    else if (user && *user)
        s->headers[1] = arena_printf(
            &s->arena, "Authorization: Basic %s",
            base64(&s->arena, arena_printf(&s->arena, "%s:%s", user, password ? password : "")));
    s->secret = s->headers[1] != NULL;
}

int export_mlflow(const struct mlflow_job *j, const struct result *v, const char *const *files,
                  size_t n, FILE *to, struct err *e)
{
    struct server s = {.j = j, .clock = j->clock ? j->clock : clock_system()};
    const char *exp;
    int rc = -1;
    identify(&s);
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
