/* result: the tables of loss units, metrics and results.
 *
 * Volatile rows differ from run to run of the same recipe on the same machine: times, rates, who
 * built the tool where. Hashes, shapes, losses and scores are not.
 */
#include "formats/result.h"

#define AT(m) offsetof(struct loss_unit, m)
static const struct field loss_unit_fields[] = {
    {"id", FIELD_STR, AT(id), NULL, .help = "window or document"},
    {"cluster", FIELD_STR, AT(cluster), "", .help = "document that a window lies in"},
    {"nats", FIELD_F64, AT(nats), "", .help = "summed negative log-likelihood, nats"},
    {"tokens", FIELD_I64, AT(tokens), "0", .help = "predicted tokens"},
    {"bytes", FIELD_I64, AT(bytes), "-1", .help = "UTF-8 bytes they stand for; -1: unknown"},
    {"nats_end", FIELD_F64, AT(nats_end), "",
     .help = "of a document's closing EOT, which is not in nats and tokens"},
    {"oracle_bits", FIELD_F64, AT(oracle_bits), "",
     .help = "-log2 of the true probability of text and end, where it is known"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema loss_unit_schema = {"loss_unit", 1, sizeof(struct loss_unit), loss_unit_fields};

#define AT(m) offsetof(struct metric, m)
static const struct field metric_fields[] = {
    {"name", FIELD_STR, AT(name), NULL, .help = "what is measured, with its denominator"},
    {"task", FIELD_STR, AT(task), "", .help = "windows, documents, instruct"},
    {"unit", FIELD_STR, AT(unit), "", .help = "of value and interval"},
    {"higher_better", FIELD_BOOL, AT(higher_better), "false", .help = "which way is up"},
    {"primary", FIELD_BOOL, AT(primary), "false", .help = "stands in the headline"},
    {"seed", FIELD_I64, AT(seed), "0", .help = "fine-tuning seed; 0: none"},
    {"value", FIELD_F64, AT(value), "", .help = "sum of num / sum of den"},
    {"lo", FIELD_F64, AT(lo), "", .help = "95% interval of these items"},
    {"hi", FIELD_F64, AT(hi), "", .help = "95% interval of these items"},
    {"n", FIELD_I64, AT(n), "0", .help = "units"},
    {"n_invalid", FIELD_I64, AT(n_invalid), "0", .help = "units without a value"},
    {"clusters", FIELD_I64, AT(clusters), "0", .help = "clusters of units"},
    {"identity", FIELD_STRS, AT(identity), "", .help = "key=value that must agree to compare"},
    {"ids", FIELD_STRS, AT(ids), "", .help = "of the units"},
    {"cluster", FIELD_STRS, AT(cluster), "", .help = "of the units"},
    {"num", FIELD_F64S, AT(num), "", .help = "numerator of each unit"},
    {"den", FIELD_F64S, AT(den), "", .help = "denominator of each unit"},
    {"note", FIELD_STR, AT(note), "", .help = "what a reader must know"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema metric_schema = {"metric", 1, sizeof(struct metric), metric_fields};

#define AT(m) offsetof(struct result_hardware, m)
static const struct field hardware_fields[] = {
    {"name", FIELD_STR, AT(name), "", .help = "what tables call it"},
    {"cpu", FIELD_STR, AT(cpu), "", .help = "model of the CPU", .flags = FIELD_VOLATILE},
    {"device", FIELD_STR, AT(device), "", .help = "model of one device", .flags = FIELD_VOLATILE},
    {"driver", FIELD_STR, AT(driver), "", .help = "of the device", .flags = FIELD_VOLATILE},
    {"interconnect", FIELD_STR, AT(interconnect), "", .help = "between the devices",
     .flags = FIELD_VOLATILE},
    {"os", FIELD_STR, AT(os), "", .help = "system and kernel", .flags = FIELD_VOLATILE},
    {"cpus", FIELD_I64, AT(cpus), "0", .help = "usable CPUs", .flags = FIELD_VOLATILE},
    {"devices", FIELD_I64, AT(devices), "0", .help = "devices", .flags = FIELD_VOLATILE},
    {"ranks", FIELD_I64, AT(ranks), "0", .help = "processes that trained; 0: not said",
     .flags = FIELD_VOLATILE},
    {"used", FIELD_I64, AT(used), "0", .help = "devices that they kept busy; 0: not said",
     .flags = FIELD_VOLATILE},
    {"memory_gib", FIELD_F64, AT(memory_gib), "", .help = "memory, GiB", .flags = FIELD_VOLATILE},
    {"price_hour", FIELD_F64, AT(price_hour), "", .help = "the whole machine, an hour"},
    {"peak_tflops", FIELD_F64, AT(peak_tflops), "", .help = "dense peak of one device, TFLOP/s"},
    {"price_currency", FIELD_STR, AT(price_currency), "", .help = "of the price"},
    {"price_source", FIELD_STR, AT(price_source), "", .help = "who asked that price"},
    {"price_date", FIELD_STR, AT(price_date), "", .help = "and when"},
    {0},
};
#undef AT
static const struct schema hardware_part = {"hardware", 1, sizeof(struct result_hardware),
                                            hardware_fields};

#define AT(m) offsetof(struct result_software, m)
static const struct field software_fields[] = {
    {"version", FIELD_STR, AT(version), "", .help = "of assay", .flags = FIELD_VOLATILE},
    {"commit", FIELD_STR, AT(commit), "", .help = "of assay", .flags = FIELD_VOLATILE},
    {"compiler", FIELD_STR, AT(compiler), "", .help = "that built it", .flags = FIELD_VOLATILE},
    {"flags", FIELD_STR, AT(flags), "", .help = "it was built with", .flags = FIELD_VOLATILE},
    {"backend", FIELD_STR, AT(backend), "", .help = "that trained: cpu, cuda"},
    {"dirty", FIELD_I64, AT(dirty), "-1", .help = "1: the tree differed from the commit",
     .flags = FIELD_VOLATILE},
    {"libraries", FIELD_STRS, AT(libraries), "", .help = "with versions", .flags = FIELD_VOLATILE},
    {0},
};
#undef AT
static const struct schema software_part = {"software", 1, sizeof(struct result_software),
                                            software_fields};

#define AT(m) offsetof(struct result_data, m)
static const struct field data_fields[] = {
    {"data_hash", FIELD_STR, AT(data_hash), "", .help = "of the shards' artefact"},
    {"vocab_hash", FIELD_STR, AT(vocab_hash), "", .help = "of the vocabulary's artefact"},
    {"text_hash", FIELD_STR, AT(text_hash), "", .help = "of the documents' bytes"},
    {"instruct_hash", FIELD_STR, AT(instruct_hash), "", .help = "of the instructions"},
    {"vocab_size", FIELD_I64, AT(vocab_size), "0", .help = "ids"},
    {"train_tokens", FIELD_I64, AT(train_tokens), "0", .help = "there were to train on"},
    {"test_tokens", FIELD_I64, AT(test_tokens), "0", .help = "held out"},
    {"train_docs", FIELD_I64, AT(train_docs), "0", .help = "documents"},
    {"test_docs", FIELD_I64, AT(test_docs), "0", .help = "documents held out"},
    {"train_bytes", FIELD_I64, AT(train_bytes), "0", .help = "UTF-8 bytes"},
    {"test_bytes", FIELD_I64, AT(test_bytes), "0", .help = "UTF-8 bytes held out"},
    {0},
};
#undef AT
static const struct schema data_part = {"data", 1, sizeof(struct result_data), data_fields};

#define AT(m) offsetof(struct result_timing, m)
static const struct field timing_fields[] = {
    {"train_seconds", FIELD_F64, AT(train_seconds), "", .help = "of all steps"},
    {"eval_seconds", FIELD_F64, AT(eval_seconds), "", .help = "of all evaluations"},
    {"tokens_per_second", FIELD_F64, AT(tokens_per_second), "", .help = "median over the steps"},
    {"val_seconds", FIELD_F64, AT(val_seconds), "", .help = "of validations, within the training"},
    {"lost_seconds", FIELD_F64, AT(lost_seconds), "", .help = "of steps that a kill took"},
    {"billed_seconds", FIELD_F64, AT(billed_seconds), "",
     .help = "that the machine was rented for"},
    {"step_ms_p10", FIELD_F64, AT(step_ms_p10), "", .help = "milliseconds a step"},
    {"step_ms_p50", FIELD_F64, AT(step_ms_p50), "", .help = "milliseconds a step"},
    {"step_ms_p90", FIELD_F64, AT(step_ms_p90), "", .help = "milliseconds a step"},
    {"stall_share", FIELD_F64, AT(stall_share), "", .help = "of the time, waiting for data"},
    {"comm_share", FIELD_F64, AT(comm_share), "", .help = "of the time, waiting for other ranks"},
    {"mfu", FIELD_F64, AT(mfu), "", .help = "share of the peak that was used"},
    {"energy_j", FIELD_F64, AT(energy_j), "", .help = "joules"},
    {"peak_rss", FIELD_I64, AT(peak_rss), "", .help = "most memory of the process, bytes"},
    {0},
};
#undef AT
static const struct schema timing_part = {"timing", 1, sizeof(struct result_timing), timing_fields};

#define AT(m) offsetof(struct result_segment, m)
static const struct field segment_fields[] = {
    {"hardware", FIELD_STR, AT(hardware), "", .help = "name of the machine's kind"},
    {"device", FIELD_STR, AT(device), "", .help = "model of one device"},
    {"host", FIELD_STR, AT(host), "", .help = "the machine"},
    {"started", FIELD_STR, AT(started), "", .help = "UTC"},
    {"devices", FIELD_I64, AT(devices), "0", .help = "devices"},
    {"first_step", FIELD_I64, AT(first_step), "1", .help = "first step made here"},
    {"steps", FIELD_I64, AT(steps), "0", .help = "steps made here that were kept"},
    {"tokens", FIELD_I64, AT(tokens), "0", .help = "tokens of these steps"},
    {"seconds", FIELD_F64, AT(seconds), "", .help = "of these steps"},
    {"price_hour", FIELD_F64, AT(price_hour), "", .help = "the whole machine, an hour"},
    {"money", FIELD_F64, AT(money), "", .help = "seconds at that price"},
    {"lost_seconds", FIELD_F64, AT(lost_seconds), "0", .help = "of steps before that a kill took"},
    {"lost_money", FIELD_F64, AT(lost_money), "0", .help = "what these had cost"},
    {"price_currency", FIELD_STR, AT(price_currency), "", .help = "of the price"},
    {"price_source", FIELD_STR, AT(price_source), "", .help = "who asked that price"},
    {"price_date", FIELD_STR, AT(price_date), "", .help = "and when"},
    {0},
};
#undef AT
const struct schema result_segment_schema = {"segment", 1, sizeof(struct result_segment),
                                             segment_fields};

#define AT(m) offsetof(struct result_curve, m)
static const struct field curve_fields[] = {
    {"step", FIELD_I64S, AT(step), "", .help = "of each point"},
    {"tokens", FIELD_I64S, AT(tokens), "", .help = "trained on by then"},
    {"loss", FIELD_F64S, AT(loss), "", .help = "training loss, nats a token"},
    {"lr", FIELD_F64S, AT(lr), "", .help = "learning rate"},
    {"norm", FIELD_F64S, AT(norm), "", .help = "gradient norm before clipping"},
    {"seconds", FIELD_F64S, AT(seconds), "", .help = "of training by then",
     .flags = FIELD_VOLATILE},
    {0},
};
#undef AT
static const struct schema curve_part = {"curve", 1, sizeof(struct result_curve), curve_fields};

#define AT(m) offsetof(struct result, m)
static const struct field result_fields[] = {
    {"run", FIELD_STR, AT(run), NULL, .help = "name of the run"},
    {"group", FIELD_STR, AT(group), "", .help = "runs of one recipe share it"},
    {"title", FIELD_STR, AT(title), "", .help = "for tables"},
    {"status", FIELD_STR, AT(status), "", .help = "finished, failed, killed, running"},
    {"notes", FIELD_STR, AT(notes), "", .help = "free text"},
    {"tags", FIELD_STRS, AT(tags), "", .help = "words to find it by"},
    {"seed", FIELD_I64, AT(seed), "0", .help = "of pre-training"},
    {"parameters", FIELD_I64, AT(parameters), "0", .help = "trained numbers"},
    {"tokens", FIELD_I64, AT(tokens), "0", .help = "trained on"},
    {"steps", FIELD_I64, AT(steps), "0", .help = "updates"},
    {"skipped", FIELD_I64, AT(skipped), "0", .help = "of these left out as spikes"},
    {"overflows", FIELD_I64, AT(overflows), "0", .help = "and because fp16's gradients overflowed"},
    {"config", FIELD_STRUCT, AT(config), "", .sub = &run_schema, .help = "the run file"},
    {"hardware", FIELD_STRUCT, AT(hardware), "", .sub = &hardware_part, .help = "the machine"},
    {"software", FIELD_STRUCT, AT(software), "", .sub = &software_part, .help = "the build"},
    {"data", FIELD_STRUCT, AT(data), "", .sub = &data_part, .help = "what it saw"},
    {"timing", FIELD_STRUCT, AT(timing), "", .sub = &timing_part, .help = "how fast",
     .flags = FIELD_VOLATILE},
    {"curve", FIELD_STRUCT, AT(curve), "", .sub = &curve_part, .help = "the training loss"},
    {"metrics", FIELD_LIST, AT(metrics), "", .sub = &metric_schema, .help = "evaluations"},
    {"cost_train", FIELD_F64, AT(cost_train), "", .help = "in hardware.price_currency",
     .flags = FIELD_VOLATILE},
    {"cost_total", FIELD_F64, AT(cost_total), "", .help = "in hardware.price_currency",
     .flags = FIELD_VOLATILE},
    {"cost_billed", FIELD_F64, AT(cost_billed), "", .help = "in hardware.price_currency",
     .flags = FIELD_VOLATILE},
    {"segments", FIELD_LIST, AT(segments), "", .sub = &result_segment_schema,
     .help = "machines that trained it", .flags = FIELD_VOLATILE},
    {"source", FIELD_STR, AT(source), "", .help = "where an entered result is published"},
    {"started", FIELD_STR, AT(started), "", .help = "UTC", .flags = FIELD_VOLATILE},
    {"ended", FIELD_STR, AT(ended), "", .help = "UTC", .flags = FIELD_VOLATILE},
    {"inputs", FIELD_STRS, AT(inputs), "", .help = "manifests and their hashes"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema result_schema = {"result", 1, sizeof(struct result), result_fields};

int64_t result_devices(const struct result_hardware *h)
{
    return h->used > 0 ? h->used : h->devices;
}
