/* Distributions and tests against scipy (tests/golden/stats_scipy.jsonl) and closed forms. */
#include "base/json.h"
#include "base/stream.h"
#include "scoring/stats.h"
#include "tests/tap.h"

enum { MOST = 200 };

struct golden {
    double x[MOST], y[8];
    size_t nx, ny;
};

static void numbers(const struct json *v, double *out, size_t most, size_t *n)
{
    *n = json_kind(v) == JSON_ARR ? json_size(v) : 1;
    for (size_t i = 0; i < *n && i < most; i++)
        out[i] = json_num(json_kind(v) == JSON_ARR ? json_at(v, i) : v);
}

/* What our function gives for the row's arguments: out[0..ny). False: no such function. */
static bool ours(const char *f, const struct golden *g, double out[8])
{
    const double *x = g->x;
    struct estimate est;
    if (strcmp(f, "norm_cdf") == 0) {
        out[0] = stats_norm_cdf(x[0]);
    } else if (strcmp(f, "norm_quantile") == 0) {
        out[0] = stats_norm_quantile(x[0]);
    } else if (strcmp(f, "t_cdf") == 0) {
        out[0] = stats_t_cdf(x[0], x[1]);
    } else if (strcmp(f, "t_quantile") == 0) {
        out[0] = stats_t_quantile(x[0], x[1]);
    } else if (strcmp(f, "chi2_quantile") == 0) {
        out[0] = stats_chi2_quantile(x[0], x[1]);
    } else if (strcmp(f, "nct_cdf") == 0) {
        out[0] = stats_nct_cdf(x[0], x[1], x[2]);
    } else if (strcmp(f, "binom_cdf") == 0) {
        out[0] = stats_binom_cdf((int64_t)x[0], (int64_t)x[1], x[2]);
    } else if (strcmp(f, "mcnemar") == 0) {
        out[0] = stats_mcnemar((int64_t)x[0], (int64_t)x[1]);
    } else if (strcmp(f, "wilson") == 0) {
        stats_wilson((int64_t)x[0], (int64_t)x[1], x[2], &out[0], &out[1]);
    } else if (strcmp(f, "mde") == 0) {
        out[0] = stats_mde((int64_t)x[0]);
    } else if (strcmp(f, "pearson") == 0) {
        out[0] = stats_pearson(x, x + g->nx / 2, g->nx / 2);
    } else if (strcmp(f, "spearman") == 0) {
        out[0] = stats_spearman(x, x + g->nx / 2, g->nx / 2);
    } else if (strcmp(f, "seeds") == 0) {
        size_t na = (size_t)x[0];
        est = stats_seeds(x + 1, na, x + 1 + na, g->nx - 1 - na, 0.95);
        out[0] = est.lo;
        out[1] = est.hi;
        out[2] = est.p;
    } else if (strcmp(f, "mean") == 0) {
        double one[MOST];
        int32_t cluster[MOST];
        for (size_t i = 0; i < g->nx; i++) {
            one[i] = 1;
            cluster[i] = (int32_t)i;
        }
        est = stats_ratio(x, one, cluster, g->nx, 0.95);
        out[0] = est.value;
        out[1] = est.lo;
        out[2] = est.hi;
        out[3] = est.p;
    } else {
        return false;
    }
    return true;
}

static void test_golden(void)
{
    const char *path = "tests/golden/stats_scipy.jsonl";
    struct err e = {0};
    struct buf line = {0};
    struct stream *s = stream_open(path, &e);
    int rows = 0, wrong = 0;
    double worst = 0;
    if (!CHECK(s != NULL, "the golden values can be read %s", s ? "" : e.msg))
        return;
    while (stream_line(s, &line, 1 << 16, &e) > 0) {
        struct json *v = json_parse(buf_str(&line), &e);
        struct golden g = {.nx = 0};
        double out[8] = {0};
        struct str f = json_str(json_get(v, "f"));
        numbers(json_get(v, "x"), g.x, MOST, &g.nx);
        numbers(json_get(v, "y"), g.y, 8, &g.ny);
        bool known = ours(f.p, &g, out);
        for (size_t i = 0; i < g.ny; i++) {
            double off = fabs(out[i] - g.y[i]), allowed = 1e-300 + 1e-9 * fabs(g.y[i]);
            /* a probability near 1, or noncentral t near 0, is only as good as its complement */
            allowed += strcmp(f.p, "nct_cdf") == 0 || strcmp(f.p, "seeds") == 0 ? 1e-13 : 0;
            worst = off / fabs(g.y[i]) > worst && off > 1e-13 ? off / fabs(g.y[i]) : worst;
            if (!known || !(off <= allowed)) {
                wrong++;
                printf("# %.*s: got %.17g, want %.17g: %.100s\n", STR_ARG(f), out[i], g.y[i],
                       line.p);
            }
        }
        rows++;
        json_free(v);
    }
    stream_close(s);
    buf_release(&line);
    CHECK(rows > 250, "%d rows of scipy", rows);
    CHECK_INT(wrong, 0, "all agree to 1e-9 (worst %.1e)", worst);
}

static void test_closed_forms(void)
{
    CHECK_NEAR(stats_t_cdf(1, 1), 0.75, 1e-14, "t with 1 df is Cauchy: F(1) = 3/4");
    CHECK_NEAR(stats_t_quantile(0.975, 1), tan(M_PI * 0.475), 1e-12,
               "its 97.5%% point is a tangent");
    CHECK_NEAR(stats_t_cdf(1, 2), 0.5 + 1 / (2 * sqrt(3)), 1e-14,
               "t with 2 df: F(1) = 1/2 + 1/sqrt 12");
    CHECK_NEAR(stats_f_tail(9, 1, 5), 2 * (1 - stats_t_cdf(3, 5)), 1e-13,
               "F with 1 df is t squared");
    CHECK_NEAR(stats_f_tail(2.5, 2, 8), pow(1 + 2 * 2.5 / 8, -4), 1e-14,
               "F with 2 df has a closed form");
    CHECK_NEAR(stats_chi2_quantile(0.95, 2), -2 * log(0.05), 1e-11,
               "chi2 with 2 df is exponential");
    CHECK_NEAR(stats_binom_cdf(3, 10, 0.5), 176. / 1024, 1e-15, "binomial: 176 of 1024");
    CHECK_NEAR(stats_t_quantile(0.975, INFINITY), stats_norm_quantile(0.975), 1e-12,
               "t with infinite df is normal");
    double worst = 0;
    for (int i = 1; i < 200; i++)
        for (double df = 1; df < 1e7; df *= 7) {
            double p = i / 200., back = stats_t_cdf(stats_t_quantile(p, df), df);
            worst = fabs(back - p) > worst ? fabs(back - p) : worst;
        }
    CHECK_NEAR(worst, 0, 1e-11, "quantile and CDF of t undo each other");
    CHECK_NEAR(stats_nct_cdf(0, 7, 1.3), stats_norm_cdf(-1.3), 1e-14,
               "noncentral t at 0 is normal, whatever the df");
    CHECK(isnan(stats_t_cdf(1, 0)) && isnan(stats_t_quantile(1.5, 3)) &&
              isnan(stats_nct_cdf(NAN, 3, 1)) && isnan(stats_chi2_quantile(-1, 3)),
          "nonsense gives NaN");
    CHECK(stats_norm_quantile(0) < -1e300 && stats_t_quantile(1, 4) > 1e300,
          "0 and 1 give infinities");
}

int main(void)
{
    test_golden();
    test_closed_forms();
    return tap_done();
}
