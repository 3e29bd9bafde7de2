/* documents: text and JSONL, plain and packed, and each way in which they are bad. */
#include <math.h>

#include "base/file.h"
#include "base/log.h"
#include "formats/doc.h"
#include "tests/tap.h"

static struct arena arena;
static struct err e;

static char *at(const char *name)
{
    return arena_printf(&arena, "%s/%s", tap_tmp(), name);
}

static void put(const char *name, struct str s)
{
    if (file_write_all(at(name), s, &e))
        printf("# %s\n", e.msg);
}

/* All documents of paths as "ID=TEXT|..."; on error "error: ...". */
static const char *read_all(const char *const *names, enum bad_utf8 policy, int64_t *replaced)
{
    struct str v[8];
    struct strs paths = {v, 0};
    struct buf b = {0};
    struct doc d;
    int got;
    while (names[paths.n]) {
        v[paths.n] = str_z(at(names[paths.n]));
        paths.n++;
    }
    struct docs *r = docs_open(paths, policy, &e);
    if (!r)
        return arena_printf(&arena, "error: %s", e.msg);
    while ((got = docs_next(r, &d, &e)) > 0) {
        buf_adds(&b, d.id);
        buf_addc(&b, '=');
        buf_adds(&b, d.text);
        if (!isnan(d.oracle_bits))
            buf_printf(&b, "@%g", d.oracle_bits);
        buf_addc(&b, '|');
    }
    if (replaced)
        *replaced = docs_replaced(r);
    const char *out = got < 0 ? arena_printf(&arena, "error: %s", e.msg)
                              : str_dup(&arena, b.n ? buf_str(&b) : STR_LIT("nothing"));
    if (got == 0)
        CHECK_NEAR(docs_fraction(r), 1, 0, "at the end all bytes are read");
    docs_close(r);
    buf_release(&b);
    return out;
}

static const char *read_one(const char *name, enum bad_utf8 policy)
{
    const char *names[] = {name, NULL};
    return read_all(names, policy, NULL);
}

#define JSONL(text)     (put("x.jsonl", STR_LIT(text)), read_one("x.jsonl", BAD_UTF8_REPLACE))
#define SAYS(got, want) says((got), (want))

static bool says(const char *got, const char *want)
{
    bool ok = strncmp(got, "error: ", 7) == 0 && strstr(got, want) && strstr(got, tap_tmp());
    if (!ok)
        printf("# got \"%s\", want \"...%s\"\n", got, want);
    return ok;
}

static void test_jsonl(void)
{
    CHECK_STR(JSONL("{\"id\":\"a\",\"text\":\"one\",\"x\":[1]}\n{\"text\":\"two\"}\n"
                    "{\"id\":7,\"text\":\"\",\"oracle_bits\":2.5}"),
              "a=one|x.jsonl:2=two|7=@2.5|",
              "ids are given or FILE:LINE; other keys are ignored; the last line needs no LF");
    CHECK_STR(JSONL("\xef\xbb\xbf{\"text\":\"one\"}\r\n\r\n  \n{\"text\":\"two\"}\r\n"),
              "x.jsonl:1=one|x.jsonl:4=two|", "BOM, CRLF and blank lines are fine");
    CHECK_STR(JSONL("{\"text\":\"\\ud83d\\ude00 \\ud83d \\ude00\"}"),
              "x.jsonl:1=\xf0\x9f\x98\x80 \xef\xbf\xbd \xef\xbf\xbd|",
              "surrogate pairs are one character, lone ones U+FFFD");
    CHECK(SAYS(JSONL("{\"text\":\"a\"}\n{\"txt\":\"b\"}\n"), "x.jsonl:2: "),
          "a missing text is an error with file and line");
    CHECK(SAYS(JSONL("{\"text\":\"a\"}\n{\"text\":5}\n"), "x.jsonl:2: "), "so is one of a number");
    CHECK(SAYS(JSONL("\n{\"text\":null}\n"), "x.jsonl:2: "), "or null");
    CHECK(SAYS(JSONL("[\"text\"]\n"), "x.jsonl:1: not a JSON object"), "a line that is no object");
    CHECK(SAYS(JSONL("{\"text\":\"a\"\n"), "x.jsonl:1: "), "a line that is cut");
    CHECK(SAYS(JSONL("{\"text\":\"a\",\"text\":\"b\"}"), "x.jsonl:1: "), "a doubled key");
    CHECK(SAYS(JSONL("{\"text\":\"a\",\"id\":[1]}"), "x.jsonl:1: \"id\""), "an id that is a list");
    CHECK(SAYS(JSONL(""), "no document"), "an empty file is an error");
    CHECK(SAYS(JSONL("\n\n"), "no document"), "so is one of blank lines");
    put("n.jsonl", STR_LIT("{\"text\":\"a\\u0000b\"}"));
    struct str path = str_z(at("n.jsonl"));
    struct docs *r = docs_open((struct strs){&path, 1}, BAD_UTF8_REPLACE, &e);
    struct doc d;
    CHECK(docs_next(r, &d, &e) == 1 && str_eq(d.text, STR_LIT("a\0b")), "NUL is kept");
    docs_close(r);
}

static void test_utf8(void)
{
    int64_t replaced;
    const char *names[] = {"bad.txt", "good.txt", NULL};
    put("bad.txt", STR_LIT("a\xff"
                           "b\xe2\x82"
                           "c\xf0\x9f\x98\xc3\xa9\xc0\xaf"));
    put("good.txt", STR_LIT("\xef\xbb\xbfgood\r\n"));
    CHECK_STR(read_all(names, BAD_UTF8_REPLACE, &replaced),
              "bad.txt=a\xef\xbf\xbd"
              "b\xef\xbf\xbd"
              "c\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd|"
              "good.txt=\xef\xbb\xbfgood\r\n|",
              "replace: one U+FFFD a maximal subpart; BOM and CRLF of .txt stay");
    CHECK_INT(replaced, 1, "and the documents are counted");
    CHECK(SAYS(read_one("bad.txt", BAD_UTF8_ERROR), "bad.txt: byte 1 is not UTF-8"),
          "error: names file and byte");
    CHECK_STR(read_one("bad.txt", BAD_UTF8_RAW),
              "bad.txt=a\xff"
              "b\xe2\x82"
              "c\xf0\x9f\x98\xc3\xa9\xc0\xaf|",
              "raw: as they are");
    put("bad.jsonl", STR_LIT("{\"text\":\"a\xff\"}"));
    CHECK_STR(read_one("bad.jsonl", BAD_UTF8_REPLACE), "bad.jsonl:1=a\xef\xbf\xbd|",
              "JSONL is replaced too");
    CHECK(SAYS(read_one("bad.jsonl", BAD_UTF8_RAW), "bad.jsonl:1: byte 10"),
          "but JSON is never raw");
}

/* The two rows of test_packed as gzip and zstd wrote them, and "text" as gzip did. */
static const char rows_gz[] =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\xca\xcf\x4b\x55"
    "\xaa"
    "\xe5\xaa\x86\x71\x4b\xca\xf3\x81\x5c\x00\xfb\x0e\x50\xcb\x1e\x00\x00\x00";
static const char rows_zst[] = "\x28\xb5\x2f\xfd\x04\x58\xdd\x00\x00\xa8\x7b\x22\x74\x65\x78\x74"
                               "\x22\x3a\x22\x6f\x6e\x65\x22\x7d"
                               "\x0a\x74\x77\x6f\x22\x7d\x0a\x01\x00\x52\xcc\x3a\x90\xe2\xdf\xee";
static const char text_gz[] = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\x49\xad\x28\x01\x00\xc7"
                              "\xa7\x8b\x3b\x04\x00\x00\x00";

static void test_packed(void)
{
    struct str rows = STR_LIT("{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
    put("p.jsonl", rows);
    put("p.jsonl.gz", ((struct str){rows_gz, sizeof rows_gz - 1}));
    put("p.jsonl.zst", ((struct str){rows_zst, sizeof rows_zst - 1}));
    put("t.txt.gz", ((struct str){text_gz, sizeof text_gz - 1}));
    CHECK_STR(read_one("p.jsonl", BAD_UTF8_REPLACE), "p.jsonl:1=one|p.jsonl:2=two|", "plain");
    CHECK_STR(read_one("p.jsonl.gz", BAD_UTF8_REPLACE), "p.jsonl:1=one|p.jsonl:2=two|",
              "gzip is read, and ids do not name it");
    CHECK_STR(read_one("p.jsonl.zst", BAD_UTF8_REPLACE), "p.jsonl:1=one|p.jsonl:2=two|",
              "so is zstd: packing moves no document to another split");
    CHECK_STR(read_one("t.txt.gz", BAD_UTF8_REPLACE), "t.txt=text|", "and packed text");
    put("cut.jsonl.gz", (struct str){rows_gz, sizeof rows_gz - 6});
    CHECK(SAYS(read_one("cut.jsonl.gz", BAD_UTF8_REPLACE), "cut.jsonl.gz"),
          "a cut tail is an error");
}

static void test_paths(void)
{
    put("dir/b.txt", STR_LIT("B"));
    put("dir/a.jsonl", STR_LIT("{\"text\":\"A\"}"));
    put("dir/.hidden.txt", STR_LIT("H"));
    put("dir/readme.md", STR_LIT("R"));
    CHECK_STR(read_one("dir", BAD_UTF8_REPLACE), "a.jsonl:1=A|b.txt=B|",
              "a folder is its document files in name order");
    const char *two[] = {"dir/b.txt", "dir", NULL};
    CHECK_STR(read_all(two, BAD_UTF8_REPLACE, NULL), "b.txt=B|a.jsonl:1=A|b.txt=B|",
              "paths are read in the order given");
    CHECK(SAYS(read_one("none.txt", BAD_UTF8_REPLACE), "none.txt: No such file"),
          "a missing file is named");
    CHECK(SAYS(read_one("dir/readme.md", BAD_UTF8_REPLACE), "not a document file"),
          "another kind of file is refused");
    put("empty.txt", STR_LIT(""));
    CHECK(SAYS(read_one("empty.txt", BAD_UTF8_REPLACE), "empty.txt: no document"),
          "an empty text is an error");
    file_mkdirs(at("hollow"), &e);
    CHECK(SAYS(read_one("hollow", BAD_UTF8_REPLACE), "no .txt or .jsonl"), "as is an empty folder");
    CHECK(!docs_open((struct strs){0}, BAD_UTF8_RAW, &e), "and no path at all");
}

static void test_once(void)
{
    struct str path = str_z(at("twice.jsonl"));
    struct doc d;
    put("twice.jsonl", STR_LIT("{\"id\":\"a\",\"text\":\"1\"}\n\n{\"id\":\"b\",\"text\":\"2\"}\n"
                               "{\"id\":\"a\",\"text\":\"3\"}\n"));
    struct docs *r = docs_open((struct strs){&path, 1}, BAD_UTF8_REPLACE, &e);
    CHECK(docs_next(r, &d, &e) == 1 && !docs_once(r, d.id, &e) && docs_next(r, &d, &e) == 1 &&
              !docs_once(r, d.id, &e),
          "ids that differ are taken");
    CHECK(docs_next(r, &d, &e) == 1 && docs_once(r, d.id, &e) == -1 &&
              strstr(e.msg, "the id a is there twice") && strstr(e.msg, "twice.jsonl:1 and") &&
              strstr(e.msg, "twice.jsonl:4:"),
          "one that comes again is refused with both places: %s", e.msg);
    docs_close(r);
}

static void test_long_line(void)
{
    struct buf b = {0};
    char *p;
    buf_addz(&b, "{\"text\":\"a\"}\n{\"text\":\"");
    p = buf_room(&b, (size_t)65 << 20);
    memset(p, 'x', (size_t)65 << 20);
    b.n += (size_t)65 << 20;
    buf_addz(&b, "\"}\n");
    put("long.jsonl", buf_str(&b));
    buf_release(&b);
    CHECK(SAYS(read_one("long.jsonl", BAD_UTF8_REPLACE), "long.jsonl"),
          "a line over 64 MiB is an error: %s", e.msg);
}

static void test_write(void)
{
    struct buf b = {0};
    struct doc d = {STR_LIT("i\"d"), STR_LIT("a\n\xc3\xa9\0z"), NAN};
    doc_write(&d, &b);
    CHECK(str_eq(buf_str(&b), STR_LIT("{\"id\":\"i\\\"d\",\"text\":\"a\\n\xc3\xa9\\u0000z\"}\n")),
          "a document is written as one line");
    buf_cut(&b, 0);
    d.oracle_bits = 0.1;
    doc_write(&d, &b);
    CHECK(strstr(b.p, "\"oracle_bits\":0.1}\n"), "with its oracle bits if known");
    buf_release(&b);
}

static void test_split(void)
{
    int held = 0;
    for (int i = 0; i < 20000; i++) {
        char id[24];
        snprintf(id, sizeof id, "doc %d", i);
        bool h = doc_held_out(str_z(id), 0.1);
        held += h;
        if (h && !doc_held_out(str_z(id), 0.2))
            held = -100000;
    }
    CHECK(held > 2000 - 4 * 43 && held < 2000 + 4 * 43,
          "a share of 0.1 holds out a tenth, and a larger share holds out the same and more");
    CHECK(!doc_held_out(STR_LIT("a"), 0) && doc_held_out(STR_LIT("a"), 1),
          "0 is none and 1 is all");
    /* SHA-256("a") starts ca978112ca1bbdca: as little-endian 0xcabd1bca128197ca / 2^64 = 0.79195 */
    CHECK(!doc_held_out(STR_LIT("a"), 0.7919) && doc_held_out(STR_LIT("a"), 0.7921),
          "the place of an id is its SHA-256's first 8 bytes");
}

static void test_novels(void)
{
    const char *dir = tap_data("text/novels_train");
    if (!dir) {
        SKIP("data/text/novels_train");
        return;
    }
    struct str path = str_z(dir);
    struct docs *r = docs_open((struct strs){&path, 1}, BAD_UTF8_ERROR, &e);
    struct doc d;
    int n = 0;
    size_t bytes = 0;
    while (r && docs_next(r, &d, &e) > 0) {
        n++;
        bytes += d.text.n;
    }
    docs_close(r);
    CHECK(n == 30 && bytes > 15000000, "30 novels are read, %zu bytes", bytes);
}

int main(void)
{
    log_open("test", LOG_QUIET);
    test_jsonl();
    test_utf8();
    test_packed();
    test_paths();
    test_once();
    test_long_line();
    test_write();
    test_split();
    test_novels();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
