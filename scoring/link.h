/* link: scores of one judge from several passes on one scale, by difference in differences.
 *
 * A judge's scale drifts between passes (another day, another build of the model), so raw scores of
 * two passes don't compare. In each question stand the same anchors; d = score - mean score of the
 * anchors beside it, so whatever a pass or a question adds to all of its scores falls out. Model b
 * of pass q minus model a of pass p is mean over items of (d_qb - d_pa).
 *
 * What does not fall out is a model's own shift between passes. It is seen in the models that were
 * judged in both: shift_m = mean over items of (d_qm - d_pm). Of R of them
 *   sd^2 = sum shift_m^2 / R           (their expectation is 0)
 * is the variance that a link adds. It includes the items' share of the shifts, so it errs on the
 * wide side. All shifts share the anchors' own, so they are correlated by rho = 1 / (anchors + 1),
 * and the sum of squares has df = R / (1 + (R - 1) rho^2). Equal answers of two anchors are one
 * anchor: on the average (harmonic, over questions) that many stand in a question. Fewer than 3 re-judged models: not
 * supported. Misfit: if the shifts grow with the distance from the anchors (the judge stretches its
 * scale), differences of models far from the anchors would be biased: a slope through 0 that differs
 * from 0 at 5% is not supported either.
 */
#ifndef SCORING_LINK_H
#define SCORING_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scoring/stats.h"

enum { LINK_LEAST = 3 }; /* re-judged models */

/* d[pass][model][item]; NaN: not judged there. Anchors and sanity answers are no models here. */
struct link_table {
    int32_t passes, models;
    double anchors; /* different ones */
    size_t items;
    const int32_t *cluster; /* [items], dense */
    double *d;
};
double *link_at(const struct link_table *t, int32_t pass, int32_t model, size_t item);

struct link {
    int32_t rejudged;
    double sd, df;   /* what a link adds to an error, and how well that is known */
    double slope, p; /* of the shifts over the distance from the anchors, and its p */
    const char *why; /* NULL: supported; else why not */
};
struct link link_passes(const struct link_table *t, int32_t p, int32_t q);

/* b minus a. In one pass: paired by items. In two: linked; why says if the link is not supported
 * (then there is no interval). n counts the items with both. */
struct estimate link_difference(const struct link_table *t, int32_t pass_a, int32_t a,
                                int32_t pass_b, int32_t b, double level);

#endif
