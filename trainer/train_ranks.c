/* train_ranks: where a run of several ranks starts: rank 0 reads the folder, the others hear of it.
 *
 * So only rank 0 needs to see the folder of checkpoints; shards and the run file are read by all.
 */
#include <stdlib.h>

#include "base/thread.h"
#include "formats/build.h"
#include "trainer/checkpoint_io.h"
#include "trainer/step.h"
#include "trainer/train_folder.h"
#include "trainer/train_private.h"

int train_same(struct trainer *t, struct err *e)
{
    struct buf text = {0};
    struct train_config c = t->c;
    /* What may differ: the machine's. */
    c.threads = c.ranks = 0;
    c.micro_batch = 0;
    schema_canonical(&model_config_schema, &t->model, &text);
    schema_canonical(&train_config_schema, &c, &text);
    buf_printf(&text, "train.zero = %lld\ntrain.comm = %.*s\ntrain.max_hours = %g\n",
               (long long)c.zero, STR_ARG(c.comm), c.max_hours);
    buf_printf(&text, "hash of the shards = %.*s\n", STR_ARG(t->state.data_hash));
    buf_printf(&text, "version of assay = %s, commit %s\n", build_info.version, build_info.commit);
    int rc = ranks_same(&t->ranks, buf_str(&text), e);
    buf_release(&text);
    return rc;
}

static int take(void *ctx, char which, float *flat, struct err *e)
{
    struct trainer *t = ctx;
    if (reducer_spread(t->ranks.reduce, flat, e))
        return -1;
    return gpt2_put(t->m, which, flat, e);
}

static int take_moments(struct trainer *t, struct err *e)
{
    if (ranks_first(&t->ranks))
        return checkpoint_read_moments(folder_step(&t->arena, t->o->out, t->state.step), t->m, take,
                                       t, e);
    float *flat = mem_array((size_t)gpt2_params(t->m)->count, sizeof *flat);
    int rc = take(t, 'm', flat, e) || take(t, 'v', flat, e) ? -1 : 0;
    free(flat);
    return rc;
}

int train_spread(struct trainer *t, int resumed, struct err *e)
{
    struct {
        int resumed;
        struct train_state state;
    } f = {resumed, t->state};
    struct str data = t->state.data_hash;
    if (!t->ranks.many)
        return 0;
    if (ranks_tell(&t->ranks, &f, sizeof f, e))
        return -1;
    t->state = f.state;
    /* Strings are borrowed, and the same on all ranks. */
    t->state.config_key = str_copy(&t->arena, str_z(t->key));
    t->state.data_hash = data;
    /* Fresh weights as well: another library of mathematics may draw others. */
    if (reducer_weights(t->ranks.reduce, e))
        return -1;
    gpt2_refresh(t->m, t->state.updates);
    return f.resumed ? take_moments(t, e) : 0;
}

int train_step_agreed(struct trainer *t, double *loss, double *stalled, struct err *e)
{
    struct ranks_step s = {.loss = *loss, .stalled = *stalled};
    if (!t->ranks.many)
        return 0;
    s.stop = (interrupt_raised() ? STOP_SIGNAL : 0) | (train_out_of_hours(t) ? STOP_HOURS : 0);
    if (step_agree(&t->ranks, &s, t->state.step == 0, e))
        return -1;
    *loss = s.loss;
    *stalled = s.stalled;
    t->stop = s.stop;
    return 0;
}

int train_checkpoint_agreed(struct trainer *t, double *energy, struct err *e)
{
    if (!t->ranks.many)
        return 0;
    if (ranks_sum(&t->ranks, energy, 1, e) || ranks_equal(&t->ranks, t->m, t->state.step, e))
        return -1;
    if (ranks_first(&t->ranks) || !t->c.zero)
        return 0;
    /* Rank 0 collects them while it writes. */
    return gpt2_get(t->m, 'm', NULL, e) || gpt2_get(t->m, 'v', NULL, e) ? -1 : 0;
}
