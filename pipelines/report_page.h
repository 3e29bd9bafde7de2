/* report_page: what the sections of the page share. Others include report.h. */
#ifndef PIPELINES_REPORT_PAGE_H
#define PIPELINES_REPORT_PAGE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "pipelines/compare.h"

struct report_page {
    const struct comparison *c;
    struct buf *out;
    struct arena *a;
    int figures;
};

void report_heading(struct report_page *p, const char *id, const char *title);
void report_section_end(struct report_page *p);
/* A chart by its name (report_charts.h) with its table; nothing where there is nothing to draw. */
int report_figure(struct report_page *p, const char *name, struct err *e);

/* Sections. */
int report_metrics(struct report_page *p, struct err *e);
int report_items(struct report_page *p, struct err *e);

#endif
