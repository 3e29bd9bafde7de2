/* file: reading whole files and writing artefacts that appear whole or not at all.
 *
 * A temporary name in the same folder, fsync, rename, fsync of the folder: the order that survives
 * a kill and a power cut on the usual file systems. The writer holds flock(2) on its temporary
 * file, so that a sweep never takes the file of a writer that lives in another PID namespace.
 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_os.h"
#include "base/mem.h"

enum { OUT_BUFFER = 1 << 18, READ_STEP = 1 << 16 };

/* Opens for reading; a folder is an error here, not at the first read. */
static int open_in(const char *path, struct stat *st, struct err *e)
{
    int fd = file_open_fd(path, O_RDONLY);

    if (fd < 0)
        return err_sys(e, "open %s", path);
    if (fstat(fd, st) != 0) {
        err_sys(e, "stat %s", path);
        close(fd);
        return -1;
    }
    if (S_ISDIR(st->st_mode)) {
        close(fd);
        return err_set(e, "open %s: it is a folder, want a file", path);
    }
    return fd;
}

static int over_long(const char *path, size_t max, struct err *e)
{
    return err_set(e, "read %s: longer than the %zu bytes allowed here", path, max);
}

int file_read(const char *path, struct buf *out, size_t max, struct err *e)
{
    struct stat st;
    int fd = open_in(path, &st, e), ret = -1;

    buf_cut(out, 0);
    out->over = false;
    if (fd < 0)
        return -1;
    if (!max)
        max = (size_t)1 << 30;
    if (out->max && out->max < max)
        max = out->max;
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max) {
        over_long(path, max, e);
        goto out;
    }
    size_t step = S_ISREG(st.st_mode) && st.st_size ? (size_t)st.st_size : READ_STEP;
    for (;;) {
        char probe; /* one byte beyond the cap tells an over-long file from one that just fits */
        size_t left = max - out->n, n = step < left ? step : left;
        ssize_t got = read(fd, n ? buf_room(out, n) : &probe, n ? n : 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            err_sys(e, "read %s", path);
            goto out;
        }
        if (got == 0)
            break;
        if (n == 0) {
            over_long(path, max, e);
            goto out;
        }
        out->n += (size_t)got;
        step = READ_STEP; /* it grew, or it is a pipe */
    }
    ret = 0;
out:
    close(fd);
    if (ret != 0)
        out->n = 0;
    if (buf_room(out, 0))
        out->p[out->n] = '\0';
    return ret;
}

int file_map(const char *path, struct file_map *m, struct err *e)
{
    struct stat st;
    int fd = open_in(path, &st, e);
    void *p;

    *m = (struct file_map){0};
    if (fd < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(e, "map %s: not a regular file", path);
    }
    if (st.st_size == 0) {
        close(fd);
        return 0;
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return err_sys(e, "map %s", path);
    *m = (struct file_map){p, (size_t)st.st_size};
    return 0;
}

void file_unmap(struct file_map *m)
{
    if (m->p)
        munmap((void *)m->p, m->n);
    *m = (struct file_map){0};
}

/* ---- artefacts ---- */

void file_sweep(const char *path)
{
    struct arena a = {0};
    const char *dir = path_dir(&a, path);
    const char *want = arena_printf(&a, ".%s.tmp.", path_base(path));
    DIR *d = opendir(dir);
    struct dirent *de;

    while (d && (de = readdir(d))) {
        long pid = file_tmp_pid(de->d_name);
        if (!pid || pid == (long)getpid() || strncmp(de->d_name, want, strlen(want)) != 0 ||
            strlen(de->d_name) < strlen(want) || strchr(de->d_name + strlen(want), '.'))
            continue;
        if (kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        const char *tmp = path_join(&a, dir, de->d_name);
        int fd = file_open_fd(tmp, O_RDONLY | O_NOFOLLOW);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlink(tmp);
        if (fd >= 0)
            close(fd);
        else if (errno == ELOOP)
            unlink(tmp); /* a symlink of a killed file_symlink */
    }
    if (d)
        closedir(d);
    arena_release(&a);
}

int file_create(struct file_out *f, const char *path, struct err *e)
{
    struct stat st;
    const char *to = path;

    *f = (struct file_out){.fd = -1};
    if (!*path_base(path))
        return err_set(e, "create \"%s\": not the name of a file", path);
    if (file_mkdirs_for(path, e) != 0)
        return -1;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        return err_set(e, "create %s: there is a folder of this name", path);
    /* /dev/stdout, /dev/null, a pipe: written in place. A rename would replace the device. */
    bool direct = there && !S_ISREG(st.st_mode);
    if (!direct) {
        file_sweep(path);
        f->tmp = file_tmp_name(path);
        to = f->tmp;
    }
    f->path = mem_strdup(path);
    f->fd = file_open_fd(to, direct ? O_WRONLY : O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    if (f->fd < 0) {
        err_sys(e, "create %s", path);
        file_abort(f);
        return -1;
    }
    if (!direct)
        flock(f->fd, LOCK_EX | LOCK_NB); /* for file_sweep; without it only the PID protects */
    f->buf = mem_alloc(OUT_BUFFER);
    f->open = true;
    return 0;
}

static int out_write(struct file_out *f, const void *p, size_t n, struct err *e)
{
    if (file_write_full(f->fd, p, n) != 0) {
        f->failed = true;
        return err_sys(e, "write %s", f->path);
    }
    return 0;
}

static int out_flush(struct file_out *f, struct err *e)
{
    size_t n = f->n;

    f->n = 0;
    return n ? out_write(f, f->buf, n, e) : 0;
}

int file_put(struct file_out *f, const void *p, size_t n, struct err *e)
{
    if (!f->open || f->failed)
        return err_set(e, "write %s: it is not open or a write failed before",
                       f->path ? f->path : "?");
    f->written += (int64_t)n;
    if (n > OUT_BUFFER - f->n) {
        if (out_flush(f, e) != 0)
            return -1;
        if (n >= OUT_BUFFER)
            return out_write(f, p, n, e);
    }
    if (n)
        memcpy(f->buf + f->n, p, n);
    f->n += n;
    return 0;
}

int file_puts(struct file_out *f, struct str s, struct err *e)
{
    return file_put(f, s.p, s.n, e);
}

int file_commit(struct file_out *f, struct err *e)
{
    int ret = -1;

    if (!f->open || f->failed) {
        err_set(e, "write %s: it is not open or a write failed before", f->path ? f->path : "?");
        goto out;
    }
    if (out_flush(f, e) != 0)
        goto out;
    if (f->tmp && file_os()->sync(f->fd) != 0) {
        err_sys(e, "sync %s", f->path);
        goto out;
    }
    int fd = f->fd;
    f->fd = -1;
    if (close(fd) != 0 && errno != EINTR) { /* network file systems report a full disk here */
        err_sys(e, "close %s", f->path);
        goto out;
    }
    if (f->tmp) {
        if (file_os()->rename(f->tmp, f->path) != 0) {
            err_sys(e, "rename to %s", f->path);
            goto out;
        }
        free(f->tmp);
        f->tmp = NULL;
        if (file_sync_dir_of(f->path, e) != 0)
            goto out;
    }
    ret = 0;
out:
    file_abort(f);
    return ret;
}

void file_abort(struct file_out *f)
{
    if (f->path && f->fd >= 0) /* a zeroed one has fd 0, which is not ours */
        close(f->fd);
    if (f->tmp)
        unlink(f->tmp);
    free(f->tmp);
    free(f->path);
    free(f->buf);
    *f = (struct file_out){.fd = -1};
}

int file_write_all(const char *path, struct str s, struct err *e)
{
    struct file_out f;

    if (file_create(&f, path, e) != 0)
        return -1;
    if (file_puts(&f, s, e) != 0) {
        file_abort(&f);
        return -1;
    }
    return file_commit(&f, e);
}
