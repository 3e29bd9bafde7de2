/* money: what hardware and time amount to. Pure formulas, docs/metrics.md ("Hardware and money").
 *
 * NaN in is NaN out: what is not known is not estimated here.
 */
#ifndef PIPELINES_MONEY_H
#define PIPELINES_MONEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/result.h"
#include "pipelines/sweep_fit.h"
#include "pipelines/table.h"

double money_cost(double seconds, double price_hour);
double money_rate(double tokens, double seconds);        /* tokens a second */
double money_gtoken(double money, double tokens);        /* money for 1e9 tokens */
double money_energy_token(double joules, double tokens); /* joules a token */
/* Share of the peak: rate x FLOP a token / (devices x peak). */
double money_mfu(double rate, double flops_token, double devices, double peak_tflops);
/* Share of linear scaling that n devices keep of the rate of n0. */
double money_scaling(double rate, double devices, double rate0, double devices0);
/* Seconds of `times` validations of `each` seconds taken out of a training of `seconds`. */
double money_without(double seconds, double times, double each);

/* The first point of a training curve from which the mean loss of `smooth` points is at or below
 * `loss`, linear between the points around it. `lo`, `hi`: these points; the truth lies between
 * them. False: not reached. */
struct reached {
    double seconds, seconds_lo, seconds_hi, tokens, tokens_lo, tokens_hi;
};
bool money_reached(const struct result_curve *c, double loss, size_t smooth, struct reached *r);

/* front[i]: nobody is at least as good in both and better in one. Both are better when smaller; an entry
 * with a NaN is never on the front. */
void money_front(const double *cost, const double *loss, size_t n, bool *front);

/* One run's figures, from its result and an optional other price of the whole machine an hour. */
struct price {
    struct str hardware; /* empty: any */
    double price_hour;
};
struct bill {
    double rate, rate_lo, rate_hi; /* tokens/s: median and the 10% and 90% step */
    double mfu, stall, comm, joules_token;
    double seconds, val_seconds, eval_seconds, billed_seconds, lost_seconds;
    double train, without_val, total; /* money */
    double billed;   /* what the provider took; NaN: unknown, or another price was given for it */
    double a_second; /* money a second of training, over segments */
    double lost;     /* of steps that a kill took, beside the total */
    double gtoken;   /* of training without validation, for 1e9 tokens */
    struct str currency;
    bool mixed; /* segments in different currencies: no sum */
};
/* What a run cost where runs are held against each other: training and evaluation. */
double money_dear(const struct bill *b);
void money_bill(struct bill *b, const struct result *r, const struct price *prices, size_t n);
/* Money of segment `at`, and of the steps that a kill took before it. */
void money_segment(const struct result *r, size_t at, const struct price *prices, size_t n,
                   double *money, double *lost);
/* Whether its segments are of more than one kind of machine. */
bool money_moved(const struct result *r);

struct money_options {
    const struct price *prices;
    size_t nprices;
    double loss;        /* training loss to reach; NaN: none */
    const char *metric; /* of quality, "nll_token" */
    int64_t smooth;
};
/* Tables of cost, cost to the loss, front, segments, scaling and batch size, for people: TABLE_TEXT or
 * TABLE_MD. */
void money_print(const struct result *v, size_t n, const struct money_options *o,
                 enum table_format f, struct buf *out);
/* The same for programs: numbers as they are, unknown ones empty (CSV) or null. CSV has the runs alone. */
void money_csv(const struct result *v, size_t n, const struct money_options *o, struct buf *out);
struct json *money_json(const struct result *v, size_t n, const struct money_options *o);
/* Whether more of the metric is better, by the first result that has it. */
bool money_higher(const struct result *v, size_t n, const char *metric);
/* The runs' bills, what stands for their quality, and which are on the front; in the arena. */
struct billed {
    struct bill *bill;
    double *quality;
    bool *front, higher;
};
struct billed money_bills(const struct result *v, size_t n, const struct money_options *o,
                          struct arena *a);
/* The rate a device against that of the fewest devices of the same kind here; NaN: there are no others. */
double money_scaled(const struct result *v, const struct bill *b, size_t n, size_t i);
/* The primary value of a metric in a result, windows before other tasks; NaN: none. */
double money_quality(const struct result *r, const char *metric);
/* Quality against batch size: which runs are alike but for batch size, seed and machine, as numbers of
 * recipes, and the curve over the recipe with the most batch sizes. quality NaN leaves a run out. False: no
 * recipe has three. of[i] == *recipe: run i is on the curve. */
bool money_batch_fit(const struct result *v, const double *quality, size_t n, bool higher,
                     struct fit *f, size_t *of, size_t *recipe);

#endif
