/* result_segments: the machines that trained a run. Apart from result.h, whose struct metrics is another
 * than the trainer's.
 */
#ifndef PIPELINES_RESULT_SEGMENTS_H
#define PIPELINES_RESULT_SEGMENTS_H

#include "base/err.h"
#include "base/mem.h"
#include "formats/result.h"

/* Segments of training and the seconds of validations, from segments.jsonl and metrics.jsonl of the
 * pre-training folder `dir`; `given`: of segments that name no machine; may be NULL. */
int result_segments(struct result *r, const char *dir, const struct hardware *given,
                    struct arena *a, struct err *e);

#endif
