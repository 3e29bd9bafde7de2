/* chat_body: see eval/chat_body.h. Fields are looked for under the names of OpenAI's, Ollama's and
 * Anthropic's replies; what is missing or of another kind is left out, never an error here.
 */
#include "eval/chat_body.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 100000 };

static void add_text(struct gathered *g, struct str s)
{
    buf_adds(&g->text, s);
}

/* content: a string, null, or parts [{"type": "text", "text": ...}]; parts of other types (thinking,
 * tools) are no part of the answer. */
static void add_content(struct gathered *g, const struct json *c)
{
    if (json_kind(c) == JSON_STR) {
        g->content = true;
        add_text(g, json_str(c));
    }
    for (size_t i = 0; json_kind(c) == JSON_ARR && i < json_size(c); i++) {
        const struct json *part = json_at(c, i);
        struct str type = json_str(json_get(part, "type"));
        if (str_eqz(type, "text") || str_eqz(type, "output_text")) {
            g->content = true;
            add_text(g, json_str(json_get(part, "text")));
        }
    }
}

static void add_message(struct gathered *g, const struct json *m)
{
    static const char *const thoughts[] = {"reasoning", "reasoning_content", "thinking", NULL};
    add_content(g, json_get(m, "content"));
    for (int i = 0; thoughts[i]; i++)
        g->thinking = g->thinking || json_str(json_get(m, thoughts[i])).n > 0;
    if (json_str(json_get(m, "refusal")).n)
        g->refusal = json_str(json_get(m, "refusal"));
}

/* Of several choices the one with the lowest index, wherever it stands. */
static const struct json *first_choice(const struct json *choices)
{
    const struct json *best = NULL;
    int64_t low = INT64_MAX;
    for (size_t i = 0; i < json_size(choices); i++) {
        const struct json *c = json_at(choices, i);
        int64_t at = json_int(json_get(c, "index"), (int64_t)i);
        if (json_kind(c) == JSON_OBJ && at < low) {
            best = c;
            low = at;
        }
    }
    return low == 0 ? best : NULL;
}

static void add_error(struct gathered *g, const struct json *v, const struct json *err)
{
    const struct json *o = json_kind(err) == JSON_OBJ ? err : v;
    const struct json *code = json_get(o, "code");
    int64_t n;
    g->error_seen = true;
    g->error = json_kind(err) == JSON_STR ? json_str(err) : json_str(json_get(o, "message"));
    g->error_code = json_kind(code) == JSON_STR ? json_str(code) : json_str(json_get(o, "type"));
    g->param = json_str(json_get(o, "param"));
    if (json_kind(code) == JSON_STR && str_i64(json_str(code), &n) == 0)
        g->error_status = n;
    else
        g->error_status = json_int(code, json_int(json_get(o, "status"), 0));
}

/* A count of tokens; 0 beside a text means that nobody counted. */
static int64_t count_of(const struct json *v)
{
    int64_t n = json_int(v, 0);
    return n > 0 ? n : FIELD_NONE_I64;
}

static void add_counts(struct gathered *g, const struct json *v)
{
    const struct json *usage = json_get(v, "usage");
    const struct json *in = json_get(usage, "prompt_tokens");
    const struct json *out = json_get(usage, "completion_tokens");
    if (!in)
        in = json_get(usage, "input_tokens");
    if (!out)
        out = json_get(usage, "output_tokens");
    if (!in)
        in = json_get(v, "prompt_eval_count");
    if (!out)
        out = json_get(v, "eval_count");
    if (in)
        g->tokens_in = count_of(in);
    if (out)
        g->tokens_out = count_of(out);
}

/* Anthropic's reply, whole or as the events of a stream. False: v is none of its messages. */
static bool add_typed(struct gathered *g, const struct json *v)
{
    struct str type = json_str(json_get(v, "type"));
    const struct json *delta = json_get(v, "delta");
    if (str_eqz(type, "message")) {
        g->choice = true;
        add_content(g, json_get(v, "content"));
        g->thinking = g->thinking || json_size(json_get(v, "content")) > 0;
        if (json_str(json_get(v, "stop_reason")).n)
            g->reason = json_str(json_get(v, "stop_reason"));
    } else if (str_eqz(type, "message_start")) {
        g->choice = g->partial = true;
        if (json_str(json_get(json_get(v, "message"), "model")).n)
            g->model = json_str(json_get(json_get(v, "message"), "model"));
        add_counts(g, json_get(v, "message"));
    } else if (str_eqz(type, "content_block_delta")) {
        if (json_kind(json_get(delta, "text")) == JSON_STR)
            add_content(g, json_get(delta, "text"));
    } else if (str_eqz(type, "message_delta")) {
        if (json_str(json_get(delta, "stop_reason")).n)
            g->reason = json_str(json_get(delta, "stop_reason"));
    } else if (str_eqz(type, "message_stop")) {
        g->ended = true;
    } else {
        return str_eqz(type, "ping") || str_starts(type, "content_block_");
    }
    return true;
}

static void add_json(struct gathered *g, const struct json *v)
{
    const struct json *err = json_get(v, "error"), *choices = json_get(v, "choices");
    bool flat = str_eqz(json_str(json_get(v, "object")), "error") ||
                str_eqz(json_str(json_get(v, "type")), "error");
    if (json_kind(err) == JSON_OBJ || json_kind(err) == JSON_STR || flat) {
        add_error(g, v, err);
        return;
    }
    if (json_str(json_get(v, "model")).n)
        g->model = json_str(json_get(v, "model"));
    add_counts(g, v);
    if (add_typed(g, v))
        return;
    const struct json *c = first_choice(choices);
    if (c) {
        const struct json *delta = json_get(c, "delta");
        g->choice = true;
        g->partial = g->partial || (delta && !json_get(c, "message"));
        add_message(g, json_get(c, "message") ? json_get(c, "message") : delta);
        if (json_kind(json_get(c, "text")) == JSON_STR)
            add_content(g, json_get(c, "text"));
        if (json_str(json_get(c, "finish_reason")).n)
            g->reason = json_str(json_get(c, "finish_reason"));
    } else if (!choices && (json_get(v, "message") || json_get(v, "response"))) { /* ollama */
        g->choice = true;
        add_message(g, json_get(v, "message"));
        add_content(g, json_get(v, "response"));
        if (json_str(json_get(v, "done_reason")).n)
            g->reason = json_str(json_get(v, "done_reason"));
        g->ended = g->ended || json_bool(json_get(v, "done"));
        g->partial = g->partial || (json_get(v, "done") && !json_bool(json_get(v, "done")));
    }
}

/* The JSON of one line of a stream: {NULL, 0} when the line carries none. */
static struct str line_json(struct str line, bool *end)
{
    line = str_trim(line);
    if (str_starts(line, ":") || str_starts(line, "event:") || str_starts(line, "id:") ||
        str_starts(line, "retry:"))
        return (struct str){0};
    if (str_starts(line, "data:"))
        line = str_trim((struct str){line.p + 5, line.n - 5});
    if (str_eqz(line, "[DONE]")) {
        *end = true;
        return (struct str){0};
    }
    return line;
}

static void parsed_add(struct parsed *p, struct json *v)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 8;
        p->v = mem_grow(p->v, p->cap * sizeof(struct json *));
    }
    p->v[p->n++] = v;
}

/* Returns the number of messages, -1 if a line is no JSON (or there are absurdly many). */
static int parse_body(struct str body, struct parsed *p, bool *end)
{
    struct err ignored = {0};
    if (str_starts(body, "\xEF\xBB\xBF"))
        body = (struct str){body.p + 3, body.n - 3};
    body = str_trim(body);
    *end = false;
    if (!body.n)
        return 0;
    struct json *v = json_parse_lone(body, &ignored);
    if (v) {
        parsed_add(p, v);
        return 1;
    }
    while (body.n) {
        struct str line = line_json(str_cut(&body, '\n'), end);
        if (!line.n)
            continue;
        v = p->n < LINES_MAX ? json_parse_lone(line, &ignored) : NULL;
        if (!v)
            return -1;
        parsed_add(p, v);
    }
    return (int)p->n;
}

int chat_body_read(struct str body, struct parsed *p, struct gathered *g, bool *end)
{
    *p = (struct parsed){0};
    *g = (struct gathered){.tokens_in = FIELD_NONE_I64, .tokens_out = FIELD_NONE_I64};
    int n = parse_body(body, p, end);
    for (size_t i = 0; i < p->n; i++)
        add_json(g, p->v[i]);
    return n;
}

void chat_body_release(struct parsed *p, struct gathered *g)
{
    for (size_t i = 0; i < p->n; i++)
        json_free(p->v[i]);
    free(p->v);
    buf_release(&g->text);
}
