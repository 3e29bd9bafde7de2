/* report: a comparison as one HTML page that needs nothing else: no network, no script to be read.
 * Scripts add filter and search; without them everything is there, in tables.
 */
#ifndef PIPELINES_REPORT_H
#define PIPELINES_REPORT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "pipelines/compare.h"

/* path[i]: where run i's result lies; answers are read beside it. now: for the foot. */
int report_html(const struct comparison *c, const char *const *path, const char *title,
                const char *now, struct buf *out, struct err *e);

/* Sentences on what can and what cannot be concluded, recipes first. */
struct findings {
    struct strs can, cannot;
};
/* only: the run that is spoken of; SIZE_MAX: all of them. */
void report_findings(const struct comparison *c, size_t only, struct findings *f, struct arena *a);

/* The judged or scored answers side by side (pipelines/report_answers.c), or why there are none. At
 * most `room` bytes; what is left out is said. */
int report_answers(const struct comparison *c, const char *const *path, size_t room,
                   struct buf *out, struct err *e);

/* Speed and money of each run as a table (pipelines/report_money.c). */
void report_money(const struct comparison *c, struct buf *out);

/* A Hugging Face model card of one run; the comparison may hold others. */
void report_card(const struct comparison *c, size_t run, struct buf *out);

/* ---- HTML, for the files of the report ---- */
void html_text(struct buf *out, struct str s); /* escaped; ill-formed UTF-8 as U+FFFD */
void html_z(struct buf *out, const char *z);
/* A table that scrolls within itself. cells: rows x columns, the first row is the head; columns whose
 * letter in align is 'r' hold numbers. The first cell of a row heads it. */
void html_table(struct buf *out, const char *caption, const char *const *cell, size_t rows,
                size_t columns, const char *align);
const char *report_css(void);
const char *report_js(void);

#endif
