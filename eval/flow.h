/* flow: an answer that grows token by token and is given away as it does: whole characters only,
 * and nothing that may yet turn out to be the beginning of a stop string. What is given, put
 * together, is what text_repair() makes of the whole.
 */
#ifndef EVAL_FLOW_H
#define EVAL_FLOW_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

struct flow {
    struct buf text;  /* raw bytes so far, cut where a stop string began */
    size_t base;      /* stop strings count from here on (behind an echoed prompt) */
    size_t shown;     /* bytes of text that were given away */
    struct strs stop; /* borrowed */
};
/* Appends the bytes of one token. True: a stop string is complete; text ends before it. */
bool flow_add(struct flow *f, struct str bytes);
/* Appends to out, as well-formed UTF-8, what can't change any more; all: everything. */
void flow_take(struct flow *f, bool all, struct buf *out);
void flow_release(struct flow *f);

#endif
