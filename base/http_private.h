/* http_private: what base/download.c needs below base/http.h. Private to base. */
#ifndef BASE_HTTP_PRIVATE_H
#define BASE_HTTP_PRIVATE_H

#include "base/buf.h"
#include "base/http.h"

/* The head of an answer (the last one, behind redirects). Texts are "" when absent. */
struct http_head {
    int status;
    int64_t length; /* Content-Length, -1 unknown */
    const char *content_range, *etag, *last_modified;
};

/* Takes an answer piece by piece instead of as one body. Each returns 0, or -1 to give the transfer
 * up: it is then done with status 0. head comes once, before the data, also without any. */
struct http_sink {
    int (*head)(void *ctx, const struct http_head *h);
    int (*data)(void *ctx, const void *p, size_t n);
    void *ctx;
    double stall_timeout; /* seconds without a byte; 0: none before the first byte, then 60 */
};

/* As http_send; the body goes to the sink, is not decoded and has no cap (max_body is ignored). */
int http_send_sink(struct http *h, const struct http_request *q, const struct http_sink *sink,
                   http_done_fn *done, void *ctx, struct err *e);

/* Seconds to wait by the texts of retry-after-ms and Retry-After (RFC 9110 10.2.3: seconds or a
 * date), either "" if absent; wall is the time now. Negative and past become 0; -1 if neither is
 * usable. Huge values are returned as they are: the caller decides what is too long. */
double http_retry_after(const char *ms, const char *after, double wall);

/* Rate limits that the headers of an answer name. Zeroed is empty. */
enum { HTTP_LIMITS = 8 };
struct http_limits {
    struct {
        char name[64];
        double remaining, reset; /* -1: not said; reset: seconds from now */
    } v[HTTP_LIMITS];
    int n;
};
void http_limits_take(struct http_limits *l, struct str name, struct str value, double wall);
/* Seconds until the last of them is whole again, or the last of those that are used up; -1: none. */
double http_limits_wait(const struct http_limits *l, bool used_up);
/* Seconds to wait by the text of one reset; -1: past, or not to be understood. */
double http_reset_wait(struct str s, double wall);

#endif
