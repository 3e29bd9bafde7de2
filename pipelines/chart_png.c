/* chart_png: a chart as pixels. Lines are drawn by their distance to each pixel, text from a small
 * bitmap font (pipelines/chart_font.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pipelines/canvas.h"
#include "pipelines/chart.h"
#include "pipelines/chart_font.h"
#include "pipelines/png.h"

struct raster {
    unsigned char *rgb;
    int width, height, zoom;
    double cx, cy, cw, ch; /* clip, pixels; cw 0: none */
};

/* As the light half of chart_css(). */
static const unsigned char colours[CHART_STYLES][3] = {
    {0x00, 0x60, 0xa8}, {0xb8, 0x4a, 0x00}, {0x00, 0x79, 0x5a}, {0xa3, 0x40, 0x7a},
    {0x7a, 0x5c, 0x00}, {0x2a, 0x7f, 0xb8}, {0x8a, 0x33, 0x24}, {0x44, 0x44, 0x44}};
static const unsigned char black[3] = {0x1a, 0x1a, 0x1a}, grey[3] = {0xe2, 0xe2, 0xe2},
                           white[3] = {255, 255, 255};

static void blend(struct raster *r, int x, int y, const unsigned char *c, double alpha)
{
    if (x < 0 || y < 0 || x >= r->width || y >= r->height || alpha <= 0)
        return;
    if (r->cw > 0 && (x < r->cx || y < r->cy || x >= r->cx + r->cw || y >= r->cy + r->ch))
        return;
    unsigned char *p = r->rgb + 3 * ((size_t)y * (size_t)r->width + (size_t)x);
    for (int k = 0; k < 3; k++)
        p[k] = (unsigned char)lround(p[k] + (c[k] - p[k]) * fmin(alpha, 1));
}

/* Pixels; half: half of the width. */
static void segment(struct raster *r, double x1, double y1, double x2, double y2, double half,
                    const unsigned char *c, double alpha)
{
    double dx = x2 - x1, dy = y2 - y1, len = dx * dx + dy * dy, m = half + 1;
    for (int y = (int)floor(fmin(y1, y2) - m); y <= (int)ceil(fmax(y1, y2) + m); y++)
        for (int x = (int)floor(fmin(x1, x2) - m); x <= (int)ceil(fmax(x1, x2) + m); x++) {
            double px = x + 0.5 - x1, py = y + 0.5 - y1;
            double t = len > 0 ? fmax(0, fmin(1, (px * dx + py * dy) / len)) : 0;
            double d = hypot(px - t * dx, py - t * dy);
            blend(r, x, y, c, alpha * fmin(1, half + 0.5 - d));
        }
}

/* on/off lengths in units, 0-ended; the pattern goes on from one segment to the next. */
static void dashed(struct raster *r, const double *xy, size_t n, const double *dash, double half,
                   const unsigned char *c)
{
    size_t at = 0;
    double left = dash[0] * r->zoom;
    for (size_t i = 0; i + 1 < n; i++) {
        double x = xy[2 * i] * r->zoom, y = xy[2 * i + 1] * r->zoom;
        double ex = xy[2 * i + 2] * r->zoom, ey = xy[2 * i + 3] * r->zoom;
        double len = hypot(ex - x, ey - y), gone = 0;
        while (gone < len) {
            double step = fmin(left, len - gone), a = gone / len, b = (gone + step) / len;
            if (at % 2 == 0)
                segment(r, x + a * (ex - x), y + a * (ey - y), x + b * (ex - x), y + b * (ey - y),
                        half, c, 1);
            gone += step;
            left -= step;
            if (left <= 1e-9) {
                at = dash[at + 1] > 0 ? at + 1 : 0;
                left = dash[at] * r->zoom;
            }
        }
    }
}

static void png_path(struct canvas *to, const double *xy, size_t n, enum ink ink, int style)
{
    static const double dashes[4][5] = {{5, 4}, {7, 3}, {2, 3}, {9, 3, 2, 3}};
    static const double half[] = {0.5, 0.5, 1, 0.5, 1.5, 0.5};
    static const double alpha[] = {1, 1, 1, 0.35, 0.55, 1};
    struct raster *r = to->impl;
    bool series = ink == INK_LINE || ink == INK_RAW || ink == INK_RANGE;
    const unsigned char *c = series            ? colours[style % CHART_STYLES]
                             : ink == INK_GRID ? grey
                                               : black;
    if (ink == INK_DASH || (ink == INK_LINE && chart_dash(style))) {
        dashed(r, xy, n, dashes[ink == INK_DASH ? 0 : chart_dash(style)], half[ink] * r->zoom, c);
        return;
    }
    for (size_t i = 0; i + 1 < n; i++)
        segment(r, xy[2 * i] * r->zoom, xy[2 * i + 1] * r->zoom, xy[2 * i + 2] * r->zoom,
                xy[2 * i + 3] * r->zoom, half[ink] * r->zoom, c, alpha[ink]);
}

static void png_marker(struct canvas *to, double x, double y, int style)
{
    /* corners around the middle, NAN-ended; the same shapes as in the SVG, its circle an octagon */
    static const double shape[8][18] = {
        {4, 0, 2.8, 2.8, 0, 4, -2.8, 2.8, -4, 0, -2.8, -2.8, 0, -4, 2.8, -2.8, 4, 0},
        {-4, -4, 4, -4, 4, 4, -4, 4, -4, -4, NAN},
        {0, -5, 5, 4, -5, 4, 0, -5, NAN},
        {0, -5, 5, 0, 0, 5, -5, 0, 0, -5, NAN},
        {0, 5, 5, -4, -5, -4, 0, 5, NAN},
        {-4, -4, 4, 4, 0, 0, -4, 4, 4, -4, NAN},
        {-5, 0, 5, 0, 0, 0, 0, -5, 0, 5, NAN},
        {-5, -2, 5, -2, 5, 2, -5, 2, -5, -2, NAN},
    };
    struct raster *r = to->impl;
    const double *s = shape[style % 8];
    int z = r->zoom;
    segment(r, x * z, y * z, x * z, y * z, 3 * z, white, 1);
    for (int i = 0; i + 3 < 18 && !isnan(s[i + 2]); i += 2)
        segment(r, (x + s[i]) * z, (y + s[i + 1]) * z, (x + s[i + 2]) * z, (y + s[i + 3]) * z, z,
                colours[style % CHART_STYLES], 1);
}

static void png_text(struct canvas *to, double x, double y, const char *s, double size,
                     enum anchor anchor, int turned)
{
    struct raster *r = to->impl;
    struct str text = str_z(s);
    double cell = size / 12, wide = 0, at = 0; /* units a pixel of the font */
    for (size_t i = 0; i < text.n;)
        wide += font_glyph(utf8_next(text, &i)) ? 6 * cell : 0;
    double start = anchor == ANCHOR_START ? 0 : anchor == ANCHOR_MIDDLE ? -wide / 2 : -wide;
    for (size_t i = 0; i < text.n; at += 6 * cell) {
        const unsigned char *g = font_glyph(utf8_next(text, &i));
        for (int row = 0; row < FONT_ROWS; row++)
            for (int col = 0; col < 5; col++) {
                if (!(g[row] >> (4 - col) & 1))
                    continue;
                double u = start + at + (col + 0.5) * cell, v = (row - 6.5) * cell;
                double px = turned ? x + v : x + u, py = turned ? y - u : y + v;
                double h = cell * r->zoom / 2;
                for (int yy = (int)lround(py * r->zoom - h); yy < (int)lround(py * r->zoom + h);
                     yy++)
                    for (int xx = (int)lround(px * r->zoom - h); xx < (int)lround(px * r->zoom + h);
                         xx++)
                        blend(r, xx, yy, black, 1);
            }
    }
}

static void png_clip(struct canvas *to, double x, double y, double w, double h)
{
    struct raster *r = to->impl;
    r->cx = (x - 6) * r->zoom;
    r->cy = y * r->zoom;
    r->cw = w > 0 ? (w + 12) * r->zoom : 0;
    r->ch = h * r->zoom;
}

static const struct canvas_ops png_ops = {png_path, png_marker, png_text, png_clip};

void chart_png(const struct chart *c, int zoom, struct buf *out)
{
    struct raster r = {
        .width = CHART_WIDTH * zoom, .height = (int)ceil(chart_height(c, 1)) * zoom, .zoom = zoom};
    struct canvas to = {&png_ops, &r};
    size_t size = (size_t)r.width * (size_t)r.height * 3;
    r.rgb = mem_alloc(size);
    memset(r.rgb, 255, size);
    chart_draw(c, 1, &to);
    png_write(r.rgb, (size_t)r.width, (size_t)r.height, out);
    free(r.rgb);
}
