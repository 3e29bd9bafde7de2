/* chat_read: a server's reply, read with distrust. See eval/chat.h.
 *
 * Three steps: the status decides whether there can be an answer; the body becomes a list of JSON
 * messages (one, several lines, or an event stream); the messages are merged into one text with one
 * reason for its end. A stream without an end is no answer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "eval/chat.h"

enum { QUOTE_MAX = 200, LINES_MAX = 100000 };

/* What the messages of one body add up to. */
struct gathered {
    struct buf text;
    struct str refusal, reason, error, error_code, param, model;
    bool content, thinking, choice, error_seen;
    bool partial, ended; /* a message says that others follow; that it is the last */
    int64_t error_status, tokens_in, tokens_out;
};

/* ---- sentences ------------------------------------------------------------------------------ */

/* A server's words for a sentence: one line, short, without the key. */
static struct str tame(const struct chat_target *t, struct str s, struct arena *a)
{
    struct buf b = {0};
    size_t key = t->key ? strlen(t->key) : 0;
    s = str_trim(s);
    for (size_t i = 0; i < s.n && b.n < QUOTE_MAX; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (key && s.n - i >= key && memcmp(s.p + i, t->key, key) == 0) {
            buf_addz(&b, "***");
            i += key - 1;
        } else if (c <= ' ' || c == 0x7f) {
            if (b.n && b.p[b.n - 1] != ' ')
                buf_addc(&b, ' ');
        } else {
            buf_addc(&b, (char)c);
        }
    }
    if (b.n >= QUOTE_MAX) {
        while (b.n && ((unsigned char)b.p[b.n - 1] & 0xC0) == 0x80)
            buf_cut(&b, b.n - 1);
        if (b.n && (unsigned char)b.p[b.n - 1] >= 0xC0)
            buf_cut(&b, b.n - 1);
        buf_addz(&b, "...");
    }
    /* A body of other bytes must not make a record that is no UTF-8. */
    size_t ok = utf8_valid(buf_str(&b));
    for (; ok < b.n; ok = utf8_valid(buf_str(&b)))
        b.p[ok] = '?';
    struct str out = str_copy(a, buf_str(&b));
    buf_release(&b);
    return out;
}

/* ---- the body as messages ------------------------------------------------------------------- */

static void add_text(struct gathered *g, struct str s)
{
    buf_adds(&g->text, s);
}

/* content: a string, null, or parts [{"type": "text", "text": ...}]. */
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
        in = json_get(v, "prompt_eval_count");
    if (!out)
        out = json_get(v, "eval_count");
    if (in)
        g->tokens_in = count_of(in);
    if (out)
        g->tokens_out = count_of(out);
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
        g->ended = g->ended || json_true(json_get(v, "done"));
        g->partial = g->partial || (json_get(v, "done") && !json_true(json_get(v, "done")));
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

struct parsed {
    struct json **v;
    size_t n, cap;
};

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

/* ---- from what was gathered to a reply ------------------------------------------------------ */

static void give_up(struct chat_reply *out, enum chat_kind kind, struct str why)
{
    out->kind = kind;
    out->why = why;
}

/* No request will go well while money or key are wrong. */
static bool out_of_money(const struct gathered *g)
{
    static const char *const codes[] = {"insufficient_quota",   "billing_hard_limit_reached",
                                        "billing_not_active",   "billing_error",
                                        "spend_limit_exceeded", "credit_limit_exceeded",
                                        "insufficient_credits", NULL};
    for (int i = 0; codes[i]; i++)
        if (str_eqz(g->error_code, codes[i]))
            return true;
    return false;
}

static bool names_parameter(const struct gathered *g)
{
    return g->param.n > 0 && !str_eqz(g->param, "messages") && !str_starts(g->param, "messages[");
}

static bool is_html(const struct http_reply *h)
{
    struct str b = str_trim(h->body);
    return strstr(h->content_type, "text/html") || str_starts(b, "<!") || str_starts(b, "<html");
}

/* status is the HTTP one, or the one an error inside a 200 names. */
static void read_error(const struct chat_target *t, int64_t status, const struct gathered *g,
                       const struct http_reply *h, struct chat_reply *out, struct arena *a)
{
    struct str words = g->error_seen ? tame(t, g->error, a)
                       : is_html(h)  ? STR_LIT("a page of HTML")
                                     : tame(t, h->body, a);
    struct str why =
        str_printf(a, "HTTP %lld%s%.*s", (long long)status, words.n ? ": " : "", STR_ARG(words));
    out->wait = h->retry_after;
    out->slow_down = status == 429 || status == 529;
    if (status == 402 || (status == 429 && out_of_money(g)))
        give_up(out, CHAT_EXHAUSTED, why);
    else if (status == 401 || status == 403)
        give_up(out, CHAT_FATAL,
                str_printf(a, "%.*s (the key comes from %s)", STR_ARG(why),
                           t->key_name ? t->key_name : "nowhere: this server takes none"));
    else if (status == 404)
        give_up(out, CHAT_FATAL,
                str_printf(a, "%.*s (asked for model %s at %s)", STR_ARG(why), t->model, t->url));
    else if (status == 400 && names_parameter(g))
        give_up(out, CHAT_FATAL,
                str_printf(a, "%.*s (it refuses the parameter \"%.*s\")", STR_ARG(why),
                           STR_ARG(tame(t, g->param, a))));
    else if (status >= 300 && status < 400)
        give_up(out, CHAT_FATAL,
                str_printf(a, "HTTP %lld: it redirects, and redirects are not followed",
                           (long long)status));
    else if (h->should_retry == 0)
        give_up(out, CHAT_FAILED, why);
    else if (h->should_retry == 1 || status == 408 || status == 409 || status == 429 ||
             status >= 500)
        give_up(out, CHAT_RETRY, why);
    else
        give_up(out, CHAT_FAILED, why);
}

/* Status of an error that came with 200: its own code, else by its type, else a server's fault. */
static int64_t inner_status(const struct gathered *g)
{
    if (g->error_status >= 300 && g->error_status < 600)
        return g->error_status;
    if (out_of_money(g) || str_eqz(g->error_code, "rate_limit_exceeded"))
        return 429;
    if (str_eqz(g->error_code, "invalid_request_error"))
        return 400;
    return 500;
}

static int finish_of(struct str reason, struct str *detail, struct arena *a)
{
    static const struct {
        const char *name;
        int finish;
    } reasons[] = {
        {"stop", FINISH_STOP},
        {"eos", FINISH_STOP},
        {"end_turn", FINISH_STOP},
        {"stop_sequence", FINISH_STOP},
        {"length", FINISH_LENGTH},
        {"max_tokens", FINISH_LENGTH},
        {"content_filter", FINISH_FILTER},
        {"refusal", FINISH_FILTER},
        {NULL, 0},
    };
    if (!reason.n)
        return FINISH_STOP; /* some servers leave it out */
    for (int i = 0; reasons[i].name; i++)
        if (str_eqz(reason, reasons[i].name))
            return reasons[i].finish;
    *detail = str_printf(a, "it ended with \"%.*s\"", STR_ARG(reason));
    return FINISH_ERROR;
}

/* Drops a <think> block in front; an open one means that the answer never began. */
static void drop_think(struct response *r)
{
    struct str s = str_trim(r->text);
    if (!str_starts(s, "<think>"))
        return;
    ptrdiff_t end = str_find(s, STR_LIT("</think>"));
    if (end < 0) {
        r->text = (struct str){0};
        if (r->finish == FINISH_STOP)
            r->finish = FINISH_LENGTH;
        r->detail = STR_LIT("the text ends inside <think>");
        return;
    }
    r->text = str_trim((struct str){s.p + end + 8, s.n - (size_t)end - 8});
}

static void read_answer(const struct chat_target *t, const struct gathered *g, bool end,
                        struct chat_reply *out, struct arena *a)
{
    struct response *r = &out->r;
    if (!g->choice) {
        give_up(out, CHAT_RETRY, STR_LIT("HTTP 200 without any choice"));
        return;
    }
    if (g->partial && !end && !g->ended && !g->reason.n) {
        give_up(out, CHAT_RETRY, STR_LIT("a stream that stops before its end"));
        return;
    }
    if (str_eqz(g->reason, "load") || str_eqz(g->reason, "unload")) {
        give_up(out, CHAT_RETRY, STR_LIT("the server was loading the model"));
        return;
    }
    out->kind = CHAT_ANSWER;
    r->text = str_copy(a, buf_str(&g->text));
    r->finish = finish_of(tame(t, g->reason, a), &r->detail, a);
    r->tokens_in = g->tokens_in;
    r->tokens_out = g->tokens_out;
    r->model = g->model.n ? tame(t, g->model, a) : str_copy(a, str_z(t->model));
    drop_think(r);
    if (g->refusal.n) {
        r->finish = FINISH_FILTER;
        r->detail = tame(t, g->refusal, a);
    } else if (r->finish == FINISH_FILTER && !r->detail.n) {
        r->detail = str_printf(a, "it ended with \"%.*s\"", STR_ARG(tame(t, g->reason, a)));
    } else if (!g->content && !r->detail.n) {
        r->detail = g->thinking ? STR_LIT("no content, only reasoning") : STR_LIT("no content");
    }
    /* A prompt that fills the context was cut by the server without a word. */
    if (t->num_ctx && g->tokens_in != FIELD_NONE_I64 && g->tokens_in >= t->num_ctx - 1) {
        r->finish = FINISH_ERROR;
        r->detail = str_printf(a, "the prompt was cut to the context of %lld tokens",
                               (long long)t->num_ctx);
    }
}

static void read_body(const struct chat_target *t, const struct http_reply *h,
                      struct chat_reply *out, struct arena *a)
{
    struct parsed p = {0};
    struct gathered g = {.tokens_in = FIELD_NONE_I64, .tokens_out = FIELD_NONE_I64};
    bool end, ok = h->status >= 200 && h->status < 300;
    int n = parse_body(h->body, &p, &end);
    for (size_t i = 0; i < p.n; i++)
        add_json(&g, p.v[i]);
    if (g.error_seen || !ok)
        read_error(t, ok ? inner_status(&g) : h->status, &g, h, out, a);
    else if (n < 0)
        give_up(out, CHAT_RETRY,
                is_html(h) ? STR_LIT("HTTP 200 with a page of HTML")
                           : str_printf(a, "HTTP 200 with a body that is no JSON: %.*s",
                                        STR_ARG(tame(t, h->body, a))));
    else if (n == 0)
        give_up(out, CHAT_RETRY, STR_LIT("HTTP 200 with an empty body"));
    else
        read_answer(t, &g, end, out, a);
    for (size_t i = 0; i < p.n; i++)
        json_free(p.v[i]);
    free(p.v);
    buf_release(&g.text);
}

void chat_read(const struct chat_target *t, const struct http_reply *h, struct chat_reply *out,
               struct arena *a)
{
    *out = (struct chat_reply){.wait = -1};
    out->r.tokens_in = out->r.tokens_out = FIELD_NONE_I64;
    out->r.ms = h->seconds * 1000;
    if (h->status)
        read_body(t, h, out, a);
    else
        give_up(out, h->too_big ? CHAT_FAILED : CHAT_RETRY,
                tame(t, str_z(h->failure ? h->failure : "no answer"), a));
    if (out->kind != CHAT_ANSWER) {
        out->r.finish = FINISH_ERROR;
        out->r.detail = out->why;
        out->r.model = str_copy(a, str_z(t->model));
    }
}
