/* chat_body: the body of a reply as JSON messages, and what they add up to. Private to eval/chat_*.
 */
#ifndef EVAL_CHAT_BODY_H
#define EVAL_CHAT_BODY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"

/* What the messages of one body add up to. */
struct gathered {
    struct buf text;
    struct str refusal, reason, error, error_code, param, model;
    bool content, thinking, choice, error_seen;
    bool partial, ended; /* a message says that others follow; that it is the last */
    int64_t error_status, tokens_in, tokens_out;
};

struct parsed {
    struct json **v;
    size_t n, cap;
};

/* Splits a body into messages (one, several lines, an event stream) and gathers them; the strs of
 * *g live as long as *p. *end: an event stream said that it was done. Returns the number of
 * messages, -1 if a line is no JSON (or there are absurdly many). */
int chat_body_read(struct str body, struct parsed *p, struct gathered *g, bool *end);
void chat_body_release(struct parsed *p, struct gathered *g);

#endif
