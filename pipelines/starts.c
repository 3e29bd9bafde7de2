/* starts: see starts.h. */
#include "pipelines/starts.h"

#include "base/buf.h"
#include "base/file.h"
#include "formats/task.h"
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
    if (!r->model.from.n && backend_takes(b.ops->name, r->model.width, r->model.heads, e))
        rc = -1;
    else if (!r->model.from.n && gpt2_precision(&b, r->train.precision, e))
        rc = err_wrap(e, "train.precision");
    else if (gpt2_precision(&b, r->finetune.precision, e))
        rc = err_wrap(e, "finetune.precision");
    else if (!(r->eval.precision == PRECISION_BF16 && b.ops->bf16_weights) &&
             gpt2_precision(&b, r->eval.precision, e)) /* weights may be read in bf16 */
        rc = err_wrap(e, "eval.precision");
    if (backend)
        *backend = b.ops->name;
    backend_close(&b);
    return rc;
}

/* $DATA, ${DATA} or $(DATA) at the beginning of s: its length; else 0. */
static size_t says_data(struct str s)
{
    return str_starts(s, "$DATA")                                 ? 5
           : str_starts(s, "${DATA}") || str_starts(s, "$(DATA)") ? 7
                                                                  : 0;
}

/* path with data in place of $DATA; *n counts the places. */
static const char *behind(struct str path, const char *data, int *n, struct arena *a)
{
    struct buf b = {0};
    *n = 0;
    for (size_t i = 0, k; i < path.n; i += k ? k : 1) {
        k = says_data((struct str){path.p + i, path.n - i});
        *n += k > 0;
        if (k)
            buf_addz(&b, data);
        else
            buf_addc(&b, path.p[i]);
    }
    const char *out = str_dup(a, buf_str(&b));
    buf_release(&b);
    return out;
}

int tasks_here(const struct run *r, const char *data, struct arena *a, struct err *e)
{
    for (size_t i = 0; i < r->eval.tasks.n; i++) {
        struct str rows = r->eval.tasks.v[i], task = str_cut(&rows, '=');
        struct items items = {0};
        struct task t;
        int in_task, in_rows;
        const char *file = behind(task, data ? data : "", &in_task, a);
        const char *path = behind(rows, data ? data : "", &in_rows, a);
        if (!in_task && !in_rows && !file_exists(path))
            continue;
        if ((in_task || in_rows) && (!data || !*data))
            return err_code(e, EXIT_USAGE,
                            "eval.tasks: %.*s lies outside the tree; say where with DATA=folder",
                            STR_ARG(in_rows ? rows : task));
        if (task_load(&t, file, a, e))
            return err_wrap(e, "eval.tasks");
        if (!file_exists(path))
            return err_code(
                e, EXIT_USAGE,
                "eval.tasks: the rows of %s, %s, are not there; put them there, or name "
                "another folder with DATA=folder",
                t.name, path);
        int rc = task_items(&t, path, &items, e);
        items_release(&items);
        if (rc)
            return err_wrap(e, "eval.tasks");
    }
    return 0;
}

bool starts_alike(const struct run *a, const struct run *b)
{
    return str_eq(a->train.backend, b->train.backend) && !a->model.from.n == !b->model.from.n &&
           a->train.precision == b->train.precision &&
           a->finetune.precision == b->finetune.precision && a->eval.precision == b->eval.precision;
}
