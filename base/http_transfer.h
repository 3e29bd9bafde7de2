/* http_transfer: one request over curl: base/http_transfer.c makes and reports it, base/http.c runs many.
 * The only includer of curl. */
#ifndef BASE_HTTP_TRANSFER_H
#define BASE_HTTP_TRANSFER_H

#include <curl/curl.h>

#include "base/clock.h"
#include "base/http_private.h"

/* Values of the headers we read, of the newest head. */
enum {
    HEAD_TYPE,
    HEAD_AFTER,
    HEAD_AFTER_MS,
    HEAD_SHOULD,
    HEAD_RANGE,
    HEAD_ETAG,
    HEAD_MODIFIED,
    HEAD_LENGTH,
    HEADS
};
struct transfer {
    struct transfer *next;
    CURL *easy;
    struct curl_slist *headers;
    char *url, *method, *shown; /* shown: the URL without its secrets */
    struct buf body, reply;
    struct http_sink sink;
    bool to_sink, head_given, given_up, stalled, loopback, secret, plain_get;
    double timeout, connect_timeout, started, moved; /* moved: last byte of the body, 0: none */
    char *head[HEADS];
    struct http_limits limits;
    struct clock *clock;
    char why[CURL_ERROR_SIZE];
    http_done_fn *done;
    void *ctx;
};

/* NULL: the request can't be made. The caller sets clock, done and ctx. */
struct transfer *transfer_new(const struct http_request *q, const struct http_sink *sink,
                              struct err *e);
void transfer_free(struct transfer *t);
/* Tells done() how it ended, and frees it. */
void transfer_finish(struct transfer *t, CURLcode rc);

#endif
