/* A parabola in log x and Fieller's interval against numpy and scipy (tests/golden/make_fit.py), its
 * coverage by simulation, and what it must refuse. */
#include "tests/tap.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/stream.h"
#include "pipelines/sweep_fit.h"

static struct arena A;
static struct err E;

static double *numbers(const struct json *v, size_t *n)
{
    double *x = arena_array(&A, *n = json_size(v), sizeof *x);
    for (size_t i = 0; i < *n; i++)
        x[i] = json_num(json_at(v, i));
    return x;
}

static void against_numpy(void)
{
    struct stream *s = stream_open("tests/golden/fit_numpy.jsonl", &E);
    struct buf line = {0};
    int cases = 0;
    while (s && stream_line(s, &line, 1 << 20, &E) == 1) {
        struct json *o = json_parse(buf_str(&line), &E);
        const char *name = str_dup(&A, json_str(json_get(o, "name")));
        size_t n;
        double *x = numbers(json_get(o, "x"), &n), *y = numbers(json_get(o, "y"), &n);
        struct fit f;
        fit_log_parabola(&f, x, y, n, false, json_num(json_get(o, "level")));
        for (size_t i = 0; i < 3; i++) {
            double want = json_num(json_at(json_get(o, "b"), i));
            CHECK_NEAR(f.b[i], want, 1e-9 * (1 + fabs(want)), "%s: coefficient %zu", name, i);
        }
        CHECK_NEAR(f.sd, json_num(json_get(o, "sd")), 1e-10, "%s: residual sd", name);
        double lo = json_num(json_get(o, "lo")), hi = json_num(json_get(o, "hi"));
        if (isnan(lo) || isnan(hi)) {
            CHECK(f.why && isnan(f.best) && isnan(f.lo) && isnan(f.hi),
                  "%s: no end on one side there, not identified here (%s)", name,
                  f.why ? f.why : "it was");
        } else {
            CHECK(!f.why, "%s: identified", name);
            CHECK_NEAR(f.best, json_num(json_get(o, "best")), 1e-7 * f.best, "%s: optimum", name);
            CHECK_NEAR(f.lo, lo, 1e-7 * lo, "%s: lower end", name);
            CHECK_NEAR(f.hi, hi, 1e-7 * hi, "%s: upper end", name);
        }
        cases++;
        json_free(o);
    }
    CHECK_INT(cases, 5, "all cases were read");
    buf_release(&line);
    stream_close(s);
}

/* Of 10,000 sweeps over a known curve the 90% interval holds its optimum in 90%. */
static void coverage(void)
{
    const double xs[] = {4, 8, 16, 32, 64, 128}, truth = 20;
    int held = 0, refused = 0, told = 0;
    for (int k = 0; k < 10000; k++) {
        struct rng r = rng_make(1, "fit", (uint64_t)k);
        double x[12], y[12];
        for (int i = 0; i < 12; i++) {
            double u = log(xs[i % 6] / truth);
            x[i] = xs[i % 6];
            y[i] = 3.5 + 0.03 * u * u + 0.02 * rng_normal(&r);
        }
        struct fit f;
        fit_log_parabola(&f, x, y, 12, false, 0.9);
        refused += f.why != NULL;
        told += !f.why;
        held += !f.why && f.lo <= truth && truth <= f.hi;
    }
    double share = (double)held / told;
    CHECK_INT(refused, 0, "a curve well seen is always identified");
    CHECK(share > 0.89 && share < 0.91, "90%% intervals hold the truth in %.1f%%", 100 * share);
    /* No optimum at all: a 90% interval is told in at most 5% (both ends, and only downward bends). */
    told = 0;
    for (int k = 0; k < 10000; k++) {
        struct rng r = rng_make(2, "fit", (uint64_t)k);
        double x[12], y[12];
        for (int i = 0; i < 12; i++) {
            x[i] = xs[i % 6];
            y[i] = 3.5 + 0.02 * rng_normal(&r);
        }
        struct fit f;
        fit_log_parabola(&f, x, y, 12, false, 0.9);
        told += !f.why;
    }
    CHECK(told <= 566, "of 10,000 sweeps without an optimum %d were given one, at most 5%% + 3 se",
          told);
    CHECK(told >= 100, "and the test is not blind: %d", told);
}

static void refusals(void)
{
    struct fit f;
    const double x[] = {1, 2, 4, 8, 16}, up[] = {1.0, 1.5, 1.62, 1.48, 1.01},
                 rise[] = {1.0, 1.6, 2.4, 3.4, 4.61};
    fit_log_parabola(&f, x, up, 3, false, 0.9);
    CHECK_STR(f.why, "it takes at least four runs and three values", "three points");
    const double two[] = {1, 1, 2, 2}, y4[] = {1, 2, 3, 4};
    fit_log_parabola(&f, two, y4, 4, false, 0.9);
    CHECK_STR(f.why, "it takes at least four runs and three values", "two values");
    CHECK_NEAR(f.seed_sd, sqrt(0.5), 1e-12, "their seed sd is pooled");
    fit_log_parabola(&f, x, up, 5, false, 0.9);
    CHECK_STR(f.why, "the bend has its worst point in the middle, not its best", "a hill");
    fit_log_parabola(&f, x, up, 5, true, 0.9);
    CHECK(!f.why && f.best > 3 && f.best < 5, "which is the best where more is better: %g", f.best);
    fit_log_parabola(&f, x, rise, 5, false, 0.9);
    CHECK_STR(f.why, "the best point lies outside of the values tried", "only one side was tried");
    CHECK(isnan(f.best), "and no optimum is named");
    double exact_y[5];
    for (int i = 0; i < 5; i++)
        exact_y[i] = 1 + (log(x[i]) - log(3)) * (log(x[i]) - log(3));
    fit_log_parabola(&f, x, exact_y, 5, false, 0.9);
    CHECK(f.why && fabs(f.best - 3) < 1e-9, "points on the curve: an optimum without an interval");
    fit_log_parabola(&f, x, rise, 0, false, 0.9);
    CHECK(f.why != NULL, "nothing at all");
}

/* What the means say against the curve: a shape that is none, and a best mean beside the optimum. */
static void warnings(void)
{
    const double xs[] = {4, 8, 16, 32, 64, 128};
    int missed = 0;
    struct fit f;
    double x[12], y[12];
    for (int k = 0; k < 4000; k++) {
        struct rng r = rng_make(3, "fit", (uint64_t)k);
        for (int i = 0; i < 12; i++) {
            double u = log(xs[i % 6] / 20);
            x[i] = xs[i % 6];
            y[i] = 3.5 + 0.03 * u * u + 0.02 * rng_normal(&r);
        }
        fit_log_parabola(&f, x, y, 12, false, 0.9);
        missed += f.misfit_p < 0.05;
    }
    CHECK(missed > 150 && missed < 250, "of 4,000 parabolas %d are called none, about 5%%", missed);
    CHECK(!strstr(fit_words(&f, &A), "no parabola") || f.misfit_p < 0.05, "in words only then");
    for (int i = 0; i < 12; i++) /* flat, then a cliff */
        y[i] = (x[i] == 128 ? 4 : 3.5) + 0.001 * (i < 6 ? 1 : -1) * (i % 2 ? 1 : -1);
    y[1] = y[7] = 3.49;
    fit_log_parabola(&f, x, y, 12, false, 0.9);
    CHECK(f.misfit_p < 1e-6, "a cliff is no parabola: p %g", f.misfit_p);
    CHECK(strstr(fit_words(&f, &A), "it is no parabola, narrow the range"), "and it is said");
    CHECK_NEAR(f.best_mean, 8, 0, "the best mean");
    double even[] = {1, 2, 4, 8, 16, 32}, z[] = {1.2, 1.051, 1.0, 1.05, 1.201, 1.45};
    fit_log_parabola(&f, even, z, 6, false, 0.9);
    CHECK(!f.why && strstr(fit_words(&f, &A), "; the best mean is at 4") && isnan(f.misfit_p),
          "one run a value: the best mean is told, a misfit can't be: %s", fit_words(&f, &A));
    const double more[] = {1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24};
    for (int i = 0; i < 10; i++) {
        x[i] = more[i];
        y[i] = 1 + 0.1 * pow(log(more[i] / 4), 2) + 0.001 * (i % 2);
    }
    y[6] = 0.99; /* one lucky run at 8 */
    fit_log_parabola(&f, x, y, 10, false, 0.9);
    CHECK(!f.why && f.hi < 8 && strstr(fit_words(&f, &A), "the best mean is at 8, outside"),
          "a best mean outside of the interval is told: %s", fit_words(&f, &A));
}

int main(void)
{
    warnings();
    against_numpy();
    coverage();
    refusals();
    arena_release(&A);
    return tap_done();
}
