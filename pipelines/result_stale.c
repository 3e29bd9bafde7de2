/* result_stale: whether an artefact of a run is of the run that is there. A run that is trained again
 * keeps the losses and scores of the one before until its own take their place; a result of both would
 * say the old one's figures beside the new one's options.
 */
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "pipelines/result_collect.h"

enum { DEEPEST = 8 }; /* links from a score back to the data: five */

/* "eval" and "../pretrain/latest" give "pretrain/latest"; NULL: outside of the run's folder. */
static const char *inside(const char *folder, const char *input, struct arena *a)
{
    struct str rest = str_z(path_join(a, folder, input)), part;
    char *out = arena_array(a, rest.n + 2, 1);
    size_t n = 0;
    if (*input == '/')
        return NULL;
    while (rest.n) {
        part = str_cut(&rest, '/');
        if (!part.n || str_eqz(part, "."))
            continue;
        if (!str_eqz(part, "..")) {
            out[n++] = '/';
            memcpy(out + n, part.p, part.n);
            n += part.n;
            continue;
        }
        if (!n)
            return NULL;
        while (out[--n] != '/')
            ;
    }
    out[n] = '\0';
    return n ? out + 1 : NULL;
}

static struct json *manifest_of(struct collector *c, const char *name)
{
    struct err ignored;
    const char *path = collect_path(c, name);
    return file_exists(manifest_path(c->a, path)) ? manifest_read(path, &ignored) : NULL;
}

/* Weights of a training that has gone, or is not at its end: no manifest speaks of them. */
static bool gone(struct collector *c, const char *name)
{
    struct str s = str_z(name);
    return (str_eqz(s, "pretrain") || str_starts(s, "pretrain/")) &&
           !file_exists(collect_path(c, "pretrain/manifest.json"));
}

static const char *stale(struct collector *c, const char *name, int depth);

/* One input of an artefact in `folder`; gives what of it is of another run, or NULL. */
static const char *stale_input(struct collector *c, const char *folder, const struct json *in,
                               int depth)
{
    const char *name = inside(folder, str_dup(c->a, json_str(json_get(in, "path"))), c->a);
    if (!name)
        return NULL;
    struct json *m = manifest_of(c, name);
    bool other =
        m ? !str_eq(json_str(json_get(m, "hash")), json_str(json_get(in, "hash"))) : gone(c, name);
    json_free(m);
    return other ? name : stale(c, name, depth + 1);
}

static const char *stale(struct collector *c, const char *name, int depth)
{
    struct json *m = depth < DEEPEST ? manifest_of(c, name) : NULL;
    const struct json *in = json_get(m, "inputs");
    bool folder = file_is_dir(collect_path(c, name));
    const char *up = path_dir(c->a, name), *what = NULL;
    for (size_t i = 0; !what && i < json_size(in); i++)
        what = stale_input(c, folder ? name : up, json_at(in, i), depth);
    bool none = m && !json_size(in);
    json_free(m);
    /* A checkpoint names no inputs; the training that it lies in does. */
    return what || !none || str_eqz(str_z(up), ".") ? what : stale(c, up, depth + 1);
}

bool collect_stale(struct collector *c, const char *artefact)
{
    const char *name = artefact + strlen(c->dir) + 1, *what = stale(c, name, 0);
    if (!what)
        return false;
    log_warn("%s: %s was made from another %s than the one that is there: it is left out; run the "
             "stages again",
             c->dir, name, what);
    return true;
}
