/* reference: every op of trainer/backend.h, written down plainly in double, for the tests.
 *
 * One loop per sum, in the order of the formula; no blocking, no vector, no cleverness, and no code
 * shared with a backend. Shapes and meaning are those of backend.h. Inputs are doubles that hold
 * exactly what the backend got as floats.
 */
#ifndef TESTS_OPS_REFERENCE_H
#define TESTS_OPS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct ref_drop {
    double p; /* 0: none */
    uint64_t key;
    const uint64_t *seq;
};
/* 0 or 1 / (1 - p) for element e of sequence s of the batch. */
double ref_mask(const struct ref_drop *d, int64_t s, int64_t e);

struct ref_shape {
    int64_t B, T, C, V, heads;
};

void ref_embed_fwd(struct ref_shape s, double *y, const int32_t *ids, const double *wte,
                   const double *wpe, const int32_t *pos, struct ref_drop d);
void ref_embed_bwd(struct ref_shape s, double *dwte, double *dwpe, const double *dy,
                   const int32_t *ids, struct ref_drop d);
/* r NULL: x is the sum. sum may be NULL then. */
void ref_add_norm_fwd(struct ref_shape s, double *sum, double *y, double *mean, double *rstd,
                      const double *x, const double *r, const double *w, const double *bias,
                      double eps, struct ref_drop d);
void ref_add_norm_bwd(struct ref_shape s, double *dsum, double *dr, double *dw, double *dbias,
                      const double *dy, const double *sum, const double *w, double eps,
                      struct ref_drop d);
double ref_gelu(double x);
double ref_gelu_grad(double x);
/* w [I,O], or [O,I] with out_in. pre NULL: no gelu. */
void ref_linear_fwd(int64_t N, int64_t I, int64_t O, double *y, const double *x, const double *w,
                    bool out_in, const double *bias, double *pre);
/* dx, dw, dbias += ; dy becomes dy * gelu'(pre). */
void ref_linear_bwd(int64_t N, int64_t I, int64_t O, double *dx, double *dw, double *dbias,
                    double *dy, const double *x, const double *w, bool out_in, const double *pre);
/* With probabilities p [T] of one row as scratch of the caller: none needed, allocated inside. */
void ref_attention_fwd(struct ref_shape s, double *y, double *lse, const double *qkv,
                       struct ref_drop d);
void ref_attention_bwd(struct ref_shape s, double *dqkv, const double *dy, const double *qkv,
                       struct ref_drop d);
/* dlogits NULL: only the loss. */
void ref_classifier(int64_t N, int64_t V, double *loss, double *dlogits, const double *logits,
                    const int32_t *targets, double scale);
struct ref_adamw {
    double lr, b1, b2, eps, wd, gscale;
    int64_t step;
};
void ref_adamw(int64_t n, double *p, const double *g, double *m, double *v, bool decay,
               const struct ref_adamw *h);

#endif
