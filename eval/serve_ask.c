/* serve_ask: the body of a request, read with distrust. Pure.
 *
 * Every parameter has a row: what it may be and where it goes. A parameter that we can't honour is
 * refused by name unless it is null or says what would happen anyway; one without a row is refused
 * too, so that a misspelt "temperatur" is no silent default.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "eval/serve_private.h"

enum where { IN_TEXT = 1, IN_CHAT = 2, IN_BOTH = 3 };

struct reader {
    struct serve_ask *k;
    struct arena *a;
    struct serve_fault *f;
    const char *name;
    int64_t best_of, top_logprobs, new_max;
    bool logprobs;
};
typedef int take_fn(struct reader *r, const struct json *v);

int serve_refuse(struct serve_fault *f, int status, const char *param, const char *fmt, ...)
{
    va_list ap;
    *f = (struct serve_fault){.status = status,
                              .type = status == 401   ? "authentication_error"
                                      : status == 429 ? "rate_limit_error"
                                      : status >= 500 ? "server_error"
                                                      : "invalid_request_error"};
    snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    va_start(ap, fmt);
    vsnprintf(f->message, sizeof f->message, fmt, ap);
    va_end(ap);
    return -1;
}

#define REFUSE(r, ...) serve_refuse((r)->f, 400, (r)->name, __VA_ARGS__)

/* ---- prompts -------------------------------------------------------------------------------- */

static int take_ids(struct reader *r, const struct json *v, struct serve_prompt *p)
{
    p->n = json_size(v);
    int32_t *ids = arena_array(r->a, p->n + 1, sizeof *ids);
    for (size_t i = 0; i < p->n; i++) {
        int64_t id = json_int(json_at(v, i), -1);
        if (id < 0 || id > INT32_MAX)
            return REFUSE(r, "token %zu of the prompt is no id", i);
        ids[i] = (int32_t)id;
    }
    p->ids = ids;
    return 0;
}

static int take_one_prompt(struct reader *r, const struct json *v, struct serve_prompt *p)
{
    if (json_kind(v) == JSON_STR)
        p->text = str_copy(r->a, json_str(v));
    else if (json_kind(v) == JSON_ARR)
        return take_ids(r, v, p);
    else
        return REFUSE(r, "a prompt is a string or an array of token ids");
    return 0;
}

static int take_prompt(struct reader *r, const struct json *v)
{
    struct serve_ask *k = r->k;
    enum json_kind first = json_kind(json_at(v, 0));
    bool many = json_kind(v) == JSON_ARR && (first == JSON_STR || first == JSON_ARR);
    k->prompts = many ? json_size(v) : 1;
    if (json_kind(v) == JSON_ARR && !json_size(v))
        return REFUSE(r, "the prompt is an empty array");
    if (k->prompts > SERVE_CHOICES)
        return REFUSE(r, "%zu prompts are more than %d", k->prompts, SERVE_CHOICES);
    k->prompt = arena_array(r->a, k->prompts, sizeof *k->prompt);
    for (size_t i = 0; i < k->prompts; i++)
        if (take_one_prompt(r, many ? json_at(v, i) : v, &k->prompt[i]))
            return -1;
    return 0;
}

/* A string, or parts of which only text is understood. */
static int take_content(struct reader *r, const struct json *v, struct str *out)
{
    struct buf b = {0};
    if (json_kind(v) == JSON_STR) {
        *out = str_copy(r->a, json_str(v));
        return 0;
    }
    if (json_kind(v) != JSON_ARR)
        return REFUSE(r, "a message needs \"content\", a string or parts of text");
    for (size_t i = 0; i < json_size(v); i++) {
        const struct json *part = json_at(v, i), *text = json_get(part, "text");
        if (!str_eqz(json_str(json_get(part, "type")), "text") || json_kind(text) != JSON_STR) {
            buf_release(&b);
            return REFUSE(r, "part %zu of a message is no text; this model reads nothing else", i);
        }
        buf_adds(&b, json_str(text));
    }
    *out = str_copy(r->a, buf_str(&b));
    buf_release(&b);
    return 0;
}

static int take_messages(struct reader *r, const struct json *v)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", NULL};
    struct serve_ask *k = r->k;
    k->messages = json_size(v);
    if (json_kind(v) != JSON_ARR || !k->messages || k->messages > SERVE_MESSAGES)
        return REFUSE(r, "messages is an array of 1 to %d messages", SERVE_MESSAGES);
    k->message = arena_array(r->a, k->messages, sizeof *k->message);
    for (size_t i = 0; i < k->messages; i++) {
        const struct json *m = json_at(v, i);
        struct str role = json_str(json_get(m, "role"));
        int known = 0;
        while (roles[known] && !str_eqz(role, roles[known]))
            known++;
        if (!roles[known])
            return REFUSE(r,
                          "message %zu has no role that is known here: system, developer, user, "
                          "assistant",
                          i);
        k->message[i].role = str_z(roles[known]);
        if (take_content(r, json_get(m, "content"), &k->message[i].text))
            return -1;
    }
    if (!str_eqz(k->message[k->messages - 1].role, "user"))
        return REFUSE(r, "the last message is not the user's");
    return 0;
}

/* ---- other shapes --------------------------------------------------------------------------- */

static int take_stop(struct reader *r, const struct json *v)
{
    bool many = json_kind(v) == JSON_ARR;
    size_t n = many ? json_size(v) : 1;
    if (n > SERVE_STOPS)
        return REFUSE(r, "%zu stop strings are more than %d", n, SERVE_STOPS);
    for (size_t i = 0; i < n; i++) {
        const struct json *one = many ? json_at(v, i) : v;
        struct str s = json_str(one);
        if (json_kind(one) != JSON_STR || s.n > SERVE_STOP_LEN)
            return REFUSE(r, "stop is a string or an array of them, %d bytes each at most",
                          SERVE_STOP_LEN);
        if (!s.n)
            return REFUSE(r, "an empty stop string ends no text: leave it out");
        strs_push(&r->k->stop, str_copy(r->a, s), r->a);
    }
    return 0;
}

static int take_model(struct reader *r, const struct json *v)
{
    if (json_kind(v) != JSON_STR)
        return REFUSE(r, "model is a string");
    r->k->model = str_copy(r->a, json_str(v));
    return 0;
}

static int take_stream_options(struct reader *r, const struct json *v)
{
    void *it = NULL;
    const char *key;
    const struct json *x;
    if (json_kind(v) != JSON_OBJ)
        return REFUSE(r, "stream_options is an object");
    while (json_each(v, &it, &key, &x))
        if (strcmp(key, "include_usage") == 0 && json_kind(x) == JSON_BOOL)
            r->k->usage = json_bool(x);
        else if (strcmp(key, "include_obfuscation") != 0)
            return REFUSE(r, "stream_options knows include_usage: true or false");
    return 0;
}

/* Completions: how many; chat: yes or no. */
static int take_logprobs(struct reader *r, const struct json *v)
{
    if (r->k->chat) {
        if (json_kind(v) != JSON_BOOL)
            return REFUSE(r, "logprobs of a chat is true or false");
        r->logprobs = json_bool(v);
        return 0;
    }
    int64_t n = json_int(v, -1);
    if (json_kind(v) != JSON_INT || n < 0 || n > SERVE_TOP)
        return REFUSE(r, "logprobs is a number from 0 to %d", SERVE_TOP);
    r->k->top = n;
    return 0;
}

static int take_format(struct reader *r, const struct json *v)
{
    if (!str_eqz(json_str(json_get(v, "type")), "text"))
        return REFUSE(r, "only response_format {\"type\": \"text\"} can be had here");
    return 0;
}

/* What would happen anyway: 0, false, "", [] or {}. */
static int take_neutral(struct reader *r, const struct json *v)
{
    enum json_kind kind = json_kind(v);
    bool none = (kind == JSON_BOOL && !json_bool(v)) ||
                ((kind == JSON_INT || kind == JSON_REAL) && json_num(v) == 0) ||
                (kind == JSON_STR && !json_str(v).n) ||
                ((kind == JSON_ARR || kind == JSON_OBJ) && !json_size(v));
    return none ? 0 : REFUSE(r, "%s is not supported by this server", r->name);
}

static int take_anything(struct reader *r, const struct json *v)
{
    (void)r;
    (void)v;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

#define K(m) offsetof(struct serve_ask, m)
#define R(m) offsetof(struct reader, m)
enum shape {
    BY_FN,
    ASK_INT,
    ASK_REAL,
    ASK_ABOVE /* min itself is refused */,
    ASK_BOOL,
    READER_INT
};
static const struct parameter {
    const char *name;
    enum where where;
    enum shape shape;
    size_t at;
    double min, max;
    take_fn *take;
} parameters[] = {
    {"model", IN_BOTH, BY_FN, 0, 0, 0, take_model},
    {"prompt", IN_TEXT, BY_FN, 0, 0, 0, take_prompt},
    {"messages", IN_CHAT, BY_FN, 0, 0, 0, take_messages},
    {"max_tokens", IN_BOTH, ASK_INT, K(max_tokens), 0, 1 << 24, NULL},
    {"max_completion_tokens", IN_CHAT, READER_INT, R(new_max), 0, 1 << 24, NULL},
    {"temperature", IN_BOTH, ASK_REAL, K(rule.temperature), 0, 100, NULL},
    {"top_p", IN_BOTH, ASK_ABOVE, K(rule.top_p), 0, 1, NULL},
    {"top_k", IN_BOTH, ASK_INT, K(rule.top_k), -1, 1 << 24, NULL},
    {"min_p", IN_BOTH, ASK_REAL, K(rule.min_p), 0, 1, NULL},
    {"repetition_penalty", IN_BOTH, ASK_REAL, K(rule.repeat), 0.01, 100, NULL},
    {"n", IN_BOTH, ASK_INT, K(n), 1, SERVE_CHOICES, NULL},
    {"best_of", IN_TEXT, READER_INT, R(best_of), 1, SERVE_CHOICES, NULL},
    {"stop", IN_BOTH, BY_FN, 0, 0, 0, take_stop},
    {"seed", IN_BOTH, ASK_INT, K(seed), 0, 9007199254740991.0, NULL},
    {"stream", IN_BOTH, ASK_BOOL, K(stream), 0, 0, NULL},
    {"stream_options", IN_BOTH, BY_FN, 0, 0, 0, take_stream_options},
    {"echo", IN_TEXT, ASK_BOOL, K(echo), 0, 0, NULL},
    {"logprobs", IN_BOTH, BY_FN, 0, 0, 0, take_logprobs},
    {"top_logprobs", IN_CHAT, READER_INT, R(top_logprobs), 0, SERVE_TOP, NULL},
    {"response_format", IN_CHAT, BY_FN, 0, 0, 0, take_format},
    {"suffix", IN_TEXT, BY_FN, 0, 0, 0, take_neutral},
    {"presence_penalty", IN_BOTH, BY_FN, 0, 0, 0, take_neutral},
    {"frequency_penalty", IN_BOTH, BY_FN, 0, 0, 0, take_neutral},
    {"logit_bias", IN_BOTH, BY_FN, 0, 0, 0, take_neutral},
    {"tools", IN_CHAT, BY_FN, 0, 0, 0, take_neutral},
    {"functions", IN_CHAT, BY_FN, 0, 0, 0, take_neutral},
    {"store", IN_CHAT, BY_FN, 0, 0, 0, take_neutral},
    {"user", IN_BOTH, BY_FN, 0, 0, 0, take_anything},
    {"metadata", IN_CHAT, BY_FN, 0, 0, 0, take_anything},
    {0},
};

static int take_number(struct reader *r, const struct parameter *p, const struct json *v)
{
    double x = json_num(v);
    bool above = p->shape == ASK_ABOVE, real = p->shape == ASK_REAL || above;
    if (json_kind(v) != JSON_INT && !(real && json_kind(v) == JSON_REAL))
        return REFUSE(r, "%s is %s", p->name, real ? "a number" : "an integer");
    if (above && !(x > p->min && x <= p->max))
        return REFUSE(r, "%s is above %.15g and up to %.15g", p->name, p->min, p->max);
    if (!(x >= p->min && x <= p->max))
        return REFUSE(r, "%s is from %.16g to %.16g", p->name, p->min, p->max);
    char *base = p->shape == READER_INT ? (char *)r : (char *)r->k;
    if (real)
        *(double *)(void *)(base + p->at) = x;
    else
        *(int64_t *)(void *)(base + p->at) = json_int(v, 0);
    return 0;
}

static int take(struct reader *r, const struct parameter *p, const struct json *v)
{
    if (p->shape == BY_FN)
        return p->take(r, v);
    if (p->shape != ASK_BOOL)
        return take_number(r, p, v);
    if (json_kind(v) != JSON_BOOL)
        return REFUSE(r, "%s is true or false", p->name);
    *(bool *)(void *)((char *)r->k + p->at) = json_bool(v);
    return 0;
}

/* What no single parameter shows. */
static int check(struct reader *r)
{
    struct serve_ask *k = r->k;
    if (k->chat ? !k->messages : !k->prompts)
        return serve_refuse(r->f, 400, k->chat ? "messages" : "prompt", "%s is missing",
                            k->chat ? "messages" : "prompt");
    if (r->best_of > 0 && r->best_of != k->n)
        return serve_refuse(r->f, 400, "best_of", "best_of other than n is not supported");
    if (r->top_logprobs >= 0 && !r->logprobs)
        return serve_refuse(r->f, 400, "top_logprobs", "top_logprobs needs logprobs: true");
    if (r->new_max >= 0 && k->max_tokens >= 0 && r->new_max != k->max_tokens)
        return serve_refuse(r->f, 400, "max_completion_tokens",
                            "max_tokens and max_completion_tokens say different things");
    if (r->new_max >= 0)
        k->max_tokens = r->new_max;
    if (r->logprobs)
        k->top = r->top_logprobs > 0 ? r->top_logprobs : 0;
    if (k->usage && !k->stream)
        return serve_refuse(r->f, 400, "stream_options", "stream_options needs stream: true");
    if ((int64_t)(k->chat ? 1 : k->prompts) * k->n > SERVE_CHOICES)
        return serve_refuse(r->f, 400, "n", "prompts times n is more than %d", SERVE_CHOICES);
    if (!k->chat && k->max_tokens < 0)
        k->max_tokens = 16; /* the API's default */
    if (k->rule.top_k < 0)
        k->rule.top_k = 0;
    return 0;
}

int serve_ask_read(struct serve_ask *k, bool chat, struct str body, struct arena *a,
                   struct serve_fault *f)
{
    struct reader r = {.k = k, .a = a, .f = f, .best_of = -1, .top_logprobs = -1, .new_max = -1};
    struct err e = {0};
    void *it = NULL;
    const struct json *v;
    *k = (struct serve_ask){.chat = chat,
                            .n = 1,
                            .max_tokens = -1,
                            .seed = -1,
                            .top = -1,
                            .rule = {.temperature = 1, .top_p = 1, .repeat = 1}};
    struct json *doc = json_parse_lone(body, &e);
    int rc = doc ? 0 : serve_refuse(f, 400, NULL, "the body is no JSON: %s", e.msg);
    if (!rc && json_kind(doc) != JSON_OBJ)
        rc = serve_refuse(f, 400, NULL, "the body is no JSON object");
    while (!rc && json_each(doc, &it, &r.name, &v)) {
        const struct parameter *p = parameters;
        while (p->name &&
               (strcmp(p->name, r.name) != 0 || !(p->where & (chat ? IN_CHAT : IN_TEXT))))
            p++;
        if (!p->name)
            rc = REFUSE(&r, "unknown parameter \"%.60s\"", r.name);
        else if (json_kind(v) != JSON_NULL)
            rc = take(&r, p, v);
    }
    if (!rc)
        rc = check(&r);
    json_free(doc);
    return rc;
}

/* ---- chat ----------------------------------------------------------------------------------- */

void serve_chat_prompt(const struct serve_ask *k, const struct template *t, struct buf *out)
{
    struct buf user = {0};
    for (size_t i = 0; i < k->messages; i++) {
        const struct serve_message *m = &k->message[i];
        if (str_eqz(m->role, "assistant")) {
            buf_adds(out, m->text);
            buf_addz(out, "\n\n");
            continue;
        }
        if (user.n)
            buf_addz(&user, "\n\n");
        buf_adds(&user, m->text);
        if (!str_eqz(m->role, "user"))
            continue; /* a system text goes before the user's next words */
        template_prompt(t, buf_str(&user), (struct str){0}, out);
        buf_cut(&user, 0);
    }
    buf_release(&user);
}
