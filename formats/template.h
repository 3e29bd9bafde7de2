/* template: how an instruction becomes a prompt. The text is data: by name, or a file.
 *
 * In a text, {instruction} and {input} are the fields; what stands between {?input} and {/input}
 * is left out when the input is empty; {{ is one brace; all else is taken byte for byte, the end
 * included, so a file that should not end with a line feed is saved without one.
 *
 * "alpaca": the prompt of Stanford Alpaca (https://github.com/tatsu-lab/stanford_alpaca, without
 *   its second preamble) as chapter 7 of LLMs-from-scratch uses it: one preamble, and the input in
 *   a block of its own only if there is one. Ends behind "### Response:\n".
 * "plain": "Q: ...\nA:".
 */
#ifndef FORMATS_TEMPLATE_H
#define FORMATS_TEMPLATE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

struct template
{
    const char *name; /* as given */
    struct str text;
    char hash[SHA256_HEX]; /* of the text: goes into a metric's identity */
};

/* name: a built-in or a file. Unknown fields, open blocks and a text without {instruction} are
 * refused. Strings live in the arena. */
int template_load(struct template *t, const char *name, struct arena *a, struct err *e);
/* Appends the prompt. */
void template_prompt(const struct template *t, struct str instruction, struct str input,
                     struct buf *out);

#endif
