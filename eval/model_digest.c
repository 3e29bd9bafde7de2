/* model_digest: see eval/model_digest.h. Ollama's GET /api/tags (docs/api.md):
 * {"models": [{"name": "llama3:latest", "model": "llama3:latest", "digest": "365c0bd3c000...", ...}]}
 */
#include "eval/model_digest.h"

#include <string.h>

#include "base/http.h"
#include "base/json.h"
#include "base/thread.h"

enum { SHOWN = 16, SECONDS = 10 };

struct asking {
    const struct chat_target *t;
    struct arena *a;
    const char **digest;
    int64_t context;
    bool done;
    struct err *e;
    int rc;
};

/* "llama3" is "llama3:latest". */
static bool same_model(struct str name, const char *asked)
{
    const char *slash = strrchr(asked, '/'), *tag = strchr(slash ? slash : asked, ':');
    size_t n = strlen(asked);
    if (name.n < n || memcmp(name.p, asked, n) != 0)
        return false;
    return name.n == n || (!tag && str_eqz((struct str){name.p + n, name.n - n}, ":latest"));
}

static const char *digest_in(const struct json *doc, const char *asked, struct arena *a)
{
    const struct json *list = json_get(doc, "models");
    for (size_t i = 0; i < json_size(list); i++) {
        const struct json *m = json_at(list, i);
        struct str d = json_str(json_get(m, "digest"));
        if (!same_model(json_str(json_get(m, "name")), asked) &&
            !same_model(json_str(json_get(m, "model")), asked))
            continue;
        if (str_starts(d, "sha256:"))
            d = (struct str){d.p + 7, d.n - 7};
        d.n = d.n < SHOWN ? d.n : SHOWN;
        for (size_t k = 0; k < d.n; k++)
            if (!strchr("0123456789abcdefABCDEF", d.p[k]))
                return NULL;
        return d.n ? str_dup(a, d) : NULL;
    }
    return NULL;
}

static void arrived(void *ctx, const struct http_reply *h)
{
    struct asking *x = ctx;
    struct err ignored;
    x->done = true;
    if (!h->status || h->status >= 500) {
        const char *why = h->status ? arena_printf(x->a, "HTTP %d", h->status) : h->failure;
        x->rc = err_code(x->e, EXIT_INCOMPLETE,
                         "%s: %s, so it is not known which %s it has (is Ollama running? "
                         "OLLAMA_HOST says where)",
                         x->t->server, why, x->t->model);
        return;
    }
    struct json *doc = h->status == 200 ? json_parse(h->body, &ignored) : NULL;
    *x->digest = digest_in(doc, x->t->model, x->a);
    json_free(doc);
}

/* Asks x's question and waits for arrived(). */
static int ask(struct asking *x, const char *path, struct str body, const char *const *headers,
               struct clock *clock, void (*got)(void *, const struct http_reply *))
{
    struct http_request q = {.url = arena_printf(x->a, "%s%s", x->t->server, path),
                             .headers = headers,
                             .body = body,
                             .timeout = SECONDS,
                             .secret = x->t->key != NULL};
    struct http *h = http_open(1, clock, x->e);
    if (!h)
        return -1;
    x->done = false;
    int rc = http_send(h, &q, got, x, x->e);
    while (rc == 0 && !x->done) {
        rc = http_poll(h, 0.25, x->e);
        if (rc == 0 && interrupt_raised())
            rc = err_code(x->e, EXIT_INCOMPLETE, "interrupted");
    }
    http_close(h);
    return rc ? rc : x->rc;
}

/* {"model_info": {"llama.context_length": 8192, ...}, ...} under the name of the architecture. */
static void shown(void *ctx, const struct http_reply *h)
{
    struct asking *x = ctx;
    struct err ignored;
    const char *key;
    const struct json *v;
    void *it = NULL;
    struct json *doc = h->status == 200 ? json_parse(h->body, &ignored) : NULL;
    x->done = true;
    while (json_each(json_get(doc, "model_info"), &it, &key, &v))
        if (str_ends(str_z(key), ".context_length"))
            x->context = json_int(v, 0);
    json_free(doc);
}

int model_fit_context(struct chat_target *t, const char *const *headers, struct clock *clock,
                      struct arena *a, struct err *e)
{
    struct asking x = {.t = t, .a = a, .e = e};
    struct buf body = {0};
    if (!t->dialect->show_path)
        return 0;
    buf_addz(&body, "{\"model\":");
    json_quote(str_z(t->model), &body);
    buf_addc(&body, '}');
    int rc = ask(&x, t->dialect->show_path, buf_str(&body), headers, clock, shown);
    buf_release(&body);
    if (rc || x.context <= 0 || t->num_ctx <= x.context)
        return rc;
    if (t->num_ctx_given)
        return err_code(e, EXIT_USAGE,
                        "%s has a context of %lld tokens, num_ctx=%lld is more and would be cut: "
                        "want ollama:%s?num_ctx=%lld",
                        t->model, (long long)x.context, (long long)t->num_ctx, t->model,
                        (long long)x.context);
    t->num_ctx = x.context;
    return 0;
}

int model_digest(const struct chat_target *t, const char *const *headers, struct clock *clock,
                 struct arena *a, const char **digest, struct err *e)
{
    struct asking x = {.t = t, .a = a, .digest = digest, .e = e};
    *digest = NULL;
    if (!t->dialect->tags_path)
        return 0;
    return ask(&x, t->dialect->tags_path, (struct str){0}, headers, clock, arrived);
}
