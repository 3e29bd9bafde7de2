/* judge_summary: the mean of very many scores and what goes with it, an item at a time: memory grows
 * with the number of different values and lengths, not with that of items (base/spool.h).
 */
#ifndef SCORING_JUDGE_SUMMARY_H
#define SCORING_JUDGE_SUMMARY_H

#include "base/spool.h"
#include "formats/item.h"

/* Mean of the scores with what is not known: lo_all, hi_all are the means if every unscored answer
 * had got lo or hi, the ends of the scale. */
struct judge_summary {
    int64_t n, count[6]; /* all, by enum outcome */
    double mean, lo, hi; /* of the scored; 95% interval, clusters respected; NaN: not estimable */
    const char *why;     /* no interval: why */
    double lo_all, hi_all;
    /* The scored with the lengths of their answers; NaN: not estimable. */
    double length_mean, pearson, spearman;
};

/* How often each value was seen, in order of the values. */
struct judge_tally {
    struct judge_tally_row *v;
    size_t n, cap;
};
/* Zeroed is empty. */
struct judge_sums {
    int64_t n, count[6], clusters;
    double sum, length;
    struct spool cluster, row; /* sums of each cluster; value and length of each score */
    struct judge_tally values, lengths;
    uint64_t at; /* of the cluster that is handed out */
};
/* cluster: a number of the item's cluster, small ones; length: of the answer, in characters. */
void judge_sums_add(struct judge_sums *x, const struct score *s, int32_t cluster, double length);
/* Releases x too. lo, hi: the ends of the scale. */
int judge_sums_end(struct judge_sums *x, double lo, double hi, struct judge_summary *out,
                   struct err *e);

#endif
