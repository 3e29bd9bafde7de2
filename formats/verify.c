/* verify: walks folders for manifests and lets manifest_verify re-hash what they name. */
#include "formats/verify.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "formats/manifest.h"

enum { MAX_DEPTH = 64 };

static int verify_one(const char *artefact, struct verified *v, FILE *to, struct err *e)
{
    struct manifest_seen seen;
    if (manifest_verify(artefact, &seen, e))
        return -1;
    v->artefacts++;
    v->files += seen.files;
    v->bytes += seen.bytes;
    v->sealed += seen.sealed;
    if (seen.sealed)
        fprintf(to, "sealed  %s\n", artefact);
    else
        fprintf(to, "ok      %s  %lld files  %lld bytes\n", artefact, (long long)seen.files,
                (long long)seen.bytes);
    fflush(to);
    return 0;
}

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* All artefacts in dir and below. */
static int verify_dir(const char *dir, int depth, struct verified *v, FILE *to, struct err *e)
{
    struct arena a = {0};
    struct strs names;
    int rc = -1;
    if (depth > MAX_DEPTH) {
        err_set(e, "%s: folders nested deeper than %d", dir, MAX_DEPTH);
        goto out;
    }
    if (file_list(dir, &names, &a, e))
        goto out;
    for (size_t i = 0; i < names.n; i++) {
        const char *name = str_dup(&a, names.v[i]), *path = path_join(&a, dir, name);
        if (name[0] == '.')
            continue;
        if (file_is_dir(path)) {
            if (!is_link(path) && verify_dir(path, depth + 1, v, to, e))
                goto out;
        } else if (!strcmp(name, "manifest.json")) {
            if (verify_one(dir, v, to, e))
                goto out;
        } else if (str_ends(names.v[i], ".manifest.json")) {
            struct str artefact = {path, strlen(path) - strlen(".manifest.json")};
            if (verify_one(str_dup(&a, artefact), v, to, e))
                goto out;
        }
    }
    rc = 0;
out:
    arena_release(&a);
    return rc;
}

int verify_path(const char *path, struct verified *v, FILE *to, struct err *e)
{
    struct arena a = {0};
    struct str s = str_z(path);
    int64_t before = v->artefacts;
    int rc;
    if (file_is_dir(path)) {
        rc = verify_dir(path, 0, v, to, e);
        if (!rc && v->artefacts == before)
            rc = err_set(e, "%s: no manifest in this folder or below", path);
    } else if (!strcmp(path_base(path), "manifest.json")) {
        rc = verify_one(path_dir(&a, path), v, to, e);
    } else if (str_ends(s, ".manifest.json")) {
        s.n -= strlen(".manifest.json");
        rc = verify_one(str_dup(&a, s), v, to, e);
    } else {
        rc = verify_one(path, v, to, e);
    }
    arena_release(&a);
    return rc;
}
