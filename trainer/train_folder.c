/* train_folder: checkpoints of a run on disk, see train_folder.h. */
#include "trainer/train_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "formats/record.h"
#include "trainer/checkpoint_io.h"
#include "trainer/metrics.h"

char *folder_step(struct arena *a, const char *dir, int64_t step)
{
    return path_join(a, dir, arena_printf(a, "step-%08lld", (long long)step));
}

static int by_step(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int folder_list(const char *dir, struct i64s *steps, struct arena *a, struct err *e)
{
    struct strs names = {0};
    *steps = (struct i64s){0};
    if (!file_is_dir(dir))
        return 0;
    if (file_list(dir, &names, a, e))
        return -1;
    steps->v = arena_array(a, names.n + 1, sizeof *steps->v);
    for (size_t i = 0; i < names.n; i++) {
        struct str n = names.v[i];
        int64_t step;
        if (!str_starts(n, "step-") || n.n < 13)
            continue;
        struct str digits = {n.p + 5, n.n - 5};
        if (str_i64(digits, &step) == 0 && step > 0)
            steps->v[steps->n++] = step;
    }
    qsort(steps->v, steps->n, sizeof *steps->v, by_step);
    return 0;
}

int folder_newest(const char *dir, struct train_state *s, struct arena *a, struct err *e)
{
    struct i64s steps;
    if (folder_list(dir, &steps, a, e))
        return -1;
    if (!steps.n)
        return 0;
    int64_t step = steps.v[steps.n - 1];
    const char *path = path_join(a, folder_step(a, dir, step), "state.msgpack");
    if (record_load(path, &train_state_schema, s, a, e))
        return -1;
    if (s->step != step)
        return err_set(e, "%s: it holds step %lld", path, (long long)s->step);
    return 1;
}

int folder_links(const char *dir, int64_t latest, int64_t best, struct err *e)
{
    struct arena a = {0};
    int rc = file_symlink(path_base(folder_step(&a, dir, latest)), path_join(&a, dir, "latest"), e);
    if (!rc && best > 0)
        rc = file_symlink(path_base(folder_step(&a, dir, best)), path_join(&a, dir, "best"), e);
    arena_release(&a);
    return rc;
}

int folder_prune(const char *dir, int64_t every, int64_t last, int64_t keep, int64_t best,
                 struct err *e)
{
    struct arena a = {0};
    struct i64s steps;
    int rc = -1;
    int64_t kept = 0;
    if (folder_list(dir, &steps, &a, e))
        goto out;
    for (size_t i = steps.n; i-- > 0;) {
        int64_t s = steps.v[i];
        bool regular = s == last || (every > 0 && s % every == 0);
        bool stays = i == steps.n - 1 || s == best || (regular && kept < keep);
        kept += regular;
        if (!stays && checkpoint_remove(folder_step(&a, dir, s), e))
            goto out;
    }
    rc = 0;
out:
    arena_release(&a);
    return rc;
}

int folder_clear(const char *dir, struct err *e)
{
    static const char *const files[] = {"latest", "best", "metrics.jsonl", "segments.jsonl",
                                        "failed.json"};
    struct arena a = {0};
    struct i64s steps;
    int rc = -1;
    if (!file_is_dir(dir)) {
        rc = 0;
        goto out;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(path_join(&a, dir, files[i])); /* missing is fine; a later write says the rest */
    if (folder_list(dir, &steps, &a, e))
        goto out;
    for (size_t i = 0; i < steps.n; i++)
        if (checkpoint_remove(folder_step(&a, dir, steps.v[i]), e))
            goto out;
    rc = checkpoint_sweep(dir, e);
out:
    arena_release(&a);
    return rc;
}

void folder_begin(const char *dir)
{
    struct arena a = {0};
    unlink(path_join(&a, dir, "failed.json")); /* missing is fine */
    arena_release(&a);
}

void folder_failed(const char *dir, int64_t step, const struct err *why)
{
    struct arena a = {0};
    struct buf text = {0};
    struct err ignored;
    char now[32];
    if (why->code == EXIT_INCOMPLETE)
        return;
    struct json *o = json_obj();
    clock_iso(clock_system()->wall(clock_system()), now);
    json_put(o, "sentence", json_of_z(why->msg));
    json_put(o, "step", json_of_int(step));
    json_put(o, "ended", json_of_z(now));
    json_write_pretty(o, &text);
    json_free(o);
    /* The failure itself is what is told; a disk that is full may well refuse this too. */
    file_write_all(path_join(&a, dir, "failed.json"), buf_str(&text), &ignored);
    buf_release(&text);
    arena_release(&a);
}

bool folder_refused(const char *dir, bool held, const struct err *why)
{
    struct arena a = {0};
    struct err ignored;
    struct file_lock lock = {.fd = -1};
    bool told = strcmp(path_base(dir), "pretrain") == 0 &&
                file_exists(path_join(&a, path_dir(&a, dir), "run.ini")) &&
                !file_exists(path_join(&a, dir, "manifest.json"));
    if (told && !held)
        told = file_mkdirs(dir, &ignored) == 0 &&
               file_lock(&lock, path_join(&a, dir, ".lock"), false, &ignored) == 0;
    if (told)
        folder_failed(dir, 0, why);
    file_unlock(&lock);
    arena_release(&a);
    return told;
}

void folder_killed(const char *dir, const struct err *why)
{
    struct arena a = {0};
    struct err ignored;
    struct file_lock lock = {.fd = -1};
    struct metrics_row *rows;
    size_t n = 0;
    const char *journal = path_join(&a, dir, "metrics.jsonl");
    if (!file_exists(journal)) {
        folder_refused(dir, false, why);
    } else if (!file_exists(path_join(&a, dir, "manifest.json")) &&
               file_lock(&lock, path_join(&a, dir, ".lock"), false, &ignored) == 0) {
        if (metrics_read(journal, &rows, &n, &a, &ignored))
            n = 0;
        folder_failed(dir, n ? rows[n - 1].step : 0, why);
    }
    file_unlock(&lock);
    arena_release(&a);
}

void folder_leave(const char *dir)
{
    struct arena a = {0};
    struct err ignored;
    struct strs names;
    bool empty = file_list(dir, &names, &a, &ignored) == 0;
    for (size_t i = 0; empty && i < names.n; i++)
        empty = str_eqz(names.v[i], ".lock");
    if (empty && unlink(path_join(&a, dir, ".lock")) == 0)
        rmdir(dir);
    arena_release(&a);
}
