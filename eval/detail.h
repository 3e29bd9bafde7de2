/* detail: what happened to an answer on its way, in the words of its response's detail. They are read
 * again where such answers are counted: a journal or a replayed file keeps nothing else of it.
 */
#ifndef EVAL_DETAIL_H
#define EVAL_DETAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* Tokens that were left out at the head of what ("the prompt"), so that it fits; of: all, 0: not said. */
void detail_put_lost(struct buf *b, const char *what, int64_t lost, int64_t of);
bool detail_lost(struct str detail);
/* The answer was ended by the model's context, before its limit of tokens. */
void detail_put_full(struct buf *b, int64_t context);
bool detail_full(struct str detail);

#endif
