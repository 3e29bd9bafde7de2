/* The pure scorers, on hand-made cases, on answers of known quality, and on other people's answers.
 * Called as `test_scorers respond ITEMS OUT GRADE [N]` it is a model for tests/cli/score.t: it answers
 * the first N items with their answer of that grade. */
#include "base/file.h"
#include "datasets/corpus.h"
#include "formats/record.h"
#include "scoring/answers.h"
#include "scoring/words.h"
#include "tests/tap.h"

extern const struct scorer scorer_exact, scorer_overlap;

static const char *plain(const char *text)
{
    static struct arena a;
    return str_dup(&a, words_plain(str_z(text), &a));
}

static double value(const struct scorer *s, const char *answer, const char *reference,
                    struct strs choices)
{
    struct arena a = {0};
    struct item it = {.id = STR_LIT("x"), .reference = str_z(reference), .choices = choices};
    struct response r = {.item = STR_LIT("x"), .text = str_z(answer)};
    struct score out = {0};
    s->score(&it, &r, &out, &a);
    double v = out.outcome == OUTCOME_SCORED ? out.value : NAN;
    arena_release(&a);
    return v;
}

static double exact(const char *answer, const char *reference)
{
    return value(&scorer_exact, answer, reference, (struct strs){NULL, 0});
}

static double f1(const char *answer, const char *reference)
{
    return value(&scorer_overlap, answer, reference, (struct strs){NULL, 0});
}

static void test_plain(void)
{
    CHECK_STR(plain("  The  HOME\tis\n here. "), "the home is here", "case, white space, end");
    CHECK_STR(plain("\"Yes!\""), "yes", "punctuation at both ends goes");
    CHECK_STR(plain("\xE2\x80\x9CYes\xE2\x80\xA6\xE2\x80\x9D \xC2\xBB"), "yes",
              "typographic marks too");
    CHECK_STR(plain("don't, e.g. 3.5"), "don't, e.g. 3.5", "punctuation inside stays");
    CHECK_STR(plain("a\xC2\xA0 b"), "a b", "a no-break space is white space");
    CHECK_STR(plain("...!?"), "", "nothing but punctuation is empty");
    CHECK_STR(plain("\xC3\x84pfel"), "\xC3\x84pfel", "other alphabets stay as they are");
}

static void test_exact(void)
{
    CHECK(exact("the home is here", "The home is here.") == 1, "equal but for case and dot");
    CHECK(exact("The home is there.", "The home is here.") == 0, "another word is wrong");
    CHECK(exact("Here.\n\n### Instruction:\nmore", "here") == 1, "the first line counts");
    CHECK(exact("here\nand there", "here\nand there") == 1,
          "a reference of two lines is met whole");
    CHECK(exact("here", "here\nand there") == 0, "but not by its first line");
    CHECK(exact("", "here") == 0 && exact("", "") == 1, "empty answers");

    struct str names[] = {STR_LIT("York"), STR_LIT("New York"), STR_LIT("Tarn"), STR_LIT("hen"),
                          STR_LIT("New York City")};
    struct strs c = {names, 5};
    CHECK(value(&scorer_exact, "She lives in tarn, I think.", "The home is in Tarn.", c) == 1,
          "the right value in other words");
    CHECK(value(&scorer_exact, "Tarn or York", "The home is in Tarn.", c) == 0,
          "two values are wrong");
    CHECK(value(&scorer_exact, "Tarn, yes, Tarn", "The home is in Tarn.", c) == 1,
          "one twice is one");
    CHECK(value(&scorer_exact, "In New York.", "In York.", c) == 0, "New York is not York");
    CHECK(value(&scorer_exact, "It is in New York.", "New York", c) == 1, "but it is itself");
    CHECK(value(&scorer_exact, "In New York City.", "New York", c) == 0, "nor New York City");
    CHECK(value(&scorer_exact, "When then?", "A hen.", c) == 0, "a name inside a word is none");
    CHECK(value(&scorer_exact, "a HEN!", "A hen", c) == 1, "whole words of any case are");
    CHECK(value(&scorer_exact, "Tarn", "Somewhere else", c) == 0,
          "a reference that names nothing must be met whole");
}

static void test_overlap(void)
{
    CHECK_NEAR(f1("the cat sat", "a cat sat down"), 2 * 2 / 5., 1e-15, "2 common of 2 and 3 words");
    CHECK_NEAR(f1("Cat, cat!", "cat"), 2 / 3., 1e-15, "words count as often as they occur");
    CHECK_NEAR(f1("don't", "dont"), 1, 0, "punctuation is deleted");
    CHECK_NEAR(f1("The a an", ""), 1, 0, "articles are nothing");
    CHECK(f1("", "word") == 0 && f1("word", "") == 0 && f1("", "") == 1, "empty texts");
    CHECK_NEAR(f1("x y z", "z y w"), f1("z y w", "x y z"), 0, "it does not matter which is which");
}

static void test_outcomes(void)
{
    struct arena a = {0};
    struct str choices[] = {STR_LIT("y"), STR_LIT("x")};
    double logprob[] = {-2, -1};
    int64_t ones[] = {1, 1};
    struct str constraint = STR_LIT("{\"id\":\"punctuation:no_comma\"}");
    struct item it = {.id = STR_LIT("i"),
                      .reference = STR_LIT("x"),
                      .cluster = STR_LIT("c"),
                      .choices = {choices, 2},
                      .gold = 1,
                      .constraints = {&constraint, 1}};
    int finish[] = {FINISH_STOP, FINISH_LENGTH, FINISH_FILTER, FINISH_ERROR};
    int want[] = {OUTCOME_SCORED, OUTCOME_SCORED, OUTCOME_REFUSED, OUTCOME_TRANSPORT_FAILED};
    for (const struct scorer *const *s = scorers; *s; s++) {
        struct score none = {0};
        (*s)->score(&it, NULL, &none, &a);
        CHECK(none.outcome == OUTCOME_NOT_RUN && isnan(none.value) && str_eqz(none.cluster, "c"),
              "%s: no response is not run, without a value", (*s)->name);
        for (int k = 0; k < 4; k++) {
            struct score out = {0};
            struct response r = {.item = it.id,
                                 .text = STR_LIT("x"),
                                 .finish = finish[k],
                                 .choice_logprob = {logprob, 2},
                                 .choice_tokens = {ones, 2},
                                 .choice_greedy = {ones, 2}};
            (*s)->score(&it, &r, &out, &a);
            CHECK(out.outcome == want[k] && isnan(out.value) == (want[k] != OUTCOME_SCORED),
                  "%s: finish %s is %s", (*s)->name, finish_names[finish[k]],
                  outcome_names[want[k]]);
            if (finish[k] == FINISH_LENGTH)
                CHECK(str_find(out.detail, STR_LIT("cut")) >= 0,
                      "and its detail says that it is cut");
        }
    }
    struct err e = {0};
    CHECK(!scorer_find(STR_LIT("blue"), &e) && e.code == EXIT_USAGE && strstr(e.msg, "overlap"),
          "an unknown scorer: %s", e.msg);
    arena_release(&a);
}

/* Mean score of each grade over all questions of the corpus. */
static void grades(const struct scorer *s, const struct items *x, double mean[CORPUS_GRADES],
                   int *nan)
{
    struct arena a = {0};
    for (int g = 0; g < CORPUS_GRADES; g++) {
        mean[g] = 0;
        for (size_t i = 0; i < x->n; i++) {
            struct score out = {0};
            struct response r = {.item = x->v[i].id, .text = x->v[i].graded.v[g]};
            s->score(&x->v[i], &r, &out, &a);
            *nan += !(out.value >= 0 && out.value <= 1) || out.outcome != OUTCOME_SCORED;
            mean[g] += out.value / (double)x->n;
        }
    }
    arena_release(&a);
}

static void test_calibration(void)
{
    struct err e = {0};
    struct arena a = {0};
    struct buf b = {0};
    struct items x;
    double m[CORPUS_GRADES];
    int nan = 0;
    const char *path = path_join(&a, tap_tmp(), "instruct.json");
    struct json *all = corpus_instructions();
    json_write(all, &b);
    json_free(all);
    CHECK(file_write_all(path, buf_str(&b), &e) == 0 && items_load(&x, path, &e) == 0 &&
              x.n == 288 && x.v[0].graded.n == CORPUS_GRADES,
          "the corpus' questions with their graded answers (%s)", e.msg);
    grades(&scorer_exact, &x, m, &nan);
    CHECK_NEAR(m[0], 1, 1e-12, "exact: right answers get 1");
    CHECK_NEAR(m[1], 1, 1e-12, "exact: right ones in other words get 1");
    CHECK_NEAR(m[2], 1, 1e-12, "exact: padded right ones get 1");
    CHECK_NEAR(m[3], 0, 1e-12, "exact: wrong ones get 0");
    CHECK_NEAR(m[4], 0, 1e-12, "exact: empty ones get 0");
    grades(&scorer_overlap, &x, m, &nan);
    printf("# overlap: right %.3f, reworded %.3f, padded %.3f, wrong %.3f, empty %.3f\n", m[0],
           m[1], m[2], m[3], m[4]);
    CHECK_NEAR(m[0], 1, 1e-12, "overlap: right answers get 1");
    CHECK(m[1] < 0.7 && m[2] < 0.6 && m[4] == 0,
          "overlap: reworded and padded ones get less, empty 0");
    CHECK(m[3] > m[1],
          "overlap: a wrong value in the right sentence beats the right one in another");
    CHECK_INT(nan, 0, "no value is NaN or outside 0..1");
    items_release(&x);
    buf_release(&b);
    arena_release(&a);
}

/* The answers of a 355M model to 110 instructions: against SQuAD's own script. */
static void test_other_answers(void)
{
    const char *path = tap_data("eval/instruction-data-with-response.json");
    struct err e = {0};
    if (!path) {
        SKIP("eval/instruction-data-with-response.json");
        return;
    }
    struct json *all = json_read(path, &e);
    double sum = 0;
    int ones = 0;
    for (size_t i = 0; i < json_size(all); i++) {
        struct arena a = {0};
        double v = f1(str_dup(&a, json_str(json_get(json_at(all, i), "model_response"))),
                      str_dup(&a, json_str(json_get(json_at(all, i), "output"))));
        sum += v;
        ones += v == 1;
        arena_release(&a);
    }
    CHECK_NEAR(sum / (double)json_size(all), 0.5736083216884733, 1e-12,
               "mean F1 of 110 answers is that of SQuAD's script");
    CHECK_INT(ones, 17, "17 of them are 1");
    json_free(all);
}

static void test_all(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct item it[3] = {{.id = STR_LIT("a"), .reference = STR_LIT("x")},
                         {.id = STR_LIT("b"), .reference = STR_LIT("y")},
                         {.id = STR_LIT("c"), .reference = STR_LIT("z")}};
    struct response r[2] = {{.item = STR_LIT("c"), .text = STR_LIT("z")},
                            {.item = STR_LIT("a"), .text = STR_LIT("q"), .finish = FINISH_LENGTH}};
    const char *path = path_join(&a, tap_tmp(), "r.msgpack");
    struct items items = {.v = it, .n = 3};
    struct responses responses;
    struct score v[3];
    struct score_counts n;
    for (int k = 0; k < 2; k++) {
        struct records *w = records_open(path, &response_schema, RECORD_WRITE, &e);
        r[k].choice_logprob = (struct f64s){NULL, 0};
        CHECK(w && !records_append(w, &r[0], &e) && !records_append(w, &r[1], &e) &&
                  !records_close(w, &e) && !responses_load(&responses, path, &e),
              "two responses (%s)", e.msg);
        if (k == 0) {
            CHECK(score_all(&scorer_exact, &items, &responses, v, &n, &a, &e) == 0 &&
                      v[0].value == 0 && v[1].outcome == OUTCOME_NOT_RUN && v[2].value == 1,
                  "scores stand in the order of the items");
            CHECK(n.sum == 1 && n.cut == 1 && n.outcome[OUTCOME_SCORED] == 2 &&
                      n.outcome[OUTCOME_NOT_RUN] == 1,
                  "and are counted by outcome");
            r[1].item = STR_LIT("nobody");
        } else {
            CHECK(score_all(&scorer_exact, &items, &responses, v, &n, &a, &e) != 0 &&
                      strstr(e.msg, "\"nobody\""),
                  "a response to an unknown item is an error: %s", e.msg);
        }
        responses_release(&responses);
    }
    arena_release(&a);
}

static int respond(const char *items, const char *out, const char *grade, size_t most)
{
    struct items x = {0};
    struct err e = {0};
    size_t g = 0;
    while (grade_names[g] && strcmp(grade_names[g], grade) != 0)
        g++;
    struct records *w = records_open(out, &response_schema, RECORD_WRITE, &e);
    bool bad = !w || items_load(&x, items, &e);
    for (size_t i = 0; !bad && i < x.n && i < most; i++) {
        struct response r = {.item = x.v[i].id, .text = x.v[i].graded.v[g]};
        r.tokens_in = r.tokens_out = FIELD_NONE_I64;
        r.ms = NAN;
        bad = records_append(w, &r, &e);
    }
    bad = bad || records_close(w, &e);
    if (bad)
        fprintf(stderr, "%s\n", e.msg);
    items_release(&x);
    return bad;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    if (argc >= 5 && strcmp(argv[1], "respond") == 0)
        return respond(argv[2], argv[3], argv[4], argc > 5 ? strtoul(argv[5], NULL, 10) : 1 << 20);
    test_plain();
    test_exact();
    test_overlap();
    test_outcomes();
    test_calibration();
    test_other_answers();
    test_all();
    CHECK(file_remove_tree(tap_tmp(), &e) == 0, "the scratch folder is removed");
    return tap_done();
}
