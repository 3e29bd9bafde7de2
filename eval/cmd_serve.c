/* cmd_serve: options of the HTTP server. */
#include <stdio.h>

#include "base/command.h"
#include "base/thread.h"
#include "eval/serve.h"
#include "formats/run.h"

#define AT(m) offsetof(struct serve_options, m)
static const struct field fields[] = {
    {"model", FIELD_STR, AT(model), NULL, .help = "checkpoint folder"},
    {"port", FIELD_I64, AT(port), "8080", 0, 65535, .help = "0: one that is free"},
    {"host", FIELD_STR, AT(host), "127.0.0.1",
     .help = "address to listen on; one that others can reach wants a key"},
    {"key_env", FIELD_STR, AT(key_env), "ASSAY_API_KEY",
     .help = "environment variable that holds the key; unset or empty: none is asked for"},
    {"name", FIELD_STR, AT(name), "", .help = "the model's name; default: that of its folder"},
    {"vocab", FIELD_STR, AT(vocab), "", .help = "vocabulary; default: the checkpoint folder's"},
    {"template", FIELD_STR, AT(template_), "alpaca",
     .help = "prompt of a chat's user messages: alpaca, plain or a file"},
    {"rows", FIELD_I64, AT(rows), "8", 1, 4096, .help = "sequences decoded at once"},
    {"queue", FIELD_I64, AT(queue), "1024", 1, 1 << 20,
     .help = "sequences that may wait; beyond: 429"},
    {"connections", FIELD_I64, AT(connections), "256", 1, 65536, .help = "open at once at most"},
    {"max_body", FIELD_I64, AT(max_body), "8M", 1, 1 << 30,
     .help = "bytes of a request; beyond: 413"},
    {"timeout", FIELD_F64, AT(timeout), "60", 1, 86400,
     .help = "seconds that a connection may be silent while we read or write"},
    {"drain", FIELD_F64, AT(drain), "30", 0, 86400,
     .help = "seconds for what is under way when told to end"},
    {"seed", FIELD_I64, AT(seed), "0", 0, 9e15,
     .help = "of requests that give none; 0: another one each start"},
    {"backend", FIELD_STR, AT(backend), "auto", .help = "auto, cpu or cuda"},
    {"threads", FIELD_I64, AT(threads), "0", 0, 4096, .help = "0: all"},
    {"precision", FIELD_ENUM, AT(precision), "fp32", .choices = precision_names,
     .help = "number format of activations and products"},
    {0},
};
static const struct schema options = {"serve", 1, sizeof(struct serve_options), fields};

static int run(void *opt, struct arena *a, struct err *e)
{
    (void)a;
    interrupt_install();
    return serve_run(opt, stdout, e);
}

const struct command cmd_serve = {
    .room = "eval",
    .name = "serve",
    .summary = "a checkpoint behind an OpenAI-compatible HTTP server",
    .details =
        "Prints \"serving NAME at URL\" and answers GET /v1/models, POST /v1/completions, "
        "POST /v1/chat/completions and GET /health until SIGINT or SIGTERM, then finishes "
        "what is under way. Requests of all clients are decoded together. See docs/serve.md.",
    .options = &options,
    .run = run,
};
