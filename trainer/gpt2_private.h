/* gpt2_private: what gpt2.c, gpt2_plan.c, gpt2_decode.c, optim.c and reduce.c share. Nobody else includes it.
 *
 * Buffers come from one list of sizes (gpt2_buffers), which the plan sums and gpt2_new allocates:
 * so the plan is exact by construction.
 */
#ifndef TRAINER_GPT2_PRIVATE_H
#define TRAINER_GPT2_PRIVATE_H

#include "trainer/gpt2.h"
#include "trainer/ops.h"

/* Weights (or gradients) of one block: views into the flat vector, matrices of a narrow model into
 * its copy. qkvb.data NULL: no bias. */
struct block {
    struct tensor ln1w, ln1b, qkvw, qkvb, projw, projb, ln2w, ln2b, fcw, fcb, outw, outb;
};
struct weights {
    struct tensor flat, wte, wpe, lnfw, lnfb, head; /* head: with padding; wte when tied */
    struct block *block;
};

/* What a block keeps for its backward pass, in the type of the activations but for the statistics.
 * What is computed again is shared by all blocks; while not training everything is, and x, mid are
 * the same storage: the residual stream is updated in place. */
struct kept {
    void *x, *norm1, *qkv, *att, *mid, *norm2, *pre, *act;
    float *mean1, *rstd1, *mean2, *rstd2, *lse;
};

enum { BUFFERS = 48 };
enum buffer_kind {
    BUFFER_PARAMS,
    BUFFER_COPY,
    BUFFER_GRADS,
    BUFFER_MOMENTS,
    BUFFER_ACTS,
    BUFFER_LOGITS,
    BUFFER_KV,
};
enum buffer_home { HOME_MODEL, HOME_KEPT, HOME_CACHE_K, HOME_CACHE_V };
struct buffer {
    enum buffer_kind kind;
    int64_t bytes, copies; /* copies: one a block; 1 in HOME_KEPT: shared by all */
    enum buffer_home home; /* where its pointer goes: in struct gpt2, in kept[i], cache_x[i] */
    size_t at;             /* offset of the pointer there */
};

struct gpt2 {
    struct backend *b;
    struct model_config c;
    struct gpt2_use use;
    struct arena arena;
    struct params params;
    int64_t width, inner, heads, layers, vocab;
    enum dtype type;   /* of activations and of the weights that products read */
    int64_t padded;    /* rows of the head */
    int64_t rows;      /* most rows (B x T) of one pass */
    int64_t head_rows; /* rows whose logits are there at once, in f32 */
    int64_t grad_rows; /* the same in the type of the activations, for training */
    int64_t grain;     /* sequences that go back at once */
    struct weights w, g;
    struct tensor m, v;       /* moments, flat */
    bool forgot;              /* matrices of w, which only the copy has */
    struct tensor copy;       /* the weights as products read them; data NULL: in f32 */
    struct kept *kept;        /* one a block */
    void *last_x, *last_norm; /* behind the last block */
    float *last_mean, *last_rstd;
    void *branch; /* output of a branch before it joins the residual */
    void *d_res, *d_branch, *d_norm, *d_qkv, *d_act; /* gradients on the way back */
    void *logits;
    float *loss, *scalars; /* scalars: scale, sum, skip */
    float *staged;         /* host: padded rows of logits on their way out */
    int32_t *ids, *targets, *pos;
    uint64_t *seq;
    void **cache_k, **cache_v; /* one each a block: [batch, heads, length, head size] */
    gpt2_watch_fn *watch;
    void *watch_ctx;
    struct gpt2_peers peers; /* all NULL: one rank */
};

/* Rows (B x T) that one pass may hold, and rows of logits at once. */
int64_t gpt2_rows(const struct gpt2_use *u);
int64_t gpt2_head_rows(const struct model_config *c, const struct gpt2_use *u);
enum dtype gpt2_type(const struct gpt2_use *u);
int64_t gpt2_padded(const struct model_config *c, const struct gpt2_use *u);
/* All buffers of a use, BUFFERS at most; returns how many. */
int gpt2_buffers(const struct model_config *c, const struct gpt2_use *u, struct buffer *out);

/* One pass through all blocks. B x T <= rows. Leaves the normalised last state in last_norm. */
struct gpt2_pass {
    int64_t B, T;
    bool train;          /* keep what backward needs, apply dropout */
    uint64_t seed, step; /* of the dropout keys */
    int64_t cache_row;   /* >= 0: also write k and v into cache rows from here on */
    bool last;           /* of the step: backward tells the peers what is ready */
};
void gpt2_forward(struct gpt2 *m, const struct gpt2_pass *p);
/* One position a row against the cache; m->pos holds the positions with 0 for idle rows, pos < 0
 * for them. B <= batch. */
void gpt2_forward_step(struct gpt2 *m, const int32_t *pos, int64_t B);
/* Type of the copy of the weights that products read; f32: there is none. */
enum dtype gpt2_copy_type(const struct gpt2_use *u);
/* gpt2_head() as decoding does it: a row's bits do not depend on the rows beside it. */
struct tensor gpt2_head_step(struct gpt2 *m, int64_t from, int64_t n);
/* Activations over rows of `p` from `row` on: [a, b], [a, b, c]; a row is of the last dimension. */
struct tensor gpt2_act2(const struct gpt2 *m, void *p, int64_t row, int64_t a, int64_t b);
struct tensor gpt2_act3(const struct gpt2 *m, void *p, int64_t row, int64_t a, int64_t b,
                        int64_t c);
/* A tensor of the table in a flat vector, of that one's type; data NULL: not there. */
struct tensor gpt2_view(const struct params *p, struct tensor flat, const char *name);
void gpt2_bind_block(struct block *k, const struct params *p, struct tensor flat, int64_t l);
/* Are the moments cut over ranks? */
bool gpt2_sharded(const struct gpt2 *m);
/* Logits of rows [from, from + n) of last_norm into m->logits, [n, padded]: f32, n <= head_rows; or of
 * the activations' type, n <= grad_rows. */
struct tensor gpt2_head(struct gpt2 *m, int64_t from, int64_t n);
struct tensor gpt2_head_as(struct gpt2 *m, enum dtype type, int64_t from, int64_t n);
/* f32 logits to the host without padding: out [n, vocab]. Waits for them. */
int gpt2_fetch(struct gpt2 *m, const struct tensor *logits, float *out, struct err *e);
/* B, T in range and ids inside the vocabulary; says what is wrong. */
int gpt2_check(const struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T, struct err *e);
void gpt2_put_ids(struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T);
/* Only the first used[b] ids of a sequence count (at least one); the rest is padding, which reads
 * nothing but what the sequence itself reads: see embed_fwd in backend.h. */
void gpt2_put_padded(struct gpt2 *m, const int32_t *ids, const int64_t *used, int64_t B, int64_t T);
/* Back through sequences [from, from + n) of a forward pass with train: d_norm holds the gradient
 * of their part of last_norm. Adds into g. n <= grain. */
void gpt2_backward(struct gpt2 *m, const struct gpt2_pass *p, int64_t from, int64_t n);
/* Tells the debug hook. layer < 0: name stands alone. */
void gpt2_tell(struct gpt2 *m, int64_t layer, const char *name, const struct tensor *t);

#endif
