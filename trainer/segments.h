/* segments: segments.jsonl of a training run: on which machines it ran, one JSON object a start.
 *
 * {"step","tokens": where it begins, "host","backend","started" (UTC), and of the hardware file, if
 * one was given: "hardware","device","devices","peak_tflops","price_hour","price_currency",
 * "price_source","price_date"; "lost_seconds","lost_money": of steps before it that a kill took
 * (they were paid for, at the price of the machine that made them)}. A segment ends where the next
 * begins. One whose steps were all lost is dropped; what it cost stays in the lost_ keys. Nothing here
 * decides a result.
 */
#ifndef TRAINER_SEGMENTS_H
#define TRAINER_SEGMENTS_H

#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "formats/run.h"

struct segment {
    int64_t step, tokens;
    struct str host, backend, started;
    struct hardware hardware; /* name empty: none was given */
    double lost_seconds, lost_money;
};

/* Adds a segment to DIR/segments.jsonl. `last_seconds`: of training in the journal that is about to
 * be cut back, `kept_seconds`: of the checkpoint that the run goes on from. Steps >= s->step of an older
 * file are replaced; s->step 0 starts the file anew. */
int segments_add(const char *dir, const struct segment *s, double last_seconds, double kept_seconds,
                 struct err *e);

/* All segments, in order, in the arena; *n = 0 when there is no file. */
int segments_read(const char *dir, struct segment **v, size_t *n, struct arena *a, struct err *e);

#endif
