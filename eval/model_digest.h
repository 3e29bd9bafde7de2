/* model_digest: which weights stand behind a model's name on a server that can tell. */
#ifndef EVAL_MODEL_DIGEST_H
#define EVAL_MODEL_DIGEST_H

#include "base/clock.h"
#include "eval/chat.h"

/* The first 16 hex digits of the digest of t's model, in the arena; *digest is NULL if the server has
 * no list of digests or none for that model (asking it will tell more). A name can be pulled anew, so
 * an Ollama that is not there is EXIT_INCOMPLETE: without it nobody knows who the judge is. */
int model_digest(const struct chat_target *t, const char *const *headers, struct clock *clock,
                 struct arena *a, const char **digest, struct err *e);

#endif
