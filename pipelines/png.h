/* png: an RGB picture as a PNG file (ISO/IEC 15948), compressed by runs: enough for charts. */
#ifndef PIPELINES_PNG_H
#define PIPELINES_PNG_H

#include <stddef.h>

#include "base/buf.h"

/* rgb: height rows of width * 3 bytes. */
void png_write(const unsigned char *rgb, size_t width, size_t height, struct buf *out);

#endif
