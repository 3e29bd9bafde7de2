/* serve: a checkpoint behind an OpenAI-compatible HTTP server.
 *
 * One thread of the transport reads and answers connections (eval/serve_http.c); the thread that
 * called serve_run() decodes: all sequences of all requests share one continuous loop
 * (eval/generate.h), so what a request yields depends on its own prompt, rule and seed, not on who
 * else is there. The two meet in a struct exchange, under one lock.
 *
 *   struct serve_query -> server_open() -> exchange -> server_start() -> exchange_read()
 *
 * Sources of the API: OpenAI's published API description (2026-08), /v1/models, /v1/completions
 * (legacy), /v1/chat/completions; top_k, min_p and repetition_penalty as vLLM names them.
 */
#ifndef EVAL_SERVE_H
#define EVAL_SERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

struct serve_options {
    struct str model, name, vocab, backend, template_, host, key_env;
    int64_t port, threads, rows, queue, connections, max_body, seed;
    int precision; /* enum precision */
    double timeout, drain;
};
/* Serves until SIGINT or SIGTERM; then finishes what is under way, at most o->drain seconds. The
 * line "serving NAME at URL" goes to `to` when requests can come. */
int serve_run(const struct serve_options *o, FILE *to, struct err *e);

/* ---- what a transport needs ----------------------------------------------------------------- */

struct server;
struct exchange;

/* A whole request; absent headers are empty. */
struct serve_query {
    struct str method, path, host, authorization, content_type, body;
};
/* Called with the server's lock held, so they take no other but the transport's own. */
struct exchange_hooks {
    void (*wake)(void *ctx); /* there is something to read, or the end */
    void (*rest)(void *ctx); /* there is nothing to read for now: wait for wake() */
    bool (*gone)(void *ctx); /* the client has left */
    void *ctx;
};
/* Never NULL. Either it is ended (then exchange_status and exchange_body are there), or it waits for
 * server_start. */
struct exchange *server_open(struct server *s, const struct serve_query *q);
void server_start(struct exchange *x, const struct exchange_hooks *hooks);
bool exchange_ended(struct exchange *x);              /* all bytes are there */
bool exchange_stream(const struct exchange *x);       /* server-sent events instead of one body */
int exchange_status(const struct exchange *x);        /* of an ended one, or of a stream */
const char *exchange_allow(const struct exchange *x); /* status 405: the methods; else NULL */
struct str exchange_body(struct exchange *x); /* of an ended one that is no stream; borrowed */
/* Up to max bytes of a stream; 0: none now, rest() was called; -1: the end. */
ssize_t exchange_read(struct exchange *x, char *to, size_t max);
void exchange_drop(struct exchange *x); /* the transport is done with it, or the client has left */

/* The body of an answer that never became a request: too large, not HTTP... Caller frees. */
char *serve_refusal(int status, const char *message);

struct serve_transport {
    const char *name;
    /* Listens; *port gets the real one. key NULL: none is asked for. */
    int (*open)(void **t, struct server *s, const struct serve_options *o, int *port,
                struct err *e);
    void (*quiet)(void *t);  /* no new connections; those that are there go on */
    int (*pending)(void *t); /* requests that were not answered to their end */
    void (*close)(void *t);
};
/* The one of this build (eval/servers.c), or NULL with what is missing. */
const struct serve_transport *serve_transport(struct err *e);

#endif
