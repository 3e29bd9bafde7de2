/* stream: bytes of a file that may be compressed, a piece at a time in constant memory.
 *
 * gzip (zlib; several members in a row are read through) and zstd (several frames, skippable
 * frames, windows up to 2^31) are told by their magic bytes, not by the name. A truncated or
 * damaged tail is an error, never a short read.
 */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct stream;

struct stream *stream_open(const char *path, struct err *e); /* "-" is stdin */
/* Up to n bytes; 0 at the end, -1 on error. */
ssize_t stream_read(struct stream *s, void *p, size_t n, struct err *e);
/* One line without its LF (CR before it is kept). 1 got, 0 end, -1 error; a line longer than max
 * bytes is an error that names the line. */
int stream_line(struct stream *s, struct buf *line, size_t max, struct err *e);
int64_t stream_lineno(const struct stream *s);  /* of the last line read, from 1 */
double stream_fraction(const struct stream *s); /* of the compressed file that was read, 0..1 */
void stream_close(struct stream *s);            /* NULL is fine */

#endif
