/* serve_screen: what a transport refuses by the head of a request, before any of its body. Pure. */
#ifndef EVAL_SERVE_SCREEN_H
#define EVAL_SERVE_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    SCREEN_URL = 8192,   /* longest path with its query, in bytes */
    SCREEN_HEAD = 32768, /* largest request line with all headers */
};
struct screen_rule {
    const char *key; /* NULL: none is asked for */
    bool loopback;   /* reached from this machine only */
    int64_t max_body;
};
/* The head of a request; what is absent is empty. lengths, encodings: how many Content-Length and
 * Transfer-Encoding headers there are. */
struct screen_head {
    struct str path, host, authorization, length, encoding;
    int lengths, encodings;
    int64_t url, head; /* bytes */
};
/* 0, or the status of the refusal with *why (static text). */
int serve_screen(const struct screen_rule *r, const struct screen_head *h, const char **why);

#endif
