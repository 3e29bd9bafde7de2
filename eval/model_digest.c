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

int model_digest(const struct chat_target *t, const char *const *headers, struct clock *clock,
                 struct arena *a, const char **digest, struct err *e)
{
    struct asking x = {.t = t, .a = a, .digest = digest, .e = e};
    *digest = NULL;
    if (!t->dialect->tags_path)
        return 0;
    struct http_request q = {.url = arena_printf(a, "%s%s", t->server, t->dialect->tags_path),
                             .headers = headers,
                             .timeout = SECONDS,
                             .secret = t->key != NULL};
    struct http *h = http_open(1, clock, e);
    if (!h)
        return -1;
    int rc = http_send(h, &q, arrived, &x, e);
    while (rc == 0 && !x.done) {
        rc = http_poll(h, 0.25, e);
        if (rc == 0 && interrupt_raised())
            rc = err_code(e, EXIT_INCOMPLETE, "interrupted");
    }
    http_close(h);
    return rc ? rc : x.rc;
}
