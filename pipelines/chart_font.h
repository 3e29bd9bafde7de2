/* chart_font: a bitmap font for charts as pixels, drawn for assay. 5 columns, rows from the top of
 * capitals to the foot of descenders; the base line lies under row 6. */
#ifndef PIPELINES_CHART_FONT_H
#define PIPELINES_CHART_FONT_H

#include <stdint.h>

enum { FONT_ROWS = 9 };
/* FONT_ROWS rows, bit 4 is the left column. What there is no glyph for is an empty box. */
const unsigned char *font_glyph(uint32_t code_point);

#endif
