/* items, responses, scores and prompt templates. */
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "formats/item.h"
#include "formats/record.h"
#include "formats/template.h"
#include "tests/tap.h"

static struct arena arena;
static struct err e;

static char *at(const char *name)
{
    return arena_printf(&arena, "%s/%s", tap_tmp(), name);
}

static bool load(struct items *x, const char *name, const char *text)
{
    if (text && file_write_all(at(name), str_z(text), &e))
        printf("# %s\n", e.msg);
    if (items_load(x, at(name), &e) == 0)
        return true;
    printf("# %s\n", e.msg);
    return false;
}

static void test_json(void)
{
    struct items x;
    CHECK(
        load(&x, "a.json",
             "\xef\xbb\xbf[{\"instruction\":\"Add\",\"input\":\"1 1\",\"output\":\"2\"},\n"
             "{\"instruction\":\"Hi\",\"output\":\"\",\"input\":null,\"extra\":[1]},\n"
             "{\"id\":\"q7\",\"instruction\":\"Hi\",\"output\":\"yes\",\"cluster\":\"c\",\"split\":"
             "\"test\",\"task\":\"t\",\"choices\":[\"a\",\"b\"],\"graded\":[\"yes\",\"y\"]}]"),
        "an array of items is read");
    CHECK(x.n == 3 && str_eqz(x.v[0].reference, "2") && str_eqz(x.v[0].task, "instruct") &&
              x.v[1].input.n == 0,
          "output is the reference, null is empty, other keys are left alone");
    CHECK(str_eqz(x.v[2].id, "q7") && str_eqz(x.v[2].cluster, "c") && x.v[2].choices.n == 2 &&
              x.v[2].graded.n == 2 && str_eqz(x.v[2].graded.v[1], "y") &&
              str_eqz(x.v[2].split, "test"),
          "the corpus's keys are read");
    char hex[SHA256_HEX];
    sha256_hex(STR_LIT("Add\0001 1"), hex);
    CHECK(str_eq(x.v[0].id, (struct str){hex, 16}),
          "an id is 16 digits of SHA-256 of instruction, NUL, input");
    CHECK(items_save(&x, at("a.msgpack"), &e) == 0, "items are saved as records");
    struct items y;
    CHECK(load(&y, "a.msgpack", NULL) && y.n == 3 && str_eq(y.v[1].id, x.v[1].id) &&
              y.v[2].graded.n == 2 && str_eqz(y.v[2].reference, "yes"),
          "and come back");
    items_release(&x);
    items_release(&y);
    CHECK(load(&x, "a.jsonl",
               "{\"instruction\":\"Hi\",\"output\":\"1\"}\r\n\n{\"instruction\":\"Hi\",\"output\":"
               "\"2\"}\n{\"instruction\":\"Hi\",\"input\":\"\",\"output\":\"\\ud800\"}\n"),
          "JSONL is read, with CRLF and blank lines");
    CHECK(x.n == 3 && str_eq(x.v[1].id, str_printf(&arena, "%.*s-2", STR_ARG(x.v[0].id))) &&
              str_eq(x.v[2].id, str_printf(&arena, "%.*s-3", STR_ARG(x.v[0].id))),
          "repeats of one question get -2, -3");
    CHECK(str_eqz(x.v[2].reference, "\xef\xbf\xbd"), "a lone surrogate is U+FFFD");
    items_release(&x);
}

static bool says(const char *name, const char *text, const char *want)
{
    struct items x;
    if (text)
        file_write_all(at(name), str_z(text), &e);
    int rc = items_load(&x, at(name), &e);
    bool ok = rc == -1 && strstr(e.msg, want) && strstr(e.msg, tap_tmp()) && !x.v;
    if (!ok)
        printf("# got \"%s\", want \"%s\"\n", rc ? e.msg : "items", want);
    items_release(&x);
    return ok;
}

static void test_bad(void)
{
    CHECK(says("b.json", "[]", "no item"), "an empty array is an error");
    CHECK(says("b.jsonl", "", "no item"), "an empty file too");
    CHECK(says("b.json", "", "b.json"), "also as JSON");
    CHECK(says("b.json", "{\"instruction\":\"a\"}", "not a JSON array"), "an object is no array");
    CHECK(
        says("b.json", "[{\"instruction\":\"a\",\"output\":\"b\"},{\"output\":\"b\"}]", "item 2: "),
        "a missing instruction is named by its place");
    CHECK(says("b.json", "[{\"instruction\":\"a\"}]", "output"), "so is a missing output");
    CHECK(says("b.jsonl", "\n{\"instruction\":3,\"output\":\"\"}", "b.jsonl:2: "),
          "an instruction that is no text, by its line");
    CHECK(says("b.jsonl", "{\"instruction\":\"a\",\"output\":\"\",\"graded\":[\"x\",1]}",
               "\"graded\"[1]"),
          "graded answers are texts");
    CHECK(
        says("b.jsonl", "{\"instruction\":\"a\",\"output\":\"\",\"choices\":\"x\"}", "\"choices\""),
        "choices are an array");
    CHECK(says("b.jsonl",
               "{\"id\":\"x\",\"instruction\":\"a\",\"output\":\"\"}\n"
               "{\"id\":\"x\",\"instruction\":\"b\",\"output\":\"\"}",
               "items 1 and 2 share the id \"x\""),
          "ids are unique");
    CHECK(says("b.txt", "x", "want items as"), "another kind of file is refused");
    CHECK(says("none.json", NULL, "No such file"), "a missing file is named");
    file_mkdirs(at("dir.json"), &e);
    CHECK(says("dir.json", NULL, "folder"), "a folder is refused");
}

static void test_last_wins(void)
{
    struct responses x;
    struct scores s;
    const char *ids[] = {"a", "b", "a", "c", "a"};
    struct records *r = records_open(at("r.msgpack"), &response_schema, RECORD_APPEND, &e);
    struct records *q = records_open(at("s.msgpack"), &score_schema, RECORD_APPEND, &e);
    for (int i = 0; i < 5; i++) {
        struct response rec = {
            .item = str_z(ids[i]), .tokens_in = i, .tokens_out = FIELD_NONE_I64, .ms = NAN};
        struct score sc = {.item = str_z(ids[i]),
                           .value = i == 1 ? NAN : i,
                           .outcome = i == 1 ? OUTCOME_REFUSED : OUTCOME_SCORED};
        records_append(r, &rec, &e);
        records_append(q, &sc, &e);
    }
    records_close(r, &e);
    records_close(q, &e);
    CHECK(responses_load(&x, at("r.msgpack"), &e) == 0 && x.n == 3 && x.v[0].tokens_in == 4 &&
              str_eqz(x.v[1].item, "b") && x.v[1].tokens_out == FIELD_NONE_I64 && isnan(x.v[1].ms),
          "the last response of an item wins, in first-seen order");
    CHECK(responses_find(&x, STR_LIT("c")) == &x.v[2] && !responses_find(&x, STR_LIT("d")),
          "and is found by its item");
    responses_release(&x);
    CHECK(scores_load(&s, at("s.msgpack"), &e) == 0 && s.n == 3 && s.v[0].value == 4 &&
              isnan(s.v[1].value) && s.v[1].outcome == OUTCOME_REFUSED &&
              scores_find(&s, STR_LIT("b")) == &s.v[1],
          "scores likewise; a failure has no value");
    scores_release(&s);
    CHECK(scores_load(&s, at("r.msgpack"), &e) == -1 && strstr(e.msg, "response") && !s.n,
          "responses are no scores");
    CHECK(responses_load(&x, at("none.msgpack"), &e) == -1 && !x.n, "a missing file is an error");
}

static void test_many(void)
{
    struct items x = {0}, y;
    x.n = 20000;
    x.v = mem_array(x.n, sizeof *x.v);
    for (size_t i = 0; i < x.n; i++)
        x.v[i] =
            (struct item){.id = str_printf(&arena, "item %zu", i), .instruction = STR_LIT("?")};
    CHECK(items_save(&x, at("many.msgpack"), &e) == 0 &&
              items_load(&y, at("many.msgpack"), &e) == 0 && y.n == 20000 &&
              str_eqz(y.v[19999].id, "item 19999"),
          "20,000 items go round");
    free(x.v);
    items_release(&y);
}

static void test_data(void)
{
    struct items x;
    const char *path = tap_data("instruct/instruction-data.json");
    if (!path) {
        SKIP("data/instruct/instruction-data.json");
        return;
    }
    CHECK(items_load(&x, path, &e) == 0 && x.n == 1100, "instruction-data.json has 1,100 items");
    int empty = 0, repeats = 0;
    for (size_t i = 0; i < x.n; i++) {
        empty += !x.v[i].input.n;
        repeats += x.v[i].id.n > 16;
    }
    CHECK_INT(empty, 775, "775 of them without input");
    CHECK_INT(repeats, 25, "1,075 distinct prompts, so 25 ids are repeats");
    items_release(&x);
}

/* Items with their answers in one file, as the reference series keeps them. */
static void test_answered(void)
{
    struct responses x;
    const char *path = tap_data("eval/instruction-data-with-response.json");
    file_write_all(at("a.json"),
                   STR_LIT("[{\"instruction\":\"i\",\"input\":\"\",\"output\":\"o\","
                           "\"model_response\":\"r1\"},{\"instruction\":\"i\",\"output\":\"o\","
                           "\"model_response\":\"r2\"}]"),
                   &e);
    CHECK(responses_load(&x, at("a.json"), &e) == 0 && x.n == 2 && str_eqz(x.v[0].text, "r1") &&
              str_ends(x.v[1].item, "-2") && responses_find(&x, x.v[1].item) == &x.v[1] &&
              x.v[0].finish == FINISH_STOP,
          "model_response is the answer, under the item's id");
    responses_release(&x);
    file_write_all(at("a.json"), STR_LIT("[{\"instruction\":\"i\",\"output\":\"o\"}]"), &e);
    CHECK(responses_load(&x, at("a.json"), &e) == -1 && strstr(e.msg, "item 1") &&
              strstr(e.msg, "model_response"),
          "a row without one is named: %s", e.msg);
    if (!path) {
        SKIP("eval/instruction-data-with-response.json");
        return;
    }
    CHECK(responses_load(&x, path, &e) == 0 && x.n == 110, "the book's 110 answers load");
    responses_release(&x);
}

/* ---- templates ------------------------------------------------------------------------------ */

static const char *prompt(const char *name, const char *instruction, const char *input)
{
    struct template t;
    struct buf b = {0};
    if (template_load(&t, name, &arena, &e))
        return e.msg;
    template_prompt(&t, str_z(instruction), str_z(input), &b);
    const char *out = str_dup(&arena, buf_str(&b));
    buf_release(&b);
    return out;
}

static bool template_says(const char *text, const char *want)
{
    struct template t;
    file_write_all(at("t.txt"), str_z(text), &e);
    int rc = template_load(&t, at("t.txt"), &arena, &e);
    bool ok = rc == -1 && strstr(e.msg, want) && strstr(e.msg, "t.txt");
    if (!ok)
        printf("# got \"%s\", want \"%s\"\n", rc ? e.msg : "a template", want);
    return ok;
}

static void test_template(void)
{
    struct template a, b;
#define PREAMBLE                                                                                   \
    "Below is an instruction that describes a task. Write a response that appropriately "          \
    "completes the request.\n\n### Instruction:\n"
    CHECK_STR(prompt("alpaca", "Do it.", ""), PREAMBLE "Do it.\n\n### Response:\n",
              "alpaca without input has no input block");
    CHECK_STR(prompt("alpaca", "Do {input}.", "x {?input}"),
              PREAMBLE "Do {input}.\n\n### Input:\nx {?input}\n\n### Response:\n",
              "with input it has one; braces in the texts are only text");
    CHECK_STR(prompt("plain", "Why?", ""), "Q: Why?\nA:", "plain");
    file_write_all(at("own.txt"), STR_LIT("{{x} {instruction}{?input} [{input}]{/input} }!\n"), &e);
    CHECK_STR(prompt(at("own.txt"), "I", "N"), "{x} I [N] }!\n", "a file is a template");
    CHECK_STR(prompt(at("own.txt"), "I", ""), "{x} I }!\n", "with a block of its own");
    template_load(&a, "alpaca", &arena, &e);
    template_load(&b, at("own.txt"), &arena, &e);
    char hex[SHA256_HEX];
    sha256_hex(STR_LIT("{{x} {instruction}{?input} [{input}]{/input} }!\n"), hex);
    CHECK(!strcmp(b.hash, hex) && strcmp(a.hash, b.hash) != 0, "its hash is of its text");
    CHECK(template_says("{instruction} {answer}", "byte 14: \"{answer}\""), "unknown fields, ");
    CHECK(template_says("{instruction} {", "byte 14"), "open braces, ");
    CHECK(template_says("{instruction}{?input}", "without {/input}"), "open blocks, ");
    CHECK(template_says("{instruction}{?input}{?input}{/input}", "inside another"),
          "nested ones, ");
    CHECK(template_says("{instruction}{/input}", "without {?input}"), "ends without a start, ");
    CHECK(template_says("{?input}{instruction}{/input}", "missing"), "no sure instruction, ");
    CHECK(template_says("", "missing"), "and an empty file are refused");
    CHECK(template_load(&a, at("none"), &arena, &e) == -1 && e.code == EXIT_USAGE &&
              strstr(e.msg, "neither alpaca"),
          "so is a name that is nothing");
}

int main(void)
{
    log_open("test", LOG_QUIET);
    test_json();
    test_bad();
    test_last_wins();
    test_many();
    test_data();
    test_answered();
    test_template();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
