/* agreement: see scoring/agreement.h. */
#include "scoring/agreement.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "scoring/stats.h"

/* ---- Kendall -------------------------------------------------------------------------------- */

struct two {
    double a, b;
};

static int by_a_then_b(const void *x, const void *y)
{
    const struct two *p = x, *q = y;
    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    return p->b < q->b ? -1 : p->b > q->b;
}

/* Sorts v by b and counts the swaps that a bubble sort would need. */
static double sort_count(struct two *v, struct two *tmp, size_t n)
{
    if (n < 2)
        return 0;
    size_t m = n / 2, i = 0, k = m, out = 0;
    double swaps = sort_count(v, tmp, m) + sort_count(v + m, tmp, n - m);
    while (i < m && k < n) {
        if (v[k].b < v[i].b) {
            swaps += (double)(m - i);
            tmp[out++] = v[k++];
        } else {
            tmp[out++] = v[i++];
        }
    }
    while (i < m)
        tmp[out++] = v[i++];
    while (k < n)
        tmp[out++] = v[k++];
    memcpy(v, tmp, n * sizeof *v);
    return swaps;
}

static double pairs_in(size_t n)
{
    return 0.5 * (double)n * (double)(n - 1);
}

/* Pairs that are tied in a (which = 0), b (1) or both (2); v is sorted so that ties are neighbours. */
static double tied(const struct two *v, size_t n, int which)
{
    double sum = 0;
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1;
             k < n && (which == 1 || v[k].a == v[i].a) && (which == 0 || v[k].b == v[i].b); k++)
            ;
        sum += pairs_in(k - i);
    }
    return sum;
}

/* Drops pairs with a NaN; returns how many are left. */
static size_t keep(const double *a, const double *b, size_t n, struct two *v)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(a[i]) && !isnan(b[i]))
            v[k++] = (struct two){a[i], b[i]};
    return k;
}

double agree_kendall(const double *a, const double *b, size_t n)
{
    struct two *v = mem_array(n + 1, sizeof *v), *tmp = mem_array(n + 1, sizeof *tmp);
    double tau = NAN;
    n = keep(a, b, n, v);
    if (n >= 2) {
        qsort(v, n, sizeof *v, by_a_then_b);
        double all = pairs_in(n), in_a = tied(v, n, 0), in_both = tied(v, n, 2);
        double swaps = sort_count(v, tmp, n), in_b = tied(v, n, 1);
        double den = sqrt(all - in_a) * sqrt(all - in_b);
        if (den > 0)
            tau = (all - in_a - in_b + in_both - 2 * swaps) / den;
    }
    free(v);
    free(tmp);
    return tau;
}

/* ---- Cohen ---------------------------------------------------------------------------------- */

double agree_kappa(const int *a, const int *b, size_t n, int classes, int weight)
{
    double *row = mem_array((size_t)classes * 2, sizeof *row), *col = row + classes;
    double seen = 0, chance = 0;
    for (size_t i = 0; i < n; i++) {
        row[a[i]]++;
        col[b[i]]++;
        seen += weight == 0 ? a[i] != b[i] : pow(abs(a[i] - b[i]), weight);
    }
    for (int i = 0; i < classes; i++)
        for (int k = 0; k < classes; k++)
            chance += row[i] * col[k] * (weight == 0 ? i != k : pow(abs(i - k), weight));
    free(row);
    return chance > 0 ? 1 - seen * (double)n / chance : NAN;
}

int agree_classes(const double *v, size_t n, double lo, double hi, int *out)
{
    bool whole = hi - lo <= 9;
    for (size_t i = 0; i < n; i++)
        whole = whole && v[i] == floor(v[i]);
    int classes = whole ? (int)(hi - lo) + 1 : 5;
    for (size_t i = 0; i < n; i++) {
        int c = whole ? (int)(v[i] - lo) : (int)floor((v[i] - lo) / (hi - lo) * 5);
        out[i] = c < 0 ? 0 : c >= classes ? classes - 1 : c;
    }
    return classes;
}

/* ---- all of it ------------------------------------------------------------------------------ */

struct agreement agree_all(const double *a, const double *b, size_t n, double lo, double hi)
{
    struct two *v = mem_array(n + 1, sizeof *v);
    double *both = mem_array(2 * n + 1, sizeof *both);
    int *class = mem_array(2 * n + 1, sizeof *class);
    struct agreement g = {.kappa = NAN, .kappa_quadratic = NAN, .shift = NAN, .sd = NAN};
    size_t k = keep(a, b, n, v);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < k; i++) {
        both[i] = v[i].a;
        both[k + i] = v[i].b;
        sum += v[i].b - v[i].a;
    }
    for (size_t i = 0; i < k; i++)
        squares += pow(v[i].b - v[i].a - sum / (double)k, 2);
    g.n = (int64_t)k;
    g.pearson = stats_pearson(both, both + k, k);
    g.spearman = stats_spearman(both, both + k, k);
    g.kendall = agree_kendall(both, both + k, k);
    g.classes = agree_classes(both, 2 * k, lo, hi, class);
    if (k) {
        g.kappa = agree_kappa(class, class + k, k, g.classes, 0);
        g.kappa_quadratic = agree_kappa(class, class + k, k, g.classes, 2);
        g.shift = sum / (double)k;
    }
    if (k > 1)
        g.sd = sqrt(squares / (double)(k - 1));
    free(v);
    free(both);
    free(class);
    return g;
}

void agree_noise_add(struct agree_noise *t, const double *x, size_t k)
{
    double s = 0, q = 0;
    int64_t n = 0;
    for (size_t r = 0; r < k; r++)
        if (!isnan(x[r])) {
            s += x[r];
            n++;
        }
    if (n < 2)
        return;
    for (size_t r = 0; r < k; r++)
        if (!isnan(x[r]))
            q += pow(x[r] - s / (double)n, 2);
    t->within += q;
    t->df += (double)(n - 1);
    t->inverse += 1 / (double)n;
    t->sum += s / (double)n;
    t->squares += pow(s / (double)n, 2);
    t->used++;
}

void agree_noise_end(const struct agree_noise *t, double *judge_sd, double *item_sd)
{
    *judge_sd = *item_sd = NAN;
    if (t->used < 2)
        return;
    double m = (double)t->used, one = t->within / t->df;
    double between = (t->squares - t->sum * t->sum / m) / (m - 1) - one * t->inverse / m;
    *judge_sd = sqrt(one);
    *item_sd = between > 0 ? sqrt(between) : 0;
}

void agree_noise(const double *x, size_t items, size_t k, double *judge_sd, double *item_sd,
                 int64_t *used)
{
    struct agree_noise s = {0};
    for (size_t i = 0; i < items; i++)
        agree_noise_add(&s, &x[i * k], k);
    agree_noise_end(&s, judge_sd, item_sd);
    *used = s.used;
}
