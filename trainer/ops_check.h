/* ops_check: what the wrappers of ops.c ask before they call a backend. Only ops.c includes it. */
#ifndef TRAINER_OPS_CHECK_H
#define TRAINER_OPS_CHECK_H

#include "trainer/ops.h"

/* REAL: any floating type the backend supports; WEIGHT: or bf16, of a backend with bf16_weights. */
enum arg_kind { REAL, WEIGHT, F32, I32, U64 };

/* One argument of a call, as it should be: ndim 0 means "any shape with d[0] elements". */
struct arg {
    const char *name;
    const struct tensor *t;
    enum arg_kind kind;
    int ndim;
    int64_t d[4];
};

/* Each returns false after backend_fail() with a sentence that names the op and the argument. */
bool args_ok(struct backend *b, const char *op, const struct arg *a, size_t n);
#define ARGS_OK(b, op, a) args_ok((b), (op), (a), sizeof(a) / sizeof *(a))
/* A shape that others are derived from: present, ndim dimensions (0: any), none empty. */
bool base_ok(struct backend *b, const char *op, const char *name, const struct tensor *t, int ndim);
bool drop_ok(struct backend *b, const char *op, struct dropout drop, int64_t B);
/* Heads divide the width of a packed qkv. */
bool heads_ok(struct backend *b, const char *op, const struct tensor *qkv, int heads);
/* Segments cover h->lo .. h->hi without a hole and without overlap. */
bool segments_ok(struct backend *b, const char *op, const struct adamw *h);

int64_t last_dim(const struct tensor *t);

#endif
