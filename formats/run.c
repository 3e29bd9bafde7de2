/* run: the tables of the run file, one per section.
 *
 * A row here is at once a key of the run file, a --set target, a line of --help and a part of the
 * stage's key, so a default changes in one place. Defaults are those of a GPT-2 124M run on one
 * device (Radford et al. 2019 for the shape; AdamW betas, decay and learning rate as nanoGPT and
 * llm.c use them for that size). Rows marked volatile change no number (threads, time limits, how
 * many requests run at once), so changing one makes no stage run again.
 */
#include "formats/run.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>

#include "base/config.h"
#include "formats/doc.h"

static const char *const data_kind_names[] = {"corpus", "docs", "shards", NULL};
static const char *const lr_schedule_names[] = {"constant", "linear", "cosine", "wsd", NULL};
static const char *const decay_rule_names[] = {"matrices", "all", NULL};
const char *const precision_names[] = {"fp32", "tf32", "bf16", "fp16", NULL};
static const char *const auto_names[] = {"auto", NULL};
const char *const recompute_names[] = {"none", "gelu", "layer", NULL};

#define MOST_COUNT 1e15 /* an int64 that a double still holds exactly */

#define AT(m) offsetof(struct run_about, m)
static const struct field run_about_fields[] = {
    {"title", FIELD_STR, AT(title), "", .help = "what this run is, for tables and reports"},
    {"group", FIELD_STR, AT(group), "", .help = "runs of one recipe with other seeds share it"},
    {"notes", FIELD_STR, AT(notes), "", .help = "free text kept in the result"},
    {"tags", FIELD_STRS, AT(tags), "", .help = "words to find the run by"},
    {"billed", FIELD_F64, AT(billed), "", 0, 1e12,
     .help = "what the provider took for the run, in the hardware's currency"},
    {0},
};
#undef AT
const struct schema run_about_schema = {"run", 1, sizeof(struct run_about), run_about_fields};

#define AT(m) offsetof(struct run_data, m)
static const struct field run_data_fields[] = {
    {"run", FIELD_STR, AT(run), "",
     .help = "take data, vocabulary and shards of this run instead of making them"},
    {"kind", FIELD_ENUM, AT(kind), "docs", .choices = data_kind_names,
     .help = "corpus: the known-answer texts; docs: files; shards: tokens made elsewhere"},
    {"docs", FIELD_I64, AT(docs), "20000", 1, 1e9, .help = "corpus: documents"},
    {"seed", FIELD_I64, AT(seed), "1", 0, MOST_COUNT, .help = "corpus: seed of the texts"},
    {"train", FIELD_STRS, AT(train), "",
     .help = "docs: files or folders of training text; $DATA is replaced"},
    {"test", FIELD_STRS, AT(test), "",
     .help = "docs: files or folders of held-out text; without: see holdout"},
    {"shards", FIELD_STR, AT(shards), "",
     .help = "shards: a folder of token shards or the name of a source that can be fetched"},
    {"instruct", FIELD_STR, AT(instruct), "",
     .help = "instruction JSON or JSONL; empty with kind = corpus: its own; none: no fine-tuning"},
    {"instruct_test", FIELD_F64, AT(instruct_test), "0.1", 0, 1,
     .help = "share of the instructions that are answered and scored"},
    {"instruct_val", FIELD_F64, AT(instruct_val), "0.05", 0, 1,
     .help = "share of the instructions that decide when fine-tuning stops"},
    {"clean", FIELD_BOOL, AT(clean), "false",
     .help = "docs: drop the BOM, CRLF to LF, runs of blank lines to one"},
    {"holdout", FIELD_F64, AT(holdout), "0.01", 0, 0.9,
     .help = "share of the documents held out when there is no test path"},
    {"bad_utf8", FIELD_ENUM, AT(bad_utf8), "replace", .choices = bad_utf8_names,
     .help = "docs: bytes that are no UTF-8 become U+FFFD, stop the run, or stay"},
    {"shard_tokens", FIELD_I64, AT(shard_tokens), "100M", 1000, 2147483647,
     .help = "tokens in one shard file"},
    {"paragraphs", FIELD_I64, AT(paragraphs), "0", 0, 1e9,
     .help = "docs: cut longer texts into documents of about this many bytes; 0: never"},
    {0},
};
#undef AT
const struct schema run_data_schema = {"data", 1, sizeof(struct run_data), run_data_fields};

#define AT(m) offsetof(struct run_vocab, m)
static const struct field run_vocab_fields[] = {
    {"size", FIELD_I64, AT(size), "4096", 257, 16777216,
     .help = "ids to train, the end-of-text id included"},
    {"pattern", FIELD_STR, AT(pattern), "gpt2", .help = "split pattern by name"},
    {"from", FIELD_STR, AT(from), "",
     .help = "a vocabulary file or fetchable source to use instead of training one"},
    {0},
};
#undef AT
const struct schema run_vocab_schema = {"vocab", 1, sizeof(struct run_vocab), run_vocab_fields};

#define AT(m) offsetof(struct model_config, m)
static const struct field model_config_fields[] = {
    {"layers", FIELD_I64, AT(layers), "12", 1, 1024, .help = "blocks"},
    {"heads", FIELD_I64, AT(heads), "12", 1, 1024, .help = "attention heads; must divide width"},
    {"width", FIELD_I64, AT(width), "768", 1, 65536, .help = "channels"},
    {"context", FIELD_I64, AT(context), "1024", 1, 1048576, .help = "most positions, in tokens"},
    {"vocab", FIELD_I64, AT(vocab), "0", 0, 16777216,
     .help = "ids the model knows; 0: the shards' vocabulary"},
    {"inner", FIELD_I64, AT(inner), "0", 0, 1048576, .help = "MLP channels; 0: 4 x width"},
    {"qkv_bias", FIELD_BOOL, AT(qkv_bias), "true", .help = "bias on query, key and value"},
    {"tied", FIELD_BOOL, AT(tied), "true", .help = "the head shares the token embedding"},
    {"dropout", FIELD_F64, AT(dropout), "0", 0, 0.99,
     .help = "share dropped after embedding, attention and both branches while training"},
    {"norm_eps", FIELD_F64, AT(norm_eps), "1e-5", 0, 1, .help = "added to the variance in norms"},
    {"init_std", FIELD_F64, AT(init_std), "0.02", 0, 10,
     .help = "standard deviation of fresh weights"},
    {"from", FIELD_STR, AT(from), "", .help = "start at this checkpoint folder: no pre-training"},
    {0},
};
#undef AT
const struct schema model_config_schema = {"model", 1, sizeof(struct model_config),
                                           model_config_fields};

#define AT(m) offsetof(struct train_config, m)
static const struct field train_config_fields[] = {
    {"seed", FIELD_I64, AT(seed), "1", 0, MOST_COUNT,
     .help = "seed of weights, data order and dropout"},
    {"tokens", FIELD_STR, AT(tokens), "20n",
     .help = "tokens to train on: 800K, 3.2G, or 20n = 20 x parameters; up to whole steps"},
    {"batch", FIELD_I64, AT(batch), "32", 1, 1048576, .help = "sequences in a global step"},
    {"micro_batch", FIELD_I64, AT(micro_batch), "0", 0, 65536, .choices = auto_names,
     .help = "sequences at once; auto or 0: the most that fit"},
    {"lr", FIELD_F64, AT(lr), "6e-4", 0, 10, .help = "highest learning rate"},
    {"min_lr", FIELD_F64, AT(min_lr), "0.1", 0, 1, .help = "share of lr that is left at the end"},
    {"schedule", FIELD_ENUM, AT(schedule), "cosine", .choices = lr_schedule_names,
     .help = "how the learning rate falls after the warm-up"},
    {"warmup", FIELD_F64, AT(warmup), "0.02", 0, 1,
     .help = "share of the steps in which the learning rate rises"},
    {"weight_decay", FIELD_F64, AT(weight_decay), "0.1", 0, 10, .help = "AdamW weight decay"},
    {"decay", FIELD_ENUM, AT(decay), "matrices", .choices = decay_rule_names,
     .help = "what decays: weight matrices, or all"},
    {"beta1", FIELD_F64, AT(beta1), "0.9", 0, 0.99999, .help = "AdamW: memory of the gradient"},
    {"beta2", FIELD_F64, AT(beta2), "0.95", 0, 0.9999999, .help = "AdamW: memory of its square"},
    {"eps", FIELD_F64, AT(eps), "1e-8", 0, 1, .help = "AdamW: added to the root"},
    {"clip", FIELD_F64, AT(clip), "1", 0, 1e9, .help = "largest gradient norm; 0: off"},
    {"shuffle", FIELD_BOOL, AT(shuffle), "true", .help = "read the windows in a seeded order"},
    {"checkpoint_every", FIELD_I64, AT(checkpoint_every), "0", 0, MOST_COUNT,
     .help = "steps between checkpoints; 0: at the end only"},
    {"keep", FIELD_I64, AT(keep), "2", 1, 1000000, .help = "newest checkpoints that stay",
     .flags = FIELD_VOLATILE},
    {"val_every", FIELD_I64, AT(val_every), "0", 0, MOST_COUNT,
     .help = "steps between validations; 0: off"},
    {"val_tokens", FIELD_I64, AT(val_tokens), "0", 0, MOST_COUNT,
     .help = "tokens of one validation; 0: the whole split"},
    {"spike_z", FIELD_F64, AT(spike_z), "0", 0, 1000,
     .help = "skip updates whose loss or norm is this many deviations off; 0: off"},
    {"max_skips", FIELD_I64, AT(max_skips), "10", 1, 1000000,
     .help = "stop after this many skipped updates in a row"},
    {"max_hours", FIELD_F64, AT(max_hours), "0", 0, 1e6,
     .help = "save and stop after this many hours; 0: no limit", .flags = FIELD_VOLATILE},
    {"backend", FIELD_STR, AT(backend), "auto", .help = "auto, cpu or cuda"},
    {"threads", FIELD_I64, AT(threads), "0", 0, 4096, .help = "CPU threads; 0: all",
     .flags = FIELD_VOLATILE},
    {"ranks", FIELD_I64, AT(ranks), "0", 0, 4096,
     .help = "processes on this machine that train together, where mpirun or srun does not say; "
             "0: one for each GPU of the hardware file that is here",
     .flags = FIELD_VOLATILE},
    {"comm", FIELD_STR, AT(comm), "auto",
     .help = "how ranks talk: auto, shm (one machine), mpi or nccl", .flags = FIELD_VOLATILE},
    {"zero", FIELD_I64, AT(zero), "0", 0, 1,
     .help = "1: each rank keeps and updates a share of the moments only (ZeRO-1)",
     .flags = FIELD_VOLATILE},
    {"precision", FIELD_ENUM, AT(precision), "fp32", .choices = precision_names,
     .help = "number format of activations and products; weights and moments stay fp32"},
    {"recompute", FIELD_ENUM, AT(recompute), "none", .choices = recompute_names,
     .help =
         "less memory for more work: compute again on the way back; layer: all but a block's input",
     .flags = FIELD_VOLATILE},
    {"loss_scale_every", FIELD_I64, AT(loss_scale_every), "2000", 1, 1e9,
     .help = "fp16: good steps before the scale of the loss doubles; it starts at 65536"},
    {"stochastic_rounding", FIELD_BOOL, AT(stochastic_rounding), "false",
     .help = "bf16, fp16: round the weights that products read at random, without bias"},
    {0},
};
#undef AT
const struct schema train_config_schema = {"train", 1, sizeof(struct train_config),
                                           train_config_fields};

#define AT(m) offsetof(struct finetune_config, m)
static const struct field finetune_config_fields[] = {
    {"seeds", FIELD_I64, AT(seeds), "3", 1, 100,
     .help = "times to fine-tune, answer and score, each with its own seed"},
    {"seed", FIELD_I64, AT(seed), "1", 0, MOST_COUNT, .help = "the first of these seeds"},
    {"lr", FIELD_F64, AT(lr), "5e-5", 0, 10, .help = "learning rate"},
    {"weight_decay", FIELD_F64, AT(weight_decay), "0.1", 0, 10, .help = "AdamW weight decay"},
    {"clip", FIELD_F64, AT(clip), "1", 0, 1e9, .help = "largest gradient norm; 0: off"},
    {"warmup", FIELD_F64, AT(warmup), "0", 0, 1,
     .help = "share of the steps in which the learning rate rises"},
    {"epochs", FIELD_I64, AT(epochs), "10", 1, 100000, .help = "most passes over the examples"},
    {"batch", FIELD_I64, AT(batch), "8", 1, 65536, .help = "examples in a step"},
    {"patience", FIELD_I64, AT(patience), "1", 1, 100000,
     .help = "epochs without a better validation loss before it stops"},
    {"mask_prompt", FIELD_BOOL, AT(mask_prompt), "true",
     .help = "only the answer counts in the loss"},
    {"dropout", FIELD_F64, AT(dropout), "-1", -1, 0.99, .help = "dropout; -1: the model's"},
    {"template", FIELD_STR, AT(template_), "alpaca",
     .help = "prompt template: alpaca, plain or a template file"},
    {"max_tokens", FIELD_I64, AT(max_tokens), "0", 0, 1048576,
     .help = "longer examples are dropped and counted; 0: the context"},
    {"micro_batch", FIELD_I64, AT(micro_batch), "0", 0, 65536, .choices = auto_names,
     .help = "examples at once; auto or 0: the most that fit", .flags = FIELD_VOLATILE},
    {"precision", FIELD_ENUM, AT(precision), "fp32", .choices = precision_names,
     .help = "number format of activations and products; weights and moments stay fp32"},
    {0},
};
#undef AT
const struct schema finetune_config_schema = {"finetune", 1, sizeof(struct finetune_config),
                                              finetune_config_fields};

#define AT(m) offsetof(struct eval_config, m)
static const struct field eval_config_fields[] = {
    {"windows", FIELD_BOOL, AT(windows), "true", .help = "loss over the test tokens in windows"},
    {"documents", FIELD_BOOL, AT(documents), "true", .help = "loss of each test document alone"},
    {"instruct", FIELD_BOOL, AT(instruct), "true", .help = "answer the test instructions"},
    {"tasks", FIELD_STRS, AT(tasks), "",
     .help = "choice tasks and their rows, piqa=$DATA/piqa.jsonl,...; names as for --task-file"},
    {"shots", FIELD_I64, AT(shots), "0", 0, 1000, .help = "tasks: solved rows before each item"},
    {"start", FIELD_I64, AT(start), "0", 0, 9e15,
     .help = "windows: first token of the slice of the test split"},
    {"tokens", FIELD_I64, AT(tokens), "0", 0, 9e15,
     .help = "windows: tokens predicted in the slice; 0: to the end of the split"},
    {"window", FIELD_I64, AT(window), "0", 0, 1 << 24,
     .help = "windows: tokens in a window; 0: the model's context"},
    {"stride", FIELD_I64, AT(stride), "0", 0, 1 << 24,
     .help = "windows: tokens from one to the next, which alone count; 0: the window, disjoint"},
    {"batch", FIELD_I64, AT(batch), "8", 1, 65536, .help = "sequences at once; changes no number",
     .flags = FIELD_VOLATILE},
    {"max_new_tokens", FIELD_I64, AT(max_new_tokens), "64", 1, 1048576,
     .help = "longest answer, in tokens"},
    {"temperature", FIELD_F64, AT(temperature), "0", 0, 100, .help = "0: the likeliest token"},
    {"top_k", FIELD_I64, AT(top_k), "0", 0, 16777216,
     .help = "sample among the k likeliest tokens; 0: all"},
    {"top_p", FIELD_F64, AT(top_p), "1", 0, 1,
     .help = "sample among the likeliest tokens of this total probability", .flags = FIELD_ABOVE},
    {"min_p", FIELD_F64, AT(min_p), "0", 0, 1,
     .help = "sample among tokens at least this fraction as likely as the likeliest"},
    {"repetition_penalty", FIELD_F64, AT(repetition_penalty), "1", 0.01, 100,
     .help = "logits of tokens that were there before are divided by it (negative: multiplied)"},
    {"seed", FIELD_I64, AT(seed), "1", 0, MOST_COUNT, .help = "seed of sampling"},
    {"stop", FIELD_STRS, AT(stop), "",
     .help = "answers end before these texts (a comma between them)"},
    {"ranks", FIELD_I64, AT(ranks), "0", 0, 4096,
     .help = "processes on this machine that share a loss; 0: as train.ranks; changes no number",
     .flags = FIELD_VOLATILE},
    {"precision", FIELD_ENUM, AT(precision), "fp32", .choices = precision_names,
     .help = "number format of activations and products; a part of every metric's identity"},
    {"max_invalid", FIELD_F64, AT(max_invalid), "0", 0, 1,
     .help =
         "tasks: share of a choice task's items that may be invalid (NaN) before it is an error",
     .flags = FIELD_VOLATILE},
    {0},
};
#undef AT
const struct schema eval_config_schema = {"eval", 1, sizeof(struct eval_config),
                                          eval_config_fields};

#define AT(m) offsetof(struct score_config, m)
static const struct field score_config_fields[] = {
    {"scorers", FIELD_STRS, AT(scorers), "exact,overlap",
     .help = "scorers by their names or their metrics', each once"},
    {0},
};
#undef AT
const struct schema score_config_schema = {"score", 1, sizeof(struct score_config),
                                           score_config_fields};

const char *const judge_json_names[] = {"auto", "on", "off", NULL};
#define AT(m) offsetof(struct judge_config, m)
static const struct field judge_config_fields[] = {
    {"judge", FIELD_STR, AT(judge), "",
     .help = "ollama:MODEL, openai:MODEL, URL#MODEL...; empty: no judge"},
    {"prompt", FIELD_STR, AT(prompt), "score100", .help = "prompt by name, or a prompt file"},
    {"structured", FIELD_ENUM, AT(structured), "auto", .choices = judge_json_names,
     .help = "ask for JSON by a schema; auto: for joint questions"},
    {"concurrency", FIELD_I64, AT(concurrency), "4", 1, 1024, .help = "requests at once",
     .flags = FIELD_VOLATILE},
    {"max_requests", FIELD_I64, AT(max_requests), "0", 0, MOST_COUNT,
     .help = "stop after this many requests; 0: no cap", .flags = FIELD_VOLATILE},
    {"max_total_tokens", FIELD_I64, AT(max_total_tokens), "0", 0, MOST_COUNT,
     .help = "stop when the judge has used this many tokens; 0: no cap", .flags = FIELD_VOLATILE},
    {"max_seconds", FIELD_F64, AT(max_seconds), "0", 0, 9e9, .help = "stop asking then; 0: no cap",
     .flags = FIELD_VOLATILE},
    {"max_money", FIELD_F64, AT(max_money), "0", 0, 9e9,
     .help = "stop before this is passed, in the price's currency; 0: no cap",
     .flags = FIELD_VOLATILE},
    {"price", FIELD_STR, AT(price), "", .help = "price file, or a name in pipelines/prices",
     .flags = FIELD_VOLATILE},
    {"repeat", FIELD_I64, AT(repeat), "1", 1, 1000,
     .help = "times everything is judged; 2 or more tell the judge's noise"},
    {"retries", FIELD_I64, AT(retries), "4", 0, 100, .help = "further tries of a failed request",
     .flags = FIELD_VOLATILE},
    {"max_tokens", FIELD_I64, AT(max_tokens), "16", 1, 1048576, .help = "longest verdict"},
    {"seed", FIELD_I64, AT(seed), "123", 0, MOST_COUNT, .help = "seed sent with each request"},
    {"timeout", FIELD_F64, AT(timeout), "60", 0.01, 86400, .help = "seconds for one request",
     .flags = FIELD_VOLATILE},
    {"temperature", FIELD_F64, AT(temperature), "0", -1, 100,
     .help = "sent with each request; -1: left out, for models that refuse it"},
    {"max_failed", FIELD_F64, AT(max_failed), "0.05", 0, 1,
     .help = "share of items without a verdict above which the exit status is 4"},
    {0},
};
#undef AT
const struct schema judge_config_schema = {"judge", 1, sizeof(struct judge_config),
                                           judge_config_fields};

#define AT(m) offsetof(struct run, m)
static const struct field run_fields[] = {
    {"run", FIELD_STRUCT, AT(about), "", .sub = &run_about_schema, .help = "names"},
    {"data", FIELD_STRUCT, AT(data), "", .sub = &run_data_schema, .help = "where text comes from"},
    {"vocab", FIELD_STRUCT, AT(vocab), "", .sub = &run_vocab_schema, .help = "the vocabulary"},
    {"model", FIELD_STRUCT, AT(model), "", .sub = &model_config_schema, .help = "the shape"},
    {"train", FIELD_STRUCT, AT(train), "", .sub = &train_config_schema, .help = "pre-training"},
    {"finetune", FIELD_STRUCT, AT(finetune), "", .sub = &finetune_config_schema,
     .help = "instruction fine-tuning"},
    {"eval", FIELD_STRUCT, AT(eval), "", .sub = &eval_config_schema, .help = "what is measured"},
    {"score", FIELD_STRUCT, AT(score), "", .sub = &score_config_schema, .help = "pure scorers"},
    {"judge", FIELD_STRUCT, AT(judge), "", .sub = &judge_config_schema, .help = "the judge"},
    {0},
};
#undef AT
const struct schema run_schema = {"config", 1, sizeof(struct run), run_fields};

#define AT(m) offsetof(struct hardware, m)
const char *const hardware_backends[] = {"any", "cpu", "cuda", NULL};
static const struct field hardware_fields[] = {
    {"name", FIELD_STR, AT(name), "", .help = "what tables call it"},
    {"device", FIELD_STR, AT(device), "", .help = "model of one device"},
    {"driver_name", FIELD_STR, AT(driver_name), "",
     .help = "what its driver may call it: patterns with * and ?, a bar between; none: anything"},
    {"backend", FIELD_ENUM, AT(backend), "any", .choices = hardware_backends,
     .help = "on which its devices are used: a run on another takes no peak and no price from it"},
    {"count", FIELD_I64, AT(count), "1", 1, 1000000, .help = "devices"},
    {"memory_gib", FIELD_F64, AT(memory_gib), "", 0, 1e6, .help = "memory of one device, GiB"},
    {"peak_tflops", FIELD_F64, AT(peak_tflops), "", 0, 1e6,
     .help = "dense peak of one device in bf16 and fp16, TFLOP/s"},
    {"peak_tf32", FIELD_F64, AT(peak_tf32), "", 0, 1e6,
     .help = "the same of tf32 products; empty: unknown"},
    {"peak_fp32", FIELD_F64, AT(peak_fp32), "", 0, 1e6,
     .help = "the same of fp32 products; empty: unknown"},
    {"bandwidth_gbs", FIELD_F64, AT(bandwidth_gbs), "", 0, 1e6,
     .help = "memory bandwidth of one device, GB/s"},
    {"matrix_share", FIELD_F64, AT(matrix_share), "", 0.001, 1,
     .help = "share of the peak that large matrix products reach, for plan; empty: 0.7"},
    {"interconnect", FIELD_STR, AT(interconnect), "", .help = "between the devices"},
    {"link_gbs", FIELD_F64, AT(link_gbs), "", 0, 1e6,
     .help = "what one device sends to others of its machine, GB/s one way"},
    {"link_us", FIELD_F64, AT(link_us), "", 0, 1e6, .help = "time of an empty message there, us"},
    {"net_gbs", FIELD_F64, AT(net_gbs), "", 0, 1e6,
     .help = "what one device sends to other machines, GB/s one way"},
    {"net_us", FIELD_F64, AT(net_us), "", 0, 1e6, .help = "time of an empty message there, us"},
    {"price_hour", FIELD_F64, AT(price_hour), "", 0, 1e9, .help = "the whole machine, an hour"},
    {"price_currency", FIELD_STR, AT(price_currency), "USD", .help = "of the price"},
    {"price_source", FIELD_STR, AT(price_source), "", .help = "who asked that price"},
    {"price_date", FIELD_STR, AT(price_date), "", .help = "and when, YYYY-MM-DD"},
    {0},
};
#undef AT
const struct schema hardware_schema = {"hardware", 1, sizeof(struct hardware), hardware_fields};

/* Checks that no single row can make. */
/* What would be found only behind the training. A model that is taken as it is has its own context. */
static int eval_check(const struct run *r, struct err *e)
{
    const struct eval_config *v = &r->eval;
    int64_t context = r->model.from.n ? INT64_MAX : r->model.context;
    if (!v->windows && (v->window || v->stride))
        return err_code(e, EXIT_USAGE,
                        "eval.%s = %lld is read by windows only, and eval.windows is false: leave "
                        "one of them out",
                        v->window ? "window" : "stride",
                        (long long)(v->window ? v->window : v->stride));
    if (v->window > context)
        return err_code(e, EXIT_USAGE, "eval.window = %lld is more than model.context = %lld",
                        (long long)v->window, (long long)context);
    if (v->window && v->stride > v->window)
        return err_code(e, EXIT_USAGE,
                        "eval.stride = %lld is more than eval.window = %lld: tokens between the "
                        "windows would not be counted",
                        (long long)v->stride, (long long)v->window);
    if (v->stride > context)
        return err_code(e, EXIT_USAGE,
                        "eval.stride = %lld is more than model.context = %lld, the window: tokens "
                        "between the windows would not be counted",
                        (long long)v->stride, (long long)context);
    for (size_t i = 0; i < v->stop.n; i++)
        if (!v->stop.v[i].n)
            return err_code(e, EXIT_USAGE,
                            "eval.stop has an empty text, at which none ends: leave it out");
    return 0;
}

static int run_check(const struct run *r, struct err *e)
{
    if (r->data.instruct_test + r->data.instruct_val >= 1)
        return err_code(e, EXIT_USAGE,
                        "data.instruct_test + data.instruct_val = %g leaves nothing to train on",
                        r->data.instruct_test + r->data.instruct_val);
    if (!r->model.from.n && r->model.width % r->model.heads != 0)
        return err_code(e, EXIT_USAGE, "model.heads = %lld does not divide model.width = %lld",
                        (long long)r->model.heads, (long long)r->model.width);
    return eval_check(r, e);
}

int run_load(struct run *r, const char *path, struct strs sets, struct arena *a, struct err *e)
{
    if (config_load(&run_schema, r, path, sets, a, e))
        return -1;
    return run_check(r, e) ? err_wrap(e, "%s", path) : 0;
}

int hardware_load(struct hardware *h, const char *path, struct arena *a, struct err *e)
{
    static const struct field file_fields[] = {
        {"hardware", FIELD_STRUCT, 0, "", .sub = &hardware_schema, .help = "one machine"},
        {0},
    };
    static const struct schema file_schema = {"hardware file", 1, sizeof(struct hardware),
                                              file_fields};
    return config_load(&file_schema, h, path, (struct strs){0}, a, e);
}

bool hardware_is_of(const struct hardware *h, struct str backend)
{
    return h->backend == 0 || str_eqz(backend, hardware_backends[h->backend]);
}

bool hardware_is_card(const struct hardware *h, struct str device)
{
    char pattern[256], name[256];
    struct str rest = h->driver_name;
    if (!rest.n || !device.n)
        return true;
    snprintf(name, sizeof name, "%.*s", STR_ARG(device));
    while (rest.n) {
        struct str one = str_trim(str_cut(&rest, '|'));
        snprintf(pattern, sizeof pattern, "%.*s", STR_ARG(one));
        if (one.n && fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

int64_t hardware_used(const struct hardware *h, struct str backend, int64_t ranks)
{
    return ranks > 0 && !str_eqz(backend, "cpu") ? ranks : h->count;
}

void hardware_at(struct hardware *h, int precision)
{
    if (precision == PRECISION_TF32)
        h->peak_tflops = h->peak_tf32;
    else if (precision == PRECISION_FP32)
        h->peak_tflops = h->peak_fp32;
}

const char *hardware_peak_key(int precision)
{
    return precision == PRECISION_TF32   ? "hardware.peak_tf32"
           : precision == PRECISION_FP32 ? "hardware.peak_fp32"
                                         : "hardware.peak_tflops";
}
