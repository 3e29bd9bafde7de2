/* agreement: do two judges (or a judge and people) say the same? And a judge's own noise.
 *
 * Pairs with a NaN on either side are left out first. "Not estimable" is NaN, never 0.
 */
#ifndef SCORING_AGREEMENT_H
#define SCORING_AGREEMENT_H

#include <stddef.h>
#include <stdint.h>

/* Kendall's tau-b (Kendall 1945: ties on either side shrink the denominator), in O(n log n) after
 * Knight 1966. NaN for n < 2 or no spread. */
double agree_kendall(const double *a, const double *b, size_t n);

/* Cohen's kappa over `classes` classes 0..classes-1. weight 0: any disagreement is one; 1: weighs
 * |i - j|; 2: (i - j)^2. NaN if chance alone would agree always. */
double agree_kappa(const int *a, const int *b, size_t n, int classes, int weight);

/* A class for each value: whole numbers lo..hi if there are at most 10 of them, else five equal
 * bands of lo..hi. Returns the number of classes. */
int agree_classes(const double *v, size_t n, double lo, double hi, int *out);

struct agreement {
    int64_t n;
    double pearson, spearman, kendall;
    double kappa, kappa_quadratic; /* over `classes` classes */
    int classes;
    double shift, sd; /* mean and sd of b - a */
};
struct agreement agree_all(const double *a, const double *b, size_t n, double lo, double hi);

/* Components of variance of a judge that spoke several times: x[item * k + repeat], NaN left out.
 * judge_sd: of one verdict around its item's mean (pooled); item_sd: of the items' means, less the
 * judge's share of it. items: those with two verdicts or more. Needs 2 such items. */
void agree_noise(const double *x, size_t items, size_t k, double *judge_sd, double *item_sd,
                 int64_t *used);
/* The same an item at a time: k values of one item each. Zeroed is empty. */
struct agree_noise {
    double within, df, sum, squares, inverse;
    int64_t used;
};
void agree_noise_add(struct agree_noise *s, const double *x, size_t k);
void agree_noise_end(const struct agree_noise *s, double *judge_sd, double *item_sd);

#endif
