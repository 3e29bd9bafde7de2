/* sweep_write: the run files of a sweep's cells, see sweep.h. */
#include "base/file.h"
#include "pipelines/stages.h"
#include "pipelines/sweep.h"

static int write_run(const struct run *r, const char *path, struct err *e)
{
    struct buf text = {0}, old = {0};
    struct err ignored;
    stages_ini(r, &text);
    bool same = file_exists(path) && file_read(path, &old, 0, &ignored) == 0 &&
                str_eq(buf_str(&old), buf_str(&text));
    int rc = same ? 0 : file_write_all(path, buf_str(&text), e);
    buf_release(&text);
    buf_release(&old);
    return rc;
}

int sweep_write(const struct sweep *s, const char *run_files, const char *out, struct err *e)
{
    struct arena a = {0};
    struct run data;
    int rc = -1;
    const char *files = path_join(&a, out, "files");
    if (s->data) {
        const char *name = arena_printf(&a, "%s.ini", s->data);
        if (run_load(&data, path_join(&a, run_files, name), (struct strs){0}, &a, e) ||
            write_run(&data, path_join(&a, files, name), e))
            goto out;
    }
    for (size_t i = 0; i < s->n; i++)
        if (write_run(&s->v[i].run, path_join(&a, files, arena_printf(&a, "%s.ini", s->v[i].name)),
                      e))
            goto out;
    rc = 0;
out:
    arena_release(&a);
    return rc;
}
