/* manifest_read: finding, reading and checking the manifests of artefacts, and the hash by which
 * an artefact is an input. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/manifest.h"
#include "formats/manifest_path.h"

#define SCHEMA   "assay manifest"
#define VERSION  1
#define MAX_TEXT ((size_t)256 << 20)

/* ---- paths ---------------------------------------------------------------------------------- */

/* Whether the artefact is a folder. One that is not there: has it a folder's manifest? */
static bool is_folder(const char *artefact)
{
    size_t n = strlen(artefact);
    return file_is_dir(artefact) || (n && artefact[n - 1] == '/');
}

char *manifest_path(struct arena *a, const char *artefact)
{
    if (is_folder(artefact))
        return path_join(a, artefact, "manifest.json");
    return arena_printf(a, "%s.manifest.json", artefact);
}

const char *manifest_folder(struct arena *a, const char *artefact)
{
    return is_folder(artefact) ? artefact : path_dir(a, artefact);
}

/* Absolute, without ".", ".." and doubled slashes, as parts. */
static struct strs path_parts(struct arena *a, const char *path)
{
    char cwd[4096] = "/";
    if (path[0] != '/' && !getcwd(cwd, sizeof cwd))
        cwd[0] = '\0';
    struct str rest = str_z(path[0] == '/' ? path : arena_printf(a, "%s/%s", cwd, path));
    struct strs parts = {arena_array(a, rest.n / 2 + 1, sizeof *parts.v), 0};
    while (rest.n) {
        struct str part = str_cut(&rest, '/');
        if (str_eqz(part, "..") && parts.n)
            parts.n--;
        else if (part.n && !str_eqz(part, ".") && !str_eqz(part, ".."))
            parts.v[parts.n++] = part;
    }
    return parts;
}

const char *path_relative(struct arena *a, const char *from, const char *path)
{
    struct strs f = path_parts(a, from), p = path_parts(a, path);
    struct buf b = {0};
    size_t same = 0;
    while (same < f.n && same < p.n && str_eq(f.v[same], p.v[same]))
        same++;
    for (size_t i = same; i < f.n; i++)
        buf_addz(&b, "../");
    for (size_t i = same; i < p.n; i++) {
        buf_adds(&b, p.v[i]);
        buf_addc(&b, '/');
    }
    if (b.n)
        buf_cut(&b, b.n - 1);
    const char *out = b.n ? str_dup(a, buf_str(&b)) : ".";
    buf_release(&b);
    return out;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool is_hex64(struct str s)
{
    if (s.n != 64)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!strchr("0123456789abcdef", s.p[i]) || !s.p[i])
            return false;
    return true;
}

/* A name that stays inside the folder. */
static bool inside(struct str path)
{
    if (!path.n || path.p[0] == '/' || memchr(path.p, 0, path.n))
        return false;
    while (path.n)
        if (str_eqz(str_cut(&path, '/'), ".."))
            return false;
    return true;
}

static int manifest_check(const struct json *doc, struct err *e)
{
    struct str s;
    if (json_kind(doc) != JSON_OBJ || !str_eqz(json_str(json_get(doc, "schema")), SCHEMA))
        return err_set(e, "not a manifest: \"schema\" is not \"" SCHEMA "\"");
    if (json_int(json_get(doc, "version"), -1) != VERSION)
        return err_set(e, "want manifest version %d, file has %lld", VERSION,
                       (long long)json_int(json_get(doc, "version"), -1));
    if (json_need_str(doc, "command", &s, e) || json_need_str(doc, "key", &s, e))
        return -1;
    if (!is_hex64(s) || !is_hex64(json_str(json_get(doc, "hash"))))
        return err_set(e, "\"key\" or \"hash\" is not a SHA-256 in hex");
    const struct json *out = json_get(doc, "outputs");
    if (json_kind(out) != JSON_ARR)
        return err_set(e, "\"outputs\" is not an array");
    for (size_t i = 0; i < json_size(out); i++) {
        const struct json *o = json_at(out, i);
        if (!inside(json_str(json_get(o, "path"))) || !is_hex64(json_str(json_get(o, "sha256"))) ||
            json_int(json_get(o, "bytes"), -1) < 0)
            return err_set(e, "\"outputs\"[%zu] is no path, bytes and sha256", i);
    }
    return 0;
}

struct json *manifest_read(const char *artefact, struct err *e)
{
    struct arena a = {0};
    const char *path = manifest_path(&a, artefact);
    struct json *doc = NULL;
    if (!file_exists(path)) {
        err_set(e, "%s: no manifest (%s)", artefact, path);
        goto out;
    }
    doc = json_read(path, e);
    if (doc && manifest_check(doc, e)) {
        err_wrap(e, "%s", path);
        json_free(doc);
        doc = NULL;
    }
out:
    arena_release(&a);
    return doc;
}

/* ---- hashing -------------------------------------------------------------------------------- */

/* Adds "NAME\nHASH\n" of each file below dir in name order; hidden files are scratch. */
static int folder_add(struct sha256 *h, const char *dir, const char *prefix, int depth,
                      struct err *e)
{
    struct arena a = {0};
    struct strs names;
    int rc = -1;
    if (depth > 64) {
        err_set(e, "%s: folders nested deeper than 64", dir);
        goto out;
    }
    if (file_list(dir, &names, &a, e))
        goto out;
    for (size_t i = 0; i < names.n; i++) {
        char hex[SHA256_HEX];
        if (!names.v[i].n || names.v[i].p[0] == '.')
            continue;
        const char *name = arena_printf(&a, "%s%.*s", prefix, STR_ARG(names.v[i]));
        const char *path = path_join(&a, dir, str_dup(&a, names.v[i]));
        if (file_is_dir(path)) {
            if (folder_add(h, path, arena_printf(&a, "%s/", name), depth + 1, e))
                goto out;
            continue;
        }
        if (sha256_file(path, hex, e))
            goto out;
        sha256_add(h, name, strlen(name));
        sha256_add(h, "\n", 1);
        sha256_add(h, hex, 64);
        sha256_add(h, "\n", 1);
    }
    rc = 0;
out:
    arena_release(&a);
    return rc;
}

/* What is read only by a training that goes on, and is most of a checkpoint's bytes. */
static bool is_aside(struct str path)
{
    return str_ends(path, "optimizer.safetensors");
}

/* Whether the outputs that are here are those that the manifest speaks of: by their size, and where
 * `whole` is asked by their bytes. Those that are not here are missed by who reads them. */
static int outputs_same(const char *artefact, const struct json *doc, bool whole, struct err *e)
{
    const struct json *out = json_get(doc, "outputs");
    struct arena a = {0};
    int rc = 0;
    for (size_t i = 0; i < json_size(out) && rc == 0; i++) {
        const struct json *o = json_at(out, i);
        struct str name = json_str(json_get(o, "path"));
        const char *path = path_join(&a, manifest_folder(&a, artefact), str_dup(&a, name));
        const char *man = manifest_path(&a, artefact);
        int64_t want = json_int(json_get(o, "bytes"), -1), has = file_size(path);
        char hex[SHA256_HEX];
        if (!file_exists(path) || is_aside(name))
            continue;
        if (has != want)
            rc =
                err_set(e,
                        "%s: %lld bytes, its manifest says %lld: it was written over. Delete %s if "
                        "the new file is meant, or put the old one back",
                        path, (long long)has, (long long)want, man);
        else if (whole && sha256_file(path, hex, e))
            rc = -1;
        else if (whole && !str_eqz(json_str(json_get(o, "sha256")), hex))
            rc = err_set(e,
                         "%s: its SHA-256 is %.12s, its manifest says %.12s: it was written over. "
                         "Delete %s if the new file is meant, or put the old one back",
                         path, hex, str_dup(&a, json_str(json_get(o, "sha256"))), man);
    }
    arena_release(&a);
    return rc;
}

int manifest_whole(const char *artefact, struct err *e)
{
    struct arena a = {0};
    struct json *doc = NULL;
    int rc = 0;
    if (file_exists(manifest_path(&a, artefact))) {
        doc = manifest_read(artefact, e);
        rc = doc ? outputs_same(artefact, doc, true, e) : -1;
    }
    json_free(doc);
    arena_release(&a);
    return rc;
}

int manifest_hash(const char *artefact, char hex[SHA256_HEX], struct err *e)
{
    struct arena a = {0};
    int rc = -1;
    if (file_exists(manifest_path(&a, artefact))) {
        struct json *doc = manifest_read(artefact, e);
        if (doc && outputs_same(artefact, doc, false, e) == 0) {
            memcpy(hex, json_str(json_get(doc, "hash")).p, 64);
            hex[64] = '\0';
            rc = 0;
        }
        json_free(doc);
    } else if (file_is_dir(artefact)) {
        struct sha256 h;
        sha256_begin(&h);
        rc = folder_add(&h, artefact, "", 0, e);
        sha256_end_hex(&h, hex);
    } else {
        rc = sha256_file(artefact, hex, e);
    }
    arena_release(&a);
    return rc;
}

/* One output of a manifest. 0 the same, 1 absent, -1 it differs. */
static int output_verify(const char *path, const struct json *o, struct err *e)
{
    char hex[SHA256_HEX];
    int64_t want = json_int(json_get(o, "bytes"), -1), has = file_size(path);
    if (!file_exists(path))
        return 1;
    if (has != want)
        return err_set(e, "%s: %lld bytes, its manifest says %lld", path, (long long)has,
                       (long long)want);
    if (sha256_file(path, hex, e))
        return -1;
    if (!str_eqz(json_str(json_get(o, "sha256")), hex))
        return err_set(e, "%s: SHA-256 is %s, its manifest says %.*s", path, hex,
                       STR_ARG(json_str(json_get(o, "sha256"))));
    return 0;
}

int manifest_verify(const char *artefact, struct manifest_seen *seen, struct err *e)
{
    struct arena a = {0};
    const char *missing = NULL;
    struct json *doc = manifest_read(artefact, e);
    int rc = -1;
    *seen = (struct manifest_seen){0};
    if (!doc)
        return -1;
    const struct json *out = json_get(doc, "outputs");
    for (size_t i = 0; i < json_size(out); i++) {
        const struct json *o = json_at(out, i);
        const char *name = str_dup(&a, json_str(json_get(o, "path")));
        const char *path = path_join(&a, manifest_folder(&a, artefact), name);
        int got = output_verify(path, o, e);
        if (got < 0)
            goto out;
        if (got > 0 && !missing)
            missing = path;
        if (got == 0) {
            seen->files++;
            seen->bytes += json_int(json_get(o, "bytes"), 0);
        }
    }
    seen->sealed = missing && !seen->files;
    if (missing && !seen->sealed) {
        err_set(e, "%s: missing, its manifest names it", missing);
        goto out;
    }
    rc = 0;
out:
    json_free(doc);
    arena_release(&a);
    return rc;
}
