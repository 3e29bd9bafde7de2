/* The judge's pure half: what an answer of a judge amounts to, how a question is built, keys. */
#include "scoring/judge.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/rng.h"
#include "scoring/judge_summary.h"
#include "scoring/stats.h"
#include "tests/tap.h"

static struct arena arena;
static const struct judge_prompt score100 = {.protocol = JUDGE_SINGLE, .lo = 0, .hi = 100};

static void verdict(const char *text, int finish, int outcome, double value, const char *what)
{
    struct response r = {.text = str_z(text), .finish = finish};
    double got;
    struct str detail;
    int o = judge_verdict(&score100, false, &r, 1, &got, &detail, &arena);
    bool same = o == outcome && (outcome == OUTCOME_SCORED ? got == value : isnan(got));
    CHECK(same && (detail.n > 0), "%s is %s%s", what, outcome_names[outcome],
          outcome == OUTCOME_SCORED ? " with its number" : ", no number");
    if (!same)
        printf("# got %s %g (%.*s)\n", outcome_names[o], got, STR_ARG(detail));
}

static void scored(const char *text, double value)
{
    char what[200];
    snprintf(what, sizeof what, "\"%s\"", text);
    for (char *c = what; *c; c++)
        if (*c == '\n')
            *c = '|';
    verdict(text, FINISH_STOP, OUTCOME_SCORED, value, what);
}

static void failed(const char *text)
{
    char what[200];
    snprintf(what, sizeof what, "\"%s\"", text);
    for (char *c = what; *c; c++)
        if (*c == '\n' || *c == '#') /* "#" starts a TAP directive */
            *c = '|';
    verdict(text, FINISH_STOP, OUTCOME_PARSE_FAILED, 0, what);
}

static void test_scored(void)
{
    scored("85", 85);
    scored("0", 0);
    scored("100", 100);
    scored("  85 \r\n", 85);
    scored("85/100", 85);
    scored("85 / 100", 85);
    scored("Score: 85", 85);
    scored("score = 7", 7);
    scored("**Score: 85**", 85);
    scored("**Score:** 85", 85);
    scored("**85**", 85);
    scored("Score: **85**/100", 85);
    scored("Score: 85 out of 100", 85);
    scored("The answer names the right author but not the year.\n\nScore: 60", 60);
    scored("It scores 3 points for style and 4 for content.\n85/100", 85);
    scored("Score: 60\nSo my verdict stands.\nScore: 60", 60);
    scored("Reasons.\n90", 90);
    scored("Reasons.\n\n**90**\n", 90);
    scored("<think>Perhaps 10? Or\n20\n</think>\n85", 85);
}

static void test_failed(void)
{
    failed("");
    failed(" \n ");
    failed("101");
    failed("150/100");
    failed("1000000000000000000000");
    failed("-5");
    failed("8.5");
    failed("85.5");
    failed("85,");
    failed("007");
    failed("85%");
    failed("8/10");
    failed("85/1000");
    failed("Score: high");
    failed("**85");
    failed("Score 85 or 90");
    failed("I would give this 85.");
    failed("This is a correct answer, 3 of 4 facts are right.");
    failed("There are 9 planets\n9.");
    failed("The answer is\n85 points");
    failed("1\n2\nSo: 90\n3");
    failed("Score: 40\nScore: 60");
    failed("60/100\nScore: 40");
    failed("40\n\n60");
    failed("```\n85\n```");
    failed("```json\n{\"score\": 85}\n```");
    failed("{\"score\": 85}");
    failed("Score: 85\nI hope this helps!");
    failed("downscore: 85");
    failed("\xef\xbc\x98\xef\xbc\x95"); /* full-width 85 */
    failed("eighty-five");
    failed("$ERROR$");
    failed("NaN");
    failed("0x55");
    failed("[[85]]");
}

static void test_classes(void)
{
    verdict("10", FINISH_LENGTH, OUTCOME_TRUNCATED, 0, "\"10\" cut at the limit");
    verdict("<think>It is 85, so\n85", FINISH_STOP, OUTCOME_TRUNCATED, 0, "an open <think>");
    struct response open = {.finish = FINISH_LENGTH, .detail = STR_LIT("<think> never closes")};
    double none;
    struct str why;
    judge_verdict(&score100, false, &open, 1, &none, &why, &arena);
    CHECK(str_eqz(why, "<think> never closes"), "with the one true reason: %.*s", STR_ARG(why));
    verdict("85", FINISH_FILTER, OUTCOME_REFUSED, 0, "a filtered answer, whatever its text");
    verdict("85", FINISH_ERROR, OUTCOME_TRANSPORT_FAILED, 0, "an error, whatever its text");
    double v;
    struct str d;
    CHECK_INT(judge_verdict(&score100, false, NULL, 1, &v, &d, &arena), OUTCOME_NOT_RUN,
              "no response is not_run");
    CHECK(isnan(v), "not_run has no number");
    char *big = mem_alloc(1 << 20);
    memset(big, '7', (1 << 20) - 1);
    big[(1 << 20) - 1] = 0;
    struct response r = {.text = str_z(big), .finish = FINISH_STOP};
    CHECK_INT(judge_verdict(&score100, false, &r, 1, &v, &d, &arena), OUTCOME_PARSE_FAILED,
              "a MiB of digits fails");
    CHECK(d.n < 400, "and the detail stays short");
    free(big);
}

/* ---- other protocols ------------------------------------------------------------------------ */

static const struct judge_prompt pair = {.protocol = JUDGE_PAIRWISE, .lo = 0, .hi = 1};
static const struct judge_prompt rubric = {.protocol = JUDGE_SINGLE, .lo = 1, .hi = 5};
static const struct judge_prompt joint = {.protocol = JUDGE_JOINT, .lo = 0, .hi = 100};

static void one(const struct judge_prompt *p, bool structured, const char *text, double want)
{
    struct response r = {.text = str_z(text), .finish = FINISH_STOP};
    double v;
    struct str d;
    int o = judge_verdict(p, structured, &r, 1, &v, &d, &arena);
    bool same =
        isnan(want) ? o == OUTCOME_PARSE_FAILED && isnan(v) : o == OUTCOME_SCORED && v == want;
    char shown[200];
    snprintf(shown, sizeof shown, "%s", text);
    for (char *c = shown; *c; c++)
        *c = *c == '\n' ? '|' : *c;
    CHECK(same, "%s: \"%s\"", isnan(want) ? "no verdict" : "a verdict", shown);
}

static void test_pairwise(void)
{
    one(&pair, false, "A", 1);
    one(&pair, false, "b", 0);
    one(&pair, false, "Verdict: A", 1);
    one(&pair, false, "**Verdict: B**", 0);
    one(&pair, false, "Verdict: tie.", 0.5);
    one(&pair, false, "[[A]]", 1);
    one(&pair, false, "B is shorter, but A is right.; so\nVerdict: A", 1);
    one(&pair, false, "Both are fine.\nA", 1);
    one(&pair, false, "Both are fine.\n**tie**", 0.5);
    one(&pair, false, "Both are fine.\nAn A", NAN);
    one(&pair, false, "A is better", NAN);
    one(&pair, false, "A tie", NAN);
    one(&pair, false, "Verdict: A\nVerdict: B", NAN);
    one(&pair, false, "Verdict: C", NAN);
    one(&pair, false, "Verdict: A or B", NAN);
    one(&pair, false, "[[A", NAN);
    one(&pair, false, "", NAN);
    one(&pair, true, "{\"verdict\": \"A\"}", 1);
    one(&pair, true, "{\"verdict\": \"tie\"}", 0.5);
    one(&pair, true, "{\"verdict\": 1}", NAN);
    one(&pair, true, "{\"verdict\": \"both\"}", NAN);
    one(&pair, true, "A", NAN);
}

static void test_rubric(void)
{
    one(&rubric, false, "Mostly right.\nScore: 4", 4);
    one(&rubric, false, "4/5", 4);
    one(&rubric, false, "Score: 4 out of 5", 4);
    one(&rubric, false, "0", NAN);
    one(&rubric, false, "6", NAN);
    one(&rubric, false, "4/100", NAN);
    one(&rubric, false, "Score: 80", NAN);
    one(&rubric, true, "{\"score\": 5}", 5);
    one(&rubric, true, "{\"score\": 5.0}", 5);
    one(&rubric, true, "{\"score\": 4.5}", NAN);
    one(&rubric, true, "{\"score\": true}", NAN);
    one(&rubric, true, "{\"score\": null}", NAN);
    one(&rubric, true, "[5]", NAN);
}

static int many(const char *text, double v[3])
{
    struct response r = {.text = str_z(text), .finish = FINISH_STOP};
    struct str d;
    return judge_verdict(&joint, false, &r, 3, v, &d, &arena);
}

static void test_joint(void)
{
    double v[3];
    CHECK(many("{\"B\": 10, \"A\": 85, \"C\": 0}", v) == OUTCOME_SCORED && v[0] == 85 &&
              v[1] == 10 && v[2] == 0,
          "a joint verdict, by its labels and not by its order");
    CHECK(many("```json\n{\"A\": 1, \"B\": 2, \"C\": 3}\n```", v) == OUTCOME_SCORED && v[2] == 3,
          "in a code fence");
    CHECK(many("{\"A\": 85, \"C\": 7}", v) == OUTCOME_PARSE_FAILED && v[0] == 85 && isnan(v[1]) &&
              v[2] == 7,
          "one that lacks B has failed, and keeps the others' values");
    CHECK(many("{\"A\": 85, \"B\": 101, \"C\": 7}", v) == OUTCOME_PARSE_FAILED && isnan(v[1]),
          "a value out of range is missing");
    CHECK(many("{\"A\": 1, \"B\": 2, \"C\": 3, \"D\": 4}", v) == OUTCOME_PARSE_FAILED &&
              isnan(v[0]) && isnan(v[1]) && isnan(v[2]),
          "a label that was not shown voids all");
    CHECK(many("{\"a\": 1, \"B\": 2, \"C\": 3}", v) == OUTCOME_PARSE_FAILED && isnan(v[1]),
          "so does a small one");
    CHECK(many("{\"A\": 1, \"B\": 2, \"C\": 3} well done", v) == OUTCOME_PARSE_FAILED,
          "prose behind is no verdict");
    CHECK(many("A: 1\nB: 2\nC: 3", v) == OUTCOME_PARSE_FAILED, "nor are lines");
    CHECK(many("85", v) == OUTCOME_PARSE_FAILED, "nor a lone number");
}

static void test_schema(void)
{
    struct err e = {0};
    for (int k = 0; k < 3; k++) {
        const struct judge_prompt *p = k == 0 ? &rubric : k == 1 ? &joint : &pair;
        struct buf b = {0};
        size_t n = k == 1 ? 3 : k == 2 ? 2 : 1, props = k == 1 ? 3 : 1;
        judge_schema(p, n, &b);
        struct json *v = json_parse(buf_str(&b), &e);
        CHECK(json_size(json_get(v, "properties")) == props &&
                  json_size(json_get(v, "required")) == props &&
                  json_kind(json_get(v, "additionalProperties")) == JSON_BOOL &&
                  !json_bool(json_get(v, "additionalProperties")),
              "the schema of %s: all is required, nothing else allowed",
              judge_protocol_names[p->protocol]);
        json_free(v);
        buf_release(&b);
    }
}

static const char *question(const char *prompt, const struct item *it, const char *answer)
{
    struct judge_prompt p = {.text = str_z(prompt)};
    struct buf b = {0};
    struct str text = str_z(answer);
    judge_question(&p, false, it, &text, 1, &b);
    const char *out = str_dup(&arena, buf_str(&b));
    buf_release(&b);
    return out;
}

static void test_question(void)
{
    struct item it = {.instruction = STR_LIT("Name {answer}"),
                      .input = STR_LIT(""),
                      .reference = STR_LIT("R {input}")};
    CHECK_STR(question("[{instruction}|{reference}|{answer}]", &it, "A {reference} {"),
              "[Name {answer}|R {input}|A {reference} {]",
              "fields are put in once: braces in an answer stay");
    CHECK_STR(question("a{?input}<{input}>{/input}b{?reference}<{reference}>{/reference}{answer}",
                       &it, "x"),
              "ab<R {input}>x", "an optional part stands only where its field is not empty");
    struct judge_prompt p = {.text = STR_LIT("{?answers}[{label}:{answer}]{/answers} {labels}"),
                             .protocol = JUDGE_JOINT};
    struct str three[] = {STR_LIT("x{label}"), STR_LIT(""), STR_LIT("z")};
    struct buf b = {0};
    judge_question(&p, false, &it, three, 3, &b);
    CHECK_STR(b.p, "[A:x{label}][B:][C:z] \"A\", \"B\" and \"C\"",
              "a block stands once for each answer, also for an empty one");
    buf_cut(&b, 0);
    p = (struct judge_prompt){.text = STR_LIT("{b}|{a}|{?a}y{/a}"), .protocol = JUDGE_PAIRWISE};
    judge_question(&p, true, &it, three, 2, &b);
    CHECK(str_starts(buf_str(&b), "|x{label}|y\n\n") && strstr(b.p, "JSON"),
          "two answers, and the line that asks for JSON");
    buf_release(&b);
    CHECK_STR(question("{\"score\": 1} { } {Answer} {answer", &it, "x"),
              "{\"score\": 1} { } {Answer} {answer", "other braces are text");
}

static int load_text(const char *text, struct judge_prompt *p, struct err *e)
{
    char path[300];
    snprintf(path, sizeof path, "%s/prompt.txt", tap_tmp());
    if (file_write_all(path, str_z(text), e))
        return -1;
    return judge_prompt_load(p, str_z(path), &arena, e);
}

static void test_prompt(void)
{
    struct judge_prompt p;
    struct err e = {0};
    for (const struct judge_prompt_text *t = judge_prompts; t->name; t++) {
        CHECK_INT(judge_prompt_load(&p, str_z(t->name), &arena, &e), 0, "prompt %s loads", t->name);
        char hex[65];
        sha256_hex(str_z(t->text), hex);
        CHECK_STR(p.hash, hex, "prompt %s: its hash is of its text", t->name);
    }
    CHECK_INT(load_text("{instruction} {answer}\n", &p, &e), 0, "a file is a prompt");
    CHECK(str_eqz(p.text, "{instruction} {answer}"), "without its last line end");
    CHECK(load_text("{instruction} {anwser}", &p, &e) == -1 && strstr(e.msg, "{anwser}") &&
              e.code == EXIT_USAGE,
          "an unknown field is named: %s", e.msg);
    CHECK(load_text("{instruction}", &p, &e) == -1 && strstr(e.msg, "{answer}"),
          "a prompt without the answer is refused: %s", e.msg);
    CHECK(load_text("{?input}{instruction}{answer}", &p, &e) == -1 && strstr(e.msg, "closed"),
          "an open part is refused: %s", e.msg);
    CHECK(load_text("{instruction}{answer}{/input}", &p, &e) == -1 && strstr(e.msg, "closes"),
          "a close without an open is refused: %s", e.msg);
    CHECK(load_text("#scale 1 5\n#tokens 40\n{instruction} {answer}", &p, &e) == 0 && p.lo == 1 &&
              p.hi == 5 && p.tokens == 40 && str_eqz(p.text, "{instruction} {answer}"),
          "head lines give the scale and the tokens, and are not asked");
    CHECK(load_text("#scale 5 1\n{instruction} {answer}", &p, &e) == -1 && strstr(e.msg, "#scale"),
          "a scale upside down is refused: %s", e.msg);
    CHECK(load_text("{instruction}{?answers}{label}{answer}{/answers}{labels}", &p, &e) == 0 &&
              p.protocol == JUDGE_JOINT,
          "a block of answers makes a joint prompt");
    CHECK(load_text("{instruction}{a}{b}", &p, &e) == 0 && p.protocol == JUDGE_PAIRWISE,
          "{a} and {b} make a pairwise one");
    static const char *const mixed[] = {"{instruction}{a}",
                                        "{instruction}{a}{b}{answer}",
                                        "{instruction}{?answers}{answer}{/answers}",
                                        "{instruction}{answer}{?answers}{label}{/answers}",
                                        "{instruction}{?answers}{label}{answer}{/answers}{answer}",
                                        "{instruction}{label}{answer}",
                                        "{instruction}{answers}"};
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        CHECK(load_text(mixed[i], &p, &e) == -1 && e.code == EXIT_USAGE, "%s is refused: %s",
              mixed[i], e.msg);
    CHECK(load_text("{instruction}{answer}\xff", &p, &e) == -1 && strstr(e.msg, "UTF-8"),
          "bad UTF-8 is refused: %s", e.msg);
    CHECK(judge_prompt_load(&p, STR_LIT("no/such/prompt"), &arena, &e) == -1 &&
              strstr(e.msg, "no/such/prompt"),
          "a missing file is named: %s", e.msg);
}

static void key_of(const struct item *it, const char *answer, const char *judge,
                   const struct judge_prompt *p, char hex[65])
{
    struct str text = str_z(answer);
    judge_key(it, &text, 1, str_z(judge), p, 0, hex);
}

static void test_key(void)
{
    struct item a = {.id = STR_LIT("1"), .instruction = STR_LIT("ab"), .input = STR_LIT("c")};
    struct item b = {.id = STR_LIT("1"), .instruction = STR_LIT("a"), .input = STR_LIT("bc")};
    struct judge_prompt p = {.hash = "h"}, q = {.hash = "i"};
    char base[65], other[65];
    key_of(&a, "x", "j", &p, base);
    key_of(&a, "x", "j", &p, other);
    CHECK_STR(base, other, "the same parts give the same key");
    key_of(&b, "x", "j", &p, other);
    CHECK(strcmp(base, other) != 0, "moving a byte from one part to the next changes the key");
    key_of(&a, "y", "j", &p, other);
    CHECK(strcmp(base, other) != 0, "another answer changes the key");
    key_of(&a, "x", "k", &p, other);
    CHECK(strcmp(base, other) != 0, "another judge changes the key");
    key_of(&a, "x", "j", &q, other);
    CHECK(strcmp(base, other) != 0, "another prompt changes the key");
}

static struct judge_summary sum_up(const struct score *v, size_t n, const int32_t *cluster)
{
    struct judge_sums x = {0};
    struct judge_summary s;
    struct err e = {0};
    for (size_t i = 0; i < n; i++)
        judge_sums_add(&x, &v[i], cluster ? cluster[i] : (int32_t)i, 0);
    CHECK_INT(judge_sums_end(&x, 0, 100, &s, &e), 0, "scores are summed up %s", e.msg);
    return s;
}

static void test_summary(void)
{
    static const int32_t two[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 3};
    struct score v[10] = {0};
    for (int i = 0; i < 10; i++)
        v[i].value = 10.0 * i;
    v[8].outcome = OUTCOME_PARSE_FAILED;
    v[9].outcome = OUTCOME_REFUSED;
    v[8].value = v[9].value = NAN;
    struct judge_summary s = sum_up(v, 10, NULL);
    CHECK_NEAR(s.mean, 35, 1e-12, "failures are not in the mean");
    CHECK_NEAR(s.lo_all, 28, 1e-12, "worst case: each failure 0");
    CHECK_NEAR(s.hi_all, 48, 1e-12, "best case: each failure 100");
    CHECK_INT(s.count[OUTCOME_SCORED], 8, "scored are counted");
    CHECK_INT(s.count[OUTCOME_PARSE_FAILED] + s.count[OUTCOME_REFUSED], 2, "and the failures");
    /* mean 35, sd of 0..70 in steps of 10 = 24.4949, / sqrt(8) * t(7) 2.364624 */
    CHECK_NEAR(s.lo, 35 - 2.364624 * 24.494897 / sqrt(8), 1e-3, "95%% interval, lower end");
    CHECK_NEAR(s.hi, 35 + 2.364624 * 24.494897 / sqrt(8), 1e-3, "95%% interval, upper end");
    s = sum_up(v, 10, two);
    CHECK(isnan(s.lo) && s.why, "two clusters give no interval, and the reason: %s",
          s.why ? s.why : "none");
    s = sum_up(v + 8, 2, NULL);
    CHECK(isnan(s.mean) && s.lo_all == 0 && s.hi_all == 100,
          "nothing scored: no mean, bounds 0..100");
}

/* An item at a time gives what the statistics over arrays give. */
static void test_sums(void)
{
    enum { N = 40000 };
    double *value = mem_array(3 * N, sizeof *value), *length = value + N, *one = length + N;
    int32_t *cluster = mem_array(N, sizeof *cluster), *dense = mem_array(N, sizeof *dense);
    struct rng r = rng_make(1, "sums", 0);
    struct judge_sums x = {0};
    struct judge_summary s;
    struct err e = {0};
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        int32_t c = (int32_t)(rng_u64(&r) % 300);
        struct score v = {.value = (double)(rng_u64(&r) % 101)};
        double len = floor(v.value / 2 + (double)(rng_u64(&r) % 400));
        if (c % 3 == 0) /* clusters without any score */
            v = (struct score){.value = NAN, .outcome = OUTCOME_REFUSED};
        judge_sums_add(&x, &v, c, len);
        if (c % 3 == 0)
            continue;
        value[n] = v.value;
        length[n] = len;
        one[n] = 1;
        cluster[n++] = c;
    }
    for (size_t i = 0; i < n; i++)
        dense[i] = cluster[i] - cluster[i] / 3 - 1;
    struct estimate want = stats_ratio(value, one, dense, n, 0.95);
    CHECK_INT(judge_sums_end(&x, 0, 100, &s, &e), 0, "40,000 scores are summed up");
    CHECK_INT(s.count[OUTCOME_SCORED], (int64_t)n, "%zu of them scored", n);
    CHECK_NEAR(s.mean, want.value, 1e-12, "their mean");
    CHECK_NEAR(s.lo, want.lo, 1e-12, "its interval over clusters, lower end");
    CHECK_NEAR(s.hi, want.hi, 1e-12, "upper end");
    CHECK_NEAR(s.pearson, stats_pearson(value, length, n), 1e-12, "Pearson of length and score");
    CHECK_NEAR(s.spearman, stats_spearman(value, length, n), 1e-12, "Spearman, with ties");
    free(value);
    free(cluster);
    free(dense);
}

int main(void)
{
    test_scored();
    test_failed();
    test_classes();
    test_pairwise();
    test_rubric();
    test_joint();
    test_schema();
    test_question();
    test_prompt();
    test_key();
    test_summary();
    test_sums();
    file_remove_tree(tap_tmp(), &(struct err){0});
    arena_release(&arena);
    return tap_done();
}
