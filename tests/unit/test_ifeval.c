/* test_ifeval: verdicts on instructions against those of the public checker, item by item
 * (tests/golden/ifeval.jsonl, made by tests/golden/make_ifeval.py), and what it has no say in.
 */
#include <math.h>

#include "base/json.h"
#include "base/lower.h"
#include "base/map.h"
#include "base/stream.h"
#include "formats/constraint.h"
#include "scoring/ifeval_language.h"
#include "scoring/ifeval_report.h"
#include "scoring/ifeval_text.h"
#include "scoring/answers.h"
#include "tests/tap.h"

#define GOLDEN "tests/golden/ifeval.jsonl"

struct agreement {
    int64_t n, same, reported;
};

/* One instruction over all texts; want: a digit a text. */
static void compare(const struct json *texts, const struct json *row, struct agreement *by_type,
                    struct map *types, struct agreement *tier)
{
    struct arena a = {0};
    struct buf constraint = {0};
    struct str want = json_str(json_get(row, "v")),
               id = json_str(json_get(json_get(row, "c"), "id"));
    size_t type = map_add(types, id, 0, NULL);
    json_write(json_get(row, "c"), &constraint);
    for (size_t i = 0; i < json_size(texts); i++) {
        struct ifeval_verdict v;
        ifeval_verdict(buf_str(&constraint), json_str(json_at(texts, i)), &v, &a);
        char have = v.tier == TIER_UNSUPPORTED ? '-' : (char)('0' + 2 * v.strict + v.loose);
        bool same = i < want.n && have == want.p[i];
        struct agreement *both[] = {&by_type[type], &tier[v.tier]};
        for (int k = 0; k < 2; k++) {
            both[k]->n++;
            both[k]->same += same;
        }
        if (!same && v.tier == TIER_EXACT && by_type[type].reported++ < 3) {
            struct buf text = {0};
            json_write(json_at(texts, i), &text);
            printf("# %s is %c, want %c: %.300s\n", constraint.p, have, want.p[i], text.p);
            buf_release(&text);
        }
    }
    buf_release(&constraint);
    arena_release(&a);
}

static void test_reference(void)
{
    struct err e = {0};
    struct buf line = {0};
    struct agreement by_type[64] = {{0}}, tier[3] = {{0}};
    struct map types = {0};
    struct json *head = NULL;
    struct json *rows[1024];
    size_t n = 0;
    struct stream *s = stream_open(GOLDEN, &e);
    while (s && stream_line(s, &line, 1 << 24, &e) == 1 && n < 1024) {
        struct json *row = json_parse_lone(buf_str(&line), &e);
        if (!head)
            head = row;
        else
            rows[n++] = row;
    }
    const struct json *texts = json_get(head, "texts");
    CHECK(n > 100 && json_size(texts) > 100, "the golden verdicts are there: %zu x %zu", n,
          json_size(texts));
    for (size_t i = 0; i < n; i++)
        compare(texts, rows[i], by_type, &types, tier);
    CHECK_INT(types.n, 25, "25 types of instructions are tried");
    for (size_t k = 0; k < types.n; k++)
        printf("# %-48.*s %lld of %lld\n", STR_ARG(types.key[k]), (long long)by_type[k].same,
               (long long)by_type[k].n);
    CHECK(tier[TIER_EXACT].n > 10000 && tier[TIER_EXACT].same == tier[TIER_EXACT].n,
          "exact tier: %lld of %lld verdicts are the public checker's",
          (long long)tier[TIER_EXACT].same, (long long)tier[TIER_EXACT].n);
    double share = (double)tier[TIER_APPROXIMATED].same / (double)tier[TIER_APPROXIMATED].n;
    CHECK(share > 0.97, "approximated tier: %lld of %lld (%.2f%%) are",
          (long long)tier[TIER_APPROXIMATED].same, (long long)tier[TIER_APPROXIMATED].n,
          100 * share);
    CHECK_INT(tier[TIER_UNSUPPORTED].n, 0, "none of these is unsupported");
    for (size_t i = 0; i < n; i++)
        json_free(rows[i]);
    json_free(head);
    map_release(&types);
    buf_release(&line);
    stream_close(s);
}

static struct ifeval_verdict verdict(const char *constraint, const char *text, struct arena *a)
{
    struct ifeval_verdict v;
    ifeval_verdict(str_z(constraint), str_z(text), &v, a);
    return v;
}

static void test_unsupported(void)
{
    static const char *const bad[] = {
        "{\"id\":\"punctuation:no_semicolon\"}",
        "{\"id\":\"\"}",
        "{}",
        "not json",
        "{\"id\":\"keywords:existence\"}",
        "{\"id\":\"keywords:existence\",\"keywords\":[]}",
        "{\"id\":\"keywords:existence\",\"keywords\":[\"(\"]}",
        "{\"id\":\"keywords:frequency\",\"keyword\":\"x\",\"relation\":\"at "
        "most\",\"frequency\":1}",
        "{\"id\":\"keywords:frequency\",\"keyword\":\"x\",\"relation\":\"at least\"}",
        "{\"id\":\"keywords:letter_frequency\",\"letter\":\"ab\",\"let_relation\":\"at "
        "least\",\"let_frequency\":1}",
        "{\"id\":\"length_constraints:number_words\",\"relation\":\"at least\",\"num_words\":1.5}",
        "{\"id\":\"length_constraints:nth_paragraph_first_word\",\"num_paragraphs\":1,"
        "\"nth_paragraph\":0,\"first_word\":\"a\"}",
        "{\"id\":\"language:response_language\",\"language\":\"tlh\"}",
    };
    struct arena a = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ifeval_verdict v = verdict(bad[i], "x, y", &a);
        CHECK(v.tier == TIER_UNSUPPORTED && !v.strict && !v.loose && v.why.n,
              "unsupported, never a pass: %s (%.*s)", bad[i], STR_ARG(v.why));
    }
    struct ifeval_verdict v = verdict("{\"id\":\"keywords:letter_frequency\",\"letter\":\"#\","
                                      "\"let_relation\":\"at least\",\"let_frequency\":2}",
                                      "# a #", &a);
    CHECK(v.tier == TIER_EXACT && v.strict, "a letter that is none counts as what it is");
    v = verdict("{\"id\":\"punctuation:no_comma\"}", "\xff\xfe no", &a);
    CHECK(v.strict, "bytes that are no UTF-8 are answered, too");
    arena_release(&a);
}

static void test_items(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct json *row = json_parse(
        STR_LIT("{\"key\":7,\"prompt\":\"Do it\",\"instruction_id_list\":[\"a:b\",\"c:d\"],"
                "\"kwargs\":[{\"x\":null,\"y\":3},{}]}"),
        &e);
    struct item it = {0};
    CHECK_INT(constraints_row(row, &it, &a, &e), 0, "a row of the data is an item");
    CHECK(str_eqz(it.id, "7") && str_eqz(it.instruction, "Do it") && it.constraints.n == 2 &&
              str_eqz(it.constraints.v[0], "{\"id\":\"a:b\",\"y\":3}") &&
              str_eqz(it.constraints.v[1], "{\"id\":\"c:d\"}"),
          "with its arguments beside each id, nulls dropped");
    json_free(row);
    row = json_parse(STR_LIT("{\"key\":7,\"prompt\":\"p\",\"instruction_id_list\":[\"a\"],"
                             "\"kwargs\":[]}"),
                     &e);
    CHECK_INT(constraints_row(row, &it, &a, &e), -1, "ids without their arguments: %s", e.msg);
    json_free(row);
    const char *path = tap_data("eval/ifeval_input_data.jsonl");
    struct items items;
    if (!path) {
        SKIP("eval/ifeval_input_data.jsonl");
    } else {
        int64_t n = 0, tiers[3] = {0};
        CHECK_INT(items_load(&items, path, &e), 0, "the IFEval data load as they are %s", e.msg);
        for (size_t i = 0; i < items.n; i++)
            for (size_t k = 0; k < items.v[i].constraints.n; k++) {
                struct ifeval_verdict v;
                ifeval_verdict(items.v[i].constraints.v[k], STR_LIT("x"), &v, &a);
                tiers[v.tier]++;
                n++;
            }
        CHECK_INT(items.n, 541, "541 prompts");
        CHECK(n == 834 && tiers[TIER_EXACT] == 662 && tiers[TIER_APPROXIMATED] == 172,
              "834 instructions: 662 exact, 172 approximated, %lld unsupported",
              (long long)tiers[TIER_UNSUPPORTED]);
        items_release(&items);
    }
    arena_release(&a);
}

static double value(const char *scorer, struct strs constraints, const char *text, int *outcome,
                    double *weight)
{
    struct arena a = {0};
    struct err e = {0};
    struct item it = {.id = STR_LIT("i"), .constraints = constraints};
    struct response r = {.item = it.id, .text = str_z(text)};
    struct score out = {0};
    scorer_find(str_z(scorer), &e)->score(&it, &r, &out, &a);
    *outcome = out.outcome;
    *weight = score_weight(&out);
    arena_release(&a);
    return out.value;
}

static void test_scorers(void)
{
    struct str both[] = {STR_LIT("{\"id\":\"punctuation:no_comma\"}"),
                         STR_LIT("{\"id\":\"startend:quotation\"}"),
                         STR_LIT("{\"id\":\"new:one\"}")};
    struct strs two = {both, 2}, three = {both, 3};
    int outcome;
    double w;
    CHECK_NEAR(value("ifeval", two, "no", &outcome, &w), 0, 0, "one of two followed is no prompt");
    CHECK_NEAR(value("ifeval_inst", two, "no", &outcome, &w), 0.5, 0, "but half the instructions");
    CHECK(w == 2, "which weigh as many as they are");
    CHECK_NEAR(value("ifeval", two, "Sure:\n\"no\"", &outcome, &w), 0, 0,
               "a first line is strict's");
    CHECK_NEAR(value("ifeval_loose", two, "Sure:\n\"no\"", &outcome, &w), 1, 0, "not loose's");
    CHECK_NEAR(value("ifeval_inst_loose", two, "Sure, yes:\n\"no\"", &outcome, &w), 1, 0,
               "each instruction takes its own variant");
    CHECK_NEAR(value("ifeval_inst_loose", (struct strs){both + 1, 1}, "Sure:\n*\"no\"*\nBye",
                     &outcome, &w),
               1, 0, "the eighth variant: both lines off, and every star");
    CHECK_NEAR(
        value("ifeval_inst_loose", (struct strs){both + 1, 1}, "Sure:\nx\"no\"\nBye", &outcome, &w),
        0, 0, "but nothing else");
    CHECK(isnan(value("ifeval", three, "\"no\"", &outcome, &w)) && outcome == OUTCOME_NOT_RUN,
          "an unsupported instruction leaves the prompt without a score");
    CHECK_NEAR(value("ifeval_inst", three, "\"no, no\"", &outcome, &w), 0.5, 0,
               "the instructions beside it keep theirs");
    CHECK(w == 2, "and weigh as many as are checked");
    CHECK(isnan(value("ifeval_inst", (struct strs){both + 2, 1}, "no", &outcome, &w)) &&
              outcome == OUTCOME_NOT_RUN,
          "alone it leaves none");
    CHECK_NEAR(value("ifeval", two, "<think>a, b</think>\n\"no\"", &outcome, &w), 1, 0,
               "a closed think block is no part of the answer");
    CHECK(value("ifeval", two, "<think>\"no\"", &outcome, &w) == 0 && outcome == OUTCOME_SCORED &&
              value("ifeval_inst_loose", two, "<think>\"no\"", &outcome, &w) == 0,
          "an open one never comes to an answer, so nothing is followed");
    CHECK_NEAR(value("ifeval_inst_loose", two, " \n", &outcome, &w), 0, 0,
               "a blank follows nothing");
}

static void test_report(void)
{
    struct arena a = {0};
    struct str c[] = {STR_LIT("{\"id\":\"punctuation:no_comma\"}"),
                      STR_LIT("{\"id\":\"startend:quotation\"}"), STR_LIT("{\"id\":\"new:one\"}")};
    struct item v[] = {
        {.id = STR_LIT("a"), .instruction = STR_LIT("p, q"), .constraints = {c, 2}},
        {.id = STR_LIT("b"), .instruction = STR_LIT("\"p\""), .constraints = {c + 1, 2}},
        {.id = STR_LIT("c"), .instruction = STR_LIT("p"), .constraints = {c, 1}},
    };
    struct items items = {v, 3, {0}};
    struct response r[] = {{.item = STR_LIT("a"), .text = STR_LIT("\"x\"")},
                           {.item = STR_LIT("b"), .text = STR_LIT("\"x\"")}};
    struct responses responses = {r, 2, {0}, {0}};
    index_add(&responses.index, r[0].item, 0);
    index_add(&responses.index, r[1].item, 1);
    struct str note, inst;
    json_free(
        ifeval_report(scorer_find(STR_LIT("ifeval_inst"), NULL), &items, &responses, &inst, &a));
    struct json *o =
        ifeval_report(scorer_find(STR_LIT("ifeval"), NULL), &items, &responses, &note, &a);
    struct buf b = {0};
    CHECK_STR(str_dup(&a, note),
              "of 3 prompts 1 are checked exactly, 0 approximately, 1 are unsupported and have no "
              "value, 1 without an answer; without answering: empty 0.0000, the prompt echoed "
              "0.0000, a constant sentence 0.0000",
              "the note of a metric of prompts");
    CHECK_STR(
        str_dup(&a, inst),
        "of 5 instructions 3 are checked exactly, 0 approximately, 1 are unsupported and have "
        "no value, 1 without an answer; without answering: empty 0.0000, the prompt echoed 0.3333, "
        "a constant sentence 0.3333",
        "and of one of instructions");
    struct score scored[3];
    struct score_counts n, none;
    struct err e = {0};
    CHECK_INT(
        score_all(scorer_find(STR_LIT("ifeval_inst"), &e), &items, &responses, scored, &n, &a, &e),
        0, "the items are scored");
    CHECK(n.weight == 3 && n.missing_weight == 1 && n.unchecked == 0,
          "over the instructions that the note and the report count: %g, %g missing", n.weight,
          n.missing_weight);
    CHECK_INT(score_all(scorer_find(STR_LIT("ifeval"), &e), &items, &responses, scored, &n, &a, &e),
              0, "as prompts too");
    CHECK(n.weight == 1 && n.missing_weight == 2 && n.unchecked == 1,
          "where what can't be checked is told from what is not answered");
    struct items bare = {&(struct item){.id = STR_LIT("a")}, 1, {0}};
    CHECK(score_all(scorer_find(STR_LIT("ifeval"), &e), &bare, &(struct responses){0}, scored,
                    &none, &a, &e) &&
              strstr(e.msg, "has instructions to check"),
          "items without instructions are refused: %s", e.msg);
    json_write(o, &b);
    CHECK_NEAR(n.sum / n.weight, json_num(json_get(json_get(o, "supported"), "prompt_strict")), 0,
               "the value is the report's of what is supported");
    CHECK(str_find(buf_str(&b), STR_LIT("\"tiers\":{\"exact\":4,\"approximated\":0,"
                                        "\"unsupported\":1}")) >= 0,
          "tiers are counted");
    const struct json *all = json_get(o, "all"), *sup = json_get(o, "supported");
    CHECK_NEAR(json_num(json_get(all, "prompt_strict")), 1 / 3., 1e-15,
               "all: an unsupported instruction or a missing answer fails its prompt");
    CHECK_NEAR(json_num(json_get(all, "inst_strict")), 3 / 5., 1e-15, "and itself");
    CHECK(json_int(json_get(sup, "prompts"), 0) == 1 &&
              json_int(json_get(sup, "instructions"), 0) == 3 &&
              json_num(json_get(sup, "prompt_strict")) == 1,
          "supported: only what has a verdict and an answer");
    struct response thinking[] = {{.item = STR_LIT("a"), .text = STR_LIT("\"x\"")},
                                  {.item = STR_LIT("c"), .text = STR_LIT("<think>on and on")}};
    struct responses open = {thinking, 2, {0}, {0}};
    index_add(&open.index, thinking[0].item, 0);
    index_add(&open.index, thinking[1].item, 1);
    struct json *ran_on =
        ifeval_report(scorer_find(STR_LIT("ifeval"), NULL), &items, &open, &note, &a);
    sup = json_get(ran_on, "supported");
    CHECK(json_int(json_get(sup, "prompts"), 0) == 2 &&
              json_num(json_get(sup, "prompt_strict")) == 0.5 &&
              json_num(json_get(json_get(ran_on, "exact"), "prompt_loose")) == 0.5,
          "a model that runs on in thought is not spared its prompts");
    index_release(&open.index);
    json_free(ran_on);
    const struct json *base = json_get(o, "baselines");
    CHECK_NEAR(json_num(json_get(json_get(base, "empty"), "inst_loose")), 0, 0, "empty: nothing");
    CHECK_NEAR(json_num(json_get(json_get(base, "echo"), "inst_strict")), 2 / 5., 1e-15,
               "echo: the prompts themselves are scored");
    CHECK_NEAR(json_num(json_get(json_get(base, "constant"), "inst_strict")), 2 / 5., 1e-15,
               "constant: some instructions are followed by saying nothing");
    buf_release(&b);
    json_free(o);
    index_release(&responses.index);
    arena_release(&a);
}

static void test_parts(void)
{
    struct arena a = {0};
    CHECK(str_eqz(py_lower(STR_LIT("\xC3\x84\xCE\xA9\xD0\x96 A\xC4\xB0"), &a),
                  "\xC3\xA4\xCF\x89\xD0\xB6 ai\xCC\x87"),
          "lower case of Latin, Greek, Cyrillic");
    CHECK(lower_of(0x212A) == 'k' && lower_of(0x1E9E) == 0xDF && lower_of(0x4E00) == 0x4E00,
          "single letters");
    CHECK_INT(ifeval_sentences(STR_LIT("")), 0, "no sentence");
    CHECK_INT(ifeval_sentences(STR_LIT("Mr. A. Smith came. He left!  \"Why?\" Nobody knows")), 4,
              "abbreviations and initials do not end a sentence");
    CHECK(ifeval_json(STR_LIT("[1, NaN]")) && !ifeval_json(STR_LIT("[1,]")) &&
              !ifeval_json(STR_LIT("\"\x01\"")) && !ifeval_json(STR_LIT("{\"a\" 1}")),
          "JSON as Python takes it");
    char deep[4000];
    memset(deep, '[', sizeof deep);
    CHECK(!ifeval_json((struct str){deep, sizeof deep}), "depth is bounded");
    arena_release(&a);
}

int main(void)
{
    test_reference();
    test_unsupported();
    test_items();
    test_scorers();
    test_report();
    test_parts();
    return tap_done();
}
