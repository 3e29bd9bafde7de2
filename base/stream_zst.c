/* stream_zst: zstd frames (RFC 8878). zstd.h's only includer.
 *
 * The streaming decoder runs over several frames and skips skippable ones by itself; what it does
 * not do is call a missing tail an error, so the hint of the last call is kept: 0 means a frame
 * ended there. Windows up to 2^31 (`zstd --long=31`) are allowed; their memory is touched only as
 * far as the text reaches.
 */
#include <stdlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/stream_codec.h"

struct zst {
    ZSTD_DStream *d;
    size_t hint; /* of the last call; 0: at the end of a frame */
};

static bool zst_sniff(const unsigned char *p, size_t n)
{
    if (n < 4)
        return false;
    bool frame = p[0] == 0x28 && p[1] == 0xb5 && p[2] == 0x2f && p[3] == 0xfd;
    bool skippable = (p[0] & 0xf0) == 0x50 && p[1] == 0x2a && p[2] == 0x4d && p[3] == 0x18;
    return frame || skippable;
}

static void *zst_open(void)
{
    struct zst *z = mem_zero(sizeof *z);

    z->d = ZSTD_createDStream();
    if (!z->d || ZSTD_isError(ZSTD_DCtx_setParameter(z->d, ZSTD_d_windowLogMax, 31))) {
        ZSTD_freeDStream(z->d);
        free(z);
        return NULL;
    }
    return z;
}

static ssize_t zst_read(void *state, struct stream_in *in, void *p, size_t n, struct err *e)
{
    struct zst *z = state;

    for (;;) {
        ssize_t have = stream_fill(in, 1, e);
        if (have < 0)
            return -1;
        if (have == 0 && z->hint == 0)
            return 0;
        ZSTD_inBuffer from = {in->p + in->at, (size_t)have, 0};
        ZSTD_outBuffer to = {p, n, 0};
        z->hint = ZSTD_decompressStream(z->d, &to, &from);
        in->at += from.pos;
        if (ZSTD_isError(z->hint))
            return stream_damaged(in, "zstd", ZSTD_getErrorName(z->hint), e);
        if (to.pos)
            return (ssize_t)to.pos;
        if (have == 0 && z->hint != 0)
            return stream_cut(in, "zstd", e);
    }
}

static void zst_close(void *state)
{
    struct zst *z = state;

    ZSTD_freeDStream(z->d);
    free(z);
}

const struct stream_codec stream_zst = {"zstd", zst_sniff, zst_open, zst_read, zst_close};
