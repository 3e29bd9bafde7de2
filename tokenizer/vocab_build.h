/* vocab_build: how readers hand over what they found; private to tokenizer/vocab*.c.
 *
 * A reader adds entries in any order, then vocab_build checks them all (doubles, holes, base bytes)
 * and makes the tables. Nothing a file says is trusted before that.
 */
#ifndef TOKENIZER_VOCAB_BUILD_H
#define TOKENIZER_VOCAB_BUILD_H

#include "base/buf.h"
#include "base/json.h"
#include "tokenizer/vocab.h"

struct vocab_entry {
    int64_t id;
    struct str bytes;
    enum token_kind kind;
    int64_t line; /* in the file, 0: unknown */
};
struct vocab_draft {
    const char *path; /* for messages */
    struct arena arena;
    struct vocab_entry *v;
    size_t n, cap;
    struct merge_text { /* by bytes; ids are looked up when all tokens are known */
        struct str left, right;
        int64_t line;
    } * merges;
    size_t nmerges, merge_cap;
    bool by_rank; /* no merges: ranks are priorities */
    bool whole;
    struct str note, pattern, eot; /* pattern: by name; may be empty */
};

void draft_add(struct vocab_draft *d, int64_t id, struct str bytes, enum token_kind kind,
               int64_t line);
void draft_merge(struct vocab_draft *d, struct str left, struct str right, int64_t line);
void draft_release(struct vocab_draft *d);

int vocab_build(struct vocab *v, struct vocab_draft *d, const struct vocab_options *o,
                struct err *e);

/* Readers: fill d from a file; d->path is set by them. */
int read_tiktoken(struct vocab_draft *d, const char *path, struct str eot, struct err *e);
int read_gpt2(struct vocab_draft *d, const char *merges, const char *ids, struct err *e);
int read_tokenizer_json(struct vocab_draft *d, const char *path, const struct json *root,
                        bool pattern_given, struct err *e);

/* The byte-level alphabet of GPT-2 (openai/gpt-2 encoder.py, bytes_to_unicode): each byte is one
 * printable character; those that are printable in Latin-1 stand for themselves, the others, in
 * order, for U+0100 and up. */
uint32_t alphabet_of_byte(unsigned char byte);
/* Decodes a token's text; -1 if it holds another character. Bytes go to the arena. */
int alphabet_decode(struct arena *a, struct str text, struct str *bytes);
void alphabet_encode(struct str bytes, struct buf *out);

#endif
