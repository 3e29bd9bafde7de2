/* stream_codec: what a decompressor sees of a stream. Private to base/stream*.c.
 *
 * One const struct stream_codec a file; stream.c lists them. zlib's header has one includer
 * (stream_gz.c), zstd's one (stream_zst.c).
 */
#ifndef BASE_STREAM_CODEC_H
#define BASE_STREAM_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The file as it lies on disk: p[at..n) was read and not used yet. */
struct stream_in {
    int fd;
    const char *name; /* for sentences */
    unsigned char *p;
    size_t at, n;
    int64_t taken; /* bytes of the file read so far */
    bool eof;
};

/* Makes sure that `want` unused bytes are there (want <= 64 KiB). Returns how many are: fewer than
 * want only at the end of the file. -1: error. */
ssize_t stream_fill(struct stream_in *in, size_t want, struct err *e);

struct stream_codec {
    const char *name;
    bool (*sniff)(const unsigned char *p, size_t n); /* n: 4, or fewer for a tiny file */
    void *(*open)(void);
    /* At least one byte of text, 0 at the proper end of the file, -1 with e. */
    ssize_t (*read)(void *state, struct stream_in *in, void *p, size_t n, struct err *e);
    void (*close)(void *state);
};
extern const struct stream_codec stream_gz, stream_zst;

/* "read NAME: damaged WHAT data before byte N of the file (why)"; -1. */
int stream_damaged(const struct stream_in *in, const char *what, const char *why, struct err *e);
/* "read NAME: the WHAT data ends too early, at byte N of the file"; -1. */
int stream_cut(const struct stream_in *in, const char *what, struct err *e);

#endif
