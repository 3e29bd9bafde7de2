/* vocab: a byte-level BPE vocabulary: ids, their bytes, which pairs merge, which split pattern.
 *
 * Read from (vocab_load):
 * - X.tiktoken: "base64 rank" a line; rank = id = merge priority; two tokens merge when their bytes
 *   joined are a token. Specials and the pattern are not in the file: they come from X's manifest,
 *   from the table of published vocabularies (told by SHA-256), else EOT is the id behind the last.
 * - vocab.bpe + encoder.json (or merges.txt + vocab.json): GPT-2's files; pairs merge as listed.
 * - tokenizer.json of Hugging Face with a byte-level BPE model; merges as strings or as pairs.
 * - a folder with one of these.
 * Written (vocab_save): .tiktoken and tokenizer.json, by the extension.
 *
 * Invariants after vocab_load: every byte value has a token, no two ids have the same bytes among
 * ordinary tokens, ordinary ids have no holes but where a special stands. Immutable then, so it
 * may be shared by threads.
 */
#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "tokenizer/merge.h"
#include "tokenizer/split.h"

#define VOCAB_EOT "<|endoftext|>"

enum token_kind { TOKEN_NONE, TOKEN_ORDINARY, TOKEN_SPECIAL };

struct special {
    struct str text;
    int32_t id;
};
struct merge {
    int32_t left, right, id;
};
struct vocab_slot {
    uint32_t tag; /* of the hash: most compares of bytes are not needed */
    uint32_t id;  /* + 1; 0: empty */
};
struct vocab {
    int64_t size;     /* ids are below: the highest + 1 */
    int64_t ordinary; /* tokens that are no specials */
    int32_t eot;      /* -1: none */
    int32_t byte_id[256];
    struct special *special; /* longest text first */
    size_t nspecial;
    struct merge *merges; /* in order of priority; NULL if the file had only ranks */
    size_t nmerges;
    const struct split_pattern *pattern;
    bool whole; /* a piece that is a token as a whole is not merged (all but plain Hugging Face) */
    struct str note;       /* something the user should know, or empty */
    char hash[SHA256_HEX]; /* over pattern, tokens and specials: equal for equal vocabularies,
                              whichever file they came from */
    /* Private: use the calls below. */
    struct str *bytes;       /* [size] */
    uint8_t *kind;           /* [size] enum token_kind */
    struct vocab_slot *slot; /* hash table of ordinary tokens */
    uint64_t slot_mask;
    struct pair_table pairs;
    struct arena arena;
};

struct vocab_options {
    struct str pattern; /* by name; empty: what the files say, else gpt2 */
    struct str eot;     /* text of the EOT token; empty: what the files say, else VOCAB_EOT */
};

/* o may be NULL. On failure v is released. Errors name file and line (JSON: the token). */
int vocab_load(struct vocab *v, const char *path, const struct vocab_options *o, struct err *e);
/* By extension. .tiktoken holds no merges, so it is refused where the ranks would not give them. */
int vocab_save(const struct vocab *v, const char *path, struct err *e);
void vocab_release(struct vocab *v);

/* The ordinary token with these bytes, or -1. */
int32_t vocab_find(const struct vocab *v, struct str bytes);
/* The bytes of an id (a special's text); false if it stands for nothing or is out of range. */
bool vocab_bytes(const struct vocab *v, int64_t id, struct str *out);
enum token_kind vocab_kind(const struct vocab *v, int64_t id); /* TOKEN_NONE if out of range */
/* Special of this text, or NULL. */
const struct special *vocab_special(const struct vocab *v, struct str text);

/* The merges in order of priority, also where the file had only ranks: a token's parts are what
 * merging with the smaller ranks leaves of its bytes. An error if that is not two. In the arena. */
int vocab_merges(const struct vocab *v, struct arena *a, struct merge **out, size_t *n,
                 struct err *e);

/* A vocabulary from training: base id = byte value, merge k makes id 256 + k, EOT behind. */
int vocab_trained(struct vocab *v, const struct merge *merges, size_t n,
                  const struct split_pattern *pattern, struct str eot, struct err *e);

#endif
