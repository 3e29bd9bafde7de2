/* run: one run file describes one run, all sections in one table.
 *
 * Every room reads the sections it needs from the same struct, so an unknown key is refused at every
 * door with the same sentence. A section decides the stages named beside it, and only those.
 */
#ifndef FORMATS_RUN_H
#define FORMATS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/field.h"
#include "base/mem.h"
#include "base/str.h"

/* [run]: names; decides nothing but the result. */
struct run_about {
    struct str title, group, notes; /* group: runs of one recipe with other seeds share it */
    struct strs tags;
    double billed; /* what the provider took for the run; NaN: unknown */
};

/* [data]: data, vocabulary and shard stages. */
enum data_kind { DATA_CORPUS, DATA_DOCS, DATA_SHARDS };
struct run_data {
    struct str run;          /* take data, vocab and shards of this run instead */
    int kind;                /* enum data_kind */
    int64_t docs, seed;      /* corpus */
    struct strs train, test; /* docs: paths; $DATA is replaced */
    struct str shards;       /* shards: folder or name of a fetchable source */
    struct str instruct;     /* instruction JSON/JSONL; empty with corpus: its own; "none" */
    double instruct_test, instruct_val; /* shares: contiguous as train | test | val */
    bool clean;                         /* docs: BOM away, CRLF to LF, blank-line runs to one */
    double holdout;                     /* share of documents for test when there is no test path */
    int bad_utf8;                       /* enum bad_utf8 */
    int64_t shard_tokens;
    int64_t paragraphs; /* split longer texts into documents of about this many bytes; 0: never */
};

/* [vocab] */
struct run_vocab {
    int64_t size;
    struct str pattern; /* split pattern by name */
    struct str from;    /* a vocabulary file (or a fetched source) instead of training one */
};

/* [model]: shape; GPT-2. */
struct model_config {
    int64_t layers, heads, width, context;
    int64_t vocab; /* 0: the shards' vocabulary */
    int64_t inner; /* 0: 4 * width */
    bool qkv_bias, tied;
    double dropout; /* embedding, attention and residual */
    double norm_eps, init_std;
    struct str from; /* start at this checkpoint folder: no pre-training */
};

enum lr_schedule { LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_WSD };
enum decay_rule { DECAY_MATRICES, DECAY_ALL };
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16, PRECISION_FP16 };
extern const char *const precision_names[];
/* What is computed again on the way back instead of kept: nothing; the output of GELU; all of a
 * block but its input (Chen et al., arXiv 1604.06174, with one block a segment). */
enum recompute { RECOMPUTE_NONE, RECOMPUTE_GELU, RECOMPUTE_LAYER, RECOMPUTES };
extern const char *const recompute_names[];

/* [train]: pre-training. */
struct train_config {
    int64_t seed;
    struct str tokens;   /* "800K", "3.2G" or "20n" = 20 x parameters, up to whole steps */
    int64_t batch;       /* sequences in a global step */
    int64_t micro_batch; /* sequences at once; 0 = auto */
    double lr, min_lr;   /* min_lr: share of lr at the end */
    int schedule;
    double warmup; /* share of the steps */
    double weight_decay;
    int decay;
    double beta1, beta2, eps, clip; /* clip 0: off */
    bool shuffle;
    int64_t checkpoint_every, keep; /* steps; 0: at the end only */
    int64_t val_every, val_tokens;  /* 0: off */
    double spike_z;                 /* skip updates whose loss or norm is beyond z; 0: off */
    int64_t max_skips;              /* stop after this many in a row */
    double max_hours;               /* 0: no limit */
    struct str backend;             /* auto, cpu, cuda */
    int64_t threads;                /* 0: all */
    int64_t ranks;                  /* processes that `train` starts on this machine */
    struct str comm;                /* how ranks talk: auto, shm, mpi, nccl */
    int64_t zero;                   /* 1: each rank keeps a share of the moments */
    int precision;                  /* enum precision */
    int recompute;                  /* enum recompute */
    int64_t loss_scale_every;       /* fp16: good steps before the loss's scale doubles */
    bool stochastic_rounding;       /* of the narrow copy of the weights */
};

/* [finetune] */
struct finetune_config {
    int64_t seeds, seed;
    double lr, weight_decay, clip, warmup;
    int64_t epochs, batch, patience; /* patience: epochs without a better val loss before stop */
    bool mask_prompt;
    double dropout;       /* -1: the model's */
    struct str template_; /* "alpaca" or a template file; key "template" */
    int64_t max_tokens;   /* examples longer than this (0: context) are dropped and counted */
    int64_t micro_batch;  /* examples at once; 0 = auto */
    int precision;        /* enum precision */
};

/* [eval] */
struct eval_config {
    bool windows, documents, instruct;
    int64_t start, tokens;  /* slice of the test split for windows; tokens 0: to its end */
    int64_t window, stride; /* of windows; 0: the model's context; 0: the window, disjoint */
    int64_t batch, max_new_tokens;
    double temperature, top_p;
    double min_p, repetition_penalty; /* 0: all; 1: none */
    int64_t top_k, seed;
    struct strs tasks;  /* "piqa=ROWS": a task file or a task of the tool, and its rows */
    int64_t shots;      /* solved rows before each item of these */
    struct strs stop;   /* answers end before these texts */
    int64_t ranks;      /* processes on this machine that share a loss */
    int precision;      /* enum precision, of a checkpoint */
    double max_invalid; /* share of a choice task's items that may be without a finite value */
};

/* [score] and [judge] */
struct score_config {
    struct strs scorers; /* exact, overlap */
};
extern const char *const judge_json_names[]; /* auto, on, off */
struct judge_config {
    struct str judge;  /* spec, e.g. ollama:llama3; empty: no judge */
    struct str prompt; /* "score100" or a prompt file */
    struct str price;  /* price file; empty: money is unknown */
    int structured;    /* judge_json_names */
    int64_t concurrency, max_requests, max_total_tokens, retries, max_tokens, seed, repeat;
    double timeout, temperature, max_failed, max_seconds, max_money;
};

struct run {
    struct run_about about;
    struct run_data data;
    struct run_vocab vocab;
    struct model_config model;
    struct train_config train;
    struct finetune_config finetune;
    struct eval_config eval;
    struct score_config score;
    struct judge_config judge;
};

extern const struct schema run_schema, model_config_schema, train_config_schema,
    finetune_config_schema, eval_config_schema, judge_config_schema, run_data_schema,
    run_vocab_schema, score_config_schema, run_about_schema;

/* Reads a run file with --set overrides. */
int run_load(struct run *r, const char *path, struct strs sets, struct arena *a, struct err *e);

/* Hardware files (pipelines/hardware/NAME.ini), section [hardware]. */
struct hardware {
    struct str name, device, driver_name, interconnect, price_currency, price_source, price_date;
    int backend;                 /* index of hardware_backends: on which its devices are used */
    int64_t count;               /* devices */
    double memory_gib;           /* of one device */
    double peak_tflops;          /* of one device, dense, in bf16 and fp16 */
    double peak_tf32, peak_fp32; /* the same for these; NaN: unknown */
    double bandwidth_gbs;        /* memory, of one device */
    double matrix_share; /* of the peak that products reach; NaN: a default that plan names */
    double price_hour;   /* of the whole machine; NaN: unknown */
    /* For `assay plan --scale`; NaN: a default that the plan names. */
    double link_gbs,
        link_us; /* between devices of a machine: one device's rate one way; one message */
    double net_gbs, net_us; /* between machines, for each device */
};
extern const struct schema hardware_schema;
int hardware_load(struct hardware *h, const char *path, struct arena *a, struct err *e);
extern const char *const hardware_backends[];
/* Whether a run on this backend is on devices that the file describes, as far as the file says. */
bool hardware_is_of(const struct hardware *h, struct str backend);
/* Whether the file is of the device that its driver calls `device` ("": it does not say). A file
 * without driver_name is of any. */
bool hardware_is_card(const struct hardware *h, struct str device);
/* Devices that `ranks` processes keep busy: one each, but on a CPU they share what there is. */
int64_t hardware_used(const struct hardware *h, struct str backend, int64_t ranks);
/* peak_tflops becomes that of this precision: unknown where the file does not say it, because half as
 * wide a number is several times as fast. */
void hardware_at(struct hardware *h, int precision);
/* The key that says it. */
const char *hardware_peak_key(int precision);

#endif
