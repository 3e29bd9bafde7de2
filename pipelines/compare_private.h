/* compare_private: what compare.c, compare_pair.c and compare_recipe.c share. */
#ifndef PIPELINES_COMPARE_PRIVATE_H
#define PIPELINES_COMPARE_PRIVATE_H

#include "pipelines/compare.h"

/* Joins the units of d->m and d->base by id and estimates their difference; sets d->refused if they
 * cannot be joined. Everything lives in the arena. */
void compare_pair(struct delta *d, double level, struct arena *a);
/* Fills k->common. */
void compare_common(struct comparison *c, struct compared_metric *k);
/* Fills the recipes of every metric. */
void compare_recipes(struct comparison *c, const struct compare_options *o);
/* The metric of r that m, the same items in another unit, is counted as; NULL: it counts itself. */
const char *compare_counted_as(const struct result *r, const struct metric *m);
/* Whether run y is no draw beside x: the same result once more, or another checkpoint of one training.
 * The same seed on another machine, or run again, is a new draw. */
bool compare_same_draw(const struct result *x, const struct metric *mx, const struct result *y,
                       const struct metric *my);
enum verdict compare_verdict(const struct estimate *est, double p, double level,
                             bool higher_better);

#endif
