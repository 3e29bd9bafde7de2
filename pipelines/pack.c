/* pack: run folders into archives, see pack.h; back again in unpack.c. */
#include "pipelines/pack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "formats/manifest.h"
#include "pipelines/pack_private.h"
#include "pipelines/tar.h"

enum { MAX_DEPTH = 32 };

/* ---- packing: which files ------------------------------------------------------------------- */

struct member {
    const char *rel, *target; /* target: of a link */
    struct file_map map;      /* kept: a journal may grow while we read */
};
struct packer {
    const char *dir;
    const struct pack_options *o;
    struct member *v;
    size_t n;
    struct json *left;
    struct arena *a;
};

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static int take(struct packer *p, const char *rel, struct err *e)
{
    p->v = mem_grow(p->v, (p->n + 1) * sizeof *p->v);
    struct member *m = &p->v[p->n];
    *m = (struct member){.rel = rel};
    if (file_map(path_join(p->a, p->dir, rel), &m->map, e))
        return -1;
    p->n++;
    return 0;
}

static int take_link(struct packer *p, const char *rel, struct err *e)
{
    char target[101];
    const char *path = path_join(p->a, p->dir, rel);
    ssize_t n = readlink(path, target, sizeof target);
    if (n < 0)
        return err_sys(e, "read link %s", path);
    if (n == sizeof target || memchr(target, '/', (size_t)n))
        return 0; /* not one of ours */
    p->v = mem_grow(p->v, (p->n + 1) * sizeof *p->v);
    p->v[p->n++] = (struct member){.rel = rel, .target = arena_bytes(p->a, target, (size_t)n)};
    return 0;
}

bool pack_is_manifest(const char *name)
{
    return strcmp(name, "manifest.json") == 0 || str_ends(str_z(name), ".manifest.json");
}

/* Is step folder `rel` what latest or best of its folder point to? Others stay behind. */
static bool linked(struct packer *p, const char *rel)
{
    const char *parent = path_dir(p->a, rel), *name = path_base(rel);
    const char *const links[] = {"latest", "best"};
    for (int i = 0; i < 2; i++) {
        char target[256];
        const char *at = path_join(p->a, p->dir, path_join(p->a, parent, links[i]));
        ssize_t n = readlink(at, target, sizeof target - 1);
        if (n > 0 && strlen(name) == (size_t)n && memcmp(name, target, (size_t)n) == 0)
            return true;
    }
    return false;
}

static bool wanted(struct packer *p, const char *rel)
{
    const char *name = path_base(rel);
    if (pack_is_manifest(name) || strcmp(name, "metrics.jsonl") == 0 ||
        strcmp(name, "segments.jsonl") == 0)
        return true;
    bool of_model = strcmp(name, "model.safetensors") == 0 || strcmp(name, "config.json") == 0;
    bool of_optimizer =
        strcmp(name, "optimizer.safetensors") == 0 || strcmp(name, "state.msgpack") == 0;
    return ((p->o->model && of_model) || (p->o->optimizer && of_optimizer)) &&
           linked(p, path_dir(p->a, rel));
}

/* Sum of the bytes of an artefact's outputs. */
static int64_t bulk(const struct json *manifest)
{
    const struct json *out = json_get(manifest, "outputs");
    int64_t sum = 0;
    for (size_t i = 0; i < json_size(out); i++)
        sum += json_int(json_get(json_at(out, i), "bytes"), 0);
    return sum;
}

/* Whether the artefact goes along whole; if not it is listed as left behind. */
static int small_enough(struct packer *p, const char *rel, bool *whole, struct err *e)
{
    const char *path = path_join(p->a, p->dir, rel);
    *whole = false;
    if (!file_exists(manifest_path(p->a, path)))
        return 0;
    struct json *m = manifest_read(path, e);
    if (!m)
        return -1;
    int64_t bytes = bulk(m);
    *whole = bytes <= p->o->small;
    if (!*whole) {
        struct json *l = json_obj();
        json_put(l, "artefact", json_of_z(rel));
        json_put(l, "bytes", json_of_int(bytes));
        json_push(p->left, l);
    }
    json_free(m);
    return 0;
}

static int walk(struct packer *p, const char *rel, bool all, int depth, struct err *e)
{
    struct strs names;
    if (depth > MAX_DEPTH)
        return err_set(e, "%s: folders nested deeper than %d", p->dir, MAX_DEPTH);
    if (file_list(path_join(p->a, p->dir, rel), &names, p->a, e))
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        const char *name = str_dup(p->a, names.v[i]);
        const char *at = strcmp(rel, ".") == 0 ? name : path_join(p->a, rel, name);
        const char *path = path_join(p->a, p->dir, at);
        int rc = 0;
        if (name[0] == '.')
            continue;
        if (is_link(path))
            rc = p->o->model || p->o->optimizer ? take_link(p, at, e) : 0;
        else if (file_is_dir(path))
            rc = walk(p, at, all, depth + 1, e);
        else if (all || wanted(p, at))
            rc = take(p, at, e);
        if (rc)
            return -1;
    }
    return 0;
}

/* The run folder's own entries: each is an artefact, a folder of artefacts, or a plain file. */
static int choose(struct packer *p, struct err *e)
{
    struct strs names;
    if (file_list(p->dir, &names, p->a, e))
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        const char *name = str_dup(p->a, names.v[i]), *path = path_join(p->a, p->dir, name);
        bool whole = false;
        if (name[0] == '.' || is_link(path) || str_starts(names.v[i], "packed."))
            continue;
        bool scores = strcmp(name, "eval") == 0 || strcmp(name, "scores") == 0;
        bool models = strcmp(name, "pretrain") == 0 || strcmp(name, "finetune") == 0;
        bool plain = strcmp(name, "run.ini") == 0 || strcmp(name, "result.msgpack") == 0 ||
                     strcmp(name, "result.notes.msgpack") == 0;
        if (!scores && !models && !plain && !pack_is_manifest(name) &&
            small_enough(p, name, &whole, e))
            return -1;
        if (file_is_dir(path)                          ? walk(p, name, whole || scores, 0, e)
            : whole || plain || pack_is_manifest(name) ? take(p, name, e)
                                                       : 0)
            return -1;
    }
    return 0;
}

/* ---- packing: the archive --------------------------------------------------------------------- */

static struct json *list_of(struct packer *p, const char *run)
{
    struct json *doc = json_obj(), *files = json_arr();
    json_put(doc, "schema", json_of_z(PACK_SCHEMA));
    json_put(doc, "version", json_of_int(PACK_VERSION));
    json_put(doc, "run", json_of_z(run));
    for (size_t i = 0; i < p->n; i++) {
        const struct member *m = &p->v[i];
        struct json *f = json_obj();
        char hex[SHA256_HEX];
        json_put(f, "path", json_of_z(m->rel));
        if (m->target) {
            json_put(f, "link", json_of_z(m->target));
        } else {
            sha256_hex((struct str){(const char *)m->map.p, m->map.n}, hex);
            json_put(f, "bytes", json_of_int((int64_t)m->map.n));
            json_put(f, "sha256", json_of_z(hex));
        }
        json_push(files, f);
    }
    json_put(doc, "files", files);
    json_put(doc, "left", p->left);
    p->left = NULL;
    return doc;
}

bool pack_lacks_output(const struct json *manifest, const char *rel, const struct map *there,
                       struct arena *a)
{
    const struct json *out = json_get(manifest, "outputs");
    for (size_t i = 0; i < json_size(out); i++) {
        const char *name = str_dup(a, json_str(json_get(json_at(out, i), "path")));
        const char *dir = path_dir(a, rel);
        const char *path = strcmp(dir, ".") == 0 ? name : path_join(a, dir, name);
        if (map_find(there, str_z(path)) < 0)
            return true;
    }
    return false;
}

static int64_t count_left(const struct packer *p)
{
    struct map there = {0};
    int64_t left = 0;
    struct err ignored;
    for (size_t i = 0; i < p->n; i++)
        map_add(&there, str_z(p->v[i].rel), 0, NULL);
    for (size_t i = 0; i < p->n; i++) {
        const struct member *m = &p->v[i];
        if (m->target || !pack_is_manifest(path_base(m->rel)))
            continue;
        struct json *j = json_parse((struct str){(const char *)m->map.p, m->map.n}, &ignored);
        left += j && pack_lacks_output(j, m->rel, &there, p->a);
        json_free(j);
    }
    map_release(&there);
    return left;
}

static int write_archive(struct packer *p, const char *run, const char *out, struct packed *sum,
                         struct err *e)
{
    struct file_out to = {0};
    struct buf text = {0};
    struct json *doc = list_of(p, run);
    int rc = -1;
    json_write_pretty(doc, &text);
    sum->left = count_left(p);
    if (file_create(&to, out, e) ||
        tar_put_bytes(&to, arena_printf(p->a, "%s/packed.json", run), buf_str(&text), e))
        goto out;
    for (size_t i = 0; i < p->n; i++) {
        const struct member *m = &p->v[i];
        const char *name = arena_printf(p->a, "%s/%s", run, m->rel);
        struct str bytes = {(const char *)m->map.p, m->map.n};
        if (m->target ? tar_put_link(&to, name, m->target, e) : tar_put_bytes(&to, name, bytes, e))
            goto out;
        sum->files++;
        sum->bytes += (int64_t)m->map.n;
    }
    if (tar_end(&to, e) || file_commit(&to, e))
        goto out;
    rc = 0;
out:
    if (rc)
        file_abort(&to);
    json_free(doc);
    buf_release(&text);
    return rc;
}

/* Whether a file that is to be written would lie in a folder. */
static bool lies_below(const char *file, const char *folder)
{
    struct arena a = {0};
    char *x = realpath(path_dir(&a, file), NULL), *y = realpath(folder, NULL);
    size_t n = y ? strlen(y) : 0;
    bool below = x && y && strncmp(x, y, n) == 0 && (!x[n] || x[n] == '/');
    free(x);
    free(y);
    arena_release(&a);
    return below;
}

int pack_run(const char *dir, const char *out, const struct pack_options *o, struct packed *sum,
             struct arena *a, struct err *e)
{
    struct packer p = {.dir = dir, .o = o, .left = json_arr(), .a = a};
    const char *run = path_base(dir);
    int rc = -1;
    *sum = (struct packed){.run = str_z(run)};
    if (!file_exists(path_join(a, dir, "run.ini")))
        err_set(e, "%s: not a run folder, it has no run.ini", dir);
    else if (file_is_dir(out))
        err_code(e, EXIT_USAGE, "--out %s is a folder; name the archive, e.g. %s/%s.tar", out, out,
                 run);
    else if (!file_is_dir(path_dir(a, out)))
        err_code(e, EXIT_USAGE, "--out %s: there is no folder %s", out, path_dir(a, out));
    else if (lies_below(out, dir))
        err_code(e, EXIT_USAGE, "--out %s lies in the run folder that is packed", out);
    else if (!tar_name_ok(run) || run[0] == '.')
        err_set(e, "%s: give the run folder by its name", dir);
    else if (choose(&p, e) == 0)
        rc = write_archive(&p, run, out, sum, e);
    for (size_t i = 0; i < p.n; i++)
        if (!p.v[i].target)
            file_unmap(&p.v[i].map);
    free(p.v);
    json_free(p.left);
    return rc;
}
