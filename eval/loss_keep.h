/* loss_keep: what a loss has cost so far, so that one that is killed goes on where it was.
 *
 * A row is what goes through the model as one sequence: a window, or one of the windows of a document.
 * As soon as a pass is done its rows are appended to a journal beside the result (a record file,
 * formats/record.h, so a torn last record is dropped):
 *
 *   OUT.KEY.journal      of rank 0, or of the only one
 *   OUT.KEY.R.journal    of rank R
 *
 * KEY: the first 12 digits of the SHA-256 of everything that decides a row's value, so rows of another
 * model, text or option are never read; that such a journal lies there is said. A run reads the
 * journals of all ranks there were, so it may go on with another number of them. They go when the
 * result is there.
 */
#ifndef EVAL_LOSS_KEEP_H
#define EVAL_LOSS_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/rendezvous.h"

struct loss_row {
    struct str unit;       /* id of the window or document */
    int64_t row, tokens;   /* number of the row; targets it counts, a closing EOT too */
    double nats, nats_end; /* nats_end: of a document's closing EOT, 0 elsewhere */
    bool known;            /* not in the file */
};

struct records;
struct loss_keep {
    struct records *journal;
    struct loss_row *v; /* [n] by number */
    size_t n, cap;
    int64_t kept, kept_tokens, added; /* rows of runs before this one; rows of this one */
    double synced;
    const char *path, *out; /* of the journal; of the result */
    char key[13];
    struct rendezvous *meet; /* NULL: one */
    struct arena arena;
};

/* identity: text that decides every value. Collective where meet is not NULL. */
int loss_keep_open(struct loss_keep *k, const char *out, struct str identity,
                   struct rendezvous *meet, struct err *e);
/* The row of that number and unit, if it is kept. k NULL: nothing is. */
const struct loss_row *loss_keep_find(const struct loss_keep *k, size_t row, struct str unit);
/* k NULL: does nothing. */
int loss_keep_add(struct loss_keep *k, const struct loss_row *r, struct err *e);
/* Ends it. rc 0: the result is there (on rank 0), the journals go; else they stay, unless they are
 * empty. Returns rc, or -1. Collective where rc is 0 on all ranks. Accepts a zeroed one. */
int loss_keep_close(struct loss_keep *k, int rc, struct err *e);

#endif
