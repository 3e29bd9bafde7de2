/* chart: lines, points and intervals on two axes, drawn onto a canvas: SVG text or PNG pixels.
 *
 * A chart describes itself in words (`title`, `desc`), which the SVG carries for those who cannot see
 * it. Series are told apart by colour, dash and marker, never by colour alone.
 */
#ifndef PIPELINES_CHART_H
#define PIPELINES_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct chart_series {
    const char *name;
    const double *x, *y;
    const double *lo, *hi; /* intervals of y; NULL: none */
    size_t n;
    const double *raw_x, *raw_y; /* drawn faintly behind the line; NULL: none */
    size_t nraw;
    const char *const *label; /* beside each point; NULL: none */
    bool line, points;
    int style; /* of runs: the same run has the same style in every chart */
};
enum chart_scale { CHART_LINEAR, CHART_LOG };
struct chart {
    const char *title, *desc, *x_label, *y_label;
    enum chart_scale x_scale;
    double y_min, y_max; /* NaN: from the data */
    double y_line;       /* a dashed line across; NaN: none */
    bool rows; /* y counts rows: names instead of numbers, row 0 on top, x has intervals */
    const struct chart_series *series;
    size_t n;
};

/* SVG of its own (alone = true: with name space, colours and drawn title) or inside a page that has
 * chart_css(). id must be unique on the page. */
void chart_svg(const struct chart *c, const char *id, bool alone, struct buf *out);
/* 8-bit RGB PNG, white background, `zoom` pixels a unit of the SVG. */
void chart_png(const struct chart *c, int zoom, struct buf *out);
const char *chart_css(void);

enum { CHART_STYLES = 8, CHART_WIDTH = 420 };

#endif
