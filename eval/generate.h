/* generate: continues sequences of ids with a KV cache, many rows at once.
 *
 * Continuous batching: a row takes the next task as soon as its own has ended, so short answers
 * don't wait for long ones. What a task yields depends on its ids, rule and seed, not on its
 * neighbours, the order or the number of rows: prompts are prefilled one by one, padded to a
 * multiple of 32, and in the products of a step no row has other bits because of the rows beside it
 * (backend.h, linear_step); where a backend can't promise that, steps run over a multiple of 8 rows,
 * so that the shapes hardly vary.
 *
 * Room: positions end at the context C. A prompt longer than C - min(max_new, C/4) ids loses its
 * head down to that length (`cropped` counts the ids), so at least a quarter of the context is left
 * for the answer; a `whole` one must have C ids at most and loses none. A sequence that reaches C
 * ends with FINISH_LENGTH.
 */
#ifndef EVAL_GENERATE_H
#define EVAL_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "eval/sample.h"
#include "formats/item.h"
#include "trainer/gpt2.h"

struct gen_task {
    const int32_t *ids; /* the prompt, n >= 1 of them; borrowed until done */
    int64_t n;
    int64_t max_new;
    struct sample_rule rule;
    uint64_t seed;
    int32_t eos; /* ends the sequence, not given to token(); -1: none */
    bool whole;  /* the prompt is never cropped */
    bool scored; /* calls.prompt() wants the logits within the prompt */
    void *tag;
    int64_t cropped, made; /* results: ids lost at the prompt's head, ids given to token() */
    /* During token() and done(): the last id picked (EOS too) and the logits it was picked from,
     * before any penalty; -1 and NULL before the first. */
    int32_t last;
    const float *logits;
};
struct gen_calls {
    /* 1: *t is filled; 2: none for now; 0: no more for now and ever; -1: stop with e. While no task
     * is under way, a next() that has none should wait a while before it says 2. */
    int (*next)(void *ctx, struct gen_task *t, struct err *e);
    /* Each new id. 1: the sequence ends here (FINISH_STOP); 0: go on; -1: stop with e. */
    int (*token)(void *ctx, struct gen_task *t, int32_t id, struct err *e);
    /* Once a task. FINISH_ERROR: its logits were not finite. -1: stop with e. */
    int (*done)(void *ctx, struct gen_task *t, enum finish finish, struct err *e);
    void *ctx;
    int64_t limit; /* ids from here on are never picked (rows of padding); 0: no limit */
    /* For a scored task, before its first token(): the logits behind position pos of the prompt,
     * which speak of id pos + 1, for every position but the last. May be NULL. */
    int (*prompt)(void *ctx, struct gen_task *t, int64_t pos, const float *logits, struct err *e);
    bool patient; /* an interrupt is next()'s to see: what is under way goes on */
};

/* use.batch of a model that is to generate in `rows` rows: rows, up to a multiple of 8. */
int64_t generate_batch(int64_t rows);

/* Runs until next() has no more and all rows have ended. m was opened with use.decode, use.length =
 * context and use.batch = generate_batch(rows). SIGINT ends it with EXIT_INCOMPLETE. */
int generate_run(struct gpt2 *m, int64_t rows, const struct gen_calls *calls, struct err *e);

/* How many ids of a prompt are kept. */
int64_t generate_keep(int64_t n, int64_t max_new, int64_t context);

#endif
