/* cat: any artefact as JSON lines.
 *
 * What a file is, is told by its first bytes; safetensors have none of their own and are told by
 * their name. One line is
 *   records      one record, with the keys that stand in the file
 *   safetensors  one tensor: name, dtype, shape, bytes, min, max, mean, nonfinite
 *   token shard  {"file", "tokens", "width"}, then {"at", "ids"} of up to 64 ids
 *   examples     {"examples", "vocab_size", "longest"}, then {"example", "ids", "mask"}
 *   JSON         an element of an array, else the whole; of .jsonl a line
 *   a folder     its manifest
 */
#ifndef FORMATS_CAT_H
#define FORMATS_CAT_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* most: records, tensors, examples or ids to show; -1: all (of a token shard 64 ids). */
int cat_path(const char *path, int64_t most, FILE *to, struct err *e);

#endif
