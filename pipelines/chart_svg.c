/* chart_svg: a chart as SVG. Colours are CSS variables, so that a page's dark mode reaches them; shapes
 * and dashes say the same as the colours. Palette: Okabe and Ito, "Color universal design" (2008),
 * with its yellow darkened on white. */
#include <math.h>
#include <stdio.h>

#include "pipelines/canvas.h"
#include "pipelines/chart.h"

/* Data: the style of every chart. */
static const char css[] =
    ".chart{--c0:#0060a8;--c1:#b84a00;--c2:#00795a;--c3:#a3407a;--c4:#7a5c00;--c5:#2a7fb8;"
    "--c6:#8a3324;--c7:#444;--ink:#1a1a1a;--grid:#e2e2e2;font:12px system-ui,sans-serif}"
    "@media screen and (prefers-color-scheme:dark){.chart{--c0:#62b5f5;--c1:#ff9d5c;--c2:#3ddbb0;"
    "--c3:#f09ccb;--c4:#f0d24a;--c5:#9cd8ff;--c6:#ff9c8a;--c7:#cfcfcf;--ink:#e8e8e8;"
    "--grid:#3a3d42}}"
    ".chart text{fill:var(--ink);stroke:none}.chart path{fill:none}"
    ".chart .grid{stroke:var(--grid)}.chart .axis{stroke:var(--ink)}"
    ".chart .dash{stroke:var(--ink);stroke-dasharray:5 4}"
    ".chart .line{stroke-width:2;stroke-linejoin:round}.chart .raw{stroke-width:1;opacity:.35}"
    ".chart .range{stroke-width:3;opacity:.55}"
    ".s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}"
    ".s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}"
    ".d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}"
    ".chart .pt{fill:var(--bg,#fff);stroke-width:2}";

const char *chart_css(void)
{
    return css;
}

struct svg {
    struct buf *out;
    const char *id;
    bool clipped;
    int clips;
};

static void escaped(struct buf *out, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '&':
            buf_addz(out, "&amp;");
            break;
        case '<':
            buf_addz(out, "&lt;");
            break;
        case '>':
            buf_addz(out, "&gt;");
            break;
        case '"':
            buf_addz(out, "&quot;");
            break;
        default:
            if ((unsigned char)*s >= 0x20)
                buf_addc(out, *s);
        }
}

/* One decimal, shortest. */
static void number(struct buf *out, double v)
{
    double r = round(v * 10) / 10;
    if (r == round(r))
        buf_printf(out, "%.0f", r == 0 ? 0 : r);
    else
        buf_printf(out, "%.1f", r);
}

static void svg_path(struct canvas *c, const double *xy, size_t n, enum ink ink, int style)
{
    static const char *const names[] = {"grid", "axis", "line", "raw", "range", "dash"};
    struct svg *s = c->impl;
    bool series = ink == INK_LINE || ink == INK_RAW || ink == INK_RANGE;
    buf_printf(s->out, "<path class=\"%s", names[ink]);
    if (series)
        buf_printf(s->out, " s%d", style % CHART_STYLES);
    if (ink == INK_LINE && chart_dash(style))
        buf_printf(s->out, " d%d", chart_dash(style));
    buf_addz(s->out, "\" d=\"M");
    for (size_t i = 0; i < n; i++) {
        buf_addz(s->out, i ? " " : "");
        number(s->out, xy[2 * i]);
        buf_addc(s->out, ',');
        number(s->out, xy[2 * i + 1]);
    }
    buf_addz(s->out, "\"/>");
}

static void svg_marker(struct canvas *c, double x, double y, int style)
{
    static const char *const shape[] = {
        "m-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", /* circle */
        "m-4,-4h8v8h-8z",                     /* square */
        "m0,-5l5,9h-10z",                     /* triangle */
        "m0,-5l5,5l-5,5l-5,-5z",              /* diamond */
        "m0,5l5,-9h-10z",                     /* triangle down */
        "m-4,-4l8,8m0,-8l-8,8",               /* cross */
        "m-5,0h10m-5,-5v10",                  /* plus */
        "m-5,-2h10v4h-10z",                   /* bar */
    };
    struct svg *s = c->impl;
    buf_printf(s->out, "<path class=\"pt s%d\" d=\"M", style % CHART_STYLES);
    number(s->out, x);
    buf_addc(s->out, ',');
    number(s->out, y);
    buf_printf(s->out, "%s\"/>", shape[style % 8]);
}

static void svg_text(struct canvas *c, double x, double y, const char *text, double size,
                     enum anchor anchor, int turned)
{
    static const char *const names[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    struct svg *s = c->impl;
    buf_addz(s->out, "<text");
    if (turned) {
        buf_addz(s->out, " transform=\"translate(");
        number(s->out, x);
        buf_addc(s->out, ' ');
        number(s->out, y);
        buf_addz(s->out, ") rotate(-90)\"");
    } else {
        buf_addz(s->out, " x=\"");
        number(s->out, x);
        buf_addz(s->out, "\" y=\"");
        number(s->out, y);
        buf_addc(s->out, '"');
    }
    buf_printf(s->out, "%s font-size=\"%g\">", names[anchor], size);
    escaped(s->out, text);
    buf_addz(s->out, "</text>");
}

static void svg_clip(struct canvas *c, double x, double y, double w, double h)
{
    struct svg *s = c->impl;
    if (s->clipped)
        buf_addz(s->out, "</g>");
    s->clipped = w > 0;
    if (!s->clipped)
        return;
    buf_printf(s->out,
               "<clipPath id=\"%s-c%d\"><path d=\"M%g,%gh%gv%gh%gz\"/></clipPath>"
               "<g clip-path=\"url(#%s-c%d)\">",
               s->id, s->clips, x - 6, y, w + 12, h, -w - 12, s->id, s->clips);
    s->clips++;
}

static const struct canvas_ops svg_ops = {svg_path, svg_marker, svg_text, svg_clip};

void chart_svg(const struct chart *c, const char *id, bool alone, struct buf *out)
{
    struct svg s = {.out = out, .id = id};
    struct canvas to = {&svg_ops, &s};
    buf_printf(out, "<svg class=\"chart\" role=\"img\" aria-labelledby=\"%s-t %s-d\" ", id, id);
    if (alone)
        buf_printf(out, "xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" ",
                   CHART_WIDTH, chart_height(c, 1));
    buf_printf(out, "viewBox=\"0 0 %d %.0f\"><title id=\"%s-t\">", CHART_WIDTH,
               chart_height(c, alone), id);
    escaped(out, c->title);
    buf_printf(out, "</title><desc id=\"%s-d\">", id);
    escaped(out, c->desc);
    buf_addz(out, "</desc>");
    if (alone)
        buf_printf(out,
                   "<style>svg{background:#fff;--bg:#fff}"
                   "@media screen and (prefers-color-scheme:dark)"
                   "{svg{background:#16181c;--bg:#16181c}}%s</style>",
                   css);
    chart_draw(c, alone, &to);
    buf_addz(out, "</svg>\n");
}
