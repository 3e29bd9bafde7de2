/* ledger: finding and reading results, see ledger.h. */
#include "pipelines/ledger.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/stream.h"
#include "formats/record_head.h"
#include "pipelines/money.h"
#include "pipelines/query.h"
#include "trainer/gpt2.h"
#include "trainer/segments.h"

static const char *const bulk[] = {"curve",       "inputs",      "metrics.ids", "metrics.cluster",
                                   "metrics.num", "metrics.den", NULL};

static int read_result(const char *path, bool whole, struct result *r, struct arena *a,
                       struct err *e)
{
    if (record_load_without(path, &result_schema, whole ? NULL : bulk, r, a, e))
        return -1;
    if (money_moved(r))
        r->timing.mfu = NAN; /* older results have that of the last machine's peak */
    return 0;
}

/* ---- runs without a result ---------------------------------------------------------------------- */

/* Whether a process holds the journal's lock, i.e. is still writing. */
static bool is_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd); /* gives the lock back */
    return held;
}

/* Steps and tokens from the last whole line of metrics.jsonl. */
static void last_step(struct result *r, const char *path)
{
    struct err e;
    struct stream *s = stream_open(path, &e);
    struct buf line = {0}, last = {0};
    while (s && stream_line(s, &line, 1 << 20, &e) == 1)
        if (line.n > 1 && line.p[line.n - 1] == '}') {
            buf_cut(&last, 0);
            buf_add(&last, line.p, line.n);
        }
    struct json *j = last.n ? json_parse(buf_str(&last), &e) : NULL;
    if (j) {
        r->steps = json_int(json_get(j, "step"), 0);
        r->tokens = json_int(json_get(j, "tokens"), 0);
        r->timing.train_seconds = json_num(json_get(j, "seconds"));
    }
    json_free(j);
    buf_release(&line);
    buf_release(&last);
    if (s)
        stream_close(s);
}

/* "failed at step 7: the sentence" of a stage's folder; NULL: it did not fail. Step 0: before its first was
 * done, or before it went on. */
static const char *failure(const char *dir, struct arena *a)
{
    struct buf text = {0};
    struct err ignored;
    const char *path = path_join(a, dir, "failed.json"), *out = NULL;
    if (!file_exists(path) || file_read(path, &text, 1 << 16, &ignored) != 0)
        goto out;
    struct json *j = json_parse(buf_str(&text), &ignored);
    int64_t step = j ? json_int(json_get(j, "step"), 0) : 0;
    if (j)
        out = arena_printf(a, "failed %s: %.*s",
                           step ? arena_printf(a, "at step %lld", (long long)step)
                                : "before its first step",
                           STR_ARG(json_str(json_get(j, "sentence"))));
    json_free(j);
out:
    buf_release(&text);
    return out;
}

/* The failure of a fine-tuning seed, or NULL. */
static const char *tuning_failure(const char *dir, struct arena *a)
{
    struct err ignored;
    struct strs seeds;
    const char *folder = path_join(a, dir, "finetune"), *why = NULL;
    if (!file_is_dir(folder) || file_list(folder, &seeds, a, &ignored) != 0)
        return NULL;
    for (size_t i = 0; i < seeds.n && !why; i++)
        why = failure(path_join(a, folder, str_dup(a, seeds.v[i])), a);
    return why;
}

/* What can be known of the size before anything was measured: 0 is unknown. */
static int64_t parameters_of(const struct run *r)
{
    struct model_config m = r->model;
    struct err ignored;
    if (!m.vocab && r->data.kind != DATA_SHARDS && !r->vocab.from.n)
        m.vocab = r->vocab.size;
    bool known = m.vocab > 0 && !m.from.n && model_config_check(&m, &ignored) == 0;
    return known ? params_count(&m) : 0;
}

static int read_unfinished(const char *dir, struct result *r, struct arena *a, struct err *e)
{
    if (schema_defaults(&result_schema, r, a, e) != 0)
        return -1;
    r->run = str_z(arena_strdup(a, path_base(dir)));
    const char *pretrain = path_join(a, dir, "pretrain");
    const char *metrics = path_join(a, pretrain, "metrics.jsonl");
    if (run_load(&r->config, path_join(a, dir, "run.ini"), (struct strs){0}, a, e) != 0)
        return -1;
    r->group = r->config.about.group;
    r->title = r->config.about.title;
    r->notes = r->config.about.notes;
    r->tags = r->config.about.tags;
    r->seed = r->config.train.seed;
    r->parameters = parameters_of(&r->config);
    struct segment *starts;
    size_t n;
    if (segments_read(pretrain, &starts, &n, a, &(struct err){0}) == 0 && n)
        r->started = starts[0].started;
    bool began = file_exists(metrics);
    const char *failed = failure(pretrain, a), *tuning = tuning_failure(dir, a);
    if (began)
        last_step(r, metrics);
    if (file_exists(path_join(a, pretrain, "manifest.json")))
        r->status = tuning ? str_printf(a, "no result yet: fine-tuning %s", tuning)
                           : STR_LIT("no result yet: trained, not evaluated");
    else if (began && is_locked(metrics))
        r->status = str_printf(a, "running, step %lld", (long long)r->steps);
    else if (failed && r->steps && str_starts(str_z(failed), "failed before its first step"))
        r->status = str_printf(a, "failed after step %lld%s", (long long)r->steps,
                               failed + strlen("failed before its first step"));
    else if (failed)
        r->status = str_z(failed);
    else if (began)
        r->status = str_printf(a, "killed at step %lld", (long long)r->steps);
    else
        r->status = STR_LIT("not trained yet");
    return 0;
}

/* ---- loading ------------------------------------------------------------------------------------ */

static struct result *room(struct ledger *l)
{
    if ((l->n & (l->n - 1)) == 0) { /* doubles */
        size_t cap = l->n ? 2 * l->n : 1;
        l->v = mem_grow(l->v, cap * sizeof *l->v);
        l->path = mem_grow(l->path, cap * sizeof *l->path);
        l->whole = mem_grow(l->whole, cap * sizeof *l->whole);
    }
    return &l->v[l->n];
}

/* One of many in a folder that cannot be read is shown as such and keeps nobody from the others. */
static int add_unreadable(struct result *r, const char *path, struct arena *a, struct err *e)
{
    struct err why = *e;
    if (schema_defaults(&result_schema, r, a, e) != 0)
        return -1;
    log_warn("%s", why.msg);
    r->run = str_z(arena_strdup(a, path_base(file_is_dir(path) ? path : path_dir(a, path))));
    r->status = str_printf(a, "unreadable: %s", why.msg);
    return 0;
}

/* Whether this very file was read before, whatever it was called. */
static bool read_before(struct ledger *l, const char *path)
{
    int added = 1;
    char *real = realpath(path, NULL);
    if (!real)
        return false; /* reading it will say why */
    map_add(&l->files, str_z(arena_strdup(&l->arena, real)), 0, &added);
    free(real);
    if (!added && l->again++ == 0)
        l->first_again = arena_strdup(&l->arena, path);
    return !added;
}

bool ledger_unreadable(const struct result *r)
{
    return str_starts(r->status, "unreadable: ");
}

static int add(struct ledger *l, const char *path, bool whole, bool one_of_many, struct err *e)
{
    if (read_before(l, path))
        return 0;
    struct result *r = room(l);
    bool unfinished = file_is_dir(path), read = true;
    if (unfinished)
        read = read_unfinished(path, r, &l->arena, e) == 0;
    else
        read = read_result(path, whole, r, &l->arena, e) == 0;
    if (read)
        read = ledger_add_notes(r, path, &l->arena, e) == 0;
    if (!read && (!one_of_many || add_unreadable(r, path, &l->arena, e) != 0))
        return -1;
    if (r->group.n == 0)
        r->group = r->run;
    size_t at = map_add(&l->names, r->run, 0, NULL);
    if (++l->names.value[at] > 1)
        r->run = str_printf(&l->arena, "%.*s#%lld", STR_ARG(r->run), (long long)l->names.value[at]);
    l->path[l->n] = arena_strdup(&l->arena, path);
    l->whole[l->n++] = whole || unfinished || !read;
    return 0;
}

/* The result file of a run folder, the folder itself if it has none yet, or NULL: no run. */
static const char *result_in(struct ledger *l, const char *dir)
{
    const char *own = path_join(&l->arena, dir, "result.msgpack");
    if (file_exists(own))
        return own;
    return file_exists(path_join(&l->arena, dir, "run.ini")) ? dir : NULL;
}

static int add_folder(struct ledger *l, const char *dir, bool whole, struct err *e)
{
    const char *own = result_in(l, dir);
    struct strs names;
    size_t found = 0;
    if (own)
        return add(l, own, whole, false, e);
    if (file_list(dir, &names, &l->arena, e) != 0)
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        const char *p = path_join(&l->arena, dir, str_dup(&l->arena, names.v[i]));
        const char *r = result_in(l, p);
        found += r != NULL;
        if (r && add(l, r, whole, true, e) != 0)
            return -1;
    }
    return found ? 0 : err_set(e, "%s: no result.msgpack here or one folder below", dir);
}

static int load(struct ledger *l, struct strs paths, bool whole, struct err *e)
{
    *l = (struct ledger){0};
    for (size_t i = 0; i < paths.n; i++) {
        const char *p = str_dup(&l->arena, paths.v[i]);
        if ((file_is_dir(p) ? add_folder(l, p, whole, e) : add(l, p, whole, false, e)) != 0) {
            ledger_release(l);
            return -1;
        }
    }
    if (l->again == 1)
        log_warn("%s was named before: it is one result, and stands here once", l->first_again);
    else if (l->again)
        log_warn("%zu results were named more than once, first %s; each stands here once", l->again,
                 l->first_again);
    return 0;
}

int ledger_load(struct ledger *l, struct strs paths, struct err *e)
{
    return load(l, paths, true, e);
}

int ledger_heads(struct ledger *l, struct strs paths, struct err *e)
{
    return load(l, paths, false, e);
}

int ledger_select(struct ledger *l, struct strs where, struct strs by, struct err *e)
{
    size_t *order = arena_array(&l->arena, l->n + 1, sizeof *order), kept;
    if (query_where(where, l->v, l->n, order, &kept, &l->arena, e) != 0 ||
        query_sort(by, l->v, l->n, order, kept, &l->arena, e) != 0)
        return -1;
    struct ledger to = {.n = kept};
    to.v = mem_array(kept, sizeof *to.v);
    to.path = mem_array(kept, sizeof *to.path);
    to.whole = mem_array(kept, sizeof *to.whole);
    for (size_t i = 0; i < kept; i++) {
        to.v[i] = l->v[order[i]];
        to.path[i] = l->path[order[i]];
        to.whole[i] = l->whole[order[i]];
    }
    free(l->v);
    free(l->path);
    free(l->whole);
    to.arena = l->arena;
    to.names = l->names;
    to.files = l->files;
    to.again = l->again;
    to.first_again = l->first_again;
    *l = to;
    return 0;
}

int ledger_fill(struct ledger *l, struct err *e)
{
    for (size_t i = 0; i < l->n; i++) {
        struct result head = l->v[i], *r = &l->v[i];
        if (l->whole[i])
            continue;
        if (read_result(l->path[i], true, r, &l->arena, e) != 0)
            return -1;
        r->run = head.run; /* as told apart, with the notes of the time it was chosen */
        r->group = head.group;
        r->tags = head.tags;
        r->notes = head.notes;
        l->whole[i] = true;
    }
    return 0;
}

void ledger_release(struct ledger *l)
{
    free(l->v);
    free(l->path);
    free(l->whole);
    map_release(&l->names);
    map_release(&l->files);
    arena_release(&l->arena);
    *l = (struct ledger){0};
}
