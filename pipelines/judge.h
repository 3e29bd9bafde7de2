/* judge: the loop around an LLM judge: ask, parse, ask again, record. scoring/judge.h says what a
 * question and a verdict are, eval/model.h carries them; neither knows of the other.
 *
 * DIR/verdicts.msgpack is the journal: one score record for each ask, appended before its
 * connection is used again and synced at most every 100 ms. Its key is SHA-256 of item, answer,
 * judge identity with decoding, and prompt, so a verdict is paid for once, whatever the order or
 * number of the rows. Only scored verdicts are taken over by the next run; failures are asked
 * again. DIR/scores.msgpack (in the order of the items) and DIR/manifest.json appear when every
 * answer was judged and no more than max_failed of them have no verdict.
 *
 * Two processes on one DIR: the second is refused by the journal's lock.
 */
#ifndef PIPELINES_JUDGE_H
#define PIPELINES_JUDGE_H

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "formats/run.h"

struct judge_job {
    const char *items, *responses, *out; /* out: DIR */
    struct judge_config c;               /* c.judge and c.prompt too */
    int64_t asks;                        /* of one answer, while its verdicts can't be parsed */
    int64_t max_total_tokens;            /* stop when the judge has used this many; 0: no cap */
    double max_seconds;                  /* stop asking after this time; 0: no cap */
    struct clock *clock;                 /* NULL: system */
};
/* The summary goes to `to`. EXIT_INCOMPLETE with a sentence: a cap, an interrupt, a judge that is
 * not there, or too many failures; what is judged is kept. */
int judge_run(const struct judge_job *j, FILE *to, struct arena *a, struct err *e);

#endif
