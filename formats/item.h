/* item, response, score: what eval is asked, what it answered, what that is worth.
 *
 * All three are record files (formats/record.h) keyed by item id; of two records with one key the
 * last wins. Items may also be read from JSON or JSONL: {"id"?, "instruction", "input"?, "output",
 * "cluster"?, "split"?, "task"?, "choices"?, "graded"?, "constraints"?}; without an id it is the first
 * 16 hex digits of SHA-256 of instruction, NUL, input, and "-2", "-3"... for repeats. Rows of the
 * IFEval data ({"key", "prompt", "instruction_id_list", "kwargs"}) are read as they are. Other rows
 * become items by a task file (formats/task.h).
 */
#ifndef FORMATS_ITEM_H
#define FORMATS_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/field.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/index.h"

struct item {
    struct str id, task, instruction, input; /* task: "instruct" */
    struct str reference;                    /* the right answer, may be empty */
    struct str cluster;                      /* items that share a source; empty: itself */
    struct str split;                        /* "train", "val", "test" or empty */
    struct strs choices;
    struct strs graded; /* known-answer: answers of known quality, in order of grade_names */
    /* Choice items. contexts: what stands before each choice, one for all (then one) or one a
     * choice; delimiter and choice go behind it byte by byte. gold: index of the right choice, FIELD_NONE_I64: unknown. */
    struct strs contexts;
    struct str delimiter;
    int64_t gold;
    struct strs constraints; /* formats/constraint.h: JSON texts of checkable instructions */
    struct str rest;
};
/* Grades of a known-answer item, best first: right, reworded, padded, wrong, empty. */
extern const char *const grade_names[];

/* Why a response or a score has no value. Only OUTCOME_SCORED has one. */
enum outcome {
    OUTCOME_SCORED,
    OUTCOME_PARSE_FAILED,
    OUTCOME_REFUSED,
    OUTCOME_TRUNCATED,
    OUTCOME_TRANSPORT_FAILED,
    OUTCOME_NOT_RUN,
};
extern const char *const outcome_names[];

/* finish: why the text ends. */
enum finish { FINISH_STOP, FINISH_LENGTH, FINISH_FILTER, FINISH_ERROR };
extern const char *const finish_names[]; /* "stop", "length", "filter", "error" */

struct response {
    struct str item, model, text;
    int finish;                    /* enum finish */
    struct str detail;             /* of an error: what happened */
    int64_t tokens_in, tokens_out; /* FIELD_NONE_I64: unknown */
    double ms;                     /* volatile */
    /* Of choices, in order: summed log probability, nats; tokens summed over; whether each of these
     * was the likeliest (1, 0). NaN or -inf as computed: the reader decides what it means. */
    struct f64s choice_logprob;
    struct i64s choice_tokens, choice_greedy;
    struct str rest;
    bool final; /* of an error, not in files: asked again it fails again */
};

struct score {
    struct str item, scorer, cluster;
    double value;      /* NaN unless scored */
    double weight;     /* see score_weight */
    int outcome;       /* enum outcome */
    struct str detail; /* what was matched, or why not */
    struct str judge;  /* judges: identity served, else empty */
    struct str key;    /* judges: SHA-256 of item, answer, judge identity, prompt */
    struct str rest;
};

/* What a value counts in a mean, sum(value weight) / sum(weight): 1 where none is set. */
double score_weight(const struct score *s);

extern const struct schema item_schema, response_schema, score_schema;

/* Zeroed is empty; a load starts from nothing and leaves nothing when it fails. */
struct items {
    struct item *v;
    size_t n;
    struct arena arena;
};
/* Reads items from .msgpack, .json (an array) or .jsonl; ids unique; an empty file is an error. */
int items_load(struct items *x, const char *path, struct err *e);
int items_save(const struct items *x, const char *path, struct err *e);
/* One item after the other, as they stand: without an id that is not in the file, unchecked, and
 * borrowed until fn returns (-1 ends it). In constant memory but for .json, which is one text. */
typedef int item_fn(void *ctx, const struct item *it, struct err *e);
int items_each(const char *path, item_fn *fn, void *ctx, struct err *e);
void item_base_id(const struct item *it, char id[17]); /* the id of the first such item */
void items_release(struct items *x);

struct responses {
    struct response *v; /* last of each item, in first-seen order */
    size_t n;
    struct arena arena;
    struct index index; /* by item */
};
/* A record file; or .json, an array of items with their answers as LLMs-from-scratch writes them,
 * {"instruction", "input", "output", "model_response"}: ids are those that items_load gives. */
int responses_load(struct responses *x, const char *path, struct err *e);
/* Every record, also of one item again; as items_each. */
typedef int response_fn(void *ctx, const struct response *r, struct err *e);
int responses_each(const char *path, response_fn *fn, void *ctx, struct err *e);
const struct response *responses_find(const struct responses *x, struct str item);
void responses_release(struct responses *x);

struct scores {
    struct score *v; /* last of each item, in first-seen order */
    size_t n;
    struct arena arena;
    struct index index; /* by item */
};
int scores_load(struct scores *x, const char *path, struct err *e);
const struct score *scores_find(const struct scores *x, struct str item);
void scores_release(struct scores *x);

#endif
