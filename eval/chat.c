/* chat: specs, request bodies. Replies are read in eval/chat_read.c. See eval/chat.h. */
#include "eval/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { OLLAMA_NUM_CTX = 8192, OLLAMA_MAX_CTX = 1 << 22, ANTHROPIC_MAX_TOKENS = 1024 };

/* ---- specs ---------------------------------------------------------------------------------- */

static int check_base(const char *base, const char *what, struct err *e)
{
    size_t scheme = strncmp(base, "http://", 7) == 0    ? 7
                    : strncmp(base, "https://", 8) == 0 ? 8
                                                        : 0;
    const char *host = base + scheme;
    size_t n = strcspn(host, "/");
    if (!scheme || n == 0)
        return err_code(e, EXIT_USAGE, "%s must begin with http:// or https:// and a host", what);
    if (memchr(host, '@', n))
        return err_code(e, EXIT_USAGE,
                        "%s must not hold a user or password: keys come from the environment only",
                        what);
    for (const char *c = base; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == '?' || *c == 0x7f)
            return err_code(e, EXIT_USAGE, "%s has a character that no base URL has", what);
    return 0;
}

static int set_base(struct chat_target *t, const char *base, const char *what, struct arena *a,
                    struct err *e)
{
    if (check_base(base, what, e))
        return -1;
    size_t n = strlen(base);
    while (n && base[n - 1] == '/')
        n--;
    t->server = arena_bytes(a, base, n);
    t->url = arena_printf(a, "%s%s", t->server, t->dialect->path);
    if (t->dialect->complete_path)
        t->complete_url = arena_printf(a, "%s%s", t->server, t->dialect->complete_path);
    return 0;
}

static void set_key(struct chat_target *t, const char *name, struct arena *a)
{
    const char *v = getenv(name);
    t->key_name = name;
    t->key = v && *v ? arena_strdup(a, v) : NULL;
}

static int openai_spec(struct chat_target *t, const char *rest, struct arena *a, struct err *e)
{
    const char *base = getenv("OPENAI_BASE_URL");
    t->dialect = &chat_openai;
    t->model = arena_strdup(a, rest);
    t->new_tokens_name = true;
    set_key(t, "OPENAI_API_KEY", a);
    if (!t->key)
        return err_code(e, EXIT_USAGE, "the environment has no OPENAI_API_KEY");
    return set_base(t, base && *base ? base : "https://api.openai.com/v1", "OPENAI_BASE_URL", a, e);
}

static int anthropic_spec(struct chat_target *t, const char *rest, struct arena *a, struct err *e)
{
    const char *base = getenv("ANTHROPIC_BASE_URL");
    t->dialect = &chat_anthropic;
    t->model = arena_strdup(a, rest);
    set_key(t, "ANTHROPIC_API_KEY", a);
    if (!t->key)
        return err_code(e, EXIT_USAGE, "the environment has no ANTHROPIC_API_KEY");
    return set_base(t, base && *base ? base : "https://api.anthropic.com", "ANTHROPIC_BASE_URL", a,
                    e);
}

static int ollama_spec(struct chat_target *t, const char *rest, struct arena *a, struct err *e)
{
    const char *host = getenv("OLLAMA_HOST"), *q = strchr(rest, '?');
    t->dialect = &chat_ollama;
    t->num_ctx = OLLAMA_NUM_CTX;
    t->num_ctx_given = q != NULL;
    t->model = q ? arena_bytes(a, rest, (size_t)(q - rest)) : arena_strdup(a, rest);
    if (q && (strncmp(q, "?num_ctx=", 9) != 0 || str_i64(str_z(q + 9), &t->num_ctx) ||
              t->num_ctx < 128 || t->num_ctx > OLLAMA_MAX_CTX))
        return err_code(e, EXIT_USAGE, "behind a model stands only ?num_ctx=N with N in 128..%d",
                        OLLAMA_MAX_CTX);
    if (!host || !*host)
        host = "http://127.0.0.1:11434";
    else if (!strstr(host, "://"))
        host = arena_printf(a, "http://%s%s", host, strchr(host, ':') ? "" : ":11434");
    return set_base(t, host, "OLLAMA_HOST", a, e);
}

static int url_spec(struct chat_target *t, const char *spec, struct arena *a, struct err *e)
{
    const char *hash = strchr(spec, '#');
    t->dialect = &chat_openai;
    if (!hash)
        return err_code(e, EXIT_USAGE, "it lacks the model: http://HOST:PORT/v1#MODEL");
    t->model = arena_strdup(a, hash + 1);
    set_key(t, "ASSAY_API_KEY", a);
    return set_base(t, arena_bytes(a, spec, (size_t)(hash - spec)), "a model's URL", a, e);
}

/* Often a key read from a file with its line feed. The value is never shown. */
static int check_key(const struct chat_target *t, struct err *e)
{
    for (const char *c = t->key; c && *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            return err_code(e, EXIT_USAGE,
                            "%s holds a blank, a line break or another character that no key has",
                            t->key_name);
    return 0;
}

int chat_target_parse(struct chat_target *t, const char *spec, struct arena *a, struct err *e)
{
    int rc;
    *t = (struct chat_target){0};
    if (strncmp(spec, "openai:", 7) == 0)
        rc = openai_spec(t, spec + 7, a, e);
    else if (strncmp(spec, "anthropic:", 10) == 0)
        rc = anthropic_spec(t, spec + 10, a, e);
    else if (strncmp(spec, "ollama:", 7) == 0)
        rc = ollama_spec(t, spec + 7, a, e);
    else
        rc = url_spec(t, spec, a, e);
    if (rc == 0)
        rc = check_key(t, e);
    if (rc == 0 && !*t->model)
        rc = err_code(e, EXIT_USAGE, "the model's name is empty");
    return rc ? err_wrap(e, "model %s", strchr(spec, '@') ? "spec" : spec) : 0;
}

/* ---- bodies --------------------------------------------------------------------------------- */

static struct json *message(const char *role, struct str text)
{
    struct json *m = json_obj();
    json_put(m, "role", json_of_z(role));
    json_put(m, "content", json_of_str(text));
    return m;
}

static struct json *messages(const struct request *q, bool system_too)
{
    struct json *v = json_arr();
    if (q->system.n && system_too)
        json_push(v, message("system", q->system));
    json_push(v, message("user", q->prompt));
    return v;
}

static struct json *stops(const struct request *q, size_t most)
{
    struct json *v = json_arr();
    for (size_t i = 0; i < q->stop.n && i < most; i++)
        json_push(v, json_of_str(q->stop.v[i]));
    return v;
}

/* Servers keep seeds in 32 signed bits or less. */
static int64_t seed31(const struct request *q)
{
    return (int64_t)(q->seed & 0x7fffffff);
}

/* The schema of a request as a value, NULL without one. It is ours, so it parses. */
static struct json *schema_of(const struct request *q)
{
    struct err ignored = {0};
    return q->schema.n ? json_parse(q->schema, &ignored) : NULL;
}

/* OpenAI's structured output, which llama-server and vLLM read too. */
static struct json *response_format(const struct request *q)
{
    struct json *schema = schema_of(q), *f = json_obj();
    json_put(f, "type", json_of_z(schema ? "json_schema" : "json_object"));
    if (schema) {
        struct json *s = json_obj();
        json_put(s, "name", json_of_z("verdict"));
        json_put(s, "schema", schema);
        json_put(s, "strict", json_of_bool(true));
        json_put(f, "json_schema", s);
    }
    return f;
}

/* A negative temperature is left out: some models take only their default. */
static void openai_body(const struct chat_target *t, const struct request *q, struct buf *out)
{
    struct json *b = json_obj();
    json_put(b, "model", json_of_z(t->model));
    json_put(b, "messages", messages(q, true));
    json_put(b, "stream", json_of_bool(false));
    if (q->max_tokens > 0)
        json_put(b, t->new_tokens_name ? "max_completion_tokens" : "max_tokens",
                 json_of_int(q->max_tokens));
    if (q->temperature >= 0)
        json_put(b, "temperature", json_of_num(q->temperature));
    json_put(b, "seed", json_of_int(seed31(q)));
    if (q->top_p > 0 && q->top_p < 1)
        json_put(b, "top_p", json_of_num(q->top_p));
    if (q->top_k > 0 && !t->new_tokens_name) /* OpenAI itself has no such field */
        json_put(b, "top_k", json_of_int(q->top_k));
    if (q->stop.n)
        json_put(b, "stop", stops(q, 4));
    if (q->json || q->schema.n)
        json_put(b, "response_format", response_format(q));
    json_write(b, out);
    json_free(b);
}

static void ollama_body(const struct chat_target *t, const struct request *q, struct buf *out)
{
    struct json *b = json_obj(), *o = json_obj();
    json_put(b, "model", json_of_z(t->model));
    json_put(b, "messages", messages(q, true));
    json_put(b, "stream", json_of_bool(false));
    struct json *schema = schema_of(q);
    if (schema || q->json)
        json_put(b, "format", schema ? schema : json_of_z("json"));
    if (q->temperature >= 0)
        json_put(o, "temperature", json_of_num(q->temperature));
    json_put(o, "seed", json_of_int(seed31(q)));
    json_put(o, "num_ctx", json_of_int(t->num_ctx));
    if (q->max_tokens > 0)
        json_put(o, "num_predict", json_of_int(q->max_tokens));
    if (q->top_p > 0 && q->top_p < 1)
        json_put(o, "top_p", json_of_num(q->top_p));
    if (q->top_k > 0)
        json_put(o, "top_k", json_of_int(q->top_k));
    if (q->stop.n)
        json_put(o, "stop", stops(q, q->stop.n));
    json_put(b, "options", o);
    json_write(b, out);
    json_free(b);
}

/* No seed and no schema there; max_tokens is required. */
static void anthropic_body(const struct chat_target *t, const struct request *q, struct buf *out)
{
    struct json *b = json_obj();
    json_put(b, "model", json_of_z(t->model));
    json_put(b, "max_tokens",
             json_of_int(q->max_tokens > 0 ? q->max_tokens : ANTHROPIC_MAX_TOKENS));
    if (q->system.n)
        json_put(b, "system", json_of_str(q->system));
    json_put(b, "messages", messages(q, false));
    json_put(b, "stream", json_of_bool(false));
    if (q->temperature >= 0)
        json_put(b, "temperature", json_of_num(q->temperature));
    if (q->top_p > 0 && q->top_p < 1)
        json_put(b, "top_p", json_of_num(q->top_p));
    if (q->top_k > 0)
        json_put(b, "top_k", json_of_int(q->top_k));
    if (q->stop.n)
        json_put(b, "stop_sequences", stops(q, q->stop.n));
    json_write(b, out);
    json_free(b);
}

const struct chat_dialect chat_openai = {.name = "openai",
                                         .path = "/chat/completions",
                                         .complete_path = "/completions",
                                         .body = openai_body,
                                         .key_header = "Authorization: Bearer "};
const struct chat_dialect chat_ollama = {.name = "ollama",
                                         .path = "/api/chat",
                                         .tags_path = "/api/tags",
                                         .show_path = "/api/show",
                                         .body = ollama_body,
                                         .key_header = "Authorization: Bearer "};
const struct chat_dialect chat_anthropic = {.name = "anthropic",
                                            .path = "/v1/messages",
                                            .body = anthropic_body,
                                            .key_header = "x-api-key: ",
                                            .extra_header = "anthropic-version: 2023-06-01",
                                            .quota_is_silent = true};
