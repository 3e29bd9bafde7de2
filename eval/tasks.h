/* tasks: what `assay eval` does, one function a task: key, work, record file, manifest, one line.
 *
 * facts of the manifests:
 *   identity        what two results must share to be compared, "key": "value"
 *   identity_token  (documents) what they must share besides for values per token
 *   units tokens bytes nats nll_token bits_byte documents clusters note     (losses)
 *   oracle {documents, gap_bits, se_bits}                                   (documents)
 *   items stop length filter error empty tokens_out model                   (instruct)
 */
#ifndef EVAL_TASKS_H
#define EVAL_TASKS_H

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/run.h"

enum eval_task { TASK_WINDOWS, TASK_DOCUMENTS, TASK_INSTRUCT, TASK_NONE };

/* After --config and options were brought together. */
struct eval_job {
    int task;
    const char *model, *vocab, *shards, *items, *template_, *out, *backend; /* vocab may be NULL */
    int64_t window; /* 0: the model's context */
    struct eval_config c;
    struct strs stop;
    int64_t threads, concurrency, retries, max_requests;
    double timeout;
};
int eval_windows(const struct eval_job *j, FILE *to, struct arena *a, struct err *e);
int eval_documents(const struct eval_job *j, FILE *to, struct arena *a, struct err *e);
int eval_instruct(const struct eval_job *j, FILE *to, struct arena *a, struct err *e);

#endif
