/* json: what is accepted, what is refused and where, and that a write reads back to the same value. */
#include "tests/tap.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

static void good(struct str text, const char *want, const char *what)
{
    struct err e = {0};
    struct buf b = {0};
    struct json *v = json_parse(text, &e);
    if (CHECK(v, "%s is accepted (%s)", what, e.msg)) {
        json_write(v, &b);
        CHECK_STR(b.p, want, "%s is written back", what);
    }
    buf_release(&b);
    json_free(v);
}

static void bad(struct str text, const char *part, const char *what)
{
    struct err e = {0};
    struct json *v = json_parse(text, &e);
    CHECK(!v && strstr(e.msg, part), "%s is refused: %s", what, e.msg);
    json_free(v);
}

static void test_values(void)
{
    good(STR_LIT(" [1, -2, 2.5, 1e3, true, false, null] \n"), "[1,-2,2.5,1000.0,true,false,null]",
         "a list of each kind");
    good(STR_LIT("{\"b\":1,\"a\":{\"c\":[]},\"\":{}}"), "{\"b\":1,\"a\":{\"c\":[]},\"\":{}}",
         "an object in insertion order");
    good(STR_LIT("9223372036854775807"), "9223372036854775807", "the largest int64");
    good(STR_LIT("-9223372036854775808"), "-9223372036854775808", "the smallest int64");
    good(STR_LIT("[0.1, 1e300, 5e-324, 0.30000000000000004, -0.0]"),
         "[0.1,1e+300,4.94065645841247e-324,0.30000000000000004,-0.0]", "reals in fewest digits");
    good(STR_LIT("\"\\u0041\\n\\u0001\\\"\\\\\\/\""), "\"A\\n\\u0001\\\"\\\\/\"", "escapes");
    good(STR_LIT("\"\\ud83d\\ude00\""), "\"\xF0\x9F\x98\x80\"", "a surrogate pair");
    good(STR_LIT("\"a\\u0000b\""), "\"a\\u0000b\"", "U+0000 in a string");
    good(STR_LIT("\"\\\\ud83d\""), "\"\\\\ud83d\"", "an escaped backslash before ud83d");
}

static void test_refusals(void)
{
    bad(STR_LIT(""), "empty", "an empty text");
    bad(STR_LIT(" \n "), "empty", "white space");
    bad(STR_LIT("{\"a\":1}\n x"), "line 2", "trailing text");
    bad(STR_LIT("{\"a\":1,\"a\":2}"), "duplicate", "a key that comes twice");
    bad(STR_LIT("[1,]"), "line 1, column", "a trailing comma");
    bad(STR_LIT("[NaN]"), "line 1", "NaN");
    bad(STR_LIT("9223372036854775808"), "too big", "an integer beyond int64");
    bad(STR_LIT("-9223372036854775809"), "too", "an integer below int64");
    bad(STR_LIT("1e999"), "overflow", "a real beyond double");
    bad(STR_LIT("\"a\xFF\""), "line 1", "invalid UTF-8");
    bad(STR_LIT("\"\xED\xA0\x80\""), "line 1", "a surrogate as UTF-8");
    bad(STR_LIT("[1,\n \"\\ud83d x\"]"), "line 2, column 3: lone surrogate \\ud83d",
        "a lone high surrogate");
    bad(STR_LIT("\"\\ude00\\ud83d\""), "lone surrogate \\ude00", "a lone low surrogate");
    bad(STR_LIT("\"\\ud83d"), "lone surrogate", "a text that ends in a surrogate");
    bad(STR_LIT("\"\\ud8"), "line 1", "a text that ends in an escape");
    bad(STR_LIT("\"\\"), "line 1", "a text that ends in a backslash");
    bad(STR_LIT("{\"a\\u0000\":1}"), "NUL", "U+0000 in a key");
    bad(STR_LIT("[\"a\nb\"]"), "line 1", "a raw line end in a string");
    bad((struct str){"[\0]", 3}, "line 1", "a raw NUL");
}

static void test_depth(void)
{
    struct err e = {0};
    struct buf b = {0};
    for (int n = 256; n <= 257; n++) {
        buf_cut(&b, 0);
        for (int i = 0; i < n; i++)
            buf_addc(&b, '[');
        for (int i = 0; i < n; i++)
            buf_addc(&b, ']');
        struct json *v = json_parse(buf_str(&b), &e);
        CHECK((v != NULL) == (n == 256), "%d levels: %s", n, v ? "accepted" : e.msg);
        json_free(v);
    }
    buf_cut(&b, 0);
    for (int i = 0; i < 1000000; i++)
        buf_addc(&b, '[');
    bad(buf_str(&b), "line 1, column 257: nested deeper than 256", "a million brackets");
    bad(STR_LIT("\"[[[[[\" x"), "line 1", "brackets in a string do not nest");
    buf_release(&b);
}

static void test_lone(void)
{
    struct err e = {0};
    struct json *v = json_parse_lone(
        STR_LIT("[\"\\ud83dx\",\"\\ud83d\\ude00\",\"\\\\ud83d\",\"\\ude00\\uD83D\\uD83D\\uDE00\"]"),
        &e);
    CHECK(v, "json_parse_lone accepts lone surrogates (%s)", e.msg);
    CHECK(str_eqz(json_str(json_at(v, 0)), "\xEF\xBF\xBDx"), "a lone one becomes U+FFFD");
    CHECK(str_eqz(json_str(json_at(v, 1)), "\xF0\x9F\x98\x80"), "a pair stays a pair");
    CHECK(str_eqz(json_str(json_at(v, 2)), "\\ud83d"), "escaped text stays text");
    CHECK(str_eqz(json_str(json_at(v, 3)), "\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80"),
          "low, high, pair");
    json_free(v);
}

static void test_making(void)
{
    struct err e = {0};
    struct buf b = {0};
    struct json *o = json_obj(), *a = json_arr();
    struct str out;
    json_push(a, json_of_num(NAN));
    json_push(a, json_of_num(INFINITY));
    json_push(a, json_of_num(3));
    json_push(a, json_of_str(STR_LIT("a\xFF\xE2\x82"
                                     "b\xF0\x9F\x98")));
    json_put(o, "list", a);
    json_put(o, "n", json_of_int(-1));
    json_put(o, "yes", json_of_bool(true));
    json_put(o, "nil", json_of_null());
    json_write(o, &b);
    CHECK_STR(b.p,
              "{\"list\":[null,null,3.0,\"a\xEF\xBF\xBD\xEF\xBF\xBD"
              "b\xEF\xBF\xBD\"],\"n\":-1,"
              "\"yes\":true,\"nil\":null}",
              "NaN and infinity are null; each ill-formed span is one U+FFFD");
    buf_cut(&b, 0);
    struct json *c = json_clone(o);
    json_put(o, "n", json_of_z("changed"));
    json_put(c, "list", json_arr());
    json_put(c, "yes", json_obj());
    json_write_pretty(c, &b);
    CHECK_STR(b.p, "{\n  \"list\": [],\n  \"n\": -1,\n  \"yes\": {},\n  \"nil\": null\n}\n",
              "a clone is its own; pretty form");
    CHECK(json_need_str(o, "n", &out, &e) == 0 && str_eqz(out, "changed"), "need_str finds");
    CHECK(json_need_str(o, "list", &out, &e) == -1 && strstr(e.msg, "\"list\" is not a string"),
          "need_str: %s", e.msg);
    CHECK(json_need_str(o, "none", &out, &e) == -1 && strstr(e.msg, "\"none\" is missing"),
          "need_str: %s", e.msg);
    CHECK(json_get(NULL, "x") == NULL && json_at(o, 0) == NULL && json_at(a, 9) == NULL &&
              json_size(NULL) == 0 && json_kind(NULL) == JSON_NULL && isnan(json_num(NULL)) &&
              json_int(NULL, 7) == 7 && !json_bool(NULL) && json_str(NULL).p == NULL,
          "looking into nothing is safe");
    CHECK(json_num(json_at(a, 2)) == 3 && json_int(json_at(a, 2), 7) == 7, "3.0 is a real");
    buf_cut(&b, 0);
    json_quote(STR_LIT("\t\x1f\x7f\xFF"), &b);
    CHECK_STR(b.p, "\"\\t\\u001f\x7f\xEF\xBF\xBD\"", "json_quote escapes and mends");
    json_free(o);
    json_free(c);
    buf_release(&b);
}

/* ---- structs -------------------------------------------------------------------------------- */

struct part {
    struct str id;
    double value;
};
struct whole {
    bool on;
    int64_t n, maybe;
    double x, y;
    struct str text, host, rest;
    int kind;
    struct strs tags;
    struct f64s num;
    struct i64s ids;
    struct part one;
    struct list many;
};
static const char *const kinds[] = {"small", "large", NULL};
static const struct field part_fields[] = {
    {"id", FIELD_STR, offsetof(struct part, id), NULL, .help = "its name"},
    {"value", FIELD_F64, offsetof(struct part, value), "", .help = "nats"},
    {0},
};
static const struct schema part_schema = {"part", 1, sizeof(struct part), part_fields};
static const struct field whole_fields[] = {
    {"on", FIELD_BOOL, offsetof(struct whole, on), "true", .help = "h"},
    {"n", FIELD_I64, offsetof(struct whole, n), "3", 0, 100, .help = "count"},
    {"maybe", FIELD_I64, offsetof(struct whole, maybe), "", .help = "h"},
    {"x", FIELD_F64, offsetof(struct whole, x), "0.5", .help = "h"},
    {"y", FIELD_F64, offsetof(struct whole, y), "", .help = "h"},
    {"text", FIELD_STR, offsetof(struct whole, text), "", .help = "h"},
    {"host", FIELD_STR, offsetof(struct whole, host), "", .flags = FIELD_VOLATILE},
    {"kind", FIELD_ENUM, offsetof(struct whole, kind), "small", .choices = kinds},
    {"tags", FIELD_STRS, offsetof(struct whole, tags), "", .help = "h"},
    {"num", FIELD_F64S, offsetof(struct whole, num), "", .help = "h"},
    {"ids", FIELD_I64S, offsetof(struct whole, ids), "", .help = "h"},
    {"one", FIELD_STRUCT, offsetof(struct whole, one), .sub = &part_schema},
    {"many", FIELD_LIST, offsetof(struct whole, many), .sub = &part_schema},
    {"rest", FIELD_REST, offsetof(struct whole, rest), "", .help = "h"},
    {0},
};
static const struct schema whole_schema = {"whole", 1, sizeof(struct whole), whole_fields};

static int read_whole(struct whole *w, const char *text, struct arena *a, struct err *e)
{
    struct json *v = json_parse(str_z(text), e);
    int rc = v ? json_to_struct(&whole_schema, w, v, a, e) : -1;
    json_free(v);
    return rc;
}

static void test_struct(void)
{
    static const char full[] =
        "{\"on\":false,\"n\":7,\"maybe\":-1,\"x\":0.1,\"y\":2.0,\"text\":\"t\\u0000\",\"host\":"
        "\"h\","
        "\"kind\":\"large\",\"tags\":[\"a\",\"\"],\"num\":[1.0,null],\"ids\":[5],"
        "\"one\":{\"id\":\"i\",\"value\":-0.5},\"many\":[{\"id\":\"j\"},{\"id\":\"k\",\"value\":1."
        "0}]}";
    struct whole w, z;
    struct arena a = {0};
    struct err e = {0};
    struct buf b = {0};
    CHECK(read_whole(&w, full, &a, &e) == 0, "every kind of row is read (%s)", e.msg);
    struct json *v = json_of_struct(&whole_schema, &w, false);
    json_write(v, &b);
    CHECK_STR(b.p, full, "and written back the same");
    json_free(v);
    buf_cut(&b, 0);
    v = json_of_struct(&whole_schema, &w, true);
    CHECK(!json_get(v, "host") && json_get(v, "text"), "volatile rows can be dropped");
    json_free(v);

    CHECK(read_whole(&z, "{\"one\":{\"id\":\"\"},\"y\":null,\"n\":4.0,\"x\":null}", &a, &e) == 0,
          "missing keys get defaults (%s)", e.msg);
    CHECK(z.on && z.n == 4 && z.maybe == FIELD_NONE_I64 && isnan(z.x) && isnan(z.y) &&
              z.kind == 0 && z.many.n == 0,
          "null and absent are unset, 4.0 is whole");
    v = json_of_struct(&whole_schema, &z, false);
    json_write(v, &b);
    CHECK_STR(b.p, "{\"on\":true,\"n\":4,\"x\":null,\"kind\":\"small\",\"one\":{\"id\":\"\"}}",
              "unset values are left out, a NaN that has a default is null");
    json_free(v);
    buf_release(&b);
    arena_release(&a);
}

static void refused(const char *text, const char *want)
{
    struct whole w;
    struct arena a = {0};
    struct err e = {0};
    CHECK(read_whole(&w, text, &a, &e) == -1 && e.code == EXIT_FAILED, "refused with exit 1: %s",
          want);
    CHECK_STR(e.msg, want, "the sentence");
    arena_release(&a);
}

static void test_struct_refusals(void)
{
    refused("[]", "a whole must be an object, got a list");
    refused("{\"one\":{\"id\":\"i\"},\"tgas\":[]}",
            "unknown key \"tgas\" in a whole; did you mean \"tags\"?");
    refused("{\"rest\":\"x\"}", "unknown key \"rest\" in a whole; did you mean \"text\"?");
    refused("{\"n\":101}", "\"n\" must be a whole number from 0 to 100, got \"101\" (count)");
    refused("{\"n\":1.5}", "\"n\" must be a whole number, got a number");
    refused("{\"n\":\"1\"}", "\"n\" must be a whole number, got a string");
    refused("{\"on\":1}", "\"on\" must be true or false, got a whole number");
    refused("{\"kind\":\"larg\"}",
            "\"kind\" must be one of small, large (did you mean large?), got \"larg\"");
    refused("{\"tags\":[\"a\",1]}", "\"tags\" must be a list of strings, got a whole number");
    refused("{\"num\":{}}", "\"num\" must be a list, got an object");
    refused("{\"one\":{\"id\":1}}", "one: \"id\" must be a string, got a whole number");
    refused("{\"one\":{}}", "one: the key \"id\" of a part is missing (its name)");
    refused("{\"many\":[{\"id\":\"a\"},{\"idd\":1}]}",
            "many[1]: unknown key \"idd\" in a part; did you mean \"id\"?");
}

static void test_file(void)
{
    struct err e = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/a.json", tap_tmp());
    file_write_all(path, STR_LIT("\xEF\xBB\xBF{\"a\":1}\n"), &e);
    struct json *v = json_read(path, &e);
    CHECK(v && json_int(json_get(v, "a"), 0) == 1, "a file with a BOM is read (%s)", e.msg);
    json_free(v);
    file_write_all(path, STR_LIT("{\n\"a\":}"), &e);
    CHECK(!json_read(path, &e) && strstr(e.msg, "a.json: line 2, column"),
          "a damaged file is named: %s", e.msg);
    file_write_all(path, STR_LIT(""), &e);
    CHECK(!json_read(path, &e) && strstr(e.msg, "a.json: the text is empty"), "an empty file: %s",
          e.msg);
    CHECK(!json_read(tap_tmp(), &e), "a folder: %s", e.msg);
    CHECK(!json_read("/nowhere.json", &e) && strstr(e.msg, "/nowhere.json"), "missing: %s", e.msg);
    file_remove_tree(tap_tmp(), &e);
}

/* A remark, not a check: machines differ. */
static void say_speed(void)
{
    struct err e = {0};
    struct buf line = {0};
    size_t bytes = 0;
    buf_addz(&line, "{\"id\":\"d000001\",\"text\":\"");
    while (line.n < 3000)
        buf_addz(&line, "The old mill by the river stood \\\"empty\\\" for years.\\n");
    buf_addz(&line, "\"}");
    double from = clock_now();
    for (; bytes < 8u << 20; bytes += line.n)
        json_free(json_parse(buf_str(&line), &e));
    printf("# JSONL documents of 3 kB: %.0f MB/s\n", (double)bytes / 1e6 / (clock_now() - from));
    buf_release(&line);
}

int main(void)
{
    test_values();
    test_refusals();
    test_depth();
    test_lone();
    test_making();
    test_struct();
    test_struct_refusals();
    test_file();
    say_speed();
    return tap_done();
}
