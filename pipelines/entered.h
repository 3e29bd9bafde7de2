/* entered: results that were published elsewhere, one JSON object a line (pipelines/reference).
 *
 * Keys are those of a result (formats/result.h); "source" is required and says where the numbers
 * stand. "base": the run of an earlier line whose keys are taken first, so that what runs share is
 * said once; "hidden": a line that is a base alone. Lines that begin with '#' are remarks. Cost and MFU
 * are never entered: they come from pipelines/money.h, like those of our own runs.
 */
#ifndef PIPELINES_ENTERED_H
#define PIPELINES_ENTERED_H

#include "base/err.h"
#include "base/mem.h"
#include "formats/result.h"
#include "pipelines/table.h"

/* All results of a file, in the arena. */
int entered_load(const char *path, struct result **v, size_t *n, struct arena *a, struct err *e);
/* Each as DIR/RUN/result.msgpack. */
int entered_save(const char *path, const char *dir, int64_t *n, struct err *e);

/* Figures of the publication that our formulas give otherwise: beside NAME.jsonl in
 * NAME.disagreements.jsonl. tests/unit/test_reference.c holds the list to be exact. */
struct disagreement {
    struct str figure, there, here, why; /* here empty: there is no such figure */
};
int entered_disagreements(const char *path, struct disagreement **v, size_t *n, struct arena *a,
                          struct err *e);
void entered_print_disagreements(const struct disagreement *v, size_t n, enum table_format f,
                                 struct buf *out);

#endif
