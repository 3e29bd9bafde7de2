/* chat: what goes over the wire to a chat server and what comes back. Pure: no connection here.
 *
 * Dialects:
 *   openai  POST BASE/chat/completions (OpenAI, llama-server, vLLM, LM Studio, OpenRouter...)
 *   ollama  POST BASE/api/chat, stream false, sampling in `options`, num_ctx set
 *   anthropic  POST BASE/v1/messages, system on top, max_tokens always there, no seed
 * Sources: OpenAI's published API description (2026-08), Ollama's docs/api.md, Anthropic's Messages
 * API (version 2023-06-01).
 *
 * A reply is read with distrust: status 200 may carry an error, several JSON lines or an event
 * stream, null content, parts, text only in a reasoning field, a <think> block, or a page of HTML.
 */
#ifndef EVAL_CHAT_H
#define EVAL_CHAT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/http.h"
#include "base/mem.h"
#include "eval/model.h"

/* Where requests go; parsed from a model's spec. */
struct chat_target {
    const struct chat_dialect *dialect;
    const char *url;          /* whole, of the chat call */
    const char *complete_url; /* of the legacy completions call; NULL: it has none */
    const char *model;        /* as asked */
    const char *server;       /* "http://127.0.0.1:11434", for sentences */
    const char *key_name;     /* environment variable of the key */
    const char *key;          /* NULL: none. Never printed */
    bool new_tokens_name;     /* max_completion_tokens instead of max_tokens */
    int64_t num_ctx;          /* ollama: context asked for */
    bool num_ctx_given;       /* by the spec; else a default, which a smaller model lowers */
};

enum chat_kind {
    CHAT_ANSWER,    /* text and finish are there */
    CHAT_RETRY,     /* may go well if asked again */
    CHAT_FAILED,    /* this request never will */
    CHAT_FATAL,     /* no request will: wrong key, model or parameter */
    CHAT_EXHAUSTED, /* no request will for now: quota, unreachable */
};

struct chat_reply {
    enum chat_kind kind;
    struct response r; /* item is not set; strings in the arena */
    bool slow_down;    /* 429 or overloaded: send less at once */
    bool overloaded;   /* 529: wait longer than usual */
    double wait;       /* CHAT_RETRY: seconds the server asked for, or by its limits; -1: none */
    struct str why;    /* kinds other than CHAT_ANSWER: one clause, the key scrubbed */
};

struct chat_dialect {
    const char *name;
    const char *path;          /* behind the base URL */
    const char *complete_path; /* of the legacy completions; NULL: none */
    const char *tags_path;     /* of the list of models with their digests; NULL: none */
    const char *show_path;     /* of what is known of one model; NULL: none */
    void (*body)(const struct chat_target *t, const struct request *q, struct buf *out);
    const char *key_header;   /* "Authorization: Bearer ", then the key */
    const char *extra_header; /* sent with each request; NULL: none */
    bool quota_is_silent;     /* a 429 without Retry-After or used-up limit is a spend cap: final */
};
extern const struct chat_dialect chat_openai, chat_ollama, chat_anthropic;

/* "openai:MODEL" (OPENAI_API_KEY, OPENAI_BASE_URL), "ollama:MODEL[?num_ctx=N]" (OLLAMA_HOST),
 * "anthropic:MODEL" (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL),
 * "http[s]://HOST[:PORT][/PATH]#MODEL" (ASSAY_API_KEY). Strings live in the arena. EXIT_USAGE. */
int chat_target_parse(struct chat_target *t, const char *spec, struct arena *a, struct err *e);

/* Reads one HTTP reply to q. */
void chat_read(const struct chat_target *t, const struct http_reply *h, struct chat_reply *out,
               struct arena *a);

#endif
