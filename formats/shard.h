/* shard: token files of llm.c's layout, and example shards for fine-tuning.
 *
 * Token shard NAME_{train,test}_%06d.bin, little-endian:
 * | bytes | what                                                                   |
 * |  1024 | 256 int32: [0] magic 20240520 version [1] 1: uint16 tokens             |
 * |       |            [0] magic 20240801 version [1] 7: uint32 tokens             |
 * |       |            [2] token count, others 0                                   |
 * |  n*w  | tokens; each document is EOT then its tokens; documents may cross shards |
 * Written and read by llm.c (dev/data/data_common.py, llmc/dataloader.h), modded-nanogpt and
 * others, so public pre-tokenized shards work unchanged.
 *
 * A shard folder has manifest.json whose facts are struct shard_info: the vocabulary's size and
 * hash, EOT, documents, tokens and UTF-8 bytes by split, the files by split in order, and
 * token_bytes: how many bytes each id stands for (EOT: 0). A folder of bare .bin files without a
 * manifest is accepted: files with "val" or "test" in their name are the test split.
 *
 * Example shard (magic 20261130 version 1), for instruction data:
 * | 1024  | 256 int32: [0] magic [1] version [2] examples [3] vocabulary size [4] longest example|
 * | 8*(n+1) | u64 offsets into ids, in tokens                                       |
 * | 4*N   | uint32 ids                                                             |
 * | N     | u8 loss mask: 1 where the id is a target that counts                   |
 *
 * Readers map the files; a struct tokens or examples may be shared by threads.
 */
#ifndef FORMATS_SHARD_H
#define FORMATS_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/field.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

struct shard_info {
    int64_t vocab_size, eot;
    struct str vocab_hash, text_hash; /* text_hash: of the documents' bytes, train then test */
    int64_t train_tokens, test_tokens, train_docs, test_docs, train_bytes, test_bytes;
    struct strs train_files, test_files; /* relative to the folder */
    struct i64s token_bytes;             /* vocab_size entries; empty if unknown */
};
extern const struct schema shard_info_schema;

enum {
    SHARD_HEADER = 1024, /* bytes, of token and example shards */
    SHARD_MOST_TOKENS = 2147483647,
    SHARD_MAGIC_16 = 20240520,
    SHARD_MAGIC_32 = 20240801,
    EXAMPLES_MAGIC = 20261130,
};

/* Writing one split: files of at most `per_shard` tokens. width is 2 if vocab_size <= 65536, else 4. */
struct shard_writer;
struct shard_writer *shard_create(const char *dir, const char *name, const char *split,
                                  int64_t vocab_size, int64_t per_shard, struct err *e);
int shard_put(struct shard_writer *w, const int32_t *ids, size_t n, struct err *e);
int64_t shard_tokens(const struct shard_writer *w);
/* Commits the last file; names get the files written, in the arena. Frees w in any case. */
int shard_finish(struct shard_writer *w, struct strs *names, struct arena *a, struct err *e);
void shard_abort(struct shard_writer *w); /* removes nothing that was committed; NULL is fine */

/* Reading a split of a folder as one long vector of tokens (mapped, 64-bit offsets). Every header
 * is checked: magic, version, count against the file's size. */
struct tokens {
    struct shard_info info;
    int64_t n; /* tokens in all files */
    int64_t nfiles;
    struct token_file {
        struct file_map map;
        const void *ids;
        int width; /* 2 or 4 */
        int64_t begin, n;
        const char *path;
    } * files;
    struct arena arena;
};
/* split: "train" or "test". dir may also be one .bin file, which then is the split. An empty or
 * missing split is an error. */
int tokens_open(struct tokens *t, const char *dir, const char *split, struct err *e);
/* ids[0..n) from position `at`. An id >= vocab_size (if known, or the limit given) is an error
 * that names file and offset. */
int tokens_get(const struct tokens *t, int64_t at, int64_t n, int64_t vocab_limit, int32_t *ids,
               struct err *e);
void tokens_close(struct tokens *t);

/* Example shards. */
struct examples {
    struct file_map map;
    int64_t n, vocab_size, longest;
    const uint64_t *offset; /* n + 1 */
    const uint32_t *ids;
    const uint8_t *mask;
};
int examples_open(struct examples *x, const char *path, struct err *e);
void examples_close(struct examples *x);
struct examples_writer;
struct examples_writer *examples_create(const char *path, int64_t vocab_size, struct err *e);
void examples_put(struct examples_writer *w, const int32_t *ids, const uint8_t *mask, size_t n);
int examples_finish(struct examples_writer *w, struct err *e); /* frees w */
void examples_abort(struct examples_writer *w);

#endif
