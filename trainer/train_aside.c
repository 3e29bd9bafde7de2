/* train_aside: the run before in a folder, kept until another one takes its place, see train_folder.h.
 *
 * DIR/.replaced.part holds some of the old run's entries while they move, either way: whoever finds it
 * moves the rest back. DIR/.replaced holds all of them. A rename each, so nothing is copied.
 *
 * The new run may have a whole checkpoint when the old one comes back: an interruption's, or one behind
 * which a kill came. It is moved to DIR/aside-N, by way of DIR/.aside.part, and never removed by us.
 */
#include <errno.h>
#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "trainer/checkpoint_io.h"
#include "trainer/train_folder.h"

#define WHOLE ".replaced"
#define PART  ".replaced.part"
#define LEFT  ".aside.part" /* of the new one, on its way out */

/* What belongs to a run, in the order in which it moves away: the manifest says that the rest is
 * whole, so it leaves first and comes back last. */
static const char *const fixed[] = {"manifest.json",  "latest",      "best",      "metrics.jsonl",
                                    "segments.jsonl", "failed.json", "checkpoint"};
enum { FIXED = sizeof fixed / sizeof *fixed };

static bool of_run(struct str name)
{
    for (size_t i = 0; i < FIXED; i++)
        if (str_eqz(name, fixed[i]))
            return true;
    return str_starts(name, "step-");
}

static int move(struct arena *a, const char *from, const char *to, const char *name, struct err *e)
{
    const char *old = path_join(a, from, name), *new = path_join(a, to, name);
    if (rename(old, new) && errno != ENOENT)
        return err_sys(e, "move %s to %s", old, new);
    return 0;
}

static int move_rest(struct arena *a, const char *from, const char *to, struct err *e)
{
    struct strs names;
    if (file_list(from, &names, a, e))
        return -1;
    for (size_t i = 0; i < names.n; i++)
        if (of_run(names.v[i]) && !str_eqz(names.v[i], fixed[0]) &&
            move(a, from, to, str_dup(a, names.v[i]), e))
            return -1;
    return 0;
}

static int put_back(struct arena *a, const char *dir, const char *part, struct err *e)
{
    return move_rest(a, part, dir, e) || move(a, part, dir, fixed[0], e) ||
                   file_remove_tree(part, e)
               ? -1
               : 0;
}

int folder_put_aside(const char *dir, struct err *e)
{
    struct arena a = {0};
    const char *part = path_join(&a, dir, PART), *whole = path_join(&a, dir, WHOLE);
    int rc = -1;
    if (file_mkdirs(part, e) || move(&a, dir, part, fixed[0], e) || move_rest(&a, dir, part, e))
        goto out;
    rc = file_rename_dir(part, whole, e);
out:
    arena_release(&a);
    return rc;
}

/* What the run in DIR has made that is whole: its newest step, 0 of a fine-tuning, -1 nothing. */
static int made(const char *dir, int64_t *step, struct arena *a, struct err *e)
{
    struct i64s steps;
    if (folder_list(dir, &steps, a, e))
        return -1;
    *step = steps.n ? steps.v[steps.n - 1] : file_exists(path_join(a, dir, "checkpoint")) ? 0 : -1;
    return 0;
}

/* The run in DIR, which has made something, into the first DIR/aside-N that is free. */
static int move_out(const char *dir, const char *left, int64_t step, struct arena *a, struct err *e)
{
    const char *to;
    int n = 1;
    while (to = path_join(a, dir, arena_printf(a, "aside-%d", n)), file_exists(to))
        n++;
    if (file_mkdirs(left, e) || move(a, dir, left, fixed[0], e) || move_rest(a, dir, left, e) ||
        file_rename_dir(left, to, e))
        return -1;
    if (step)
        log_warn(
            "%s: the run that was there before is back; step %lld of the one after it, which had "
            "other options, is kept in %s: train with these and --out %s to go on with it, or "
            "delete that folder",
            dir, (long long)step, to, to);
    else
        log_warn(
            "%s: the fine-tuning that was there before is back; the checkpoint of the one after "
            "it, which had other options, is kept in %s: delete that folder if it is not wanted",
            dir, to);
    return 0;
}

int folder_settle(const char *dir, bool goes_on, struct err *e)
{
    struct arena a = {0};
    const char *part = path_join(&a, dir, PART), *whole = path_join(&a, dir, WHOLE);
    const char *left = path_join(&a, dir, LEFT);
    int64_t step;
    int rc = -1;
    if (file_is_dir(left) && put_back(&a, dir, left, e))
        goto out;
    if (file_is_dir(part)) {
        rc = put_back(&a, dir, part, e);
        goto out;
    }
    if (goes_on || !file_is_dir(whole)) {
        rc = 0;
        goto out;
    }
    if (made(dir, &step, &a, e) || (step >= 0 && move_out(dir, left, step, &a, e)) ||
        folder_clear(dir, e) || file_remove_tree(path_join(&a, dir, "checkpoint"), e) ||
        file_rename_dir(whole, part, e) || put_back(&a, dir, part, e))
        goto out;
    if (step < 0)
        log_info("%s: the run that was there before is back; the one after it had made "
                 "nothing yet",
                 dir);
    rc = 0;
out:
    arena_release(&a);
    return rc;
}

int folder_replaced(const char *dir, struct err *e)
{
    struct arena a = {0};
    const char *whole = path_join(&a, dir, WHOLE);
    int rc = file_is_dir(whole) ? checkpoint_remove(whole, e) : 0;
    arena_release(&a);
    return rc;
}
