/* model: whatever answers requests: "gpt2" (a checkpoint), "http" (a server), "replay" (canned).
 *
 * A model takes two callbacks instead of arrays, so a local one can batch and a remote one can run
 * connections side by side, in constant memory: it calls next() whenever it has room, until that
 * returns 0, and done() once for each request, in any order. done() of one request has returned
 * before its connection or batch row is reused, so a durable record comes first.
 */
#ifndef EVAL_MODEL_H
#define EVAL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/item.h"

enum request_kind { REQUEST_GENERATE, REQUEST_LOGPROB };

/* REQUEST_LOGPROB: the log-probability of each of `choices` behind `prompt`, byte by byte (a choice
 * brings its own blank). Answered with choice_logprob, choice_tokens and choice_greedy of the
 * response, text empty; a model that cannot tell them answers FINISH_ERROR and says why. Tokens:
 * - joined (lm-evaluation-harness): white space at the prompt's end goes to the choice, both are
 *   encoded as one text and cut where the prompt's own ids end;
 * - apart (llm.c): prompt and choice are encoded each alone.
 * An empty prompt is the EOT id. What is longer than the context loses its head. */
struct request {
    enum request_kind kind;
    struct str id;             /* of the item; comes back with the response */
    struct str prompt, system; /* borrowed until done() */
    struct strs choices, stop;
    int64_t max_tokens;
    double temperature, top_p;
    int64_t top_k;
    double min_p, repeat; /* 0: all; repetition penalty, 1 or 0: none. Not sent to servers */
    uint64_t seed;        /* of this request: results do not depend on the batch order */
    bool json;            /* ask for a JSON object where the server can */
    struct str schema;    /* ask for JSON of this JSON schema where the server can; borrowed */
    bool apart;           /* REQUEST_LOGPROB: encode prompt and choices apart */
    void *tag;
};

/* 1: *q is filled (its strings live until its done()); 0: no more; -1: stop with e. */
typedef int request_next_fn(void *ctx, struct request *q, struct err *e);
/* -1 stops the model, which returns -1 with e. */
typedef int response_done_fn(void *ctx, const struct request *q, const struct response *r,
                             struct err *e);

struct model;
struct model_options {
    const char *vocab;    /* gpt2: vocabulary file; NULL: the one named in the manifest */
    const char *backend;  /* gpt2; NULL: auto */
    int64_t threads;      /* gpt2; 0: all */
    int precision;        /* gpt2: enum precision */
    int64_t batch;        /* gpt2: rows at once; 0: 8 */
    int64_t concurrency;  /* http: requests at once at most; 0: 4 */
    double timeout;       /* http: of one request, seconds; 0: 600 */
    int64_t retries;      /* more tries after a failed one; -1: 2 */
    int64_t max_requests; /* sent, tries included; 0: no cap */
    struct clock *clock;  /* NULL: system */
};
struct model_ops {
    const char *name;
    const char *help; /* how its spec looks: "ollama:MODEL" */
    bool remote;      /* FINISH_ERROR may be gone when asked again; a local one repeats it */
    int (*open)(struct model *m, const char *spec, const struct model_options *o, struct err *e);
    void (*close)(struct model *m);
    int (*answer)(struct model *m, request_next_fn *next, response_done_fn *done, void *ctx,
                  struct err *e);
    /* Identity for keys: model, digest or hash, and options that change answers. */
    const char *(*identity)(const struct model *m);
};
struct model {
    const struct model_ops *ops;
    void *impl;
    struct arena arena;
    int64_t context; /* tokens of prompt and answer; 0: unknown */
    const char
        *precision; /* of a checkpoint that is not read in fp32, as results state it; or NULL */
    /* Replays, of which only the answers are this model's own: */
    bool canned;
    const struct json *told; /* the identity in the recorded file's manifest; NULL: it has none */
    /* Remote ones: requests sent, tries included; and those that ran into the timeout, which the
     * server may have worked on and may bill. */
    int64_t sent, timed_out;
    int64_t begun; /* of these the first tries: requests that were sent at all */
    /* Remote ones: slow work of the caller (a sync) from time to time, with the ctx of answer(): when
     * all that can be sent was sent, so that it costs no connection its time. NULL: none. */
    int (*idle)(void *ctx, struct err *e);
    bool idle_due; /* the caller wants it */
};

extern const struct model_ops *const models[]; /* eval/models.c; NULL-ended */
/* Picks by spec: an existing folder is gpt2, "replay:FILE", "ollama:NAME", "openai:NAME",
 * "http://host:port/v1#NAME"... */
int model_open(struct model *m, const char *spec, const struct model_options *o, struct err *e);
void model_close(struct model *m); /* accepts a zeroed one */

/* A replay's settings are those of the recorded file: puts what its manifest states under key, "unknown"
 * without a manifest, nothing where that has no such key. */
void model_told(const struct model *m, const char *key, struct json *id);
/* What to state as the items: their hash; of a replay "unknown" (and a warning) where the recorded answers
 * were to others. */
const char *model_told_items(const struct model *m, const char *hash);

/* Whether spec is a server's or a replay's, of which a loss can't be had. */
bool model_answers_only(const char *spec);
bool model_replays(const char *spec);
/* Whether spec is a server's, which puts its own chat template around a prompt. */
bool model_templates(const char *spec);

#endif
