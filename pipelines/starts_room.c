/* starts_room: is there room for a run, and has the machine the devices of its hardware file; starts.h. */
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "datasets/sources.h"
#include "pipelines/stages.h"
#include "pipelines/starts.h"
#include "trainer/gpt2.h"
#include "trainer/launch.h"

#define GIB ((double)(1 << 30))

/* Bytes of the public shards that are still to be fetched into data. */
static int64_t to_fetch(const struct run *r, const char *data, struct arena *a)
{
    const char *name = str_dup(a, r->data.shards), *sha;
    const struct source *s = r->data.kind == DATA_SHARDS ? source_find(name) : NULL;
    int64_t sum = 0, files = stages_shard_files(r);
    if (!s || !s->file_bytes)
        return 0;
    for (size_t i = 0; i < source_count(s) && (!files || (int64_t)i < files); i++) {
        const char *file = path_base(source_path(s, i, &sha, a));
        if (!file_exists(path_join(a, path_join(a, data, name), file)))
            sum += s->file_bytes;
    }
    return sum;
}

/* The checkpoints that are there at once: those that are kept and the one that is written, weights and
 * two moments each; of a fine-tuning the weights. */
static int64_t to_write(const struct run *r)
{
    struct model_config m = r->model;
    int64_t seeds = r->data.instruct.n ? r->finetune.seeds : 0;
    if (!m.vocab)
        m.vocab = r->vocab.size;
    if (m.from.n || m.vocab < 1)
        return 0;
    int64_t every = r->train.checkpoint_every > 0 ? r->train.keep + 1 : 1;
    return params_count(&m) * (int64_t)sizeof(float) * (3 * every + seeds);
}

static int room(const char *dir, int64_t need, const char *what, struct err *e)
{
    int64_t left = disk_free(dir);
    return left >= 0 && need > left
               ? err_set(e, "%s has %.1f GiB free, the run needs %.1f GiB there for %s", dir,
                         (double)left / GIB, (double)need / GIB, what)
               : 0;
}

static bool one_disk(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 ? x.st_dev == y.st_dev : true;
}

int room_here(const struct run *r, const char *data, const char *dir, struct arena *a,
              struct err *e)
{
    int64_t fetch = data && *data ? to_fetch(r, data, a) : 0, write = to_write(r);
    if (fetch && one_disk(data, dir)) {
        const char *what =
            arena_printf(a, "its sources (%.1f) and its checkpoints (%.1f, train.keep = %lld)",
                         (double)fetch / GIB, (double)write / GIB, (long long)r->train.keep);
        return room(dir, fetch + write, what, e);
    }
    const char *what =
        arena_printf(a, "its checkpoints (train.keep = %lld)", (long long)r->train.keep);
    return room(dir, write, what, e) || (fetch && room(data, fetch, "its sources", e)) ? -1 : 0;
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
