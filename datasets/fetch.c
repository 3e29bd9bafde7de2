/* fetch: see fetch.h.
 *
 * The key of the stage is the name or URL, the wanted hash and the number of files; a mirror is not
 * part of it, since the bytes are the same wherever they come from. A file that has its final name is
 * whole (base/http.h), so that an interrupted fetch of many files goes on with the first missing one.
 */
#include "datasets/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/http.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stream.h"
#include "base/thread.h"
#include "datasets/sources.h"
#include "formats/manifest.h"

enum { PIECE = 1 << 20 };

/* One file on its way. */
struct item {
    const char *from; /* URL or path */
    const char *to;
    const char *sha256; /* NULL: not known before */
    char sha[SHA256_HEX];
};

static bool is_http(const char *s)
{
    return strncasecmp(s, "http://", 7) == 0 || strncasecmp(s, "https://", 8) == 0;
}

/* The path of a file URL, or s itself if it is none. */
static const char *local_path(const char *s, struct arena *a)
{
    static const char hex[] = "0123456789abcdef";
    char *out, *to;

    if (strncasecmp(s, "file://", 7) != 0)
        return s;
    s += strncasecmp(s, "file://localhost/", 17) == 0 ? 16 : 7;
    out = to = arena_strdup(a, s);
    for (; *s; s++) { /* RFC 8089: %20 and the like */
        const char *hi = s[0] == '%' && s[1] ? strchr(hex, s[1] | 32) : NULL;
        const char *lo = hi && s[2] ? strchr(hex, s[2] | 32) : NULL;
        *to++ = lo ? (char)((hi - hex) << 4 | (lo - hex)) : *s;
        s += lo ? 2 : 0;
    }
    *to = '\0';
    return out;
}

/* ---- one file ---- */

static void on_progress(void *ctx, int64_t got, int64_t total)
{
    struct progress *p = ctx;

    if (!p->open)
        progress_begin(p, "fetch", "B", total > 0 ? (double)total : 0, (double)got);
    progress_set(p, (double)got, NULL);
}

static int mismatch(const struct item *it, const char *sha, struct err *e)
{
    return err_set(e, "%s: SHA-256 is %s, want %s; nothing was written", it->from, sha, it->sha256);
}

static int copy_file(struct item *it, struct err *e)
{
    struct progress bar = {0};
    struct file_out out = {0};
    struct sha256 h;
    struct file_map in;
    int ret = -1;

    if (file_map(it->from, &in, e) != 0)
        return -1;
    if (file_create(&out, it->to, e) != 0)
        goto out;
    sha256_begin(&h);
    for (size_t at = 0; at < in.n; at += PIECE) {
        size_t n = in.n - at < PIECE ? in.n - at : PIECE;
        sha256_add(&h, in.p + at, n);
        if (file_put(&out, in.p + at, n, e) != 0)
            break;
        if (interrupt_raised()) {
            err_code(e, EXIT_INCOMPLETE, "interrupted while copying %s", it->from);
            out.failed = true;
            break;
        }
        on_progress(&bar, (int64_t)(at + n), (int64_t)in.n);
    }
    sha256_end_hex(&h, it->sha);
    if (out.failed)
        goto out;
    if (it->sha256 && strcasecmp(it->sha, it->sha256) != 0) {
        mismatch(it, it->sha, e);
        goto out;
    }
    ret = file_commit(&out, e);
out:
    if (bar.open)
        progress_end(&bar);
    if (ret != 0)
        file_abort(&out);
    file_unmap(&in);
    return ret;
}

/* True if the file is there already: with the wanted hash, or, of a source without known hashes,
 * under its final name. */
static bool already(struct item *it, bool trust_name)
{
    struct err e;

    if (!file_exists(it->to) || file_is_dir(it->to) || (!it->sha256 && !trust_name))
        return false;
    if (sha256_file(it->to, it->sha, &e) != 0)
        return false;
    if (it->sha256 && strcasecmp(it->sha, it->sha256) != 0) {
        log_info("%s is there with another SHA-256; it is fetched again", it->to);
        return false;
    }
    return true;
}

static int bring(struct item *it, int64_t tries, struct err *e)
{
    struct progress bar = {0};
    struct http_download d = {.url = it->from,
                              .path = it->to,
                              .sha256 = it->sha256,
                              .tries = (int)tries,
                              .progress = on_progress,
                              .ctx = &bar};
    int ret;

    if (!is_http(it->from))
        return copy_file(it, e);
    if (file_mkdirs_for(it->to, e) != 0)
        return -1;
    ret = http_download(&d, it->sha, e);
    if (bar.open)
        progress_end(&bar);
    return ret;
}

/* ---- where from, where to ---- */

/* File i of a source: from its host, or from the mirror. A folder may hold the files under their
 * full paths or flat. */
static const char *source_from(const struct source *s, const char *path, const char *mirror,
                               struct arena *a)
{
    const char *full, *flat;

    if (!*mirror)
        return arena_printf(a, "%s/%s", s->host, path);
    if (is_http(mirror)) {
        size_t n = strlen(mirror);
        return arena_printf(a, "%.*s/%s", (int)(n && mirror[n - 1] == '/' ? n - 1 : n), mirror,
                            path);
    }
    full = path_join(a, local_path(mirror, a), path);
    flat = path_join(a, local_path(mirror, a), path_base(path));
    return !file_exists(full) && file_exists(flat) ? flat : full;
}

/* --out of a single file may be a folder: then the file keeps its name. */
static const char *file_target(const char *out, const char *from, struct arena *a)
{
    size_t n = strlen(out);

    if ((n && out[n - 1] == '/') || file_is_dir(out)) {
        const char *name = path_base(from);
        return path_join(a, out, arena_bytes(a, name, strcspn(name, "?#")));
    }
    return out;
}

static int check_sha(const char *sha, struct err *e)
{
    if (*sha && (strlen(sha) != 64 || strspn(sha, "0123456789abcdefABCDEF") != 64))
        return err_code(e, EXIT_USAGE, "--sha256 \"%.80s\": want 64 hex digits", sha);
    return 0;
}

/* ---- the stage ---- */

static void record(struct stage *st, const struct item *it)
{
    struct buf shown = {0};
    struct json *f = json_obj();

    http_show(it->from, &shown);
    json_put(f, "file", json_of_z(path_base(it->to)));
    json_put(f, "sha256", json_of_z(it->sha));
    json_put(f, "pinned", json_of_bool(it->sha256 != NULL));
    json_push((struct json *)json_get(st->facts, "files"), f);
    json_push((struct json *)json_get(st->vol, "from"), json_of_str(buf_str(&shown)));
    printf("%s  %s\n", it->sha, it->to);
    if (!it->sha256)
        log_info("%s: no hash was known before; the one that arrived is in the manifest, unpinned",
                 it->to);
    buf_release(&shown);
}

static int run_stage(struct stage *st, struct item *items, size_t n, bool trust_name, int64_t tries,
                     struct err *e)
{
    if (stage_fresh(st))
        return 0;
    if (stage_start(st, e) != 0)
        return -1;
    stage_fact(st, "files", json_arr());
    stage_volatile(st, "from", json_arr());
    for (size_t i = 0; i < n; i++) {
        if (interrupt_raised())
            return err_code(e, EXIT_INCOMPLETE, "interrupted; %zu of %zu files are here", i, n);
        if (already(&items[i], trust_name))
            log_info("%s is here already", items[i].to);
        else if (bring(&items[i], tries, e) != 0)
            return n > 1 ? err_wrap(e, "file %zu of %zu", i + 1, n) : -1;
        record(st, &items[i]);
        if (stage_output(st, items[i].to, e) != 0)
            return -1;
    }
    return stage_end(st, e);
}

static int source_stage(const struct source *s, const struct fetch *f, struct arena *a,
                        struct err *e)
{
    size_t n = source_count(s);
    bool many = n > 1;
    struct stage st = {0};
    const char *out = f->out;

    if (*f->sha256)
        return err_code(e, EXIT_USAGE,
                        "--sha256 goes with a URL; the hashes of %s are in the table", s->name);
    if (f->files > 0 && (size_t)f->files < n)
        n = (size_t)f->files;
    if (many && file_exists(out) && !file_is_dir(out))
        return err_set(e, "%s has several files and wants a folder; %s is a file", s->name, out);
    struct item *items = arena_array(a, n, sizeof *items);
    for (size_t i = 0; i < n; i++) {
        const char *path = source_path(s, i, &items[i].sha256, a);
        items[i].from = source_from(s, path, f->mirror, a);
        if (!many)
            out = file_target(f->out, path, a);
        items[i].to = many ? path_join(a, out, path_base(path)) : out;
    }
    if (many && file_mkdirs(out, e) != 0)
        return -1;
    stage_begin(&st, "fetch", 1, out, NULL, NULL);
    stage_setting(&st, "source", s->name);
    stage_setting(&st, "files", arena_printf(a, "%zu", n));
    int ret = run_stage(&st, items, n, many, f->tries, e);
    stage_release(&st);
    return ret;
}

int fetch_source(const struct source *s, const struct fetch *f, struct err *e)
{
    struct arena a = {0};
    int ret = source_stage(s, f, &a, e);

    arena_release(&a);
    return ret;
}

static int fetch_url(const struct fetch *f, struct arena *a, struct err *e)
{
    struct item it = {.from = is_http(f->what) ? f->what : local_path(f->what, a),
                      .sha256 = *f->sha256 ? f->sha256 : NULL};
    struct stage st = {0};
    struct buf shown = {0};
    char whole[SHA256_HEX];
    int ret = 0;

    if (*f->mirror)
        return err_code(e, EXIT_USAGE, "--mirror goes with the name of a source, not with a URL");
    it.to = file_target(f->out, it.from, a);
    if (!*path_base(it.to))
        return err_code(e, EXIT_USAGE, "--out %s: the URL has no file name, give one", f->out);
    stage_begin(&st, "fetch", 1, it.to, NULL, NULL);
    if (is_http(it.from)) { /* the manifest shows no key, but another query is another file */
        http_show(it.from, &shown);
        sha256_hex(str_z(it.from), whole);
        stage_setting(&st, "url", shown.p);
        stage_setting(&st, "url_sha256", whole);
    } else if (file_is_dir(it.from)) {
        ret = err_set(e, "%s is a folder, want a file", it.from);
    } else {
        ret = stage_input(&st, it.from, e);
    }
    stage_setting(&st, "sha256", f->sha256);
    if (ret == 0)
        ret = run_stage(&st, &it, 1, false, f->tries, e);
    stage_release(&st);
    buf_release(&shown);
    return ret;
}

int fetch_run(const struct fetch *f, struct err *e)
{
    const struct source *s = source_find(f->what);
    struct arena a = {0};
    int ret;

    if (check_sha(f->sha256, e) != 0)
        return -1;
    if (s) {
        ret = fetch_source(s, f, e);
    } else if (strstr(f->what, "://") || strchr(f->what, '/') || file_exists(f->what)) {
        if (strstr(f->what, "://") && !is_http(f->what) && strncasecmp(f->what, "file://", 7) != 0)
            ret = err_code(e, EXIT_USAGE, "%.*s: only http, https and file URLs are fetched",
                           (int)strcspn(f->what, ":"), f->what);
        else
            ret = fetch_url(f, &a, e);
    } else {
        const char *near = source_near(f->what);
        ret = err_code(e, EXIT_USAGE,
                       near ? "\"%.60s\" is no known source; did you mean \"%s\"?"
                            : "\"%.60s\" is no known source%s; `assay fetch --list` shows them",
                       f->what, near ? near : " and no file");
    }
    arena_release(&a);
    return ret;
}
