/* sample_stream: one continuation, written as it comes. */
#ifndef EVAL_SAMPLE_STREAM_H
#define EVAL_SAMPLE_STREAM_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/str.h"
#include "eval/sample.h"
#include "formats/run.h"

struct sample_options {
    struct str model, prompt, prompt_ids, vocab, backend;
    bool ids;
    int64_t max_new, seed, threads;
    int precision; /* enum precision */
    struct sample_rule rule;
    struct strs stop;
};
/* Exactly one of prompt and prompt_ids (prompt may be empty when prompt_ids is: then the text
 * begins at EOT). Ends the output with a newline. */
int sample_stream(const struct sample_options *o, FILE *to, struct err *e);

#endif
