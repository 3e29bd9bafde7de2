/* field: one table gives defaults, the command line, help and the canonical text. */
#include "tests/tap.h"

#include <stddef.h>

#include "base/field.h"

struct inner {
    double lr;
    int64_t batch;
};
struct options {
    bool flag, go;
    int64_t n, maybe;
    double x, unset, part;
    struct str out, note;
    int kind;
    struct strs in;
    struct f64s w;
    struct i64s ids;
    struct inner train;
    struct list many;
    struct str stamp;
};
static const char *const kinds[] = {"constant", "linear", "cosine", NULL};
static const struct field inner_fields[] = {
    {"lr", FIELD_F64, offsetof(struct inner, lr), "0.001", 0, 1, .help = "peak learning rate"},
    {"batch_size", FIELD_I64, offsetof(struct inner, batch), "8", 1, 1e6, .help = "sequences"},
    {0},
};
static const struct schema inner_schema = {"train", 1, sizeof(struct inner), inner_fields};
static const struct field fields[] = {
    {"flag", FIELD_BOOL, offsetof(struct options, flag), "false", .help = "a flag"},
    {"go", FIELD_BOOL, offsetof(struct options, go), "true", .help = "do not go"},
    {"max_docs", FIELD_I64, offsetof(struct options, n), "2000", 1, -1, .help = "documents"},
    {"maybe", FIELD_I64, offsetof(struct options, maybe), "", .help = "or not"},
    {"x", FIELD_F64, offsetof(struct options, x), "0.1", .help = "a number"},
    {"part", FIELD_F64, offsetof(struct options, part), "1", 0, 1, .help = "some",
     .flags = FIELD_ABOVE},
    {"unset", FIELD_F64, offsetof(struct options, unset), "", .help = "a number or none"},
    {"out", FIELD_STR, offsetof(struct options, out), NULL, .help = "where to write"},
    {"note", FIELD_STR, offsetof(struct options, note), "", .help = "any text"},
    {"kind", FIELD_ENUM, offsetof(struct options, kind), "cosine", .choices = kinds,
     .help = "which"},
    {"in", FIELD_STRS, offsetof(struct options, in), "", .help = "files"},
    {"w", FIELD_F64S, offsetof(struct options, w), "0.5, 1", .help = "weights"},
    {"ids", FIELD_I64S, offsetof(struct options, ids), "", 0, 9, .help = "ids"},
    {"train", FIELD_STRUCT, offsetof(struct options, train), .sub = &inner_schema},
    {"many", FIELD_LIST, offsetof(struct options, many), .sub = &inner_schema},
    {"stamp", FIELD_STR, offsetof(struct options, stamp), "", .help = "when",
     .flags = FIELD_VOLATILE | FIELD_HIDDEN},
    {0},
};
static const struct schema schema = {"options", 1, sizeof(struct options), fields};

struct files {
    struct str vocab;
    struct strs file, rule;
};
static const struct field file_fields[] = {
    {"vocab", FIELD_STR, offsetof(struct files, vocab), NULL, .help = "vocabulary",
     .flags = FIELD_POSITIONAL},
    {"file", FIELD_STRS, offsetof(struct files, file), "", .help = "files",
     .flags = FIELD_POSITIONAL},
    {"rule", FIELD_STRS, offsetof(struct files, rule), "", .help = "rules"},
    {0},
};
static const struct schema file_schema = {"files", 1, sizeof(struct files), file_fields};

static struct arena arena;

/* Splits at '|', so that words may hold spaces. */
static int args(const struct schema *s, void *dst, const char *line, struct err *e)
{
    char *argv[32];
    int argc = 0;
    char *p = arena_strdup(&arena, line);
    while (p && *p && argc < 32) {
        argv[argc++] = p;
        p = strchr(p, '|');
        if (p)
            *p++ = 0;
    }
    return schema_args(s, dst, argc, argv, &arena, e);
}

static void test_defaults(void)
{
    struct options o;
    struct err e = {0};
    CHECK(schema_defaults(&schema, &o, &arena, &e) == 0, "defaults parse (%s)", e.msg);
    CHECK(!o.flag && o.go && o.n == 2000 && o.x == 0.1 && o.kind == 2 && o.train.batch == 8,
          "plain defaults, sections included");
    CHECK(o.maybe == FIELD_NONE_I64 && isnan(o.unset) && o.note.n == 0 && o.out.n == 0 &&
              o.in.n == 0 && o.many.n == 0,
          "a default of \"\" is unset");
    CHECK(o.w.n == 2 && o.w.v[0] == 0.5 && o.w.v[1] == 1, "lists have defaults too");
}

static void test_args(void)
{
    struct options o;
    struct err e = {0};
    int rc =
        args(&schema, &o,
             "--out|dir|--in|a|b,c| d|--flag|--no-go|--max-docs=1_000K|--unset|-2.5|--kind=linear|"
             "--in|e|--w|1,2,3|--train.batch-size|4|--note=--flag",
             &e);
    CHECK(rc == 0, "options of every kind (%s)", e.msg);
    CHECK(o.flag && !o.go && o.n == 1000000 && o.unset == -2.5 && o.kind == 1 && o.w.n == 3 &&
              o.train.batch == 4 && str_eqz(o.note, "--flag") && str_eqz(o.out, "dir"),
          "arrive in their members");
    CHECK(o.in.n == 4 && str_eqz(o.in.v[1], "b,c") && str_eqz(o.in.v[2], " d") &&
              str_eqz(o.in.v[3], "e"),
          "words of a list are taken verbatim, and a repeated one appends");
    CHECK(args(&schema, &o, "--max_docs|5|--out|x", &e) == 0 && o.n == 5,
          "'_' works as well as '-'");

    struct files f;
    CHECK(args(&file_schema, &f, "v|a|--rule|r1|b|--rule|r2|--|--c", &e) == 0 &&
              str_eqz(f.vocab, "v") && f.file.n == 3 && str_eqz(f.file.v[2], "--c") &&
              f.rule.n == 2,
          "positionals between options, and behind -- (%s)", e.msg);
    CHECK(args(&file_schema, &f, "v|-", &e) == 0 && str_eqz(f.file.v[0], "-"),
          "- is a word (stdin)");
}

static void refused(const struct schema *s, const char *line, const char *want)
{
    struct options o;
    struct err e = {0};
    CHECK(args(s, &o, line, &e) == -1 && e.code == EXIT_USAGE, "refused with exit 2: %s", line);
    CHECK_STR(e.msg, want, "the sentence");
}

static void test_refusals(void)
{
    refused(&schema, "--flag", "--out is missing (where to write)");
    refused(&file_schema, "", "vocab is missing (vocabulary)");
    refused(&schema, "--out", "--out needs a value (where to write)");
    refused(&schema, "--out|--flag",
            "--out needs a value, got --flag; write --out=--flag if you mean it");
    refused(&schema, "--out|x|--max-doc|3",
            "unknown option --max-doc; did you mean --max-docs? (documents)");
    refused(&schema, "--out|x|--lr|3",
            "unknown option --lr; did you mean --train.lr? (peak learning rate)");
    refused(&schema, "--wholly-unknown", "unknown option --wholly-unknown");
    refused(&schema, "-o|x", "unknown option -o; options start with two dashes");
    refused(&schema, "--out|x|y", "unexpected \"y\"");
    refused(&schema, "--out|x|--out|y", "--out is given twice");
    refused(&schema, "--flag|--no-flag", "--no-flag is given twice");
    refused(&schema, "--no-flag=1", "--no-flag takes no value");
    refused(&schema, "--flag=maybe", "\"--flag\" must be true or false, got \"maybe\" (a flag)");
    refused(&schema, "--no-out", "unknown option --no-out");
    refused(&schema, "--max-docs|0",
            "\"--max-docs\" must be a whole number, at least 1, got \"0\" (documents)");
    refused(&schema, "--max-docs|1.5",
            "\"--max-docs\" must be a whole number, at least 1, got \"1.5\" (documents)");
    refused(&schema, "--max-docs|", "--max-docs needs a value (documents)");
    refused(&schema, "--part|0",
            "\"--part\" must be a number above 0 and up to 1, got \"0\" (some)");
    refused(&schema, "--part|1.5",
            "\"--part\" must be a number above 0 and up to 1, got \"1.5\" (some)");
    refused(&schema, "--x|nan", "\"--x\" must be a number, got \"nan\" (a number)");
    refused(&schema, "--x=", "\"--x\" must be a number, got \"\" (a number)");
    refused(
        &schema, "--kind|cosin",
        "\"--kind\" must be one of constant, linear, cosine (did you mean cosine?), got \"cosin\" "
        "(which)");
    refused(&schema, "--ids|3,10",
            "\"--ids\" must be a whole number from 0 to 9, got \"10\" (ids)");
    refused(&schema, "--w|1,,2",
            "\"--w\" must be a list like a, b without empty places, got \"1,,2\" (weights)");
    refused(&schema, "--many|1", "unknown option --many");
    refused(&schema, "--train|1", "unknown option --train");
}

/* Every text that field_text writes reads back to the same value. */
static void round_trip(const struct field *f, const char *text, const char *want)
{
    char member[64] = {0}, again[64] = {0};
    struct err e = {0};
    struct buf b = {0}, c = {0};
    if (CHECK(field_parse(f, member, str_z(text), &arena, &e) == 0, "\"%s\" parses (%s)", text,
              e.msg)) {
        field_text(f, member, &b);
        CHECK_STR(b.p ? b.p : "", want, "\"%s\" as text", text);
        CHECK(field_parse(f, again, buf_str(&b), &arena, &e) == 0, "reads back (%s)", e.msg);
        field_text(f, again, &c);
        CHECK_STR(c.p ? c.p : "", want, "to the same value");
    }
    buf_release(&b);
    buf_release(&c);
}

static void test_text(void)
{
    struct field f = {.name = "v", .type = FIELD_F64, .def = "1"};
    double sum = 0.1 + 0.2, back = 0; /* needs all 17 digits */
    struct err e = {0};
    struct buf b = {0};
    round_trip(&f, "1e3", "1000");
    round_trip(&f, "0.1", "0.1");
    round_trip(&f, "6e-4", "0.0006");
    field_text(&f, &sum, &b);
    CHECK(field_parse(&f, &back, buf_str(&b), &arena, &e) == 0 && back == sum,
          "0.1 + 0.2 keeps its bits as %s", b.p);
    buf_release(&b);
    f.type = FIELD_I64;
    round_trip(&f, "9223372036854775807", "9223372036854775807");
    round_trip(&f, "100M", "100000000");
    f.type = FIELD_STR;
    round_trip(&f, " as, it \"is\\ ", " as, it \"is\\ ");
    f.type = FIELD_STRS;
    round_trip(&f, "", "");
    round_trip(&f, " a ,b c", "a, b c");
    round_trip(&f, "\"\", \"a, b\" ,\"q\\\"\\\\\\n\\x01\", c\"d",
               "\"\", \"a, b\", \"q\\\"\\\\\\n\\x01\", c\"d");
    f.type = FIELD_BOOL;
    round_trip(&f, "yes", "true");
    round_trip(&f, "off", "false");
    struct strs s;
    f.type = FIELD_STRS;
    static const char *const bad[] = {"a,", ",", "\"a", "\"a\" b", "\"\\q\"", "\"\\x1\"", "\"\\"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(field_parse(&f, &s, str_z(bad[i]), &arena, &e) == -1, "the list %s is refused: %s",
              bad[i], e.msg);
}

static void test_set(void)
{
    struct options o;
    struct err e = {0};
    schema_defaults(&schema, &o, &arena, &e);
    CHECK(schema_set(&schema, &o, "train.lr", STR_LIT("0.5"), &arena, &e) == 0 && o.train.lr == 0.5,
          "a key of a section");
    CHECK(schema_set(&schema, &o, "train.batchsize", STR_LIT("1"), &arena, &e) == -1 &&
              e.code == EXIT_USAGE,
          "a near miss is refused");
    CHECK_STR(e.msg,
              "unknown key \"train.batchsize\"; did you mean \"train.batch_size\"? (sequences)",
              "with the key that was meant and its help");
    schema_set(&schema, &o, "train.lr", STR_LIT("7"), &arena, &e);
    CHECK_STR(e.msg, "\"train.lr\" must be a number from 0 to 1, got \"7\" (peak learning rate)",
              "a refused value names the whole key");
    CHECK(schema_set(&schema, &o, "train", STR_LIT("7"), &arena, &e) == -1,
          "a section is no key: %s", e.msg);
    CHECK(schema_set(&schema, &o, "train.lr.x", STR_LIT("7"), &arena, &e) == -1 &&
              schema_set(&schema, &o, "", STR_LIT("7"), &arena, &e) == -1 &&
              schema_set(&schema, &o, ".", STR_LIT("7"), &arena, &e) == -1,
          "odd keys are refused");
}

static void test_canonical(void)
{
    struct options o;
    struct err e = {0};
    struct buf b = {0};
    struct inner two[] = {{0.25, 1}, {0.5, 2}};
    args(&schema, &o, "--out|a\nflag = true|--note|c:\\x|--in|p,q", &e);
    o.many = (struct list){two, 2};
    o.stamp = STR_LIT("now");
    schema_canonical(&schema, &o, &b);
    CHECK_STR(b.p,
              "flag = false\ngo = true\nmax_docs = 2000\nmaybe = \nx = 0.1\npart = 1\nunset = \n"
              "out = a\\x0aflag = true\nnote = c:\\x5cx\nkind = cosine\nin = \"p,q\"\nw = 0.5, 1\n"
              "ids = \ntrain.lr = 0.001\ntrain.batch_size = 8\nmany.0.lr = 0.25\n"
              "many.0.batch_size = 1\nmany.1.lr = 0.5\nmany.1.batch_size = 2\n",
              "every key in table order, nothing volatile, no forged line");
    buf_release(&b);
}

static void test_help(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    schema_help(&file_schema, f);
    schema_help(&schema, f);
    fclose(f);
    static const char *const rows[] = {
        "  VOCAB                    vocabulary (required)\n",
        "  FILE...                  files\n",
        "  --rule TEXT              rules (may repeat)\n", /* one value: words stand behind it */
        "  --no-go                  do not go (on by default)\n",
        "  --max-docs N             documents (default 2000, at least 1)\n",
        "  --out TEXT               where to write (required)\n",
        "  --kind constant|linear|cosine\n                           which (default cosine)\n",
        "  --train.batch-size N     sequences (default 8, 1 to 1000000)\n",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!CHECK(strstr(text, rows[i]), "help shows row %zu", i))
            printf("# want %s", rows[i]);
    CHECK(!strstr(text, "stamp"), "hidden rows are not shown");
    free(text);
}

static void test_push(void)
{
    struct strs s = {0};
    for (int i = 0; i < 1000; i++)
        strs_push(&s, str_z(arena_printf(&arena, "%d", i)), &arena);
    bool ok = s.n == 1000;
    for (int i = 0; i < 1000; i++)
        ok = ok && atol(s.v[i].p) == i;
    CHECK(ok, "strs_push keeps what was pushed");
}

int main(void)
{
    test_defaults();
    test_args();
    test_refusals();
    test_text();
    test_set();
    test_canonical();
    test_help();
    test_push();
    arena_release(&arena);
    return tap_done();
}
