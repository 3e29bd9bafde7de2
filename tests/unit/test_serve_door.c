/* The door of the server: what the head of a request is refused for, and who must go when there are too
 * many connections. */
#include "eval/serve_screen.h"
#include "eval/serve_seats.h"
#include "tests/tap.h"

static struct screen_head head(const char *host)
{
    return (struct screen_head){
        .path = STR_LIT("/v1/models"), .host = str_z(host), .url = 10, .head = 100};
}

static void test_screen(void)
{
    struct screen_rule near = {NULL, true, 1000}, far = {"sesame", false, 1000};
    static const struct {
        const char *host;
        int status;
    } hosts[] = {{"localhost", 0},
                 {"localhost:80", 0},
                 {"127.0.0.1:8080", 0},
                 {"127.9.9.9", 0},
                 {"[::1]:8080", 0},
                 {"::1", 403},
                 {"", 403},
                 {"evil.example", 403},
                 {"127.evil.com", 403},
                 {"localhost.evil.com", 403}};
    const char *why;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct screen_head h = head(hosts[i].host);
        CHECK_INT(serve_screen(&near, &h, &why), hosts[i].status, "Host: %s", hosts[i].host);
    }
    static const struct {
        const char *given;
        int status;
    } keys[] = {{"Bearer sesame", 0},         {"bearer sesame", 0},
                {"Bearer sesam", 401},        {"Bearer sesames", 401},
                {"Bearer sesamesesame", 401}, {"Bearer ", 401},
                {"Basic sesame", 401},        {"", 401}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct screen_head h = head("anything");
        h.authorization = str_z(keys[i].given);
        CHECK_INT(serve_screen(&far, &h, &why), keys[i].status, "Authorization: %s", keys[i].given);
    }
    struct screen_head h = head("localhost");
    h.url = SCREEN_URL;
    h.head = SCREEN_HEAD;
    CHECK_INT(serve_screen(&near, &h, &why), 0, "the longest path and head");
    h.url++;
    CHECK_INT(serve_screen(&near, &h, &why), 414, "a longer path: %s", why);
    h.url = 1;
    h.head++;
    CHECK_INT(serve_screen(&near, &h, &why), 431, "larger headers: %s", why);
    h = head("localhost");
    h.length = STR_LIT("1000");
    h.lengths = 1;
    CHECK_INT(serve_screen(&near, &h, &why), 0, "the longest body");
    h.length = STR_LIT("1001");
    CHECK_INT(serve_screen(&near, &h, &why), 413, "a longer one: %s", why);
    h.length = STR_LIT("10");
    h.lengths = 2;
    CHECK_INT(serve_screen(&near, &h, &why), 400, "two lengths: %s", why);
    h.lengths = 1;
    h.encodings = 1;
    h.encoding = STR_LIT("chunked");
    CHECK_INT(serve_screen(&near, &h, &why), 400, "a length and chunks");
    h.lengths = 0;
    h.length = STR_LIT("");
    CHECK_INT(serve_screen(&near, &h, &why), 0, "chunks alone");
    h.encoding = STR_LIT("gzip, chunked");
    CHECK_INT(serve_screen(&near, &h, &why), 400, "another coding: %s", why);
}

static void test_seats(void)
{
    struct seats s = {.max = 3};
    struct seat a, b, c, d, f, g;
    CHECK(!seats_take(&s, &a, 1) && !seats_take(&s, &b, 2) && !seats_take(&s, &c, 3),
          "three have room");
    seats_idle(&s, &a); /* it spoke */
    CHECK(seats_take(&s, &d, 4) == &b && !seats_full(&s),
          "the longest silent one goes for a fourth");
    seats_idle(&s, &b); /* its last words change nothing */
    seats_busy(&s, &c);
    CHECK(seats_take(&s, &f, 5) == &a, "a busy one does not");
    seats_busy(&s, &d);
    seats_busy(&s, &f);
    CHECK(!seats_take(&s, &g, 6) && seats_full(&s), "when all are busy nobody goes");
    seats_leave(&s, &a);
    seats_leave(&s, &b);
    CHECK_INT(s.n, 4, "those that were told to go are counted off once");
    seats_leave(&s, &c);
    CHECK(!seats_full(&s), "there is room again");
    seats_idle(&s, &d);
    struct seat h;
    CHECK(seats_take(&s, &h, 7) == &g, "an answered one is behind those that were silent longer");
    seats_leave(&s, &d);
    seats_leave(&s, &f);
    seats_leave(&s, &g);
    seats_leave(&s, &h);
    CHECK(s.n == 0 && !s.first && !s.last, "all have left");
}

int main(void)
{
    test_screen();
    test_seats();
    return tap_done();
}
