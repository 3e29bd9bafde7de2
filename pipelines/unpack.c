/* unpack: archives into run folders, see pack.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "pipelines/pack.h"
#include "pipelines/pack_private.h"
#include "pipelines/tar.h"

enum { MAX_LIST = 16 << 20 };

struct opener {
    struct tar t;
    struct json *doc;
    const struct json *files;
    struct map at; /* of paths */
    bool *seen;
    const char *tmp;
    struct packed *sum;
    struct arena *a;
};

static bool plain_name(struct str s)
{
    return s.n && s.p[0] != '.' && !memchr(s.p, '/', s.n) && !memchr(s.p, 0, s.n);
}

static int check_list(struct opener *u, struct err *e)
{
    const struct json *d = u->doc;
    if (!str_eqz(json_str(json_get(d, "schema")), PACK_SCHEMA))
        return err_set(e, "its packed.json is not the list of a pack");
    if (json_int(json_get(d, "version"), -1) != PACK_VERSION)
        return err_set(e, "want pack version %d, file has %lld", PACK_VERSION,
                       (long long)json_int(json_get(d, "version"), -1));
    u->files = json_get(d, "files");
    for (size_t i = 0; i < json_size(u->files); i++) {
        const struct json *f = json_at(u->files, i);
        struct str path = json_str(json_get(f, "path")), link = json_str(json_get(f, "link"));
        int added = 0;
        if (!path.n || memchr(path.p, 0, path.n) || !tar_name_ok(str_dup(u->a, path)) ||
            str_starts(path, "packed."))
            return err_set(e, "packed.json: \"%.*s\" can't be a file of a run", STR_ARG(path));
        if (link.n ? !plain_name(link) : json_str(json_get(f, "sha256")).n != 64)
            return err_set(e, "packed.json: %.*s has no hash and is no link within its folder",
                           STR_ARG(path));
        map_add(&u->at, path, (int64_t)i, &added);
        if (!added)
            return err_set(e, "packed.json: %.*s stands there twice", STR_ARG(path));
    }
    u->seen = mem_array(json_size(u->files) + 1, sizeof *u->seen);
    return 0;
}

/* The first file of the archive: whose run it is and what belongs to it. */
static int read_list(struct opener *u, struct err *e)
{
    struct tar_entry x;
    int got = tar_next(&u->t, &x, e);
    if (got < 0)
        return -1;
    struct str rest = str_z(x.name), run = got ? str_cut(&rest, '/') : (struct str){0};
    if (!got || !str_eqz(rest, "packed.json") || x.kind != '0' || !plain_name(run))
        return err_set(e, "its first file is not NAME/packed.json: not made by assay pack");
    if (x.size > MAX_LIST)
        return err_set(e, "its list is longer than %d bytes", MAX_LIST);
    char *text = arena_alloc(u->a, (size_t)x.size + 1);
    for (int64_t n = 0, k; n < x.size; n += k)
        if ((k = tar_read(&u->t, text + n, (size_t)(x.size - n), e)) < 0)
            return -1;
    if (!(u->doc = json_parse((struct str){text, (size_t)x.size}, e)))
        return -1;
    u->sum->run = str_copy(u->a, run);
    return check_list(u, e) || file_write_all(path_join(u->a, u->tmp, "packed.json"),
                                              (struct str){text, (size_t)x.size}, e)
               ? -1
               : 0;
}

static int one_file(struct opener *u, const struct json *f, const char *path, struct err *e)
{
    struct file_out out = {0};
    struct sha256 h;
    char hex[SHA256_HEX], *piece = mem_alloc(1 << 18);
    int64_t k, n = 0;
    int rc = -1;
    sha256_begin(&h);
    if (file_create(&out, path, e))
        goto out;
    while ((k = tar_read(&u->t, piece, 1 << 18, e)) > 0) {
        sha256_add(&h, piece, (size_t)k);
        n += k;
        if (file_put(&out, piece, (size_t)k, e))
            goto out;
    }
    rc = k < 0 ? -1 : 0;
out:
    sha256_end_hex(&h, hex);
    free(piece);
    if (rc == 0 && !str_eqz(json_str(json_get(f, "sha256")), hex))
        rc = err_set(e, "%.*s is damaged: its SHA-256 is %s",
                     STR_ARG(json_str(json_get(f, "path"))), hex);
    if (rc == 0)
        rc = file_commit(&out, e);
    if (rc)
        file_abort(&out);
    u->sum->files++;
    u->sum->bytes += n;
    return rc;
}

static int one_entry(struct opener *u, const struct tar_entry *x, struct err *e)
{
    struct str rest = str_z(x->name), run = str_cut(&rest, '/');
    ptrdiff_t i = str_eq(run, u->sum->run) ? map_find(&u->at, rest) : -1;
    if (i < 0)
        return err_set(e, "%s is not in its list", x->name);
    const struct json *f = json_at(u->files, (size_t)u->at.value[i]);
    struct str link = json_str(json_get(f, "link"));
    const char *path = path_join(u->a, u->tmp, str_dup(u->a, rest));
    if (u->seen[i])
        return err_set(e, "%s is in it twice", x->name);
    u->seen[i] = true;
    if (!link.n)
        return x->kind == '0' ? one_file(u, f, path, e)
                              : err_set(e, "%s is not the file of its list", x->name);
    if (x->kind != '2' || !str_eqz(link, x->target))
        return err_set(e, "%s is not the link of its list", x->name);
    return file_mkdirs_for(path, e) ? -1 : file_symlink(x->target, path, e);
}

/* Manifests whose outputs are not all in the list. */
static int64_t sealed_here(struct opener *u)
{
    int64_t left = 0;
    struct err ignored;
    for (size_t i = 0; i < json_size(u->files); i++) {
        const char *rel = str_dup(u->a, u->at.key[i]), *path = path_join(u->a, u->tmp, rel);
        struct buf text = {0};
        if (!pack_is_manifest(path_base(rel)) || file_read(path, &text, MAX_LIST, &ignored))
            continue;
        struct json *j = json_parse(buf_str(&text), &ignored);
        left += j && pack_lacks_output(j, rel, &u->at, u->a);
        json_free(j);
        buf_release(&text);
    }
    return left;
}

static int all_entries(struct opener *u, struct err *e)
{
    struct tar_entry x;
    int got;
    while ((got = tar_next(&u->t, &x, e)) == 1)
        if (x.kind != '5' && one_entry(u, &x, e))
            return -1;
    if (got < 0)
        return -1;
    for (size_t i = 0; i < json_size(u->files); i++)
        if (!u->seen[i])
            return err_set(e, "%.*s is missing in it", STR_ARG(u->at.key[i]));
    u->sum->left = sealed_here(u);
    const char *ini = path_join(u->a, u->tmp, "run.ini");
    struct buf text = {0};
    int rc = file_read(ini, &text, 0, e) ||
                     file_write_all(path_join(u->a, u->tmp, "packed.ini"), buf_str(&text), e)
                 ? -1
                 : 0;
    buf_release(&text);
    return rc;
}

/* The old folder steps aside, the new one takes its name, the old one goes. */
static int put_in_place(struct opener *u, const char *to, bool replace, struct err *e)
{
    const char *aside = arena_printf(u->a, "%s.old", u->tmp);
    if (!file_exists(to))
        return file_rename_dir(u->tmp, to, e);
    if (!replace)
        return err_set(e, "%s is there already; --replace puts the archive's in its place", to);
    if (pack_keep(to, u->tmp, &u->sum->kept, u->a, e))
        return -1;
    if (file_rename_dir(to, aside, e) || file_rename_dir(u->tmp, to, e))
        return -1;
    return file_remove_tree(aside, e);
}

int pack_open(const char *archive, const char *runs, bool replace, struct packed *sum,
              struct arena *a, struct err *e)
{
    struct opener u = {.sum = sum, .a = a};
    bool made = !file_exists(runs);
    int rc = -1;
    *sum = (struct packed){0};
    u.tmp = arena_printf(a, "%s/.unpack.%d", runs, (int)getpid());
    if (pack_sweep(runs, a, e) == 0 && tar_open(&u.t, archive, e) == 0 &&
        file_mkdirs(u.tmp, e) == 0) {
        rc = read_list(&u, e) || all_entries(&u, e) ? -1 : 0;
        if (rc && !str_starts(str_z(e->msg), archive)) /* the reader of tars names it */
            err_wrap(e, "%s", archive);
        if (rc == 0)
            rc = put_in_place(&u, path_join(a, runs, str_dup(a, sum->run)), replace, e);
    }
    if (rc) {
        struct err ignored;
        file_remove_tree(u.tmp, &ignored);
        if (made)
            rmdir(runs); /* it was made for this run alone */
    }
    tar_close(&u.t);
    map_release(&u.at);
    free(u.seen);
    json_free(u.doc);
    return rc;
}
