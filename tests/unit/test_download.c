/* base/download: resume, restart, verify, retry; nothing half under the final name. */
#include "tests/httpd.h"

#include <errno.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/http.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

static struct arena A;
static struct err E;
static struct buf DATA; /* what is downloaded: 300,000 bytes */
static char SHA[SHA256_HEX], *FILE_OF_DATA;
static struct clock CLOCK;

static char *at(const char *name)
{
    return path_join(&A, tap_tmp(), name);
}

static struct http_download job(const struct httpd *h, const char *path)
{
    CLOCK = clock_fake(1784000000);
    return (struct http_download){.url = arena_printf(&A, "%s%s", h->url, path),
                                  .path = at("got"),
                                  .clock = &CLOCK,
                                  .tries = 3,
                                  .stall_timeout = 5};
}

static void clean(void)
{
    static const char *const names[] = {"got", "got.part", "got.part.meta"};

    for (int i = 0; i < 3; i++)
        unlink(at(names[i]));
}

/* The file is whole, the part and its notes are gone. */
static bool whole(void)
{
    struct buf b = {0};
    bool ok = file_read(at("got"), &b, 0, &E) == 0 && str_eq(buf_str(&b), buf_str(&DATA)) &&
              !file_exists(at("got.part")) && !file_exists(at("got.part.meta"));

    buf_release(&b);
    return ok;
}

/* A server whose script may name the data as %s. */
static void serve(struct httpd *h, const char *script)
{
    struct buf b = {0};
    struct str rest = str_z(script);

    clean();
    while (rest.n) {
        ptrdiff_t i = str_find(rest, STR_LIT("DATA"));
        buf_add(&b, rest.p, i < 0 ? rest.n : (size_t)i);
        if (i < 0)
            break;
        buf_printf(&b, "file %s", FILE_OF_DATA);
        rest.p += i + 4, rest.n -= (size_t)i + 4;
    }
    if (!httpd_start(h, b.p))
        abort();
    buf_release(&b);
}

static bool logged(const struct httpd *h, const char *text)
{
    struct buf log = {0};

    httpd_log(h, &log);
    bool there = strstr(log.p, text) != NULL;
    buf_release(&log);
    return there;
}

static int requests(const struct httpd *h)
{
    struct buf log = {0};
    int n = 0;

    httpd_log(h, &log);
    for (size_t i = 0; i < log.n; i++)
        n += log.p[i] == '\n';
    buf_release(&log);
    return n;
}

static int64_t last_got, last_total;
static bool fell;
static void on_progress(void *ctx, int64_t got, int64_t total)
{
    (void)ctx;
    fell = fell || got < last_got;
    last_got = got, last_total = total;
}

static void test_plain(void)
{
    struct httpd h;
    char sha[65] = {0};

    serve(&h, "on GET /d\nDATA\netag \"1\"\non GET /c\nchunked\nDATA\non GET /empty\n"
              "on GET /moved\nstatus 301\nheader Location: /d\n");
    struct http_download d = job(&h, "/d");
    d.progress = on_progress;
    CHECK(http_download(&d, sha, &E) == 0 && whole(), "a file arrives");
    CHECK_STR(sha, SHA, "with its hash");
    CHECK(!fell && last_got == (int64_t)DATA.n && last_total == last_got, "progress rises to all");
    d.sha256 = SHA;
    CHECK(http_download(&d, sha, &E) == 0 && whole(), "the right hash passes");
    clean();
    d.sha256 = "00000000000000000000000000000000000000000000000000000000000000ff";
    CHECK(http_download(&d, sha, &E) == -1 && strstr(E.msg, SHA) && strstr(E.msg, d.sha256),
          "a wrong one names both: %s", E.msg);
    CHECK(!file_exists(at("got")) && !file_exists(at("got.part")) &&
              !file_exists(at("got.part.meta")),
          "and nothing is left");
    CHECK_INT(requests(&h), 3, "a mismatch is not asked for again");
    d = job(&h, "/c");
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "without a length too");
    d = job(&h, "/moved");
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "behind a redirect too");
    d = job(&h, "/empty");
    CHECK(http_download(&d, NULL, &E) == 0 && file_size(at("got")) == 0, "an empty file too");
    clean();
    d = job(&h, "/none");
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "/none") && strstr(E.msg, "404"),
          "404 is final: %s", E.msg);
    CHECK(!file_exists(at("got")) && !file_exists(at("got.part")), "and leaves nothing");
    CHECK(logged(&h, "\"path\":\"/none\"") && requests(&h) == 8, "and is asked once");
    d.path = tap_tmp();
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "folder"), "%s", E.msg);
    d = job(&h, "/d");
    d.max_bytes = (int64_t)DATA.n - 1;
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "299999 allowed"), "%s", E.msg);
    d = job(&h, "/c");
    d.max_bytes = (int64_t)DATA.n - 1;
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "allowed") &&
              !file_exists(at("got.part")),
          "a cap holds without a length too: %s", E.msg);
    httpd_stop(&h);
}

static void test_resume(void)
{
    struct httpd h;

    serve(&h, "on GET /d\nDATA\nrange\netag \"v1\"\ncut 100000\n"
              "on GET /d\nDATA\nrange\netag \"v1\"\ncut 50000\nreset\n"
              "on GET /d\nDATA\nrange\netag \"v1\"\n");
    struct http_download d = job(&h, "/d");
    d.sha256 = SHA;
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "a file that is cut arrives");
    CHECK(logged(&h, "Range: bytes=100000-\\u000d\\u000aIf-Range: \\\"v1\\\""),
          "the rest is asked for, if it is the same");
    CHECK(CLOCK.slept > 0.3 && CLOCK.slept < 3, "after a pause (%.2f s)", CLOCK.slept);
    CHECK_INT(requests(&h), 3, "in as many requests as cuts");
    httpd_stop(&h);

    serve(&h, "on GET /d\nDATA\nrange\nmodified Tue, 14 Jul 2026 03:34:20 GMT\netag W/\"x\"\n"
              "cut 100000\non GET /d\nDATA\nrange\nmodified Tue, 14 Jul 2026 03:34:20 GMT\n");
    d = job(&h, "/d");
    d.tries = 1;
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "100000 bytes are kept") &&
              E.code == EXIT_INCOMPLETE,
          "out of tries: %s", E.msg);
    CHECK(!file_exists(at("got")) && file_size(at("got.part")) == 100000, "the part is kept");
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && requests(&h) == 2,
          "a later process goes on from it, by date when the tag is weak");
    httpd_stop(&h);
}

static void test_restart(void)
{
    struct httpd h;
    struct http_download d;

    serve(&h, "on GET /d\nrepeat 1000 old\netag \"v1\"\nrange\ncut 2000\n"
              "on GET /d\nDATA\nrange\netag \"v2\"\n");
    d = job(&h, "/d");
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "a file that changed starts over");
    httpd_stop(&h);

    serve(&h, "on GET /d\nDATA\netag \"v1\"\ncut 200000\non GET /d\nDATA\netag \"v1\"\n");
    d = job(&h, "/d");
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "a server without ranges starts over");
    httpd_stop(&h);

    serve(&h, "on GET /d\nDATA\netag \"v1\"\ncut 2000\n"
              "on GET /d\nstatus 206\nheader Content-Range: bytes 1000-2999/300000\nrepeat 2000 x\n"
              "on GET /d\nDATA\nrange\netag \"v1\"\n");
    d = job(&h, "/d");
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && requests(&h) == 3,
          "another range than the one asked for starts over");
    httpd_stop(&h);

    serve(&h, "on GET /d\nDATA\ncut 2000\non GET /d\nDATA\nrange\n");
    d = job(&h, "/d");
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && !logged(&h, "Range:"),
          "without a validator and a hash no rest is trusted");
    clean();
    httpd_stop(&h);

    serve(&h, "on GET /d\nDATA\nrange\n");
    file_write_all(at("got.part"), (struct str){DATA.p, 12345}, &E);
    d = job(&h, "/d");
    d.sha256 = SHA;
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && logged(&h, "Range: bytes=12345-"),
          "with a hash it is");
    clean();
    file_write_all(at("got.part"), STR_LIT("not the beginning of it"), &E);
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && requests(&h) == 3,
          "a part that was no part of it is found by the hash and fetched again");
    clean();
    file_write_all(at("got.part"), buf_str(&DATA), &E);
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && requests(&h) == 5,
          "a part that was complete, length unknown, is fetched again (416)");
    clean();
    file_write_all(at("got.part"), buf_str(&DATA), &E);
    file_write_all(at("got.part.meta"), STR_LIT("length 300000\nvalidator \n"), &E);
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && requests(&h) == 6,
          "a part that was complete is taken as it is");
    clean();
    file_write_all(at("got.part"), STR_LIT("xx"), &E);
    file_write_all(at("got.part.meta"), STR_LIT("\x01\xff garbage\n\nlength -7\nvalidator"), &E);
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "damaged notes do no harm");
    httpd_stop(&h);
}

static void test_retry(void)
{
    struct httpd h;
    struct http_download d;

    serve(&h, "on GET /d\nstatus 503\nbody <html>busy</html>\n"
              "on GET /d\nstatus 429\nheader Retry-After: 7\n"
              "on GET /d\nDATA\n");
    d = job(&h, "/d");
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "503 and 429 are asked again");
    CHECK(CLOCK.slept > 7.3 && CLOCK.slept < 7.6, "after what Retry-After says (%.2f s)",
          CLOCK.slept);
    clean();
    httpd_stop(&h);

    serve(&h, "on GET /d\nstatus 503\nheader Retry-After: 86400\n"
              "on GET /never\nstatus 500\non GET /half\nDATA\ncut 1000\n");
    d = job(&h, "/d");
    CHECK(http_download(&d, NULL, &E) == -1 && E.code == EXIT_INCOMPLETE &&
              strstr(E.msg, "wait 86400 s") && CLOCK.slept == 0,
          "nobody waits a day: %s", E.msg);
    d = job(&h, "/never");
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "status 500") && requests(&h) == 4,
          "500 for ever ends after the tries: %s", E.msg);
    CHECK(!file_exists(at("got.part")), "and leaves nothing");
    d = job(&h, "/half");
    CHECK(http_download(&d, NULL, &E) == -1 && requests(&h) == 7 && !file_exists(at("got")),
          "a server that always cuts and starts over does not keep us: %s", E.msg);
    httpd_stop(&h);

    d = job(&h, "/gone");
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "could not connect"),
          "a server that is gone: %s", E.msg);

    serve(&h, "on GET /d\nDATA\nrange\netag \"1\"\ndrip 200000 60\non GET /d\nDATA\nrange\n"
              "etag \"1\"\n");
    d = job(&h, "/d");
    d.stall_timeout = 0.6;
    double t0 = clock_now();
    CHECK(http_download(&d, NULL, &E) == 0 && whole() && clock_now() - t0 < 5,
          "a stalled transfer is cut and resumed");
    CHECK(logged(&h, "Range: bytes=200000-"), "where it stood");
    clean();
    interrupt_raise();
    CHECK(http_download(&d, NULL, &E) == -1 && E.code == EXIT_INCOMPLETE, "%s", E.msg);
    CHECK(!file_exists(at("got")), "an interrupt leaves no file under the final name");
    httpd_stop(&h);
}

static int writes;
static ssize_t full_write(int fd, const void *p, size_t n)
{
    if (++writes > 5) { /* the notes, then some of the data */
        errno = ENOSPC;
        return -1;
    }
    return write(fd, p, n);
}

static void test_disk(void)
{
    static const struct file_os os = {full_write, fsync, rename};
    struct httpd h;

    serve(&h, "on GET /d\nDATA\nrange\netag \"1\"\non GET /huge\nheader ETag: 1\nlength "
              "4000000000000000\nbody x\n");
    struct http_download d = job(&h, "/d");
    d.sha256 = SHA;
    file_set_os(&os);
    int rc = http_download(&d, NULL, &E);
    file_set_os(NULL);
    CHECK(rc == -1 && strstr(E.msg, "No space left") && requests(&h) == 1,
          "a full disk is not retried: %s", E.msg);
    CHECK(!file_exists(at("got")) && file_size(at("got.part")) > 0, "what came is kept as a part");
    CHECK(http_download(&d, NULL, &E) == 0 && whole(), "and the rest comes when there is room");
    clean();
    d = job(&h, "/huge");
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "needs 4000000000000000 bytes"),
          "too little room is said before the first byte: %s", E.msg);
    CHECK(!file_exists(at("got.part")), "and nothing is left");
    int fd;
    if (file_append_open(at("got.part"), 0, &fd, &E) != 0)
        abort();
    d = job(&h, "/d");
    CHECK(http_download(&d, NULL, &E) == -1 && strstr(E.msg, "another process"),
          "two downloads of one file: %s", E.msg);
    CHECK(file_exists(at("got.part")), "the first one's part stays");
    close(fd);
    httpd_stop(&h);
}

int main(void)
{
    log_open("test", LOG_QUIET);
    for (int i = 0; DATA.n < 300000; i++)
        buf_printf(&DATA, "%d.", i * 7919);
    buf_cut(&DATA, 300000);
    FILE_OF_DATA = at("data");
    file_write_all(FILE_OF_DATA, buf_str(&DATA), &E);
    sha256_hex(buf_str(&DATA), SHA);
    test_plain();
    test_resume();
    test_restart();
    test_disk();
    test_retry(); /* raises the interrupt at its end */
    CHECK(file_remove_tree(tap_tmp(), &E) == 0, "the scratch folder goes");
    buf_release(&DATA);
    arena_release(&A);
    return tap_done();
}
