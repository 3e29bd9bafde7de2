/* tar: one archive of plain files, POSIX ustar (IEEE Std 1003.1, pax interchange, "ustar" part).
 *
 * Written: regular files and symbolic links, owner 0, time 0, mode 0644, so equal trees give equal
 * bytes; any tar reads it. Read: the same kinds and folders, from a file that may be gzip or zstd.
 * Names are relative, without "..", at most 255 bytes; everything else is refused by name. A size
 * is at most 2^63 - 1 (base-256 form above 8 GiB, as GNU tar writes it).
 */
#ifndef PIPELINES_TAR_H
#define PIPELINES_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/stream.h"

int tar_put_bytes(struct file_out *to, const char *name, struct str bytes, struct err *e);
int tar_put_file(struct file_out *to, const char *name, const char *path, struct err *e);
int tar_put_link(struct file_out *to, const char *name, const char *target, struct err *e);
int tar_end(struct file_out *to, struct err *e);

struct tar_entry {
    char name[257], target[101];
    char kind; /* '0' file, '2' link, '5' folder */
    int64_t size;
};
struct tar {
    struct stream *s;
    const char *path;
    int64_t left, pad; /* of the current entry */
};
int tar_open(struct tar *t, const char *path, struct err *e);
int tar_next(struct tar *t, struct tar_entry *x, struct err *e); /* 1 got, 0 end, -1 */
/* Up to n bytes of the current entry; 0 at its end. */
int64_t tar_read(struct tar *t, void *p, size_t n, struct err *e);
void tar_close(struct tar *t); /* zeroed is fine */

/* A relative path of plain parts: not empty, no "." or "..", no doubled slash, no control bytes. */
bool tar_name_ok(const char *name);

#endif
