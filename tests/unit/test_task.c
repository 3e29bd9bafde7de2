/* test_task: task files and templates; which choice is taken, ties, lengths and what is no number. */
#include <math.h>

#include "base/file.h"
#include "formats/choice.h"
#include "formats/task.h"
#include "tests/tap.h"

static const char *text(const char *template, const char *row, struct arena *a)
{
    struct err e = {0};
    struct json *v = json_parse(str_z(row), &e);
    struct str out;
    int rc = template_text(str_z(template), v, a, &out, &e);
    json_free(v);
    return rc ? arena_printf(a, "error: %s", e.msg) : str_dup(a, out);
}

static const char *list(const char *template, const char *row, struct arena *a)
{
    struct err e = {0};
    struct json *v = json_parse(str_z(row), &e);
    struct str one = str_z(template);
    struct strs out;
    struct buf b = {0};
    if (template_list((struct strs){&one, 1}, v, a, &out, &e)) {
        json_free(v);
        return arena_printf(a, "error: %s", e.msg);
    }
    for (size_t i = 0; i < out.n; i++)
        buf_printf(&b, "%s%.*s", i ? "|" : "", STR_ARG(out.v[i]));
    json_free(v);
    const char *s = arena_strdup(a, b.p ? b.p : "");
    buf_release(&b);
    return s;
}

static void test_templates(void)
{
    static const char row[] =
        "{\"a\":\"X\",\"n\":3,\"t\":true,\"o\":{\"k\":[\"p\",\"q\"],\"z\":{\"w\":\"r\"}},"
        "\"s\":\"the old Cat\",\"l\":[1,2.5],\"h\":\" [title] A [b] c  d [title] e\"}";
    static const struct {
        const char *template, *want;
    } v[] = {
        {"plain", "plain"},
        {"", ""},
        {"{a}-{n}-{t}", "X-3-true"},
        {"{{a}", "{a}"},
        {"a\\n\\t\\s\\\\b\\x", "a\n\t \\b\\x"},
        {"{o.k.1}{o.z.w}", "qr"},
        {"{s|lower}", "the old cat"},
        {"{s|capitalize}", "The old cat"},
        {"{s|last_word|lower_first}", "cat"},
        {"{s|but_last_word}", "the old"},
        {"{s|before:old}", "the "},
        {"{s|after:old|trim}", "Cat"},
        {"{s|drop_last}", "the old Ca"},
        {"{s|first_blank}", ""},
        {"{s|but_first_blank}", "the old Cat"},
        {"{a|map:Y=1;X=2}", "2"},
        {"{a|map:Y=1}", "X"},
        {"{h|wikihow}", " A c d. e"},
        {"{missing}", "error: the row has no value at \"missing\""},
        {"{o.k}", "error: \"o.k\" is a list of 2, want one value"},
        {"{o}", "error: the row has no value at \"o\""},
    };
    struct arena a = {0};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        CHECK_STR(text(v[i].template, row, &a), v[i].want, "%s", v[i].template);
    CHECK_STR(list("{o.k}", row, &a), "p|q", "a path to an array is a list");
    CHECK_STR(list("{o.k|lower|map:p=1}", row, &a), "1|q", "filters go over each");
    CHECK_STR(list("{l}", row, &a), "1|2.5", "numbers are texts");
    CHECK_STR(list("{x.*.y}", "{\"x\":{\"g0\":{\"y\":\"a\"},\"g1\":{\"y\":\"b\"}}}", &a), "a|b",
              "* takes all of an object");
    CHECK_STR(list("{x.*.0}", "{\"x\":[[\"a\",1],[\"b\",2]]}", &a), "a|b", "and of an array");
    CHECK_STR(list("x{a}", row, &a), "xX", "a text around it makes it one");
    static const char *const bad[] = {"{a", "{}", "{a|nothing}", "{a|before}", "{a|lower:x}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = {0};
        CHECK(template_syntax(str_z(bad[i]), &e) == -1 && e.code == EXIT_USAGE, "refused: %s",
              e.msg);
    }
    arena_release(&a);
}

static void test_files(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct strs names;
    int n = 0;
    CHECK_INT(file_list("pipelines/tasks", &names, &a, &e), 0, "the tasks are there");
    for (size_t i = 0; i < names.n; i++) {
        struct task t;
        const char *path = path_join(&a, "pipelines/tasks", str_dup(&a, names.v[i]));
        CHECK(task_load(&t, path, &a, &e) == 0 && t.title.n && t.source.n && strlen(t.hash) == 64,
              "%s loads %s", t.name, e.msg);
        n++;
    }
    CHECK(n >= 13, "%d tasks of the tool", n);
    arena_release(&a);
}

/* One row through a task of the tool. */
static const char *item(const char *task, const char *row, struct arena *a)
{
    struct err e = {0};
    struct task t;
    struct items x;
    const char *path = arena_printf(a, "%s/row.jsonl", tap_tmp());
    if (task_load(&t, arena_printf(a, "pipelines/tasks/%s.ini", task), a, &e) ||
        file_write_all(path, str_z(row), &e) || task_items(&t, path, &x, &e))
        return arena_printf(a, "error: %s", e.msg);
    struct buf b = {0};
    const struct item *it = &x.v[0];
    for (size_t i = 0; i < it->choices.n; i++) {
        struct str c = choice_context(it, i);
        if (!i || it->contexts.n > 1)
            buf_printf(&b, "<%.*s>", STR_ARG(c));
        buf_printf(&b, "%.*s%.*s/", STR_ARG(it->delimiter), STR_ARG(it->choices.v[i]));
    }
    if (it->gold != FIELD_NONE_I64)
        buf_printf(&b, "%lld", (long long)it->gold);
    const char *s = arena_strdup(a, b.p);
    buf_release(&b);
    items_release(&x);
    return s;
}

static void test_tasks(void)
{
    struct arena a = {0};
    CHECK_STR(
        item("piqa", "{\"query\":\"Question: q\\n\",\"choices\":[\"x\",\"y\"],\"gold\":1}", &a),
        "<Question: q\nAnswer:> x/ y/1", "PIQA");
    CHECK_STR(item("piqa-hf", "{\"goal\":\"q\",\"sol1\":\"x\",\"sol2\":\"y\",\"label\":0}", &a),
              "<Question: q\nAnswer:> x/ y/0", "PIQA as published: the same");
    CHECK_STR(item("copa-hf",
                   "{\"premise\":\"It rained.\",\"choice1\":\"The sun\",\"choice2\":\"We\","
                   "\"question\":\"effect\",\"label\":1}",
                   &a),
              "<It rained therefore> the sun/ we/1", "COPA as published");
    CHECK_STR(item("winogrande",
                   "{\"context_options\":[\"a x\",\"a y\"],\"continuation\":\"ran.\",\"gold\":0}",
                   &a),
              "<a x> ran./<a y> ran./0", "WinoGrande: one continuation behind two contexts");
    CHECK_STR(
        item("winogrande-hf",
             "{\"sentence\":\"a _ ran.\",\"option1\":\"x\",\"option2\":\"y\",\"answer\":\"2\"}",
             &a),
        "<a x> ran./<a y> ran./1", "WinoGrande as published: the same, gold from 1");
    const char *gapless = item("winogrande-hf",
                               "{\"sentence\":\"a ran.\",\"option1\":\"x\",\"option2\":\"y\","
                               "\"answer\":\"2\"}",
                               &a);
    CHECK(strstr(gapless, "row.jsonl:1") && strstr(gapless, "there is no \"_\" in \"a ran.\""),
          "a sentence without its gap is refused: %s", gapless);
    CHECK_STR(item("hellaswag",
                   "{\"activity_label\":\"Run\",\"ctx_a\":\"He [x]  went [title] "
                   "on.\",\"ctx_b\":\"the Man\","
                   "\"endings\":[\"a [title] b\",\"c\"],\"label\":\"1\",\"ctx\":\"C\"}",
                   &a),
              "<Run: He  went. on. The man> a. b/ c/1", "HellaSwag as lm-eval asks it");
    CHECK_STR(item("hellaswag-llmc",
                   "{\"endings\":[\"a [title] b\",\"c\"],\"label\":1,\"ctx\":\"C\"}", &a),
              "<C> a [title] b/ c/1", "HellaSwag as llm.c asks it");
    CHECK_STR(
        item("arc",
             "{\"question\":\"q\",\"choices\":{\"text\":[\"x\",\"y\",\"z\"],\"label\":[\"1\",\"2\","
             "\"3\"]},\"answerKey\":\"3\"}",
             &a),
        "<Question: q\nAnswer:> x/ y/ z/2", "ARC: gold by its label");
    CHECK_STR(
        item("arc",
             "{\"question\":\"q\",\"choices\":{\"text\":[\"x\",\"y\"],\"label\":[\"A\",\"B\"]},"
             "\"answerKey\":\"E\"}",
             &a),
        arena_printf(&a, "error: %s/row.jsonl:1: gold \"E\" is none of the 2 labels", tap_tmp()),
        "a label that is not there");
    CHECK_STR(item("commonsenseqa",
                   "{\"question\":\" q\",\"choices\":{\"text\":[\"u\",\"v\",\"w\",\"x\",\"y\"]},"
                   "\"answerKey\":\"B\"}",
                   &a),
              "<Question: q\nA. u\nB. v\nC. w\nD. x\nE. y\nAnswer:> A/ B/ C/ D/ E/1",
              "CommonsenseQA");
    CHECK(strstr(item("copa", "{\"query\":\"q\",\"choices\":\"blue\",\"gold\":0}", &a),
                 "row.jsonl:1: it has one choice, \"blue\""),
          "a text in place of the list of choices is refused with its line");
    CHECK(strstr(item("copa", "{\"query\":\"q\",\"choices\":[\"x\",null],\"gold\":0}", &a),
                 "row.jsonl:1: choices"),
          "so is a choice that is null");
    struct task wrong;
    struct err e = {0};
    const char *file = arena_printf(&a, "%s/zz.ini", tap_tmp());
    file_write_all(file, STR_LIT("[task]\nprompt = {q}\nchoices = {c}\ngold = 0\nmetric = zz\n"),
                   &e);
    CHECK(task_load(&wrong, file, &a, &e) == -1 && e.code == EXIT_USAGE &&
              strstr(e.msg, "metric = zz is none of"),
          "and a metric that no choice task has: %s", e.msg);
    CHECK_STR(item("lambada", "{\"text\":\"he saw the cat\"}", &a), "<he saw the> cat/", "LAMBADA");
    CHECK_STR(item("lm-eval-log",
                   "{\"doc_id\":7,\"target\":\"1\",\"arguments\":{\"gen_args_0\":{\"arg_0\":\"c1\","
                   "\"arg_1\":\" x\"},\"gen_args_1\":{\"arg_0\":\"c2\",\"arg_1\":\" y\"}}}",
                   &a),
              "<c1> x/<c2> y/1", "lm-eval's own log");
    CHECK_STR(item("lm-eval-log",
                   "{\"doc_id\":7,\"target\":\"B\",\"arguments\":{\"gen_args_0\":{\"arg_0\":\"c\","
                   "\"arg_1\":\" A\"},\"gen_args_1\":{\"arg_0\":\"c\",\"arg_1\":\" B\"}}}",
                   &a),
              "<c> A/<c> B/1", "whose target may be the text of the choice (CommonsenseQA)");
    CHECK_STR(item("lm-eval-log",
                   "{\"doc_id\":7,\"target\":\"1\",\"arguments\":{\"gen_args_0\":{\"arg_0\":\"c\","
                   "\"arg_1\":\"  x\"},\"gen_args_1\":{\"arg_0\":\"c\",\"arg_1\":\" y\"}}}",
                   &a),
              "<c>  x/<c> y/1", "white space that belongs to a choice stays with it (HellaSwag)");
    CHECK_STR(item("lm-eval-log",
                   "{\"doc_id\":7,\"target\":\"1\",\"arguments\":{\"gen_args_0\":{\"arg_0\":\"c\","
                   "\"arg_1\":\"x\"},\"gen_args_1\":{\"arg_0\":\"c\",\"arg_1\":\"y\"}}}",
                   &a),
              "<c>x/<c>y/1", "and where nothing stands between, nothing is put");
    CHECK(strstr(item("copa", "{\"query\":\"q\",\"choices\":[\"x\",\"y\"],\"gold\":\"z\"}", &a),
                 "gold \"z\" is none of 2 choices"),
          "a gold that is neither an index nor a choice");
    static const struct {
        const char *choices, *gold, *want, *name;
    } golds[] = {
        {"\"3\",\"4\"", "\"4\"", "/1", "a text of digits that is a choice is that one"},
        {"\"x\",\"y\"", "\"1\"", "/1", "one that is none is an index"},
        {"\"1\",\"0\"", "0", "/0", "a number is an index, whatever the choices are"},
        {"\"0\",\"1\"", "\"1\"", "/1", "a text that is the same by both is that"},
        {"\"1\",\"0\"", "\"0\"",
         "gold \"0\" is the text of choice 1 and the index of choice 0: write an index as a number",
         "a text that may be two choices is refused"},
        {"\"3\",\"4\"", "4", "gold \"4\" is none of 2 choices", "a number is never a text"},
    };
    for (size_t i = 0; i < sizeof golds / sizeof *golds; i++) {
        const char *have = item("copa",
                                arena_printf(&a, "{\"query\":\"q\",\"choices\":[%s],\"gold\":%s}",
                                             golds[i].choices, golds[i].gold),
                                &a);
        bool ok = *golds[i].want == '/' ? str_ends(str_z(have), golds[i].want)
                                        : strstr(have, golds[i].want) != NULL;
        CHECK(ok, "%s: %s", golds[i].name, have);
    }
    arena_release(&a);
}

static struct choice_pick pick(double a, double b, double c, enum choice_norm norm, int64_t gold)
{
    struct str choices[] = {STR_LIT("ab"), STR_LIT("\xC3\xA4\xC3\xB6\xC3\xBC"), STR_LIT("cdef")};
    int64_t tokens[] = {1, 3, 2};
    double sums[] = {a, b, c};
    struct item it = {.choices = {choices, 3}, .gold = gold};
    struct response r = {.choice_logprob = {sums, 3}, .choice_tokens = {tokens, 3}};
    struct choice_pick p;
    choice_pick(&it, &r, norm, &p);
    return p;
}

static void test_pick(void)
{
    CHECK(pick(-3, -2, -4, CHOICE_SUM, 1).worth == 1, "the largest sum is taken");
    CHECK(pick(-3, -2, -4, CHOICE_SUM, 0).worth == 0, "another is wrong");
    CHECK(pick(-3, -6, -4, CHOICE_CHAR, 2).first == 2, "by characters: -3/2, -6/3, -4/4");
    CHECK(pick(-3, -6, -4.4, CHOICE_CHAR, 2).first == 2 &&
              pick(-3, -3.2, -4.4, CHOICE_CHAR, 2).first == 1,
          "characters, not bytes");
    CHECK(pick(-3, -5.4, -4, CHOICE_BYTE, 2).first == 1, "by bytes: -3/2, -5.4/6, -4/4");
    CHECK(pick(-3, -8, -4.4, CHOICE_TOKEN, 2).first == 2, "by tokens: -3/1, -8/3, -4.4/2");
    struct choice_pick p = pick(-2, -2, -3, CHOICE_SUM, 1);
    CHECK(p.tied == 2 && p.worth == 0.5 && p.first == 0, "two tied at the top are worth a half");
    CHECK(pick(-2, -2, -3, CHOICE_SUM, 2).worth == 0, "if the right one is among them");
    p = pick(-2, -2, -2, CHOICE_SUM, 1);
    CHECK_NEAR(p.worth, 1 / 3., 1e-15, "three a third");
    p = pick(NAN, -2, -3, CHOICE_SUM, 1);
    CHECK(p.why && p.first == -1 && isnan(p.worth), "NaN takes no choice: %s", p.why);
    CHECK(pick(-1, -2, NAN, CHOICE_SUM, 0).why, "wherever it stands");
    CHECK(pick(INFINITY, -2, -3, CHOICE_SUM, 0).why, "nor does +inf");
    CHECK(!pick(-INFINITY, -2, -3, CHOICE_SUM, 1).why, "-inf is a choice without any chance");
    CHECK(pick(-1, -2, -3, CHOICE_SUM, 3).why && pick(-1, -2, -3, CHOICE_SUM, FIELD_NONE_I64).why,
          "an unknown right choice has no worth");
}

int main(void)
{
    test_templates();
    test_files();
    test_tasks();
    test_pick();
    return tap_done();
}
