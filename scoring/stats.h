/* stats: intervals and verdicts. Formulas: docs/metrics.md.
 *
 * A quantity is a ratio sum(num) / sum(den) over units that fall into clusters; a plain mean has
 * den = 1. "Not estimable" is NaN in lo, hi, se, p with the reason in `why`, never 0.
 */
#ifndef SCORING_STATS_H
#define SCORING_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct estimate {
    double value, se, lo, hi; /* two-sided, at the level asked */
    double df;                /* of the t used */
    int64_t n, clusters;
    double p;        /* two-sided, of value = 0 (differences) */
    const char *why; /* NULL, or why there is no interval: "fewer than 6 clusters" */
};

/* Ratio of sums with a delete-one-cluster jackknife and t(G - 1), by pseudo-values
 * G r - (G - 1) r_(g), whose standard error is sd / sqrt(G); value is the ratio itself. cluster[i] are
 * dense ids in 0..G-1. Fewer than 6 clusters, one that holds all of den, or no spread: not estimable. */
struct estimate stats_ratio(const double *num, const double *den, const int32_t *cluster, size_t n,
                            double level);
/* The same over sums of clusters that lie elsewhere: of() gives those of cluster g; it is called in
 * order, twice. num, den: of all; finite: whether every value was. */
struct stats_sums {
    double num, den;
    int64_t n;
    size_t clusters;
    bool finite;
    void (*of)(void *ctx, size_t g, double *num, double *den);
    void *ctx;
};
struct estimate stats_ratio_sums(const struct stats_sums *s, double level);
/* Paired difference of two ratios over the same units: sum(a)/sum(den) - sum(b)/sum(den). Interval as
 * stats_ratio; p by sign flips of the clusters' summed differences: exact for up to 16 clusters, else
 * 19,999 seeded flips and (1 + as extreme) / 20,000. */
struct estimate stats_paired(const double *a, const double *b, const double *den,
                             const int32_t *cluster, size_t n, double level);
/* Wilson score interval of k successes in n. */
void stats_wilson(int64_t k, int64_t n, double level, double *lo, double *hi);
/* Exact McNemar, two-sided binomial on the discordant pairs; NaN if b + c = 0. */
double stats_mcnemar(int64_t b, int64_t c);
/* Holm's step-down adjusted p values, in place. A NaN is a test that was declared and could not be made: it stays
 * NaN and counts in the family. */
void stats_holm(double *p, size_t n);

/* Recipes: mean(a) - mean(b) of k runs (seeds) an arm; Student t with pooled sd and
 * df = sum(k - 1). n and clusters count runs. Both arms with one seed: not estimable (borrow an sd). */
struct estimate stats_seeds(const double *a, size_t na, const double *b, size_t nb, double level);
/* The same with an sd (and its df) from elsewhere, e.g. pooled over a named group of recipes. */
struct estimate stats_seeds_borrowed(const double *a, size_t na, const double *b, size_t nb,
                                     double sd, double df, double level);
/* sd pooled over groups: sqrt(sum of squares within / df), df = sum(n[g] - 1). NaN if df = 0. */
double stats_pooled_sd(const double *const *group, const size_t *n, size_t groups, double *df);
/* Seeds an arm needed to detect `effect` with 80% power at 5%, given a seed sd; -1 above 1000. */
int64_t stats_seeds_needed(double sd, double effect);
/* Minimum detectable effect of k seeds an arm in units of sd (noncentral t, 80% power, 5%). */
double stats_mde(int64_t k);

/* The same in units of a standard error with df degrees of freedom: the noncentrality at which the
 * two-sided 5% t test has 80% power. Of the design, whatever the difference that was seen. */
double stats_mde_se(double df);

/* How many units settle a one-sided t test at alpha with 80% power: the least n for which sqrt(n / now) x gap is the
 * noncentrality that a t with slope x n + offset degrees of freedom wants. gap: |difference from the limit| in
 * standard errors of `now` units. NaN: it sits on the limit. */
double stats_units_needed(double gap, double now, double slope, double offset, double alpha);

/* Distributions: CDFs and quantiles in double, from the incomplete beta and gamma functions. */
double stats_norm_cdf(double x);
double stats_norm_quantile(double p);
double stats_t_cdf(double x, double df);
double stats_t_quantile(double p, double df);
double stats_chi2_quantile(double p, double df);
double stats_f_tail(double f, double df1, double df2);   /* P(F > f) */
double stats_nct_cdf(double x, double df, double delta); /* noncentral t */
double stats_binom_cdf(int64_t k, int64_t n, double p);

/* Correlations for agreement: Pearson's r, and r of the ranks (ties get their mean rank). NaN for
 * n < 2 or no spread. */
double stats_pearson(const double *a, const double *b, size_t n);
double stats_spearman(const double *a, const double *b, size_t n);

#endif
