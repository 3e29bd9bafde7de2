/* serve_private: what serve.c, serve_ask.c, serve_decode.c, serve_reply.c and serve_score.c share. */
#ifndef EVAL_SERVE_PRIVATE_H
#define EVAL_SERVE_PRIVATE_H

#include <pthread.h>

#include "base/buf.h"
#include "base/clock.h"
#include "eval/flow.h"
#include "eval/generate.h"
#include "eval/local.h"
#include "eval/serve.h"
#include "formats/template.h"
#include "tokenizer/bpe.h"

enum {
    SERVE_TOP = 20,       /* most alternatives a token */
    SERVE_STOPS = 16,     /* most stop strings */
    SERVE_STOP_LEN = 256, /* bytes of one */
    SERVE_CHOICES = 1024, /* most sequences of one request */
    SERVE_MESSAGES = 1024,
};

/* Why a request is refused: becomes {"error": {...}}. */
struct serve_fault {
    int status;
    const char *type, *code;
    char param[64]; /* empty: none */
    char message[512];
};
int serve_refuse(struct serve_fault *f, int status, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void serve_fault_body(const struct serve_fault *f, struct buf *out);

/* ---- the server ------------------------------------------------------------------------------ */

struct serve_names {
    const char *model, *fingerprint;
    int64_t created;
    const struct vocab *vocab;
    int64_t context;
};
struct server {
    const struct serve_options *o;
    struct local_model l;
    struct vocab vocab;
    struct encoder *encoder; /* of the transport's thread */
    struct template template_;
    struct serve_names names;
    int32_t eot;
    uint64_t seed;
    struct clock *clock;
    const struct serve_transport *transport;
    void *t;
    struct arena arena;
    int64_t serial; /* of the transport's thread: exchanges made */
    pthread_mutex_t lock;
    pthread_cond_t more; /* a sequence is waiting */
    /* Under the lock: */
    struct seq *first, *last; /* waiting */
    int64_t waiting, live;
    bool draining;
    double deadline;
    int64_t requests, made; /* answered, ids made */
};

/* ---- serve_ask.c: a body as a request; pure ------------------------------------------------- */

struct serve_prompt {
    struct str text;
    const int32_t *ids; /* NULL: text */
    size_t n;
};
struct serve_message {
    struct str role, text; /* "system", "developer", "user", "assistant" */
};
struct serve_ask {
    bool chat;
    struct str model;
    struct serve_prompt *prompt;
    struct serve_message *message;
    size_t prompts, messages;
    struct sample_rule rule;
    struct strs stop;
    int64_t n, max_tokens; /* max_tokens -1: as many as there is room for */
    int64_t seed;          /* -1: any */
    int64_t top;           /* alternatives a token; -1: no log-probabilities */
    bool stream, usage, echo;
};
/* Strings and ids live in the arena. Parameters that can't be had are refused by name. */
int serve_ask_read(struct serve_ask *k, bool chat, struct str body, struct arena *a,
                   struct serve_fault *f);
/* A conversation as one prompt: each user message through the template (system text before the
 * first one's), the assistant's words behind it. */
void serve_chat_prompt(const struct serve_ask *k, const struct template *t, struct buf *out);

/* ---- one sequence and its exchange ---------------------------------------------------------- */

struct serve_token {
    int32_t id;
    size_t begin;   /* byte of flow.text where it starts */
    double logprob; /* NaN: the first of a prompt */
    int ntop;
    int32_t top_id[SERVE_TOP];
    double top[SERVE_TOP];
};
struct seq {
    struct exchange *x;
    struct seq *next; /* in the queue */
    int64_t index;    /* of its choice */
    const int32_t *ids;
    int64_t n;
    uint64_t seed;
    struct flow flow;
    struct serve_token *token; /* with log-probabilities only */
    size_t tokens, tokens_cap, sent;
    int64_t chars;  /* characters begun in front of token[sent] */
    size_t counted; /* bytes of flow.text that `chars` has seen */
    int64_t made;
    enum finish finish;
    bool bad; /* a number was not finite */
    bool cut; /* nobody waits for it any more, or the server must end */
};
struct exchange {
    struct server *s;
    struct serve_ask ask;
    struct arena arena;
    struct seq *seq;
    int64_t seqs, left; /* left: not ended */
    int64_t tokens_in;
    char id[48];
    int64_t created;
    struct exchange_hooks hooks;
    int status;
    const char *allow;
    bool stream;
    /* Under the server's lock: */
    int refs;
    bool ended, dropped;
    struct buf out;
    size_t read; /* bytes of out that were given */
};

/* Drops one holder; the last one frees. Under the lock. */
void exchange_unref(struct exchange *x);

/* ---- serve_decode.c ------------------------------------------------------------------------- */

/* Decodes what comes until the server is told to end and all is answered, or cut. */
int serve_decode(struct server *s, struct err *e);

/* ---- serve_score.c: log-probabilities ------------------------------------------------------- */

/* Appends the token with its log-probability and the k likeliest ids below `limit`; logits [V] of
 * the place in front of it, NULL for the first of a prompt. */
void seq_token(struct seq *q, int32_t id, const float *logits, int64_t V, int64_t limit, int k);
/* log softmax(logits)[id]; *lse gets the log of the denominator. */
double serve_logprob(const float *logits, int64_t V, int32_t id, double *lse);

/* ---- serve_reply.c: JSON; pure -------------------------------------------------------------- */

void serve_models_body(const struct serve_names *s, bool one, struct buf *out);
/* A whole answer. */
void serve_answer_body(const struct serve_names *s, struct exchange *x, struct buf *out);
/* Events: the first of a chat's sequence, what is new of a sequence (last: with its finish reason),
 * the end of all with the usage if it was asked for. */
void serve_event_role(const struct serve_names *s, struct seq *q, struct buf *out);
void serve_event_part(const struct serve_names *s, struct seq *q, bool last, struct buf *out);
void serve_event_end(const struct serve_names *s, struct exchange *x, struct buf *out);
void serve_event_fault(const struct serve_fault *f, struct buf *out);

#endif
