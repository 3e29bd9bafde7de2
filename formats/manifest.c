/* manifest: the life of a stage, from its key to the manifest that ends it.
 *
 * The key text is what decides the result, line by line; its SHA-256 is the key. Outputs are
 * hashed when they are added, so a manifest speaks of bytes that were on the disk.
 */
#include "formats/manifest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "formats/build.h"
#include "formats/manifest_path.h"

#define SCHEMA  "assay manifest"
#define VERSION 1

/* ---- beginning ------------------------------------------------------------------------------ */

void stage_begin(struct stage *st, const char *command, int version, const char *out,
                 const struct schema *options, const void *opt)
{
    *st = (struct stage){.command = command, .out = out, .version = version};
    st->started = clock_now();
    st->doc = json_obj();
    json_put(st->doc, "schema", json_of_z(SCHEMA));
    json_put(st->doc, "version", json_of_int(VERSION));
    json_put(st->doc, "command", json_of_z(command));
    json_put(st->doc, "stage_version", json_of_int(version));
    json_put(st->doc, "key", json_of_z("")); /* its place; the value comes in stage_key */
    json_put(st->doc, "options", options ? json_of_struct(options, opt, true) : json_obj());
    st->given = json_arr();
    st->inputs = json_arr();
    st->outputs = json_arr();
    st->facts = json_obj();
    st->vol = json_obj();
    json_put(st->doc, "inputs", st->inputs);
    json_put(st->doc, "outputs", st->outputs);
    json_put(st->doc, "facts", st->facts);
    buf_printf(&st->key_text, "command = %s\nstage_version = %d\n", command, version);
    if (options)
        schema_canonical(options, opt, &st->key_text);
}

static struct json *options_of(struct stage *st)
{
    return (struct json *)json_get(st->doc, "options");
}

void stage_options(struct stage *st, const char *name, const struct schema *s, const void *opt)
{
    buf_printf(&st->key_text, "[%s]\n", name);
    schema_canonical(s, opt, &st->key_text);
    json_put(options_of(st), name, json_of_struct(s, opt, true));
}

void stage_setting(struct stage *st, const char *name, const char *value)
{
    buf_printf(&st->key_text, "setting %s = ", name);
    json_quote(str_z(value), &st->key_text); /* quoted: a value cannot look like two lines */
    buf_addc(&st->key_text, '\n');
    json_put(options_of(st), name, json_of_z(value));
}

int stage_input(struct stage *st, const char *path, struct err *e)
{
    char hex[SHA256_HEX];
    if (manifest_hash(path, hex, e))
        return -1;
    buf_printf(&st->key_text, "input %s\n", hex);
    struct json *in = json_obj();
    json_put(in, "path", json_of_z(path));
    json_put(in, "hash", json_of_z(hex));
    json_push(st->given, in);
    return 0;
}

int stage_input_whole(struct stage *st, const char *path, struct err *e)
{
    return manifest_whole(path, e) || stage_input(st, path, e) ? -1 : 0;
}

/* The inputs as the manifest names them: from the folder of `out`, which may not have been there
 * when they were given. */
static void stage_inputs(struct stage *st)
{
    struct arena a = {0};
    const char *from = manifest_folder(&a, st->out);
    for (size_t i = 0; i < json_size(st->given); i++) {
        const struct json *g = json_at(st->given, i);
        const char *path = str_dup(&a, json_str(json_get(g, "path")));
        struct json *in = json_obj();
        json_put(in, "path", json_of_z(path_relative(&a, from, path)));
        json_put(in, "hash", json_of_str(json_str(json_get(g, "hash"))));
        json_push(st->inputs, in);
    }
    arena_release(&a);
}

static void stage_key(struct stage *st)
{
    char hex[SHA256_HEX];
    sha256_hex(buf_str(&st->key_text), hex);
    json_put(st->doc, "key", json_of_z(hex));
}

/* ---- freshness ------------------------------------------------------------------------------ */

/* Of a manifest's outputs: how many it names, how many are there, how many with their size. */
struct presence {
    size_t all, here, right;
};

static struct presence outputs_here(const char *artefact, const struct json *doc)
{
    const struct json *out = json_get(doc, "outputs");
    struct arena a = {0};
    struct presence n = {.all = json_size(out)};
    for (size_t i = 0; i < n.all; i++) {
        struct str path = json_str(json_get(json_at(out, i), "path"));
        const char *full = path_join(&a, manifest_folder(&a, artefact), str_dup(&a, path));
        n.here += file_exists(full);
        n.right += file_size(full) == json_int(json_get(json_at(out, i), "bytes"), -2);
    }
    arena_release(&a);
    return n;
}

bool stage_fresh(struct stage *st)
{
    struct err e;
    struct arena a = {0};
    struct json *old = NULL;
    bool fresh = false;
    stage_key(st);
    const char *path = manifest_path(&a, st->out);
    if (!file_exists(path))
        goto out;
    old = manifest_read(st->out, &e);
    if (!old) {
        log_warn("%s; %s runs again", e.msg, st->command);
        goto out;
    }
    if (!str_eq(json_str(json_get(old, "key")), json_str(json_get(st->doc, "key"))))
        goto out;
    struct presence n = outputs_here(st->out, old);
    if (n.right < n.all && n.here > 0) {
        log_warn("%s: %zu of %zu files are missing or of another size; %s runs again", st->out,
                 n.all - n.right, n.all, st->command);
        goto out;
    }
    fresh = true;
    if (n.here < n.all)
        log_info(
            "%s: sealed, made elsewhere: its files are not here (remove its manifest to make it "
            "again)",
            st->out);
    else
        log_info("%s: up to date", st->out);
    if (file_touch(path, &e))
        log_warn("%s", e.msg);
out:
    json_free(old);
    arena_release(&a);
    return fresh;
}

/* The folder that `path` lies or would lie in, resolved; "" if there is none yet. */
static const char *real_folder(struct arena *a, const char *path)
{
    char *r = realpath(path_dir(a, path), NULL);
    const char *out = r ? arena_strdup(a, r) : "";
    free(r);
    return out;
}

static bool lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return n && strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}

/* Writing over an input would lose it: `out` may be neither an input, nor lie in an input folder, nor
 * be the folder of an input file that could get the name of an output. */
static int spare_inputs(struct stage *st, struct arena *a, struct err *e)
{
    char *out = realpath(st->out, NULL); /* NULL: not there yet */
    const char *around = real_folder(a, st->out);
    int rc = 0;
    for (size_t i = 0; i < json_size(st->given) && rc == 0; i++) {
        const char *in = str_dup(a, json_str(json_get(json_at(st->given, i), "path")));
        char *real = realpath(in, NULL);
        bool same = real && out && strcmp(real, out) == 0;
        bool inside = real && file_is_dir(real) && lies_in(around, real);
        bool holds =
            out && file_is_dir(out) && !file_is_dir(in) && !strcmp(real_folder(a, in), out);
        if (same || inside || holds)
            rc = err_code(e, EXIT_USAGE, "--out %s would write over the input %s", st->out, in);
        free(real);
    }
    free(out);
    return rc;
}

/* What another command made there is somebody's: it is not overwritten. */
static int spare_others(struct stage *st, const char *path, struct err *e)
{
    struct err ignored;
    struct json *doc = file_exists(path) ? manifest_read(st->out, &ignored) : NULL;
    struct str made = json_str(json_get(doc, "command"));
    int rc = 0;
    if (made.n && !str_eqz(made, st->command))
        rc = err_code(e, EXIT_USAGE,
                      "%s holds what `assay %.*s` made; take another --out, or remove it", st->out,
                      STR_ARG(made));
    json_free(doc);
    return rc;
}

/* A folder takes several files, so two writers would mix; a single file appears by rename. */
static int lock_folder(struct stage *st, struct err *e)
{
    int fd = open(st->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOTDIR || errno == ENOENT ? 0 : err_sys(e, "open %s", st->out);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return err_set(e, "%s: another process is writing it", st->out);
    }
    st->lock = fd + 1;
    return 0;
}

int stage_spare(struct stage *st, struct err *e)
{
    struct arena a = {0};
    int rc = spare_inputs(st, &a, e) || spare_others(st, manifest_path(&a, st->out), e) ? -1 : 0;
    arena_release(&a);
    return rc;
}

int stage_start(struct stage *st, struct err *e)
{
    struct arena a = {0};
    const char *path = manifest_path(&a, st->out);
    int rc = -1;
    if (stage_spare(st, e) || lock_folder(st, e))
        goto out;
    /* A file on the way to it is named when the folder is made. */
    rc = unlink(path) && errno != ENOENT && errno != ENOTDIR ? err_sys(e, "remove %s", path) : 0;
out:
    arena_release(&a);
    return rc;
}

bool manifest_can_name(const char *artefact, const char *path)
{
    struct arena a = {0};
    const char *rel = path_relative(&a, manifest_folder(&a, artefact), path);
    bool inside = strncmp(rel, "../", 3) != 0;
    arena_release(&a);
    return inside;
}

/* ---- outputs, facts, the end ---------------------------------------------------------------- */

int stage_output(struct stage *st, const char *path, struct err *e)
{
    char hex[SHA256_HEX];
    struct arena a = {0};
    if (sha256_file(path, hex, e))
        return -1;
    const char *rel = path_relative(&a, manifest_folder(&a, st->out), path);
    assert(strncmp(rel, "../", 3) != 0 && "outputs lie inside or beside the artefact");
    struct json *out = json_obj();
    json_put(out, "path", json_of_z(rel));
    json_put(out, "bytes", json_of_int(file_size(path)));
    json_put(out, "sha256", json_of_z(hex));
    json_push(st->outputs, out);
    arena_release(&a);
    return 0;
}

void stage_fact(struct stage *st, const char *name, struct json *v)
{
    json_put(st->facts, name, v);
}

void stage_volatile(struct stage *st, const char *name, struct json *v)
{
    json_put(st->vol, name, v);
}

/* SHA-256 over "PATH\nHASH\n" of the outputs in their order. */
static void outputs_hash(const struct json *outputs, char hex[SHA256_HEX])
{
    struct buf b = {0};
    for (size_t i = 0; i < json_size(outputs); i++) {
        const struct json *o = json_at(outputs, i);
        buf_adds(&b, json_str(json_get(o, "path")));
        buf_addc(&b, '\n');
        buf_adds(&b, json_str(json_get(o, "sha256")));
        buf_addc(&b, '\n');
    }
    sha256_hex(buf_str(&b), hex);
    buf_release(&b);
}

static void stage_provenance(struct stage *st)
{
    char when[32], host[256] = "";
    clock_iso(clock_system()->wall(clock_system()), when);
    gethostname(host, sizeof host - 1);
    json_put(st->vol, "made", json_of_z(when));
    json_put(st->vol, "seconds", json_of_num(round((clock_now() - st->started) * 1000) / 1000));
    json_put(st->vol, "host", json_of_z(host));
    json_put(st->vol, "assay", json_of_z(build_info.version));
    json_put(st->vol, "commit", json_of_z(build_info.commit));
    json_put(st->vol, "dirty", json_of_int(build_info.dirty));
}

int stage_end(struct stage *st, struct err *e)
{
    char hex[SHA256_HEX];
    struct arena a = {0};
    struct buf text = {0};
    stage_key(st);
    stage_inputs(st);
    outputs_hash(st->outputs, hex);
    json_put(st->doc, "hash", json_of_z(hex));
    stage_provenance(st);
    json_put(st->doc, "volatile", st->vol); /* last, so that the lines before it are comparable */
    st->vol = NULL;
    json_write_pretty(st->doc, &text);
    int rc = file_write_all(manifest_path(&a, st->out), buf_str(&text), e);
    buf_release(&text);
    arena_release(&a);
    return rc;
}

void stage_release(struct stage *st)
{
    if (st->lock)
        close(st->lock - 1);
    json_free(st->given);
    json_free(st->vol);
    json_free(st->doc);
    buf_release(&st->key_text);
    *st = (struct stage){0};
}
