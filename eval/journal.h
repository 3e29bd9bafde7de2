/* journal: the files beside an output in which answers lie while it is made, OUT.KEY.journal.
 */
#ifndef EVAL_JOURNAL_H
#define EVAL_JOURNAL_H

#include "base/mem.h"

/* The journal of out for a key, of which the first twelve signs count. Says when there are journals of
 * other keys, which nothing reads or removes: answers that were paid for may be wanted. */
const char *journal_path(struct arena *a, const char *out, const char *key);

#endif
