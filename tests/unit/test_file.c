/* base/file: artefacts whole or absent, journals that lose at most a tail, locks, sweeping. */
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/mem.h"

static struct arena A;
static struct err E;

static char *at(const char *name)
{
    return path_join(&A, tap_tmp(), name);
}

static struct buf slurp(const char *path)
{
    struct buf b = {0};

    if (file_read(path, &b, 0, &E) != 0)
        buf_addz(&b, "(unreadable)");
    return b;
}

static void check_holds(const char *path, const char *want, const char *promise)
{
    struct buf b = slurp(path);

    CHECK_STR(b.p, want, "%s", promise);
    buf_release(&b);
}

/* No name of dir starts with a dot: no temporary file is left. */
static bool no_leftover(const char *dir)
{
    char *cmd = mem_printf("find '%s' -name '.*.tmp.*' | grep -q .", dir);
    int rc = system(cmd);

    free(cmd);
    return WIFEXITED(rc) && WEXITSTATUS(rc) == 1;
}

/* ---- a system that fails on demand ---- */

static int fail_write, fail_sync, fail_rename, fail_errno, calls_write, calls_sync, calls_rename;
static bool chop; /* short writes and EINTR */

static ssize_t bad_write(int fd, const void *p, size_t n)
{
    calls_write++;
    if (calls_write == fail_write) {
        errno = fail_errno;
        return -1;
    }
    if (chop && calls_write % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return write(fd, p, chop && n > 7 ? 7 : n);
}

static int bad_sync(int fd)
{
    if (++calls_sync == fail_sync) {
        errno = EIO;
        return -1;
    }
    return fsync(fd);
}

static int bad_rename(const char *from, const char *to)
{
    if (++calls_rename == fail_rename) {
        errno = EIO;
        return -1;
    }
    return rename(from, to);
}

static void faults(int w, int s, int r, int no)
{
    static const struct file_os os = {bad_write, bad_sync, bad_rename};

    fail_write = w, fail_sync = s, fail_rename = r, fail_errno = no;
    calls_write = calls_sync = calls_rename = 0;
    chop = false;
    file_set_os(&os);
}

static void test_reading(void)
{
    struct buf b = {0};
    struct file_map m;

    CHECK(file_read(at("none"), &b, 0, &E) == -1 && strstr(E.msg, "none: No such file"),
          "a missing file is named: %s", E.msg);
    CHECK(file_read(tap_tmp(), &b, 0, &E) == -1 && strstr(E.msg, "folder"),
          "a folder is refused: %s", E.msg);
    CHECK(file_map(tap_tmp(), &m, &E) == -1 && strstr(E.msg, "folder"), "also by file_map");
    CHECK(file_map("/dev/null", &m, &E) == -1 && strstr(E.msg, "not a regular file"),
          "file_map refuses a device");

    CHECK(file_write_all(at("ten"), STR_LIT("0123456789"), &E) == 0, "ten bytes are written");
    CHECK(file_read(at("ten"), &b, 10, &E) == 0 && b.n == 10 && b.p[10] == '\0',
          "a file as long as the cap is read");
    CHECK(file_read(at("ten"), &b, 9, &E) == -1 && strstr(E.msg, "9 bytes allowed") && b.n == 0,
          "one byte more than the cap is refused: %s", E.msg);
    CHECK(file_read("/dev/zero", &b, 100000, &E) == -1 && strstr(E.msg, "100000 bytes allowed"),
          "an endless device stops at the cap");
    CHECK(file_read(at("ten"), &b, 0, &E) == 0 && b.n == 10, "the buffer is reused, not appended");
    struct buf small = {.max = 10};
    CHECK(file_read(at("ten"), &small, 0, &E) == 0, "a buffer's own cap may be met exactly");
    small.max = 4;
    CHECK(file_read(at("ten"), &small, 0, &E) == -1 && strstr(E.msg, "4 bytes"), "and not passed");
    buf_release(&small);

    CHECK(file_map(at("ten"), &m, &E) == 0 && m.n == 10 && memcmp(m.p, "0123456789", 10) == 0,
          "a map shows the bytes");
    file_unmap(&m);
    CHECK(m.p == NULL && m.n == 0, "unmap zeroes");
    file_write_all(at("empty"), STR_LIT(""), &E);
    CHECK(file_map(at("empty"), &m, &E) == 0 && m.p == NULL && m.n == 0, "an empty file maps");
    CHECK(file_read(at("empty"), &b, 0, &E) == 0 && b.n == 0 && b.p && *b.p == '\0',
          "an empty file reads as the empty string");
    CHECK_INT(file_size(at("ten")), 10, "size");
    CHECK_INT(file_size(at("none")), -1, "size of a missing file");
    CHECK(file_mtime(at("ten")) > 1.6e9 && file_mtime(at("none")) < 0, "times");
    buf_release(&b);
}

static void test_artefact(void)
{
    struct file_out f;
    char *path = at("deep/er/artefact"), big[5000];

    CHECK(file_create(&f, path, &E) == 0, "create makes the folders");
    CHECK(!file_exists(path), "nothing has the final name while writing");
    for (int i = 0; i < 200; i++) {
        memset(big, 'a' + i % 26, sizeof big);
        file_put(&f, big, sizeof big, &E);
    }
    CHECK_INT(f.written, 1000000, "written counts");
    CHECK(file_commit(&f, &E) == 0, "commit");
    struct buf b = slurp(path);
    bool same = b.n == 1000000;
    for (size_t i = 0; same && i < b.n; i++)
        same = b.p[i] == (char)('a' + i / 5000 % 26);
    CHECK(same, "a million bytes in pieces arrive in order");
    CHECK(no_leftover(tap_tmp()), "no temporary file is left");
    buf_release(&b);

    file_create(&f, path, &E);
    file_puts(&f, STR_LIT("half"), &E);
    file_abort(&f);
    CHECK_INT(file_size(path), 1000000, "an aborted rewrite leaves the old file");
    struct file_out zero = {0};
    file_abort(&zero);
    CHECK(fcntl(0, F_GETFD) != -1, "aborting a zeroed one does not close stdin");
    CHECK(file_create(&f, tap_tmp(), &E) == -1 && strstr(E.msg, "folder"), "a folder is refused");
    CHECK(file_create(&f, "x/", &E) == -1, "a name that ends in a slash is refused: %s", E.msg);
    CHECK(file_create(&f, at("deep/er/artefact/below"), &E) == -1 && strstr(E.msg, "file of this"),
          "a file in the way of a folder is named: %s", E.msg);
    CHECK(file_commit(&f, &E) == -1, "committing what never opened fails");

    CHECK(file_write_all("/dev/null", STR_LIT("gone"), &E) == 0, "a device is written in place");
    struct stat st;
    CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode), "and is still a device");
    CHECK(file_write_all("/dev/full", STR_LIT("x"), &E) == -1 && strstr(E.msg, "No space"),
          "a full device is one sentence: %s", E.msg);
    CHECK(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode), "and is still there");
}

static void test_faults(void)
{
    char *path = at("faulty");
    static const struct {
        int w, s, r, no;
        const char *say;
    } bad[] = {{1, 0, 0, ENOSPC, "write"},
               {1, 0, 0, EIO, "write"},
               {0, 1, 0, 0, "sync"},
               {0, 0, 1, 0, "rename"}};

    file_write_all(path, STR_LIT("old"), &E);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        faults(bad[i].w, bad[i].s, bad[i].r, bad[i].no);
        int rc = file_write_all(path, STR_LIT("new"), &E);
        file_set_os(NULL);
        CHECK(rc == -1 && strstr(E.msg, bad[i].say) && strstr(E.msg, "faulty"),
              "a failed %s is said: %s", bad[i].say, E.msg);
        check_holds(path, "old", "and the old file stands");
    }
    CHECK(no_leftover(tap_tmp()), "and nothing half-written is left");
    faults(0, 2, 0, 0);
    CHECK(file_write_all(path, STR_LIT("new"), &E) == -1 && strstr(E.msg, "sync folder"),
          "the folder is synced too: %s", E.msg);
    faults(0, 0, 0, 0);
    chop = true;
    struct file_out f;
    file_create(&f, path, &E);
    struct buf want = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&want, "line %d\n", i);
    CHECK(file_puts(&f, buf_str(&want), &E) == 0 && file_commit(&f, &E) == 0,
          "writes of 7 bytes and EINTR are carried through");
    file_set_os(NULL);
    check_holds(path, want.p, "to the same bytes");
    buf_release(&want);

    faults(2, 0, 0, ENOSPC);
    file_create(&f, at("sticky"), &E);
    char big[300000] = {0};
    int a = file_put(&f, big, sizeof big, &E), b = file_put(&f, big, sizeof big, &E);
    int c = file_put(&f, "x", 1, &E), d = file_commit(&f, &E);
    file_set_os(NULL);
    CHECK(a == 0 && b == -1 && c == -1 && d == -1, "after a failed write nothing works any more");
    CHECK(!file_exists(at("sticky")), "and no file appears");
}

/* In a child with ASSAY_FAULT: returns its wait status. */
static int with_fault(const char *fault, const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct err e;
        setenv("ASSAY_FAULT", fault, 1);
        char *big = mem_zero(1 << 20);
        struct file_out f;
        int rc = file_create(&f, path, &e);
        for (int i = 0; rc == 0 && i < 4; i++)
            rc = file_put(&f, big, 1 << 20, &e);
        if (rc == 0)
            rc = file_commit(&f, &e);
        else
            file_abort(&f);
        _exit(rc == 0 ? 0 : strstr(e.msg, "No space") ? 10 : strstr(e.msg, "Invalid") ? 11 : 12);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    return st;
}

static void test_env_faults(void)
{
    char *path = at("env/x");

    CHECK_INT(WEXITSTATUS(with_fault("write:3", path)), 10, "write:3 is a full disk");
    CHECK_INT(WEXITSTATUS(with_fault("sync:1", path)), 12, "sync:1 is an I/O error");
    CHECK_INT(WEXITSTATUS(with_fault("rename:1,write:99", path)), 12, "rename:1 likewise");
    CHECK_INT(WEXITSTATUS(with_fault("wirte:1", path)), 11, "a misspelt fault does not pass");
    CHECK(!file_exists(path) && no_leftover(at("env")), "none of these leaves a file");
    int st = with_fault("kill:3", path);
    CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, "kill:3 kills");
    CHECK(!file_exists(path) && !no_leftover(at("env")), "a killed writer leaves a temporary file");
    CHECK_INT(WEXITSTATUS(with_fault("write:999", path)), 0, "the next writer succeeds");
    CHECK(file_size(path) == 4 << 20 && no_leftover(at("env")), "and has swept the leftover");
}

static void test_sweep(void)
{
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    waitpid(dead, NULL, 0);
    char *mine = arena_printf(&A, "%s/sw/.n.tmp.%ld", tap_tmp(), (long)dead);
    char *alive = arena_printf(&A, "%s/sw/.n.tmp.%ld", tap_tmp(), (long)getppid());
    char *other = arena_printf(&A, "%s/sw/.n2.tmp.%ld", tap_tmp(), (long)dead);
    char *odd = arena_printf(&A, "%s/sw/.n.tmp.12x", tap_tmp());
    char *const all[] = {mine, alive, other, odd};

    for (int i = 0; i < 4; i++)
        file_write_all(all[i], STR_LIT("x"), &E);
    file_sweep(at("sw/n"));
    CHECK(!file_exists(mine), "a dead process's temporary file goes");
    CHECK(file_exists(alive), "a living process's stays");
    CHECK(file_exists(other) && file_exists(odd), "other names stay");
    file_remove_tree(at("sw"), &E);
}

static void test_full_disk(void)
{
    struct rlimit old, lim;
    char *path = at("limited");

    getrlimit(RLIMIT_FSIZE, &old);
    lim = old;
    lim.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &lim);
    char *big = mem_zero(300000);
    int rc = file_write_all(path, (struct str){big, 300000}, &E);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    CHECK(rc == -1 && strstr(E.msg, "File too large"), "a quota hit half way is said: %s", E.msg);
    CHECK(!file_exists(path) && no_leftover(tap_tmp()), "and leaves nothing");

    char *mnt = at("mnt");
    file_mkdirs(mnt, &E);
    if (geteuid() != 0 || mount("none", mnt, "tmpfs", 0, "size=128k") != 0) {
        printf("ok %d # SKIP cannot mount a small tmpfs here\n", ++tap_n);
    } else {
        char *full = path_join(&A, mnt, "a");
        rc = file_write_all(full, (struct str){big, 300000}, &E);
        CHECK(rc == -1 && strstr(E.msg, "No space left") && !file_exists(full) && no_leftover(mnt),
              "a really full disk: %s", E.msg);
        CHECK(disk_free(full) == 128 << 10, "its space is free again");
        umount(mnt);
    }
    free(big);
    CHECK(disk_free(at("not/there/yet")) > 0, "free space of a path that is not there yet");
}

static void test_tree(void)
{
    struct strs names;

    CHECK_STR(path_join(&A, "a", "b"), "a/b", "join");
    CHECK_STR(path_join(&A, "a/", "b"), "a/b", "join after a slash");
    CHECK_STR(path_join(&A, "a", "/b"), "/b", "an absolute one wins");
    CHECK_STR(path_join(&A, "", "b"), "b", "join to nothing");
    CHECK_STR(path_base("a/b.c"), "b.c", "base");
    CHECK_STR(path_dir(&A, "b.c"), ".", "folder of a bare name");
    CHECK_STR(path_dir(&A, "/b"), "/", "folder below the root");
    CHECK_STR(path_dir(&A, "a//b"), "a", "folder before two slashes");

    CHECK(file_mkdirs(at("t/u/v/"), &E) == 0 && file_mkdirs(at("t/u/v"), &E) == 0, "mkdirs twice");
    file_write_all(at("t/b"), STR_LIT("1"), &E);
    file_write_all(at("t/a"), STR_LIT("1"), &E);
    file_write_all(at("t/.x.tmp.77"), STR_LIT("1"), &E);
    CHECK(file_list(at("t"), &names, &A, &E) == 0 && names.n == 3 && str_eqz(names.v[0], "a") &&
              str_eqz(names.v[1], "b") && str_eqz(names.v[2], "u"),
          "names are sorted, temporary ones left out");
    CHECK(file_list(at("t/none"), &names, &A, &E) == -1 && strstr(E.msg, "t/none"), "%s", E.msg);

    CHECK(file_symlink("a", at("t/latest"), &E) == 0 && file_symlink("b", at("t/latest"), &E) == 0,
          "a link is replaced");
    char to[10] = {0};
    CHECK(readlink(at("t/latest"), to, 9) == 1 && to[0] == 'b', "and points to the new one");
    CHECK(file_symlink("b", at("t/a"), &E) == -1, "a file is not replaced by a link: %s", E.msg);

    CHECK(file_rename_dir(at("t"), at("sub/t2"), &E) == 0 && file_exists(at("sub/t2/u/v")) &&
              !file_exists(at("t")),
          "a folder moves whole");
    file_mkdirs(at("t"), &E);
    CHECK(file_rename_dir(at("t"), at("sub/t2"), &E) == -1 && strstr(E.msg, "there already"),
          "and never over another: %s", E.msg);
    CHECK(file_rename_dir(at("nope"), at("sub/t3"), &E) == -1, "%s", E.msg);
    file_mkdirs(at("outside"), &E);
    file_write_all(at("outside/keep"), STR_LIT("1"), &E);
    file_symlink(at("outside"), at("sub/link"), &E);
    CHECK(file_remove_tree(at("sub"), &E) == 0 && !file_exists(at("sub")), "a tree is removed");
    CHECK(file_exists(at("outside/keep")), "but not through a link");
    CHECK(file_remove_tree(at("sub"), &E) == 0, "removing what is not there is fine");
    double before = file_mtime(at("outside/keep"));
    usleep(20000);
    CHECK(file_touch(at("outside/keep"), &E) == 0 && file_mtime(at("outside/keep")) > before,
          "touch moves the time");
    CHECK(file_touch(at("nope"), &E) == -1, "touching what is not there fails: %s", E.msg);
}

static void test_journal(void)
{
    char *path = at("j/journal");
    int fd, two;

    CHECK(file_append_open(path, 0, &fd, &E) == 0, "a new journal");
    CHECK(file_append(fd, "one\ntwo\n", 8, path, &E) == 0, "append");
    CHECK(file_append_sync(fd, path, &E) == 0, "sync");
    CHECK(file_append_open(path, 8, &two, &E) == -1 && strstr(E.msg, "another process"),
          "a second writer is refused: %s", E.msg);
    close(fd);
    CHECK(file_append_open(path, 4, &fd, &E) == 0, "the torn tail is cut");
    check_holds(path, "one\n", "at the byte given");
    faults(2, 0, 0, ENOSPC);
    chop = true;
    CHECK(file_append(fd, "a longer line\n", 14, path, &E) == -1 && strstr(E.msg, "No space"),
          "a disk that fills up half way: %s", E.msg);
    file_set_os(NULL);
    check_holds(path, "one\n", "leaves no torn record");
    CHECK(file_append(fd, "2\n", 2, path, &E) == 0, "and the journal goes on");
    check_holds(path, "one\n2\n", "behind the last whole record");
    close(fd);
    CHECK(file_append_open(path, 99, &fd, &E) == -1 && strstr(E.msg, "want at least 99"),
          "a journal shorter than was read is an error: %s", E.msg);
    CHECK(file_append_open(tap_tmp(), 0, &fd, &E) == -1, "a folder is none: %s", E.msg);
    CHECK(file_append_open("/dev/full", 0, &fd, &E) == 0 &&
              file_append(fd, "x", 1, "/dev/full", &E) == -1 && strstr(E.msg, "No space"),
          "%s", E.msg);
    close(fd);
}

static void test_lock(void)
{
    char *path = at("l/lock");
    struct file_lock l, m;
    int p[2];
    char c;

    if (pipe(p) != 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        int rc = file_lock(&l, path, false, &E);
        c = rc == 0 ? 'y' : 'n';
        if (write(p[1], &c, 1) != 1)
            _exit(1);
        pause();
    }
    if (read(p[0], &c, 1) != 1)
        c = 'n';
    CHECK(c == 'y', "another process takes the lock");
    char *want = arena_printf(&A, "lock %s is held by process %ld", path, (long)pid);
    CHECK(file_lock(&m, path, false, &E) == -1, "it is refused here");
    CHECK_STR(E.msg, want, "with the holder's number");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(file_lock(&m, path, false, &E) == 0 && m.held, "death releases it");
    file_unlock(&m);
    CHECK(file_lock(&m, path, true, &E) == 0, "unlock releases it");
    file_unlock(&m);
    file_unlock(&m);
    close(p[0]);
    close(p[1]);
}

int main(void)
{
    test_env_faults(); /* first: its children read ASSAY_FAULT at their first write */
    test_reading();
    test_artefact();
    test_faults();
    test_sweep();
    test_full_disk();
    test_tree();
    test_journal();
    test_lock();
    CHECK(file_remove_tree(tap_tmp(), &E) == 0, "the scratch folder goes");
    arena_release(&A);
    return tap_done();
}
