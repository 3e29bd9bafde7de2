/* sharding: documents to token shards, instruction items to example shards.
 *
 * Both write files only; the stage around them (options, freshness, manifest) is cmd_shard.c's.
 */
#ifndef TOKENIZER_SHARDING_H
#define TOKENIZER_SHARDING_H

#include "base/err.h"
#include "base/mem.h"
#include "formats/doc.h"
#include "formats/shard.h"
#include "formats/template.h"
#include "tokenizer/vocab.h"

struct sharding {
    const struct vocab *vocab; /* with an EOT */
    const char *dir, *name;    /* files are DIR/NAME_{train,test}_%06d.bin */
    struct strs train, test;   /* paths of documents */
    double holdout;    /* share of the train paths' documents held out, without test paths */
    int64_t per_shard; /* tokens in a file */
    enum bad_utf8 bad_utf8;
};
/* Each document becomes EOT and its tokens, special text in it being ordinary text. One document is
 * in memory at a time, and the ids of one file of each split. While it runs the files have hidden
 * names, so that a folder is never half a data set; older shards of this name are removed.
 * info is filled, its strings in the arena: text_hash is SHA-256 over the two splits' hashes, each
 * over (u64 length, bytes) of its documents. *replaced: documents whose bad UTF-8 was replaced.
 * EXIT_INCOMPLETE when interrupted. */
int shard_documents(const struct sharding *s, struct shard_info *info, int64_t *replaced,
                    struct arena *a, struct err *e);

struct example_counts {
    int64_t examples, tokens, targets, longest;
};
/* Items to one example shard: prompt ids, reference ids, EOT; the mask is 1 on the reference and
 * EOT. Prompt and reference are encoded apart, so no token crosses the border and generation, which
 * starts at the prompt's ids, sees what training saw. An item without a reference is an error. */
int shard_examples(const struct vocab *v, const struct template *t, const char *items,
                   const char *out, struct example_counts *c, struct err *e);

#endif
