/* documents: texts through a vocabulary into eval/loss, with their bytes counted twice: once from
 * the text, once from its ids. A vocabulary that does not give a text back is an error, because
 * bits per byte would have a wrong denominator.
 */
#ifndef EVAL_DOCUMENTS_H
#define EVAL_DOCUMENTS_H

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "eval/local.h"
#include "eval/loss.h"

struct documents_result {
    struct loss_units units;
    struct loss_totals totals;
    struct loss_gap gap;
    char hash[SHA256_HEX]; /* of all ids and texts, in order */
    int64_t replaced;      /* documents with bad UTF-8, read with U+FFFD */
    int64_t rolled;        /* documents longer than the context */
    int64_t words;         /* runs of what is no white space (Python's str.split), in the texts */
};
/* paths as in formats/doc.h. */
/* l was opened as eval/loss.h wants it. r->units.meet and keep are set before, the rest is not read. */
int documents_run(struct local_model *l, const struct vocab *v, struct strs paths,
                  struct documents_result *r, struct err *e);
void documents_release(struct documents_result *r);

#endif
