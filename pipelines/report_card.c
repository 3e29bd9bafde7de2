/* report_card: a Hugging Face model card (https://huggingface.co/docs/hub/model-cards) of one run: YAML
 * head with model-index, then what it is, how it was trained and what it measures. A number that is not
 * known is left out with its line; nothing stands as "TODO". */
#include <math.h>
#include <string.h>

#include "pipelines/report.h"
#include "pipelines/report_charts.h"
#include "pipelines/runs_table.h"

/* A YAML string in double quotes. */
static void quoted(struct buf *out, struct str s)
{
    buf_addc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            buf_printf(out, "\\x%02x", c);
        else
            buf_addc(out, (char)c);
    }
    buf_addc(out, '"');
}

static void yaml_head(const struct result *r, struct buf *out)
{
    const struct metric *m = r->metrics.v;
    buf_addz(out, "---\nlanguage: en\nlibrary_name: transformers\npipeline_tag: text-generation\n"
                  "tags:\n- gpt2\n- assay\n");
    for (size_t i = 0; i < r->tags.n; i++) {
        buf_addz(out, "- ");
        quoted(out, r->tags.v[i]);
        buf_addc(out, '\n');
    }
    if (r->metrics.n) {
        buf_addz(out, "model-index:\n- name: ");
        quoted(out, r->run);
        buf_addz(out, "\n  results:\n");
    }
    for (size_t i = 0; i < r->metrics.n; i++) {
        if (isnan(m[i].value))
            continue;
        buf_addz(out, "  - task:\n      type: text-generation\n    dataset:\n      name: ");
        quoted(out, m[i].task);
        buf_addz(out, "\n      type: ");
        quoted(out, m[i].task);
        buf_addz(out, "\n    metrics:\n    - name: ");
        quoted(out, m[i].name);
        buf_addz(out, "\n      type: ");
        quoted(out, m[i].name);
        buf_printf(out, "\n      value: %.6g\n", m[i].value);
    }
    buf_addz(out, "---\n\n");
}

static void row(struct buf *out, const char *name, const char *value)
{
    if (value && *value && strcmp(value, "-") != 0)
        buf_printf(out, "| %s | %s |\n", name, value);
}

static void shape(const struct result *r, struct arena *a, struct buf *out)
{
    const struct model_config *m = &r->config.model;
    buf_addz(out, "## Model\n\n| | |\n|---|---|\n");
    row(out, "architecture",
        arena_printf(a, "GPT-2, %lld layers, %lld heads, width %lld, context %lld",
                     (long long)m->layers, (long long)m->heads, (long long)m->width,
                     (long long)m->context));
    if (r->parameters > 0)
        row(out, "parameters", arena_printf(a, "%lld", (long long)r->parameters));
    row(out, "q/k/v bias", m->qkv_bias ? "yes" : "no");
    row(out, "head tied to the embedding", m->tied ? "yes" : "no");
    row(out, "dropout", arena_printf(a, "%g", m->dropout));
    if (r->data.vocab_size > 0)
        row(out, "vocabulary",
            arena_printf(a, "%lld ids, SHA-256 `%.*s`", (long long)r->data.vocab_size,
                         STR_ARG(r->data.vocab_hash)));
    buf_addc(out, '\n');
}

static void training(const struct result *r, struct arena *a, struct buf *out)
{
    const struct train_config *t = &r->config.train;
    buf_addz(out, "## Training\n\n| | |\n|---|---|\n");
    if (r->tokens > 0)
        row(out, "tokens",
            arena_printf(a, "%lld in %lld steps", (long long)r->tokens, (long long)r->steps));
    row(out, "batch", arena_printf(a, "%lld sequences", (long long)t->batch));
    row(out, "optimiser",
        arena_printf(a, "AdamW, learning rate %g, weight decay %g, betas %g and %g, clip %g", t->lr,
                     t->weight_decay, t->beta1, t->beta2, t->clip));
    row(out, "seed", arena_printf(a, "%lld", (long long)r->seed));
    if (r->data.train_tokens > 0)
        row(out, "data",
            arena_printf(a, "%lld tokens to train on, %lld held out, SHA-256 `%.*s`",
                         (long long)r->data.train_tokens, (long long)r->data.test_tokens,
                         STR_ARG(r->data.data_hash)));
    row(out, "machine", show_machine(a, r));
    row(out, "training time", show_seconds(a, r->timing.train_seconds));
    if (!isnan(r->timing.tokens_per_second))
        row(out, "tokens a second", show_count(a, r->timing.tokens_per_second));
    if (!isnan(r->timing.mfu))
        row(out, "model FLOPs utilisation", arena_printf(a, "%.1f%%", 100 * r->timing.mfu));
    if (!isnan(r->timing.energy_j))
        row(out, "energy", arena_printf(a, "%.3g kWh", r->timing.energy_j / 3.6e6));
    row(out, "cost, training", show_cost(a, r->cost_train, r));
    row(out, "cost, with evaluation", show_cost(a, r->cost_total, r));
    if (r->software.commit.n)
        row(out, "made by",
            arena_printf(a, "assay %.*s, commit `%.*s`%s", STR_ARG(r->software.version),
                         STR_ARG(r->software.commit),
                         r->software.dirty == 1 ? " with changes" : ""));
    buf_addc(out, '\n');
}

static void evaluation(const struct result *r, struct arena *a, struct buf *out)
{
    const struct metric *m = r->metrics.v;
    buf_addz(out, "## Evaluation\n\n");
    if (!r->metrics.n) {
        buf_addz(out, "It was not evaluated.\n\n");
        return;
    }
    buf_addz(out, "| metric | on | value | 95% interval | unit | items |\n"
                  "|---|---|---:|---|---|---:|\n");
    for (size_t i = 0; i < r->metrics.n; i++) {
        double w = m[i].hi - m[i].lo;
        if (isnan(m[i].value))
            continue;
        buf_printf(out, "| `%.*s` | %.*s | %s | %s | %.*s, %s is better | %lld |\n",
                   STR_ARG(m[i].name), STR_ARG(m[i].task), report_number(a, m[i].value, w),
                   isnan(w) ? "not estimable"
                            : arena_printf(a, "%s to %s", report_number(a, m[i].lo, w),
                                           report_number(a, m[i].hi, w)),
                   STR_ARG(m[i].unit), m[i].higher_better ? "higher" : "lower", (long long)m[i].n);
    }
    buf_addz(out,
             "\nIntervals are over the items (clustered), not over seeds. What each was measured "
             "on:\n\n");
    for (size_t i = 0; i < r->metrics.n; i++) {
        buf_printf(out, "- `%.*s`, %.*s: ", STR_ARG(m[i].name), STR_ARG(m[i].task));
        for (size_t k = 0; k < m[i].identity.n; k++)
            buf_printf(out, "%s`%.*s`", k ? ", " : "", STR_ARG(m[i].identity.v[k]));
        buf_addc(out, '\n');
    }
    buf_addc(out, '\n');
}

void report_card(const struct comparison *c, size_t run, struct buf *out)
{
    const struct result *r = &c->run[run];
    struct arena a = {0};
    struct findings f;
    yaml_head(r, out);
    buf_printf(out, "# %s\n\n", show_str(&a, r->title.n ? r->title : r->run));
    if (r->notes.n)
        buf_printf(out, "%.*s\n\n", STR_ARG(r->notes));
    if (r->status.n && !str_eqz(r->status, "finished"))
        buf_printf(out, "**Status: %.*s**\n\n", STR_ARG(r->status));
    shape(r, &a, out);
    training(r, &a, out);
    evaluation(r, &a, out);
    if (c->nruns > 1) {
        report_findings(c, run, &f, &a);
        buf_addz(out, "## Compared with other runs\n\n");
        for (size_t i = 0; i < f.can.n; i++)
            buf_printf(out, "- %.*s\n", STR_ARG(f.can.v[i]));
        for (size_t i = 0; i < f.cannot.n; i++)
            buf_printf(out, "- %.*s\n", STR_ARG(f.cannot.v[i]));
        buf_addc(out, '\n');
    }
    arena_release(&a);
}
