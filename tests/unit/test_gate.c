/* The gate: what rules may say, when they pass, fail and stay undecided, and how often that is wrong. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "pipelines/gate.h"
#include "tests/tap.h"

static struct arena arena;

/* n items of a loss (or of right and wrong, with `share`), each worse by effect + noise. */
static struct result run_of(const char *name, size_t n, double effect, double noise, uint64_t seed,
                            bool share)
{
    struct metric *m = arena_alloc(&arena, sizeof *m);
    static struct str loss[] = {{"documents=a", 11}, {"rule=b", 6}, {"precision=c", 11}};
    static struct str acc[] = {{"items=a", 7},
                               {"template=b", 10},
                               {"decoding=c", 10},
                               {"scorer=d", 8},
                               {"scorer_version=1", 16}};
    struct rng shared = rng_make(1, "item", 0), own = rng_make(seed, "own", 0);
    *m = (struct metric){.name = share ? STR_LIT("acc_exact") : STR_LIT("bits_byte"),
                         .task = share ? STR_LIT("instruct") : STR_LIT("documents"),
                         .unit = share ? STR_LIT("share") : STR_LIT("bits/byte"),
                         .higher_better = share,
                         .primary = true,
                         .n = (int64_t)n};
    m->identity = share ? (struct strs){acc, 5} : (struct strs){loss, 3};
    m->ids = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m->num = (struct f64s){arena_array(&arena, n, 8), n};
    m->den = (struct f64s){arena_array(&arena, n, 8), n};
    for (size_t i = 0; i < n; i++) {
        double x = rng_normal(&shared), y = rng_normal(&own);
        m->ids.v[i] = str_printf(&arena, "%zu", i);
        m->den.v[i] = 1;
        m->num.v[i] = share ? x + noise * y > effect : 1 + effect + 0.3 * x + noise * y;
        m->value += m->num.v[i] / (double)n;
    }
    struct result r = {.run = str_z(name), .group = STR_LIT("g"), .seed = (int64_t)seed};
    r.metrics = (struct list){m, 1};
    return r;
}

static struct gate_check check(const char *rule, const struct result *base, size_t nb,
                               const struct result *cand, size_t nc, int64_t looks)
{
    struct gate g;
    struct gate_rule r;
    struct gate_check k = {.why = ""};
    struct err e = {0};
    if (gate_rule_parse(&r, str_z(rule), &arena, &e) != 0 ||
        gate_run(&g, &r, 1, base, nb, cand, nc, looks, &e) != 0) {
        k.why = arena_strdup(&arena, e.msg);
        k.outcome = GATE_UNDECIDED;
        return k;
    }
    k = g.v[0];
    k.rule = NULL;
    k.why = arena_strdup(&arena, k.why);
    gate_release(&g);
    return k;
}

static void rules(void)
{
    struct gate_rule r;
    struct err e;
    CHECK(gate_rule_parse(&r, STR_LIT(" bits_byte/documents  not_worse_by 0.01 at 95% "), &arena,
                          &e) == 0 &&
              r.kind == GATE_MARGIN && r.margin == 0.01 && r.level == 0.95 && !r.relative &&
              str_eqz(r.metric, "bits_byte") && str_eqz(r.task, "documents"),
          "a margin at a level");
    CHECK(gate_rule_parse(&r, STR_LIT("acc not_worse_by 2% at 0.9 over seeds"), &arena, &e) == 0 &&
              r.relative && r.margin == 0.02 && r.level == 0.9 && r.over == GATE_SEEDS,
          "a share of the baseline, over seeds");
    CHECK(gate_rule_parse(&r, STR_LIT("acc not_significantly_worse at 99%"), &arena, &e) == 0 &&
              r.kind == GATE_SIGNIFICANT && r.level == 0.99 && r.over == GATE_ITEMS,
          "not significantly worse, over items");
    static const char *const wrong[][2] = {
        {"acc", "too short"},
        {"acc better at 95%", "\"better\" is none of its words"},
        {"acc not_worse_by at 95%", "margin"},
        {"acc not_worse_by -1 at 95%", "margin"},
        {"acc not_worse_by 0 at 95%", "margin"},
        {"acc not_worse_by 0.1", "no \"at LEVEL\""},
        {"acc not_worse_by 0.1 at 95", "between 50% and 100%"},
        {"acc not_worse_by 0.1 at 100%", "between 50% and 100%"},
        {"acc not_worse_by 0.1 at 95% over moons", "\"over\" is left over"},
        {"acc not_worse_by 0.1 at 95% over seeds please", "too long"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(gate_rule_parse(&r, str_z(wrong[i][0]), &arena, &e) == -1 && e.code == EXIT_USAGE &&
                  strstr(e.msg, wrong[i][1]),
              "refused: %s", e.msg);
    struct gate_rule *all;
    size_t n;
    const char *path = path_join(&arena, tap_tmp(), "rules");
    file_write_all(path,
                   STR_LIT("# remarks\n\nacc not_worse_by 1% at 95% # behind it\n"
                           "bits_byte not_significantly_worse at 95%\n"),
                   &e);
    CHECK(gate_rules_load(&all, &n, path, &arena, &e) == 0 && n == 2, "a file of two rules");
    file_write_all(path, STR_LIT("acc not_worse_by 1% at 95%\nnonsense\n"), &e);
    CHECK(gate_rules_load(&all, &n, path, &arena, &e) == -1 && strstr(e.msg, "line 2"),
          "a wrong line is named: %s", e.msg);
    file_write_all(path, STR_LIT("# nothing\n"), &e);
    CHECK(gate_rules_load(&all, &n, path, &arena, &e) == -1, "no rule: %s", e.msg);
}

static void outcomes(void)
{
    const char *margin = "bits_byte not_worse_by 0.01 at 95%",
               *sig = "bits_byte not_significantly_worse at 95%";
    struct result base = run_of("base", 100, 0, 0.02, 1, false),
                  same = run_of("same", 100, 0, 0.02, 2, false),
                  worse = run_of("worse", 100, 0.05, 0.02, 3, false),
                  noisy = run_of("noisy", 100, 0.002, 0.2, 6, false);
    struct gate_check k = check(margin, &base, 1, &same, 1, 0);
    CHECK(k.outcome == GATE_PASS && k.hi < 0.01, "equal within the margin passes: %s", k.why);
    k = check(margin, &base, 1, &worse, 1, 0);
    CHECK(k.outcome == GATE_FAIL && k.lo > 0.01, "worse than the margin fails: %s", k.why);
    k = check(margin, &base, 1, &noisy, 1, 0);
    CHECK(k.outcome == GATE_UNDECIDED && k.needed > 100 && strstr(k.why, "would settle it"),
          "noise is undecided: %s", k.why);
    CHECK_INT(check(sig, &base, 1, &noisy, 1, 0).outcome, GATE_PASS, "but not significantly worse");
    CHECK_INT(check(sig, &base, 1, &worse, 1, 0).outcome, GATE_FAIL, "what is worse fails there");
    CHECK_INT(check(sig, &worse, 1, &base, 1, 0).outcome, GATE_PASS, "and what is better passes");
    k = check(margin, &base, 1, &base, 1, 0);
    CHECK(k.outcome == GATE_PASS && strstr(k.why, "the same on every item"), "itself: %s", k.why);

    /* Settling: with that many items it is settled in about 80%. */
    k = check(margin, &base, 1, &noisy, 1, 0);
    CHECK(k.needed > 1000 && k.needed < 100000, "%lld items would settle noise of .2",
          (long long)k.needed);

    struct gate_check one = check(margin, &base, 1, &same, 1, 1),
                      ten = check(margin, &base, 1, &same, 1, 10);
    CHECK_NEAR(ten.alpha, 0.005, 1e-15, "ten looks: a tenth of alpha");
    k = check(margin, &base, 1, &same, 1, 100000);
    CHECK(strstr(k.why, "99.9999%"), "very many looks are not 100%%: %s", k.why);
    CHECK(ten.hi > one.hi, "and wider bounds");
    struct result two[] = {same, worse};
    CHECK_NEAR(check(margin, &base, 1, two, 2, 0).alpha, 0.025, 1e-15,
               "two candidates are two looks");
    CHECK(strstr(check(margin, &base, 1, two, 2, 1).why, "2 candidates are 2 looks"),
          "fewer looks than candidates are refused");
    k = check("bits_byte not_worse_by 1% at 95%", &base, 1, &same, 1, 0);
    CHECK_NEAR(k.margin, 0.01 * ((struct metric *)base.metrics.v)->value, 1e-12,
               "a relative margin is of the baseline's value");

    k = check("f1_overlap not_worse_by 0.01 at 95%", &base, 1, &same, 1, 0);
    CHECK(k.outcome == GATE_FAIL && strstr(k.why, "not measured"), "no metric fails: %s", k.why);
    static struct str other[] = {{"documents=z", 11}, {"rule=b", 6}, {"precision=c", 11}};
    ((struct metric *)same.metrics.v)->identity.v = other;
    k = check(margin, &base, 1, &same, 1, 0);
    CHECK(k.outcome == GATE_FAIL && strstr(k.why, "documents differs"),
          "what cannot be compared fails: %s", k.why);
    struct result few = run_of("few", 5, 0, 0.02, 2, false),
                  few2 = run_of("few", 5, 0, 1, 3, false);
    k = check(margin, &few, 1, &few2, 1, 0);
    CHECK(k.outcome == GATE_UNDECIDED && strstr(k.why, "fewer than 6 clusters"),
          "five items are undecided: %s", k.why);
}

static void shares(void)
{
    struct result base = run_of("base", 200, 0, 0.2, 1, true),
                  worse = run_of("worse", 200, 0.7, 0.2, 3, true),
                  sure = run_of("sure", 100, -99, 0.2, 1, true);
    struct gate_check k = check("acc_exact not_significantly_worse at 95%", &base, 1, &worse, 1, 0);
    CHECK(k.outcome == GATE_FAIL && k.worsening > 0 && strstr(k.why, "exact p"),
          "fewer right answers are worse: %s", k.why);
    k = check("acc_exact not_worse_by 0.05 at 95%", &sure, 1, &sure, 1, 0);
    CHECK(k.outcome == GATE_PASS, "100 of 100 twice: at most 3%% worse: %s", k.why);
    CHECK_NEAR(k.hi, 0.0295, 1e-3, "the rule of three, 3 / 100");
    k = check("acc_exact not_worse_by 0.01 at 95%", &sure, 1, &sure, 1, 0);
    CHECK(k.outcome == GATE_UNDECIDED && k.needed == 299, "a margin of 1%% needs 299: %s", k.why);
}

/* 20 of 100 items without a value, all others alike. */
static void lacking(void)
{
    struct result base = run_of("base", 100, -99, 0.2, 1, true),
                  some = run_of("some", 100, -99, 0.2, 1, true),
                  loss = run_of("loss", 100, 0, 0.02, 1, false),
                  part = run_of("part", 100, 0, 0.02, 2, false);
    for (int i = 0; i < 20; i++)
        ((struct metric *)some.metrics.v)->num.v[i] = NAN;
    struct gate_check k = check("acc_exact not_worse_by 0.05 at 95%", &base, 1, &some, 1, 0);
    CHECK(k.outcome == GATE_UNDECIDED && strstr(k.why, "20 items of these runs have no value") &&
              strstr(k.why, "worst"),
          "items without a value could be wrong: %s", k.why);
    k = check("acc_exact not_significantly_worse at 95%", &base, 1, &some, 1, 0);
    CHECK_INT(k.outcome, GATE_UNDECIDED, "nor is it shown to be no worse");
    CHECK_INT(check("acc_exact not_worse_by 0.5 at 95%", &base, 1, &some, 1, 0).outcome, GATE_PASS,
              "a margin that holds at their worst passes");
    ((struct metric *)part.metrics.v)->num.v[0] = NAN;
    k = check("bits_byte not_worse_by 0.02 at 95%", &loss, 1, &part, 1, 0);
    CHECK(k.outcome == GATE_UNDECIDED && strstr(k.why, "no border"), "a loss has no worst: %s",
          k.why);
    struct result three[3], other[3];
    for (int i = 0; i < 3; i++) {
        three[i] = run_of("three", 100, 0, 0.1, (uint64_t)i + 3, true);
        other[i] = run_of("other", 100, 0, 0.1, (uint64_t)i + 9, true);
    }
    const char *rule = "acc_exact not_worse_by 0.15 at 95% over seeds";
    CHECK_INT(check(rule, three, 3, other, 3, 0).outcome, GATE_PASS, "over seeds it passes whole");
    for (int i = 0; i < 30; i++)
        ((struct metric *)other[1].metrics.v)->num.v[i] = NAN;
    k = check(rule, three, 3, other, 3, 0);
    CHECK(k.outcome == GATE_UNDECIDED && strstr(k.why, "30 items"), "but not with gaps: %s", k.why);
}

static void seeds(void)
{
    struct result base[3], cand[3];
    for (int i = 0; i < 3; i++) {
        double luck[] = {0, 0.004, -0.004};
        base[i] = run_of("base", 50, luck[i], 0, (uint64_t)i, false);
        cand[i] = run_of("cand", 50, 0.05 - luck[i], 0.0001, (uint64_t)i + 9, false);
    }
    const char *rule = "bits_byte not_worse_by 0.02 at 95% over seeds";
    struct gate_check k = check(rule, base, 2, cand, 3, 0);
    CHECK(k.outcome == GATE_UNDECIDED && strstr(k.why, "4 degrees of freedom"),
          "three degrees of freedom are too few: %s", k.why);
    k = check(rule, base, 3, cand, 3, 0);
    CHECK(k.outcome == GATE_FAIL && k.n == 3, "four are enough: %s", k.why);
    CHECK_INT(check(rule, cand, 3, base, 3, 0).outcome, GATE_PASS, "the other way it passes");
    k = check("bits_byte not_worse_by 0.0505 at 95% over seeds", base, 3, cand, 3, 0);
    CHECK(k.outcome == GATE_UNDECIDED && k.needed > 3 && strstr(k.why, "seeds an arm"),
          "near the margin it wants more seeds: %s", k.why);
    k = check("bits_byte not_worse_by 0.055 at 95% over seeds", base, 3, cand, 3, 0);
    CHECK(k.outcome == GATE_UNDECIDED && k.needed >= 8 && k.needed <= 10,
          "whose spread is better known then: 9, not 12: %s", k.why);
    cand[1] = cand[2] = cand[0];
    k = check(rule, base, 3, cand, 3, 0);
    CHECK(k.outcome == GATE_UNDECIDED, "one run three times is one seed: %s", k.why);
}

/* A candidate that is worse by exactly the margin passes in at most 5%, an equal one is called worse in
 * at most 5%. */
static void promises(void)
{
    int passed = 0, failed = 0, times = 2000;
    for (int t = 0; t < times; t++) {
        uint64_t s = 100 + 2 * (uint64_t)t;
        struct result a = run_of("a", 12, 0, 0.02, s, false),
                      b = run_of("b", 12, 0.01, 0.02, s + 1, false),
                      c = run_of("c", 12, 0, 0.02, s + 1, false);
        passed += check("bits_byte not_worse_by 0.01 at 95%", &a, 1, &b, 1, 0).outcome == GATE_PASS;
        failed +=
            check("bits_byte not_significantly_worse at 95%", &a, 1, &c, 1, 0).outcome == GATE_FAIL;
        arena_release(&arena);
    }
    CHECK(passed > 70 && passed < 130, "worse by the margin passes in %.1f%% of %d (5%%)",
          100.0 * passed / times, times);
    CHECK(failed > 70 && failed < 130, "equal ones are called worse in %.1f%% (5%%)",
          100.0 * failed / times);
}

int main(void)
{
    rules();
    outcomes();
    shares();
    lacking();
    seeds();
    arena_release(&arena);
    promises();
    return tap_done();
}
