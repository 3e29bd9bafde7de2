/* cmd_sample: continue a text or a list of ids, printing as it comes. */
#include <stdio.h>
#include <string.h>

#include "base/command.h"
#include "base/thread.h"
#include "eval/sample_stream.h"

static const struct field fields[] = {
    {"model", FIELD_STR, offsetof(struct sample_options, model), NULL,
     .help = "checkpoint folder, or a server: openai:MODEL, ollama:MODEL, http://HOST/v1#MODEL"},
    {"prompt", FIELD_STR, offsetof(struct sample_options, prompt), "", .help = "text to continue"},
    {"prompt_ids", FIELD_STR, offsetof(struct sample_options, prompt_ids), "",
     .help = "ids to continue, 1,2,3; needs no vocabulary together with --ids"},
    {"ids", FIELD_BOOL, offsetof(struct sample_options, ids), "false",
     .help = "print ids, not text"},
    {"vocab", FIELD_STR, offsetof(struct sample_options, vocab), "",
     .help = "vocabulary; default: the one in the checkpoint folder"},
    {"max_new_tokens", FIELD_I64, offsetof(struct sample_options, max_new), "64", 1, 1048576,
     .help = "longest continuation, in tokens"},
    {"temperature", FIELD_F64, offsetof(struct sample_options, rule.temperature), "0", 0, 100,
     .help = "0: the likeliest token"},
    {"top_k", FIELD_I64, offsetof(struct sample_options, rule.top_k), "0", 0, 16777216,
     .help = "sample among the k likeliest tokens; 0: all"},
    {"top_p", FIELD_F64, offsetof(struct sample_options, rule.top_p), "1", 0, 1,
     .help = "sample among the likeliest tokens of this total probability", .flags = FIELD_ABOVE},
    {"min_p", FIELD_F64, offsetof(struct sample_options, rule.min_p), "0", 0, 1,
     .help = "sample among tokens at least this fraction as likely as the likeliest"},
    {"repetition_penalty", FIELD_F64, offsetof(struct sample_options, rule.repeat), "1", 0.01, 100,
     .help = "logits of tokens that were there before are divided by it (negative: multiplied)"},
    {"seed", FIELD_I64, offsetof(struct sample_options, seed), "1", 0, 9e15,
     .help = "seed of sampling"},
    {"stop", FIELD_STRS, offsetof(struct sample_options, stop), "",
     .help = "end before this text; may be repeated"},
    {"backend", FIELD_STR, offsetof(struct sample_options, backend), "auto",
     .help = "auto, cpu or cuda"},
    {"threads", FIELD_I64, offsetof(struct sample_options, threads), "0", 0, 4096,
     .help = "0: all"},
    {"precision", FIELD_ENUM, offsetof(struct sample_options, precision), "fp32",
     .choices = precision_names, .help = "number format of activations and products"},
    {0},
};
static const struct schema options = {"sample", 1, sizeof(struct sample_options), fields};

static int run(void *opt, struct arena *a, struct err *e)
{
    (void)a;
    interrupt_install();
    return sample_stream(opt, stdout, e);
}

const struct command cmd_sample = {
    .room = "eval",
    .name = "sample",
    .summary = "continue a text (or ids), streaming",
    .details = "The continuation goes to stdout as it comes, whole characters only; bytes that are "
               "no UTF-8 are shown as U+FFFD. The prompt is not repeated. With --ids the new ids "
               "are printed, separated by commas.",
    .options = &options,
    .run = run,
};
