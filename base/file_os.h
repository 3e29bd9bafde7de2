/* file_os: what file.c, journal.c and tree.c share below base/file.h. Private to base. */
#ifndef BASE_FILE_OS_H
#define BASE_FILE_OS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/file.h"

/* The system in force: the one of file_set_os, else the real one behind ASSAY_FAULT. */
const struct file_os *file_os(void);

/* All n bytes, through short writes and EINTR. 0, or -1 with errno. */
int file_write_full(int fd, const void *p, size_t n);

/* fsync of the folder that holds path, so that a rename or a new name survives a power cut. */
int file_sync_dir_of(const char *path, struct err *e);

/* "DIR/.NAME.tmp.PID" of this process for DIR/NAME; the caller frees. */
char *file_tmp_name(const char *path);
/* The PID of a name made by file_tmp_name, or 0. */
long file_tmp_pid(const char *name);

/* open(2) with O_CLOEXEC through EINTR. */
int file_open_fd(const char *path, int flags);

#endif
