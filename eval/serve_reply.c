/* serve_reply: answers as JSON. Pure: what a sequence holds goes in, bytes come out.
 *
 * A token whose bytes are no text by themselves is shown as "bytes:\xe2\x82" (as OpenAI's
 * completions do), so that the keys of top_logprobs stay apart. text_offset counts characters of the
 * text that is returned.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "eval/serve_private.h"

static struct str token_bytes(const struct serve_names *s, int32_t id)
{
    struct str b = {0};
    vocab_bytes(s->vocab, id, &b);
    return b;
}

static void token_text(const struct serve_names *s, int32_t id, struct buf *out)
{
    struct str b = token_bytes(s, id);
    buf_cut(out, 0);
    if (utf8_valid(b) == b.n) {
        buf_adds(out, b);
        return;
    }
    buf_addz(out, "bytes:");
    for (size_t i = 0; i < b.n; i++)
        buf_printf(out, "\\x%02x", (unsigned char)b.p[i]);
}

static struct json *token_json(const struct serve_names *s, int32_t id)
{
    struct buf b = {0};
    token_text(s, id, &b);
    struct json *v = json_of_str(buf_str(&b));
    buf_release(&b);
    return v;
}

/* ---- log-probabilities ---------------------------------------------------------------------- */

/* Of a completion: the alternatives by their text, the chosen one among them. */
static struct json *top_object(const struct serve_names *s, const struct serve_token *t)
{
    struct json *o = json_obj();
    struct buf b = {0};
    bool there = false;
    for (int i = 0; i <= t->ntop; i++) {
        if (i == t->ntop && there)
            break;
        int32_t id = i < t->ntop ? t->top_id[i] : t->id;
        there = there || id == t->id;
        token_text(s, id, &b);
        buf_addz(&b, "");
        const char *key = b.p ? b.p : "";
        if (!json_get(o, key))
            json_put(o, key, json_of_num(i < t->ntop ? t->top[i] : t->logprob));
    }
    buf_release(&b);
    return o;
}

/* Characters that begin in front of byte `upto`. */
static int64_t chars_before(struct seq *q, size_t upto)
{
    upto = upto < q->flow.text.n ? upto : q->flow.text.n;
    for (; q->counted < upto; q->counted++)
        q->chars += ((unsigned char)q->flow.text.p[q->counted] & 0xC0) != 0x80;
    return q->chars;
}

static struct json *text_logprobs(const struct serve_names *s, struct seq *q, size_t upto)
{
    struct json *o = json_obj(), *tokens = json_arr(), *lps = json_arr(), *tops = json_arr(),
                *offsets = json_arr();
    for (size_t i = q->sent; i < upto; i++) {
        const struct serve_token *t = &q->token[i];
        bool known = !isnan(t->logprob);
        json_push(tokens, token_json(s, t->id));
        json_push(lps, json_of_num(t->logprob));
        json_push(tops, known && q->x->ask.top > 0 ? top_object(s, t) : json_of_null());
        json_push(offsets, json_of_int(chars_before(q, t->begin)));
    }
    json_put(o, "text_offset", offsets);
    json_put(o, "token_logprobs", lps);
    json_put(o, "tokens", tokens);
    json_put(o, "top_logprobs", tops);
    return o;
}

static struct json *chat_token(const struct serve_names *s, int32_t id, double logprob)
{
    struct json *o = json_obj(), *bytes = json_arr();
    struct str b = token_bytes(s, id);
    for (size_t i = 0; i < b.n; i++)
        json_push(bytes, json_of_int((unsigned char)b.p[i]));
    json_put(o, "token", token_json(s, id));
    json_put(o, "logprob", json_of_num(logprob));
    json_put(o, "bytes", bytes);
    return o;
}

static struct json *chat_logprobs(const struct serve_names *s, const struct seq *q, size_t upto)
{
    struct json *o = json_obj(), *content = json_arr();
    for (size_t i = q->sent; i < upto; i++) {
        const struct serve_token *t = &q->token[i];
        struct json *one = chat_token(s, t->id, t->logprob), *top = json_arr();
        for (int k = 0; k < t->ntop; k++)
            json_push(top, chat_token(s, t->top_id[k], t->top[k]));
        json_put(one, "top_logprobs", top);
        json_push(content, one);
    }
    json_put(o, "content", content);
    json_put(o, "refusal", json_of_null());
    return o;
}

/* Of the tokens that begin in front of byte `upto` and were not sent; all: of all of them. */
static struct json *logprobs(const struct serve_names *s, struct seq *q, bool all)
{
    size_t upto = q->sent;
    if (q->x->ask.top < 0)
        return json_of_null();
    while (upto < q->tokens && (all || q->token[upto].begin < q->flow.shown))
        upto++;
    struct json *v = q->x->ask.chat ? chat_logprobs(s, q, upto) : text_logprobs(s, q, upto);
    q->sent = upto;
    return v;
}

/* ---- answers -------------------------------------------------------------------------------- */

static struct json *head(const struct serve_names *s, const struct exchange *x, const char *object)
{
    struct json *o = json_obj();
    json_put(o, "id", json_of_z(x->id));
    json_put(o, "object", json_of_z(object));
    json_put(o, "created", json_of_int(x->created));
    json_put(o, "model", json_of_z(s->model));
    json_put(o, "system_fingerprint", json_of_z(s->fingerprint));
    return o;
}

static struct json *usage(const struct exchange *x)
{
    struct json *o = json_obj();
    int64_t made = 0;
    for (int64_t i = 0; i < x->seqs; i++)
        made += x->seq[i].made;
    json_put(o, "prompt_tokens", json_of_int(x->tokens_in));
    json_put(o, "completion_tokens", json_of_int(made));
    json_put(o, "total_tokens", json_of_int(x->tokens_in + made));
    return o;
}

static struct json *reason(const struct seq *q)
{
    return json_of_z(q->finish == FINISH_LENGTH ? "length" : "stop");
}

static struct json *choice(const struct serve_names *s, struct seq *q)
{
    struct json *c = json_obj();
    struct buf text = {0};
    flow_take(&q->flow, true, &text);
    json_put(c, "index", json_of_int(q->index));
    if (q->x->ask.chat) {
        struct json *m = json_obj();
        json_put(m, "role", json_of_z("assistant"));
        json_put(m, "content", json_of_str(buf_str(&text)));
        json_put(m, "refusal", json_of_null());
        json_put(c, "message", m);
    } else {
        json_put(c, "text", json_of_str(buf_str(&text)));
    }
    json_put(c, "logprobs", logprobs(s, q, true));
    json_put(c, "finish_reason", reason(q));
    buf_release(&text);
    return c;
}

static void put(struct json *o, struct buf *out)
{
    json_write(o, out);
    json_free(o);
}

void serve_answer_body(const struct serve_names *s, struct exchange *x, struct buf *out)
{
    struct json *o = head(s, x, x->ask.chat ? "chat.completion" : "text_completion");
    struct json *choices = json_arr();
    for (int64_t i = 0; i < x->seqs; i++)
        json_push(choices, choice(s, &x->seq[i]));
    json_put(o, "choices", choices);
    json_put(o, "usage", usage(x));
    put(o, out);
}

void serve_models_body(const struct serve_names *s, bool one, struct buf *out)
{
    struct json *m = json_obj();
    json_put(m, "id", json_of_z(s->model));
    json_put(m, "object", json_of_z("model"));
    json_put(m, "created", json_of_int(s->created));
    json_put(m, "owned_by", json_of_z("assay"));
    json_put(m, "system_fingerprint", json_of_z(s->fingerprint));
    json_put(m, "max_model_len", json_of_int(s->context));
    if (!one) {
        struct json *o = json_obj(), *data = json_arr();
        json_push(data, m);
        json_put(o, "object", json_of_z("list"));
        json_put(o, "data", data);
        m = o;
    }
    put(m, out);
}

void serve_fault_body(const struct serve_fault *f, struct buf *out)
{
    struct json *o = json_obj(), *v = json_obj();
    json_put(v, "message", json_of_z(f->message));
    json_put(v, "type", json_of_z(f->type));
    json_put(v, "param", f->param[0] ? json_of_z(f->param) : json_of_null());
    json_put(v, "code", f->code ? json_of_z(f->code) : json_of_null());
    json_put(o, "error", v);
    put(o, out);
}

/* ---- events --------------------------------------------------------------------------------- */

static void event(struct json *o, struct buf *out)
{
    buf_addz(out, "data: ");
    put(o, out);
    buf_addz(out, "\n\n");
}

static struct json *chunk(const struct serve_names *s, const struct exchange *x, struct json *one)
{
    struct json *o = head(s, x, x->ask.chat ? "chat.completion.chunk" : "text_completion");
    struct json *choices = json_arr();
    if (one)
        json_push(choices, one);
    json_put(o, "choices", choices);
    if (x->ask.usage)
        json_put(o, "usage", one ? json_of_null() : usage(x));
    return o;
}

static void send_choice(const struct serve_names *s, struct seq *q, const char *key,
                        struct json *value, struct json *lp, bool end, struct buf *out)
{
    struct json *c = json_obj();
    json_put(c, "index", json_of_int(q->index));
    json_put(c, key, value);
    json_put(c, "logprobs", lp);
    json_put(c, "finish_reason", end ? reason(q) : json_of_null());
    event(chunk(s, q->x, c), out);
}

static struct json *delta(struct str text)
{
    struct json *d = json_obj();
    json_put(d, "content", json_of_str(text));
    return d;
}

void serve_event_role(const struct serve_names *s, struct seq *q, struct buf *out)
{
    struct json *d = json_obj();
    json_put(d, "role", json_of_z("assistant"));
    json_put(d, "content", json_of_z(""));
    send_choice(s, q, "delta", d, json_of_null(), false, out);
}

/* A chat ends with an empty delta of its own. */
void serve_event_part(const struct serve_names *s, struct seq *q, bool last, struct buf *out)
{
    struct buf b = {0};
    flow_take(&q->flow, last, &b);
    struct str text = buf_str(&b);
    bool chat = q->x->ask.chat, some = text.n || (last && q->sent < q->tokens);
    if (!chat && (some || last))
        send_choice(s, q, "text", json_of_str(text), logprobs(s, q, last), last, out);
    if (chat && some)
        send_choice(s, q, "delta", delta(text), logprobs(s, q, last), false, out);
    if (chat && last)
        send_choice(s, q, "delta", json_obj(), json_of_null(), true, out);
    buf_release(&b);
}

void serve_event_end(const struct serve_names *s, struct exchange *x, struct buf *out)
{
    if (x->ask.usage)
        event(chunk(s, x, NULL), out);
    buf_addz(out, "data: [DONE]\n\n");
}

void serve_event_fault(const struct serve_fault *f, struct buf *out)
{
    buf_addz(out, "data: ");
    serve_fault_body(f, out);
    buf_addz(out, "\n\n");
}
