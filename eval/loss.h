/* loss: negative log-likelihood of text under a model, with every unit kept.
 *
 * Windows: the split is one long vector of tokens. Window w reads T ids from s + w T on (s: start
 * of the slice) and predicts the T ids from s + w T + 1 on: disjoint windows with one carried
 * token; the slice's first token is context only, every other is predicted once, and the last
 * window is as short as it comes out. Depends on T: another context is another measure.
 * With a stride S < T windows overlap: they start S apart, the first counts all its targets and each
 * later one only its last S, which have at least T - S ids of context (the sliding window of Hugging
 * Face's page on perplexity). A window's unit holds what it counts.
 *
 * Documents: each alone: EOT, its ids, EOT; all but the first are predicted. What the closing EOT costs is kept apart:
 * nats, tokens and bytes are the text's own.
 * A document longer than the context is read in overlapping windows T/2 apart: the first counts all
 * its targets, each later one only the targets that are new, so every counted target has at least
 * T/2 ids of context (or all there are) and is counted once.
 *
 * Sums are in double in order of position. A float matrix product may differ in its last bits with
 * the number of its rows, so every forward pass has the same shape: loss_rows() sequences, missing
 * ones filled up, each padded to a multiple of 32 positions by its own length. So a unit's value
 * has the same bits for any --batch (which is not even asked for) and any number of threads.
 * Ranks take whole passes in turn and then tell each other the sums of their rows, which are added to
 * the units on every rank in the same order: no bit depends on the number of ranks.
 * Sequences that are done are kept, see eval/loss_keep.h.
 * Padding is never a target. A loss that is not finite is an error that names the unit.
 */
#ifndef EVAL_LOSS_H
#define EVAL_LOSS_H

#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "formats/result.h"
#include "formats/shard.h"
#include "trainer/gpt2.h"
#include "trainer/rendezvous.h"

struct loss_keep; /* eval/loss_keep.h */

/* Units in order; strings and v live in the arena. */
struct loss_units {
    struct loss_unit *v;
    size_t n, cap;
    struct arena arena;
    struct rendezvous *meet; /* set before: ranks that share the work and all get all; NULL: one */
    struct loss_keep *keep;  /* set before: where sequences are kept; NULL: nowhere */
};
void loss_units_release(struct loss_units *u);

struct loss_totals {
    int64_t tokens, bytes;             /* bytes -1: unknown */
    double nats, nats_end;             /* nats_end: of documents' closing EOTs, not in nats */
    int64_t documents, long_documents; /* windows: documents of which an id is predicted; those of
                                          more tokens than 32 whole windows, whose clusters are
                                          blocks of as many as 16 have */
};
void loss_sum(const struct loss_units *u, struct loss_totals *t);

enum { LOSS_LONG_DOCUMENT = 32, LOSS_BLOCK = 16 };

/* Sequences in every pass: about 1024 positions of the context. The model must have been opened
 * with use.batch = loss_rows(context), use.length = context. */
int64_t loss_rows(int64_t context);

struct loss_slice {
    int64_t start;  /* of the split: this token is context only */
    int64_t tokens; /* predicted, behind start; 0: to the split's end */
    int64_t window; /* T, at most the model's context */
    int64_t stride; /* S, 1 to T; 0: T, disjoint */
    int64_t eot;    /* -1: unknown, then all is one document */
};
/* bytes of an id come from t->info.token_bytes. A slice beyond the split is an error. */
int loss_windows(struct gpt2 *m, const struct tokens *t, const struct loss_slice *s,
                 struct loss_units *out, struct loss_totals *totals, struct err *e);

struct loss_doc {
    struct str id;
    const int32_t *ids; /* without EOT; may be none */
    int64_t n;
    int64_t bytes;      /* that the ids stand for */
    double oracle_bits; /* NaN: unknown */
};
/* 1: *d is filled, valid until the next call; 0: no more; -1: stop with e. */
typedef int loss_doc_fn(void *ctx, struct loss_doc *d, struct err *e);
int loss_documents(struct gpt2 *m, int32_t eot, loss_doc_fn *next, void *ctx,
                   struct loss_units *out, struct loss_totals *totals, struct err *e);

/* No model can be better than the process that made the text. gap: mean over documents of
 *   bits as published (nats / ln 2 / bytes, times text_bytes) + bits of the end - oracle_bits
 * and its standard error. Below -3 standard errors is an error: text leaked into training, or sums
 * and denominators are wrong. text_bytes[i]: UTF-8 bytes of the text itself, counted apart from
 * u->v[i].bytes. Documents without an oracle are left out; fewer than 10: no verdict (n says). */
struct loss_gap {
    double mean, se;
    int64_t n;
};
int loss_check_oracle(const struct loss_units *u, const int64_t *text_bytes, struct loss_gap *gap,
                      struct err *e);

#endif
