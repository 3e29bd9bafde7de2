/* table: rows of text as aligned columns, Markdown or CSV. */
#ifndef PIPELINES_TABLE_H
#define PIPELINES_TABLE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/mem.h"

enum table_format { TABLE_TEXT, TABLE_MD, TABLE_CSV };

/* Cells are borrowed. The first row is the head. Zeroed is empty. */
struct table {
    const char **cell; /* rows * columns */
    size_t columns, rows, room;
    const char *align; /* a letter a column, 'l' or 'r'; missing ones are 'l' */
};
void table_begin(struct table *t, size_t columns, const char *align);
void table_row(struct table *t, const char *const *cells); /* `columns` of them; NULL is empty */
void table_write(const struct table *t, enum table_format f, const char *indent, struct buf *out);
void table_release(struct table *t);

#endif
