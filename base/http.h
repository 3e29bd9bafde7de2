/* http: many requests at once over libcurl's multi interface.
 *
 * One struct http is used by one thread. Requests are queued with http_send, http_poll moves them
 * and calls `done` once for each, before its connection is used again; done may send more. Bodies
 * are capped (decoded size). Redirects are followed for a GET without a key only; a password in the
 * URL counts as one. Only http and https are spoken, loopback never through a proxy. Keys, and the
 * user and query of a URL, are never logged or put into a sentence. An answer that is not whole is a
 * failure with status 0; a body that stops for 60 s is given up before the timeout.
 */
#ifndef BASE_HTTP_H
#define BASE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct http;
struct clock;

struct http_request {
    const char *url;
    const char *method;         /* NULL: GET, or POST when there is a body */
    const char *const *headers; /* "Name: value", NULL-ended; copied */
    struct str body;            /* copied */
    double timeout;             /* whole request, seconds; 0: 600 */
    double connect_timeout;     /* 0: 10 */
    size_t max_body;            /* 0: 16 MiB */
    bool secret;                /* headers carry a key */
};
struct http_reply {
    int status;                       /* 0: no complete answer, then `failure` says why */
    const char *failure;              /* "could not connect to 127.0.0.1:9", NULL if status */
    bool timed_out, refused, too_big; /* kinds of failure; refused: no connection was made */
    struct str body;                  /* whole; borrowed until done() returns */
    double seconds;
    double retry_after; /* seconds; from retry-after-ms, else Retry-After (seconds or date); -1 */
    /* Seconds until the rate limits that it names are whole again, the last of them: of all, and of
     * those of which nothing is left; -1: not said. */
    double reset, reset_used_up;
    int should_retry;         /* x-should-retry: 1, 0, or -1 absent */
    const char *content_type; /* never NULL */
};
typedef void http_done_fn(void *ctx, const struct http_reply *r);

struct http *http_open(int max_connections, struct clock *clock, struct err *e);
void http_close(struct http *h); /* outstanding requests are dropped without a call */
int http_send(struct http *h, const struct http_request *q, http_done_fn *done, void *ctx,
              struct err *e);
int http_pending(const struct http *h);
/* Runs transfers for at most `seconds`; returns early when one was finished. */
int http_poll(struct http *h, double seconds, struct err *e);

/* Downloads url to `path` (through PATH.part, kept for resuming with a Range request; if the
 * server answers a range with other content (ETag / Last-Modified / length changed) it starts
 * over). sha256: 64 hex or NULL; a mismatch removes the part. Retries cuts and 5xx up to `tries`
 * without progress with backoff on the clock (Retry-After up to 120 s is obeyed); other statuses are
 * final. What may be resumed later ends with EXIT_INCOMPLETE. PATH.part.meta holds the validator and
 * the length. The final name appears by rename only after the hash matched. */
struct http_download {
    const char *url, *path, *sha256;
    int tries;            /* 0: 5 */
    double stall_timeout; /* seconds below 1 byte/s; 0: 60 */
    int64_t max_bytes;    /* 0: no cap */
    struct clock *clock;  /* NULL: system */
    void (*progress)(void *ctx, int64_t got, int64_t total);
    void *ctx;
};
int http_download(const struct http_download *d, char sha_out[65], struct err *e);
/* A URL as it may be shown: without user, password and query, which may hold a key. */
void http_show(const char *url, struct buf *out);
const char *http_version(void); /* libcurl's */

#endif
