/* train: learns a byte-level BPE vocabulary from texts.
 *
 * Each text is cut into pieces by the split pattern; equal pieces are counted once with their
 * number. Then, again and again, the adjacent pair of tokens with the largest count becomes a new
 * token. The count of a pair is the sum over pieces of its adjacent occurrences (overlapping ones as
 * well: "aaa" has two of (a,a)) times the piece's number, in 64 bits; of equal counts the smaller
 * (left id, right id) wins. Base id = byte value, so the result depends on the pieces and their
 * numbers alone, not on the order of texts, threads or hash seeds.
 * No two ids get the same bytes: inside two equal stretches of text that no token ever left, all
 * merges were the same, so they cannot have become two tokens in two ways.
 *
 * Costs: memory for the distinct pieces only; time for a merge is that of its occurrences.
 * One trainer belongs to one thread.
 */
#ifndef TOKENIZER_TRAIN_H
#define TOKENIZER_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "tokenizer/vocab.h"

struct trainer;
struct trainer *trainer_new(const struct split_pattern *p, struct err *e);
void trainer_free(struct trainer *t); /* NULL is fine */

/* Counts the pieces of one text. Bad UTF-8 is an error (docs_open has replaced or refused it). */
int trainer_add(struct trainer *t, struct str text, struct err *e);
int64_t trainer_pieces(const struct trainer *t);   /* seen */
int64_t trainer_distinct(const struct trainer *t); /* different ones */

/* Learns `count` merges; merge k makes id 256 + k. *out is the caller's to free. Texts that do not
 * have that many pairs are an error that says how many there are. May be called once. */
int trainer_run(struct trainer *t, size_t count, struct merge **out, size_t *n, struct err *e);

#endif
