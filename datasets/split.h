/* split: documents to train and test, instructions to train, val and test.
 *
 * Documents are streamed: memory is one document, whatever the input's size. Where a document goes
 * depends on its id alone (doc_held_out), so more input moves nothing, and the same document lands
 * on the same side in every run.
 */
#ifndef DATASETS_SPLIT_H
#define DATASETS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "formats/doc.h"
#include "formats/item.h"

struct split_docs {
    struct strs in, test_in; /* test_in empty: hold out a share of `in` */
    double holdout;          /* share of documents; 0: no test file */
    bool clean;
    int bad_utf8;       /* enum bad_utf8 */
    int64_t paragraphs; /* > 0: cut texts into pieces of about this many bytes at blank lines */
};
struct split_counts {
    int64_t train_docs, train_bytes, test_docs, test_bytes;
    int64_t replaced, cleaned, cut; /* documents with bad UTF-8, changed by clean, cut in pieces */
};
/* Writes two JSONL files. An empty side is an error that says what to change. With paragraphs, the
 * pieces of a text NAME that is cut are documents NAME#0001, NAME#0002... */
int split_docs(const struct split_docs *o, const char *train, const char *test,
               struct split_counts *n, struct err *e);

enum { SPLIT_TRAIN, SPLIT_VAL, SPLIT_TEST, SPLIT_PARTS };
extern const char *const split_names[]; /* "train", "val", "test", NULL */

/* Sorts items by part: those with a split keep it, the others go, in file order, to
 * train | test | val as three runs of floor((1 - test - val) n), floor(test n) and the rest: the
 * order of the reference series (1,100 items: 935, 110, 55). part[k] borrow from `all`, only their
 * arrays are their own. An empty part or an unknown split is an error. */
int split_items(const struct items *all, double test, double val, struct items part[SPLIT_PARTS],
                struct err *e);
void split_items_release(struct items part[SPLIT_PARTS]); /* accepts zeroed ones */

/* Prompts (instruction and input) that occur more than once, as an object for the manifest:
 * {"items", "distinct_prompts", "test_in_train": [ids], "val_in_train": [ids]}. */
struct json *split_duplicates(const struct items part[SPLIT_PARTS]);

#endif
