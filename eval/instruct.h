/* instruct: items become prompts, a model answers, answers become a record file.
 *
 * While it runs, each answer goes at once into a journal beside the output
 * (OUT.KEY.journal; KEY: model, template, decoding, items), so a run that was killed asks only for
 * what is missing. At the end the output is written in the order of the items and the journal is
 * removed: the same bytes whatever the batch, the order of answers or the number of kills.
 * Answers are kept without white space at their ends: a server's " one " is a checkpoint's "one".
 */
#ifndef EVAL_INSTRUCT_H
#define EVAL_INSTRUCT_H

#include "base/err.h"
#include "base/str.h"
#include "eval/failed.h"
#include "eval/model.h"
#include "formats/item.h"
#include "formats/template.h"

struct instruct_options {
    const struct template *template_;
    int64_t max_new, top_k, seed;
    double temperature, top_p;
    double min_p, repeat; /* 0; 1 or 0: none */
    struct strs stop;
};
struct instruct_counts {
    int64_t items, kept; /* kept: answered by a run before this one */
    int64_t finish[4];   /* by enum finish */
    int64_t empty, tokens_out;
    int64_t lost;      /* prompts that lost their heads */
    int64_t full;      /* of the cut ones: by the context, not by max_new */
    double slowest_ms; /* volatile */
    struct failed failed;
};
/* Failures that may be gone when asked again end with EXIT_INCOMPLETE, the journal kept and no
 * output. Those that would come again are recorded as FINISH_ERROR and counted; all of them is an
 * error. c->failed is the caller's to release, also after an error. */
int instruct_run(struct model *m, const struct items *items, const struct instruct_options *o,
                 const char *out, struct instruct_counts *c, struct err *e);

/* The seed of an item's sampling: of the run's seed and the item's id, not of its place. */
uint64_t instruct_seed(int64_t seed, struct str id);

#endif
