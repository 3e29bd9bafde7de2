/* report_charts: the charts of a comparison by name.
 *
 *   loss-tokens loss-time loss-money   training loss, raw and smoothed
 *   batch cost                         batch size or cost against the first primary metric
 *   values:METRIC/TASK                 each run's value with its interval
 *   items:METRIC/TASK:RUN              what each item adds to the difference, sorted
 */
#ifndef PIPELINES_REPORT_CHARTS_H
#define PIPELINES_REPORT_CHARTS_H

#include "base/err.h"
#include "base/mem.h"
#include "pipelines/chart.h"
#include "pipelines/compare.h"

/* What a table says of the chart: one row a run, for those who cannot see it. Head first. */
struct chart_table {
    const char *const *cell;
    size_t columns, rows;
};
struct report_chart {
    struct chart chart;
    struct chart_table table;
    const char *why; /* nothing to draw because...; NULL: there is */
};
/* EXIT_USAGE and the names there are if the name is unknown. Everything lives in the arena. */
int report_chart_make(struct report_chart *x, const struct comparison *c, const char *name,
                      struct arena *a, struct err *e);
/* A number as a table shows it, by the width of an interval (NaN: four digits). */
const char *report_number(struct arena *a, double v, double width);
/* The first primary metric, or NULL. */
const struct compared_metric *report_headline(const struct comparison *c);
/* A metric that some run has: its description. */
const struct metric *report_any(const struct compared_metric *k, size_t nruns);

/* For the files of charts: an empty chart, and batch size or cost against the headline metric. */
struct chart report_blank(const char *title, const char *x, const char *y);
void report_scatter(struct report_chart *o, const struct comparison *c, bool cost, struct arena *a);

#endif
