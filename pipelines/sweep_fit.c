/* sweep_fit: least squares and Fieller's interval, see sweep_fit.h. */
#include "pipelines/sweep_fit.h"

#include <math.h>

#include "base/mem.h"
#include "scoring/stats.h"

double fit_at(const struct fit *f, double x)
{
    double u = log(x) - f->centre;
    return f->b[0] + u * (f->b[1] + u * f->b[2]);
}

/* Inverse of the symmetric 3 x 3 matrix of sums of powers; false if it is singular. */
static bool invert(const double s[5], double v[3][3])
{
    double m[3][3] = {{s[0], s[1], s[2]}, {s[1], s[2], s[3]}, {s[2], s[3], s[4]}};
    double det = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int a = (k + 1) % 3, b = (k + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
            v[i][k] = m[a][c] * m[b][d] - m[a][d] * m[b][c];
        }
    for (int i = 0; i < 3; i++)
        det += m[0][i] * v[i][0];
    if (!(fabs(det) > 1e-12 * fabs(s[0] * s[2] * s[4])))
        return false;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            v[i][k] /= det;
    return true;
}

/* Spread of the points of one x around their mean, and the x of the best mean. Returns the sum of
 * squares. */
static double replicates(struct fit *f, const double *x, const double *y, size_t n, bool higher)
{
    double ss = 0, best = NAN;
    f->values = 0;
    f->seed_df = 0;
    for (size_t i = 0; i < n; i++) {
        double mean = 0, count = 0;
        bool first = true;
        for (size_t k = 0; k < n; k++)
            if (x[k] == x[i]) {
                first = first && k >= i;
                mean += y[k];
                count++;
            }
        if (!first)
            continue;
        mean /= count;
        if (isnan(best) || (higher ? mean > best : mean < best)) {
            best = mean;
            f->best_mean = x[i];
        }
        f->values++;
        f->seed_df += count - 1;
        for (size_t k = 0; k < n; k++)
            if (x[k] == x[i])
                ss += (y[k] - mean) * (y[k] - mean);
    }
    f->seed_sd = f->seed_df > 0 ? sqrt(ss / f->seed_df) : NAN;
    return ss;
}

static const char *const FEW = "it takes at least four runs and three values";
static const char *const FLAT = "the curve is not significantly bent";
static const char *const UPSIDE = "the bend has its worst point in the middle, not its best";
static const char *const BEYOND = "the best point lies outside of the values tried";
static const char *const EXACT = "the points lie on the curve without any scatter to judge it by";

/* The interval of the optimum from the estimates and their covariance / s^2. */
static void fieller(struct fit *f, const double v[3][3], bool higher)
{
    double t = stats_t_quantile(0.5 + f->level / 2, f->df), k = t * t * f->sd * f->sd;
    double b1 = f->b[1], b2 = f->b[2];
    double A = 4 * (b2 * b2 - k * v[2][2]), B = 4 * (b1 * b2 - k * v[1][2]),
           C = b1 * b1 - k * v[1][1];
    double disc = B * B - 4 * A * C, u = -b1 / (2 * b2);
    if (!(f->sd > 1e-12 * (1 + fabs(f->b[0]))))
        f->why = EXACT;
    else if (!(A > 0) || !(disc > 0))
        f->why = FLAT;
    else if ((b2 < 0) != higher)
        f->why = UPSIDE;
    else if (exp(u + f->centre) < f->x_min || exp(u + f->centre) > f->x_max)
        f->why = BEYOND;
    if (f->why && f->why != EXACT)
        return;
    f->best = exp(u + f->centre);
    f->at_best = fit_at(f, f->best);
    if (f->why)
        return;
    f->lo = exp((-B - sqrt(disc)) / (2 * A) + f->centre);
    f->hi = exp((-B + sqrt(disc)) / (2 * A) + f->centre);
}

void fit_log_parabola(struct fit *f, const double *x, const double *y, size_t n, bool higher,
                      double level)
{
    double s[5] = {0}, r[3] = {0}, v[3][3], rss = 0;
    *f = (struct fit){.b = {NAN, NAN, NAN},
                      .centre = NAN,
                      .sd = NAN,
                      .df = (double)n - 3,
                      .x_min = INFINITY,
                      .x_max = -INFINITY,
                      .best = NAN,
                      .lo = NAN,
                      .hi = NAN,
                      .at_best = NAN,
                      .best_mean = NAN,
                      .misfit_p = NAN,
                      .level = level,
                      .n = n};
    double pure = replicates(f, x, y, n, higher);
    for (size_t i = 0; i < n; i++) {
        f->x_min = fmin(f->x_min, x[i]);
        f->x_max = fmax(f->x_max, x[i]);
    }
    if (n < 4 || f->values < 3) {
        f->why = FEW;
        return;
    }
    f->centre = 0;
    for (size_t i = 0; i < n; i++)
        f->centre += log(x[i]) / (double)n;
    for (size_t i = 0; i < n; i++) {
        double u = log(x[i]) - f->centre, p = 1;
        for (int k = 0; k < 5; k++, p *= u) {
            s[k] += p;
            if (k < 3)
                r[k] += p * y[i];
        }
    }
    if (!invert(s, v)) {
        f->why = FEW;
        return;
    }
    for (int i = 0; i < 3; i++)
        f->b[i] = v[i][0] * r[0] + v[i][1] * r[1] + v[i][2] * r[2];
    for (size_t i = 0; i < n; i++) {
        double d = y[i] - fit_at(f, x[i]);
        rss += d * d;
    }
    f->sd = sqrt(rss / f->df);
    double lack =
        (double)f->values - 3; /* degrees of freedom that the means have beside the curve */
    if (lack > 0 && f->seed_df > 0 && pure > 0)
        f->misfit_p = stats_f_tail((rss - pure) / lack / (pure / f->seed_df), lack, f->seed_df);
    fieller(f, v, higher);
}

/* ---- words ------------------------------------------------------------------------------------ */

static const char *figure(struct arena *a, double v)
{
    return arena_printf(a, fabs(v) >= 100 && fabs(v) < 1e6 ? "%.0f" : "%.3g", v);
}

const char *fit_words(const struct fit *f, struct arena *a)
{
    const char *what, *mean = "", *miss = "";
    bool outside = !f->why && (f->best_mean < f->lo || f->best_mean > f->hi);
    if (f->why && isnan(f->best))
        what = arena_printf(a, "optimum not identified: %s", f->why);
    else if (f->why)
        what = arena_printf(a, "optimum %s; its interval is not identified: %s", figure(a, f->best),
                            f->why);
    else
        what = arena_printf(a, "optimum %s, %.0f%% interval %s-%s%s", figure(a, f->best),
                            100 * f->level, figure(a, f->lo), figure(a, f->hi),
                            f->lo < f->x_min || f->hi > f->x_max ? " (beyond what was tried)" : "");
    if (!isnan(f->best_mean))
        mean = arena_printf(
            a, "; the best mean is at %s%s", figure(a, f->best_mean),
            outside ? ", outside of that interval: more runs would tell which is right" : "");
    if (f->misfit_p < 0.05)
        miss = arena_printf(a,
                            "; the means miss the curve by more than runs at one value scatter (p "
                            "%.2g): it is no parabola, narrow the range",
                            f->misfit_p);
    return arena_printf(a, "%s%s%s", what, mean, miss);
}
