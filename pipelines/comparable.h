/* comparable: what must match before two metrics may be compared, a row a metric. */
#ifndef PIPELINES_COMPARABLE_H
#define PIPELINES_COMPARABLE_H

#include "base/mem.h"
#include "formats/result.h"

/* A metric states its settings as "key=value" (formats/result.h). Whatever either side states must be
 * equal on both; and the keys of the metric's row must be stated, by something else than "unknown":
 * a result that does not say what it was measured on compares with nothing. Results without per-item
 * values were entered from somebody's page: for two of these what the page states is enough. */
struct comparable {
    const char *metric, *task; /* task NULL: any */
    const char *keys[9];       /* NULL-ended */
};
extern const struct comparable comparables[]; /* ended by a row without a metric */

const struct comparable *comparable_row(struct str metric, struct str task); /* NULL: no row */
/* Why a and b do not compare, as a sentence in the arena, or NULL. */
const char *comparable_refusal(const struct metric *a, const struct metric *b, struct arena *ar);

#endif
