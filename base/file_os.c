/* file_os: the system calls behind writing, and the faults that tests plant in them.
 *
 * ASSAY_FAULT=write:N | sync:N | rename:N makes the N-th such call of the process fail (ENOSPC for
 * a write, EIO for the others); kill:N writes half of the N-th write and then dies by SIGKILL, so a
 * torn tail is real. Several may stand with commas between. Counting starts at 1. A text that is
 * none of these makes every write fail with EINVAL: a misspelt fault must not pass as a test.
 */
#include "base/file_os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

enum fault { FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULT_KILL, FAULT_KINDS };

/* Process-wide, because the disk is: set once from the environment, then only counted. */
static struct {
    pthread_once_t once;
    long long at[FAULT_KINDS]; /* the call that fails; 0: none */
    bool misspelt;
    atomic_llong seen[FAULT_KINDS];
    const struct file_os *os;
} state = {.once = PTHREAD_ONCE_INIT};

static void fault_parse(void)
{
    static const char *const names[FAULT_KINDS] = {"write", "sync", "rename", "kill"};
    struct str rest = str_z(getenv("ASSAY_FAULT"));

    while (rest.n) {
        struct str one = str_cut(&rest, ','), kind = str_cut(&one, ':');
        int64_t n = 0;
        int k = 0;
        while (k < FAULT_KINDS && !str_eqz(kind, names[k]))
            k++;
        if (k == FAULT_KINDS || str_i64(one, &n) != 0 || n < 1)
            state.misspelt = true;
        else
            state.at[k] = n;
    }
}

/* True when this call of the kind is the one to fail. */
static bool fault_now(enum fault k)
{
    pthread_once(&state.once, fault_parse);
    return state.at[k] && atomic_fetch_add(&state.seen[k], 1) + 1 == state.at[k];
}

static ssize_t real_write(int fd, const void *p, size_t n)
{
    bool die = fault_now(FAULT_KILL);

    if (state.misspelt) {
        errno = EINVAL;
        return -1;
    }
    if (fault_now(FAULT_WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    if (die) {
        if (write(fd, p, n / 2) >= 0)
            fsync(fd);
        kill(getpid(), SIGKILL);
        pause();
    }
    return write(fd, p, n);
}

static int real_sync(int fd)
{
    if (fault_now(FAULT_SYNC)) {
        errno = EIO;
        return -1;
    }
    return fsync(fd);
}

static int real_rename(const char *from, const char *to)
{
    if (fault_now(FAULT_RENAME)) {
        errno = EIO;
        return -1;
    }
    return rename(from, to);
}

static const struct file_os real_os = {real_write, real_sync, real_rename};

void file_set_os(const struct file_os *os)
{
    state.os = os;
}

const struct file_os *file_os(void)
{
    return state.os ? state.os : &real_os;
}

int file_write_full(int fd, const void *p, size_t n)
{
    const char *at = p;

    while (n) {
        ssize_t got = file_os()->write(fd, at, n < 1 << 30 ? n : 1 << 30);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ENOSPC; /* no progress and no reason: what a full device means by it */
        if (got <= 0)
            return -1;
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

int file_open_fd(const char *path, int flags)
{
    int fd;

    do
        fd = open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int file_sync_dir_of(const char *path, struct err *e)
{
    struct arena a = {0};
    const char *dir = path_dir(&a, path);
    int fd = file_open_fd(dir, O_RDONLY | O_DIRECTORY), ret = 0;

    if (fd < 0)
        ret = err_sys(e, "open folder %s", dir);
    else if (file_os()->sync(fd) != 0 && errno != EINVAL) /* EINVAL: a file system without it */
        ret = err_sys(e, "sync folder %s", dir);
    if (fd >= 0)
        close(fd);
    arena_release(&a);
    return ret;
}

char *file_tmp_name(const char *path)
{
    const char *base = path_base(path);

    return mem_printf("%.*s.%s.tmp.%ld", (int)(base - path), path, base, (long)getpid());
}

long file_tmp_pid(const char *name)
{
    const char *dot = strrchr(name, '.');
    int64_t pid = 0;

    if (name[0] != '.' || !dot || dot - name < 5 || strncmp(dot - 4, ".tmp", 4) != 0)
        return 0;
    return str_i64(str_z(dot + 1), &pid) == 0 && pid > 0 && pid <= INT32_MAX ? (long)pid : 0;
}
