/* Intervals and tests: closed forms, degenerate cases, and seeded simulations of what they promise.
 * SIMULATE=10000 simulates 10,000 times instead of 1,500. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "scoring/stats.h"
#include "tests/tap.h"

enum { UNITS = 400 };

static bool estimable(struct estimate x)
{
    return !x.why && isfinite(x.se) && isfinite(x.lo) && isfinite(x.hi) && isfinite(x.p);
}

/* No interval, and it says why. */
static bool not_estimable(struct estimate x, const char *why)
{
    return x.why && strstr(x.why, why) && isnan(x.se) && isnan(x.lo) && isnan(x.hi) && isnan(x.p);
}

static void test_ratio(void)
{
    /* Two units a cluster. The delete-one ratios are worked out by hand below. */
    double num[] = {1, 2, 4, 3, 5, 1, 2, 2, 8, 3, 1, 1},
           den[] = {2, 2, 3, 5, 4, 2, 2, 6, 9, 3, 1, 3};
    int32_t cluster[] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5};
    struct estimate x = stats_ratio(num, den, cluster, 12, 0.95);
    double n[6], d[6], N = 0, D = 0, pseudo[6], mean = 0, square = 0;
    for (int g = 0; g < 6; g++) {
        n[g] = num[2 * g] + num[2 * g + 1];
        d[g] = den[2 * g] + den[2 * g + 1];
        N += n[g];
        D += d[g];
    }
    for (int g = 0; g < 6; g++) {
        pseudo[g] = 6 * N / D - 5 * (N - n[g]) / (D - d[g]);
        mean += pseudo[g] / 6;
    }
    for (int g = 0; g < 6; g++)
        square += pow(pseudo[g] - mean, 2);
    CHECK_NEAR(x.value, 33. / 42, 1e-15, "a ratio is the ratio of the sums");
    CHECK_NEAR(x.se, sqrt(square / 5 / 6), 1e-14, "its standard error is the pseudo-values'");
    CHECK_NEAR(x.hi - x.value, 2.570581835636314 * x.se, 1e-12, "the interval is t with 5 df");
    CHECK(x.n == 12 && x.clusters == 6 && x.df == 5, "it says 12 units, 6 clusters, 5 df");

    int32_t shuffled[] = {3, 3, 1, 1, 5, 5, 0, 0, 2, 2, 4, 4};
    struct estimate y = stats_ratio(num, den, shuffled, 12, 0.95);
    CHECK_NEAR(y.se, x.se, 1e-15, "the names of clusters do not matter");
    CHECK(stats_ratio(num, den, cluster, 12, 0.99).hi > x.hi, "a higher level is wider");
}

static void test_not_estimable(void)
{
    double v[12], one[12], zero[12] = {0};
    int32_t own[12], few[12], lone[12] = {0};
    for (int i = 0; i < 12; i++) {
        v[i] = i * i % 7;
        one[i] = 1;
        own[i] = i;
        few[i] = i % 5;
    }
    CHECK(not_estimable(stats_ratio(v, one, few, 12, 0.95), "fewer than 6 clusters"),
          "5 clusters have no interval");
    CHECK(not_estimable(stats_ratio(v, one, lone, 12, 0.95), "fewer than 6"), "nor has one");
    CHECK(not_estimable(stats_ratio(one, one, own, 12, 0.95), "no spread"),
          "nor has a mean of equal values: not 0");
    double third[12];
    for (int i = 0; i < 12; i++)
        third[i] = 0.1 * (i + 1);
    CHECK(not_estimable(stats_ratio(third, third, own, 12, 0.95), "no spread"),
          "rounding is not spread");
    CHECK_NEAR(stats_ratio(one, one, own, 12, 0.95).value, 1, 0, "the value is still said");
    CHECK(not_estimable(stats_ratio(v, zero, own, 12, 0.95), "denominator"), "nothing over zero");
    CHECK(not_estimable(stats_ratio(v, one, own, 0, 0.95), "no values"), "no values at all");
    double all_in_one[12] = {0};
    all_in_one[3] = 5;
    CHECK(not_estimable(stats_ratio(v, all_in_one, own, 12, 0.95), "holds everything"),
          "one cluster that holds everything");
    v[4] = NAN;
    CHECK(not_estimable(stats_ratio(v, one, own, 12, 0.95), "not finite"),
          "a NaN among the values");
    CHECK(not_estimable(stats_paired(one, one, one, own, 12, 0.95), "no spread"),
          "a model against itself: no spread, not p = 1");
}

static void test_paired(void)
{
    double a[8] = {3, 4, 2, 5, 6, 4, 3, 5}, b[8] = {1, 2, 1, 2, 3, 3, 1, 2}, one[8];
    int32_t own[8];
    for (int i = 0; i < 8; i++) {
        one[i] = 1;
        own[i] = i;
    }
    struct estimate x = stats_paired(a, b, one, own, 8, 0.95);
    CHECK_NEAR(x.value, 17. / 8, 1e-15, "a paired difference is the mean difference");
    CHECK_NEAR(x.p, 2. / 256, 1e-15, "8 differences of one sign: 2 of 256 flips are as extreme");
    for (int i = 0; i < 8; i++)
        b[i] = a[i] + (i % 2 ? 1 : -1) * (i < 6 ? 1 : 2);
    x = stats_paired(a, b, one, own, 8, 0.95);
    CHECK_NEAR(x.p, 1, 1e-15, "differences that cancel: p = 1");
    /* 1, 2, ... 7, 8 with the smallest two negative: counted by hand over subset sums. */
    double d[8] = {-1, -2, 3, 4, 5, 6, 7, 8}, zero[8] = {0};
    int extreme = 0;
    for (int m = 0; m < 256; m++) {
        double sum = 0;
        for (int i = 0; i < 8; i++)
            sum += (m >> i & 1 ? -1 : 1) * fabs(d[i]);
        extreme += fabs(sum) >= 30;
    }
    x = stats_paired(d, zero, one, own, 8, 0.95);
    CHECK_NEAR(x.p, extreme / 256., 1e-15, "exact flips agree with plain enumeration");

    double big[40], none[40] = {0}, ones[40];
    int32_t id[40];
    struct rng r = rng_make(3, "test", 0);
    for (int i = 0; i < 40; i++) {
        big[i] = rng_normal(&r) + 0.35;
        ones[i] = 1;
        id[i] = i;
    }
    x = stats_paired(big, none, ones, id, 40, 0.95);
    struct estimate t = stats_ratio(big, ones, id, 40, 0.95);
    CHECK_NEAR(x.p, t.p, 0.01, "drawn flips are near the t test (%.4f and %.4f)", x.p, t.p);
    CHECK(x.p == stats_paired(big, none, ones, id, 40, 0.95).p, "and the same every time");
    for (int i = 0; i < 40; i++)
        big[i] = 1 + 0.01 * i;
    CHECK_NEAR(stats_paired(big, none, ones, id, 40, 0.95).p, 1 / 20000., 1e-15,
               "drawn flips never say p = 0");
}

static void test_counts(void)
{
    double lo, hi;
    stats_wilson(0, 10, 0.95, &lo, &hi);
    CHECK(lo == 0 && hi > 0.27 && hi < 0.28, "0 of 10: 0 to .278, not 0 to 0");
    stats_wilson(0, 0, 0.95, &lo, &hi);
    CHECK(isnan(lo) && isnan(hi), "0 of 0 has no interval");
    CHECK(isnan(stats_mcnemar(0, 0)), "no discordant pair: no p");
    CHECK_NEAR(stats_mcnemar(0, 5), 2 / 32., 1e-15, "5 against 0: 2 of 32");
    CHECK_NEAR(stats_mcnemar(4, 4), 1, 0, "as many each way: 1");
    double worst = 0; /* exact McNemar rejects at most alpha, whatever the number of pairs */
    for (int n = 1; n <= 60; n++) {
        double reject = 0;
        for (int k = 0; k <= n; k++)
            if (stats_mcnemar(k, n - k) <= 0.05)
                reject += exp(lgamma(n + 1.) - lgamma(k + 1.) - lgamma(n - k + 1.) - n * log(2));
        worst = fmax(worst, reject);
    }
    CHECK(worst <= 0.05 && worst > 0.03, "exact McNemar rejects at most 5%% (%.4f)", worst);
    double p[] = {0.01, NAN, 0.04, 0.03, 0.005};
    stats_holm(p, 5);
    CHECK_NEAR(p[4], 0.025, 1e-15, "Holm: the smallest times 5");
    CHECK_NEAR(p[0], 0.04, 1e-15, "the next times 4");
    CHECK(fabs(p[3] - 0.09) < 1e-15 && fabs(p[2] - 0.09) < 1e-15,
          "then never below the one before");
    CHECK(isnan(p[1]), "a test that could not be made has no p and counts all the same");
    double q[] = {0.5, 0.9};
    stats_holm(q, 2);
    CHECK(q[0] == 1 && q[1] == 1, "and never above 1");
}

static void test_seeds(void)
{
    /* The reference series: 7 seeds of one recipe, test loss. */
    double seven[] = {3.691526, 3.673453, 3.653593, 3.681356, 3.680505, 3.673943, 3.664345}, df;
    const double *group[] = {seven};
    size_t n[] = {7};
    double sd = stats_pooled_sd(group, n, 1, &df);
    CHECK(fabs(sd - 0.0123) < 5e-5 && df == 6, "seven seeds have sd .0123 with 6 df (%.5f)", sd);
    double one[] = {3.70}, other[] = {3.66};
    CHECK(not_estimable(stats_seeds(one, 1, other, 1, 0.95), "one seed an arm"),
          "one run against one run says nothing of recipes");
    CHECK_NEAR(stats_seeds(one, 1, other, 1, 0.95).value, 0.04, 1e-12,
               "the difference is still said");
    struct estimate x = stats_seeds_borrowed(one, 1, other, 1, sd, df, 0.95);
    CHECK(estimable(x) && fabs((x.hi - x.value) - 0.043) < 5e-4,
          "with that sd borrowed it needs a difference above .043 (%.4f)", x.hi - x.value);
    x = stats_seeds(seven, 7, other, 1, 0.95);
    CHECK(estimable(x) && x.df == 6, "seven against one: 6 df");
    double same[] = {1, 1}, two[] = {2, 2};
    CHECK(not_estimable(stats_seeds(same, 2, two, 2, 0.95), "no spread"), "equal seeds: no spread");
    CHECK(not_estimable(stats_seeds(same, 0, two, 2, 0.95), "without a run"), "an empty arm");

    CHECK(fabs(stats_mde(2) * 0.002 - 0.0112) < 2e-4 &&
              fabs(stats_mde(3) * 0.002 - 0.0061) < 1e-4 &&
              fabs(stats_mde(5) * 0.002 - 0.0040) < 1e-4 &&
              fabs(stats_mde(10) * 0.002 - 0.0027) < 1e-4,
          "minimum detectable effects at sd .002: .0112 .0061 .0040 .0027");
    CHECK(isnan(stats_mde(1)), "one seed detects nothing");
    CHECK_NEAR(stats_mde_se(1e6), 2.8016, 1e-3, "many clusters: 1.960 + 0.842 standard errors");
    CHECK(isnan(stats_mde_se(0)), "no degrees of freedom, no effect");
    CHECK_INT(stats_seeds_needed(0.0123, 0.0123 * 1.33), 10, "10 seeds find 1.33 sd");
    CHECK_INT(stats_seeds_needed(0.0123, 1), 2, "two seeds at least");
    CHECK_INT(stats_seeds_needed(0.0123, 0.00001), -1, "above 1000: -1");
    CHECK_INT(stats_seeds_needed(0.01, 0), -1, "no effect is never found");
}

static void test_correlations(void)
{
    double a[] = {1, 2, 3, 4, 5}, up[] = {1, 4, 9, 16, 25}, down[] = {5, 3, 2, 1, 0}, flat[5] = {0};
    CHECK_NEAR(stats_spearman(a, up, 5), 1, 1e-15, "ranks of a rising curve agree");
    CHECK_NEAR(stats_spearman(a, down, 5), -1, 1e-15, "of a falling one disagree");
    CHECK(stats_pearson(a, up, 5) < 1 && isnan(stats_pearson(a, flat, 5)) &&
              isnan(stats_pearson(a, up, 1)),
          "no spread or one value: no correlation");
}

/* ---- simulations ------------------------------------------------------------------------------ */

struct shape {
    int clusters, units; /* units: of a cluster, at most */
    double between;      /* sd of what a cluster's units share */
    bool uneven;         /* 1..units instead of always units */
};
struct sample {
    double a[UNITS], b[UNITS], diff[UNITS], one[UNITS];
    int32_t cluster[UNITS];
    size_t n;
};

/* Paired values whose true mean difference is `effect`. */
static void draw(struct sample *x, struct shape s, double effect, uint64_t seed, int time)
{
    struct rng r = rng_make(seed, "simulation", (uint64_t)time);
    x->n = 0;
    for (int g = 0; g < s.clusters; g++) {
        double shared = s.between * rng_normal(&r);
        int units = s.uneven ? 1 + (int)rng_below(&r, (uint64_t)s.units) : s.units;
        for (int i = 0; i < units && x->n < UNITS; i++, x->n++) {
            x->b[x->n] = 3 + rng_normal(&r); /* what both models share is not noise */
            x->diff[x->n] = effect + shared + rng_normal(&r);
            x->a[x->n] = x->b[x->n] + x->diff[x->n];
            x->one[x->n] = 1;
            x->cluster[x->n] = g;
        }
    }
}

/* Share of `times` in which p <= .05. */
static double rejected(struct shape s, double effect, int times, uint64_t seed)
{
    static struct sample x;
    int n = 0;
    for (int t = 0; t < times; t++) {
        draw(&x, s, effect, seed, t);
        n += stats_paired(x.a, x.b, x.one, x.cluster, x.n, 0.95).p <= 0.05;
    }
    return (double)n / times;
}

/* Share of `times` in which the 95% interval holds the effect. */
static double covered(struct shape s, double effect, int times, uint64_t seed)
{
    static struct sample x;
    int n = 0;
    for (int t = 0; t < times; t++) {
        draw(&x, s, effect, seed, t);
        struct estimate e = stats_ratio(x.diff, x.one, x.cluster, x.n, 0.95);
        n += e.lo <= effect && effect <= e.hi;
    }
    return (double)n / times;
}

/* Right-or-wrong items of two equal models: McNemar over items, flips over clusters of three. */
static void discrete(int items, int times, double *mcnemar, double *flips)
{
    static struct sample x;
    int m = 0, f = 0;
    for (int t = 0; t < times; t++) {
        struct rng r = rng_make(16, "discrete", (uint64_t)t);
        int won = 0, lost = 0;
        for (int i = 0; i < items; i++) {
            x.a[i] = rng_unit(&r) < 0.3; /* two draws of one model */
            x.b[i] = rng_unit(&r) < 0.3;
            x.one[i] = 1;
            x.cluster[i] = i / 3;
            won += x.a[i] > x.b[i];
            lost += x.a[i] < x.b[i];
        }
        m += stats_mcnemar(won, lost) <= 0.05;
        f += stats_paired(x.a, x.b, x.one, x.cluster, (size_t)items, 0.95).p <= 0.05;
    }
    *mcnemar = (double)m / times;
    *flips = (double)f / times;
}

/* Share of `times` in which k seeds an arm are called different at this effect, in seed sds. */
static double recipes_differ(int k, double effect, int times, uint64_t seed)
{
    double a[16], b[16];
    int n = 0;
    for (int t = 0; t < times; t++) {
        struct rng r = rng_make(seed, "recipes", (uint64_t)t);
        for (int i = 0; i < k; i++) {
            a[i] = 3.7 + 0.0123 * (rng_normal(&r) + effect);
            b[i] = 3.7 + 0.0123 * rng_normal(&r);
        }
        n += stats_seeds(a, (size_t)k, b, (size_t)k, 0.95).p <= 0.05;
    }
    return (double)n / times;
}

/* What the intervals and tests promise, at 8, 20 and 100 clusters. Seeds are fixed, so the shares are
 * the same every time; SIMULATE=10000 (tests/long/stats.t) has the narrow bands. */
static void test_promises(void)
{
    static const int clusters[] = {8, 20, 100};
    const char *asked = getenv("SIMULATE");
    bool many = asked && strcmp(asked, "10000") == 0;
    int times = many ? 10000 : 1500;
    double band = many ? 0.006 : 0.016, mcnemar, flips;
    for (int k = 0; k < 3; k++) {
        struct shape s = {clusters[k], k < 2 ? 6 : 4, 1, false};
        /* 8 clusters have 256 flips, so the level that can be reached is 12 / 256 = 4.69%: near the
         * band's edge, so more draws tell it from what lies outside. */
        int draws = k == 0 ? 6 * times : times;
        double null = rejected(s, 0, draws, 11), real = rejected(s, 0.5, 300, 12),
               holds = covered(s, 0.5, times, 13);
        CHECK(fabs(null - 0.05) <= band, "A/A over %d clusters is called different in %.2f%% of %d",
              s.clusters, 100 * null, draws);
        CHECK(fabs(holds - 0.95) <= band, "the interval over %d clusters holds the truth in %.2f%%",
              s.clusters, 100 * holds);
        CHECK(real > 3 * null, "and a real difference is found more often (%.1f%%)", 100 * real);
        s.uneven = true;
        s.units = k < 2 ? 12 : 6;
        s.between = 0.7;
        holds = covered(s, 0.3, times, 14);
        CHECK(holds >= 0.93 - (many ? 0 : 0.01), "with clusters of 1 to %d units %.2f%%", s.units,
              100 * holds);
        discrete(clusters[k] * 3, times, &mcnemar, &flips);
        CHECK(mcnemar <= 0.056, "equal models on %d right-or-wrong items: McNemar %.2f%%",
              clusters[k] * 3, 100 * mcnemar);
        CHECK(flips <= 0.05 + band, "and flips of %d clusters %.2f%%", clusters[k], 100 * flips);
    }
    for (int k = 2; k <= 5; k++) {
        double null = recipes_differ(k, 0, times, 17),
               power = recipes_differ(k, stats_mde(k), times, 18);
        CHECK(fabs(null - 0.05) <= band, "one recipe, %d seeds an arm: different in %.2f%%", k,
              100 * null);
        CHECK(fabs(power - 0.8) <= 2 * band,
              "recipes that differ by the detectable effect are found in %.1f%%", 100 * power);
    }
    /* Units as if each were its own cluster: what clustering is for. */
    static struct sample x;
    int wrong = 0;
    for (int t = 0; t < 400; t++) {
        draw(&x, (struct shape){20, 10, 1, false}, 0, 15, t);
        for (size_t i = 0; i < x.n; i++)
            x.cluster[i] = (int32_t)i;
        wrong += stats_ratio(x.diff, x.one, x.cluster, x.n, 0.95).p <= 0.05;
    }
    CHECK(wrong > 100, "ignoring clusters would call A/A different %d times in 400", wrong);
}

static void test_settling(void)
{
    /* 96 items in 12 clusters, a gap for which 11 degrees of freedom would say 274, 498, 20 and 48 */
    struct {
        double said, now, df, slope, offset, alpha, want;
    } n[] = {{274, 96, 11, 0.125, -1, 0.05, 255},
             {498, 96, 11, 0.125, -1, 0.01, 417},
             {20, 3, 4, 2, -2, 0.05, 15},
             {48, 3, 4, 2, -2, 0.01, 25}};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        double t = stats_t_quantile(1 - n[i].alpha, n[i].df) + stats_norm_quantile(0.8);
        double gap = t / sqrt((n[i].said - 0.5) / n[i].now);
        double got = stats_units_needed(gap, n[i].now, n[i].slope, n[i].offset, n[i].alpha);
        CHECK(fabs(got - n[i].want) <= 1, "%g units settle it, not %g: %g", n[i].want, n[i].said,
              got);
        double df = n[i].slope * got + n[i].offset, q = stats_t_quantile(1 - n[i].alpha, df);
        double power = 1 - stats_nct_cdf(q, df, gap * sqrt(got / n[i].now));
        CHECK(power >= 0.8 && power < 0.83, "with a power of 80%%: %.4f", power);
    }
    CHECK(isnan(stats_units_needed(0, 10, 1, -1, 0.05)), "on the limit none do");
    CHECK_NEAR(stats_units_needed(2.4865e-3, 100, 1, -1, 0.05), 1e8, 1e5, "many: 1.645 + 0.842");
}

int main(void)
{
    test_ratio();
    test_not_estimable();
    test_paired();
    test_counts();
    test_seeds();
    test_settling();
    test_correlations();
    test_promises();
    return tap_done();
}
