/* models: the registry, and which kind a spec means. Adding a kind is a file and a row. */
#include <string.h>

#include "base/file.h"
#include "eval/model.h"
#include "eval/model_kinds.h"
#include "formats/llmc.h"

const struct model_ops *const models[] = {&model_gpt2, &model_http, &model_replay, NULL};

static const struct {
    const char *prefix;
    const struct model_ops *ops;
} prefixes[] = {
    {"replay:", &model_replay},
    {"openai:", &model_http},
    {"anthropic:", &model_http},
    {"ollama:", &model_http},
    {"http://", &model_http},
    {"https://", &model_http},
    {NULL, NULL},
};

static const struct model_ops *ops_of(const char *spec)
{
    for (int i = 0; prefixes[i].prefix; i++)
        if (strncmp(spec, prefixes[i].prefix, strlen(prefixes[i].prefix)) == 0)
            return prefixes[i].ops;
    return file_is_dir(spec) || llmc_is_model(spec) ? &model_gpt2 : NULL;
}

bool model_answers_only(const char *spec)
{
    const struct model_ops *ops = ops_of(spec);
    return ops && ops != &model_gpt2;
}

bool model_replays(const char *spec)
{
    return ops_of(spec) == &model_replay;
}

bool model_templates(const char *spec)
{
    const struct model_ops *ops = ops_of(spec);
    return ops && ops->remote;
}

int model_open(struct model *m, const char *spec, const struct model_options *o, struct err *e)
{
    *m = (struct model){.ops = ops_of(spec)};
    if (!m->ops)
        return err_code(
            e, EXIT_USAGE,
            "model %s: no such checkpoint folder, and no openai:MODEL, anthropic:MODEL, "
            "ollama:MODEL, http://HOST:PORT/v1#MODEL or replay:FILE",
            strchr(spec, '@') ? "spec" : spec);
    if (m->ops->open(m, spec, o, e)) {
        model_close(m);
        return -1;
    }
    return 0;
}

void model_close(struct model *m)
{
    if (m->ops)
        m->ops->close(m);
    arena_release(&m->arena);
    *m = (struct model){0};
}
