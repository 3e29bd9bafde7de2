/* starts: see starts.h. */
#include "pipelines/starts.h"

#include "trainer/backend.h"
#include "trainer/gpt2.h"

int starts_here(const struct run *r, const char **backend, struct err *e)
{
    struct backend b;
    struct arena a = {0};
    int rc = backend_open(&b, str_dup(&a, r->train.backend), 0, 1, e);
    arena_release(&a);
    if (rc)
        return err_wrap(e, "train.backend");
    if (!r->model.from.n && gpt2_precision(&b, r->train.precision, e))
        rc = err_wrap(e, "train.precision");
    else if (gpt2_precision(&b, r->finetune.precision, e))
        rc = err_wrap(e, "finetune.precision");
    if (backend)
        *backend = b.ops->name;
    backend_close(&b);
    return rc;
}

bool starts_alike(const struct run *a, const struct run *b)
{
    return str_eq(a->train.backend, b->train.backend) && !a->model.from.n == !b->model.from.n &&
           a->train.precision == b->train.precision &&
           a->finetune.precision == b->finetune.precision;
}
