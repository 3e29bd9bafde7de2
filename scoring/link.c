/* link: see scoring/link.h. */
#include "scoring/link.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

double *link_at(const struct link_table *t, int32_t pass, int32_t model, size_t item)
{
    return &t->d[((size_t)pass * (size_t)t->models + (size_t)model) * t->items + item];
}

/* Items where both are there: the differences with their clusters made dense. */
static size_t differences(const struct link_table *t, int32_t pass_a, int32_t a, int32_t pass_b,
                          int32_t b, double *x, int32_t *cluster)
{
    int32_t most = 0, next = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->items; i++)
        most = t->cluster[i] > most ? t->cluster[i] : most;
    int32_t *dense = mem_array((size_t)most + 1, sizeof *dense);
    for (size_t i = 0; i < t->items; i++) {
        double d = *link_at(t, pass_b, b, i) - *link_at(t, pass_a, a, i);
        if (isnan(d))
            continue;
        if (!dense[t->cluster[i]])
            dense[t->cluster[i]] = ++next;
        cluster[n] = dense[t->cluster[i]] - 1;
        x[n++] = d;
    }
    free(dense);
    return n;
}

static struct estimate mean_of(const struct link_table *t, int32_t pass_a, int32_t a,
                               int32_t pass_b, int32_t b, double level)
{
    double *x = mem_array(2 * t->items + 1, sizeof *x), *one = x + t->items;
    int32_t *cluster = mem_array(t->items + 1, sizeof *cluster);
    size_t n = differences(t, pass_a, a, pass_b, b, x, cluster);
    for (size_t i = 0; i < n; i++)
        one[i] = 1;
    struct estimate e = stats_ratio(x, one, cluster, n, level);
    free(x);
    free(cluster);
    return e;
}

static double mean_d(const struct link_table *t, int32_t pass, int32_t m)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < t->items; i++) {
        double d = *link_at(t, pass, m, i);
        if (isnan(d))
            continue;
        sum += d;
        n++;
    }
    return n > 0 ? sum / n : NAN;
}

struct link link_passes(const struct link_table *t, int32_t p, int32_t q)
{
    struct link k = {.sd = NAN, .df = NAN, .slope = NAN, .p = NAN};
    double *shift = mem_array(2 * (size_t)t->models + 1, sizeof *shift), *x = shift + t->models;
    double squares = 0, xx = 0, xy = 0, rest = 0, noise = 0;
    for (int32_t m = 0; m < t->models; m++) {
        struct estimate e = mean_of(t, p, m, q, m, 0.95);
        if (!e.n || isnan(e.value))
            continue;
        shift[k.rejudged] = e.value;
        x[k.rejudged] = mean_d(t, p, m);
        squares += e.value * e.value;
        noise += isfinite(e.se) ? e.se * e.se : 0;
        xx += x[k.rejudged] * x[k.rejudged];
        xy += x[k.rejudged] * e.value;
        k.rejudged++;
    }
    double r = k.rejudged, rho = 1 / (t->anchors + 1);
    if (t->anchors < 1) {
        k.why = "the passes have no anchors in common";
    } else if (k.rejudged < LINK_LEAST) {
        k.why = "fewer than 3 models were judged in both passes";
    } else {
        k.sd = sqrt(squares / r);
        k.df = r / (1 + (r - 1) * rho * rho);
        k.slope = xx > 0 ? xy / xx : 0;
        for (int32_t i = 0; i < k.rejudged; i++)
            rest += pow(shift[i] - k.slope * x[i], 2);
        rest /= r - 1;
        if (rest < noise / r) /* three points may lie on a line by chance */
            rest = noise / r;
        if (rest > 0 && xx > 0)
            k.p = 2 * stats_t_cdf(-fabs(k.slope) * sqrt(xx / rest), r - 1);
        if (k.p < 0.05)
            k.why = "the judge has stretched its scale between the passes";
    }
    free(shift);
    return k;
}

struct estimate link_difference(const struct link_table *t, int32_t pass_a, int32_t a,
                                int32_t pass_b, int32_t b, double level)
{
    struct estimate e = mean_of(t, pass_a, a, pass_b, b, level);
    if (pass_a == pass_b)
        return e;
    struct link k =
        link_passes(t, pass_a < pass_b ? pass_a : pass_b, pass_a < pass_b ? pass_b : pass_a);
    if (k.why) {
        e.se = e.lo = e.hi = e.p = NAN;
        e.why = k.why;
        return e;
    }
    if (!isfinite(e.se))
        return e;
    double v1 = e.se * e.se, v2 = k.sd * k.sd;
    e.se = sqrt(v1 + v2);
    e.df = (v1 + v2) * (v1 + v2) / (v1 * v1 / e.df + v2 * v2 / k.df);
    double w = e.se * stats_t_quantile(0.5 + level / 2, e.df);
    e.lo = e.value - w;
    e.hi = e.value + w;
    e.p = 2 * stats_t_cdf(-fabs(e.value) / e.se, e.df);
    return e;
}
