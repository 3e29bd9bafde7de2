/* starts_model: what a run that takes a model as it is ([model] from) must find in it; starts.h. */
#include "eval/local.h"
#include "formats/checkpoint.h"
#include "pipelines/starts.h"
#include "trainer/gpt2.h"

#include <string.h>

/* The folder of the model; NULL: none is taken, or it lies behind a variable of make's. */
static const char *taken(const struct run *r, struct arena *a)
{
    struct str from = r->model.from;
    return from.n && !memchr(from.p, '$', from.n) ? str_dup(a, from) : NULL;
}

int model_here(const struct run *r, struct arena *a, struct err *e)
{
    const struct eval_config *v = &r->eval;
    const char *from = taken(r, a);
    struct model_config c;
    int64_t eos;
    if (!from)
        return 0;
    if (gpt2_config_of(from, &c, &eos, e))
        return err_wrap(e, "model.from");
    if (v->window > c.context)
        return err_code(e, EXIT_USAGE, "eval.window = %lld is more than %s has, a context of %lld",
                        (long long)v->window, from, (long long)c.context);
    if (v->stride > c.context)
        return err_code(e, EXIT_USAGE,
                        "eval.stride = %lld is more than %s has, a context of %lld: tokens between "
                        "the windows would not be counted",
                        (long long)v->stride, from, (long long)c.context);
    return 0;
}

void model_brings(struct run *r, struct arena *a)
{
    struct err unread; /* model_here says what is wrong with it */
    const char *from = taken(r, a);
    const char *dir =
        from && !r->vocab.from.n && !r->data.run.n ? checkpoint_resolve(a, from, &unread) : NULL;
    const char *own = dir ? local_own_vocab(dir, a) : NULL;
    if (own)
        r->vocab.from = str_z(own);
}
