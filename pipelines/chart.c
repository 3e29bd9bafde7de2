/* chart: scales, ticks and layout; what is drawn with is in chart_svg.c and chart_png.c. */
#include "pipelines/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipelines/canvas.h"

enum { FONT = 12, LEGEND_ROW = 17, ROW = 24 };

struct frame {
    const struct chart *c;
    struct canvas *to;
    double left, top, width, height; /* of the plot */
    double x0, x1, y0, y1;           /* of the data */
};

static double map_x(const struct frame *f, double x)
{
    double a = f->x0, b = f->x1;
    if (f->c->x_scale == CHART_LOG) {
        x = log10(x);
        a = log10(a);
        b = log10(b);
    }
    return f->left + (x - a) / (b - a) * f->width;
}

static double map_y(const struct frame *f, double y)
{
    if (f->c->rows)
        return f->top + (y + 0.5) * ROW;
    return f->top + f->height - (y - f->y0) / (f->y1 - f->y0) * f->height;
}

/* ---- ranges and ticks --------------------------------------------------------------------------- */

static void widen(double v, double *lo, double *hi)
{
    if (!isfinite(v))
        return;
    *lo = isnan(*lo) || v < *lo ? v : *lo;
    *hi = isnan(*hi) || v > *hi ? v : *hi;
}

/* A range that is not empty, with a margin. */
static void settle(double *lo, double *hi, double share)
{
    if (isnan(*lo)) {
        *lo = 0;
        *hi = 1;
    }
    double span = *hi - *lo;
    if (!(span > 0))
        span = fabs(*hi) > 0 ? fabs(*hi) * 0.1 : 1;
    *lo -= span * share;
    *hi += span * share;
}

static void ranges(struct frame *f)
{
    const struct chart *c = f->c;
    f->x0 = f->x1 = f->y0 = f->y1 = NAN;
    for (size_t s = 0; s < c->n; s++) {
        const struct chart_series *v = &c->series[s];
        for (size_t i = 0; i < v->n; i++) {
            widen(v->x[i], &f->x0, &f->x1);
            widen(v->y[i], &f->y0, &f->y1);
            if (v->lo) {
                widen(v->lo[i], c->rows ? &f->x0 : &f->y0, c->rows ? &f->x1 : &f->y1);
                widen(v->hi[i], c->rows ? &f->x0 : &f->y0, c->rows ? &f->x1 : &f->y1);
            }
        }
    }
    bool lines = c->n && c->series[0].line;
    if (c->x_scale == CHART_LOG) {
        f->x0 = isnan(f->x0) ? 1 : f->x0 / 1.4;
        f->x1 = isnan(f->x1) ? 10 : f->x1 * 1.4;
    } else {
        settle(&f->x0, &f->x1, lines ? 0 : 0.08);
    }
    if (c->rows)
        widen(c->y_line, &f->x0, &f->x1);
    else
        widen(c->y_line, &f->y0, &f->y1);
    settle(&f->y0, &f->y1, 0.06);
    f->y0 = isnan(c->y_min) ? f->y0 : c->y_min;
    f->y1 = isnan(c->y_max) ? f->y1 : c->y_max;
}

/* 1, 2 or 5 times a power of ten, at least `span` / `most`. */
static double tick_step(double span, int most)
{
    double raw = span / most, p = pow(10, floor(log10(raw)));
    double m = raw / p;
    return p * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static void tick_text(double v, double step, char out[32])
{
    static const struct {
        double unit;
        const char *name;
    } big[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    double size = fmax(fabs(v), step);
    if (fabs(v) < step * 1e-6)
        v = 0;
    for (int i = 0; i < 3; i++)
        if (size >= big[i].unit * (i == 2 ? 10 : 1)) {
            snprintf(out, 32, v == 0 ? "0" : "%.3g%s", v / big[i].unit, big[i].name);
            return;
        }
    int digits = step > 0 && step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    snprintf(out, 32, "%.*f", digits > 9 ? 9 : digits, v);
}

static void line(struct canvas *to, double x1, double y1, double x2, double y2, enum ink ink)
{
    to->ops->path(to, (double[]){x1, y1, x2, y2}, 2, ink, 0);
}

static void x_tick(const struct frame *f, double v, double step)
{
    char text[32];
    double x = map_x(f, v), bottom = f->top + f->height;
    if (x < f->left - 0.5 || x > f->left + f->width + 0.5)
        return;
    line(f->to, x, f->top, x, bottom, INK_GRID);
    tick_text(v, step, text);
    f->to->ops->text(f->to, x, bottom + 16, text, FONT, ANCHOR_MIDDLE, 0);
}

static void x_axis(const struct frame *f)
{
    if (f->c->x_scale == CHART_LOG) {
        bool wide = log10(f->x1 / f->x0) > 1.5;
        for (double p = pow(10, floor(log10(f->x0))); p <= f->x1; p *= 10)
            for (int m = 1; m < 10; m = m == 1 ? 2 : m == 2 ? 5 : 10)
                if (!wide || m == 1)
                    x_tick(f, p * m, p * m);
    } else {
        double step = tick_step(f->x1 - f->x0, 5);
        for (double v = ceil(f->x0 / step) * step; v <= f->x1 + step * 1e-9; v += step)
            x_tick(f, v, step);
    }
    line(f->to, f->left, f->top + f->height, f->left + f->width, f->top + f->height, INK_AXIS);
    f->to->ops->text(f->to, f->left + f->width / 2, f->top + f->height + 34, f->c->x_label, FONT,
                     ANCHOR_MIDDLE, 0);
}

static void y_axis(const struct frame *f)
{
    double step = tick_step(f->y1 - f->y0, 6);
    char text[32];
    for (double v = ceil(f->y0 / step) * step; v <= f->y1 + step * 1e-9; v += step) {
        line(f->to, f->left, map_y(f, v), f->left + f->width, map_y(f, v), INK_GRID);
        tick_text(v, step, text);
        f->to->ops->text(f->to, f->left - 6, map_y(f, v) + 4, text, FONT, ANCHOR_END, 0);
    }
    line(f->to, f->left, f->top, f->left, f->top + f->height, INK_AXIS);
    f->to->ops->text(f->to, 13, f->top + f->height / 2, f->c->y_label, FONT, ANCHOR_MIDDLE, 1);
}

/* ---- series ------------------------------------------------------------------------------------- */

static void draw_path(const struct frame *f, const double *x, const double *y, size_t n,
                      enum ink ink, int style)
{
    double xy[2 * 512];
    size_t m = 0;
    for (size_t i = 0; i <= n; i++) {
        bool gap = i == n || !isfinite(x[i]) || !isfinite(y[i]);
        if (!gap) {
            xy[2 * m] = map_x(f, x[i]);
            xy[2 * m + 1] = map_y(f, y[i]);
            m++;
        }
        if ((gap || m == 512) && m) {
            f->to->ops->path(f->to, xy, m, ink, style);
            if (!gap) { /* goes on from its last point */
                xy[0] = xy[2 * m - 2];
                xy[1] = xy[2 * m - 1];
            }
            m = gap ? 0 : 1;
        }
    }
}

static void draw_ranges(const struct frame *f, const struct chart_series *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!isfinite(s->lo[i]) || !isfinite(s->hi[i]))
            continue;
        double a = f->c->rows ? map_x(f, s->lo[i]) : map_x(f, s->x[i]);
        double b = f->c->rows ? map_x(f, s->hi[i]) : a;
        double y = f->c->rows ? map_y(f, s->y[i]) : map_y(f, s->lo[i]);
        double z = f->c->rows ? y : map_y(f, s->hi[i]);
        f->to->ops->path(f->to, (double[]){a, y, b, z}, 2, INK_RANGE, s->style);
    }
}

/* A text that fits in `room` units, ended by an ellipsis if cut; on a character's edge. */
static const char *fit(const char *s, double room, char out[96])
{
    size_t most = room > 18 ? (size_t)(room / (FONT * 0.56)) : 3, n = 0, at = 0;
    while (s[at] && n < most && at < 88) {
        at++;
        while ((s[at] & 0xC0) == 0x80)
            at++;
        n++;
    }
    if (!s[at]) {
        snprintf(out, 96, "%s", s);
    } else {
        while (at && (s[at] & 0xC0) == 0x80)
            at--;
        snprintf(out, 96, "%.*s\xe2\x80\xa6", (int)at, s);
    }
    return out;
}

/* Beside each point, lower where another label stands already. */
static void draw_labels(const struct frame *f)
{
    enum { MOST = 64 };
    double px[MOST], py[MOST];
    size_t placed = 0;
    char text[96];
    for (size_t k = 0; k < f->c->n; k++) {
        const struct chart_series *s = &f->c->series[k];
        for (size_t i = 0; s->label && i < s->n; i++) {
            if (!isfinite(s->x[i]) || !isfinite(s->y[i]))
                continue;
            double x = map_x(f, s->x[i]), y = map_y(f, s->y[i]) - 6;
            bool left = x > f->left + f->width * 0.6;
            double room = left ? x - f->left : f->left + f->width - x;
            for (size_t o = 0; o < placed; o++)
                if (fabs(px[o] - x) < 90 && fabs(py[o] - y) < FONT) {
                    y = py[o] + FONT;
                    o = (size_t)-1; /* and look again */
                }
            f->to->ops->text(f->to, x + (left ? -8 : 8), y, fit(s->label[i], room - 10, text),
                             FONT - 1, left ? ANCHOR_END : ANCHOR_START, 0);
            if (placed < MOST) {
                px[placed] = x;
                py[placed++] = y;
            }
        }
    }
}

static void draw_series(const struct frame *f)
{
    struct canvas *to = f->to;
    to->ops->clip(to, f->left, f->top, f->width, f->height);
    for (size_t i = 0; i < f->c->n; i++) {
        const struct chart_series *s = &f->c->series[i];
        if (s->raw_x)
            draw_path(f, s->raw_x, s->raw_y, s->nraw, INK_RAW, s->style);
    }
    for (size_t i = 0; i < f->c->n; i++) {
        const struct chart_series *s = &f->c->series[i];
        if (s->lo)
            draw_ranges(f, s);
        if (s->line)
            draw_path(f, s->x, s->y, s->n, INK_LINE, s->style);
        for (size_t k = 0; s->points && k < s->n; k++)
            if (isfinite(s->x[k]) && isfinite(s->y[k]))
                to->ops->marker(to, map_x(f, s->x[k]), map_y(f, s->y[k]), s->style);
    }
    if (!isnan(f->c->y_line)) {
        if (f->c->rows)
            line(to, map_x(f, f->c->y_line), f->top, map_x(f, f->c->y_line), f->top + f->height,
                 INK_DASH);
        else
            line(to, f->left, map_y(f, f->c->y_line), f->left + f->width, map_y(f, f->c->y_line),
                 INK_DASH);
    }
    to->ops->clip(to, 0, 0, 0, 0);
    if (!f->c->rows)
        draw_labels(f);
}

int chart_dash(int style)
{
    return (style + style / CHART_STYLES) % 4;
}

/* ---- layout ------------------------------------------------------------------------------------- */

static bool has_legend(const struct chart *c)
{
    return !c->rows && c->n > 0 && (c->n > 1 || c->series[0].line) && !c->series[0].label;
}

static double plot_height(const struct chart *c)
{
    return c->rows ? (double)(c->n ? c->series[0].n : 1) * ROW : 230;
}

double chart_height(const struct chart *c, int titled)
{
    double legend = has_legend(c) ? 8 + LEGEND_ROW * (double)((c->n + 1) / 2) : 0;
    return (titled ? 30 : 10) + plot_height(c) + 44 + legend;
}

static void legend(const struct frame *f)
{
    char text[96];
    double half = (CHART_WIDTH - 20) / 2.0;
    for (size_t i = 0; i < f->c->n; i++) {
        const struct chart_series *s = &f->c->series[i];
        double x = 12 + half * (double)(i % 2),
               y = f->top + f->height + 56 + LEGEND_ROW * (double)(i / 2);
        if (s->line)
            f->to->ops->path(f->to, (double[]){x, y - 4, x + 26, y - 4}, 2, INK_LINE, s->style);
        else
            f->to->ops->marker(f->to, x + 13, y - 4, s->style);
        f->to->ops->text(f->to, x + 32, y, fit(s->name, half - 36, text), FONT, ANCHOR_START, 0);
    }
}

static void row_names(const struct frame *f)
{
    const struct chart_series *s = f->c->series;
    char text[96];
    for (size_t i = 0; f->c->n && i < s->n; i++)
        f->to->ops->text(f->to, f->left - 8, map_y(f, s->y[i]) + 4,
                         fit(s->label ? s->label[i] : s->name, f->left - 12, text), FONT,
                         ANCHOR_END, 0);
    line(f->to, f->left, f->top, f->left, f->top + f->height, INK_AXIS);
}

void chart_draw(const struct chart *c, int titled, struct canvas *to)
{
    double left = c->rows ? 126 : 58;
    struct frame f = {c, to, left, titled ? 30 : 10, CHART_WIDTH - left - 16, plot_height(c), 0,
                      0, 0,  0};
    ranges(&f);
    if (titled)
        to->ops->text(to, 12, 18, c->title, FONT + 2, ANCHOR_START, 0);
    x_axis(&f);
    if (c->rows)
        row_names(&f);
    else
        y_axis(&f);
    draw_series(&f);
    if (has_legend(c))
        legend(&f);
}
