/* journal: files that grow in place, and the lock that lets one process do it.
 *
 * An append that fails half way is cut back at once, so that a full disk leaves whole records; a
 * killed one leaves a torn tail, which the reader finds and file_append_open cuts. The journal
 * itself is flocked while open: two writers would cut each other's tails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_os.h"
#include "base/mem.h"
#include "base/thread.h"

int file_append_open(const char *path, int64_t keep, int *fd, struct err *e)
{
    struct stat st;
    bool fresh = !file_exists(path);

    *fd = -1;
    if (file_mkdirs_for(path, e) != 0)
        return -1;
    int f = file_open_fd(path, O_RDWR | O_CREAT | O_APPEND);
    if (f < 0)
        return err_sys(e, "open %s for appending", path);
    if (fstat(f, &st) != 0) {
        err_sys(e, "stat %s", path);
        goto fail;
    }
    if (S_ISREG(st.st_mode)) {
        if (flock(f, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            err_set(e, "open %s for appending: another process is appending to it", path);
            goto fail;
        }
        if (fstat(f, &st) != 0) { /* again: the holder of the lock may have written */
            err_sys(e, "stat %s", path);
            goto fail;
        }
        if (keep > st.st_size) {
            err_set(e, "open %s for appending: %lld bytes, want at least %lld", path,
                    (long long)st.st_size, (long long)keep);
            goto fail;
        }
        if (keep >= 0 && keep < st.st_size) {
            if (ftruncate(f, keep) != 0) {
                err_sys(e, "cut the torn tail of %s", path);
                goto fail;
            }
            if (file_os()->sync(f) != 0) {
                err_sys(e, "sync %s", path);
                goto fail;
            }
        }
    }
    if (fresh && file_sync_dir_of(path, e) != 0)
        goto fail;
    *fd = f;
    return 0;
fail:
    close(f);
    return -1;
}

int file_append(int fd, const void *p, size_t n, const char *path, struct err *e)
{
    struct stat st;
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

    if (file_write_full(fd, p, n) == 0)
        return 0;
    err_sys(e, "append to %s", path);
    if (regular && ftruncate(fd, st.st_size) != 0)
        return -1; /* the torn part stays; the reader drops it */
    return -1;
}

int file_append_sync(int fd, const char *path, struct err *e)
{
    /* EINVAL: a pipe or device, which has nothing to sync */
    if (file_os()->sync(fd) != 0 && errno != EINVAL)
        return err_sys(e, "sync %s", path);
    return 0;
}

/* ---- lock files ---- */

static long lock_holder(int fd)
{
    char text[32];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    int64_t pid = 0;

    if (n <= 0 || str_i64(str_trim((struct str){text, (size_t)n}), &pid) != 0 || pid < 1)
        return 0;
    return (long)pid;
}

int file_lock(struct file_lock *l, const char *path, bool wait, struct err *e)
{
    *l = (struct file_lock){.fd = -1};
    if (file_mkdirs_for(path, e) != 0)
        return -1;
    int fd = file_open_fd(path, O_RDWR | O_CREAT);
    if (fd < 0)
        return err_sys(e, "open lock %s", path);
    while (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR && !interrupt_raised())
            continue;
        if (errno == EINTR)
            err_code(e, EXIT_INCOMPLETE, "interrupted while waiting for lock %s", path);
        else if (errno == EWOULDBLOCK && lock_holder(fd))
            err_set(e, "lock %s is held by process %ld", path, lock_holder(fd));
        else if (errno == EWOULDBLOCK)
            err_set(e, "lock %s is held by another process", path);
        else
            err_sys(e, "lock %s", path);
        close(fd);
        return -1;
    }
    /* The number is for the other's message only, so a full disk does not matter here. */
    char *text = mem_printf("%ld\n", (long)getpid());
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, str_z(text).n, 0) < 0)
        errno = 0;
    free(text);
    *l = (struct file_lock){fd, true};
    return 0;
}

void file_unlock(struct file_lock *l)
{
    if (l->held) {
        if (ftruncate(l->fd, 0) != 0)
            errno = 0;
        close(l->fd); /* the file stays: removing it would race with the next holder */
    }
    *l = (struct file_lock){.fd = -1};
}
