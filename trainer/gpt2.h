/* gpt2: the model, written once over op_*(): forward, backward, decoding. The only file that knows
 * what a block looks like.
 *
 * Radford et al. 2019 (GPT-2): pre-norm blocks, learned positions, gelu with the tanh form, MLP 4C.
 * Options: q/k/v bias, tied head, dropout. Every buffer is planned by gpt2_plan() before any is
 * allocated; `plan` and `train` print the same numbers.
 */
#ifndef TRAINER_GPT2_H
#define TRAINER_GPT2_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "formats/run.h"
#include "trainer/backend.h"

/* One parameter tensor. The table drives allocation, initialisation, decay, checkpoint names. */
struct param {
    char name[64]; /* Hugging Face name, "transformer.h.0.attn.c_attn.weight" without prefix */
    int ndim;
    int64_t dim[2];
    int64_t at; /* offset in the flat vector, in elements */
    int64_t count;
    int64_t room; /* count, and zeros that pad the head's rows; the next one begins behind them */
    double init_std; /* 0: constant init_value */
    double init_value;
    bool matrix; /* decays under the rule "matrices" */
};
struct params {
    struct param *v;
    int n;
    int64_t count; /* elements of the flat vector, padding included */
};
/* Builds the table. The config must be whole (vocab set). The head's rows (the token embedding's when
 * it is tied) are padded to a multiple of vocab_pad, 1: not at all. */
int params_make(struct params *p, const struct model_config *c, int64_t vocab_pad, struct arena *a,
                struct err *e);
/* Parameters of the model, without padding. */
int64_t params_count(const struct model_config *c);
int model_config_check(const struct model_config *c, struct err *e);

/* What a model is opened for; decides the buffers. */
struct gpt2_use {
    int64_t batch, length; /* most sequences and positions at once */
    bool train;            /* gradients, moments, all activations kept */
    bool decode;           /* KV cache of `batch` sequences */
    /* Sequences that go back through the model at once; 0: all of a batch. Gradients are summed in
     * pieces of this size, so micro-batches that are multiples of it give equal bits. */
    int64_t grain;
    /* Format of activations, their gradients and the weights that products read, an enum precision.
     * Master weights, gradients of weights and moments are f32 whatever it is. */
    int precision;
    int recompute;   /* enum recompute: what backward computes again */
    bool stochastic; /* the narrow copy of the weights is rounded stochastically, keyed by seed */
    uint64_t seed;
    /* Products read weights rounded to bf16 although the precision is fp32: half of what decoding
     * reads. Not for training. */
    bool bf16_weights;
    const struct backend_prefers *prefers; /* NULL: those of the backend it is opened on */
    /* Ranks that train it together (0: 1) and which of them this is; zero: each keeps only its share
     * of the moments (ZeRO stage 1, Rajbhandari et al., arXiv 1910.02054). See trainer/reduce.h. */
    int ranks, rank;
    bool zero;
};
struct gpt2_plan {
    int64_t params, copy, grads, moments, activations, logits, kv, total; /* bytes */
};
/* u with its prefers taken from this backend (NULL: the CPU) where it has none. */
struct gpt2_use gpt2_use_on(const struct gpt2_use *u, const char *backend);
/* Whether b computes in this precision: if not, the sentence also says why the other
 * backends did not open: with "auto" nobody chose this one. */
int gpt2_precision(const struct backend *b, int precision, struct err *e);
void gpt2_plan(const struct model_config *c, const struct gpt2_use *u, struct gpt2_plan *out);
/* "weights 5.6 MB + gradients ...", for people. */
void gpt2_plan_text(const struct gpt2_plan *p, char *out, size_t n);
void gpt2_size_text(int64_t bytes, char out[32]); /* "1.3 GiB" */

struct gpt2;
/* Opens on b; refuses with how much is needed when the plan does not fit the free memory. */
struct gpt2 *gpt2_new(struct backend *b, const struct model_config *c, const struct gpt2_use *u,
                      struct err *e);
void gpt2_free(struct gpt2 *m); /* device memory goes with the backend's close */
const struct model_config *gpt2_config(const struct gpt2 *m);
const struct params *gpt2_params(const struct gpt2 *m);

/* Weights. Initialisation draws each tensor from rng_make(seed, name of the tensor, 0). */
int gpt2_init(struct gpt2 *m, uint64_t seed, struct err *e);
/* Host copies of the flat vectors: which = 'w' weights, 'g' gradients, 'm', 'v' moments. With use.zero
 * getting moments is a call that all ranks make, and it overwrites the gradients; flat NULL: this one
 * only takes part. Putting takes this rank's share out of the whole. */
int gpt2_get(struct gpt2 *m, char which, float *flat, struct err *e);
int gpt2_put(struct gpt2 *m, char which, const float *flat, struct err *e);
/* Where the weights lie, to be filled in place (all of them, then gpt2_refresh(m, 0)), or NULL when the
 * backend keeps them elsewhere. */
float *gpt2_place(struct gpt2 *m);

/* Rounds the weights into the copy that products read, as behind update number `updates` (0: fresh
 * weights); what gpt2_put('w') and gpt2_update() do by themselves. A run that goes on calls it once,
 * because the key of stochastic rounding holds that number. Nothing to do in fp32 and tf32. With
 * bf16_weights the f32 matrices that only products read are forgotten: such a model can't be got. */
void gpt2_refresh(struct gpt2 *m, int64_t updates);

/* Loads weights of a checkpoint folder into the flat host vector: names with or without
 * "transformer.", fp32/fp16/bf16, attention mask buffers ignored; wrong shapes, missing or doubled
 * tensors are named. c is read from its config.json first with gpt2_config_of. */
int gpt2_config_of(const char *dir, struct model_config *c, int64_t *eos, struct err *e);
int gpt2_load(struct gpt2 *m, const char *dir, struct err *e);

/* Forward. ids, targets [B*T] on the host; -1 in targets is ignored, and what stands behind the last
 * target of a sequence is not read. loss [B*T] on the host. */
int gpt2_losses(struct gpt2 *m, const int32_t *ids, const int32_t *targets, int64_t B, int64_t T,
                float *loss, struct err *e);
/* Logits of every position [B*T*V]: small models and tests. */
int gpt2_logits(struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T, float *logits,
                struct err *e);

/* Logits behind positions [from, from + n) of each of B sequences, a row [V] at a time in order. */
struct gpt2_span {
    int64_t from, n; /* n 0: none of this sequence */
};
typedef int gpt2_span_fn(void *ctx, int64_t b, int64_t pos, const float *logits, struct err *e);
int gpt2_spans(struct gpt2 *m, const int32_t *ids, int64_t B, int64_t T,
               const struct gpt2_span *spans, gpt2_span_fn *take, void *ctx, struct err *e);

/* Decoding (use.decode). prefill: rows of `len[b]` ids, padded to T, fill the cache rows b = 0..B-1
 * from position 0 and give the logits [B*V] behind each row's last id. step: one id a row at position
 * pos[b] (< 0: idle row), logits [B*V]. Equal to recomputation within float rounding. */
int gpt2_prefill(struct gpt2 *m, const int32_t *ids, const int32_t *len, int64_t B, int64_t T,
                 float *logits, struct err *e);
int gpt2_step(struct gpt2 *m, const int32_t *ids, const int32_t *pos, int64_t B, float *logits,
              struct err *e);
/* Rows to step with when the first `used` may be live: more where the backend's bits depend on the
 * shape, so that shapes hardly vary. */
int64_t gpt2_step_rows(const struct gpt2 *m, int64_t used);
/* Prefills only cache rows [row, row + B): for continuous batching. */
int gpt2_prefill_at(struct gpt2 *m, int64_t row, const int32_t *ids, const int32_t *len, int64_t B,
                    int64_t T, float *logits, struct err *e);
/* The same for one row of len ids, telling the logits [V] behind every position 0..len-1 in order;
 * those of the last are the same bits as gpt2_prefill_at gives. -1 from each() stops with e. */
typedef int gpt2_each_fn(void *ctx, int64_t pos, const float *logits, struct err *e);
int gpt2_prefill_each(struct gpt2 *m, int64_t row, const int32_t *ids, int64_t len, int64_t T,
                      gpt2_each_fn *each, void *ctx, struct err *e);

/* Training (use.train). Adds the gradients of one micro-batch: loss scale = 1 / valid_total.
 * seq: ids of the sequences (dropout), step: for the dropout key. loss [B*T] on the host. */
struct gpt2_batch {
    const int32_t *ids, *targets;
    const uint64_t *seq;
    int64_t B, T;
    int64_t valid_total; /* valid targets of the global batch, all micro-batches and ranks */
    uint64_t seed, step;
    double loss_scale; /* gradients are this much larger; 0: 1 */
    bool last;         /* of the step on this rank: tells the peers what is ready */
};
int gpt2_grad(struct gpt2 *m, const struct gpt2_batch *batch, float *loss, struct err *e);
void gpt2_zero_grad(struct gpt2 *m);
/* Clips by global norm (clip 0: off; scale min(1, clip / (norm + 1e-6))), then AdamW. norm gets the
 * norm before clipping. A non-finite norm changes nothing and is reported in *norm. */
struct gpt2_update {
    double lr, beta1, beta2, eps, weight_decay, clip;
    int decay;         /* enum decay_rule */
    int64_t step;      /* from 1 */
    double skip_above; /* do nothing when norm is above; 0: off */
    double loss_scale; /* what the gradients were made with; 0: 1. The norm is without it */
};
int gpt2_update(struct gpt2 *m, const struct gpt2_update *u, double *norm, struct err *e);

/* What a model that ranks train together asks of them; ctx and functions outlive it.
 * ready: in the backward pass of a `last` batch, all gradients from `from` on in the flat vector are
 * final. sum: *v becomes the sum over ranks. share: all ranks' shares of the weights have been updated
 * and shall be everybody's. whole: this rank's share of a moment shall become the whole of it, in the
 * gradients' place. */
struct gpt2_peers {
    void (*ready)(void *ctx, int64_t from);
    int (*sum)(void *ctx, double *v, struct err *e);
    int (*share)(void *ctx, struct err *e);
    int (*whole)(void *ctx, const struct tensor *share, struct err *e);
    void *ctx;
};
void gpt2_join(struct gpt2 *m, const struct gpt2_peers *p);

/* Debug hook: every activation by name right after it was queued ("h.0.attn.qkv"), valid during the
 * call. NULL: off. Names: embed, h.N.{ln_1 qkv att proj mid ln_2 pre act mlp}, out, ln_f, logits. */
typedef void gpt2_watch_fn(void *ctx, const char *name, const struct tensor *t);
void gpt2_watch(struct gpt2 *m, gpt2_watch_fn *fn, void *ctx);

#endif
