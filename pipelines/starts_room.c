/* starts_room: is there room for a run, and has the machine the devices of its hardware file; starts.h. */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "datasets/sources.h"
#include "pipelines/stages.h"
#include "pipelines/starts.h"
#include "trainer/gpt2.h"
#include "trainer/launch.h"
#include "trainer/train.h"
#include "trainer/train_folder.h"

/* Bytes of the public shards that are still to be fetched into data; what came of a file that was cut
 * off is there. */
int64_t room_to_fetch(const struct run *r, const char *data, struct arena *a)
{
    const char *name = str_dup(a, r->data.shards), *sha;
    const struct source *s = r->data.kind == DATA_SHARDS ? source_find(name) : NULL;
    int64_t sum = 0, files = stages_shard_files(r);
    if (!s || !s->file_bytes)
        return 0;
    for (size_t i = 0; i < source_count(s) && (!files || (int64_t)i < files); i++) {
        const char *base = path_base(source_path(s, i, &sha, a));
        const char *file = path_join(a, path_join(a, data, name), base);
        int64_t part = file_size(arena_printf(a, "%s.part", file));
        if (!file_exists(file))
            sum += s->file_bytes - (part > 0 ? part : 0);
    }
    return sum;
}

/* Bytes of the files below dir, without what its links name; 0: it is not there. */
static int64_t bytes_below(const char *dir, struct arena *a)
{
    char *roots[] = {arena_strdup(a, dir), NULL};
    FTS *t = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int64_t sum = 0;
    if (!t)
        return 0;
    for (FTSENT *f; (f = fts_read(t));)
        if (f->fts_info == FTS_F)
            sum += (int64_t)f->fts_statp->st_size;
    fts_close(t);
    return sum;
}

/* The checkpoints in a training's folder. */
struct there {
    int64_t bytes, n, newest; /* whole ones, and the step of the newest */
    int64_t swept; /* bytes of halves that a killed writer left: the next one takes them away */
    bool replaced; /* a run of other options waits for its return */
};

static struct there look(const char *dir, struct arena *a)
{
    struct there t = {0};
    struct strs names = {0};
    struct i64s steps = {0};
    struct err ignored = {0};
    if (!file_is_dir(dir) || folder_list(dir, &steps, a, &ignored) ||
        file_list(dir, &names, a, &ignored))
        return t;
    t.n = (int64_t)steps.n;
    t.newest = steps.n ? steps.v[steps.n - 1] : 0;
    for (size_t i = 0; i < names.n; i++) {
        const char *path = path_join(a, dir, str_dup(a, names.v[i]));
        if (str_starts(names.v[i], ".replaced"))
            t.replaced = true;
        else if (str_starts(names.v[i], "step-"))
            t.bytes += bytes_below(path, a);
        else if (str_starts(names.v[i], ".step-"))
            t.swept += bytes_below(path, a);
    }
    return t;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Checkpoints that a training of so many steps writes behind step `from`. */
static int64_t writes(const struct train_config *c, int64_t steps, int64_t from)
{
    if (from >= steps)
        return 0;
    return c->checkpoint_every > 0 ? (steps + c->checkpoint_every - 1) / c->checkpoint_every -
                                         from / c->checkpoint_every
                                   : 1;
}

/* The weights of the fine-tunings that are still to be made below dir. */
static int64_t to_tune(const struct run *r, int64_t weights, const char *dir, struct arena *a)
{
    const struct run_data *d = &r->data;
    bool any = r->eval.instruct && !str_eqz(d->instruct, "none") &&
               (d->instruct.n || d->kind == DATA_CORPUS || d->run.n);
    int64_t sum = 0;
    for (int64_t k = 0; any && k < r->finetune.seeds; k++) {
        const char *one =
            arena_printf(a, "%s/finetune/%lld", dir, (long long)(r->finetune.seed + k));
        if (!file_exists(path_join(a, one, "manifest.json")))
            sum += most(0, weights - bytes_below(one, a));
    }
    return sum;
}

/* Weights and two moments a checkpoint: those that are kept and the one that is written, no more than
 * the training writes; behind it those that are kept and the weights of the fine-tunings. A folder
 * with a replaced run may turn back into that one, which may be done. */
int64_t room_to_write(const struct run *r, const char *dir, struct room_plan *plan, struct arena *a)
{
    struct model_config m = r->model;
    struct err ignored = {0};
    *plan = (struct room_plan){0};
    if (!m.vocab)
        m.vocab = r->vocab.size;
    if (m.from.n || m.vocab < 1)
        return 0;
    int64_t weights = params_count(&m) * (int64_t)sizeof(float), one = 3 * weights;
    int64_t tokens = train_tokens(&m, &r->train, &ignored), tune = to_tune(r, weights, dir, a);
    const char *pretrain = path_join(a, dir, "pretrain");
    struct there t = look(pretrain, a);
    if (tokens < 0 || t.replaced || file_exists(path_join(a, pretrain, "manifest.json")))
        return tune;
    int64_t steps = tokens / (r->train.batch * m.context);
    int64_t all = writes(&r->train, steps, 0), left = writes(&r->train, steps, t.newest);
    int64_t at_once = least(least(r->train.keep + 1, all), t.n + left);
    int64_t training = left ? most(one - t.swept, at_once * one - t.bytes - t.swept) : 0;
    int64_t behind = least(r->train.keep, all) * one + tune - t.bytes - t.swept;
    *plan = (struct room_plan){.at_once = behind > training ? least(r->train.keep, all) : at_once,
                               .one = one,
                               .there = t.bytes,
                               .tuned = behind > training ? tune : 0};
    return most(0, most(training, behind));
}

int room_in(const char *dir, int64_t left, int64_t need, const char *what, struct err *e)
{
    char has[32], needs[32];
    if (left < 0 || need <= left)
        return 0;
    gpt2_size_text(left, has);
    gpt2_size_text(need, needs);
    if (strcmp(has, needs) == 0) { /* they differ by less than what is shown of them */
        snprintf(has, sizeof has, "%lld bytes", (long long)left);
        snprintf(needs, sizeof needs, "%lld", (long long)need);
    }
    return err_set(e, "%s has %s free, the run needs %s there for %s", dir, has, needs, what);
}

/* The disk of a path, or of the folder that will hold it; -1: unknown. */
static bool disk_of(const char *path, dev_t *disk, struct arena *a)
{
    struct stat s;
    for (const char *at = path;; at = path_dir(a, at)) {
        if (stat(at, &s) == 0) {
            *disk = s.st_dev;
            return true;
        }
        if (errno != ENOENT || strcmp(at, ".") == 0 || strcmp(at, "/") == 0)
            return false;
    }
}

bool room_shared(const char *x, const char *y, struct arena *a)
{
    dev_t dx, dy;
    return disk_of(x, &dx, a) && disk_of(y, &dy, a) && dx == dy;
}

/* "its checkpoints (3 of 1.8 GiB at once, train.keep = 2; 1.8 GiB are there)" */
static const char *checkpoints_text(const struct run *r, const struct room_plan *p, struct arena *a)
{
    char one[32], there[32], tuned[32];
    const char *here = "", *tune = "";
    if (!p->one)
        return "its fine-tuned weights";
    gpt2_size_text(p->one, one);
    gpt2_size_text(p->there, there);
    gpt2_size_text(p->tuned, tuned);
    if (p->there)
        here = arena_printf(a, "; %s are there", there);
    if (p->tuned)
        tune = arena_printf(a, " and fine-tuned weights (%s)", tuned);
    return arena_printf(a, "its checkpoints (%lld of %s at once, train.keep = %lld%s)%s",
                        (long long)p->at_once, one, (long long)r->train.keep, here, tune);
}

int room_here(const struct run *r, const char *data, const char *dir, struct arena *a,
              struct err *e)
{
    struct room_plan plan;
    data = data && *data ? data : STAGES_FETCHED;
    int64_t fetch = room_to_fetch(r, data, a);
    int64_t write = room_to_write(r, dir, &plan, a);
    const char *what = checkpoints_text(r, &plan, a);
    if (!fetch || !room_shared(data, dir, a))
        return room_in(dir, disk_free(dir), write, what, e) ||
                       (fetch && room_in(data, disk_free(data), fetch, "its sources", e))
                   ? -1
                   : 0;
    char shards[32];
    gpt2_size_text(fetch, shards);
    return room_in(dir, disk_free(dir), fetch + write,
                   arena_printf(a, "its sources (%s) and %s", shards, what), e);
}

int devices_here(const struct run *r, const struct hardware *h, struct err *e)
{
    int64_t ranks = r->train.ranks, want = ranks > h->count ? ranks : h->count;
    if (str_eqz(r->train.backend, "cpu") || str_eqz(str_z(hardware_backends[h->backend]), "cpu"))
        return 0;
    int64_t here = want > 1 ? launch_devices(want) : 0;
    if (!here) /* none, or one is enough: opening the backend says the rest */
        return 0;
    if (ranks > here)
        return err_code(e, EXIT_USAGE, "train.ranks = %lld, but here are %lld devices",
                        (long long)ranks, (long long)here);
    int64_t used = ranks ? ranks : here;
    if (used < h->count)
        log_warn(
            "%.*s has %lld devices, here are %lld: the training takes %lld, its price is of the "
            "whole machine",
            STR_ARG(h->name), (long long)h->count, (long long)here, (long long)used);
    return 0;
}
