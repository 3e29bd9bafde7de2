/* tree: paths, folders and what is in them. The other half of base/file.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_os.h"
#include "base/mem.h"

char *path_join(struct arena *a, const char *dir, const char *b)
{
    size_t n = strlen(dir);

    if (b[0] == '/' || n == 0)
        return arena_strdup(a, b);
    return arena_printf(a, dir[n - 1] == '/' ? "%s%s" : "%s/%s", dir, b);
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

char *path_dir(struct arena *a, const char *path)
{
    const char *base = path_base(path);
    size_t n = (size_t)(base - path);

    if (n == 0)
        return arena_strdup(a, ".");
    while (n > 1 && path[n - 1] == '/')
        n--;
    return arena_bytes(a, path, n);
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int64_t file_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

double file_mtime(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return -1;
    return (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec * 1e-9;
}

int file_mkdirs(const char *path, struct err *e)
{
    char *p = mem_strdup(path);
    int ret = 0;

    for (char *at = p; ret == 0 && *at;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char keep = *at;
        *at = '\0';
        if (*p && mkdir(p, 0777) != 0) {
            int why = errno;
            if (!file_is_dir(p) && why == EEXIST)
                ret = err_set(e, "make folder %s: there is a file of this name", p);
            else if (!file_is_dir(p)) {
                errno = why;
                ret = err_sys(e, "make folder %s", p);
            }
        }
        *at = keep;
    }
    free(p);
    return ret;
}

int file_mkdirs_for(const char *path, struct err *e)
{
    struct arena a = {0};
    int ret = file_mkdirs(path_dir(&a, path), e);

    arena_release(&a);
    return ret;
}

/* Walks the tree under path, children before their folder. act gets every entry once. */
static int walk(const char *path, int (*act)(const FTSENT *f, struct err *e), struct err *e)
{
    char *roots[2] = {mem_strdup(path), NULL};
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    FTSENT *f;
    int ret = 0;

    if (!fts)
        ret = err_sys(e, "open folder %s", path);
    errno = 0;
    while (ret == 0 && (f = fts_read(fts))) {
        if (f->fts_info == FTS_ERR || f->fts_info == FTS_DNR || f->fts_info == FTS_NS) {
            errno = f->fts_errno;
            ret = errno == ENOENT ? 0 : err_sys(e, "read %s", f->fts_path);
        } else if (f->fts_info != FTS_D) {
            ret = act(f, e);
        }
        errno = 0;
    }
    if (ret == 0 && errno && errno != ENOENT)
        ret = err_sys(e, "read folder %s", path);
    if (fts)
        fts_close(fts);
    free(roots[0]);
    return ret;
}

static int remove_one(const FTSENT *f, struct err *e)
{
    if (remove(f->fts_path) != 0 && errno != ENOENT)
        return err_sys(e, "remove %s", f->fts_path);
    return 0;
}

int file_remove_tree(const char *path, struct err *e)
{
    struct stat st;

    if (lstat(path, &st) != 0 && errno == ENOENT)
        return 0;
    return walk(path, remove_one, e);
}

static int by_bytes(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

int file_list(const char *dir, struct strs *names, struct arena *a, struct err *e)
{
    DIR *d = opendir(dir);
    struct dirent *de;
    size_t cap = 0;
    struct str *v = NULL;

    *names = (struct strs){0};
    if (!d)
        return err_sys(e, "open folder %s", dir);
    errno = 0;
    while ((de = readdir(d))) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
            file_tmp_pid(de->d_name))
            continue;
        if (names->n == cap) {
            cap = cap ? 2 * cap : 64;
            v = mem_grow(v, cap * sizeof *v);
        }
        v[names->n++] = str_copy(a, str_z(de->d_name));
        errno = 0;
    }
    int why = errno;
    closedir(d);
    if (names->n) {
        qsort(v, names->n, sizeof *v, by_bytes);
        names->v = arena_array(a, names->n, sizeof *v);
        memcpy(names->v, v, names->n * sizeof *v);
    }
    free(v);
    errno = why;
    return why ? err_sys(e, "read folder %s", dir) : 0;
}

static int sync_one(const FTSENT *f, struct err *e)
{
    if (f->fts_info == FTS_SL || f->fts_info == FTS_SLNONE)
        return 0; /* a link is part of its folder */
    int fd = file_open_fd(f->fts_path, O_RDONLY), ret = 0;
    if (fd < 0)
        return err_sys(e, "open %s", f->fts_path);
    if (file_os()->sync(fd) != 0 && errno != EINVAL)
        ret = err_sys(e, "sync %s", f->fts_path);
    close(fd);
    return ret;
}

int file_rename_dir(const char *from, const char *to, struct err *e)
{
    struct stat st;

    if (!file_is_dir(from))
        return err_set(e, "rename %s: there is no such folder", from);
    if (lstat(to, &st) == 0)
        return err_set(e, "rename %s to %s: it is there already", from, to);
    if (file_mkdirs_for(to, e) != 0 || walk(from, sync_one, e) != 0)
        return -1;
    if (file_os()->rename(from, to) != 0)
        return err_sys(e, "rename %s to %s", from, to);
    return file_sync_dir_of(to, e);
}

int file_symlink(const char *target, const char *path, struct err *e)
{
    struct stat st;

    if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
        return err_set(e, "link %s: there is something else of this name", path);
    if (file_mkdirs_for(path, e) != 0)
        return -1;
    file_sweep(path);
    char *tmp = file_tmp_name(path);
    int ret = 0;
    unlink(tmp);
    if (symlink(target, tmp) != 0)
        ret = err_sys(e, "link %s", path);
    else if (file_os()->rename(tmp, path) != 0)
        ret = err_sys(e, "rename to %s", path);
    else
        ret = file_sync_dir_of(path, e);
    unlink(tmp);
    free(tmp);
    return ret;
}

int file_touch(const char *path, struct err *e)
{
    return utimensat(AT_FDCWD, path, NULL, 0) == 0 ? 0 : err_sys(e, "touch %s", path);
}

int file_outdate(const char *path, struct err *e)
{
    struct timespec t[2] = {{.tv_sec = 1}, {.tv_sec = 86400}}; /* 0 is no time to some makes */
    return utimensat(AT_FDCWD, path, t, 0) == 0 ? 0 : err_sys(e, "date %s back", path);
}

int64_t disk_free(const char *path)
{
    struct arena a = {0};
    struct statvfs v;
    int64_t free_bytes = -1;

    /* A path that is not there yet is asked for through the folder that will hold it. */
    for (const char *at = path;; at = path_dir(&a, at)) {
        if (statvfs(at, &v) == 0) {
            free_bytes = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
            break;
        }
        if (errno != ENOENT || strcmp(at, ".") == 0 || strcmp(at, "/") == 0)
            break;
    }
    arena_release(&a);
    return free_bytes;
}
