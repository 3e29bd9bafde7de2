/* cmd_export_model: options of `assay export-model`. */
#include "base/command.h"
#include "eval/export.h"

static const char *const formats[] = {"hf", "gguf", NULL};

struct options {
    struct str model, out, vocab;
    int format;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"model", FIELD_STR, AT(model), NULL, .help = "checkpoint folder, or a model file of llm.c"},
    {"out", FIELD_STR, AT(out), NULL, .help = "hf: folder to make; gguf: file to write"},
    {"format", FIELD_ENUM, AT(format), "hf", .choices = formats,
     .help = "hf: for transformers; gguf: for llama.cpp"},
    {"vocab", FIELD_STR, AT(vocab), "",
     .help = "vocabulary; default: the checkpoint folder's (gguf needs one)"},
    {0},
};
#undef AT
static const struct schema options = {"export-model", 1, sizeof(struct options), fields};

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    struct export_job j = {.model = str_dup(a, o->model),
                           .out = str_dup(a, o->out),
                           .vocab = o->vocab.n ? str_dup(a, o->vocab) : NULL,
                           .format = o->format};
    return export_model(&j, a, e);
}

const struct command cmd_export_model = {
    .room = "eval",
    .name = "export-model",
    .summary = "write a checkpoint as transformers or llama.cpp read it",
    .details =
        "Reads what eval reads: folders of ours and of transformers (one file or several,\n"
        "fp32, fp16 or bf16), LLMs-from-scratch models as safetensors, model files of llm.c.\n"
        "Weights are written as float32, so logits stay equal.",
    .options = &options,
    .run = run,
};
