/* mlflow: see mlflow.h. */
#include "pipelines/mlflow.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

enum { TRIES = 4 };
#define MOST_REPLY ((size_t)64 << 20)

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
static int send(struct mlflow_server *s, const struct http_request *q, const char *what,
                struct answer *a, struct err *e)
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

int mlflow_call(struct mlflow_server *s, const char *path, struct json *body, struct json **reply,
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

const char *mlflow_escaped(struct arena *a, struct str s)
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

int mlflow_put(struct mlflow_server *s, const char *artifacts, const char *name, const char *path,
               struct err *e)
{
    static const char scheme[] = "mlflow-artifacts:/";
    struct file_map map;
    struct answer a = {0};
    if (strncmp(artifacts, scheme, strlen(scheme)) != 0) {
        log_warn("mlflow: artefacts go to %s, which is no door of the server; %s is not sent",
                 artifacts, name);
        return 0;
    }
    const char *where = artifacts + strlen(scheme);
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

void mlflow_identify(struct mlflow_server *s)
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
