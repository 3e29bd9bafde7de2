/* The http model against a server that misbehaves: what a reply means, what is tried again, what
 * stops a run. Waiting goes through a fake clock, so minutes of Retry-After take milliseconds.
 */
#include "eval/chat.h"
#include "eval/model_kinds.h"

#include "base/clock.h"
#include "base/json.h"
#include "tests/httpd.h"

static struct arena arena;

/* ---- replies, no network -------------------------------------------------------------------- */

static struct chat_reply read_as(const struct chat_target *t, int status, const char *type,
                                 const char *body)
{
    struct chat_reply out;
    struct http_reply h = {.status = status,
                           .body = str_z(body),
                           .retry_after = -1,
                           .should_retry = -1,
                           .content_type = type};
    chat_read(t, &h, &out, &arena);
    return out;
}

static const struct chat_target plain = {.dialect = &chat_openai, .model = "m", .server = "s"};
static const struct chat_target ollama = {
    .dialect = &chat_ollama, .model = "m", .server = "s", .num_ctx = 2048};

static void answers(const struct chat_target *t, const char *body, const char *text, int finish,
                    const char *what)
{
    struct chat_reply r = read_as(t, 200, "application/json", body);
    bool same = r.kind == CHAT_ANSWER && str_eqz(r.r.text, text) && r.r.finish == finish;
    CHECK(same, "%s", what);
    if (!same)
        printf("# kind %d, \"%.*s\", finish %s, %.*s%.*s\n", r.kind, STR_ARG(r.r.text),
               finish_names[r.r.finish], STR_ARG(r.r.detail), STR_ARG(r.why));
}

static void refuses(const struct chat_target *t, int status, const char *body, enum chat_kind kind,
                    const char *why, const char *what)
{
    struct chat_reply r = read_as(t, status, "application/json", body);
    bool same = r.kind == kind && r.r.finish == FINISH_ERROR && str_find(r.why, str_z(why)) >= 0 &&
                !r.r.text.n;
    CHECK(same, "%s", what);
    if (!same)
        printf("# kind %d, want %d: \"%.*s\"\n", r.kind, kind, STR_ARG(r.why));
}

#define OK(content, reason)                                                                        \
    "{\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"content\":" content                 \
    "},\"finish_reason\":" reason "}]}"

static void test_answers(void)
{
    answers(&plain, OK("\"85\"", "\"stop\""), "85", FINISH_STOP, "an OpenAI answer");
    answers(&plain, "\xEF\xBB\xBF\n" OK("\"85\"", "\"stop\"") "\n\n", "85", FINISH_STOP,
            "with a BOM and blank lines around");
    answers(&plain, "\n: PROCESSING\n\n: PROCESSING\n" OK("\"85\"", "\"stop\""), "85", FINISH_STOP,
            "behind comment lines");
    answers(&plain, OK("\"85\"", "null"), "85", FINISH_STOP, "without a finish_reason");
    answers(&plain, OK("\"10\"", "\"length\""), "10", FINISH_LENGTH, "a cut answer is length");
    answers(&plain, OK("null", "\"length\""), "", FINISH_LENGTH, "null content, cut, is length");
    answers(&plain, OK("null", "\"stop\""), "", FINISH_STOP, "null content is an empty text");
    answers(&plain, OK("\"x\"", "\"content_filter\""), "x", FINISH_FILTER, "the filter's class");
    answers(&plain, OK("null,\"refusal\":\"I will not\"", "\"stop\""), "", FINISH_FILTER,
            "a refusal field is the filter's class");
    answers(&plain, OK("\"x\"", "\"tool_calls\""), "x", FINISH_ERROR, "a tool call is no answer");
    answers(&plain,
            OK("[{\"type\":\"text\",\"text\":\"8\"},{\"type\":\"image\"},{\"type\":\"text\","
               "\"text\":\"5\"}]",
               "\"stop\""),
            "85", FINISH_STOP, "text parts are joined");
    answers(&plain, OK("\"<think>10 or 20</think>\\n85\"", "\"stop\""), "85", FINISH_STOP,
            "a closed <think> block is dropped");
    answers(&plain, OK("\"<think>10 or\"", "\"stop\""), "", FINISH_LENGTH,
            "an open <think> block is a cut answer");
    answers(&plain,
            "{\"choices\":[{\"index\":1,\"message\":{\"content\":\"b\"}},{\"index\":0,\"message\":"
            "{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}",
            "a", FINISH_STOP, "choices are taken by index, not by place");
    answers(&plain, OK("\"\\ud83d 85\"", "\"stop\""), "\xEF\xBF\xBD 85", FINISH_STOP,
            "a lone surrogate is read as U+FFFD");
    answers(&plain,
            "data: {\"choices\":[{\"delta\":{\"content\":\"8\"}}]}\r\n\r\n: ping\r\ndata: "
            "{\"choices\":[{\"delta\":{\"content\":\"5\"},\"finish_reason\":\"stop\"}]}\n\ndata: "
            "[DONE]\n",
            "85", FINISH_STOP, "an event stream that nobody asked for is put together");
    answers(&ollama,
            "{\"model\":\"m\",\"message\":{\"content\":\"85\"},\"done\":true,"
            "\"done_reason\":\"stop\"}",
            "85", FINISH_STOP, "an Ollama answer");
    answers(&ollama,
            "{\"message\":{\"content\":\"8\"},\"done\":false}\n{\"message\":{\"content\":\"5\"},"
            "\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":"
            "\"stop\"}\n",
            "85", FINISH_STOP, "several JSON lines are put together");
    answers(&ollama, "{\"message\":{\"content\":\"85\"},\"done\":true,\"done_reason\":\"length\"}",
            "85", FINISH_LENGTH, "Ollama's length");
    answers(&ollama,
            "{\"message\":{\"content\":\"85\"},\"done\":true,\"done_reason\":\"stop\","
            "\"prompt_eval_count\":2048}",
            "85", FINISH_ERROR, "a prompt that filled num_ctx was cut in silence: no answer");
}

static const char *body_of(double temperature)
{
    struct buf b = {0};
    struct request q = {
        .prompt = STR_LIT("x"), .max_tokens = 4, .seed = 77, .temperature = temperature};
    plain.dialect->body(&plain, &q, &b);
    const char *out = str_dup(&arena, buf_str(&b));
    buf_release(&b);
    return out;
}

static void test_bodies(void)
{
    CHECK(strstr(body_of(0), "\"temperature\":0") && strstr(body_of(0), "\"seed\":77"),
          "temperature and seed are sent");
    CHECK(!strstr(body_of(-1), "temperature") && strstr(body_of(-1), "\"seed\":77"),
          "without a temperature the seed is: %s", body_of(-1));
}

static void test_counts(void)
{
    struct chat_reply r =
        read_as(&plain, 200, "",
                "{\"model\":\"other\",\"choices\":[{\"message\":{\"content\":\"x\"}}],"
                "\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3}}");
    CHECK(r.r.tokens_in == 12 && r.r.tokens_out == 3, "usage is read");
    CHECK(str_eqz(r.r.model, "other"), "the model served is recorded, not the one asked for");
    r = read_as(&plain, 200, "", OK("\"x\"", "\"stop\""));
    CHECK(r.r.tokens_in == FIELD_NONE_I64, "no usage is unknown");
    r = read_as(&plain, 200, "",
                "{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":0,"
                "\"completion_tokens\":0}}");
    CHECK(r.r.tokens_in == FIELD_NONE_I64 && r.r.tokens_out == FIELD_NONE_I64,
          "usage of 0 is unknown, not free");
    r = read_as(&plain, 200, "",
                "{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"usage\":null}");
    CHECK(r.kind == CHAT_ANSWER && r.r.tokens_in == FIELD_NONE_I64, "usage null is unknown");
}

static void test_refusals(void)
{
    refuses(&plain, 200, "", CHAT_RETRY, "empty", "an empty body is tried again");
    refuses(&plain, 200, "{\"choices\":[]}", CHAT_RETRY, "choice", "zero choices are tried again");
    refuses(&plain, 200, "{}", CHAT_RETRY, "choice", "so is a body without choices");
    refuses(&plain, 200, "[1, 2]", CHAT_RETRY, "choice", "and an array");
    refuses(&plain, 200, "{\"choices\": [{\"mess", CHAT_RETRY, "no JSON", "and half an object");
    refuses(&plain, 200, "<html><body>login</body>", CHAT_RETRY, "HTML", "and a page of HTML");
    refuses(&plain, 200, "data: {\"choices\":[{\"delta\":{\"content\":\"8\"}}]}\n\n", CHAT_RETRY,
            "stream", "and a stream without an end");
    refuses(&plain, 200, "{\"error\":{\"message\":\"slow\",\"code\":429}}", CHAT_RETRY, "HTTP 429",
            "200 with an error of code 429 counts as 429");
    refuses(&plain, 200, "{\"error\":{\"message\":\"slow\",\"code\":\"502\"}}", CHAT_RETRY,
            "HTTP 502", "also when the code is a string");
    refuses(&ollama, 200,
            "{\"message\":{\"content\":\"8\"},\"done\":false}\n{\"error\":\"out of memory\"}",
            CHAT_RETRY, "out of memory", "an error line behind good ones voids the answer");
    refuses(&plain, 429, "{\"error\":{\"message\":\"m\",\"code\":\"rate_limit_exceeded\"}}",
            CHAT_RETRY, "429", "429 is tried again");
    refuses(&plain, 429, "{\"error\":{\"message\":\"m\",\"code\":\"insufficient_quota\"}}",
            CHAT_EXHAUSTED, "429", "429 without money is not");
    refuses(&plain, 402, "{}", CHAT_EXHAUSTED, "402", "402 is not either");
    refuses(&plain, 503, "{\"error\":{\"message\":\"Loading model\"}}", CHAT_RETRY, "Loading model",
            "503 while loading is tried again");
    refuses(&plain, 529, "{}", CHAT_RETRY, "529", "529 is tried again");
    refuses(&plain, 502, "<html>Bad gateway</html>", CHAT_RETRY, "HTML", "an HTML 502 too");
    refuses(&plain, 401, "{\"error\":{\"message\":\"bad key\"}}", CHAT_FATAL, "bad key",
            "401 stops the run");
    refuses(&plain, 404, "{\"error\":\"model 'm' not found\"}", CHAT_FATAL, "not found",
            "404 stops the run with the server's words");
    refuses(&plain, 302, "", CHAT_FATAL, "redirect", "a redirect stops the run");
    refuses(&plain, 400,
            "{\"error\":{\"message\":\"Unsupported\",\"param\":\"temperature\",\"code\":"
            "\"unsupported_value\"}}",
            CHAT_FATAL, "\"temperature\"", "400 for a parameter stops the run and names it");
    refuses(&plain, 400, "{\"error\":{\"message\":\"too long\",\"type\":\"exceed_context\"}}",
            CHAT_FAILED, "too long", "400 for a prompt fails that request only");
    refuses(&plain, 400, "{\"object\":\"error\",\"message\":\"flat\",\"code\":400}", CHAT_FAILED,
            "flat", "old vLLM's flat error is read");
    refuses(&plain, 418, "teapot \xff\xfe\x01", CHAT_FAILED, "teapot ", "bytes are made printable");
    struct str deep = {0};
    struct buf b = {0};
    for (int i = 0; i < 100000; i++)
        buf_addc(&b, '[');
    deep = buf_str(&b);
    refuses(&plain, 200, deep.p, CHAT_RETRY, "no JSON", "absurd nesting is no JSON");
    buf_release(&b);
}

static void test_key_scrubbed(void)
{
    struct chat_target t = plain;
    t.key = "sk-SECRET";
    t.key_name = "ASSAY_API_KEY";
    struct chat_reply r = read_as(&t, 401, "", "{\"error\":{\"message\":\"no sk-SECRET here\"}}");
    CHECK(str_find(r.why, STR_LIT("SECRET")) < 0 && str_find(r.why, STR_LIT("***")) >= 0,
          "a key that the server repeats is not: %.*s", STR_ARG(r.why));
    CHECK(str_find(r.why, STR_LIT("ASSAY_API_KEY")) >= 0, "where the key comes from is said");
}

static void test_specs(void)
{
    struct chat_target t;
    struct err e;
    setenv("OPENAI_API_KEY", "k", 1);
    unsetenv("OPENAI_BASE_URL");
    unsetenv("OLLAMA_HOST");
    unsetenv("ASSAY_API_KEY");
    CHECK(!chat_target_parse(&t, "openai:gpt-5.5", &arena, &e) &&
              !strcmp(t.url, "https://api.openai.com/v1/chat/completions") &&
              !strcmp(t.model, "gpt-5.5") && t.new_tokens_name,
          "openai:MODEL");
    CHECK(!chat_target_parse(&t, "ollama:llama3:8b", &arena, &e) &&
              !strcmp(t.url, "http://127.0.0.1:11434/api/chat") && !strcmp(t.model, "llama3:8b"),
          "ollama:MODEL keeps the model's tag");
    CHECK(!chat_target_parse(&t, "ollama:x?num_ctx=32768", &arena, &e) && t.num_ctx == 32768 &&
              !strcmp(t.model, "x"),
          "ollama:MODEL?num_ctx=N");
    setenv("OLLAMA_HOST", "10.0.0.1:99", 1);
    CHECK(!chat_target_parse(&t, "ollama:x", &arena, &e) &&
              !strcmp(t.url, "http://10.0.0.1:99/api/chat"),
          "OLLAMA_HOST without a scheme");
    unsetenv("OLLAMA_HOST");
    CHECK(!chat_target_parse(&t, "http://h:1/v1/#a/b", &arena, &e) &&
              !strcmp(t.url, "http://h:1/v1/chat/completions") && !strcmp(t.model, "a/b") && !t.key,
          "http://HOST/PATH#MODEL");
    static const char *const bad[] = {
        "openai:",      "ollama:",    "http://h:1/v1",      "http://#m",       "http://h:1/#",
        "http:///v1#m", "ftp://h/#m", "ollama:x?num_ctx=0", "ollama:x?seed=1", "http://h?k=1#m"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (struct err){0};
        CHECK(chat_target_parse(&t, bad[i], &arena, &e) && e.code == EXIT_USAGE && e.msg[0],
              "%s is refused", bad[i]);
    }
    CHECK(chat_target_parse(&t, "http://me:pass@h/v1#m", &arena, &e) && !strstr(e.msg, "pass@"),
          "a password in a spec is refused and not repeated: %s", e.msg);
    unsetenv("OPENAI_API_KEY");
    CHECK(chat_target_parse(&t, "openai:m", &arena, &e) && strstr(e.msg, "OPENAI_API_KEY"),
          "no key: its variable is named");
    static const char *const odd[] = {"sk-1\n", "sk 1", " sk-1", "sk-\xC3\xA4"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        setenv("OPENAI_API_KEY", odd[i], 1);
        CHECK(chat_target_parse(&t, "openai:m", &arena, &e) && e.code == EXIT_USAGE &&
                  strstr(e.msg, "OPENAI_API_KEY") && !strstr(e.msg, "sk"),
              "a key that is none is refused and not shown: %s", e.msg);
    }
    unsetenv("OPENAI_API_KEY");
}

/* ---- with a server -------------------------------------------------------------------------- */

struct asked {
    int n, given, done;
    struct response got[64]; /* by number of the item */
};

static int next(void *ctx, struct request *q, struct err *e)
{
    struct asked *a = ctx;
    (void)e;
    if (a->given == a->n)
        return 0;
    *q = (struct request){.id = str_printf(&arena, "%d", a->given),
                          .prompt = str_printf(&arena, "question %d.", a->given),
                          .max_tokens = 16,
                          .seed = 123};
    a->given++;
    return 1;
}

static int done(void *ctx, const struct request *q, const struct response *r, struct err *e)
{
    struct asked *a = ctx;
    int64_t i;
    (void)e;
    if (str_i64(q->id, &i) == 0 && i < 64) {
        a->got[i] = *r;
        a->got[i].text = str_copy(&arena, r->text);
        a->got[i].detail = str_copy(&arena, r->detail);
        a->got[i].model = str_copy(&arena, r->model);
    }
    a->done++;
    return 0;
}

struct trial {
    int rc;
    struct err e;
    struct asked a;
    double slept;
    struct str log;
    int requests;
};

/* Asks n questions of a server with this script. */
static struct trial ask(const char *script, int n, struct model_options o, const char *suffix)
{
    struct trial out = {.a = {.n = n}};
    struct clock clock = clock_fake(1e9);
    struct model m = {.ops = &model_http};
    struct httpd h;
    struct buf log = {0};
    if (!httpd_start(&h, script)) {
        CHECK(false, "the scripted server starts");
        return out;
    }
    o.clock = &clock;
    if (o.timeout == 0)
        o.timeout = 20;
    char spec[128];
    snprintf(spec, sizeof spec, "%s%s", h.url, suffix);
    out.rc = m.ops->open(&m, spec, &o, &out.e);
    if (out.rc == 0)
        out.rc = m.ops->answer(&m, next, done, &out.a, &out.e);
    m.ops->close(&m);
    arena_release(&m.arena);
    httpd_log(&h, &log);
    httpd_stop(&h);
    out.log = str_copy(&arena, buf_str(&log));
    for (size_t i = 0; i < out.log.n; i++)
        out.requests += out.log.p[i] == '\n';
    out.slept = clock.slept;
    buf_release(&log);
    return out;
}
#define ON "on POST /v1/chat/completions\n"
#define GOOD                                                                                       \
    ON "body "                                                                                     \
       "{\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"85\"},\"finish_reason\":"        \
       "\"stop\"}]}\n"
#define AT "/v1#m"
static const struct model_options two = {.retries = 2, .concurrency = 1};
static const struct model_options four = {.retries = 2, .concurrency = 4};

static void test_good(void)
{
    struct trial r = ask(GOOD, 20, (struct model_options){.retries = 2, .concurrency = 4}, AT);
    bool all = r.rc == 0 && r.a.done == 20;
    for (int i = 0; i < 20; i++)
        all = all && str_eqz(r.a.got[i].text, "85");
    CHECK(all, "twenty questions get twenty answers");
    CHECK_INT(r.requests, 20, "with twenty requests");
    CHECK(str_find(r.log, STR_LIT("\\\"max_tokens\\\":16")) >= 0 &&
              str_find(r.log, STR_LIT("\\\"stream\\\":false")) >= 0 &&
              str_find(r.log, STR_LIT("\\\"seed\\\":123")) >= 0,
          "the body has max_tokens, stream false and the seed");
    CHECK(str_find(r.log, STR_LIT("Authorization")) < 0, "no key, no header");
    CHECK(r.slept == 0, "nothing waited");
}

static void test_waits(void)
{
    struct trial r = ask(
        ON "times 1\nstatus 429\nheader Retry-After: 7\nbody {\"error\":{}}\n" GOOD, 1, two, AT);
    CHECK(r.rc == 0 && str_eqz(r.a.got[0].text, "85"), "429, then an answer");
    CHECK(r.slept >= 7 && r.slept < 7.5, "Retry-After was waited out: %.2f s", r.slept);
    r = ask(ON "times 2\nstatus 500\nbody oops\n" GOOD, 1, two, AT);
    CHECK(r.rc == 0 && str_eqz(r.a.got[0].text, "85"), "500 twice, then an answer");
    CHECK(r.slept > 1.1 && r.slept <= 1.6, "with backoff 0.5 and 1 s: %.2f s", r.slept);
    r = ask(ON "status 500\nbody oops\n", 3, two, AT);
    CHECK(r.rc == 0 && r.requests == 9, "500 for ever is tried three times each");
    CHECK(r.a.got[2].finish == FINISH_ERROR &&
              str_find(r.a.got[2].detail, STR_LIT("HTTP 500")) >= 0 &&
              str_find(r.a.got[2].detail, STR_LIT("3 tries")) >= 0,
          "then it is an error that says so: %.*s", STR_ARG(r.a.got[2].detail));
    r = ask(ON "status 500\n", 40, two, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && r.a.done < 12,
          "a server that only fails ends the run, resumable: %s", r.e.msg);
    r = ask(ON "status 429\nheader Retry-After: 86400\nbody {}\n" GOOD, 5, two, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && strstr(r.e.msg, "86400") && r.slept < 1,
          "an absurd Retry-After ends the run: %s", r.e.msg);
    r = ask(ON "times 1\nstatus 400\nheader x-should-retry: true\nbody {}\n" GOOD, 1, two, AT);
    CHECK(r.rc == 0 && str_eqz(r.a.got[0].text, "85"), "x-should-retry: true is believed");
    r = ask(ON "status 503\nheader x-should-retry: false\nbody {}\n", 1, two, AT);
    CHECK_INT(r.requests, 1, "x-should-retry: false too");
}

static void test_broken(void)
{
    static const struct {
        const char *script, *what;
    } v[] = {
        {"body not json at all\n", "garbage"},
        {"body {\"choices\":[\nlength 500\ncut 8\n", "a body cut short"},
        {"status 502\nheader Content-Type: text/html\nbody <html>bad</html>\n", "a page of HTML"},
        {"chunked\nbody {\"choices\":[{\"message\":{\"content\":\"1\"}}]}\ncut 20\n",
         "a cut chunk"},
        {"close\n", "a connection closed without an answer"},
        {"reset\n", "a reset connection"},
        {"body\n", "an empty body"},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        char script[2000];
        snprintf(script, sizeof script, ON "times 1\n%s" GOOD, v[i].script);
        struct trial r = ask(script, 1, two, AT);
        CHECK(r.rc == 0 && r.a.done == 1 && str_eqz(r.a.got[0].text, "85"),
              "%s is no answer; the next try is", v[i].what);
        if (r.rc)
            printf("# %s\n", r.e.msg);
    }
    struct model_options o = {.retries = 0, .concurrency = 1, .timeout = 0.3};
    struct trial r = ask(ON "hang\n", 1, o, AT);
    CHECK(r.rc == 0 && r.a.got[0].finish == FINISH_ERROR, "a server that never answers times out");
    CHECK(r.a.got[0].detail.n > 0, "and why is said: %.*s", STR_ARG(r.a.got[0].detail));
    o.retries = 4;
    r = ask(ON "hang\n", 20, o, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && r.requests == 4,
          "one that never answers at all ends the run after 4 timeouts, not after 40: %s", r.e.msg);
    r = ask(ON "close\n", 20, o, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && r.requests == 8,
          "one that closes every connection after 8 tries: %s", r.e.msg);
    r = ask(ON "times 3\nhang\n" GOOD, 3, o, AT);
    CHECK(r.rc == 0 && r.a.done == 3, "one that wakes up in time is asked on");
}

static void test_stops(void)
{
    struct clock clock = clock_fake(0);
    struct model_options o = {.retries = 2, .concurrency = 2, .clock = &clock};
    struct model m = {.ops = &model_http};
    struct err e = {0};
    struct asked a = {.n = 20};
    int rc = m.ops->open(&m, "http://127.0.0.1:1/v1#m", &o, &e);
    rc = rc ? rc : m.ops->answer(&m, next, done, &a, &e);
    CHECK(rc == -1 && e.code == EXIT_INCOMPLETE && a.given <= 3,
          "nobody listens: tried a few times, then the run ends, resumable: %s", e.msg);
    CHECK(clock.slept > 1, "after waiting between the tries");
    m.ops->close(&m);
    arena_release(&m.arena);

    setenv("ASSAY_API_KEY", "sk-SECRET", 1);
    struct trial r =
        ask(ON "status 401\nbody {\"error\":{\"message\":\"bad sk-SECRET\"}}\n", 9, four, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_FAILED && r.requests == 1 && r.a.done == 0,
          "401 ends the run at the first request, nothing is answered");
    CHECK(!strstr(r.e.msg, "SECRET"), "without the key in the sentence: %s", r.e.msg);
    CHECK(str_find(r.log, STR_LIT("Authorization: Bearer sk-SECRET")) >= 0, "which was sent");
    unsetenv("ASSAY_API_KEY");
    r = ask(ON "status 429\nbody {\"error\":{\"code\":\"insufficient_quota\"}}\n", 9, four, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && r.requests == 1,
          "no money: the queue stops at once, resumable");
    r = ask(ON "status 400\nbody {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
               "\"message\":\"Your credit balance is too low to access the Anthropic API.\"}}\n",
            9, four, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && r.requests == 1,
          "nor with Anthropic's credit, which it says in words only: %s", r.e.msg);
    r = ask(
        ON
        "times 20\nstatus 400\nbody {\"error\":{\"message\":\"the prompt has 200 tokens\"}}\n" GOOD,
        30, four, AT);
    bool kept = r.rc == 0 && r.a.done == 30;
    for (int i = 0; kept && i < 30; i++)
        kept = i < 20 ? r.a.got[i].finish == FINISH_ERROR && r.a.got[i].final
                      : str_eqz(r.a.got[i].text, "85");
    CHECK(kept && r.requests == 30,
          "twenty refused for good before any answer: theirs alone, the rest is asked");
    r = ask(ON "status 503\nheader x-should-retry: false\nbody {}\n", 40, two, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && r.a.done < 12 && !r.a.got[0].final,
          "a server's own fault is none of the items': it ends the run, resumable");
    r = ask(ON "status 400\nbody {\"error\":{\"message\":\"no m\",\"code\":\"model_not_found\"}}\n",
            9, four, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_FAILED && r.requests == 1 && strstr(r.e.msg, "model m"),
          "a model that is not there ends it at once, whatever the status: %s", r.e.msg);
    r = ask(ON "status 405\nbody {\"error\":{\"message\":\"no POST\"}}\n", 9, four, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_FAILED && r.requests == 1,
          "so does what is refused of every request: %s", r.e.msg);
    r = ask(GOOD, 9, (struct model_options){.retries = 2, .concurrency = 2, .max_requests = 5}, AT);
    CHECK(r.rc == -1 && r.e.code == EXIT_INCOMPLETE && r.requests == 5 && r.a.done == 5,
          "the cap of requests is kept, what was paid for is kept too: %s", r.e.msg);
}

static int most_active(struct str log)
{
    int most = 0;
    for (struct str rest = log; rest.n;) {
        struct json *v = json_parse(str_cut(&rest, '\n'), &(struct err){0});
        int n = (int)json_int(json_get(v, "active"), 0);
        most = n > most ? n : most;
        json_free(v);
    }
    return most;
}

static void test_many(void)
{
    const char *slow = GOOD "delay 0.05\n";
    struct trial r = ask(slow, 12, (struct model_options){.retries = 2, .concurrency = 4}, AT);
    CHECK(r.rc == 0 && r.a.done == 12 && most_active(r.log) == 4, "four at once, not more: %d",
          most_active(r.log));
    r = ask(slow, 3, (struct model_options){.retries = 2, .concurrency = 1}, AT);
    CHECK_INT(most_active(r.log), 1, "one at once");
    r = ask(ON "times 1\nstatus 429\nbody {}\n" GOOD "delay 0.05\n", 12,
            (struct model_options){.retries = 2, .concurrency = 2}, AT);
    CHECK(r.rc == 0 && r.a.done == 12, "429 among many: all are answered in the end");
}

static void test_ollama(void)
{
    struct httpd h;
    struct buf log = {0};
    struct model m = {.ops = &model_http};
    struct model_options o = {.retries = 0, .concurrency = 1, .timeout = 20};
    struct err e = {0};
    struct asked a = {.n = 1};
    CHECK(httpd_start(&h,
                      "on POST /api/chat\nbody {\"model\":\"l\",\"message\":{\"content\":\"72\"},"
                      "\"done\":true,\"done_reason\":\"stop\"}\n"),
          "an Ollama server starts");
    setenv("OLLAMA_HOST", h.url, 1);
    int rc = m.ops->open(&m, "ollama:l?num_ctx=4096", &o, &e);
    rc = rc ? rc : m.ops->answer(&m, next, done, &a, &e);
    CHECK(rc == 0 && str_eqz(a.got[0].text, "72"), "Ollama answers");
    CHECK(strstr(m.ops->identity(&m), "num_ctx=4096"), "num_ctx is part of the identity: %s",
          m.ops->identity(&m));
    m.ops->close(&m);
    arena_release(&m.arena);
    httpd_log(&h, &log);
    CHECK(strstr(log.p, "\\\"num_ctx\\\":4096") && strstr(log.p, "\\\"num_predict\\\":16") &&
              strstr(log.p, "\\\"stream\\\":false"),
          "sampling lies in options, num_ctx is set");
    httpd_stop(&h);
    buf_release(&log);
}

/* Identity of "ollama:NAME" at a server with that list of models; NULL: it can't be opened. */
static const char *ollama_identity(const char *name, const char *tags, struct err *e)
{
    struct httpd h = {0};
    struct model m = {.ops = &model_http};
    struct model_options o = {.timeout = 20};
    const char *id = NULL;
    char script[2000];
    snprintf(script, sizeof script, "on GET /api/tags\n%s\n", tags);
    if (!httpd_start(&h, script))
        return NULL;
    setenv("OLLAMA_HOST", h.url, 1);
    if (m.ops->open(&m, arena_printf(&arena, "ollama:%s", name), &o, e) == 0)
        id = arena_strdup(&arena, strstr(m.ops->identity(&m), "127.0.0.1"));
    m.ops->close(&m);
    arena_release(&m.arena);
    httpd_stop(&h);
    return id;
}

static void test_digest(void)
{
#define TAGS                                                                                       \
    "body {\"models\":[{\"name\":\"llama3:8b\",\"digest\":\"aaaa0bd3c000a25d28ddbf732fe1c6add\"}," \
    "{\"name\":\"llama3:latest\",\"digest\":\"sha256:365c0bd3c000a25d28ddbf732fe1c6add\"},"        \
    "{\"name\":\"odd\",\"digest\":\"no digest\"}]}"
    static const struct {
        const char *name, *tags, *want, *what;
    } v[] = {
        {"llama3", TAGS, "digest=365c0bd3c000a25d", "a name without a tag is the latest"},
        {"llama3:8b", TAGS, "digest=aaaa0bd3c000a25d", "one with a tag is that"},
        {"llama", TAGS, NULL, "another name that begins alike is not it"},
        {"odd", TAGS, NULL, "a digest that is none is left out"},
        {"llama3", "status 404\nbody {\"error\":\"no\"}", NULL, "a server without the list"},
        {"llama3", "body <html>hello</html>", NULL, "a page of HTML is no list"},
    };
    struct err e = {0};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        const char *id = ollama_identity(v[i].name, v[i].tags, &e);
        CHECK(id && (v[i].want ? strstr(id, v[i].want) != NULL : !strstr(id, "digest")),
              "Ollama's digest, %s: %s", v[i].what, id ? id : e.msg);
    }
    CHECK(!ollama_identity("llama3", "status 503\nbody {}", &e) && e.code == EXIT_INCOMPLETE &&
              strstr(e.msg, "503"),
          "an Ollama that can't say now is asked later: %s", e.msg);
    static const char shown[] =
        TAGS "\non POST /api/show\nbody {\"model_info\":{\"general.architecture\":\"llama\","
             "\"llama.context_length\":4096}}";
    const char *id = ollama_identity("llama3", shown, &e);
    CHECK(id && strstr(id, "num_ctx=4096"),
          "a default num_ctx is lowered to what the model has: %s", id ? id : e.msg);
    id = ollama_identity("llama3?num_ctx=2048", shown, &e);
    CHECK(id && strstr(id, "num_ctx=2048"), "a smaller one is taken: %s", id ? id : e.msg);
    CHECK(!ollama_identity("llama3?num_ctx=5000", shown, &e) && e.code == EXIT_USAGE &&
              strstr(e.msg, "ollama:llama3?num_ctx=4096"),
          "a larger one is refused, with the one to ask for: %s", e.msg);
#undef TAGS
}

int main(void)
{
    test_digest();
    test_answers();
    test_bodies();
    test_counts();
    test_refusals();
    test_key_scrubbed();
    test_specs();
    test_good();
    test_waits();
    test_broken();
    test_stops();
    test_many();
    test_ollama();
    file_remove_tree(tap_tmp(), &(struct err){0});
    arena_release(&arena);
    return tap_done();
}
