/* result: what one run amounts to, one record in result.msgpack.
 *
 * Everything `compare` needs is in it: provenance, configuration, curve, times, and each metric
 * with its settings, per-unit values and counts. Fields marked volatile (times, host, commit) are
 * left out of "same bytes".
 */
#ifndef FORMATS_RESULT_H
#define FORMATS_RESULT_H

#include <stdint.h>

#include "base/err.h"
#include "base/field.h"
#include "formats/run.h"

/* loss units: one window or one document of an evaluation (record file eval/NAME.msgpack). */
struct loss_unit {
    struct str id, cluster; /* window: "w000012", cluster: the document it lies in */
    double nats;            /* summed negative log-likelihood */
    int64_t tokens, bytes;  /* predicted tokens; UTF-8 bytes they stand for (-1: unknown) */
    double nats_end;    /* document: of its closing EOT, not in nats or tokens; NaN: none apart */
    double oracle_bits; /* of text and end; NaN: unknown */
    struct str rest;
};
extern const struct schema loss_unit_schema;

/* A metric is sum(num) / sum(den) over its units: a mean when every den is 1. */
struct metric {
    struct str
        name; /* nll_token, bits_byte, excess_bits_byte, acc_exact, f1_overlap, judge_single */
    struct str task; /* windows, documents, instruct */
    struct str unit; /* "nats/token" */
    bool higher_better;
    bool primary;
    int64_t seed;         /* fine-tuning seed it belongs to; 0: none */
    double value, lo, hi; /* 95% interval of these items; NaN: not estimable */
    int64_t n, n_invalid, clusters;
    struct strs identity; /* "key=value": all must be equal for two metrics to be compared */
    struct strs ids, cluster;
    struct f64s num, den;
    struct str note;
    struct str rest;
};

struct result_hardware {
    struct str name, cpu, device, driver, interconnect, os;
    int64_t cpus, devices;
    int64_t ranks, used; /* processes that trained; devices that they kept busy; 0: not said */
    double memory_gib, price_hour, peak_tflops;
    struct str price_currency, price_source, price_date;
};
struct result_software {
    struct str version, commit, compiler, flags, backend;
    int64_t dirty;
    struct strs libraries; /* "oneDNN 2.6.3" */
};
struct result_data {
    struct str data_hash, vocab_hash, text_hash, instruct_hash;
    int64_t vocab_size, train_tokens, test_tokens, train_docs, test_docs, train_bytes, test_bytes;
};
struct result_timing {
    double train_seconds, eval_seconds, tokens_per_second; /* median over steps */
    double val_seconds;    /* of validations, within train_seconds */
    double lost_seconds;   /* of steps that a kill took; not in train_seconds */
    double billed_seconds; /* that the machine was rented for; NaN: unknown */
    double step_ms_p10, step_ms_p50, step_ms_p90, stall_share, comm_share, mfu, energy_j;
    int64_t peak_rss;
};
/* Training on one machine, from one start to the next. */
struct result_segment {
    struct str hardware, device, host, started;
    int64_t devices, first_step, steps, tokens;
    double seconds, price_hour, money; /* NaN: no price */
    double lost_seconds, lost_money;   /* of steps before it that a kill took */
    struct str price_currency, price_source, price_date;
};
struct result_curve {
    struct i64s step, tokens;
    struct f64s loss, lr, norm, seconds; /* thinned to at most 1000 points; seconds volatile */
};

struct result {
    struct str run, group, title, status, notes; /* status: finished, failed, killed, running */
    struct strs tags;
    int64_t seed, parameters, tokens, steps;
    int64_t skipped, overflows; /* steps without an update: spikes; fp16's scale of the loss */
    struct run config;
    struct result_hardware hardware;
    struct result_software software;
    struct result_data data;
    struct result_timing timing;
    struct result_curve curve;
    struct list metrics;           /* of struct metric */
    double cost_train, cost_total; /* in hardware.price_currency; NaN: unknown */
    double cost_billed;            /* what the provider took; NaN: unknown */
    struct list segments;          /* of struct result_segment */
    struct str source;             /* of a result that was entered, not measured here */
    struct str started, ended;     /* volatile */
    struct strs inputs;            /* "pretrain/manifest.json HASH" */
    struct str rest;
};
/* Devices that the training kept busy, as far as it is known; `devices` are those of the machine. */
int64_t result_devices(const struct result_hardware *h);
extern const struct schema metric_schema, result_schema, result_segment_schema;

#endif
