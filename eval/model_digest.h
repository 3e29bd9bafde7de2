/* model_digest: what a server can tell of a model: its weights and its context. */
#ifndef EVAL_MODEL_DIGEST_H
#define EVAL_MODEL_DIGEST_H

#include "base/clock.h"
#include "eval/chat.h"

/* The first 16 hex digits of the digest of t's model, in the arena; *digest is NULL if the server has
 * no list of digests or none for that model (asking it will tell more). A name can be pulled anew, so
 * an Ollama that is not there is EXIT_INCOMPLETE: without it nobody knows who the judge is. */
int model_digest(const struct chat_target *t, const char *const *headers, struct clock *clock,
                 struct arena *a, const char **digest, struct err *e);
/* A context that is asked for (num_ctx) and that the model does not have is cut by the server without a
 * word: a default is lowered to the model's own, one that the spec names is refused. */
int model_fit_context(struct chat_target *t, const char *const *headers, struct clock *clock,
                      struct arena *a, struct err *e);

#endif
