/* pack_keep: what a replaced run's folder has that the archive lacks, see pack.h. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "pipelines/pack.h"

enum { MOST_NAMED = 6, MAX_DEPTH = 32, MAX_MANIFEST = 16 << 20 };

struct keeper {
    const char *from, *to; /* the folder that is there, and the one that takes its place */
    struct map at;         /* outputs that the archive's manifests name, and where in hash */
    struct strs hash, lost, links;
    int64_t bytes, kept;
    struct arena *a;
};

/* Calls `each` for every file and link below `dir`/`rel`. Names with a dot in front are locks and the like;
 * packed.* are unpack's own. */
static int walk(struct keeper *k, const char *dir, const char *rel, int depth,
                int (*each)(struct keeper *, const char *, struct err *), struct err *e)
{
    struct strs names;
    if (depth > MAX_DEPTH)
        return err_set(e, "%s: folders nested deeper than %d", dir, MAX_DEPTH);
    if (file_list(*rel ? path_join(k->a, dir, rel) : dir, &names, k->a, e))
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        const char *name = str_dup(k->a, names.v[i]);
        const char *at = *rel ? path_join(k->a, rel, name) : name;
        struct stat st;
        if (name[0] == '.' || (!*rel && str_starts(names.v[i], "packed.")))
            continue;
        bool folder = lstat(path_join(k->a, dir, at), &st) == 0 && S_ISDIR(st.st_mode);
        if (folder ? walk(k, dir, at, depth + 1, each, e) : each(k, at, e))
            return -1;
    }
    return 0;
}

/* The outputs of a manifest of the archive, with their hashes. */
static int read_outputs(struct keeper *k, const char *rel, struct err *e)
{
    struct buf text = {0};
    if (!str_ends(str_z(rel), "manifest.json"))
        return 0;
    int rc = file_read(path_join(k->a, k->to, rel), &text, MAX_MANIFEST, e);
    struct json *j = rc ? NULL : json_parse(buf_str(&text), e);
    const struct json *out = json_get(j, "outputs");
    const char *dir = path_dir(k->a, rel);
    for (size_t i = 0; i < json_size(out); i++) {
        const struct json *one = json_at(out, i);
        const char *name = str_dup(k->a, json_str(json_get(one, "path")));
        const char *path = strcmp(dir, ".") == 0 ? name : path_join(k->a, dir, name);
        map_add(&k->at, str_z(path), (int64_t)k->hash.n, NULL);
        strs_push(&k->hash, str_copy(k->a, json_str(json_get(one, "sha256"))), k->a);
    }
    json_free(j);
    buf_release(&text);
    return j ? 0 : -1;
}

static bool same_text(const char *a, const char *b)
{
    struct buf x = {0}, y = {0};
    struct err none;
    bool same = file_read(a, &x, MAX_MANIFEST, &none) == 0 &&
                file_read(b, &y, MAX_MANIFEST, &none) == 0 && str_eq(buf_str(&x), buf_str(&y));
    buf_release(&x);
    buf_release(&y);
    return same;
}

/* Whether the file belongs to the archive's artefact too: its manifest there names these very bytes, or names
 * none for it and is the same manifest as here (a checkpoint's state). */
static int belongs(struct keeper *k, const char *rel, bool *yes, struct err *e)
{
    char hex[SHA256_HEX];
    ptrdiff_t i = map_find(&k->at, str_z(rel));
    const char *beside = path_join(k->a, path_dir(k->a, rel), "manifest.json");
    *yes = false;
    if (i < 0) {
        *yes = same_text(path_join(k->a, k->from, beside), path_join(k->a, k->to, beside));
        return 0;
    }
    if (sha256_file(path_join(k->a, k->from, rel), hex, e))
        return -1;
    *yes = str_eqz(k->hash.v[k->at.value[i]], hex);
    return 0;
}

static int one(struct keeper *k, const char *rel, struct err *e)
{
    const char *from = path_join(k->a, k->from, rel), *to = path_join(k->a, k->to, rel);
    struct stat st;
    bool yes = false;
    if (lstat(to, &st) == 0 || lstat(from, &st) != 0)
        return 0;
    if (S_ISLNK(st.st_mode)) {
        strs_push(&k->links, str_z(rel), k->a);
        return 0;
    }
    if (belongs(k, rel, &yes, e))
        return -1;
    if (!yes) {
        strs_push(&k->lost, str_z(rel), k->a);
        k->bytes += st.st_size;
        return 0;
    }
    k->kept++;
    if (file_mkdirs_for(to, e))
        return -1;
    return link(from, to) ? err_sys(e, "keep %s", from) : 0;
}

/* latest and best go along where what they name is there. */
static int keep_links(struct keeper *k, struct err *e)
{
    for (size_t i = 0; i < k->links.n; i++) {
        const char *rel = str_dup(k->a, k->links.v[i]), *to = path_join(k->a, k->to, rel);
        char target[256];
        ssize_t n = readlink(path_join(k->a, k->from, rel), target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = 0;
        if (file_exists(path_join(k->a, path_dir(k->a, to), target)) && file_symlink(target, to, e))
            return -1;
    }
    return 0;
}

int pack_keep(const char *from, const char *to, int64_t *kept, struct arena *a, struct err *e)
{
    struct keeper k = {.from = from, .to = to, .a = a};
    int rc = walk(&k, to, "", 0, read_outputs, e) || walk(&k, from, "", 0, one, e) ? -1 : 0;
    if (rc == 0 && k.lost.n) {
        struct buf names = {0};
        for (size_t i = 0; i < k.lost.n && i < MOST_NAMED; i++)
            buf_printf(&names, "%s%.*s", i ? ", " : "", STR_ARG(k.lost.v[i]));
        if (k.lost.n > MOST_NAMED)
            buf_printf(&names, " and %zu more", k.lost.n - MOST_NAMED);
        rc = err_set(e,
                     "%s has %zu file%s (%lld bytes) that the archive lacks and --replace would "
                     "destroy: %s; move them away, or the whole folder",
                     from, k.lost.n, k.lost.n == 1 ? "" : "s", (long long)k.bytes, names.p);
        buf_release(&names);
    }
    if (rc == 0)
        rc = keep_links(&k, e);
    *kept = k.kept;
    map_release(&k.at);
    return rc;
}

/* ---- leftovers ---------------------------------------------------------------------------------- */

static int sweep_one(const char *runs, struct str name, struct arena *a, struct err *e)
{
    struct str rest = name;
    int64_t pid;
    str_cut(&rest, '.');
    str_cut(&rest, '.');
    bool old = str_ends(rest, ".old");
    struct str digits = rest;
    digits.n -= old ? strlen(".old") : 0;
    if (str_i64(digits, &pid) || pid <= 0 || kill((pid_t)pid, 0) == 0)
        return 0;
    const char *path = path_join(a, runs, str_dup(a, name));
    const char *new = arena_printf(a, "%s/.unpack.%lld", runs, (long long)pid);
    if (old && file_exists(new)) /* killed between the two renames: this is somebody's run */
        log_warn("%s is a run that a killed unpack --replace had put aside; it is left there",
                 path);
    else if (!old && file_exists(arena_printf(a, "%s.old", path)))
        return 0;
    else
        return file_remove_tree(path, e);
    return 0;
}

int pack_sweep(const char *runs, struct arena *a, struct err *e)
{
    struct strs names;
    if (!file_is_dir(runs))
        return 0;
    if (file_list(runs, &names, a, e))
        return -1;
    for (size_t i = 0; i < names.n; i++)
        if (str_starts(names.v[i], ".unpack.") && sweep_one(runs, names.v[i], a, e))
            return -1;
    return 0;
}
