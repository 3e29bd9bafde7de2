/* stats: intervals and tests, see stats.h.
 *
 * Jackknife: Efron & Stein, "The jackknife estimate of variance", Annals of Statistics 9 (1981), with
 * Tukey's pseudo-values and t. Wilson: JASA 22 (1927). McNemar: Psychometrika 12 (1947), in its exact
 * binomial form. Holm: Scandinavian Journal of Statistics 6 (1979).
 */
#include "scoring/stats.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

enum { FEWEST_CLUSTERS = 6, EXACT_CLUSTERS = 16, FLIPS = 19999, MOST_SEEDS = 1000 };

static struct estimate not_estimable(double value, int64_t n, int64_t clusters, const char *why)
{
    return (struct estimate){value, NAN, NAN, NAN, NAN, n, clusters, NAN, why};
}

/* Interval and p of value / se under t(df). */
static void by_t(struct estimate *x, double se, double df, double level)
{
    double t = stats_t_quantile(0.5 + level / 2, df);
    x->se = se;
    x->df = df;
    x->lo = x->value - t * se;
    x->hi = x->value + t * se;
    x->p = 2 * stats_t_cdf(-fabs(x->value) / se, df);
}

/* ---- ratios over clusters --------------------------------------------------------------------- */

struct sums {
    double *num, *den; /* of each cluster */
    struct stats_sums all;
};

static void sum_at(void *ctx, size_t g, double *num, double *den)
{
    const struct sums *s = ctx;
    *num = s->num[g];
    *den = s->den[g];
}

static struct sums sums_of(const double *num, const double *den, const int32_t *cluster, size_t n)
{
    struct sums s = {.all = {.n = (int64_t)n, .finite = true, .of = sum_at}};
    for (size_t i = 0; i < n; i++)
        if ((size_t)cluster[i] + 1 > s.all.clusters)
            s.all.clusters = (size_t)cluster[i] + 1;
    s.num = mem_array(s.all.clusters, sizeof *s.num);
    s.den = mem_array(s.all.clusters, sizeof *s.den);
    for (size_t i = 0; i < n; i++) {
        s.all.finite &= isfinite(num[i]) && isfinite(den[i]);
        s.num[cluster[i]] += num[i];
        s.den[cluster[i]] += den[i];
        s.all.num += num[i];
        s.all.den += den[i];
    }
    return s;
}

static void sums_release(struct sums *s)
{
    free(s->num);
    free(s->den);
}

static double pseudo_value(const struct stats_sums *s, double value, size_t g, bool *all_here)
{
    double G = (double)s->clusters, num, den;
    s->of(s->ctx, g, &num, &den);
    den = s->den - den;
    *all_here = !(den > s->den * 1e-12);
    return G * value - (G - 1) * ((s->num - num) / den);
}

/* Sets the standard error and df, or why not. Pseudo-values are made twice and not kept: there may be
 * millions. */
static void jackknife(struct estimate *x, const struct stats_sums *s, double level)
{
    double G = (double)s->clusters, mean = 0, square = 0, largest = fabs(x->value);
    bool all_here;
    for (size_t g = 0; g < s->clusters; g++) {
        double pseudo = pseudo_value(s, x->value, g, &all_here);
        if (all_here) {
            x->why = "one cluster holds everything";
            return;
        }
        mean += pseudo / G;
        largest = fabs(pseudo) > largest ? fabs(pseudo) : largest;
    }
    for (size_t g = 0; g < s->clusters; g++) {
        double d = pseudo_value(s, x->value, g, &all_here) - mean;
        square += d * d;
    }
    double se = sqrt(square / (G - 1) / G);
    if (se <= 16 * DBL_EPSILON * G * largest)
        x->why = "no spread between clusters";
    else
        by_t(x, se, G - 1, level);
}

struct estimate stats_ratio_sums(const struct stats_sums *s, double level)
{
    struct estimate x = not_estimable(s->num / s->den, s->n, (int64_t)s->clusters, NULL);
    if (!s->n)
        x.why = "no values";
    else if (!s->finite)
        x.why = "a value is not finite";
    else if (!(s->den > 0))
        x.why = "the denominator is zero";
    else if (s->clusters < FEWEST_CLUSTERS)
        x.why = "fewer than 6 clusters";
    else
        jackknife(&x, s, level);
    return x;
}

static struct estimate ratio_of(struct sums *s, double level)
{
    s->all.ctx = s;
    return stats_ratio_sums(&s->all, level);
}

struct estimate stats_ratio(const double *num, const double *den, const int32_t *cluster, size_t n,
                            double level)
{
    struct sums s = sums_of(num, den, cluster, n);
    struct estimate x = ratio_of(&s, level);
    sums_release(&s);
    return x;
}

/* ---- sign flips ------------------------------------------------------------------------------- */

/* |sum of v| against a threshold that forgives rounding. */
static double threshold(const double *v, size_t n)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        sum += v[i];
        size += fabs(v[i]);
    }
    return fabs(sum) - 1e-12 * size;
}

/* All 2^n signs, each differing from the one before in one place (Gray code). */
static double flips_exact(const double *v, size_t n)
{
    double least = threshold(v, n), sum = 0;
    unsigned long all = 1ul << n, extreme = 0, gray = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    for (unsigned long k = 0; k < all; k++) {
        extreme += fabs(sum) >= least;
        int bit = k + 1 < all ? __builtin_ctzl(k + 1) : 0;
        gray ^= 1ul << bit;
        sum += gray & 1ul << bit ? -2 * v[bit] : 2 * v[bit];
    }
    return (double)extreme / (double)all;
}

/* Signed sums of each four values, all 16 ways, so that a flip costs a look-up for four clusters. */
static double *nibble_sums(const double *v, size_t n)
{
    double *sum = mem_array((n + 3) / 4, 16 * sizeof *sum);
    for (size_t i = 0; i < n; i++)
        for (int m = 0; m < 16; m++)
            sum[i / 4 * 16 + (size_t)m] += m >> i % 4 & 1 ? v[i] : -v[i];
    return sum;
}

static double flips_drawn(const double *v, size_t n)
{
    double least = threshold(v, n), *table = nibble_sums(v, n);
    size_t nibbles = (n + 3) / 4;
    long extreme = 0;
    struct rng r = rng_make(1, "sign-flips", n);
    for (int k = 0; k < FLIPS; k++) {
        double sum = 0;
        for (size_t i = 0; i < nibbles;) {
            uint64_t bits = rng_u64(&r);
            for (int b = 0; b < 16 && i < nibbles; b++, i++, bits >>= 4)
                sum += table[i * 16 + (bits & 15)];
        }
        extreme += fabs(sum) >= least;
    }
    free(table);
    return (1.0 + (double)extreme) / (FLIPS + 1.0);
}

struct estimate stats_paired(const double *a, const double *b, const double *den,
                             const int32_t *cluster, size_t n, double level)
{
    double *diff = mem_array(n, sizeof *diff);
    for (size_t i = 0; i < n; i++)
        diff[i] = a[i] - b[i];
    struct sums s = sums_of(diff, den, cluster, n);
    struct estimate x = ratio_of(&s, level);
    if (!x.why)
        x.p = s.all.clusters <= EXACT_CLUSTERS ? flips_exact(s.num, s.all.clusters)
                                               : flips_drawn(s.num, s.all.clusters);
    sums_release(&s);
    free(diff);
    return x;
}

/* ---- counts ----------------------------------------------------------------------------------- */

void stats_wilson(int64_t k, int64_t n, double level, double *lo, double *hi)
{
    *lo = *hi = NAN;
    if (n <= 0 || k < 0 || k > n)
        return;
    double z = stats_norm_quantile(0.5 + level / 2), N = (double)n, p = (double)k / N;
    double centre = (p + z * z / (2 * N)) / (1 + z * z / N);
    double half = z / (1 + z * z / N) * sqrt(p * (1 - p) / N + z * z / (4 * N * N));
    *lo = k == 0 ? 0 : centre - half;
    *hi = k == n ? 1 : centre + half;
}

double stats_mcnemar(int64_t b, int64_t c)
{
    if (b < 0 || c < 0 || b + c == 0)
        return NAN;
    return fmin(1, 2 * stats_binom_cdf(b < c ? b : c, b + c, 0.5));
}

/* ---- many tests ------------------------------------------------------------------------------- */

struct place {
    double v;
    size_t at;
};

static int by_value(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->v < y->v ? -1 : x->v > y->v;
}

void stats_holm(double *p, size_t n)
{
    struct place *s = mem_array(n, sizeof *s);
    size_t m = 0;
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(p[i]))
            s[m++] = (struct place){p[i], i};
    qsort(s, m, sizeof *s, by_value);
    for (size_t i = 0; i < m; i++) {
        most = fmax(most, fmin(1, (double)(n - i) * s[i].v));
        p[s[i].at] = most;
    }
    free(s);
}

/* ---- seeds ------------------------------------------------------------------------------------ */

static double mean_of(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

double stats_pooled_sd(const double *const *group, const size_t *n, size_t groups, double *df)
{
    double square = 0;
    *df = 0;
    for (size_t g = 0; g < groups; g++) {
        double mean = mean_of(group[g], n[g]);
        for (size_t i = 0; i < n[g]; i++)
            square += (group[g][i] - mean) * (group[g][i] - mean);
        *df += n[g] ? (double)n[g] - 1 : 0;
    }
    return *df > 0 ? sqrt(square / *df) : NAN;
}

struct estimate stats_seeds_borrowed(const double *a, size_t na, const double *b, size_t nb,
                                     double sd, double df, double level)
{
    int64_t runs = (int64_t)(na + nb);
    struct estimate x = not_estimable(NAN, runs, runs, NULL);
    if (!na || !nb) {
        x.why = "an arm without a run";
        return x;
    }
    double ma = mean_of(a, na), mb = mean_of(b, nb);
    x.value = ma - mb;
    if (!isfinite(x.value))
        x.why = "a value is not finite";
    else if (!(df > 0) || isnan(sd))
        x.why = "one seed an arm";
    else if (sd <= 4 * DBL_EPSILON * (fabs(ma) + fabs(mb)))
        x.why = "no spread between seeds";
    else
        by_t(&x, sd * sqrt(1 / (double)na + 1 / (double)nb), df, level);
    return x;
}

struct estimate stats_seeds(const double *a, size_t na, const double *b, size_t nb, double level)
{
    const double *group[2] = {a, b};
    size_t n[2] = {na, nb};
    double df, sd = stats_pooled_sd(group, n, 2, &df);
    return stats_seeds_borrowed(a, na, b, nb, sd, df, level);
}

/* Power of the two-sided 5% t test with df degrees of freedom at noncentrality delta. */
static double power_of(double delta, double df)
{
    double t = stats_t_quantile(0.975, df);
    return 1 - stats_nct_cdf(t, df, delta) + stats_nct_cdf(-t, df, delta);
}

double stats_mde_se(double df)
{
    if (!(df >= 1))
        return NAN;
    double lo = 0, hi = 64;
    while (hi - lo > 1e-12) {
        double mid = (lo + hi) / 2;
        if (power_of(mid, df) < 0.8)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* The noncentrality at which the one-sided t test at alpha has 80% power. */
static double settling(double df, double alpha)
{
    double far = 1e5; /* from there on the normal's, to four digits */
    if (df >= far)
        return stats_norm_quantile(1 - alpha) + stats_norm_quantile(0.8);
    double t = stats_t_quantile(1 - alpha, df), lo = 0, hi = 64 + 2 * t;
    while (hi - lo > 1e-9) {
        double mid = (lo + hi) / 2;
        if (1 - stats_nct_cdf(t, df, mid) < 0.8)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

double stats_units_needed(double gap, double now, double slope, double offset, double alpha)
{
    double least = slope > 0 ? (1 - offset) / slope : now; /* one degree of freedom */
    double lo = fmax(fmin(now, 1), least), hi = fmax(now, lo);
    if (!(gap > 0) || !(now > 0))
        return NAN;
    while (sqrt(hi / now) * gap < settling(slope * hi + offset, alpha))
        if ((hi *= 2) > 1e15)
            return INFINITY;
    lo = floor(fmax(lo, 1)) - 1;
    hi = ceil(hi);
    while (hi - lo > 1) { /* hi settles it, lo does not */
        double mid = floor(lo + (hi - lo) / 2);
        double df = slope * mid + offset;
        if (df >= 1 && sqrt(mid / now) * gap >= settling(df, alpha))
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

double stats_mde(int64_t k)
{
    return k < 2 ? NAN : stats_mde_se(2 * ((double)k - 1)) * sqrt(2 / (double)k);
}

int64_t stats_seeds_needed(double sd, double effect)
{
    int64_t lo = 1, hi = MOST_SEEDS; /* the answer lies in (lo, hi] */
    effect = fabs(effect);
    if (!(sd >= 0) || !(effect > 0) || !(stats_mde(hi) * sd <= effect))
        return -1;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (stats_mde(mid) * sd <= effect)
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

/* ---- correlations ----------------------------------------------------------------------------- */

double stats_pearson(const double *a, const double *b, size_t n)
{
    if (n < 2)
        return NAN;
    double ma = mean_of(a, n), mb = mean_of(b, n), aa = 0, bb = 0, ab = 0;
    for (size_t i = 0; i < n; i++) {
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
        ab += (a[i] - ma) * (b[i] - mb);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

static double *ranks_of(const double *v, size_t n)
{
    double *rank = mem_array(n, sizeof *rank);
    struct place *s = mem_array(n, sizeof *s);
    for (size_t i = 0; i < n; i++)
        s[i] = (struct place){v[i], i};
    qsort(s, n, sizeof *s, by_value);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && s[j].v == s[i].v;)
            j++;
        for (size_t k = i; k < j; k++)
            rank[s[k].at] = (double)(i + j - 1) / 2;
    }
    free(s);
    return rank;
}

double stats_spearman(const double *a, const double *b, size_t n)
{
    double *ra = ranks_of(a, n), *rb = ranks_of(b, n), r = stats_pearson(ra, rb, n);
    free(ra);
    free(rb);
    return r;
}
