/* Comparison: what is paired, what is refused, and the two verdicts. */
#include <stdlib.h>

#include "base/file.h"
#include "base/rng.h"
#include "formats/item.h"
#include "formats/record.h"
#include "pipelines/comparable.h"
#include "pipelines/compare.h"
#include "pipelines/result.h"
#include "tests/tap.h"

static struct arena arena;

/* A metric of n items in clusters of `per`; value = base + effect + noise of the item. */
static struct metric make_metric(const char *name, size_t n, size_t per, double effect,
                                 double noise, uint64_t seed)
{
    struct metric m = {.name = str_z(name),
                       .task = STR_LIT("documents"),
                       .unit = STR_LIT("bits/byte"),
                       .primary = true};
    m.ids = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m.cluster = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m.num = (struct f64s){arena_array(&arena, n, 8), n};
    m.den = (struct f64s){arena_array(&arena, n, 8), n};
    struct rng shared = rng_make(1, "item", 0), own = rng_make(seed, "own", 0);
    double sum = 0, den = 0;
    for (size_t i = 0; i < n; i++) {
        m.ids.v[i] = str_printf(&arena, "d%zu", i);
        m.cluster.v[i] = str_printf(&arena, "c%zu", i / per);
        m.den.v[i] = 10 + (double)(i % 7);
        m.num.v[i] =
            m.den.v[i] * (1 + effect + 0.3 * rng_normal(&shared) + noise * rng_normal(&own));
        sum += m.num.v[i];
        den += m.den.v[i];
    }
    m.value = sum / den;
    m.lo = m.value - 0.1;
    m.hi = m.value + 0.1;
    m.n = (int64_t)n;
    m.clusters = (int64_t)((n + per - 1) / per);
    static struct str identity[] = {
        {"rule=each", 9}, {"documents=aaaa", 14}, {"precision=fp32", 14}};
    m.identity = (struct strs){identity, 3};
    return m;
}

static struct result make_result(const char *run, const char *group, int64_t seed, struct metric m)
{
    struct metric *v = arena_alloc(&arena, sizeof *v);
    *v = m;
    struct result r = {.run = str_z(run), .group = str_z(group), .seed = seed};
    r.cost_train = r.cost_total = NAN;
    r.metrics = (struct list){v, 1};
    return r;
}

static const struct compare_options plain = {.level = 0.95};

static void pairing(void)
{
    struct err e;
    struct comparison c;
    struct result r[3] = {
        make_result("a", "base", 1, make_metric("bits_byte", 400, 4, 0, 0.02, 1)),
        make_result("b", "base", 2, make_metric("bits_byte", 400, 4, 0, 0.02, 2)),
        make_result("c", "slow", 1, make_metric("bits_byte", 400, 4, 0.05, 0.02, 3)),
    };
    CHECK_INT(compare_runs(&c, r, 3, &plain, &e), 0, "three runs compare");
    const struct delta *d = c.metric[0].delta;
    CHECK_INT(d[1].verdict, VERDICT_NOT_SEEN, "A/A: no difference seen");
    CHECK_INT(d[2].verdict, VERDICT_WORSE, "A/B: a loss that is higher is worse");
    CHECK_NEAR(d[2].est.value, 0.05, 0.01, "the difference is the planted one");
    CHECK(d[2].est.hi - d[2].est.lo < 0.02, "pairing takes the items' own spread out (sd 0.3)");
    CHECK(c.metric[0].nrecipes == 2 && c.metric[0].recipe[0].same &&
              c.metric[0].recipe[0].verdict == VERDICT_NOT_ESTIMABLE,
          "the baseline's own group: its noise, no verdict");
    CHECK_INT(c.metric[0].recipe[1].verdict, VERDICT_NOT_ESTIMABLE,
              "recipes with 1 seed against 2: not estimable");
    CHECK(c.metric[0].recipe[1].needed > 1, "and the seeds that would settle it are said");
    compare_release(&c);

    /* Other order of the items: the same answer. */
    struct metric *m = r[2].metrics.v, turned = *m;
    size_t n = m->ids.n;
    turned.ids.v = arena_array(&arena, n, sizeof(struct str));
    turned.cluster.v = arena_array(&arena, n, sizeof(struct str));
    turned.num.v = arena_array(&arena, n, 8);
    turned.den.v = arena_array(&arena, n, 8);
    for (size_t i = 0; i < n; i++) {
        turned.ids.v[i] = m->ids.v[n - 1 - i];
        turned.cluster.v[i] = m->cluster.v[n - 1 - i];
        turned.num.v[i] = m->num.v[n - 1 - i];
        turned.den.v[i] = m->den.v[n - 1 - i];
    }
    *m = turned;
    compare_runs(&c, r, 3, &plain, &e);
    CHECK_NEAR(c.metric[0].delta[2].est.value, 0.05, 0.01, "items are paired by id, not by place");
    compare_release(&c);

    turned.num.v[3] = NAN;
    compare_runs(&c, r, 3, &plain, &e);
    CHECK_INT(c.metric[0].delta[2].est.n, n - 1, "an item without a value leaves the pair");
    compare_release(&c);

    turned.ids.v[5] = turned.ids.v[4];
    compare_runs(&c, r, 3, &plain, &e);
    CHECK(c.metric[0].delta[2].refused && strstr(c.metric[0].delta[2].refused, "is there twice"),
          "an id that is there twice is not paired with anything");
    compare_release(&c);
}

/* Items that one seed has no value for leave all: else a recipe is worse for having easier items. */
static void gaps(void)
{
    struct err e;
    struct comparison c;
    struct result r[4];
    struct buf text = {0};
    for (int i = 0; i < 4; i++)
        r[i] = make_result(arena_printf(&arena, "r%d", i), i < 2 ? "base" : "slow", i % 2 + 1,
                           make_metric("bits_byte", 60, 1, i < 2 ? 0 : 0.05, 0, 1));
    struct metric *m = r[3].metrics.v;
    for (int i = 0; i < 20; i++)
        m->num.v[i] = NAN;
    metric_finish(m, &arena);
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_NEAR(c.metric[0].recipe[c.metric[0].nrecipes - 1].effect, 0.05, 1e-9,
               "recipes are compared over the items that all runs have");
    compare_print(&c, TABLE_TEXT, -1, &text, &e);
    CHECK(strstr(text.p, "r3: 20 of 60 items have no value"), "and it is said what is left out");
    compare_release(&c);
    buf_release(&text);
    m->unit = STR_LIT("share");
    for (int i = 0; i < 60; i++) {
        m->num.v[i] = i < 20 ? NAN : i % 2;
        m->den.v[i] = 1;
    }
    double low, high;
    CHECK(compare_range(m, &low, &high, &arena) && low == 20.0 / 60 && high == 40.0 / 60,
          "a share with them lies between all wrong and all right");
    metric_finish(m, &arena);
    compare_runs(&c, r + 3, 1, &plain, &e);
    compare_print(&c, TABLE_CSV, -1, &text, &e);
    CHECK(strstr(text.p, ",p_holm,verdict,lacking,lowest,highest\r\n") &&
              strstr(text.p, ",baseline,20,0.33333333333333331,0.66666666666666663\r\n"),
          "and so says the CSV");
    compare_release(&c);
    buf_release(&text);
}

/* bits_byte is of the text, the oracle of text and end: 60 texts of 10 bits over theirs and 3 for
 * each end. */
static void floors(void)
{
    struct err e;
    struct comparison c;
    struct metric m[3];
    double oracle = 0, bytes = 0;
    for (int i = 0; i < 3; i++)
        m[i] = make_metric(i == 0   ? "bits_byte"
                           : i == 1 ? "excess_bits_byte"
                                    : "bits_end",
                           60, 1, 0, 0, 1);
    for (size_t i = 0; i < 60; i++) {
        oracle += m[0].num.v[i] - 10 + 3;
        bytes += m[0].den.v[i];
        m[1].num.v[i] = 10;
        m[2].num.v[i] = 3;
        m[2].den.v[i] = 1;
    }
    m[1].value = 600 / bytes;
    m[2].value = 3;
    struct result r[2] = {make_result("a", "base", 1, m[0]), make_result("b", "base", 2, m[0])};
    r[0].metrics = r[1].metrics = (struct list){m, 3};
    CHECK_INT(compare_runs(&c, r, 2, &plain, &e), 0, "three metrics of one text compare");
    for (size_t k = 0; k < c.nmetrics; k++)
        if (str_eqz(c.metric[k].name, "bits_byte")) {
            CHECK_NEAR(c.metric[k].floor, oracle / bytes, 1e-9, "the floor is of text and end");
            CHECK_NEAR(c.metric[k].delta[1].above, 600 / oracle, 1e-9,
                       "and so is the distance from it");
        }
    compare_release(&c);
}

static void refusing(void)
{
    struct err e;
    struct comparison c;
    struct result r[2] = {
        make_result("a", "base", 1, make_metric("bits_byte", 60, 1, 0, 0.02, 1)),
        make_result("b", "base", 2, make_metric("bits_byte", 60, 1, 0, 0.02, 2)),
    };
    struct metric *m = r[1].metrics.v;
    static struct str other[] = {{"rule=each", 9}, {"documents=bbbb", 14}, {"precision=fp32", 14}};
    struct strs keep = m->identity;
    m->identity = (struct strs){other, 3};
    compare_runs(&c, r, 2, &plain, &e);
    CHECK_STR(c.metric[0].delta[1].refused, "documents differs: bbbb against aaaa",
              "other text is refused");
    CHECK(c.refused == 1 && c.compared == 0, "and counted");
    compare_release(&c);
    struct compare_options allow = {.level = 0.95, .allow = true};
    compare_runs(&c, r, 2, &allow, &e);
    CHECK(c.metric[0].delta[1].allowed && c.compared == 1, "--allow compares and marks");
    compare_release(&c);
    m->identity = (struct strs){other, 1};
    compare_runs(&c, r, 2, &plain, &e);
    CHECK_STR(c.metric[0].delta[1].refused, "documents differs: nothing against aaaa",
              "a setting that one side lacks is refused");
    compare_release(&c);
    m->identity = keep;
    m->den.v[5] += 1;
    compare_runs(&c, r, 2, &allow, &e);
    CHECK(strstr(c.metric[0].delta[1].refused, "denominator of item d5"),
          "other denominators are refused even with --allow");
    compare_release(&c);
    m->den.v[5] -= 1;
    m->ids.v[7] = STR_LIT("x");
    compare_runs(&c, r, 2, &plain, &e);
    CHECK(strstr(c.metric[0].delta[1].refused, "items differ: ") &&
              strstr(c.metric[0].delta[1].refused, "missing in the baseline"),
          "other items are refused: %s", c.metric[0].delta[1].refused);
    compare_release(&c);
    struct compare_options nobody = {.level = 0.95, .baseline = "zzz"};
    CHECK_INT(compare_runs(&c, r, 2, &nobody, &e), -1, "an unknown baseline: %s", e.msg);
    compare_release(&c);
}

static void recipes(void)
{
    struct err e;
    struct comparison c;
    struct result r[6];
    /* three seeds an arm, seed noise 0.01 (a shift of all items), effect 0.2 */
    const double shift[] = {0.00, 0.01, -0.01, 0.20, 0.21, 0.19};
    for (int i = 0; i < 6; i++)
        r[i] = make_result(i < 3 ? "base" : "new", i < 3 ? "base" : "new", i,
                           make_metric("bits_byte", 100, 1, shift[i], 0, 1));
    compare_runs(&c, r, 6, &plain, &e);
    const struct recipe *x = &c.metric[0].recipe[1];
    CHECK_INT(x->verdict, VERDICT_WORSE, "three seeds an arm: estimable, and worse");
    CHECK_NEAR(x->est.df, 4, 0, "pooled over both arms: df 4");
    CHECK_NEAR(x->sd, 0.01, 1e-9, "the pooled sd");
    compare_release(&c);
    struct compare_options borrow = {.level = 0.95, .seed_sd = "base"};
    compare_runs(&c, r, 4, &borrow, &e);
    x = &c.metric[0].recipe[1];
    CHECK(x->why == NULL && x->sd_df == 2,
          "one seed against three with a borrowed sd is estimable");
    compare_release(&c);
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].verdict, VERDICT_NOT_ESTIMABLE, "and without it is not");
    struct buf out = {0};
    compare_print(&c, TABLE_TEXT, -1, &out, &e);
    CHECK(strstr(out.p, "not estimable, 1 seed against 3"), "the table says why");
    buf_cut(&out, 0);
    compare_print(&c, TABLE_MD, -1, &out, &e);
    CHECK(strstr(out.p, "| run "), "Markdown has tables");
    buf_cut(&out, 0);
    compare_print(&c, TABLE_CSV, -1, &out, &e);
    CHECK(strstr(out.p, "metric,task,unit,scope,run"), "CSV has a head");
    struct json *j = compare_json(&c);
    CHECK_INT(json_size(json_get(j, "metrics")), 1, "JSON has the metrics");
    json_free(j);
    buf_release(&out);
    compare_release(&c);
}

/* Every row of the table: equal settings compare; another value, an unstated and an unknown one of
 * each key are refused by the key's name. */
static void comparability(void)
{
    static const char *const rows[] = {
        "nll_token windows slice vocab context window precision",
        "nll_token documents documents rule precision vocab",
        "bits_byte documents documents rule precision",
        "excess_bits_byte documents documents rule precision",
        "bits_end documents documents rule precision",
        "acc_exact instruct items template decoding scorer scorer_version",
        "f1_overlap instruct items template decoding scorer scorer_version",
        "acc hellaswag task items encoding shots scorer scorer_version",
        "acc_norm_char hellaswag task items encoding shots scorer scorer_version",
        "acc_norm_byte hellaswag task items encoding shots scorer scorer_version",
        "acc_norm_token hellaswag task items encoding shots scorer scorer_version",
        "acc_greedy hellaswag task items encoding shots scorer scorer_version",
        "nats_answer hellaswag task items encoding shots scorer scorer_version",
        "ifeval_prompt_strict ifeval items template decoding scorer scorer_version",
        "ifeval_prompt_loose ifeval items template decoding scorer scorer_version",
        "ifeval_inst_strict ifeval items template decoding scorer scorer_version",
        "ifeval_inst_loose ifeval items template decoding scorer scorer_version",
        "judge_single instruct items template decoding protocol prompt judge served",
        "judge_joint p-pass-1 panel pass served"};
    size_t n = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < n; i++) {
        struct str rest = str_z(rows[i]), name = str_cut(&rest, ' '), task = str_cut(&rest, ' ');
        struct metric a = {.name = name, .task = task, .ids = {&name, 1}}, b;
        struct str key[9], va[9], vb[9];
        size_t keys = 0;
        while (rest.n)
            key[keys++] = str_cut(&rest, ' ');
        for (size_t k = 0; k < keys; k++)
            va[k] = vb[k] = str_printf(&arena, "%.*s=x", STR_ARG(key[k]));
        a.identity = (struct strs){va, keys};
        b = a;
        b.identity.v = vb;
        CHECK(comparable_refusal(&a, &b, &arena) == NULL, "%s: equal settings compare", rows[i]);
        for (size_t k = 0; k < keys; k++) {
            struct str same = va[k];
            const char *name_z = str_dup(&arena, key[k]);
            vb[k] = str_printf(&arena, "%s=y", name_z);
            CHECK_STR(comparable_refusal(&a, &b, &arena),
                      arena_printf(&arena, "%s differs: x against y", name_z),
                      "%.*s, %.*s: another %s is refused", STR_ARG(name), STR_ARG(task), name_z);
            va[k] = vb[k] = str_printf(&arena, "%s=unknown", name_z);
            CHECK_STR(comparable_refusal(&a, &b, &arena),
                      arena_printf(&arena, "%s is unknown in both", name_z), "an unknown one too");
            va[k] = vb[k] = STR_LIT("other=1");
            CHECK_STR(comparable_refusal(&a, &b, &arena),
                      arena_printf(&arena, "%s is not stated in both", name_z),
                      "and one that neither states");
            va[k] = vb[k] = same;
        }
    }
    size_t there = 0;
    while (comparables[there].metric)
        there++;
    CHECK_INT(there, n, "each row of the table is tested");
    struct metric bare = {.name = STR_LIT("mine"), .task = STR_LIT("x")};
    CHECK(comparable_refusal(&bare, &bare, &arena) != NULL, "a metric without settings is refused");
    bare.name = STR_LIT("bits_byte");
    struct str vocab[] = {{"documents=a", 11}, {"rule=b", 6}, {"precision=c", 11}};
    bare.task = STR_LIT("documents");
    bare.identity = (struct strs){vocab, 3};
    bare.ids = (struct strs){vocab, 1};
    CHECK(!comparable_refusal(&bare, &bare, &arena), "bits per byte need no common vocabulary");
    struct metric in_fp32 = bare, other = bare;
    struct str lower[] = {{"documents=a", 11}, {"rule=b", 6}, STR_LIT("precision=bf16 weights")};
    in_fp32.identity.n = 2;
    other.identity.v = lower;
    CHECK_STR(comparable_refusal(&other, &in_fp32, &arena),
              "precision differs: bf16 weights against fp32", "no stated precision is fp32");
    in_fp32.ids.n = 0;
    CHECK_STR(comparable_refusal(&other, &in_fp32, &arena),
              "precision differs: bf16 weights against nothing", "unless it was published");
}

/* Right-or-wrong items: McNemar; the same items in another unit: one test, not two. */
static void counting(void)
{
    struct err e;
    struct comparison c;
    struct metric right = make_metric("acc_exact", 100, 1, 0, 0, 1), other = right;
    right.num.v = arena_array(&arena, 100, 8);
    other.num.v = arena_array(&arena, 100, 8);
    right.den.v = other.den.v = arena_array(&arena, 100, 8);
    right.higher_better = other.higher_better = true;
    for (int i = 0; i < 100; i++) {
        right.den.v[i] = 1;
        right.num.v[i] = i < 40;
        other.num.v[i] = i < 37 || (i >= 60 && i < 75);
    }
    struct result r[2] = {make_result("a", "g", 1, right), make_result("b", "h", 1, other)};
    struct compare_options allow = {.level = 0.95, .allow = true};
    compare_runs(&c, r, 2, &allow, &e);
    const struct delta *d = &c.metric[0].delta[1];
    CHECK(d->mcnemar && d->won == 15 && d->lost == 3, "18 items differ: 15 won, 3 lost");
    CHECK_NEAR(d->est.p, 0.0075378, 1e-6, "p is the exact binomial, 2 P(X <= 3 | 18, 1/2)");
    CHECK_INT(d->verdict, VERDICT_BETTER, "and decides");
    compare_release(&c);

    for (int i = 0; i < 100; i++) { /* five items of one source each: no binomial any more */
        static struct str source[20];
        source[i / 5] = str_printf(&arena, "s%d", i / 5);
        ((struct metric *)r[0].metrics.v)->cluster.v[i] = source[i / 5];
        ((struct metric *)r[1].metrics.v)->cluster.v[i] = source[i / 5];
    }
    compare_runs(&c, r, 2, &allow, &e);
    CHECK(!c.metric[0].delta[1].mcnemar && c.metric[0].delta[1].est.clusters == 20,
          "clustered items are flipped by cluster, not counted one by one");
    compare_release(&c);

    struct metric two[2][2];
    for (int i = 0; i < 2; i++) {
        two[i][0] = make_metric("nll_token", 60, 1, i * 0.02, 0.02, (uint64_t)i + 1);
        two[i][1] = make_metric("bits_byte", 60, 1, i * 0.02, 0.02, (uint64_t)i + 1);
        r[i].metrics = (struct list){two[i], 2};
    }
    compare_runs(&c, r, 2, &allow, &e);
    CHECK_STR(c.metric[0].delta[1].same_as, "bits_byte", "nats a token of the same items");
    CHECK(isnan(c.metric[0].delta[1].p_holm), "are no test of their own");
    CHECK_NEAR(c.metric[1].delta[1].p_holm, c.metric[1].delta[1].est.p, 0,
               "so Holm takes bits a byte for one test, not two");
    CHECK_NEAR(c.metric[1].delta[1].mde, 2.85 * c.metric[1].delta[1].est.se, 0.01,
               "80%% power at 59 df: 2.85 standard errors");
    struct buf text = {0};
    CHECK(compare_print(&c, TABLE_TEXT, -1, &text, &e) == 0 && strstr(text.p, "p (exploratory)") &&
              strstr(text.p, ", exploratory: counted as bits_byte"),
          "a p that Holm leaves out is said to be exploratory, and so is its verdict");
    CHECK(strstr(text.p, "intervals are each for itself, not corrected"), "what Holm is for");
    buf_release(&text);
    double effect = c.metric[1].delta[1].mde;
    compare_release(&c);
    for (size_t k = 0; k < 60; k++)
        two[1][1].num.v[k] += 3 * two[1][1].den.v[k];
    compare_runs(&c, r, 2, &allow, &e);
    CHECK_NEAR(c.metric[1].delta[1].mde, effect, 1e-9,
               "it is the design's: a larger difference does not change it");
    compare_release(&c);
}

/* Several recipes against one: each p is Holm's. */
static void many_recipes(void)
{
    struct err e;
    struct comparison c;
    struct result r[12];
    static const double effect[] = {0, 0.025, 0.2, 0.025};
    static const double luck[] = {0, 0.01, -0.01};
    for (int i = 0; i < 12; i++)
        r[i] = make_result("x", arena_printf(&arena, "g%d", i / 3), i,
                           make_metric("bits_byte", 60, 1, effect[i / 3] + luck[i % 3], 0, 1));
    compare_runs(&c, r, 12, &plain, &e);
    const struct recipe *x = c.metric[0].recipe;
    CHECK(x[1].est.p < 0.05 && x[1].verdict == VERDICT_NOT_SEEN,
          "p %.3f alone, %.3f among three recipes: no difference seen", x[1].est.p, x[1].p_holm);
    CHECK_NEAR(x[1].p_holm, 2 * x[1].est.p, 1e-12, "the second smallest counts twice");
    CHECK_NEAR(x[2].p_holm, 3 * x[2].est.p, 1e-12, "the smallest three times");
    CHECK_INT(x[2].verdict, VERDICT_WORSE, "and a large effect stays");
    compare_release(&c);
    compare_runs(&c, r, 6, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].verdict, VERDICT_WORSE, "the same alone is seen");
    compare_release(&c);
    compare_runs(&c, r, 7, &plain, &e);
    x = c.metric[0].recipe;
    CHECK(x[2].why && !x[1].why && fabs(x[1].p_holm - 2 * x[1].est.p) < 1e-12,
          "a recipe of one seed is declared too and counts in the correction");
    compare_release(&c);
}

/* Values from somebody's page: no items to pair, but seeds to count. */
static void entered(void)
{
    struct err e;
    struct comparison c;
    struct result r[6];
    static struct str says[] = {{"slice=theirs", 12}};
    for (int i = 0; i < 6; i++) {
        struct metric m = {.name = STR_LIT("nll_token"),
                           .task = STR_LIT("windows"),
                           .unit = STR_LIT("nats/token"),
                           .primary = true};
        m.value = (i < 3 ? 3.7 : 3.6) + 0.001 * (i % 3);
        m.lo = m.hi = NAN;
        m.identity = (struct strs){says, 1};
        r[i] = make_result("x", i < 3 ? "base" : "new", i, m);
    }
    compare_runs(&c, r, 6, &plain, &e);
    const struct delta *d = &c.metric[0].delta[3];
    CHECK(!d->refused && d->verdict == VERDICT_NOT_ESTIMABLE, "no items: not estimable, %s",
          d->est.why);
    CHECK_NEAR(d->est.value, -0.1, 1e-12, "but the difference is said");
    CHECK_INT(c.metric[0].recipe[1].verdict, VERDICT_BETTER, "and seeds are judged all the same");
    compare_release(&c);
    static struct str other[] = {{"slice=ours", 10}};
    ((struct metric *)r[4].metrics.v)->identity.v = other;
    compare_runs(&c, r, 6, &plain, &e);
    CHECK(c.metric[0].delta[4].refused && c.metric[0].recipe[1].seeds == 2,
          "what was measured on something else is left out there too");
    compare_release(&c);
}

/* What is one more draw of a recipe and what is the same draw again. */
static void draws(void)
{
    struct err e;
    struct comparison c;
    struct result r[4];
    for (int i = 0; i < 4; i++)
        r[i] = make_result("x", i < 2 ? "base" : "new", i % 2,
                           make_metric("bits_byte", 60, 1, 0.01 * i, 0.01, (uint64_t)i));
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].seeds, 2, "two seeds are two draws");
    CHECK_NEAR(c.metric[0].recipe[1].mde / c.metric[0].recipe[1].sd, 5.65, 0.01,
               "two seeds an arm show 5.65 sd");
    compare_release(&c);
    struct metric *m = r[3].metrics.v;
    r[3].seed = r[2].seed;
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].seeds, 2, "the same seed elsewhere is a new draw");
    compare_release(&c);
    r[2].started = r[3].started = STR_LIT("2026-01-01T00:00:00Z");
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].seeds, 1, "two checkpoints of one training are one draw");
    compare_release(&c);
    r[3].seed = r[2].seed + 5;
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].seeds, 2, "two seeds that began in one second are two draws");
    compare_release(&c);
    r[3].seed = r[2].seed;
    r[2].started = r[3].started = (struct str){0};
    *m = *(struct metric *)r[2].metrics.v;
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].seeds, 1, "the same result twice is one draw");
    compare_release(&c);
}

/* Scores of two items that weigh 1 and 3, in two seeds. */
static void seeds(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct metrics m = {.a = &a};
    static const double value[2][2] = {{1, 0}, {0, 1}}, weight[2] = {1, 3};
    struct str paths[2];
    for (int k = 0; k < 2; k++) {
        const char *path = path_join(&a, tap_tmp(), k ? "seed-2.msgpack" : "seed-1.msgpack");
        struct records *w = records_open(path, &score_schema, RECORD_WRITE, &e);
        for (int i = 0; i < 2; i++) {
            struct score s = {.item = i ? STR_LIT("b") : STR_LIT("a"),
                              .scorer = STR_LIT("s"),
                              .value = value[k][i],
                              .weight = weight[i]};
            CHECK_INT(records_append(w, &s, &e), 0, "seed %d: a score of weight %g", k + 1,
                      weight[i]);
        }
        CHECK_INT(records_close(w, &e), 0, "seed %d: its scores are there", k + 1);
        paths[k] = str_z(path);
    }
    CHECK_INT(metrics_add_scores(&m, "x", "t", (struct strs){paths, 2}, (const char *[]){NULL}, &e),
              0, "scores of two seeds are a metric %s", e.msg);
    CHECK_NEAR(m.v[0].value, 0.5, 1e-15, "whose value weighs the items");
    CHECK_STR(str_dup(&a, m.v[0].note), "fine-tuning seeds: 0.25 0.75",
              "and whose seeds are weighed alike");
    free(m.v);
    arena_release(&a);
}

int main(void)
{
    pairing();
    gaps();
    floors();
    refusing();
    comparability();
    counting();
    many_recipes();
    entered();
    draws();
    seeds();
    recipes();
    arena_release(&arena);
    return tap_done();
}
