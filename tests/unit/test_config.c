/* config: files, includes and --set, and where each refusal points. */
#include "tests/tap.h"

#include <stddef.h>

#include "base/config.h"
#include "base/file.h"
#include "base/mem.h"

struct train {
    int64_t batch;
    double lr;
    bool shuffle;
    struct str notes;
};
struct all {
    struct train train;
    struct strs tags;
    struct str name;
};
static const struct field train_fields[] = {
    {"batch_size", FIELD_I64, offsetof(struct train, batch), "8", 1, 1e6,
     .help = "sequences in a global step"},
    {"lr", FIELD_F64, offsetof(struct train, lr), "0.001", 0, 1, .help = "peak learning rate"},
    {"shuffle", FIELD_BOOL, offsetof(struct train, shuffle), "true", .help = "shuffle"},
    {"notes", FIELD_STR, offsetof(struct train, notes), "", .help = "notes"},
    {0},
};
static const struct schema train_schema = {"train", 1, sizeof(struct train), train_fields};
static const struct field all_fields[] = {
    {"name", FIELD_STR, offsetof(struct all, name), "run", .help = "name"},
    {"train", FIELD_STRUCT, offsetof(struct all, train), .sub = &train_schema},
    {"tags", FIELD_STRS, offsetof(struct all, tags), "", .help = "tags"},
    {0},
};
static const struct schema all_schema = {"all", 1, sizeof(struct all), all_fields};

struct need {
    struct all all;
    struct str out;
};
static const struct field need_fields[] = {
    {"all", FIELD_STRUCT, offsetof(struct need, all), .sub = &all_schema},
    {"out", FIELD_STR, offsetof(struct need, out), NULL, .help = "where to write"},
    {0},
};
static const struct schema need_schema = {"need", 1, sizeof(struct need), need_fields};

static struct arena arena;

static int parse(struct all *c, const char *text, struct err *e)
{
    return config_parse(&all_schema, c, "run.ini", str_z(text), &arena, e);
}

static void test_values(void)
{
    struct all c;
    struct err e = {0};
    int rc = parse(&c,
                   "\xEF\xBB\xBF; a remark\r\nname = two words\r\ntags = a, \"b, c\"\r\n\r\n"
                   "[train]\r\n# another\r\n  lr = 0.5 ; peak\r\nbatch_size=2K\r\nshuffle = no\r\n",
                   &e);
    CHECK(rc == 0, "a file with BOM, CRLF, remarks and indents is read (%s)", e.msg);
    CHECK(str_eqz(c.name, "two words"), "a key before any section");
    CHECK(c.tags.n == 2 && str_eqz(c.tags.v[1], "b, c"), "a list with a quoted comma");
    CHECK(c.train.lr == 0.5 && c.train.batch == 2000 && !c.train.shuffle, "numbers and booleans");
    CHECK(parse(&c, "", &e) == 0 && c.train.batch == 8 && c.train.shuffle,
          "an empty file: defaults");
    CHECK(parse(&c, "[train]\nnotes = a = b: c", &e) == 0 && str_eqz(c.train.notes, "a = b: c"),
          "the first = separates; no newline at the end");
    CHECK(parse(&c, "[train]\nlr = 0.1\n[train]\nbatch_size = 3\n", &e) == 0 && c.train.batch == 3,
          "a section may come twice");
}

static void refused(const char *text, const char *want)
{
    struct all c;
    struct err e = {0};
    CHECK(parse(&c, text, &e) == -1 && e.code == EXIT_USAGE, "refused with exit 2: %s", want);
    CHECK_STR(e.msg, want, "the sentence says where and what");
}

static void test_refusals(void)
{
    refused("[train]\nlr = 0.1\nbatchsize = 4\n",
            "run.ini:3: unknown key \"train.batchsize\"; did you mean \"train.batch_size\"? "
            "(sequences in a global step)");
    refused("\n[trian]\n", "run.ini:2: unknown section [trian]; did you mean [train]?");
    refused("lr = 1\n",
            "run.ini:1: unknown key \"lr\"; did you mean \"train.lr\"? (peak learning rate)");
    refused("[train]\nlr = 2\n", "run.ini:2: \"train.lr\" must be a number from 0 to 1, got \"2\" "
                                 "(peak learning rate)");
    refused("[train]\nlr = 0.1\n\nlr = 0.2\n", "run.ini:4: \"train.lr\" is set twice in this file");
    refused("[train]\nlr\n", "run.ini:2: want [section] or key = value");
    refused("[train\nlr = 1\n", "run.ini:1: a section is written [name], the ] is missing");
    refused("[train]\n  lr = 0.1\n    0.2\n", "run.ini:3: want [section] or key = value");
    refused("include = x.ini\n", "run.ini:1: include works in a file only");
    refused("[name]\n", "run.ini:1: unknown section [name]");
}

static void test_long_line(void)
{
    struct all c;
    struct err e = {0};
    char text[400] = "[train]\nnotes = ";
    size_t n = strlen(text);
    memset(text + n, 'x', 180);
    CHECK(parse(&c, text, &e) == 0 && c.train.notes.n == 180, "180 bytes are read whole");
    memset(text + n, 'x', 300);
    CHECK(parse(&c, text, &e) == -1 && strstr(e.msg, "run.ini:2: the line has 308 bytes"),
          "a longer line is refused, never cut: %s", e.msg);
    struct str nul = STR_LIT("[train]\nnotes = a\0b\n");
    CHECK(config_parse(&all_schema, &c, "run.ini", nul, &arena, &e) == -1 &&
              strstr(e.msg, "run.ini:2: the line holds a NUL byte"),
          "NUL is refused: %s", e.msg);
}

static char *put(const char *name, const char *text)
{
    struct err e = {0};
    char *path = path_join(&arena, tap_tmp(), name);
    if (file_write_all(path, str_z(text), &e) != 0)
        CHECK(false, "write %s: %s", path, e.msg);
    return path;
}

static void test_include(void)
{
    struct all c;
    struct err e = {0};
    char *top = put("top.ini", "include = base.ini\n[train]\nlr = 0.25\n");
    put("base.ini", "name = base\n[train]\nlr = 0.5\nbatch_size = 16\n");
    CHECK(config_load(&all_schema, &c, top, (struct strs){0}, &arena, &e) == 0,
          "an included file is read (%s)", e.msg);
    CHECK(c.train.lr == 0.25 && c.train.batch == 16 && str_eqz(c.name, "base"),
          "the including file wins over the included one");
    struct str set[] = {STR_LIT("train.lr=0.75"), STR_LIT("tags=x,y")};
    CHECK(config_load(&all_schema, &c, top, (struct strs){set, 2}, &arena, &e) == 0 &&
              c.train.lr == 0.75 && c.tags.n == 2,
          "--set wins over the file");
    set[0] = STR_LIT("train.rl=1");
    CHECK(config_load(&all_schema, &c, top, (struct strs){set, 1}, &arena, &e) == -1 &&
              strstr(e.msg, "--set: unknown key \"train.rl\"; did you mean \"train.lr\"?"),
          "--set is checked alike: %s", e.msg);
    set[0] = STR_LIT("train.lr");
    CHECK(config_load(&all_schema, &c, top, (struct strs){set, 1}, &arena, &e) == -1 &&
              strstr(e.msg, "section.key=value"),
          "--set without = is refused: %s", e.msg);
    put("base.ini", "\n[train]\nlrr = 0.5\n");
    CHECK(config_load(&all_schema, &c, top, (struct strs){0}, &arena, &e) == -1 &&
              strstr(e.msg, "top.ini:1: ") && strstr(e.msg, "base.ini:3: unknown key"),
          "a wrong key in an included file names both places: %s", e.msg);
    put("base.ini", "include = top.ini\n");
    CHECK(config_load(&all_schema, &c, top, (struct strs){0}, &arena, &e) == -1 &&
              strstr(e.msg, "deeper than 8"),
          "files that include each other end with a sentence");
    put("base.ini", "[train]\ninclude = x.ini\n");
    CHECK(config_load(&all_schema, &c, top, (struct strs){0}, &arena, &e) == -1 &&
              strstr(e.msg, "unknown key \"train.include\""),
          "include inside of a section is a key like others");
    put("top.ini", "include = ../base.ini\n");
    CHECK(config_load(&all_schema, &c, top, (struct strs){0}, &arena, &e) == -1 &&
              strstr(e.msg, "same folder"),
          "include does not leave the folder");
    CHECK(config_load(&all_schema, &c, tap_tmp(), (struct strs){0}, &arena, &e) == -1 && e.msg[0],
          "a folder is refused: %s", e.msg);
    CHECK(config_load(&all_schema, &c, "/nowhere/x.ini", (struct strs){0}, &arena, &e) == -1 &&
              strstr(e.msg, "/nowhere/x.ini") && e.code == EXIT_FAILED,
          "a missing file is exit 1: %s", e.msg);
}

static void test_required(void)
{
    struct need c;
    struct err e = {0};
    CHECK(config_parse(&need_schema, &c, "n.ini", STR_LIT("[all.train]\nlr=0.5\n"), &arena, &e) ==
              -1,
          "a required key that is not set is refused");
    CHECK_STR(e.msg, "n.ini: \"out\" is missing (where to write)", "and named");
    CHECK(config_parse(&need_schema, &c, "n.ini", STR_LIT("out = x\n[all.train]\nlr=0.5\n"), &arena,
                       &e) == 0 &&
              c.all.train.lr == 0.5,
          "a section of a section: %s", e.msg);
}

int main(void)
{
    struct err e = {0};
    test_values();
    test_refusals();
    test_long_line();
    test_include();
    test_required();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
