/* bpe: text to token ids and back.
 *
 * A text is cut at special tokens (only with SPECIAL_ALLOW), each part into pieces by the split
 * pattern, each piece into tokens: itself if it is one, else its bytes merged. NUL is a byte like
 * any other. Decoding gives bytes: decode(encode(text)) is the text unless bad UTF-8 was replaced.
 *
 * Bad UTF-8 under BAD_UTF8_RAW: an ill-formed run of bytes joins the piece in front of it, and the
 * text behind it starts anew (as tiktoken's bytes interface does at the first one).
 *
 * A struct encoder belongs to one thread; the vocabulary is shared and must outlive it.
 */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "formats/doc.h"
#include "tokenizer/vocab.h"

/* What text that looks like a special token is. */
enum special_policy {
    SPECIAL_PLAIN, /* ordinary text: documents cannot smuggle control tokens in */
    SPECIAL_ALLOW, /* the special token */
    SPECIAL_ERROR, /* refused, with its place */
};
extern const char *const special_policy_names[]; /* "plain", "allow", "error", NULL */

struct encode_options {
    enum special_policy special;
    struct strs only; /* allow, error: these special texts; empty: all. Borrowed */
    enum bad_utf8 bad_utf8;
    bool plain_split; /* without the short cut of split.h; tests and benchmarks */
    bool no_cache;
};
struct encode_counts {
    int64_t texts, bytes, tokens, pieces;
    int64_t bad_texts; /* that held bad UTF-8 */
    int64_t cached;    /* pieces found in the cache */
    uint64_t work;     /* of merging, see merge.h */
};
struct ids {
    int32_t *v;
    size_t n, cap;
};
void ids_add(struct ids *x, int32_t id);
void ids_release(struct ids *x);

struct encoder;
struct encoder *encoder_new(const struct vocab *v, struct encode_options o, struct err *e);
void encoder_free(struct encoder *x); /* NULL is fine */
/* Appends the ids of one text, below 4 GiB. On failure out is as before. */
int encode(struct encoder *x, struct str text, struct ids *out, struct err *e);
struct encode_counts encoder_counts(const struct encoder *x);

/* Appends the bytes of n ids. An id that stands for nothing is an error with its position. */
int decode(const struct vocab *v, const int32_t *ids, size_t n, struct buf *out, struct err *e);

#endif
