/* tasks: what `assay eval` does, one function a task: key, work, record file, manifest, one line.
 *
 * facts of the manifests:
 *   identity        what two results must share to be compared, "key": "value"
 *   identity_token  (documents) what they must share besides for values per token
 *   units tokens bytes nats nll_token bits_byte documents clusters note     (losses)
 *   nats_end bits_end                                                       (documents: closing EOTs)
 *   oracle {documents, gap_bits, se_bits}                                   (documents)
 *   line            what the task printed
 *   items stop length filter error empty tokens_out model failed_ids        (instruct)
 *   length_context  of `length`: ended by the model's context               (instruct)
 *   lost_heads      prompts that were cut at their heads to fit             (instruct, choice)
 *   items continuations tokens failed invalid tied metric model             (choice)
 *   flat            what every token of all continuations has, if they are all alike (choice)
 *   failed_ids, invalid_ids, acc_bounds {lowest, highest} and those of each acc_norm_ (not where
 *   every item has one choice) and of acc_greedy   (choice, when some miss)
 *   acc acc_norm_char acc_norm_byte acc_norm_token acc_greedy nats_answer   (choice)
 */
#ifndef EVAL_TASKS_H
#define EVAL_TASKS_H

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/manifest.h"
#include "formats/run.h"
#include "trainer/rendezvous.h"

enum eval_task { TASK_WINDOWS, TASK_DOCUMENTS, TASK_INSTRUCT, TASK_CHOICE, TASK_NONE };

/* After --config and options were brought together. */
struct eval_job {
    int task;
    const char *model, *vocab, *shards, *items, *template_, *out, *backend; /* vocab may be NULL */
    struct eval_config c;
    int64_t threads, concurrency, retries, max_requests;
    double timeout;
    /* choice: task file; few-shot rows; where to leave the items as asked (or NULL) */
    const char *task_file, *shots_from, *items_out;
    struct rendezvous *meet; /* ranks that share a loss; NULL: one */
};
int eval_windows(const struct eval_job *j, FILE *to, struct arena *a, struct err *e);
int eval_documents(const struct eval_job *j, FILE *to, struct arena *a, struct err *e);
int eval_instruct(const struct eval_job *j, FILE *to, struct arena *a, struct err *e);

int eval_choice(const struct eval_job *j, FILE *to, struct arena *a, struct err *e);

/* Prompts that were cut at their heads are not those of a model with more context: part of the identity
 * where there are any, and the fact lost_heads. */
void eval_lost_heads(struct stage *st, struct json *id, int64_t lost, int64_t of, int64_t context);

/* Keeps the line that a task prints, and says it again where nothing had to be done. */
void eval_line(struct stage *st, const struct buf *line);
void eval_line_again(const char *out, FILE *to);

/* The model as an input of the stage; *spec is what to open. */
int eval_model_input(struct stage *st, const struct eval_job *j, const char **spec, struct arena *a,
                     struct err *e);

#endif
