/* file: the disk. Artefacts appear whole or not at all; journals lose at most a torn tail.
 *
 * An artefact is written to ".NAME.tmp.PID" in the same folder, fsynced, renamed, and the folder
 * fsynced. All writing goes through struct file_os, so tests can fail the n-th write or rename
 * (tests/unit/test_file.c); the tool also reads ASSAY_FAULT=write:N / sync:N / rename:N / kill:N
 * (base/file_os.c says what each does).
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct arena;

/* The operating system as far as writing goes. Members behave as the calls they are named for. */
struct file_os {
    ssize_t (*write)(int fd, const void *p, size_t n);
    int (*sync)(int fd);
    int (*rename)(const char *from, const char *to);
};
void file_set_os(const struct file_os *os); /* NULL: the real one. Tests only. */

/* Reading; what the buffer held is replaced. `max` caps the size (0: 1 GiB). A folder, a missing or
 * an over-long file is an error that names it. */
int file_read(const char *path, struct buf *out, size_t max, struct err *e);
struct file_map {
    const unsigned char *p; /* read-only; NULL if the file is empty */
    size_t n;
};
int file_map(const char *path, struct file_map *m, struct err *e);
void file_unmap(struct file_map *m);

bool file_exists(const char *path);
bool file_is_dir(const char *path);
int64_t file_size(const char *path); /* -1: missing */
double file_mtime(const char *path); /* seconds since 1970; -1: missing */
int file_mkdirs(const char *path, struct err *e);
int file_mkdirs_for(const char *path, struct err *e);  /* the folder of a file */
int file_remove_tree(const char *path, struct err *e); /* missing is fine */
/* Names in byte order, without "." and ".." and the temporary files of writers. */
int file_list(const char *dir, struct strs *names, struct arena *a, struct err *e);
/* fsync of the tree, rename; `to` must not be there. */
int file_rename_dir(const char *from, const char *to, struct err *e);
int file_symlink(const char *target, const char *path, struct err *e); /* atomic replace */
int file_touch(const char *path, struct err *e);                       /* missing: an error */
int file_outdate(const char *path, struct err *e); /* older than all that make compares it with */
int64_t disk_free(const char *path);               /* bytes, -1 unknown */

/* Joins with one slash; the arena owns the result. An absolute b wins. */
char *path_join(struct arena *a, const char *dir, const char *b);
const char *path_base(const char *path);           /* behind the last slash */
char *path_dir(struct arena *a, const char *path); /* "." if none */

/* A new artefact. Either commit or abort ends it; a zeroed one may be aborted. A device or pipe
 * (/dev/stdout) is written in place. After a failed put all later ones and the commit fail. */
struct file_out {
    int fd;
    char *path, *tmp;
    char *buf;
    size_t n;
    int64_t written;
    bool open, failed;
};
int file_create(struct file_out *f, const char *path, struct err *e); /* makes the folder */
int file_put(struct file_out *f, const void *p, size_t n, struct err *e);
int file_puts(struct file_out *f, struct str s, struct err *e);
int file_commit(struct file_out *f, struct err *e);
void file_abort(struct file_out *f);
int file_write_all(const char *path, struct str s, struct err *e); /* create, put, commit */

/* Removes ".NAME.tmp.*" left by killed writers of PATH whose process is gone. */
void file_sweep(const char *path);

/* A lock file, flock(2)ed; released by file_unlock or death. wait = false: fails at once with
 * "held by process N". */
struct file_lock {
    int fd;
    bool held;
};
int file_lock(struct file_lock *l, const char *path, bool wait, struct err *e);
void file_unlock(struct file_lock *l);

/* Journals: open for appending at `keep` bytes (a torn tail behind it is cut; keep < 0: all). The
 * file is flocked while open; a second writer fails at once. A failed append is cut back. */
int file_append_open(const char *path, int64_t keep, int *fd, struct err *e);
int file_append(int fd, const void *p, size_t n, const char *path, struct err *e);
int file_append_sync(int fd, const char *path, struct err *e);

#endif
