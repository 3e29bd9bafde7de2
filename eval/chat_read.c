/* chat_read: a server's reply, read with distrust. See eval/chat.h.
 *
 * The status decides whether there can be an answer; the body becomes JSON messages that are merged
 * into one text with one reason for its end (eval/chat_body.h). A stream without an end is no
 * answer.
 */
#include <string.h>

#include "eval/chat.h"
#include "eval/chat_body.h"

enum { QUOTE_MAX = 200 };

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

/* The answer's own text, byte for byte but for the key: a server may echo that too. */
static struct str without_key(const struct chat_target *t, struct str s, struct arena *a)
{
    struct str key = str_z(t->key);
    struct buf b = {0};
    ptrdiff_t at;
    if (!key.n || str_find(s, key) < 0)
        return str_copy(a, s);
    while ((at = str_find(s, key)) >= 0) {
        buf_add(&b, s.p, (size_t)at);
        buf_addz(&b, "***");
        s.p += (size_t)at + key.n;
        s.n -= (size_t)at + key.n;
    }
    buf_adds(&b, s);
    struct str out = str_copy(a, buf_str(&b));
    buf_release(&b);
    return out;
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
    /* Anthropic says it in words only, as an invalid_request_error. */
    return str_find(g->error, STR_LIT("credit balance is too low")) >= 0;
}

static bool names_parameter(const struct gathered *g)
{
    return g->param.n > 0 && !str_eqz(g->param, "messages") && !str_eqz(g->param, "prompt") &&
           !str_starts(g->param, "messages[");
}

/* Refusals that are not about what was asked: the next request would meet the same one. */
static bool of_every_request(int64_t status, const struct gathered *g)
{
    return status == 405 || status == 410 || status == 415 || status == 426 ||
           (status >= 400 && status < 500 && str_eqz(g->error_code, "model_not_found"));
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
    if (status == 429 &&
        out->wait < 0) /* other answers name their limits too and ask for nothing */
        out->wait = h->reset_used_up > 0                           ? h->reset_used_up
                    : h->reset > 0 && !t->dialect->quota_is_silent ? h->reset
                                                                   : -1;
    out->slow_down = status == 429 || status == 529;
    out->overloaded = status == 529;
    bool silent = t->dialect->quota_is_silent && out->wait < 0;
    if (status == 402 || ((status == 400 || status == 429) && out_of_money(g)) ||
        (status == 429 && silent))
        give_up(out, CHAT_EXHAUSTED, why);
    else if (status == 401 || status == 403)
        give_up(out, CHAT_FATAL,
                str_printf(a, "%.*s (the key comes from %s)", STR_ARG(why),
                           t->key_name ? t->key_name : "nowhere: this server takes none"));
    else if (status == 404 || of_every_request(status, g))
        give_up(out, CHAT_FATAL,
                str_printf(a, "%.*s (asked for model %s at %s)", STR_ARG(why), t->model, t->url));
    else if (status == 400 && names_parameter(g))
        give_up(
            out, CHAT_FATAL,
            str_printf(a, "%.*s (it refuses the parameter \"%.*s\"%s)", STR_ARG(why),
                       STR_ARG(tame(t, g->param, a)),
                       str_eqz(g->param, "temperature") ? "; --temperature -1 leaves it out" : ""));
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
    if (str_eqz(g->error_code, "rate_limit_error"))
        return 429;
    if (str_eqz(g->error_code, "authentication_error"))
        return 401;
    if (str_eqz(g->error_code, "overloaded_error"))
        return 529;
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
        {"model_context_window_exceeded", FINISH_LENGTH},
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
        r->detail = r->finish == FINISH_LENGTH ? STR_LIT("cut at the token limit inside <think>")
                                               : STR_LIT("<think> never closes");
        if (r->finish == FINISH_STOP)
            r->finish = FINISH_LENGTH;
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
    r->text = without_key(t, buf_str(&g->text), a);
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
    struct parsed p;
    struct gathered g;
    bool end, ok = h->status >= 200 && h->status < 300;
    int n = chat_body_read(h->body, &p, &g, &end);
    if (g.error_seen || !ok)
        read_error(t, ok ? inner_status(&g) : h->status, &g, h, out, a);
    else if (n < 0)
        give_up(out, CHAT_RETRY,
                is_html(h)
                    ? str_printf(a, "HTTP 200 with a page of HTML (%s is no chat server's address)",
                                 t->url)
                    : str_printf(a, "HTTP 200 with a body that is no JSON: %.*s",
                                 STR_ARG(tame(t, h->body, a))));
    else if (n == 0)
        give_up(out, CHAT_RETRY, STR_LIT("HTTP 200 with an empty body"));
    else
        read_answer(t, &g, end, out, a);
    chat_body_release(&p, &g);
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
