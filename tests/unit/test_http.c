/* base/http and base/download against the scripted server of tests/httpd.c. */
#include "tests/httpd.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/http_private.h"
#include "base/log.h"
#include "base/mem.h"

static struct arena A;
static struct err E;

/* What done() saw, copied. */
struct seen {
    int calls, status, should_retry;
    bool timed_out, refused, too_big;
    double retry_after, seconds;
    char failure[1024], body[512], type[64];
    size_t n;
};

static void on_done(void *ctx, const struct http_reply *r)
{
    struct seen *s = ctx;

    s->calls++;
    s->status = r->status;
    s->should_retry = r->should_retry;
    s->timed_out = r->timed_out, s->refused = r->refused, s->too_big = r->too_big;
    s->retry_after = r->retry_after, s->seconds = r->seconds;
    s->n = r->body.n;
    snprintf(s->failure, sizeof s->failure, "%s", r->failure ? r->failure : "");
    snprintf(s->body, sizeof s->body, "%.*s", STR_ARG(r->body));
    snprintf(s->type, sizeof s->type, "%s", r->content_type);
}

static void drain(struct http *h)
{
    double until = clock_now() + 20;

    while (http_pending(h) && clock_now() < until)
        if (http_poll(h, 1, &E) != 0)
            break;
}

static struct seen ask_with(struct http_request q)
{
    struct clock fake = clock_fake(1784000000);
    struct http *h = http_open(2, &fake, &E);
    struct seen s = {0};

    if (http_send(h, &q, on_done, &s, &E) != 0)
        snprintf(s.failure, sizeof s.failure, "%s", E.msg);
    drain(h);
    http_close(h);
    return s;
}

static const char *url_of(const struct httpd *h, const char *path)
{
    return arena_printf(&A, "%s%s", h->url, path);
}

static struct seen ask(const struct httpd *h, const char *path)
{
    return ask_with((struct http_request){.url = url_of(h, path), .timeout = 10});
}

static const char *const ANSWERS =
    "on GET /hello\nbody hello\\n\nheader Content-Type: text/plain\n"
    "on POST /echo\necho\n"
    "on * /method\nbody x\n"
    "on GET /html\nstatus 502\nbody <html>bad gateway</html>\n"
    "on GET /chunked\nchunked\nrepeat 3000 x\n"
    "on GET /old\nhttp10\nbody ends by closing\n"
    "on GET /empty\n"
    "on GET /short\nbody half of it\nlength 100\n"
    "on GET /chunkcut\nchunked\nrepeat 3000 x\ncut 1500\n"
    "on GET /cutreset\nrepeat 3000 x\ncut 1500\nreset\n"
    "on GET /close*\nclose\n"
    "on GET /reset\nclose\nreset\n"
    "on GET /hang\nhang\n"
    "on GET /drip\nrepeat 100 x\ndrip 1 0.2\n"
    "on GET /big\nrepeat 2000 x\n"
    "on GET /bigchunked\nchunked\nrepeat 2000 x\n"
    "on GET /garbage\nraw this is not HTTP\\r\\n\\r\\n\n"
    "on GET /badchunk\nraw HTTP/1.1 200 OK\\r\\nTransfer-Encoding: "
    "chunked\\r\\n\\r\\nzz\\r\\n\n"
    "on GET /toyours\nstatus 302\nheader Location: /hello\n"
    "on POST /toyours\nstatus 302\nheader Location: /hello\n"
    "on GET /loop\nstatus 302\nheader Location: /loop\n"
    "on GET /tofile\nstatus 302\nheader Location: file:///etc/passwd\n"
    "on GET /slow*\ndelay 0.3\nbody slow\n";

static void test_answers(const struct httpd *h)
{
    struct seen s = ask(h, "/hello");
    CHECK(s.calls == 1 && s.status == 200 && !s.failure[0], "one answer, one call");
    CHECK_STR(s.body, "hello\n", "its body");
    CHECK_STR(s.type, "text/plain", "its type");
    CHECK(s.retry_after == -1 && s.should_retry == -1, "what is absent is -1");
    s = ask(h, "/empty");
    CHECK(s.status == 200 && s.n == 0 && !s.type[0], "an empty body is a whole answer");
    s = ask(h, "/html");
    CHECK(s.status == 502 && strstr(s.body, "<html>"), "an error page comes with its status");
    s = ask(h, "/chunked");
    CHECK(s.status == 200 && s.n == 3000, "chunks are joined");
    s = ask(h, "/old");
    CHECK_STR(s.body, "ends by closing", "HTTP/1.0 ends by closing");
    s = ask(h, "/nowhere");
    CHECK_INT(s.status, 404, "404 is an answer");

    static const char *const heads[] = {"Content-Type: application/json", "X-Test: 7", NULL};
    struct buf body = {0};
    for (int i = 0; i < 240000; i++)
        buf_printf(&body, "%d,", i);
    s = ask_with((struct http_request){
        .url = url_of(h, "/echo"), .headers = heads, .body = buf_str(&body), .timeout = 10});
    CHECK(s.status == 200 && s.n == body.n && s.seconds < 0.9,
          "1.5 MB are posted without waiting for 100-continue (%.2f s)", s.seconds);
    struct buf log = {0};
    httpd_log(h, &log);
    CHECK(strstr(log.p, "X-Test: 7\\u000d") && strstr(log.p, "Content-Type: application/json"),
          "headers are sent");
    CHECK(!strstr(log.p, "Expect:"), "and no Expect");
    s = ask_with((struct http_request){.url = url_of(h, "/method"), .method = "DELETE"});
    httpd_log(h, &log);
    CHECK(s.status == 200 && strstr(log.p, "\"method\":\"DELETE\""), "other methods");
    s = ask_with((struct http_request){.url = url_of(h, "/method"), .method = "HEAD"});
    CHECK(s.status == 200 && s.n == 0, "HEAD has no body");
    buf_release(&body);
    buf_release(&log);
}

static void check_failure(const struct httpd *h, const char *path, const char *want)
{
    struct seen s = ask(h, path);

    CHECK(s.calls == 1 && s.status == 0 && s.n == 0 && strstr(s.failure, want),
          "%s is a failure: %s", path, s.failure);
}

static void test_failures(const struct httpd *h)
{
    static const char *const paths[] = {"/short", "/chunkcut", "/cutreset",
                                        "/close", "/reset",    NULL};
    for (int i = 0; paths[i]; i++)
        check_failure(h, paths[i], "closed the connection before its answer was whole");
    check_failure(h, "/garbage", "does not answer in HTTP");
    check_failure(h, "/badchunk", "");
    check_failure(h, "/loop", "redirects more than 8");
    check_failure(h, "/tofile", "not allowed");

    struct seen s = ask_with((struct http_request){.url = url_of(h, "/hang"), .timeout = 0.3});
    CHECK(s.status == 0 && s.timed_out && !s.refused && s.seconds < 3, "a server that hangs: %s",
          s.failure);
    s = ask_with((struct http_request){.url = url_of(h, "/drip"), .timeout = 0.5});
    CHECK(s.status == 0 && s.timed_out && s.n == 0, "the limit is for the whole answer: %s",
          s.failure);
    s = ask_with((struct http_request){.url = url_of(h, "/big"), .max_body = 1999});
    CHECK(s.status == 0 && s.too_big && s.n == 0, "a body over the cap: %s", s.failure);
    s = ask_with((struct http_request){.url = url_of(h, "/big"), .max_body = 2000});
    CHECK(s.status == 200 && s.n == 2000, "a body of the cap");
    s = ask_with((struct http_request){.url = url_of(h, "/bigchunked"), .max_body = 1999});
    CHECK(s.too_big, "the same when its length was not announced");

    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&a, n) != 0 || getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        abort();
    char *none = arena_printf(&A, "http://127.0.0.1:%d/v1?key=abc", ntohs(a.sin_port));
    s = ask_with((struct http_request){.url = none}); /* bound, but nobody listens */
    CHECK(s.status == 0 && s.refused && !s.timed_out && strstr(s.failure, "could not connect"),
          "a refused connection: %s", s.failure);
    CHECK(!strstr(s.failure, "abc"), "a query is never shown");
    close(fd);
    static const char *const bad[] = {"ftp://h/x", "file:///etc/passwd", "hello", "http://", NULL};
    for (int i = 0; bad[i]; i++) {
        s = ask_with((struct http_request){.url = bad[i]});
        CHECK(s.calls == 0 && strstr(s.failure, "not an http or https URL"), "%s", s.failure);
    }
}

static void test_secrets(const struct httpd *h)
{
    static const char *const key[] = {"Authorization: Bearer sk-sesame", NULL};
    static const char *const torn[] = {"Authorization: Bearer sk-sesame\n", NULL};
    struct seen s = ask(h, "/toyours");

    CHECK(s.status == 200 && strstr(s.body, "hello"), "a GET follows a redirect");
    s = ask_with(
        (struct http_request){.url = url_of(h, "/toyours"), .headers = key, .secret = true});
    CHECK_INT(s.status, 302, "but never with a key");
    s = ask_with((struct http_request){.url = url_of(h, "/toyours"), .body = STR_LIT("{}")});
    CHECK_INT(s.status, 302, "and a POST does not become a GET");
    char *user = arena_printf(&A, "http://me:sesame@127.0.0.1:%d/toyours", h->port);
    s = ask_with((struct http_request){.url = user});
    CHECK_INT(s.status, 302, "a password in the URL is a key too");
    user = arena_printf(&A, "http://me:sesame@127.0.0.1:%d/close?k=sesame", h->port);
    s = ask_with((struct http_request){.url = user, .headers = key, .secret = true});
    CHECK(s.failure[0] && !strstr(s.failure, "sesame"), "no key in a failure: %s", s.failure);
    s = ask_with(
        (struct http_request){.url = url_of(h, "/hello"), .headers = torn, .secret = true});
    CHECK(s.calls == 0 && strstr(s.failure, "\"Authorization\" holds a line break") &&
              !strstr(s.failure, "sesame"),
          "a key with a line feed is refused unshown: %s", s.failure);
}

static void test_proxy(const struct httpd *h)
{
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    struct seen s = ask(h, "/hello");
    CHECK(s.status == 200, "a proxy is not asked about loopback: %s", s.failure);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
}

/* gzip of "compressed answer\n" and of 100,000 zero bytes. */
static void test_gzip(void)
{
    struct httpd h;
    struct buf script = {0};
    char *bomb = path_join(&A, tap_tmp(), "bomb.gz"), *small = path_join(&A, tap_tmp(), "s.gz");
    char *cmd = arena_printf(&A,
                             "printf 'compressed answer\\n' | gzip -n > %s && "
                             "head -c 100000 /dev/zero | gzip -n > %s",
                             small, bomb);
    if (system(cmd) != 0) {
        SKIP("gzip");
        return;
    }
    buf_printf(&script,
               "on GET /z\nheader Content-Encoding: gzip\nfile %s\n"
               "on GET /bomb\nheader Content-Encoding: gzip\nfile %s\n"
               "on GET /lie\nheader Content-Encoding: gzip\nbody not gzip at all\n",
               small, bomb);
    CHECK(httpd_start(&h, script.p), "server");
    struct seen s = ask(&h, "/z");
    CHECK_STR(s.body, "compressed answer\n", "a gzip'ed answer is decoded");
    s = ask_with((struct http_request){.url = url_of(&h, "/bomb"), .max_body = 50000});
    CHECK(s.too_big, "the cap counts decoded bytes: %s", s.failure);
    check_failure(&h, "/lie", "compressed answer");
    httpd_stop(&h);
    buf_release(&script);
}

static void test_retry_after(void)
{
    const double wall = 1784000000; /* 2026-07-14T03:33:20Z */
    static const struct {
        const char *ms, *after;
        double want;
    } t[] = {
        {"", "", -1},
        {"", "7", 7},
        {"", "0", 0},
        {"", "1.5", 1.5},
        {"", "-3", 0},
        {"", "86400", 86400},
        {"", "soon", -1},
        {"", "7 seconds", -1},
        {"", "inf", -1},
        {"", "nan", -1},
        {"", "1e999", -1},
        {"", "0x10", -1},
        {"", "  12 ", 12},
        {"250", "9", 0.25},
        {"-5", "9", 0},
        {"junk", "9", 9},
        {"", "Tue, 14 Jul 2026 03:34:20 GMT", 60},
        {"", "Tue, 14 Jul 2026 03:32:20 GMT", 0},
        {"", "Tuesday, 14-Jul-26 03:34:20 GMT", 60},
        {"", "Tue Jul 14 03:34:20 2026", 60},
        {"", "Tue, 99 Jul 2026 03:34:20 GMT", -1},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        CHECK_NEAR(http_retry_after(t[i].ms, t[i].after, wall), t[i].want, 1e-9,
                   "retry-after-ms \"%s\", Retry-After \"%s\" is %g", t[i].ms, t[i].after,
                   t[i].want);

    struct httpd h;
    httpd_start(&h, "on GET /r\nstatus 429\nheader Retry-After: Tue, 14 Jul 2026 03:34:20 GMT\n"
                    "on GET /m\nstatus 503\nheader Retry-After-Ms: 1500\nheader X-Should-Retry: "
                    "false\non GET /t\nstatus 409\nheader X-Should-Retry: true\n");
    struct seen s = ask(&h, "/r");
    CHECK(s.status == 429 && fabs(s.retry_after - 60) < 1e-9, "a date is read by the given clock");
    s = ask(&h, "/m");
    CHECK(s.status == 503 && s.retry_after == 1.5 && s.should_retry == 0, "milliseconds and a no");
    s = ask(&h, "/t");
    CHECK(s.retry_after == -1 && s.should_retry == 1, "a yes");
    httpd_stop(&h);
}

/* Resets of rate limits, as servers write them. */
static void test_resets(void)
{
    const double wall = 1784000000; /* 2026-07-14T03:33:20Z */
    static const struct {
        const char *text;
        double want;
    } t[] = {
        {"12ms", 0.012},
        {"6m0s", 360},
        {"1m30s", 90},
        {"1h2m3.5s", 3723.5},
        {"8.64s", 8.64},
        {"7", 7},
        {"0", -1},
        {"-1", -1},
        {"0s", -1},
        {"1784000060", 60},
        {"1784000060500", 60.5},
        {"2026-07-14T03:34:20Z", 60},
        {"2026-07-14T03:34:20.25Z", 60.25},
        {"2026-07-14T05:34:20+02:00", 60},
        {"2026-07-14T03:32:20Z", -1},
        {"2026-07-14", -1},
        {"soon", -1},
        {"5 parsecs", -1},
        {"m5", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        CHECK_NEAR(http_reset_wait(str_z(t[i].text), wall), t[i].want, 1e-6,
                   "a reset \"%s\" is %g s away", t[i].text, t[i].want);
    struct http_limits l = {0};
    http_limits_take(&l, STR_LIT("x-ratelimit-reset-requests"), STR_LIT("90s"), wall);
    http_limits_take(&l, STR_LIT("X-RateLimit-Reset-Tokens"), STR_LIT("5s"), wall);
    http_limits_take(&l, STR_LIT("x-ratelimit-remaining-requests"), STR_LIT("17"), wall);
    http_limits_take(&l, STR_LIT("x-ratelimit-limit-requests"), STR_LIT("60"), wall);
    http_limits_take(&l, STR_LIT("content-length"), STR_LIT("500"), wall);
    CHECK(http_limits_wait(&l, false) == 90 && http_limits_wait(&l, true) == -1,
          "the longest reset, and none of a limit that is used up");
    http_limits_take(&l, STR_LIT("x-ratelimit-remaining-tokens"), STR_LIT("0"), wall);
    CHECK(http_limits_wait(&l, true) == 5, "that of the used-up limit alone");
    for (int i = 0; i < 50; i++) {
        char name[200];
        snprintf(name, sizeof name, "x-ratelimit-reset-%d", i);
        http_limits_take(&l, str_z(name), STR_LIT("1"), wall);
    }
    CHECK_INT(l.n, HTTP_LIMITS, "however many limits a server names");
}

/* done() that sends the next one, to see that it runs before the connection is used again. */
struct chain {
    struct http *h;
    const char *url;
    int left;
};

static void chain_done(void *ctx, const struct http_reply *r)
{
    struct chain *c = ctx;
    struct http_request q = {.url = c->url};

    if (r->status == 200 && c->left-- > 0)
        http_send(c->h, &q, chain_done, c, &E);
}

static void test_many(const struct httpd *h)
{
    enum { N = 24 };
    struct http *c = http_open(4, NULL, &E);
    struct seen s[N] = {0};
    int ok = 0;

    double t0 = clock_now();
    for (int i = 0; i < N; i++) {
        struct http_request q = {.url = url_of(h, arena_printf(&A, "/slow%d", i)), .timeout = 1.5};
        if (http_send(c, &q, on_done, &s[i], &E) != 0)
            printf("# %s\n", E.msg);
    }
    CHECK_INT(http_pending(c), N, "all are pending");
    drain(c);
    double took = clock_now() - t0;
    for (int i = 0; i < N; i++)
        ok += s[i].calls == 1 && s[i].status == 200;
    CHECK_INT(ok, N, "24 answers, none late for having waited in the queue");
    CHECK(took > 1.7 && took < 4, "four at a time (%.2f s for 6 rounds of 0.3 s)", took);
    struct buf log = {0};
    httpd_log(h, &log);
    CHECK(strstr(log.p, "\"active\":4") && !strstr(log.p, "\"active\":7"), "as the server saw it");
    struct chain ch = {.h = c, .url = url_of(h, "/hello"), .left = 5};
    struct http_request q = {.url = ch.url};
    http_send(c, &q, chain_done, &ch, &E);
    drain(c);
    CHECK_INT(ch.left, -1, "done() may send the next request");
    struct seen never = {0};
    struct http_request slow = {.url = url_of(h, "/slow")};
    http_send(c, &slow, on_done, &never, &E);
    http_poll(c, 0.05, &E);
    http_close(c);
    CHECK_INT(never.calls, 0, "closing drops what is outstanding without a call");
    struct http *idle = http_open(1, NULL, &E);
    double t1 = clock_now();
    CHECK(http_poll(idle, 5, &E) == 0 && clock_now() - t1 < 1, "polling nothing returns at once");
    http_close(idle);
    buf_release(&log);
}

int main(void)
{
    struct httpd h;

    log_open("test", LOG_QUIET);
    if (!CHECK(httpd_start(&h, ANSWERS), "the scripted server starts"))
        return tap_done();
    test_answers(&h);
    test_failures(&h);
    test_secrets(&h);
    test_proxy(&h);
    test_many(&h);
    httpd_stop(&h);
    test_gzip();
    test_retry_after();
    test_resets();
    CHECK(file_remove_tree(tap_tmp(), &E) == 0, "the scratch folder goes");
    arena_release(&A);
    return tap_done();
}
