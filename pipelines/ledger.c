/* ledger: finding and reading results, see ledger.h. */
#include "pipelines/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "formats/record.h"

static int add(struct ledger *l, const char *path, struct err *e)
{
    l->v = mem_grow(l->v, (l->n + 1) * sizeof *l->v);
    l->path = mem_grow(l->path, (l->n + 1) * sizeof *l->path);
    struct result *r = &l->v[l->n];
    if (schema_defaults(&result_schema, r, &l->arena, e) != 0 ||
        record_load(path, &result_schema, r, &l->arena, e) != 0)
        return -1;
    size_t same = 0;
    for (size_t i = 0; i < l->n; i++)
        same += str_eq(l->v[i].run, r->run);
    if (same)
        r->run = str_printf(&l->arena, "%.*s#%zu", STR_ARG(r->run), same + 1);
    if (r->group.n == 0)
        r->group = r->run;
    l->path[l->n++] = arena_strdup(&l->arena, path);
    return 0;
}

static int add_folder(struct ledger *l, const char *dir, struct err *e)
{
    const char *own = path_join(&l->arena, dir, "result.msgpack");
    if (file_exists(own))
        return add(l, own, e);
    struct strs names;
    size_t before = l->n;
    if (file_list(dir, &names, &l->arena, e) != 0)
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        const char *name = str_dup(&l->arena, names.v[i]);
        const char *p = path_join(&l->arena, path_join(&l->arena, dir, name), "result.msgpack");
        if (file_exists(p) && add(l, p, e) != 0)
            return -1;
    }
    return l->n > before ? 0 : err_set(e, "%s: no result.msgpack here or one folder below", dir);
}

int ledger_load(struct ledger *l, struct strs paths, struct err *e)
{
    *l = (struct ledger){0};
    for (size_t i = 0; i < paths.n; i++) {
        const char *p = str_dup(&l->arena, paths.v[i]);
        int rc = file_is_dir(p) ? add_folder(l, p, e) : add(l, p, e);
        if (rc != 0) {
            ledger_release(l);
            return -1;
        }
    }
    return 0;
}

void ledger_release(struct ledger *l)
{
    free(l->v);
    free(l->path);
    arena_release(&l->arena);
    *l = (struct ledger){0};
}
