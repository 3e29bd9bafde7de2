/* sweep_fit: quality against one option as a parabola in the option's logarithm, and where its
 * optimum lies.
 *
 * y = b0 + b1 u + b2 u^2, u = ln x, by least squares. The optimum -b1 / (2 b2) is a ratio of two
 * estimates, so its interval is Fieller's (J. R. Stat. Soc. B 16, 1954): all u for which the slope
 * b1 + 2 b2 u is not significantly different from 0. It is bounded only if the curvature itself is
 * significant; otherwise, or when the optimum is a worst point or lies outside of what was tried, the
 * fit says "not identified" and why.
 */
#ifndef PIPELINES_SWEEP_FIT_H
#define PIPELINES_SWEEP_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct fit {
    double b[3];         /* of u - centre, nats a token or whatever y is */
    double centre;       /* mean of ln x */
    double sd, df;       /* of the residuals; df = n - 3 */
    double x_min, x_max; /* tried */
    double best, lo, hi; /* the optimum and its interval, in x; NaN: not identified */
    double at_best;      /* the curve there */
    double seed_sd;      /* of runs at one x, pooled; NaN: no two */
    double seed_df;
    double best_mean; /* the x whose runs are best in the mean */
    double misfit_p;  /* that the means miss the curve by no more than runs at one x scatter; NaN */
    double level;
    size_t n, values; /* points; different x */
    const char *why;  /* not identified because...; NULL: it is */
};
/* x > 0. higher: the largest y is best. level: of the interval, 0.9. */
void fit_log_parabola(struct fit *f, const double *x, const double *y, size_t n, bool higher,
                      double level);
/* The curve at x and the half width of its mean's interval (NaN without df). */
double fit_at(const struct fit *f, double x);

/* "optimum 97.3, 90% interval 69.7-200" or why there is none; then what the means say against it. In the
 * arena. */
const char *fit_words(const struct fit *f, struct arena *a);

#endif
