/* record files: what goes in comes out, unknown keys stay, and no damage passes in silence. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "formats/item.h"
#include "formats/record.h"
#include "formats/record_pack.h"
#include "tests/tap.h"

/* ---- a struct with every type of row -------------------------------------------------------- */

struct part {
    struct str name;
    double share;
};
struct all {
    bool flag;
    int64_t count, none, big;
    double real, missing;
    struct str text, bytes;
    int colour;
    struct strs words;
    struct f64s reals;
    struct i64s counts;
    struct part part;
    struct list parts;
    struct str rest;
};
static const char *const colours[] = {"red", "green", NULL};
static const struct field part_fields[] = {
    {"name", FIELD_STR, offsetof(struct part, name), NULL, .help = "-"},
    {"share", FIELD_F64, offsetof(struct part, share), "0.5", 0, 1, .help = "-"},
    {0},
};
static const struct schema part_schema = {"part", 1, sizeof(struct part), part_fields};
#define AT(m) offsetof(struct all, m)
static const struct field all_fields[] = {
    {"flag", FIELD_BOOL, AT(flag), "false", .help = "-"},
    {"count", FIELD_I64, AT(count), "7", .help = "-"},
    {"none", FIELD_I64, AT(none), "", .help = "-"},
    {"big", FIELD_I64, AT(big), "0", .help = "-"},
    {"real", FIELD_F64, AT(real), "1.5", .help = "-"},
    {"missing", FIELD_F64, AT(missing), "", .help = "-"},
    {"text", FIELD_STR, AT(text), "", .help = "-"},
    {"bytes", FIELD_STR, AT(bytes), "", .help = "-"},
    {"colour", FIELD_ENUM, AT(colour), "red", .choices = colours, .help = "-"},
    {"words", FIELD_STRS, AT(words), "", .help = "-"},
    {"reals", FIELD_F64S, AT(reals), "", .help = "-"},
    {"counts", FIELD_I64S, AT(counts), "", .help = "-"},
    {"part", FIELD_STRUCT, AT(part), "", .sub = &part_schema, .help = "-"},
    {"parts", FIELD_LIST, AT(parts), "", .sub = &part_schema, .help = "-"},
    {"rest", FIELD_REST, AT(rest), "", .help = "-"},
    {0},
};
static const struct schema all_schema = {"all", 1, sizeof(struct all), all_fields};

static struct str lit(const char *p, size_t n)
{
    return (struct str){p, n};
}

static bool fails(const char *hex_name, struct str payload, const char *want)
{
    struct all x;
    struct arena a = {0};
    struct err e = {0};
    int rc = record_unpack(&all_schema, &x, payload, &a, &e);
    bool ok = rc == -1 && strstr(e.msg, want);
    if (!ok)
        printf("# %s: rc %d, \"%s\", want \"%s\"\n", hex_name, rc, rc ? e.msg : "", want);
    arena_release(&a);
    return ok;
}
#define FAILS(bytes, want) fails(#bytes, lit(bytes, sizeof bytes - 1), want)

static void test_types(void)
{
    struct str words[] = {STR_LIT("a"), {NULL, 0}, STR_LIT("c\0d")};
    double reals[] = {1, NAN, -INFINITY, 0x1.fffffffffffffp1023};
    int64_t counts[] = {-1, INT64_MAX, INT64_MIN + 1, 300};
    struct part parts[] = {{STR_LIT("x"), 0.25}, {STR_LIT("y"), 1}};
    struct all x = {true,
                    -3,
                    FIELD_NONE_I64,
                    INT64_MAX,
                    0.1,
                    NAN,
                    STR_LIT("h\xc3\xa9"),
                    STR_LIT("\xff\xfe"),
                    1,
                    {words, 3},
                    {reals, 4},
                    {counts, 4},
                    {STR_LIT("p"), NAN},
                    {parts, 2},
                    {0}};
    struct all y;
    struct buf b = {0}, again = {0};
    struct arena a = {0};
    struct err e = {0};
    record_pack(&all_schema, &x, &b);
    CHECK_INT(record_unpack(&all_schema, &y, buf_str(&b), &a, &e), 0, "a packed struct unpacks");
    CHECK(y.flag && y.count == -3 && y.big == INT64_MAX && y.real == 0.1 && y.colour == 1,
          "scalars come back to the bit");
    CHECK(y.none == FIELD_NONE_I64 && isnan(y.missing) && isnan(y.part.share),
          "unset values come back unset, also where the default is a number");
    CHECK(str_eq(y.text, x.text) && str_eq(y.bytes, x.bytes), "text and raw bytes come back");
    CHECK(y.words.n == 3 && y.words.v[1].n == 0 && str_eq(y.words.v[2], words[2]),
          "lists of texts come back, NUL inside too");
    CHECK(y.reals.n == 4 && isnan(y.reals.v[1]) && y.reals.v[2] == -INFINITY &&
              y.reals.v[3] == reals[3],
          "NaN and infinity are kept in lists of reals");
    CHECK(y.counts.n == 4 && !memcmp(y.counts.v, counts, sizeof counts), "integers keep 64 bits");
    CHECK(y.parts.n == 2 && ((struct part *)y.parts.v)[1].share == 1, "lists of structs come back");
    record_pack(&all_schema, &y, &again);
    CHECK(str_eq(buf_str(&b), buf_str(&again)), "packing what was read gives the same bytes");
    buf_release(&b);
    buf_release(&again);
    arena_release(&a);
}

static void test_encodings(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct all x;
    struct item it = {.id = STR_LIT("a"),
                      .task = STR_LIT("t"),
                      .instruction = STR_LIT("i"),
                      .gold = FIELD_NONE_I64};
    struct buf b = {0};
    record_pack(&item_schema, &it, &b);
    CHECK(str_eq(buf_str(&b), STR_LIT("\x83\xa2id\xa1"
                                      "a\xa4task\xa1t\xabinstruction\xa1i")),
          "a struct is one map of its set keys in table order, everything shortest");
    buf_release(&b);
#define MAP                                                                                        \
    "\x84\xa5"                                                                                     \
    "count\xce\x00\x00\x00\x05\xa4real\xca\x3f\x00\x00\x00"                                        \
    "\xa4text\xc4\x02hi\xa4part\x81\xc4\x04name\xda\x00\x01z"
    CHECK_INT(record_unpack(&all_schema, &x, lit(MAP, sizeof MAP - 1), &a, &e), 0,
              "longer encodings are read");
    CHECK(x.count == 5 && x.real == 0.5 && str_eqz(x.text, "hi") && str_eqz(x.part.name, "z"),
          "float32 as real, bin as text, bin as key, str16: all the same values");
    CHECK(x.flag == false && x.big == 0 && x.part.share == 0.5, "absent keys get their defaults");
    arena_release(&a);
    CHECK(FAILS("\x81\xa3"
                "big\xcf\x80\x00\x00\x00\x00\x00\x00\x00",
                "key \"big\": 9223372036854775808 is above"),
          "an integer above int64 is refused by name");
    CHECK(FAILS("\x81\xa5"
                "count\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00",
                "key \"count\": want an integer, has a real"),
          "a real where an integer belongs is refused");
    CHECK(FAILS("\x82\xa4"
                "flag\xc3\xa4"
                "flag\xc2",
                "\"flag\" stands twice"),
          "a doubled key is refused");
    CHECK(FAILS("\x81\xa6"
                "colour\xa4"
                "blue",
                "\"blue\" is none"),
          "an unknown name is refused");
    CHECK(FAILS("\x81\xa5"
                "parts\x91\x80",
                "key \"parts\": [0]: the part lacks the key \"name\""),
          "a missing required key is named with its place");
    CHECK(FAILS("\x81\xa4part\x82\xa4name\xa1x\xa5share\x02", "2 is outside 0 to 1"),
          "a number out of its row's range is refused");
    CHECK(FAILS("\x93\x01\x02\x03", "want a map, has an array"), "an array is no record");
}

static void test_hostile(void)
{
    struct buf b = {0};
    struct err e = {0};
    CHECK(FAILS("\xdd\xff\xff\xff\xff", "claims 4294967295 elements"),
          "5 bytes that claim 4 G elements allocate nothing");
    CHECK(FAILS("\x91\xdd\x00\x10\x00\x00", "claims 1048576 elements"), "nor do 1 M");
    CHECK(FAILS("\xdf\xff\xff\xff\xff\x01", "claims 8589934590 elements"), "nor does a map");
    CHECK(FAILS("\xdb\xff\xff\xff\xff"
                "abc",
                "cut or no msgpack"),
          "nor a text of 4 GiB");
    CHECK(FAILS("\x81\xa1"
                "a\xc1",
                "cut or no msgpack"),
          "the type that never is, is refused");
    CHECK(FAILS("\x81\xa1"
                "a",
                "cut or no msgpack"),
          "a map that ends early is refused");
    CHECK(FAILS("\x80\x80", "1 bytes stand behind"), "bytes behind the map are refused");
    CHECK(FAILS("", "cut or no msgpack"), "no bytes are no record");
    for (int i = 0; i < RECORD_DEPTH; i++)
        buf_addz(&b, "\x91");
    buf_addz(&b, "\x01");
    CHECK_INT(record_measure(buf_str(&b), &e), RECORD_DEPTH + 1, "depth 32 is read");
    struct json *v = record_unpack_json(buf_str(&b), &e);
    CHECK(v != NULL, "and decoded");
    json_free(v);
    buf_cut(&b, 0);
    for (int i = 0; i < RECORD_DEPTH + 1; i++)
        buf_addz(&b, "\x91");
    buf_addz(&b, "\x01");
    CHECK(record_measure(buf_str(&b), &e) == 0 && strstr(e.msg, "deeper than 32"),
          "depth 33 is refused");
    buf_release(&b);
}

static void test_rest(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct all x;
    struct buf b = {0};
    CHECK(FAILS("\x81\x07\xc0", "a key is an integer, want a string"), "keys are strings");
#define LATER                                                                                      \
    "\x83\xa6"                                                                                     \
    "future\x92\xca\x3f\x00\x00\x00\xcf\xff\xff\xff\xff\xff\xff\xff\xff"                           \
    "\xa5"                                                                                         \
    "count\x09\xa3"                                                                                \
    "ext\xd4\x05\x01"
    CHECK_INT(record_unpack(&all_schema, &x, lit(LATER, sizeof LATER - 1), &a, &e), 0,
              "unknown keys are accepted");
    x.count = 10;
    record_pack(&all_schema, &x, &b);
    struct json *v = record_unpack_json(buf_str(&b), &e);
    struct buf text = {0};
    json_write(v, &text);
    CHECK(strstr(text.p, "\"future\":[0.5,\"18446744073709551615\"]") &&
              strstr(text.p, "\"ext\":{\"ext\":5,\"bytes\":1}") && strstr(text.p, "\"count\":10"),
          "and survive a rewrite with their values and types");
    json_free(v);
    buf_release(&text);
    buf_release(&b);
    arena_release(&a);
}

/* ---- files ---------------------------------------------------------------------------------- */

#define N_RECORDS 20

/* A journal of 20 scores; start[i] is where record i begins, start[20] the size. */
static char *make_file(const char *name, enum record_mode mode, size_t start[N_RECORDS + 1])
{
    static char path[512];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s", tap_tmp(), name);
    unlink(path);
    struct records *r = records_open(path, &score_schema, mode, &e);
    for (int i = 0; r && i < N_RECORDS; i++) {
        char id[24];
        snprintf(id, sizeof id, "item %d", i);
        struct score s = {.item = str_z(id), .scorer = STR_LIT("exact"), .value = i / 7.0};
        if (start)
            start[i] = mode == RECORD_APPEND ? (size_t)file_size(path) : 0;
        records_append(r, &s, &e);
    }
    CHECK(r && records_close(r, &e) == 0, "%s: 20 records are written", name);
    if (start)
        start[N_RECORDS] = (size_t)file_size(path);
    return path;
}

/* Records that are read before the end or an error. *bad: it was an error. */
static int count_records(const char *path, bool *bad, bool *torn, struct err *e)
{
    struct score s;
    struct arena a = {0};
    int n = 0, got = -1;
    *torn = false;
    struct records *r = records_open(path, &score_schema, RECORD_READ, e);
    while (r && (got = records_next(r, &s, &a, e)) > 0) {
        char id[24];
        snprintf(id, sizeof id, "item %d", n++);
        if (!str_eqz(s.item, id) || s.value != (n - 1) / 7.0)
            got = -2;
    }
    *bad = got < 0;
    if (r)
        *torn = records_torn(r);
    records_abort(r);
    arena_release(&a);
    return got == -2 ? -1 : n;
}

static void put_bytes(const char *path, const void *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (write(fd, p, n) != (ssize_t)n)
        perror("write");
    close(fd);
}

static void test_truncated(const struct buf *whole, const size_t *start)
{
    char path[512];
    struct err e = {0};
    int wrong = 0, header_ok = 0;
    snprintf(path, sizeof path, "%s/cut.msgpack", tap_tmp());
    put_bytes(path, whole->p, whole->n);
    for (size_t n = whole->n + 1; n-- > 0;) {
        bool bad, torn;
        if (truncate(path, (off_t)n))
            perror("truncate");
        int got = count_records(path, &bad, &torn, &e), want = 0;
        if (n < start[0]) {
            header_ok += !bad;
            continue;
        }
        while (want < N_RECORDS && start[want + 1] <= n)
            want++;
        bool at_edge = n == start[want];
        if (bad || got != want || torn == at_edge) {
            if (!wrong++)
                printf("# cut at %zu: %d records, want %d, bad %d, torn %d: %s\n", n, got, want,
                       bad, torn, e.msg);
        }
    }
    CHECK_INT(header_ok, 0, "a file cut in its header is an error at each byte");
    CHECK_INT(wrong, 0, "cut at each byte: all whole records are read, the torn one is said");
}

static void test_flipped(const struct buf *whole, const size_t *start)
{
    char path[512];
    struct err e = {0};
    int silent = 0, lost = 0;
    snprintf(path, sizeof path, "%s/flip.msgpack", tap_tmp());
    put_bytes(path, whole->p, whole->n);
    int fd = open(path, O_WRONLY);
    for (size_t i = 0; i < whole->n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bool bad, torn;
            char c = (char)(whole->p[i] ^ (1 << bit));
            bool put = pwrite(fd, &c, 1, (off_t)i) == 1;
            int got = put ? count_records(path, &bad, &torn, &e) : -1;
            put = pwrite(fd, whole->p + i, 1, (off_t)i) == 1;
            bool last = i >= start[N_RECORDS - 1];
            if (!put || got < 0 || (!bad && !torn))
                silent++;
            else if (!last && !bad && !lost++)
                printf("# flipped bit %d of byte %zu: %d records and no error\n", bit, i, got);
        }
    }
    close(fd);
    CHECK_INT(silent, 0, "a flipped bit anywhere never passes as 20 good records");
    CHECK_INT(lost, 0, "before the last record it is an error, never a torn tail");
}

static void test_tail(const struct buf *whole, const size_t *start)
{
    char path[512];
    struct err e = {0};
    bool bad, torn;
    struct buf b = {0};
    snprintf(path, sizeof path, "%s/tail.msgpack", tap_tmp());
    buf_adds(&b, buf_str(whole));
    for (int i = 0; i < 100; i++)
        buf_addc(&b, 0);
    put_bytes(path, b.p, b.n);
    CHECK(count_records(path, &bad, &torn, &e) == N_RECORDS && !bad && torn,
          "zeros behind the end (a power cut) are a torn tail");
    put_bytes(path, whole->p, start[3] + 11);
    struct records *r = records_open(path, &score_schema, RECORD_APPEND, &e);
    struct score s = {.item = STR_LIT("item 3"), .value = 3 / 7.0};
    CHECK(r && records_torn(r) && records_append(r, &s, &e) == 0 && records_sync(r, &e) == 0,
          "a journal with a torn tail opens for appending");
    CHECK(count_records(path, &bad, &torn, &e) == 4 && !bad && !torn,
          "the tail was cut, and a record is there as soon as it was appended");
    struct err e2 = {0};
    CHECK(!records_open(path, &score_schema, RECORD_APPEND, &e2) && strstr(e2.msg, "tail.msgpack"),
          "a second writer is refused while the journal is open");
    records_abort(r);
    put_bytes(path, whole->p, 13);
    r = records_open(path, &score_schema, RECORD_APPEND, &e);
    CHECK(r && records_close(r, &e) == 0 && count_records(path, &bad, &torn, &e) == 0 && !bad,
          "a journal killed in its header starts anew");
    put_bytes(path, "GARBAGE", 7);
    CHECK(!records_open(path, &score_schema, RECORD_APPEND, &e) && file_size(path) == 7,
          "a file that is no journal is not appended to and not cut: %s", e.msg);
    whole->p[start[5] + 20] ^= 1;
    put_bytes(path, whole->p, whole->n);
    whole->p[start[5] + 20] ^= 1;
    CHECK(!records_open(path, &score_schema, RECORD_APPEND, &e) &&
              file_size(path) == (int64_t)whole->n,
          "a damaged journal is not appended to and not cut: %s", e.msg);
    buf_release(&b);
}

static bool open_says(const char *path, const void *p, size_t n, const char *want)
{
    struct err e = {0};
    if (p)
        put_bytes(path, p, n);
    struct records *r = records_open(path, &score_schema, RECORD_READ, &e);
    bool ok = !r && strstr(e.msg, want) && strstr(e.msg, path);
    if (!ok)
        printf("# got \"%s\", want \"%s\"\n", e.msg, want);
    records_abort(r);
    return ok;
}

static void test_bad_files(const struct buf *whole)
{
    char path[512];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/bad.msgpack", tap_tmp());
    CHECK(open_says(tap_tmp(), NULL, 0, "folder"), "a folder is refused");
    unlink(path);
    CHECK(open_says(path, NULL, 0, "No such file"), "a missing file is refused");
    CHECK(open_says(path, "", 0, "empty"), "an empty file is refused");
    CHECK(open_says(path, "PK\3\4 and more bytes than a header", 30, "not a record file"),
          "a wrong magic is refused");
    CHECK(open_says(path, whole->p, 17, "cut inside its header"), "a cut header is refused");
    char *p = mem_alloc(whole->n);
    memcpy(p, whole->p, whole->n);
    p[8] = 3;
    CHECK(open_says(path, p, whole->n, "want record format version 1, file has 3"),
          "another format version is refused");
    p[8] = 1;
    p[12] = 3;
    CHECK(open_says(path, p, whole->n, "want score version 1, file has 3"),
          "a newer schema is refused");
    p[12] = 1;
    p[19] = 1;
    CHECK(open_says(path, p, whole->n, "claims 16777221 bytes"), "an absurd name is refused");
    p[19] = 0;
    p[20] = 'b';
    CHECK(open_says(path, p, whole->n, "holds bcore records, want score"),
          "records of another kind are refused");
    free(p);
    char name[65];
    int version;
    put_bytes(path, whole->p, whole->n);
    CHECK(records_peek(path, name, &version, &e) == 0 && !strcmp(name, "score") && version == 1,
          "records_peek names the schema");
}

static void test_artefact(void)
{
    struct err e = {0};
    struct arena a = {0};
    struct item in = {.id = STR_LIT("q"), .task = STR_LIT("t"), .instruction = STR_LIT("?")}, out;
    char *path = arena_printf(&a, "%s/one.msgpack", tap_tmp());
    struct records *r = records_open(path, &item_schema, RECORD_WRITE, &e);
    records_append(r, &in, &e);
    CHECK(!file_exists(path), "an artefact is not there before it is whole");
    records_abort(r);
    CHECK(!file_exists(path), "and never appears when it is given up");
    CHECK(record_save(path, &item_schema, &in, &e) == 0 &&
              record_load(path, &item_schema, &out, &a, &e) == 0 && str_eqz(out.id, "q"),
          "one struct is saved and loaded");
    struct buf b = {0};
    file_read(path, &b, 0, &e);
    for (int i = 0; i < 40; i++)
        buf_addc(&b, 0);
    put_bytes(path, b.p, b.n);
    CHECK(record_load(path, &item_schema, &out, &a, &e) == 0 && str_eqz(out.id, "q"),
          "zeros behind it (a power cut) are dropped: %s", e.msg);
    b.p[b.n - 1] = 1;
    put_bytes(path, b.p, b.n);
    CHECK(record_load(path, &item_schema, &out, &a, &e) == -1, "other bytes are not");
    buf_release(&b);
    record_save(path, &item_schema, &in, &e);
    r = records_open(path, &item_schema, RECORD_APPEND, &e);
    records_append(r, &in, &e);
    records_close(r, &e);
    CHECK(record_load(path, &item_schema, &out, &a, &e) == -1 && strstr(e.msg, "behind its only"),
          "a second record where one belongs is refused");
    CHECK(record_load(path, &score_schema, &out, &a, &e) == -1, "as is another kind");
    arena_release(&a);
}

/* Killed while appending: what is there is whole records and at most a torn one. */
static void test_killed(void)
{
    char path[512];
    struct err e = {0};
    int wrong = 0, most = 0;
    snprintf(path, sizeof path, "%s/killed.msgpack", tap_tmp());
    for (int round = 0; round < 5; round++) {
        bool bad;
        pid_t pid = fork();
        if (pid == 0) {
            struct records *r = records_open(path, &score_schema, RECORD_APPEND, &e);
            struct score s = {.item = STR_LIT("item 0")};
            for (;;)
                records_append(r, &s, &e);
        }
        usleep(3000 + 2000 * (unsigned)round);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        struct records *r = records_open(path, &score_schema, RECORD_READ, &e);
        struct score s;
        struct arena a = {0};
        int n = 0, got = -1;
        while (r && (got = records_next(r, &s, &a, &e)) > 0)
            n++;
        bad = got < 0;
        if (r && (bad || n < most))
            wrong++;
        most = n > most ? n : most;
        records_abort(r);
        arena_release(&a);
    }
    CHECK(wrong == 0 && most > 0,
          "killed 5 times while appending: no record is damaged or lost (%d written)", most);
}

int main(void)
{
    size_t start[N_RECORDS + 1];
    struct buf whole = {0};
    struct err e = {0};
    log_open("test", LOG_QUIET);
    test_types();
    test_encodings();
    test_hostile();
    test_rest();
    char *path = make_file("artefact.msgpack", RECORD_WRITE, NULL);
    struct buf artefact = {0};
    file_read(path, &artefact, 0, &e);
    path = make_file("journal.msgpack", RECORD_APPEND, start);
    CHECK(file_read(path, &whole, 0, &e) == 0 && str_eq(buf_str(&whole), buf_str(&artefact)),
          "a journal and an artefact of the same records have the same bytes");
    test_truncated(&whole, start);
    test_flipped(&whole, start);
    test_tail(&whole, start);
    test_bad_files(&whole);
    test_artefact();
    test_killed();
    buf_release(&whole);
    buf_release(&artefact);
    file_remove_tree(tap_tmp(), &e);
    return tap_done();
}
