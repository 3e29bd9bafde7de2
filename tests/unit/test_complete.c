/* Log-probabilities from a server: what is asked, how a reply is cut, and servers that can't. */
#include "eval/complete.h"

#include "base/json.h"
#include "tests/tap.h"

static struct arena arena;
static struct chat_target target;
static struct str choices[] = {STR_LIT("cat"), STR_LIT("big dog")};
static const struct request q = {
    .kind = REQUEST_LOGPROB, .prompt = STR_LIT("The "), .choices = {choices, 2}};

/* One of the three texts' answers: "TEXT" "tokens" "values" "tops". */
#define ONE(i, text, tokens, values, tops)                                                         \
    "{\"index\":" #i ",\"text\":\"" text "\",\"logprobs\":{\"tokens\":[" tokens                    \
    "],\"token_logprobs\":[" values "],\"top_logprobs\":[" tops "]}}"
#define PROMPT ONE(0, "The a", "\"The\",\" a\"", "null,-1", "null,{\" a\":-1}")
#define CAT                                                                                        \
    ONE(1, "The cats", "\"The\",\" c\",\"at\",\"s\"", "null,-1.5,-0.25,-3",                        \
        "null,{\" c\":-1.5},{\"at\":-0.25},{\"x\":-1,\"s\":-3}")
#define DOG                                                                                        \
    ONE(2, "The big dog.", "\"The\",\" big\",\" dog\",\".\"", "null,-2,-4,-1",                     \
        "null,{\" a\":-1,\" big\":-2},{\" dog\":-4},{\".\":-1}")

static struct chat_reply read_as(int status, const char *body)
{
    struct chat_reply c;
    struct http_reply h = {.status = status,
                           .body = str_z(body),
                           .retry_after = -1,
                           .should_retry = -1,
                           .content_type = "application/json"};
    complete_read(&target, &q, &h, &c, &arena);
    return c;
}

static void test_asking(void)
{
    struct buf b = {0};
    complete_body(&target, &q, &b);
    CHECK_STR(b.p,
              "{\"model\":\"m\",\"prompt\":[\"The\",\"The cat\",\"The big dog\"],\"max_tokens\":1,"
              "\"temperature\":0.0,\"logprobs\":1,\"echo\":true}",
              "the prompt alone, and with each choice");
    CHECK_STR(target.complete_url, "http://h/v1/completions", "asked of the completions");
    buf_release(&b);
    struct request apart = q, empty = q;
    struct chat_target other;
    struct err e;
    apart.apart = true;
    empty.prompt = STR_LIT(" \n");
    CHECK(!complete_refuses(&target, &q), "a request that can be asked");
    CHECK(complete_refuses(&target, &apart), "not apart: %s", complete_refuses(&target, &apart));
    CHECK(complete_refuses(&target, &empty), "nor behind nothing: %s",
          complete_refuses(&target, &empty));
    CHECK(!chat_target_parse(&other, "ollama:m", &arena, &e) && complete_refuses(&other, &q),
          "nor of Ollama: %s", complete_refuses(&other, &q));
}

static void test_reading(void)
{
    struct chat_reply c = read_as(200, "{\"model\":\"m2\",\"usage\":{\"prompt_tokens\":7},"
                                       "\"choices\":[" PROMPT "," CAT "," DOG "]}");
    CHECK(c.kind == CHAT_ANSWER && c.r.choice_logprob.n == 2, "an answer: %.*s", STR_ARG(c.why));
    CHECK(c.r.choice_logprob.v[0] == -1.75 && c.r.choice_tokens.v[0] == 2 &&
              c.r.choice_greedy.v[0] == 1,
          "the choice's own tokens, without the one that was made: %g", c.r.choice_logprob.v[0]);
    CHECK(c.r.choice_logprob.v[1] == -6 && c.r.choice_tokens.v[1] == 2 &&
              c.r.choice_greedy.v[1] == 0,
          "one that is not the likeliest is not greedy: %g", c.r.choice_logprob.v[1]);
    CHECK(str_eqz(c.r.model, "m2") && c.r.tokens_in == 7, "who answered and how much was read");
    c = read_as(200, "{\"choices\":[" DOG "," CAT "," PROMPT "]}");
    CHECK(c.kind == CHAT_ANSWER && c.r.choice_logprob.v[1] == -6, "in any order");
    c = read_as(200, "{\"choices\":[" PROMPT "," CAT
                     "," ONE(2, "The big dog", "\"The\",\" big\",\" dog\"", "null,-2,-4",
                             "null,{\" big\":-2},{\" dog\":-4}") "]}");
    CHECK(c.kind == CHAT_ANSWER && c.r.choice_logprob.v[1] == -6 && c.r.choice_greedy.v[1],
          "an end that came at once and is not listed");
    c = read_as(200,
                "{\"choices\":[" ONE(
                    0, "The a", "\"<s>\",\"The\",\" a\"", "null,-9,-1",
                    "null,{},{}") "," ONE(1, "The cats", "\"<s>\",\"The\",\" cat\",\"s\"",
                                          "null,-9,-1,-1",
                                          "null,{},{\" cat\":-1},{}") "," ONE(2, "The big dog",
                                                                              "\"<s>\",\"The\",\" "
                                                                              "big dog\",\"\"",
                                                                              "null,-9,-2,-1",
                                                                              "null,{},{\" big "
                                                                              "dog\":-2},{}") "]}");
    CHECK(c.kind == CHAT_ANSWER && c.r.choice_logprob.v[0] == -1 && c.r.choice_tokens.v[1] == 1,
          "a token that begins every text: %.*s", STR_ARG(c.why));
    c = read_as(200, "{\"choices\":[" PROMPT "," CAT
                     "," ONE(2, "The big dog.", "\"The\",\" big\",\" dog\",\".\"",
                             "null,null,-4,-1", "null,null,{\" dog\":-4},{}") "]}");
    CHECK(c.kind == CHAT_ANSWER && isnan(c.r.choice_logprob.v[1]) && !c.r.choice_greedy.v[1],
          "a null is no number, and never 0");
}

static void test_refusals(void)
{
    static const struct {
        const char *what, *words, *body;
    } v[] = {
        {"a server that ignores echo", "does not echo",
         "{\"choices\":[" ONE(0, " a", "\" a\"", "-1", "{}") "," CAT "," DOG "]}"},
        {"one that answers the first prompt only", "each of several prompts",
         "{\"choices\":[" PROMPT "]}"},
        {"one without log-probabilities", "no log-probabilities",
         "{\"choices\":[{\"index\":0,\"text\":\"The a\",\"logprobs\":null}]}"},
        {"one without alternatives", "alternatives",
         "{\"choices\":[{\"index\":0,\"text\":\"The a\",\"logprobs\":{\"tokens\":[\"The\",\" a\"],"
         "\"token_logprobs\":[null,-1],\"top_logprobs\":null}}]}"},
        {"one whose lists differ in length", "every token",
         "{\"choices\":[" ONE(0, "The a", "\"The\",\" a\"", "null", "null,{}") "]}"},
        {"one that lists only what it made", "not those of the text",
         "{\"choices\":[" ONE(0, "The a", "\" a\"", "-1", "{\" a\":-1}") "]}"},
        {"one that gives probabilities", "0.25 as a log-probability",
         "{\"choices\":[" PROMPT "," CAT
         "," ONE(2, "The big dog.", "\"The\",\" big\",\" dog\",\".\"", "null,0.25,-4,-1",
                 "null,{},{},{}") "]}"},
        {"one that gives zeros", "every log-probability that it gives is 0",
         "{\"choices\":[" PROMPT
         "," ONE(1, "The cats", "\"The\",\" c\",\"at\",\"s\"", "null,0,0.0,0",
                 "null,{},{},{}") "," ONE(2, "The big dog.", "\"The\",\" big\",\" dog\",\".\"",
                                          "null,0,0,0", "null,{},{},{}") "]}"},
        {"one that speaks chat", "no choices",
         "{\"object\":\"x\",\"message\":{\"content\":\"hi\"}}"},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct chat_reply c = read_as(200, v[i].body);
        CHECK(c.kind == CHAT_FATAL && str_find(c.why, str_z(v[i].words)) >= 0 &&
                  c.r.finish == FINISH_ERROR && !c.r.choice_logprob.n,
              "%s is refused by name: %.*s", v[i].what, STR_ARG(c.why));
    }
    struct chat_reply c =
        read_as(200, "{\"choices\":[" PROMPT "," CAT
                     "," ONE(2, "The big dog", "\"The big dog\"", "null", "null") "]}");
    CHECK(c.kind == CHAT_FAILED && !c.r.choice_logprob.n, "a choice merged into the prompt: %.*s",
          STR_ARG(c.why));
    c = read_as(503, "{\"error\":{\"message\":\"busy\"}}");
    CHECK(c.kind == CHAT_RETRY && c.r.finish == FINISH_ERROR, "503 is tried again");
    c = read_as(400, "{\"error\":{\"message\":\"too long\",\"param\":\"prompt\"}}");
    CHECK(c.kind == CHAT_FAILED, "a prompt that is too long is that item's fault");
    c = read_as(400, "{\"error\":{\"message\":\"no\",\"param\":\"echo\"}}");
    CHECK(c.kind == CHAT_FATAL, "echo refused is the server's: %.*s", STR_ARG(c.why));
    c = read_as(404, "<html>");
    CHECK(c.kind == CHAT_FATAL && str_find(c.why, STR_LIT("at http://h/v1/completions")) >= 0,
          "no such call: %.*s", STR_ARG(c.why));
    c = read_as(200, "{\"choices\":[{\"logprobs\":{\"token_logprobs\":[null,NaN]}}]}");
    CHECK(c.kind == CHAT_FAILED && str_find(c.why, STR_LIT("NaN or Infinity")) >= 0 &&
              c.r.finish == FINISH_ERROR,
          "NaN has no place in JSON: %.*s", STR_ARG(c.why));
    c = read_as(200, "{\"choices\":[" PROMPT "," ONE(1, "The cats", "\"The\",\" c\",\"at\",\"s\"",
                                                     "null,0,0,-3", "null,{},{},{}") "," DOG "]}");
    CHECK(c.kind == CHAT_ANSWER, "a sure choice beside others is fine: %.*s", STR_ARG(c.why));
    c = read_as(200, "nonsense");
    CHECK(c.kind == CHAT_RETRY, "no JSON may be an accident");
}

int main(void)
{
    struct err e = {0};
    unsetenv("ASSAY_API_KEY");
    CHECK(!chat_target_parse(&target, "http://h/v1#m", &arena, &e), "a target %s", e.msg);
    test_asking();
    test_reading();
    test_refusals();
    arena_release(&arena);
    return tap_done();
}
