/* The twenty-four ways in which judges' servers misbehave, by their numbers, each against a scripted
 * server and with a clock that jumps: what is scored, what is asked again, what ends the run.
 */
#include "pipelines/judge.h"

#include "base/clock.h"
#include "base/log.h"
#include "tests/httpd.h"

static struct arena arena;
static int runs;

struct opts {
    const char *spec;   /* NULL: the scripted server, as OpenAI-compatible */
    int items, retries; /* items 0: 1 */
    bool structured, keep;
    double timeout;
    const char *dir; /* of an earlier run */
};
struct trial {
    int rc, requests, scored;
    struct err e;
    struct score v[8];
    struct str said, log, facts;
    double slept;
    const char *dir;
};

static const char *at(const char *dir, const char *name)
{
    return arena_printf(&arena, "%s/%s", dir, name);
}

/* Items i0, i1... and an answer to each. */
static void write_inputs(const char *dir, int n, struct err *e)
{
    struct item it[8] = {0};
    struct items items = {.v = it, .n = (size_t)n};
    struct records *w = records_open(at(dir, "r.msgpack"), &response_schema, RECORD_WRITE, e);
    for (int i = 0; w && i < n; i++) {
        it[i].id = str_printf(&arena, "i%d", i);
        it[i].task = STR_LIT("instruct");
        it[i].instruction = str_printf(&arena, "question %d.", i);
        it[i].reference = STR_LIT("right");
        struct response r = {.item = it[i].id,
                             .text = str_printf(&arena, "answer %d", i),
                             .tokens_in = FIELD_NONE_I64,
                             .tokens_out = FIELD_NONE_I64};
        records_append(w, &r, e);
    }
    records_close(w, e);
    items_save(&items, at(dir, "items.msgpack"), e);
}

static void read_out(struct trial *t, int n)
{
    struct scores s = {0};
    struct buf b = {0};
    struct err e = {0};
    if (scores_load(&s, at(t->dir, "out/scores.msgpack"), &e) == 0)
        for (int i = 0; i < n && i < (int)s.n; i++) {
            t->v[i] = s.v[i];
            t->v[i].detail = str_copy(&arena, s.v[i].detail);
            t->v[i].judge = str_copy(&arena, s.v[i].judge);
            t->scored += s.v[i].outcome == OUTCOME_SCORED;
        }
    scores_release(&s);
    if (file_read(at(t->dir, "out/manifest.json"), &b, 0, &e) == 0)
        t->facts = str_copy(&arena, buf_str(&b));
    buf_release(&b);
}

static struct trial judge(const char *script, struct opts o)
{
    struct trial t = {0};
    struct clock clock = clock_fake(1e9);
    struct httpd h = {0};
    struct buf log = {0};
    struct price price = {.currency = STR_LIT("USD"), .input = 1, .output = 1};
    int n = o.items ? o.items : 1;
    t.dir = o.dir ? o.dir : arena_printf(&arena, "%s/run%d", tap_tmp(), runs++);
    file_mkdirs(t.dir, &t.e);
    write_inputs(t.dir, n, &t.e);
    if (script && !httpd_start(&h, script)) {
        CHECK(false, "the scripted server starts");
        return t;
    }
    const char *spec = o.spec ? o.spec : arena_printf(&arena, "%s/v1#m", h.url);
    if (script && strncmp(spec, "ollama:", 7) == 0)
        setenv("OLLAMA_HOST", h.url, 1);
    if (script && strncmp(spec, "anthropic:", 10) == 0)
        setenv("ANTHROPIC_BASE_URL", h.url, 1);
    struct str responses = str_z(at(t.dir, "r.msgpack"));
    struct judge_job j = {.items = at(t.dir, "items.msgpack"),
                          .responses = {&responses, 1},
                          .out = at(t.dir, "out"),
                          .c = {.judge = str_z(spec),
                                .concurrency = 1,
                                .retries = o.retries,
                                .max_tokens = 16,
                                .seed = 123,
                                .timeout = o.timeout > 0 ? o.timeout : 20,
                                .max_failed = 1},
                          .exact_tokens = true,
                          .structured = o.structured ? JSON_ASK : JSON_AUTO,
                          .asks = 1,
                          .repeat = 1,
                          .price = &price,
                          .clock = &clock};
    char *said = NULL;
    size_t said_n = 0;
    FILE *to = open_memstream(&said, &said_n);
    t.rc = judge_run(&j, to, &arena, &t.e);
    fclose(to);
    t.said = str_copy(&arena, (struct str){said, said_n});
    free(said);
    t.slept = clock.slept;
    if (script) {
        httpd_log(&h, &log);
        httpd_stop(&h);
        t.log = str_copy(&arena, buf_str(&log));
        for (size_t i = 0; i < log.n; i++)
            t.requests += log.p[i] == '\n';
        buf_release(&log);
    }
    read_out(&t, n);
    return t;
}

#define ON "on POST /v1/chat/completions\n"
#define SAY(content, reason)                                                                       \
    "{\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"content\":" content                 \
    "},\"finish_reason\":" reason "}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}"
#define GOOD ON "body " SAY("\"85\"", "\"stop\"") "\n"
#define ONCE ON "times 1\n"
static const struct opts patient = {.retries = 2}, hasty = {.retries = 0};

static bool is(const struct trial *t, int outcome, double value)
{
    const struct score *s = &t->v[0];
    bool ok = t->rc == 0 && s->outcome == outcome &&
              (outcome == OUTCOME_SCORED ? s->value == value : isnan(s->value));
    if (!ok)
        printf("# rc %d %s; %s %g %.*s\n", t->rc, t->e.msg, outcome_names[s->outcome], s->value,
               STR_ARG(s->detail));
    return ok;
}

/* A reply's content and why it ended; the outcome of the only item. */
static void content(int number, const char *text, const char *reason, bool structured, int outcome,
                    double value, const char *what)
{
    char script[4096];
    snprintf(script, sizeof script, ON "body " SAY("%s", "\"%s\"") "\n", text, reason);
    struct trial t = judge(script, (struct opts){.structured = structured});
    CHECK(is(&t, outcome, value), "fault %d: %s", number, what);
}

static void again(int number, const char *first, const char *what)
{
    char script[4096];
    snprintf(script, sizeof script, ONCE "%s" GOOD, first);
    struct trial t = judge(script, patient);
    CHECK(is(&t, OUTCOME_SCORED, 85) && t.requests == 2, "fault %d: %s", number, what);
}

static void test_1_to_3(void)
{
    struct trial t =
        judge(NULL, (struct opts){.spec = "http://127.0.0.1:1/v1#m", .items = 4, .retries = 2});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && strstr(t.e.msg, "connect") && t.slept > 1,
          "fault 1: connection refused: tried again, then the run stops resumably: %s", t.e.msg);
    t = judge(NULL, (struct opts){.spec = "http://no-such-host.invalid/v1#m", .retries = 0});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && strstr(t.e.msg, "no-such-host"),
          "fault 1: no such host likewise: %s", t.e.msg);
    t = judge(ON "hang\n", (struct opts){.retries = 0, .timeout = 0.3});
    CHECK(is(&t, OUTCOME_TRANSPORT_FAILED, 0), "fault 2: accepted and never answered: %.*s",
          STR_ARG(t.v[0].detail));
    again(3, "body {\"choices\":[{\"message\":{\"content\":\"10\nlength 500\ncut 30\n",
          "a body shorter than its length is never parsed");
    again(3, "chunked\nbody " SAY("\"10\"", "\"stop\"") "\ncut 60\n",
          "nor one without its last chunk");
    again(3, "reset\nclose\n", "nor a reset connection");
}

/* Without a Retry-After the resets of the rate limits say how long. */
static void test_limits(void)
{
#define RATE      ONCE "status 429\nheader "
#define ANTHROPIC "on POST /v1/messages\ntimes 1\nstatus 429\nheader "
#define MESSAGE                                                                                    \
    "on POST /v1/messages\nbody {\"type\":\"message\",\"model\":\"c\",\"content\":[{\"type\":"     \
    "\"text\",\"text\":\"85\"}],\"stop_reason\":\"end_turn\"}\n"
    static const struct {
        const char *spec, *script;
        double least, most;
        const char *what;
    } v[] = {
        {NULL,
         RATE "x-ratelimit-reset-requests: 1m30s\nheader x-ratelimit-reset-tokens: 12ms\nbody "
              "{}\n" GOOD,
         90, 90.5, "OpenAI's resets: the longest"},
        {NULL,
         RATE "x-ratelimit-reset-requests: 1m30s\nheader x-ratelimit-remaining-requests: 5\n"
              "header x-ratelimit-reset-tokens: 4s\nheader x-ratelimit-remaining-tokens: 0\nbody "
              "{}\n" GOOD,
         4, 4.5, "that of the limit that is used up"},
        {NULL, RATE "x-ratelimit-reset-requests: 20s\nheader Retry-After: 3\nbody {}\n" GOOD, 3,
         3.5, "a Retry-After goes first"},
        {NULL, RATE "x-ratelimit-reset-tokens: -1\nbody {}\n" GOOD, 0.37, 0.51,
         "-1 is no reset: own backoff"},
        {NULL, ONCE "status 500\nheader x-ratelimit-reset-tokens: 40s\nbody {}\n" GOOD, 0.37, 0.51,
         "a 500 names limits too and asks for no wait"},
        {"anthropic:c",
         ANTHROPIC "anthropic-ratelimit-tokens-remaining: 0\nheader "
                   "anthropic-ratelimit-tokens-reset: 2001-09-09T01:47:10Z\nheader "
                   "anthropic-ratelimit-requests-remaining: 9\nheader "
                   "anthropic-ratelimit-requests-reset: 2001-09-09T01:48:00Z\nbody {}\n" MESSAGE,
         30, 30.5, "Anthropic's time of the used-up limit"},
    };
    setenv("ANTHROPIC_API_KEY", "sk-ant", 1);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct trial t = judge(v[i].script, (struct opts){.spec = v[i].spec, .retries = 2});
        CHECK(is(&t, OUTCOME_SCORED, 85) && t.slept >= v[i].least && t.slept <= v[i].most,
              "a 429 by rate limits, %s: waited %.2f s", v[i].what, t.slept);
    }
    struct trial t =
        judge(ANTHROPIC "anthropic-ratelimit-tokens-remaining: 900\nheader "
                        "anthropic-ratelimit-tokens-reset: 2001-09-09T01:47:10Z\nbody {}\n" MESSAGE,
              (struct opts){.spec = "anthropic:c", .retries = 2});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && t.requests == 1,
          "Anthropic's 429 with no limit used up stays a spend cap: %s", t.e.msg);
    t = judge(ON "status 429\nheader x-ratelimit-reset-requests: 6m0s\nbody {}\n",
              (struct opts){.items = 4, .retries = 2});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && t.requests == 1 && strstr(t.e.msg, "360"),
          "a reset beyond 120 s stops the run: %s", t.e.msg);
#undef RATE
#undef ANTHROPIC
#undef MESSAGE
}

static void test_4_5(void)
{
    static const struct {
        const char *header;
        double least, most;
        const char *what;
    } v[] = {
        {"Retry-After: 7", 7, 7.5, "in seconds"},
        {"Retry-After: Sun, 09 Sep 2001 01:46:50 GMT", 10, 10.5, "as a date"},
        {"Retry-After: Sun, 09 Sep 2001 01:40:00 GMT", 0.37, 0.51, "in the past: own backoff"},
        {"Retry-After: -3", 0.37, 0.51, "negative: own backoff"},
        {"Retry-After: 0", 0.37, 0.51, "0: own backoff"},
        {"Retry-After: 1.5", 1.5, 2, "fractional"},
        {"Retry-After: soon", 0.37, 0.51, "garbage: own backoff"},
        {"retry-after-ms: 2500", 2.5, 3, "in milliseconds"},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        char script[2000];
        snprintf(script, sizeof script, ONCE "status 429\nheader %s\nbody {\"error\":{}}\n" GOOD,
                 v[i].header);
        struct trial t = judge(script, patient);
        CHECK(is(&t, OUTCOME_SCORED, 85) && t.slept >= v[i].least && t.slept <= v[i].most,
              "fault %d: 429 with Retry-After %s: waited %.2f s", i ? 5 : 4, v[i].what, t.slept);
    }
    test_limits();
    struct trial t = judge(ON "status 429\nheader Retry-After: 86400\nbody {}\n",
                           (struct opts){.items = 4, .retries = 2});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && t.requests == 1 && t.slept < 1,
          "fault 5: an absurd Retry-After stops the run: %s", t.e.msg);
}

static void test_6_to_9(void)
{
    struct trial t = judge(ON "status 429\nbody {\"error\":{\"code\":\"insufficient_quota\"}}\n",
                           (struct opts){.items = 8, .retries = 2});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && t.requests == 1,
          "fault 6: a quota stops the queue at the first request: %s", t.e.msg);
    setenv("ANTHROPIC_API_KEY", "sk-ant", 1);
    t = judge("on POST /v1/messages\nstatus 429\nbody {\"type\":\"error\",\"error\":{\"type\":"
              "\"rate_limit_error\",\"message\":\"spend limit\"}}\n",
              (struct opts){.spec = "anthropic:claude", .items = 8, .retries = 2});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && t.requests == 1,
          "fault 6: so does Anthropic's 429 without Retry-After: %s", t.e.msg);
    again(7,
          "status 503\nbody {\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":"
          "\"unavailable_error\"}}\n",
          "503 while loading is waited for");
    again(7,
          "status 503\nbody {\"error\":\"server busy, please try again. maximum pending "
          "requests exceeded\"}\n",
          "so is a full queue");
    t = judge(
        ONCE
        "status 529\nbody {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n" GOOD,
        patient);
    CHECK(is(&t, OUTCOME_SCORED, 85) && t.slept >= 0.75 && t.slept <= 1.01,
          "fault 8: 529 is waited for twice as long: %.2f s", t.slept);
    again(9, "status 502\nheader Content-Type: text/html\nbody <html>Bad gateway</html>\n",
          "502 with a page of HTML is tried again");
    t = judge(ON "status 504\nheader Content-Type: text/html\nbody <html>82</html>\n", hasty);
    CHECK(is(&t, OUTCOME_TRANSPORT_FAILED, 0) && str_find(t.v[0].detail, STR_LIT("HTML")) >= 0,
          "fault 9: and in the end it is transport_failed: %.*s", STR_ARG(t.v[0].detail));
}

static void test_10_to_14(void)
{
    again(10, "body {\"error\":{\"message\":\"slow down\",\"code\":429}}\n",
          "200 with an error in it is that error");
    again(11, "body\n", "200 with an empty body is no answer");
    again(11, "body {\"choices\":[]}\n", "nor one with zero choices");
    struct trial t = judge(
        ON "body \\n\\n: PROCESSING\\n\\n: PROCESSING\\n" SAY("\"85\"", "\"stop\"") "\n", hasty);
    CHECK(is(&t, OUTCOME_SCORED, 85), "fault 12: blank and comment lines in front are skipped");
    t = judge(ON "header Content-Type: text/event-stream\nbody data: {\"choices\":[{\"delta\":{"
                 "\"content\":\"8\"}}]}\\n\\ndata: {\"choices\":[{\"delta\":{\"content\":\"5\"},"
                 "\"finish_reason\":\"stop\"}]}\\n\\ndata: [DONE]\\n\\n\n",
              hasty);
    CHECK(is(&t, OUTCOME_SCORED, 85), "fault 13: a stream nobody asked for is put together");
    t = judge(
        "on POST /v1/messages\nbody event: message_start\\ndata: {\"type\":\"message_start\","
        "\"message\":{\"model\":\"claude\",\"usage\":{\"input_tokens\":9}}}\\n\\ndata: "
        "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"8\"}}"
        "\\n\\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"5\"}}\\n\\ndata: "
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
        "\"output_tokens\":1}}\\n\\ndata: {\"type\":\"message_stop\"}\\n\\n\n",
        (struct opts){.spec = "anthropic:claude"});
    CHECK(is(&t, OUTCOME_SCORED, 85), "fault 13: Anthropic's likewise");
    content(14, "null", "stop", false, OUTCOME_PARSE_FAILED, 0, "null content is no score");
    content(14, "null,\"reasoning_content\":\"85\"", "stop", false, OUTCOME_PARSE_FAILED, 0,
            "a score in the reasoning only is none");
    content(14, "null,\"reasoning\":\"85\"", "length", false, OUTCOME_TRUNCATED, 0,
            "reasoning that used up the tokens is truncated");
    content(14, "[{\"type\":\"text\",\"text\":\"8\"},{\"type\":\"text\",\"text\":\"5\"}]", "stop",
            false, OUTCOME_SCORED, 85, "an array of parts is joined");
    t = judge(ON "body {\"choices\":[{\"message\":{},\"finish_reason\":\"stop\"}]}\n", hasty);
    CHECK(is(&t, OUTCOME_PARSE_FAILED, 0), "fault 14: no content at all is no score");
}

static void test_15_to_17(void)
{
    content(15, "\"<think>maybe 10, or\\\\n20</think>\\\\n85\"", "stop", false, OUTCOME_SCORED, 85,
            "a closed <think> block is dropped");
    content(15, "\"<think>it is 85, so\\\\n85\"", "stop", false, OUTCOME_TRUNCATED, 0,
            "one that never closes is truncated");
    content(16, "\"10\"", "length", false, OUTCOME_TRUNCATED, 0,
            "\"10\", cut at the limit, is not a score of 10");
    content(17, "\"85\"", "content_filter", false, OUTCOME_REFUSED, 0, "the filter is refused");
    content(17, "null,\"refusal\":\"I can't judge that\"", "stop", false, OUTCOME_REFUSED, 0,
            "so is a refusal field");
    struct trial t = judge("on POST /v1/messages\nbody {\"type\":\"message\",\"model\":\"claude\","
                           "\"content\":[{\"type\":\"text\",\"text\":\"85\"}],\"stop_reason\":"
                           "\"refusal\"}\n",
                           (struct opts){.spec = "anthropic:claude"});
    CHECK(is(&t, OUTCOME_REFUSED, 0), "fault 17: and Anthropic's stop_reason refusal");
}

static void test_18(void)
{
#define J(text) "\"" text "\"", "stop", true
    content(18, J("```json\\\\n{\\\\\"score\\\\\": 85}\\\\n```"), OUTCOME_SCORED, 85,
            "JSON in a code fence is read");
    content(18, J("\\\\ufeff{\\\\\"score\\\\\": 85}"), OUTCOME_SCORED, 85, "behind a BOM too");
    content(18, J("{\\\\\"score\\\\\": 85} as asked, 10 points off"), OUTCOME_PARSE_FAILED, 0,
            "JSON with prose behind it is no verdict");
    content(18, J("{\\\\\"score\\\\\": 85,}"), OUTCOME_PARSE_FAILED, 0,
            "nor with a trailing comma");
    content(18, J("{\\\\\"score\\\\\": NaN}"), OUTCOME_PARSE_FAILED, 0, "nor NaN");
    content(18, J("{\\\\\"score\\\\\": Infinity}"), OUTCOME_PARSE_FAILED, 0, "nor Infinity");
    content(18, J("{\\\\\"score\\\\\": 85, \\\\\"score\\\\\": 10}"), OUTCOME_PARSE_FAILED, 0,
            "nor two scores");
    content(18, J("{\\\\\"score\\\\\": 85, \\\\\"note\\\\\": 1}"), OUTCOME_PARSE_FAILED, 0,
            "nor a key that was not asked for");
    content(18, J("{\\\\\"score\\\\\": 85}\\\\u0000"), OUTCOME_PARSE_FAILED, 0,
            "nor U+0000 behind it");
#undef J
    content(18, "\"\\\\ud83d 85\"", "stop", false, OUTCOME_PARSE_FAILED, 0,
            "a lone surrogate is a character, and no score");
    content(18, "\"\\\\u0000\"", "stop", false, OUTCOME_PARSE_FAILED, 0, "so is U+0000");
    again(18, "body {\"choices\":[{\"message\":{\"content\":\"8\\xff5\"}}]}\n",
          "a body that is no UTF-8 is no answer");
}

static void test_19(void)
{
    static const struct {
        const char *text;
        int outcome;
        double value;
    } v[] = {
        {"85", OUTCOME_SCORED, 85},
        {"85/100", OUTCOME_SCORED, 85},
        {"Score: 85 out of 100", OUTCOME_SCORED, 85},
        {"8.5", OUTCOME_PARSE_FAILED, 0},
        {"101", OUTCOME_PARSE_FAILED, 0},
        {"-5", OUTCOME_PARSE_FAILED, 0},
        {"Score: 85 or 90", OUTCOME_PARSE_FAILED, 0},
        {"Score: 85\\\\nScore: 90", OUTCOME_PARSE_FAILED, 0},
        {"Name 3 planets: question 0.", OUTCOME_PARSE_FAILED, 0},
        {"\\\\uff18\\\\uff15", OUTCOME_PARSE_FAILED, 0},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        char text[200], what[200];
        snprintf(text, sizeof text, "\"%s\"", v[i].text);
        snprintf(what, sizeof what, "%s is %s", v[i].text, outcome_names[v[i].outcome]);
        content(19, text, "stop", false, v[i].outcome, v[i].value, what);
    }
    content(19, "\"{\\\\\"score\\\\\": \\\\\"85\\\\\"}\"", "stop", true, OUTCOME_SCORED, 85,
            "a JSON string \"85\" is 85");
    content(19, "\"{\\\\\"score\\\\\": 8.5}\"", "stop", true, OUTCOME_PARSE_FAILED, 0,
            "a JSON 8.5 is no score");
    content(19, "\"{\\\\\"score\\\\\": 850}\"", "stop", true, OUTCOME_PARSE_FAILED, 0,
            "nor is 850");
}

static void test_20_to_23(void)
{
    struct trial t =
        judge("on POST /api/chat\nbody {\"model\":\"l\",\"message\":{\"content\":"
              "\"85\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":512,"
              "\"eval_count\":1}\n",
              (struct opts){.spec = "ollama:l?num_ctx=512"});
    CHECK(is(&t, OUTCOME_TRANSPORT_FAILED, 0) && str_find(t.v[0].detail, STR_LIT("cut")) >= 0,
          "fault 20: a prompt that filled the context was cut in silence: %.*s",
          STR_ARG(t.v[0].detail));
    t = judge("on POST /api/chat\nbody {}\n", (struct opts){.spec = "ollama:l?num_ctx=128"});
    CHECK(is(&t, OUTCOME_NOT_RUN, 0) && str_find(t.log, STR_LIT("/api/chat")) < 0 &&
              str_find(t.v[0].detail, STR_LIT("context")) >= 0,
          "fault 20: one that is too long is not sent: %.*s", STR_ARG(t.v[0].detail));
    static const char *const usage[] = {"", ",\"usage\":null",
                                        ",\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}"};
    for (int i = 0; i < 3; i++) {
        char script[1000];
        snprintf(script, sizeof script,
                 ON "body {\"choices\":[{\"message\":{\"content\":\"85\"}}]%s}\n", usage[i]);
        t = judge(script, hasty);
        CHECK(is(&t, OUTCOME_SCORED, 85) &&
                  str_find(t.said, STR_LIT("tokens of 1 replies unknown")) >= 0 &&
                  str_find(t.facts, STR_LIT("money")) < 0 &&
                  str_find(t.said, STR_LIT("; 0 USD")) < 0,
              "fault 21: usage %s is unknown, not free",
              i == 0   ? "absent"
              : i == 1 ? "null"
                       : "0");
    }
    t = judge(ON "body {\"model\":\"other-7b\",\"choices\":[{\"message\":{\"content\":\"85\"}}]}\n",
              hasty);
    CHECK(is(&t, OUTCOME_SCORED, 85) && str_eqz(t.v[0].judge, "other-7b") &&
              str_find(t.facts, STR_LIT("\"served\": \"other-7b\"")) >= 0,
          "fault 22: the model that served is recorded, not the one asked for");
    t = judge(ON "status 400\nbody {\"error\":{\"message\":\"Unsupported value\",\"param\":"
                 "\"temperature\",\"code\":\"unsupported_value\"}}\n",
              (struct opts){.items = 4, .retries = 2});
    CHECK(t.rc == -1 && t.e.code == EXIT_FAILED && t.requests == 1 &&
              strstr(t.e.msg, "\"temperature\"") && strstr(t.e.msg, "-1"),
          "fault 23: a refused parameter ends the run and is named: %s", t.e.msg);
}

/* The digest is part of the judge: a name that was pulled anew asks anew, and an Ollama that is not
 * there leaves what is done as it is. */
static void test_pulled(void)
{
#define OLLAMA(digest)                                                                             \
    "on GET /api/tags\nbody {\"models\":[{\"name\":\"l:latest\",\"digest\":\"" digest              \
    "\"}]}\non POST /api/chat\nbody {\"model\":\"l\",\"message\":{\"content\":\"85\"},\"done\":"   \
    "true,\"done_reason\":\"stop\",\"prompt_eval_count\":9,\"eval_count\":1}\n"
    struct trial t = judge(OLLAMA("0123456789abcdef0123"), (struct opts){.spec = "ollama:l"});
    CHECK(is(&t, OUTCOME_SCORED, 85) &&
              str_find(t.facts, STR_LIT("digest=0123456789abcdef")) >= 0 && t.requests == 3,
          "Ollama's digest is in the judge's identity");
    const char *dir = t.dir;
    setenv("OLLAMA_HOST", "http://127.0.0.1:1", 1);
    t = judge(NULL, (struct opts){.spec = "ollama:l", .dir = dir});
    CHECK(t.rc == -1 && t.e.code == EXIT_INCOMPLETE && t.scored == 1 && t.facts.n,
          "an Ollama that is not there leaves the scores: %s", t.e.msg);
    t = judge(OLLAMA("fedcba98765432100123"), (struct opts){.spec = "ollama:l", .dir = dir});
    CHECK(t.rc == 0 && t.requests == 3 && str_find(t.facts, STR_LIT("digest=fedcba98")) >= 0,
          "other weights under the name are asked anew");
#undef OLLAMA
}

static void test_24(void)
{
    struct trial t =
        judge(ONCE "body " SAY("\"85\"", "\"stop\"") "\n" ON "body " SAY("\"40\"", "\"stop\"") "\n",
              hasty);
    struct err e = {0};
    file_remove_tree(at(t.dir, "out/manifest.json"), &e);
    t = judge(NULL, (struct opts){.spec = "http://127.0.0.1:1/v1#m", .dir = t.dir});
    CHECK(t.rc == -1, "fault 24: another server is another judge, its verdicts are not mixed");
    t = judge(ONCE "hang\n" GOOD, (struct opts){.retries = 1, .timeout = 0.3});
    CHECK(is(&t, OUTCOME_SCORED, 85) && t.requests == 2 &&
              str_find(t.said, STR_LIT("1 timed out and may be billed")) >= 0,
          "fault 24: a request that timed out is counted as one that may be billed: %.*s",
          STR_ARG(t.said));
    struct buf b = {0};
    buf_addz(&b, ONCE "repeat 200000 [\n" GOOD);
    t = judge(b.p, patient);
    CHECK(is(&t, OUTCOME_SCORED, 85), "fault 24: deep nesting is no answer");
    t = judge(ON "repeat 3300000 {\"choices\": \\\"xxxxxxxxxxxxxxxxxx\\\"\\n\n", patient);
    CHECK(is(&t, OUTCOME_TRANSPORT_FAILED, 0) && t.requests == 1,
          "fault 24: a body of 100 MB is given up, and not fetched again: %.*s",
          STR_ARG(t.v[0].detail));
    const char *gz = at(tap_tmp(), "reply.gz");
    const char *plain = at(tap_tmp(), "reply");
    file_write_all(plain, str_z(SAY("\"85\"", "\"stop\"")), &e);
    CHECK(system(arena_printf(&arena, "gzip -c %s > %s", plain, gz)) == 0, "gzip makes a file");
    t = judge(arena_printf(&arena, ON "header Content-Encoding: gzip\nfile %s\n", gz), hasty);
    CHECK(is(&t, OUTCOME_SCORED, 85), "fault 24: gzip that nobody asked for is read");
    t = judge(ON "raw HTTP/1.1 200 OK\\nConnection: close\\n\\n"
                 "{\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"85\"},"
                 "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9}}\n",
              hasty);
    CHECK(is(&t, OUTCOME_SCORED, 85), "fault 24: headers that end in LF are read");
    t = judge(ON "http10\nbody " SAY("\"85\"", "\"stop\"") "\n", hasty);
    CHECK(is(&t, OUTCOME_SCORED, 85), "fault 24: HTTP/1.0 that ends by closing is read");
    t = judge(ON "status 302\nheader Location: http://127.0.0.1:1/login\n",
              (struct opts){.items = 3, .retries = 2});
    CHECK(t.rc == -1 && t.requests == 1 && strstr(t.e.msg, "redirect"),
          "fault 24: a redirect to a login page ends the run: %s", t.e.msg);
    buf_release(&b);
}

static int at_once(struct str log)
{
    int n = 0;
    for (struct str rest = log; rest.n;) {
        struct err ignored;
        struct json *v = json_parse(str_cut(&rest, '\n'), &ignored);
        n += json_int(json_get(v, "active"), 0) >= 2;
        json_free(v);
    }
    return n;
}

/* Once the first answer is there, concurrency is what was asked for, and stays. */
static void test_concurrency(void)
{
    struct trial t = {0};
    struct httpd h;
    struct buf log = {0};
    struct err e = {0};
    t.dir = arena_printf(&arena, "%s/many", tap_tmp());
    file_mkdirs(t.dir, &e);
    struct item it[60] = {0};
    struct items items = {.v = it, .n = 60};
    struct records *w = records_open(at(t.dir, "r.msgpack"), &response_schema, RECORD_WRITE, &e);
    for (int i = 0; i < 60; i++) {
        it[i].id = str_printf(&arena, "i%d", i);
        it[i].task = it[i].instruction = it[i].id;
        struct response r = {.item = it[i].id, .text = it[i].id};
        records_append(w, &r, &e);
    }
    records_close(w, &e);
    items_save(&items, at(t.dir, "items.msgpack"), &e);
    CHECK(httpd_start(&h, GOOD "delay 0.02\n"), "a server that takes 20 ms starts");
    struct str responses = str_z(at(t.dir, "r.msgpack"));
    struct judge_job j = {.items = at(t.dir, "items.msgpack"),
                          .responses = {&responses, 1},
                          .out = at(t.dir, "out"),
                          .c = {.judge = str_z(arena_printf(&arena, "%s/v1#m", h.url)),
                                .concurrency = 4,
                                .max_tokens = 16,
                                .timeout = 20,
                                .max_failed = 1},
                          .exact_tokens = true,
                          .asks = 1,
                          .repeat = 1};
    FILE *to = fopen("/dev/null", "w");
    CHECK_INT(judge_run(&j, to, &arena, &e), 0, "60 answers are judged");
    fclose(to);
    httpd_log(&h, &log);
    httpd_stop(&h);
    int full = at_once(buf_str(&log));
    CHECK(full >= 25, "requests go on side by side: %d of 60 saw another", full);
    buf_release(&log);
}

int main(void)
{
    log_open("test", LOG_QUIET);
    unsetenv("ASSAY_API_KEY");
    test_1_to_3();
    test_4_5();
    test_6_to_9();
    test_10_to_14();
    test_15_to_17();
    test_18();
    test_19();
    test_20_to_23();
    test_pulled();
    test_24();
    test_concurrency();
    file_remove_tree(tap_tmp(), &(struct err){0});
    arena_release(&arena);
    return tap_done();
}
