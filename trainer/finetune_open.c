/* finetune_open: what is decided before the first step of a fine-tuning: options and their key,
 * examples, the model on each rank's device.
 */
#include <stdlib.h>

#include "formats/build.h"
#include "trainer/checkpoint_io.h"
#include "trainer/finetune_private.h"
#include "trainer/step.h"

#define STAGE_VERSION 1

/* Options that decide the weights. */
static int make_key(struct tuner *t, struct err *e)
{
    struct finetune_config d = t->c;
    d.seeds = 1;
    stage_begin(&t->stage, "finetune", STAGE_VERSION, t->o->out, NULL, NULL);
    stage_options(&t->stage, "finetune", &finetune_config_schema, &d);
    if (t->c.precision == PRECISION_FP16) {
        char n[32];
        snprintf(n, sizeof n, "%lld", (long long)t->o->run->train.loss_scale_every);
        stage_setting(&t->stage, "train.loss_scale_every", n);
    }
    return stage_input_whole(&t->stage, t->o->init, e) || stage_input(&t->stage, t->o->examples, e)
               ? -1
               : 0;
}

int tuner_prepare(struct tuner *t, struct err *e)
{
    if (t->o->seed >= 0)
        t->c.seed = t->o->seed;
    const char *backend = str_dup(&t->arena, t->o->run->train.backend);
    if (gpt2_config_of(t->o->init, &t->model, &t->eos, e) ||
        backend_takes(backend, t->model.width, t->model.heads, e))
        return -1;
    if (t->c.dropout >= 0)
        t->model.dropout = t->c.dropout;
    if (t->c.precision == PRECISION_FP16)
        scaler_start(&t->scaler);
    return make_key(t, e);
}

int tuner_same(struct tuner *t, struct err *e)
{
    const struct train_config *c = &t->o->run->train;
    struct buf text = {0};
    char init[SHA256_HEX], examples[SHA256_HEX];
    if (!t->ranks.many)
        return 0;
    if (manifest_hash(t->o->init, init, e) || manifest_hash(t->o->examples, examples, e))
        return -1;
    schema_canonical(&finetune_config_schema, &t->c, &text);
    buf_printf(&text, "hash of --init = %s\nhash of --examples = %s\n", init, examples);
    buf_printf(&text, "train.loss_scale_every = %lld\n", (long long)c->loss_scale_every);
    buf_printf(&text, "train.zero = %lld\ntrain.comm = %.*s\n", (long long)c->zero,
               STR_ARG(c->comm));
    buf_printf(&text, "version of assay = %s, commit %s\n", build_info.version, build_info.commit);
    int rc = ranks_same(&t->ranks, buf_str(&text), e);
    buf_release(&text);
    return rc;
}

static int open_set(struct tuner *t, const char *name, struct examples *x, struct example_set *set,
                    struct err *e)
{
    int64_t limit = t->c.max_tokens > 0 && t->c.max_tokens < t->model.context ? t->c.max_tokens
                                                                              : t->model.context;
    const char *path = path_join(&t->arena, t->o->examples, name);
    if (examples_open(x, path, e) ||
        example_set_make(set, x, limit, t->model.vocab, t->c.mask_prompt, path, e))
        return -1;
    if (set->dropped || set->empty)
        log_warn("%s: %lld of %lld examples are longer than %lld tokens and %lld have no target; "
                 "they are left out",
                 path, (long long)set->dropped, (long long)x->n, (long long)limit,
                 (long long)set->empty);
    return 0;
}

/* Ids mean text by one vocabulary: that of the checkpoint, as far as both say theirs. */
static int same_vocab(struct tuner *t, struct err *e)
{
    const char *init = checkpoint_resolve(&t->arena, t->o->init, e);
    struct str model = init ? manifest_vocab(&t->arena, init) : (struct str){0};
    struct str examples = manifest_vocab(&t->arena, t->o->examples);
    if (!init || !model.n || !examples.n || str_eq(model, examples))
        return init ? 0 : -1;
    return err_code(e, EXIT_USAGE,
                    "%s: its examples are of vocabulary %.12s, but %s was trained with another, "
                    "%.12s: make them with that one",
                    t->o->examples, str_dup(&t->arena, examples), init, str_dup(&t->arena, model));
}

int tuner_open_examples(struct tuner *t, struct err *e)
{
    if (same_vocab(t, e))
        return -1;
    if (open_set(t, "train.bin", &t->train_file, &t->train, e) ||
        open_set(t, "val.bin", &t->val_file, &t->val, e))
        return -1;
    if (!t->train.n)
        return err_set(e, "%s/train.bin has no example to train on", t->o->examples);
    if (!t->val.n)
        log_warn("%s/val.bin is empty: the last epoch will be kept", t->o->examples);
    return 0;
}

/* Of several ranks all get rank 0's weights: it may be the only one to have the newest file. */
static int load(struct tuner *t, struct err *e)
{
    if (ranks_first(&t->ranks) && gpt2_load(t->m, t->o->init, e))
        return -1;
    return t->ranks.many ? reducer_weights(t->ranks.reduce, e) : 0;
}

int tuner_open_model(struct tuner *t, struct err *e)
{
    const struct train_config *c = &t->o->run->train;
    int64_t longest = t->train.longest > t->val.longest ? t->train.longest : t->val.longest;
    int64_t most = step_share(&t->ranks, t->c.batch);
    if (step_backend(&t->backend, &t->ranks, str_dup(&t->arena, c->backend), c->threads,
                     t->c.precision, "finetune.precision", e))
        return -1;
    /* On a CPU one sequence goes back at a time, so a micro-batch that memory makes smaller decides no
     * bit; a GPU would idle. */
    struct gpt2_use use = {.length = longest - 1,
                           .train = true,
                           .precision = t->c.precision,
                           .recompute = c->recompute,
                           .prefers = backend_prefers(t->backend.ops->name),
                           .ranks = t->ranks.many ? t->ranks.meet.world : 1,
                           .rank = t->ranks.meet.rank,
                           .zero = t->ranks.many && c->zero};
    use.grain = use.prefers->grain_rows ? 1 : 0;
    use.batch = step_micro(&t->model, &use, most, t->c.micro_batch,
                           t->backend.ops->memory_free(&t->backend), e);
    if (use.batch < 0 || !(t->m = gpt2_new(&t->backend, &t->model, &use, e)))
        return -1;
    t->micro = use.batch;
    size_t cells = (size_t)(most * use.length);
    t->loss = mem_array((size_t)(t->micro * use.length), sizeof *t->loss);
    t->ids = mem_array(cells, sizeof *t->ids);
    t->targets = mem_array(cells, sizeof *t->targets);
    t->seq = mem_array((size_t)most, sizeof *t->seq);
    t->order = mem_array((size_t)t->train.n, sizeof *t->order);
    t->rows = mem_array((size_t)t->micro, sizeof *t->rows);
    t->best = mem_array((size_t)gpt2_params(t->m)->count, sizeof *t->best);
    if (ranks_open(&t->ranks, str_dup(&t->arena, c->comm), &t->backend, t->m, e))
        return -1;
    return load(t, e);
}

void tuner_release(struct tuner *t)
{
    ranks_release(&t->ranks);
    metrics_close(&t->metrics);
    gpt2_free(t->m);
    backend_close(&t->backend);
    example_set_release(&t->train);
    example_set_release(&t->val);
    examples_close(&t->train_file);
    examples_close(&t->val_file);
    stage_release(&t->stage);
    file_unlock(&t->lock);
    free(t->loss);
    free(t->ids);
    free(t->targets);
    free(t->seq);
    free(t->order);
    free(t->rows);
    free(t->best);
    arena_release(&t->arena);
}
