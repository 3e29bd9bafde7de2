/* table: aligned columns, see table.h. */
#include "pipelines/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void table_begin(struct table *t, size_t columns, const char *align)
{
    *t = (struct table){.columns = columns, .align = align};
}

void table_row(struct table *t, const char *const *cells)
{
    if (t->rows == t->room) {
        t->room = t->room ? 2 * t->room : 16;
        t->cell = mem_grow(t->cell, t->room * t->columns * sizeof *t->cell);
    }
    for (size_t i = 0; i < t->columns; i++)
        t->cell[t->rows * t->columns + i] = cells[i] ? cells[i] : "";
    t->rows++;
}

/* Columns on a screen: code points, which is right for the text that assay prints. */
static size_t width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static char side(const struct table *t, size_t column)
{
    return t->align && column < strlen(t->align) ? t->align[column] : 'l';
}

static void pad(struct buf *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_addc(out, ' ');
}

static void write_aligned(const struct table *t, bool md, const char *indent, struct buf *out)
{
    size_t *wide = mem_array(t->columns, sizeof *wide);
    for (size_t r = 0; r < t->rows; r++)
        for (size_t c = 0; c < t->columns; c++) {
            size_t w = width(t->cell[r * t->columns + c]);
            wide[c] = w > wide[c] ? w : wide[c];
        }
    for (size_t r = 0; r < t->rows; r++) {
        size_t start = out->n;
        buf_addz(out, indent);
        for (size_t c = 0; c < t->columns; c++) {
            const char *s = t->cell[r * t->columns + c];
            size_t fill = wide[c] - width(s);
            buf_addz(out, md ? (c ? " | " : "| ") : c ? "  " : "");
            if (side(t, c) == 'r')
                pad(out, fill);
            buf_addz(out, s);
            if (side(t, c) != 'r')
                pad(out, fill);
        }
        if (md)
            buf_addz(out, " |");
        while (out->n > start && out->p[out->n - 1] == ' ')
            buf_cut(out, out->n - 1);
        buf_addc(out, '\n');
        if (md && r == 0) {
            buf_addz(out, indent);
            for (size_t c = 0; c < t->columns; c++)
                buf_addz(out, side(t, c) == 'r' ? "|---:" : "|---");
            buf_addz(out, "|\n");
        }
    }
    free(wide);
}

/* RFC 4180. */
static void write_csv(const struct table *t, struct buf *out)
{
    for (size_t r = 0; r < t->rows; r++)
        for (size_t c = 0; c < t->columns; c++) {
            const char *s = t->cell[r * t->columns + c];
            if (strpbrk(s, ",\"\r\n")) {
                buf_addc(out, '"');
                for (; *s; s++) {
                    if (*s == '"')
                        buf_addc(out, '"');
                    buf_addc(out, *s);
                }
                buf_addc(out, '"');
            } else {
                buf_addz(out, s);
            }
            buf_addz(out, c + 1 < t->columns ? "," : "\r\n");
        }
}

void table_write(const struct table *t, enum table_format f, const char *indent, struct buf *out)
{
    if (f == TABLE_CSV)
        write_csv(t, out);
    else
        write_aligned(t, f == TABLE_MD, indent, out);
}

void table_release(struct table *t)
{
    free(t->cell);
    *t = (struct table){0};
}
