/* model_http: what model_http.c (requests out, the loop) and model_http_reply.c (what becomes of an
 * answer: policy) share. */
#ifndef EVAL_MODEL_HTTP_H
#define EVAL_MODEL_HTTP_H

#include "base/clock.h"
#include "base/http.h"
#include "eval/chat.h"
#include "eval/model.h"

#define SHRINK_COOLDOWN 15.0

enum job_state { JOB_FREE, JOB_WAITING, JOB_SENT };

struct http_model;
struct job {
    struct http_model *m;
    enum job_state state;
    struct request q;
    int tries;
    double due;
};
struct http_model {
    struct model *model;
    struct chat_target target;
    struct model_options o;
    struct clock *clock;
    struct http *http;
    const char *identity;
    char *auth; /* "Authorization: Bearer ..." */
    const char *headers[5];
    struct job *job;
    int64_t jobs;
    double at_once, shrunk_at, hold; /* hold: nothing is sent before */
    int64_t answered, failed_in_row, served_other;
    int64_t dead, hung; /* tries before the first answer: without a reply, of these timeouts */
    /* of the running answer() */
    response_done_fn *done;
    void *ctx;
    bool drained, stopping;
    int rc;
    struct err *e;
};

/* The first reason to stop is kept; what is under way goes on. */
void http_model_stop(struct http_model *m, int code, const char *why);
/* Takes the reply to a job (ctx): an answer, another try, a failure of the item, or the end. */
void http_model_arrived(void *ctx, const struct http_reply *h);

#endif
