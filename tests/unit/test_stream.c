/* base/stream: plain, gzip and zstd input; damage and early ends are errors that name the file. */
#include "tests/tap.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/stream.h"

static struct arena A;
static struct err E;

/* Written by gzip(1) and zstd(1): "one\n"; "first frame\n", a skippable frame, "second frame\n";
 * the numbers 1 to 200 a line, with a window of 2 GiB declared. */
static const unsigned char GZ_ONE[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00,
                                       0x02, 0x03, 0xcb, 0xcf, 0x4b, 0xe5, 0x02, 0x00,
                                       0x9f, 0xa8, 0x17, 0xf8, 0x04, 0x00, 0x00, 0x00};
static const unsigned char ZST_TWO[] = {
    0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x61, 0x00, 0x00, 0x66, 0x69, 0x72, 0x73, 0x74, 0x20,
    0x66, 0x72, 0x61, 0x6d, 0x65, 0x0a, 0x5a, 0x2a, 0x4d, 0x18, 0x05, 0x00, 0x00, 0x00, 0x73,
    0x6b, 0x69, 0x70, 0x21, 0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x69, 0x00, 0x00, 0x73, 0x65,
    0x63, 0x6f, 0x6e, 0x64, 0x20, 0x66, 0x72, 0x61, 0x6d, 0x65, 0x0a, 0x9e, 0x39, 0x73, 0xab};
static const unsigned char ZST_LONG[] = {
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0xa8, 0x25, 0x09, 0x00, 0x46, 0x2b, 0x48, 0x0a, 0xb0, 0xe5, 0x18,
    0x24, 0x49, 0x42, 0x6c, 0x4c, 0xe4, 0x74, 0x45, 0x00, 0x47, 0x00, 0x40, 0x00, 0x97, 0xa0, 0x0c,
    0xe4, 0x91, 0x46, 0x16, 0x49, 0xe4, 0x90, 0x42, 0x06, 0x39, 0x09, 0xc8, 0x30, 0xde, 0x68, 0x63,
    0x8d, 0x34, 0xce, 0x28, 0x63, 0x8c, 0x8f, 0x60, 0x0c, 0xe2, 0x89, 0x26, 0x96, 0x48, 0xe2, 0x88,
    0x22, 0x86, 0xb8, 0x08, 0xc4, 0x10, 0x5e, 0x68, 0x61, 0x85, 0x14, 0x4e, 0x28, 0x61, 0x84, 0x87,
    0x20, 0x0c, 0x7b, 0x6b, 0x5b, 0x4b, 0x3b, 0x2b, 0x1b, 0xfb, 0x82, 0x0d, 0x9e, 0x66, 0x49, 0x8e,
    0x62, 0x78, 0xaf, 0xbc, 0xf1, 0xfe, 0x82, 0x37, 0x80, 0x3d, 0xb0, 0x06, 0xb6, 0xc0, 0x12, 0xd8,
    0x01, 0x2b, 0x60, 0x03, 0xec, 0x60, 0x01, 0xd8, 0x10, 0xbc, 0xa0, 0x05, 0x2b, 0x48, 0xc1, 0x09,
    0x4a, 0x30, 0x82, 0x07, 0x41, 0x30, 0x9c, 0x77, 0xda, 0x59, 0x27, 0x9d, 0x73, 0xca, 0x19, 0xe7,
    0x27, 0x38, 0x83, 0x79, 0xa6, 0x99, 0x65, 0x92, 0x39, 0xa6, 0x98, 0x61, 0x6e, 0x02, 0x33, 0x94,
    0x57, 0x5a, 0x59, 0x25, 0x95, 0x53, 0x4a, 0x19, 0x65, 0x46, 0x5b, 0xb4, 0x44, 0x3b, 0xb4, 0x42,
    0x1b, 0xb4, 0xd3, 0x02, 0xda, 0x30, 0x7b, 0xb3, 0x36, 0x5b, 0xb3, 0x34, 0x3b, 0xb3, 0x32, 0x1b,
    0xb3, 0xcf, 0x82, 0xd9, 0x20, 0x7b, 0xb2, 0x26, 0x5b, 0xb2, 0x24, 0x3b, 0xb2, 0x22, 0x1b, 0xb2,
    0xcb, 0x02, 0xd9, 0x10, 0x7b, 0xb1, 0x16, 0x5b, 0xb1, 0x14, 0x3b, 0xb1, 0x12, 0x1b, 0xb1, 0xc7,
    0x82, 0xd8, 0xf0, 0xde, 0x6b, 0x6f, 0xbd, 0xf4, 0x4e, 0x02, 0x10, 0x86, 0xb0, 0x17, 0xd6, 0xc2,
    0x56, 0x58, 0x0a, 0x3b, 0x61, 0x25, 0x6c, 0x84, 0x3d, 0x2c, 0x08, 0x1b, 0x6e, 0xef, 0xd6, 0x6e,
    0xeb, 0x96, 0x6e, 0xe7, 0x56, 0x6e, 0xe3, 0xf6, 0x5b, 0x70, 0x1b, 0x6c, 0xcf, 0xd6, 0x6c, 0xcb,
    0x96, 0x6c, 0xc7, 0x56, 0x6c, 0xc3, 0x76, 0x5b, 0x60, 0x1b, 0x6a, 0xaf, 0xd6, 0x6a, 0xab, 0x96,
    0x6a, 0xa7, 0x56, 0x6a, 0xa3, 0xf6, 0x5a, 0x50, 0x1b, 0x68, 0x8f, 0x36, 0x00, 0x03, 0x4c, 0xc3,
    0xcb};

static const char *put(const char *name, const void *p, size_t n)
{
    char *path = path_join(&A, tap_tmp(), name);

    if (file_write_all(path, (struct str){p, n}, &E) != 0)
        abort();
    return path;
}

/* Reads all in pieces of `step`; the text, or NULL with E. */
static char *all(const char *path, size_t step, size_t *n)
{
    struct buf b = {0};
    struct stream *s = stream_open(path, &E);
    ssize_t got = s ? 1 : -1;

    while (got > 0) {
        got = stream_read(s, buf_room(&b, step), step, &E);
        if (got > 0)
            buf_cut(&b, b.n += (size_t)got);
    }
    stream_close(s);
    if (n)
        *n = b.n;
    buf_addz(&b, "");
    if (got == 0)
        return buf_take(&b);
    buf_release(&b);
    return NULL;
}

static void check_text(const char *path, const char *want, const char *promise)
{
    char *got = all(path, 5, NULL);

    CHECK_STR(got ? got : E.msg, want, "%s", promise);
    free(got);
}

static void check_error(const char *path, const char *want, const char *promise)
{
    char *got = all(path, 1 << 16, NULL);

    CHECK(!got && strstr(E.msg, want) && strstr(E.msg, path), "%s: %s", promise,
          got ? "(no error)" : E.msg);
    free(got);
}

/* ---- plain writers of both formats, from RFC 1952/1951 (stored blocks) and RFC 8878 ---- */

static uint32_t crc32_of(const unsigned char *p, size_t n)
{
    uint32_t c = ~0u;

    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    }
    return ~c;
}

static void le(struct buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_addc(b, (char)(v >> 8 * i));
}

static void gz_member(struct buf *b, const char *p, size_t n)
{
    buf_add(b, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
    for (size_t at = 0, k; at < n || n == 0; at += k) {
        k = n - at < 60000 ? n - at : 60000;
        buf_addc(b, at + k == n);
        le(b, k, 2);
        le(b, ~k, 2);
        buf_add(b, p + at, k);
        if (n == 0)
            break;
    }
    le(b, crc32_of((const unsigned char *)p, n), 4);
    le(b, n, 4);
}

static void zst_frame(struct buf *b, const char *p, size_t n)
{
    buf_add(b, "\x28\xb5\x2f\xfd\x00\x48", 6); /* no checksum, window 2^19 */
    for (size_t at = 0, k; at < n || n == 0; at += k) {
        k = n - at < 100000 ? n - at : 100000;
        le(b, (uint64_t)(at + k == n) | k << 3, 3);
        buf_add(b, p + at, k);
        if (n == 0)
            break;
    }
}

static void test_small(void)
{
    struct buf b = {0};

    check_text(put("plain", "just text\n", 10), "just text\n", "plain text passes");
    check_text(put("empty", "", 0), "", "an empty file is the empty text");
    check_text(put("tiny", "x", 1), "x", "one byte passes");
    check_text(put("named.gz", "no gzip\n", 8), "no gzip\n", "the name decides nothing");
    check_text(put("one.bin", GZ_ONE, sizeof GZ_ONE), "one\n",
               "gzip(1) is read, whatever the name");
    buf_add(&b, GZ_ONE, sizeof GZ_ONE);
    gz_member(&b, "", 0);
    buf_add(&b, GZ_ONE, sizeof GZ_ONE);
    check_text(put("three.gz", b.p, b.n), "one\none\n", "members in a row are read through");
    buf_add(&b, "\0\0\0\0", 4);
    check_text(put("padded.gz", b.p, b.n), "one\none\n", "zero padding is let through");
    buf_addc(&b, 'x');
    check_error(put("tail.gz", b.p, b.n), "something else follows", "other tails are not");
    check_text(put("two.zst", ZST_TWO, sizeof ZST_TWO), "first frame\nsecond frame\n",
               "zstd frames and skippable ones between are read through");
    check_text(put("skip.zst", ZST_TWO + 21, sizeof ZST_TWO - 21), "second frame\n",
               "a file may begin with a skippable frame");
    size_t n = 0;
    char *text = all(put("long.zst", ZST_LONG, sizeof ZST_LONG), 1000, &n);
    CHECK(text && n == 692 && strncmp(text, "1\n2\n3\n", 6) == 0 && strstr(text, "\n199\n200\n"),
          "zstd --long=31 is read (%zu bytes)", n);
    free(text);
    buf_release(&b);
}

/* Every proper prefix of a compressed file is an error; so is every flipped bit of its text. */
static void test_damage(void)
{
    static const struct {
        const char *name;
        const unsigned char *p;
        size_t n, first_end; /* a prefix of this length is whole */
        size_t whole2;
    } one[] = {{"cut.gz", GZ_ONE, sizeof GZ_ONE, 0, 0},
               {"cut.zst", ZST_TWO, sizeof ZST_TWO, 21, 34}};

    for (int k = 0; k < 2; k++) {
        int missed = 0, unnamed = 0;
        for (size_t n = 4; n < one[k].n; n++) {
            if (n == one[k].first_end || n == one[k].whole2)
                continue;
            const char *path = put(one[k].name, one[k].p, n);
            char *got = all(path, 1 << 16, NULL);
            missed += got != NULL;
            unnamed += !got && (!strstr(E.msg, path) || !strstr(E.msg, "too early"));
            free(got);
        }
        CHECK_INT(missed, 0, "every cut of %s is an error", one[k].name);
        CHECK_INT(unnamed, 0, "that says so and names the file");
    }
    unsigned char bad[sizeof ZST_TWO];
    memcpy(bad, GZ_ONE, sizeof GZ_ONE);
    bad[sizeof GZ_ONE - 6] ^= 1;
    check_error(put("crc.gz", bad, sizeof GZ_ONE), "damaged gzip", "a wrong CRC is found");
    memcpy(bad, GZ_ONE, sizeof GZ_ONE);
    bad[sizeof GZ_ONE - 2] ^= 1;
    check_error(put("len.gz", bad, sizeof GZ_ONE), "damaged gzip", "a wrong length is found");
    memcpy(bad, ZST_TWO, sizeof ZST_TWO);
    bad[45] ^= 4;
    check_error(put("sum.zst", bad, sizeof bad), "damaged zstd", "a wrong checksum is found");
    memcpy(bad, ZST_TWO, sizeof ZST_TWO);
    bad[21] ^= 0xff;
    check_error(put("second.zst", bad, sizeof bad), "damaged zstd", "a second frame that is none");
    check_error(put("only.gz", "\x1f\x8b", 2), "too early", "a gzip magic alone");
    check_error(put("not.gz", "\x1f\x8b is text", 10), "damaged gzip", "text behind a gzip magic");
}

/* Long input in pieces: buffers of the decoders wrap, lines cross them. */
static void test_long(void)
{
    struct buf text = {0}, gz = {0}, zst = {0};
    struct rng r = rng_make(7, "test stream", 0);

    while (text.n < 700000) {
        size_t n = rng_below(&r, 20) ? rng_below(&r, 120) : rng_below(&r, 90000);
        for (size_t i = 0; i < n; i++)
            buf_addc(&text, (char)('a' + rng_below(&r, 26)));
        buf_addc(&text, '\n');
    }
    buf_addz(&text, "no line feed at the end");
    for (size_t at = 0, k; at < text.n; at += k) {
        k = rng_below(&r, 200000);
        k = k < text.n - at ? k : text.n - at;
        gz_member(&gz, text.p + at, k);
        zst_frame(&zst, text.p + at, k);
        buf_add(&zst, "\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
    }
    const char *paths[] = {put("long", text.p, text.n), put("long.gz", gz.p, gz.n),
                           put("long2.zst", zst.p, zst.n)};
    for (int k = 0; k < 3; k++) {
        size_t n = 0;
        char *got = all(paths[k], 1 + rng_below(&r, 100000), &n);
        CHECK(got && n == text.n && memcmp(got, text.p, n) == 0, "700 kB of %s, byte by byte",
              path_base(paths[k]));
        free(got);

        struct stream *s = stream_open(paths[k], &E);
        struct str rest = buf_str(&text);
        struct buf line = {0};
        bool same = true, rising = true;
        double was = 0;
        int64_t lines = 0;
        while (stream_line(s, &line, 0, &E) == 1) {
            same = same && str_eq(buf_str(&line), str_cut(&rest, '\n'));
            rising = rising && stream_fraction(s) >= was;
            was = stream_fraction(s);
            lines++;
        }
        CHECK(same && rest.n == 0 && lines == stream_lineno(s), "its %lld lines", (long long)lines);
        CHECK(rising && was == 1, "the fraction rises to 1");
        stream_close(s);
        buf_release(&line);
    }
    buf_release(&text);
    buf_release(&gz);
    buf_release(&zst);
}

static void test_lines(void)
{
    struct buf line = {0};
    const char *path = put("lines", "a\r\n\nb\0c\nlast", 12);
    struct stream *s = stream_open(path, &E);
    char rest[16];

    CHECK(stream_line(s, &line, 0, &E) == 1 && line.n == 2 && line.p[1] == '\r', "CR is kept");
    CHECK(stream_line(s, &line, 0, &E) == 1 && line.n == 0, "an empty line is a line");
    CHECK(stream_line(s, &line, 3, &E) == 1 && line.n == 3 && memcmp(line.p, "b\0c", 3) == 0,
          "NUL passes, and a line of exactly the cap");
    CHECK_INT(stream_lineno(s), 3, "lines are counted");
    CHECK(stream_read(s, rest, sizeof rest, &E) == 4 && memcmp(rest, "last", 4) == 0,
          "bytes may be read behind a line");
    CHECK(stream_line(s, &line, 0, &E) == 0, "then it ends");
    stream_close(s);

    s = stream_open(path, &E);
    CHECK(stream_line(s, &line, 2, &E) == 1 && stream_line(s, &line, 2, &E) == 1 &&
              stream_line(s, &line, 2, &E) == -1 && strstr(E.msg, "line 3 is longer than the 2"),
          "an over-long line is named: %s", E.msg);
    CHECK(stream_line(s, &line, 2, &E) == -1, "and reading does not go on behind it");
    stream_close(s);
    struct stream *z = stream_open("/dev/zero", &E);
    CHECK(stream_line(z, &line, 1000000, &E) == -1 && line.n <= 1000000,
          "an endless line stops at the cap");
    CHECK(stream_fraction(z) == 0, "the fraction of a device is unknown");
    stream_close(z);
    buf_release(&line);
}

static void test_open(void)
{
    CHECK(!stream_open(path_join(&A, tap_tmp(), "none"), &E) && strstr(E.msg, "No such file"),
          "a missing file: %s", E.msg);
    CHECK(!stream_open(tap_tmp(), &E) && strstr(E.msg, "folder"), "a folder: %s", E.msg);
    int keep = dup(0), fd = open(put("in.gz", GZ_ONE, sizeof GZ_ONE), O_RDONLY);
    dup2(fd, 0);
    close(fd);
    check_text("-", "one\n", "- is standard input, compressed or not");
    CHECK(fcntl(0, F_GETFD) != -1, "which stays open");
    dup2(keep, 0);
    close(keep);
    int p[2];
    if (pipe(p) != 0 || write(p[1], GZ_ONE, 1) != 1 || write(p[1], GZ_ONE + 1, 19) != 19)
        abort();
    char *name = arena_printf(&A, "/dev/fd/%d", p[0]);
    if (write(p[1], GZ_ONE + 20, sizeof GZ_ONE - 20) != sizeof GZ_ONE - 20)
        abort();
    close(p[1]);
    check_text(name, "one\n", "a pipe that gives a byte at first");
    close(p[0]);
}

int main(void)
{
    test_small();
    test_damage();
    test_long();
    test_lines();
    test_open();
    CHECK(file_remove_tree(tap_tmp(), &E) == 0, "the scratch folder goes");
    arena_release(&A);
    return tap_done();
}
