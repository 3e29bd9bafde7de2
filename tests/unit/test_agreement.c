/* Agreement of two judges against scipy and scikit-learn; components of a judge's variance. */
#include "scoring/agreement.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/tap.h"

static size_t column(const struct json *row, const char *key, double *out)
{
    const struct json *v = json_get(row, key);
    for (size_t i = 0; i < json_size(v); i++)
        out[i] = json_num(json_at(v, i));
    return json_size(v);
}

static double want(const struct json *row, const char *key)
{
    return json_num(json_get(row, key));
}

static void test_golden(void)
{
    struct buf b = {0};
    struct err e = {0};
    double x[300], y[300];
    int cx[300], cy[300], rows = 0;
    if (file_read("tests/golden/agreement_sklearn.jsonl", &b, 0, &e)) {
        CHECK(false, "%s", e.msg);
        return;
    }
    for (struct str rest = buf_str(&b); rest.n; rows++) {
        struct json *row = json_parse(str_cut(&rest, '\n'), &e);
        size_t n = column(row, "a", x);
        column(row, "b", y);
        double lo = want(row, "lo"), hi = want(row, "hi");
        struct agreement g = agree_all(x, y, n, lo, hi);
        int classes = agree_classes(x, n, lo, hi, cx);
        agree_classes(y, n, lo, hi, cy);
        CHECK_NEAR(g.kendall, want(row, "kendall"), 1e-12, "row %d: Kendall's tau-b", rows);
        CHECK_NEAR(g.pearson, want(row, "pearson"), 1e-12, "row %d: Pearson", rows);
        CHECK_NEAR(g.spearman, want(row, "spearman"), 1e-12, "row %d: Spearman", rows);
        CHECK_NEAR(g.kappa, want(row, "kappa"), 1e-12, "row %d: kappa", rows);
        CHECK_NEAR(agree_kappa(cx, cy, n, classes, 1), want(row, "kappa_linear"), 1e-12,
                   "row %d: kappa, linear weights", rows);
        CHECK_NEAR(g.kappa_quadratic, want(row, "kappa_quadratic"), 1e-12,
                   "row %d: kappa, quadratic weights", rows);
        CHECK_INT(g.classes, json_int(json_get(row, "classes"), 0), "row %d: classes", rows);
        json_free(row);
    }
    CHECK(rows >= 8, "%d rows", rows);
    buf_release(&b);
}

static void test_edges(void)
{
    double a[] = {1, 2, NAN, 4}, b[] = {2, NAN, 3, 8}, flat[] = {5, 5, 5, 5};
    struct agreement g = agree_all(a, b, 4, 0, 10);
    CHECK_INT(g.n, 2, "pairs with a NaN are left out");
    CHECK_NEAR(g.shift, 2.5, 1e-12, "the mean of b - a");
    CHECK(isnan(agree_kendall(a, flat, 4)) && isnan(agree_kendall(a, b, 1)),
          "no spread, or one pair: not estimable");
    g = agree_all(flat, flat, 4, 0, 10);
    CHECK(isnan(g.kappa) && isnan(g.pearson), "both always the same: kappa is not estimable");
    g = agree_all(a, b, 0, 0, 10);
    CHECK(g.n == 0 && isnan(g.shift), "nothing at all: not estimable");
}

static void test_noise(void)
{
    enum { ITEMS = 4000, K = 3 };
    double *x = mem_array(ITEMS * K, sizeof *x), judge, item;
    int64_t used;
    struct rng r = rng_make(3, "noise", 0);
    for (int i = 0; i < ITEMS; i++) {
        double level = 20 * rng_normal(&r);
        for (int k = 0; k < K; k++)
            x[i * K + k] = level + 5 * rng_normal(&r);
    }
    agree_noise(x, ITEMS, K, &judge, &item, &used);
    CHECK_NEAR(judge, 5, 0.15, "the judge's own sd is found: %.2f", judge);
    CHECK_NEAR(item, 20, 0.7, "and the items': %.2f", item);
    x[0] = x[1] = NAN;
    agree_noise(x, ITEMS, K, &judge, &item, &used);
    CHECK_INT(used, ITEMS - 1, "an item with one verdict is left out");
    agree_noise(x, ITEMS, 1, &judge, &item, &used);
    CHECK(isnan(judge) && used == 0, "one verdict each: not estimable");
    free(x);
}

int main(void)
{
    test_golden();
    test_edges();
    test_noise();
    return tap_done();
}
