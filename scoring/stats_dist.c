/* stats_dist: the distributions behind intervals and tests, in double.
 *
 * Everything comes from two functions: the regularised incomplete beta function (continued fraction
 * by Lentz' method, Abramowitz & Stegun 26.5.8) and the regularised incomplete gamma function (series
 * 6.5.29 and continued fraction 6.5.31). Logarithms of the beta function are taken from differences of
 * Stirling remainders, so that large degrees of freedom lose no digits. Quantiles are roots of the
 * CDF, bisected down to neighbouring doubles: slow beside Newton's method, and cannot go astray.
 * The noncentral t is the series of Lenth, "Algorithm AS 243", Applied Statistics 38 (1989), summed
 * around its largest term. Checked against scipy in tests/unit/test_dist.c.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "scoring/stats.h"

/* ---- gamma and beta -------------------------------------------------------------------------- */

/* lgamma(x) less Stirling's (x - 1/2) log x - x + log(2 pi) / 2; x >= 10. */
static double stirling_rest(double x)
{
    static const double c[] = {1. / 12,    -1. / 360, 1. / 1260,
                               -1. / 1680, 1. / 1188, -691. / 360360};
    double r = 0, q = 1 / (x * x);
    for (int i = 5; i >= 0; i--)
        r = r * q + c[i];
    return r / x;
}

/* log Gamma(a) - log Gamma(a + b) for a >= 10. */
static double gamma_ratio(double a, double b)
{
    return stirling_rest(a) - stirling_rest(a + b) - (a - 0.5) * log1p(b / a) - b * log(a + b) + b;
}

static double log_beta(double a, double b)
{
    if (a < b) {
        double t = a;
        a = b;
        b = t;
    }
    return a < 10 ? lgamma(a) + lgamma(b) - lgamma(a + b) : lgamma(b) + gamma_ratio(a, b);
}

/* Continued fraction of I_x(a, b); converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1), f;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    f = d;
    for (int m = 1; m < 100000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        for (int k = 0; k < 2; k++) {
            double num = k ? odd : even;
            d = 1 + num * d;
            c = 1 + num / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            f *= c * d;
        }
        if (fabs(c * d - 1) < DBL_EPSILON)
            break;
    }
    return f;
}

/* I_x(a, b) where y = 1 - x is given too, so that neither end loses digits. */
static double beta_inc(double x, double y, double a, double b)
{
    if (!(x > 0))
        return 0;
    if (!(y > 0))
        return 1;
    double front = exp(a * (x < 0.5 ? log(x) : log1p(-y)) + b * (y < 0.5 ? log(y) : log1p(-x)) -
                       log_beta(a, b));
    if (x < (a + 1) / (a + b + 2))
        return front / a * beta_fraction(x, a, b);
    return 1 - front / b * beta_fraction(y, b, a);
}

/* Regularised lower incomplete gamma function P(a, x), or Q = 1 - P if upper. */
static double gamma_inc(double a, double x, bool upper)
{
    if (!(x > 0))
        return upper ? 1 : 0;
    double log_front = a >= 10 ? -stirling_rest(a) - 0.5 * log(2 * M_PI / a) +
                                     a * (log1p((x - a) / a) - (x - a) / a)
                               : a * log(x) - x - lgamma(a);
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int k = 1; k < 100000 && term > sum * DBL_EPSILON; k++)
            sum += term *= x / (a + k);
        double p = sum * exp(log_front);
        return upper ? 1 - p : p;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, f = d;
    for (int k = 1; k < 100000; k++) {
        double num = -k * (k - a);
        b += 2;
        d = 1 / (num * d + b);
        c = b + num / c;
        f *= c * d;
        if (fabs(c * d - 1) < DBL_EPSILON)
            break;
    }
    double q = f * exp(log_front);
    return upper ? q : 1 - q;
}

/* ---- quantiles: the root of a CDF ------------------------------------------------------------ */

typedef double cdf_fn(double x, double df);

/* x in [lo, hi] with cdf(x) = p, cdf increasing. */
static double bisect(cdf_fn *cdf, double df, double p, double lo, double hi)
{
    for (int i = 0; i < 2000; i++) {
        double mid = lo + (hi - lo) / 2;
        if (mid <= lo || mid >= hi)
            break;
        if (cdf(mid, df) < p)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* ---- normal ----------------------------------------------------------------------------------- */

double stats_norm_cdf(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

static double norm_cdf2(double x, double unused)
{
    (void)unused;
    return stats_norm_cdf(x);
}

double stats_norm_quantile(double p)
{
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (p > 0.5)
        return -stats_norm_quantile(1 - p);
    return p == 0.5 ? 0 : bisect(norm_cdf2, 0, p, -40, 0);
}

/* ---- Student's t, central and not ------------------------------------------------------------- */

/* P(T < -|x|) */
static double t_tail(double x, double df)
{
    double q = x * x;
    return 0.5 * beta_inc(df / (df + q), q / (df + q), df / 2, 0.5);
}

double stats_t_cdf(double x, double df)
{
    if (!(df > 0) || isnan(x))
        return NAN;
    if (isinf(df))
        return stats_norm_cdf(x);
    if (isinf(x))
        return x > 0;
    return x > 0 ? 1 - t_tail(x, df) : t_tail(x, df);
}

double stats_t_quantile(double p, double df)
{
    if (!(df > 0) || !(p > 0 && p < 1))
        return df > 0 && p == 0 ? -INFINITY : df > 0 && p == 1 ? INFINITY : NAN;
    if (p > 0.5)
        return -stats_t_quantile(1 - p, df);
    if (p == 0.5)
        return 0;
    double lo = -1;
    while (stats_t_cdf(lo, df) > p && lo > -1e150)
        lo *= 4;
    return bisect(stats_t_cdf, df, p, lo, 0);
}

/* Terms of AS 243 for t >= 0. */
static double nct_positive(double t, double df, double delta)
{
    double x = t * t / (t * t + df), y = df / (t * t + df), half = delta * delta / 2;
    double log_half = log(half), sum = 0;
    int middle = (int)half, width = (int)(12 * sqrt(half + 1)) + 40;
    int from = middle > width ? middle - width : 0;
    for (int j = from; j <= middle + width; j++) {
        double p = exp(-half + j * log_half - lgamma(j + 1.0));
        double q = exp(-half + j * log_half - lgamma(j + 1.5)) * delta * M_SQRT1_2;
        sum += p * beta_inc(x, y, j + 0.5, df / 2) + q * beta_inc(x, y, j + 1.0, df / 2);
    }
    return stats_norm_cdf(-delta) + sum / 2;
}

double stats_nct_cdf(double x, double df, double delta)
{
    if (!(df > 0) || isnan(x) || !(fabs(delta) < 1000))
        return NAN;
    if (delta == 0)
        return stats_t_cdf(x, df);
    double p = x >= 0 ? nct_positive(x, df, delta) : 1 - nct_positive(-x, df, -delta);
    return p < 0 ? 0 : p > 1 ? 1 : p;
}

/* ---- chi-squared and binomial ----------------------------------------------------------------- */

static double chi2_cdf(double x, double df)
{
    return gamma_inc(df / 2, x / 2, false);
}

/* Increasing in x: minus the upper tail. */
static double chi2_minus_tail(double x, double df)
{
    return -gamma_inc(df / 2, x / 2, true);
}

double stats_chi2_quantile(double p, double df)
{
    if (!(df > 0) || !(p >= 0 && p < 1))
        return df > 0 && p == 1 ? INFINITY : NAN;
    double hi = df + 1;
    while (chi2_cdf(hi, df) < p && hi < 1e12)
        hi *= 2;
    return p > 0.5 ? bisect(chi2_minus_tail, df, p - 1, 0, hi) : bisect(chi2_cdf, df, p, 0, hi);
}

double stats_f_tail(double f, double df1, double df2)
{
    double s = df1 * f + df2;
    return isnan(f) ? NAN : beta_inc(df2 / s, df1 * f / s, df2 / 2, df1 / 2);
}

double stats_binom_cdf(int64_t k, int64_t n, double p)
{
    if (n < 0 || !(p >= 0 && p <= 1))
        return NAN;
    if (k < 0 || k >= n)
        return k >= 0;
    return beta_inc(1 - p, p, (double)(n - k), (double)k + 1);
}
