/* complete: see eval/complete.h. */
#include "eval/complete.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

#define ROUNDED 1e-3 /* above 0 by no more than this is an error of rounding */

/* ---- asking --------------------------------------------------------------------------------- */

/* The prompt without the white space at its end, which goes to the choices. */
static struct str own(const struct request *q)
{
    struct str s = q->prompt;
    while (s.n && strchr(" \t\n\r\f\v", s.p[s.n - 1]))
        s.n--;
    return s;
}

const char *complete_refuses(const struct chat_target *t, const struct request *q)
{
    if (!t->complete_url)
        return "this kind of server gives no log-probabilities of a given text";
    if (q->apart)
        return "a server encodes texts as a whole; this task wants prompt and choice encoded apart";
    if (!own(q).n)
        return "a server tells nothing of a text's first token, so the prompt must not be empty";
    return NULL;
}

/* What is sent as text number i: 0 the prompt, then the prompt with each choice. */
static struct str sent(const struct request *q, size_t i, struct arena *a)
{
    if (i == 0)
        return own(q);
    return str_printf(a, "%.*s%.*s", STR_ARG(q->prompt), STR_ARG(q->choices.v[i - 1]));
}

void complete_body(const struct chat_target *t, const struct request *q, struct buf *out)
{
    struct arena a = {0};
    struct json *b = json_obj(), *prompts = json_arr();
    for (size_t i = 0; i <= q->choices.n; i++)
        json_push(prompts, json_of_str(sent(q, i, &a)));
    json_put(b, "model", json_of_z(t->model));
    json_put(b, "prompt", prompts);
    json_put(b, "max_tokens", json_of_int(1));
    json_put(b, "temperature", json_of_num(0));
    json_put(b, "logprobs", json_of_int(1));
    json_put(b, "echo", json_of_bool(true));
    json_write(b, out);
    json_free(b);
    arena_release(&a);
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reading {
    const struct request *q;
    const struct json *choices;
    struct chat_reply *out;
    struct arena *a;
    size_t zeros, others; /* values that are 0, and that are not */
};

static int fatal(struct reading *r, const char *why)
{
    r->out->kind = CHAT_FATAL;
    r->out->why = str_z(why);
    return -1;
}

/* The answer to text i, wherever it stands. */
static const struct json *answer_of(const struct reading *r, size_t i)
{
    for (size_t k = 0; k < json_size(r->choices); k++) {
        const struct json *c = json_at(r->choices, k);
        if (json_int(json_get(c, "index"), (int64_t)k) == (int64_t)i)
            return c;
    }
    return NULL;
}

/* Whether tokens [from, n) put together are the text. Tokens that are no text by themselves can't
 * be compared: then it is taken as it is. */
static bool spell(const struct json *tokens, size_t from, size_t n, struct str text)
{
    for (size_t i = from; i < n; i++) {
        struct str t = json_str(json_at(tokens, i));
        if (str_starts(t, "bytes:") || str_find(t, STR_LIT("\xEF\xBF\xBD")) >= 0)
            return true;
        if (t.n > text.n || memcmp(t.p, text.p, t.n) != 0)
            return false;
        text.p += t.n;
        text.n -= t.n;
    }
    return text.n == 0;
}

/* How many tokens are of the echoed text: all but the one made, or all when none was made (the
 * sequence's end came at once and is not listed); a token that begins every text may stand first. */
static int echoed(struct reading *r, const struct json *tokens, struct str text, size_t *n)
{
    size_t all = json_size(tokens);
    for (*n = all - 1; *n <= all; ++*n)
        if (*n > 0 && (spell(tokens, 0, *n, text) || spell(tokens, 1, *n, text)))
            return 0;
    return fatal(r, "the tokens it lists are not those of the text that was sent");
}

/* Finds the lists of text i and counts its tokens. */
static int open_answer(struct reading *r, size_t i, const struct json **lists, size_t *n)
{
    const struct json *c = answer_of(r, i), *l = json_get(c, "logprobs");
    struct str text = sent(r->q, i, r->a), got = json_str(json_get(c, "text"));
    const struct json *tokens = json_get(l, "tokens"), *values = json_get(l, "token_logprobs");
    if (!c)
        return fatal(r, "it does not answer each of several prompts in one request");
    if (json_kind(l) != JSON_OBJ || !json_size(tokens))
        return fatal(r, "it gives no log-probabilities with a completion");
    if (got.n < text.n || memcmp(got.p, text.p, text.n) != 0)
        return fatal(r, "it does not echo the prompt, so its log-probabilities are of other words");
    if (json_size(values) != json_size(tokens) ||
        json_size(json_get(l, "top_logprobs")) != json_size(tokens))
        return fatal(r, "it does not give a log-probability and alternatives for every token");
    *lists = l;
    return echoed(r, tokens, text, n);
}

/* Whether no alternative is likelier. */
static bool is_top(const struct json *top, double value)
{
    void *it = NULL;
    const char *key;
    const struct json *v;
    while (json_each(top, &it, &key, &v))
        if (json_num(v) > value)
            return false;
    return json_size(top) > 0;
}

/* Value k of the list; one above 0 is no log-probability. A server that makes them up gives zeros: they
 * are looked for over all that was sent. */
static int read_value(struct reading *r, const struct json *l, size_t k, double *v)
{
    const struct json *j = json_at(json_get(l, "token_logprobs"), k);
    *v = json_num(j); /* NaN if null */
    if (*v > ROUNDED)
        return fatal(r, str_dup(r->a, str_printf(r->a,
                                                 "it gives %g as a log-probability, which can't be "
                                                 "above 0",
                                                 *v)));
    r->zeros += *v == 0;
    r->others += *v != 0 && json_kind(j) != JSON_NULL;
    return 0;
}

static int read_choice(struct reading *r, size_t i, size_t from, struct response *to)
{
    const struct json *l = NULL;
    size_t n;
    double sum = 0;
    int64_t greedy = 1;
    if (open_answer(r, i + 1, &l, &n))
        return -1;
    if (n <= from) {
        r->out->kind = CHAT_FAILED;
        r->out->why = str_printf(r->a, "choice %zu has no token of its own behind the prompt", i);
        return -1;
    }
    for (size_t k = from; k < n; k++) {
        double v;
        if (read_value(r, l, k, &v))
            return -1;
        sum += v;
        greedy = greedy && is_top(json_at(json_get(l, "top_logprobs"), k), v);
    }
    to->choice_logprob.v[i] = sum;
    to->choice_tokens.v[i] = (int64_t)(n - from);
    to->choice_greedy.v[i] = greedy;
    return 0;
}

static int read_answers(struct reading *r, const struct json *doc)
{
    struct response *to = &r->out->r;
    const struct json *l = NULL;
    size_t n = r->q->choices.n, from;
    struct str model = json_str(json_get(doc, "model"));
    if (open_answer(r, 0, &l, &from))
        return -1;
    if (n == 1) /* one choice may be sure; one choice and its whole prompt are not */
        for (size_t k = 0; k < from; k++) {
            double ignored;
            if (read_value(r, l, k, &ignored))
                return -1;
        }
    to->choice_logprob = (struct f64s){arena_array(r->a, n, sizeof(double)), n};
    to->choice_tokens = (struct i64s){arena_array(r->a, n, sizeof(int64_t)), n};
    to->choice_greedy = (struct i64s){arena_array(r->a, n, sizeof(int64_t)), n};
    for (size_t i = 0; i < n; i++)
        if (read_choice(r, i, from, to))
            return -1;
    if (r->zeros > 1 && !r->others)
        return fatal(r, "every log-probability that it gives is 0, so it gives no real ones");
    r->out->kind = CHAT_ANSWER;
    to->finish = FINISH_STOP;
    to->tokens_in = json_int(json_get(json_get(doc, "usage"), "prompt_tokens"), FIELD_NONE_I64);
    if (model.n)
        to->model = str_copy(r->a, model);
    return 0;
}

void complete_read(const struct chat_target *t, const struct request *q, const struct http_reply *h,
                   struct chat_reply *out, struct arena *a)
{
    struct err ignored;
    bool ok = h->status >= 200 && h->status < 300;
    struct json *doc = ok ? json_parse_lone(h->body, &ignored) : NULL;
    const struct json *choices = json_get(doc, "choices");
    if (ok && !doc && str_find(h->body, STR_LIT("logprob")) >= 0 &&
        (str_find(h->body, STR_LIT("NaN")) >= 0 || str_find(h->body, STR_LIT("Infinity")) >= 0)) {
        *out = (struct chat_reply){
            .wait = -1,
            .kind = CHAT_FAILED,
            .r = {.model = str_copy(a, str_z(t->model)),
                  .tokens_in = FIELD_NONE_I64,
                  .tokens_out = FIELD_NONE_I64,
                  .ms = h->seconds * 1000},
            .why = STR_LIT("it gives NaN or Infinity as a log-probability, which is no JSON")};
    } else if (!json_size(choices)) { /* errors are read as a chat's are */
        struct chat_target at = *t;
        at.url = t->complete_url ? t->complete_url : t->url; /* for its sentences */
        chat_read(&at, h, out, a);
        if (out->kind == CHAT_ANSWER) {
            out->kind = CHAT_FATAL;
            out->why = STR_LIT("its completions have no choices");
        }
    } else {
        struct reading r = {.q = q, .choices = choices, .out = out, .a = a};
        *out = (struct chat_reply){.wait = -1};
        out->r = (struct response){.model = str_copy(a, str_z(t->model)),
                                   .tokens_in = FIELD_NONE_I64,
                                   .tokens_out = FIELD_NONE_I64,
                                   .ms = h->seconds * 1000};
        read_answers(&r, doc);
    }
    json_free(doc);
    if (out->kind != CHAT_ANSWER) {
        out->r.finish = FINISH_ERROR;
        out->r.detail = out->why;
        out->r.choice_logprob = (struct f64s){0};
        out->r.choice_tokens = out->r.choice_greedy = (struct i64s){0};
    }
}
