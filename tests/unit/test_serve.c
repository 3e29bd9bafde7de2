/* The pure parts of the server: text that flows in pieces, requests that are read with distrust,
 * log-probabilities, chats as prompts. */
#include "eval/serve_private.h"

#include "base/json.h"
#include "base/rng.h"
#include "eval/text.h"
#include "tests/tap.h"

/* All the ways to cut a text into tokens of random length give the same text, piece by piece. */
static void flow_random(const char *bytes, size_t n, struct strs stop, const char *want)
{
    int bad = 0, ill = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct rng r = rng_make(seed, "flow", 0);
        struct flow f = {.stop = stop};
        struct buf out = {0};
        bool stopped = false;
        for (size_t at = 0; at < n && !stopped;) {
            size_t k = 1 + (size_t)rng_below(&r, 4);
            k = k < n - at ? k : n - at;
            stopped = flow_add(&f, (struct str){bytes + at, k});
            at += k;
            size_t before = out.n;
            flow_take(&f, stopped || at == n, &out);
            struct str part = {out.p + before, out.n - before};
            ill += part.n && utf8_valid(part) != part.n;
        }
        bad += strcmp(out.p ? out.p : "", want) != 0;
        flow_release(&f);
        buf_release(&out);
    }
    CHECK(bad == 0 && ill == 0, "\"%s\" however it is cut: %d wrong, %d pieces no text", want, bad,
          ill);
}

static void test_flow(void)
{
    struct str end[] = {STR_LIT("END"), STR_LIT("--#")};
    struct strs stops = {end, 2}, none = {0};
    flow_random("na\xC3\xAFve \xF0\x9F\x98\x80!", 12, none, "na\xC3\xAFve \xF0\x9F\x98\x80!");
    flow_random("a\xE2\x82z\xFF", 5, none, "a\xEF\xBF\xBDz\xEF\xBF\xBD");
    flow_random("one EN--two END three", 21, stops, "one EN--two ");
    flow_random("one--#two", 9, stops, "one");
    flow_random("ENENEND", 7, stops, "ENEN");
    flow_random("a\xE2\x82\x45ND", 6, stops, "a\xEF\xBF\xBD");
    flow_random("no end EN", 9, stops, "no end EN");

    struct flow f = {.stop = stops};
    struct buf out = {0};
    flow_add(&f, STR_LIT("EN"));
    flow_take(&f, false, &out);
    CHECK_INT(out.n, 0, "what may become a stop string waits");
    flow_add(&f, STR_LIT("S"));
    flow_take(&f, false, &out);
    CHECK_STR(out.p, "ENS", "until it can't");
    flow_release(&f);
    buf_cut(&out, 0);
    f = (struct flow){.stop = stops};
    buf_addz(&f.text, "END of E");
    f.base = f.text.n;
    CHECK(!flow_add(&f, STR_LIT("ND")), "a prompt in front takes no part in stop strings");
    flow_take(&f, true, &out);
    CHECK_STR(out.p, "END of END", "and is shown whole");
    CHECK(flow_add(&f, STR_LIT(" END")), "those behind it do");
    flow_release(&f);
    buf_release(&out);
}

/* ---- requests ------------------------------------------------------------------------------- */

static struct arena arena;

static int read_ask(struct serve_ask *k, bool chat, const char *body, struct serve_fault *f)
{
    *f = (struct serve_fault){0};
    return serve_ask_read(k, chat, str_z(body), &arena, f);
}

static void test_ask(void)
{
    struct serve_ask k;
    struct serve_fault f;
    CHECK_INT(read_ask(&k, false, "{\"prompt\":\"a\"}", &f), 0, "a prompt is enough %s", f.message);
    CHECK(k.prompts == 1 && str_eqz(k.prompt[0].text, "a") && k.max_tokens == 16 && k.n == 1 &&
              k.rule.temperature == 1 && k.rule.top_p == 1 && k.rule.repeat == 1 && k.top == -1 &&
              k.seed == -1 && !k.stream && !k.echo,
          "with the API's defaults");
    CHECK_INT(read_ask(&k, false, "{\"prompt\":[[1,2],[3]],\"stop\":[\"x\",\"y\"],\"n\":2}", &f), 0,
              "prompts of ids");
    CHECK(k.prompts == 2 && k.prompt[0].n == 2 && k.prompt[0].ids[1] == 2 && k.prompt[1].n == 1 &&
              k.stop.n == 2 && k.n == 2,
          "all are there");
    CHECK_INT(read_ask(&k, true,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                       "\"max_completion_tokens\":5,\"logprobs\":true,\"top_logprobs\":3}",
                       &f),
              0, "a chat");
    CHECK(k.max_tokens == 5 && k.top == 3, "with its own names");
    CHECK_INT(read_ask(&k, true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", &f), 0,
              "a chat without a length");
    CHECK_INT(k.max_tokens, -1, "takes what room there is");
    CHECK_INT(read_ask(&k, false, "{\"prompt\":\"a\\ud83d\",\"top_k\":-1}", &f), 0,
              "half a surrogate is U+FFFD, top_k -1 is all");
    CHECK(k.rule.top_k == 0 && utf8_valid(k.prompt[0].text) == k.prompt[0].text.n, "so it is");
    CHECK(read_ask(&k, false, "{\"prompt\":\"a\",\"prompt\":\"b\"}", &f) && f.status == 400,
          "a doubled key: %s", f.message);
    CHECK(read_ask(&k, false, "{\"prompt\":\"a\",\"seed\":1e400}", &f) && f.status == 400,
          "a number that is none: %s", f.message);
    CHECK(read_ask(&k, false, "{\"prompt\":\"a\",\"seed\":-1}", &f) &&
              strstr(f.message, "seed is from 0 to 9007199254740991"),
          "a bound is said with all its digits: %s", f.message);
    CHECK(read_ask(&k, false, "{\"prompt\":\"a\",\"top_p\":1.01}", &f) &&
              strcmp(f.param, "top_p") == 0 &&
              strcmp(f.message, "top_p is above 0 and up to 1") == 0,
          "a range is said: %s", f.message);
    CHECK(read_ask(&k, true,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":3,"
                   "\"max_completion_tokens\":4}",
                   &f) &&
              f.status == 400,
          "two lengths: %s", f.message);
    CHECK(read_ask(&k, true, "{\"prompt\":\"a\"}", &f) && strcmp(f.param, "prompt") == 0,
          "a chat has no prompt");
}

/* Whatever the bytes are, a request is read or refused with a sentence. */
static void test_ask_noise(void)
{
    static const char seed_text[] =
        "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"max_tokens\":4,\"temperature\":0.5,\"n\":2,"
        "\"stop\":[\"x\"],\"logprobs\":3,\"echo\":true,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},\"logit_bias\":{},\"user\":null}";
    static const char alphabet[] = "{}[]\",:0123456789.-eEtrufalsn\\ \xC3\xFF";
    int refused = 0, silent = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        struct rng r = rng_make(i, "noise", 0);
        char text[sizeof seed_text];
        memcpy(text, seed_text, sizeof text);
        for (int k = 0; k < 1 + (int)rng_below(&r, 4); k++)
            text[rng_below(&r, sizeof text - 1)] = alphabet[rng_below(&r, sizeof alphabet - 1)];
        struct arena a = {0};
        struct serve_ask k;
        struct serve_fault f = {0};
        size_t n = rng_below(&r, 3) ? sizeof text - 1 : rng_below(&r, sizeof text);
        if (serve_ask_read(&k, i % 2, (struct str){text, n}, &a, &f)) {
            struct buf b = {0};
            refused++;
            serve_fault_body(&f, &b);
            struct err e;
            struct json *doc = json_parse(buf_str(&b), &e);
            silent += !f.message[0] || f.status != 400 || !doc;
            json_free(doc);
            buf_release(&b);
        }
        arena_release(&a);
    }
    CHECK(refused > 3000 && silent == 0,
          "%d of 4000 spoilt requests are refused, %d without reason", refused, silent);
}

static void test_chat(void)
{
    struct serve_ask k;
    struct serve_fault f;
    struct template t;
    struct err e = {0};
    struct buf out = {0};
    CHECK_INT(template_load(&t, "plain", &arena, &e), 0, "a template %s", e.msg);
    read_ask(&k, true,
             "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},"
             "{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\" Ho\"},"
             "{\"role\":\"user\",\"content\":\"Why?\"}]}",
             &f);
    serve_chat_prompt(&k, &t, &out);
    CHECK_STR(out.p, "Q: Be kind.\n\nHi\nA: Ho\n\nQ: Why?\nA:", "a conversation is one prompt");
    buf_release(&out);
}

/* ---- log-probabilities ---------------------------------------------------------------------- */

static void test_score(void)
{
    const float l[] = {1, 3, -INFINITY, 3, 2};
    struct seq q = {0};
    double lse, sum = exp(1.0) + 2 * exp(3.0) + exp(2.0);
    CHECK_NEAR(serve_logprob(l, 5, 4, &lse), 2 - log(sum), 1e-7, "a log-probability");
    CHECK_NEAR(lse, log(sum), 1e-7, "and the denominator");
    seq_token(&q, 4, l, 5, 5, 3);
    CHECK(q.token[0].ntop == 3 && q.token[0].top_id[0] == 1 && q.token[0].top_id[1] == 3 &&
              q.token[0].top_id[2] == 4,
          "the likeliest, equals by lower id");
    seq_token(&q, 0, l, 5, 2, 20);
    CHECK(q.token[1].ntop == 2 && q.token[1].top_id[0] == 1, "padding is no alternative");
    CHECK_NEAR(q.token[1].logprob, 1 - log(sum), 1e-7, "but has its share");
    seq_token(&q, 2, l, 5, 5, 0);
    CHECK(q.token[2].ntop == 0 && isinf(q.token[2].logprob) && !q.bad, "none wanted, -inf kept");
    CHECK_NEAR(serve_logprob((float[]){1000, 999}, 2, 0, &lse), -log1p(exp(-1)), 1e-7,
               "large logits");
    seq_token(&q, 0, (float[]){1, NAN}, 2, 2, 1);
    CHECK(q.bad, "a NaN is seen");
    free(q.token);
}

int main(void)
{
    test_flow();
    test_ask();
    test_ask_noise();
    test_chat();
    test_score();
    arena_release(&arena);
    return tap_done();
}
