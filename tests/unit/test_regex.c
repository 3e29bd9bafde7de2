/* regex: what tokenizer and scoring rely on: Unicode classes, NUL, long subjects, honest failures. */
#include "tests/tap.h"

#include "base/mem.h"
#include "base/regex.h"

/* Finds from `from` and checks the span; want_start < 0: no match. */
static void find(const char *pattern, unsigned flags, struct str subject, size_t from,
                 ptrdiff_t want_start, ptrdiff_t want_end, const char *what)
{
    struct err e = {0};
    size_t start = 0, end = 0;
    struct regex *r = regex_new(str_z(pattern), flags, &e);
    if (!CHECK(r, "%s: compiles (%s)", what, e.msg))
        return;
    struct regex_match *m = regex_match_new(r);
    int rc = regex_find(r, m, subject, from, &start, &end, &e);
    if (want_start < 0)
        CHECK_INT(rc, 0, "%s: no match", what);
    else
        CHECK(rc == 1 && start == (size_t)want_start && end == (size_t)want_end,
              "%s: matches at %td..%td (got %d, %zu..%zu %s)", what, want_start, want_end, rc,
              start, end, e.msg);
    regex_match_free(m);
    regex_free(r);
}

static void test_find(void)
{
    struct str umlaut = STR_LIT("a \xC3\xA4\xC3\xB6 1");
    find("\\p{L}+", 0, umlaut, 1, 2, 6, "letters beyond ASCII");
    find("\\w+", 0, umlaut, 1, 2, 6, "\\w is Unicode (UCP)");
    find("\xC3\x84", REGEX_CASELESS, umlaut, 0, 2, 4, "caseless beyond ASCII");
    find("x", 0, umlaut, 0, -1, 0, "an absent letter");
    find("b", 0, STR_LIT("a\0b"), 0, 2, 3, "NUL is an ordinary byte");
    find("^b", 0, STR_LIT("a\nb"), 0, -1, 0, "^ is the start of the text");
    find("^b", REGEX_MULTILINE, STR_LIT("a\nb"), 0, 2, 3, "^ is a line start when asked");
    find("a.b", 0, STR_LIT("a\nb"), 0, -1, 0, "dot is not a line end");
    find("a.b", REGEX_DOTALL, STR_LIT("a\nb"), 0, 0, 3, "dot is a line end when asked");
    find("(?<=a)b", 0, STR_LIT("ab"), 1, 1, 2, "look-behind sees what is before `from`");
    find("\\s+(?!\\S)", 0, STR_LIT("x  "), 1, 1, 3, "look-ahead sees the end as the end");
    find("", 0, (struct str){0}, 0, 0, 0, "empty pattern on an empty subject");
    find("a*", 0, STR_LIT("b"), 1, 1, 1, "an empty match at the end");
}

static void test_groups(void)
{
    struct err e = {0};
    size_t start, end;
    struct str out, subject = STR_LIT("score: 87");
    struct regex *r = regex_new(STR_LIT("(grade)?score: (\\d+)"), 0, &e);
    struct regex_match *m = regex_match_new(r);
    CHECK_INT(regex_find(r, m, subject, 0, &start, &end, &e), 1, "a pattern with groups matches");
    CHECK(regex_group(m, subject, 2, &out) && str_eqz(out, "87"), "group 2 is the number");
    CHECK(!regex_group(m, subject, 1, &out), "a group that took no part says so");
    CHECK(!regex_group(m, subject, 3, &out), "there is no group 3");
    CHECK(regex_group(m, subject, 0, &out) && str_eq(out, subject), "group 0 is the match");
    regex_find(r, m, STR_LIT("none"), 0, &start, &end, &e);
    CHECK(!regex_group(m, subject, 0, &out), "after a miss there are no groups");
    regex_match_free(m);
    regex_free(r);
}

/* The JIT's own stack of 32 KiB fails on these; a growing one must not. */
static void test_long(void)
{
    enum { N = 1000000 };
    char *p = mem_alloc(N);
    memset(p, 'a', N);
    struct str s = {p, N};
    find("\\p{L}+", 0, s, 0, 0, N, "1 MB of one class");
    find("(?:[a-z]|x)+", 0, (struct str){p, 100000}, 0, 0, 100000, "100,000 nested letters");
    find("(?:[a-z]|x)+", 0, s, 0, 0, N, "1,000,000 nested letters");
    find("(?:\\p{L}\\p{M}*)+", 0, s, 0, 0, N, "1,000,000 letters with optional marks");
    find("(?:(?=a)a)+", 0, s, 0, 0, N, "1,000,000 look-aheads");
    free(p);
}

static void test_failure(void)
{
    struct err e = {0};
    size_t start = 0, end = 0;
    struct str s = STR_LIT("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac");
    struct regex *r = regex_new(STR_LIT("(a|aa)+[bd]"), 0, &e);
    struct regex_match *m = regex_match_new(r);
    CHECK_INT(regex_find(r, m, s, 0, &start, &end, &e), -1,
              "exponential backtracking is a failure, not \"no match\"");
    CHECK(strstr(e.msg, "at byte 0") && strstr(e.msg, "limit"), "the sentence says where: %s",
          e.msg);
    CHECK_INT(regex_find(r, m, STR_LIT("ab"), 0, &start, &end, &e), 1,
              "the match object works after a failure");
    regex_match_free(m);
    regex_free(r);
}

static void refuse(struct str pattern, const char *part, const char *what)
{
    struct err e = {0};
    struct regex *r = regex_new(pattern, 0, &e);
    CHECK(!r && strstr(e.msg, part), "%s is refused: %s", what, e.msg);
    regex_free(r);
}

static void test_bad_patterns(void)
{
    char big[70000];
    memset(big, 'a', sizeof big);
    refuse(STR_LIT("a(b"), "offset 3", "an open group");
    refuse(STR_LIT("\\p{Nope}"), "offset", "an unknown class");
    refuse(STR_LIT("a\xFFz"), "byte 1", "a pattern that is not UTF-8");
    refuse(STR_LIT("\\C"), "\\C", "a single byte of a character");
    refuse((struct str){big, sizeof big}, "70000", "a pattern of 70,000 bytes");
}

int main(void)
{
    test_find();
    test_groups();
    test_long();
    test_failure();
    test_bad_patterns();
    CHECK(regex_version()[0] == '1' && strchr(regex_unicode(), '.'), "PCRE2 %s, Unicode %s",
          regex_version(), regex_unicode());
    return tap_done();
}
