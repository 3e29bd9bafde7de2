/* canvas: what a chart is drawn with. Units are the SVG's; y grows downwards. */
#ifndef PIPELINES_CANVAS_H
#define PIPELINES_CANVAS_H

#include <stddef.h>

enum ink {
    INK_GRID,  /* thin, faint */
    INK_AXIS,  /* thin */
    INK_LINE,  /* a series */
    INK_RAW,   /* a series' raw points, faint */
    INK_RANGE, /* an interval of a series */
    INK_DASH,  /* a reference line */
};
enum anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END };

struct canvas;
struct canvas_ops {
    /* Through n points (x, y pairs); style is the series' for LINE, RAW and RANGE. */
    void (*path)(struct canvas *c, const double *xy, size_t n, enum ink ink, int style);
    void (*marker)(struct canvas *c, double x, double y, int style);
    /* size in units; turned: reads upwards */
    void (*text)(struct canvas *c, double x, double y, const char *s, double size,
                 enum anchor anchor, int turned);
    /* Until the next call with w <= 0 paths and markers stay inside. */
    void (*clip)(struct canvas *c, double x, double y, double w, double h);
};
struct canvas {
    const struct canvas_ops *ops;
    void *impl;
};

/* 0 solid, 1 to 3 dashed: with the colour, 32 styles; neighbours differ in both. */
int chart_dash(int style);

struct chart;
/* Height that the chart needs, and drawing it (pipelines/chart.c). */
double chart_height(const struct chart *c, int titled);
void chart_draw(const struct chart *c, int titled, struct canvas *to);

#endif
