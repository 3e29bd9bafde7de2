/* stream_gz: gzip members through zlib (RFC 1952). zlib.h's only includer.
 *
 * inflate stops at the end of a member; `cat a.gz b.gz` is a valid file, so it is reset and goes on.
 * Zero padding behind the last member is let through, as gzip(1) does; anything else there is an
 * error. zlib checks CRC and length of each member.
 */
#include <stdlib.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/stream_codec.h"

struct gz {
    z_stream z;
    bool inside; /* a member has begun and not ended */
};

static bool gz_sniff(const unsigned char *p, size_t n)
{
    return n >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

static void *gz_open(void)
{
    struct gz *g = mem_zero(sizeof *g);

    if (inflateInit2(&g->z, 15 + 16) != Z_OK) { /* 15: largest window, 16: gzip only */
        free(g);
        return NULL;
    }
    return g;
}

/* Between members: 1 another begins, 0 the file ends, -1 error. */
static int gz_next(struct gz *g, struct stream_in *in, struct err *e)
{
    ssize_t got;

    while ((got = stream_fill(in, 2, e)) > 0 && in->p[in->at] == 0)
        in->at++;
    if (got <= 0)
        return (int)got;
    if (!gz_sniff(in->p + in->at, (size_t)got))
        return stream_damaged(in, "gzip", "something else follows the last member", e);
    if (inflateReset(&g->z) != Z_OK)
        return stream_damaged(in, "gzip", "cannot go on", e);
    g->inside = true;
    return 1;
}

static ssize_t gz_read(void *state, struct stream_in *in, void *p, size_t n, struct err *e)
{
    struct gz *g = state;

    if (n > 1 << 30)
        n = 1 << 30;
    for (;;) {
        int more = g->inside ? 1 : gz_next(g, in, e);
        if (more <= 0)
            return more;
        ssize_t have = stream_fill(in, 1, e);
        if (have < 0)
            return -1;
        g->z.next_in = in->p + in->at;
        g->z.avail_in = (uInt)have;
        g->z.next_out = p;
        g->z.avail_out = (uInt)n;
        int rc = inflate(&g->z, Z_NO_FLUSH);
        in->at += (size_t)have - g->z.avail_in;
        size_t made = n - g->z.avail_out;
        if (rc == Z_STREAM_END)
            g->inside = false;
        else if (rc == Z_BUF_ERROR && have == 0)
            return stream_cut(in, "gzip", e);
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            return stream_damaged(in, "gzip", g->z.msg ? g->z.msg : "not what zlib reads", e);
        if (made)
            return (ssize_t)made;
    }
}

static void gz_close(void *state)
{
    struct gz *g = state;

    inflateEnd(&g->z);
    free(g);
}

const struct stream_codec stream_gz = {"gzip", gz_sniff, gz_open, gz_read, gz_close};
