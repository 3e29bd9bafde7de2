/* stream: bytes and lines of a file that may be compressed. See stream.h.
 *
 * Adding a compression is a file with a struct stream_codec and a row in codecs[].
 */
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/stream_codec.h"

enum { IN_SIZE = 1 << 16, LINE_SIZE = 1 << 16 };

struct stream {
    struct stream_in in;
    char *name;
    const struct stream_codec *codec; /* NULL: plain */
    void *state;
    int64_t size; /* of the file; 0: unknown */
    char *text;   /* decoded and not handed out yet: text[at..n) */
    size_t at, n;
    int64_t lineno;
    bool failed, ended;
};

static const struct stream_codec *const codecs[] = {&stream_gz, &stream_zst, NULL};

ssize_t stream_fill(struct stream_in *in, size_t want, struct err *e)
{
    while (in->n - in->at < want && !in->eof) {
        if (in->at) {
            memmove(in->p, in->p + in->at, in->n - in->at);
            in->n -= in->at;
            in->at = 0;
        }
        ssize_t got = read(in->fd, in->p + in->n, IN_SIZE - in->n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "read %s", in->name);
        in->eof = got == 0;
        in->n += (size_t)got;
        in->taken += got;
    }
    return (ssize_t)(in->n - in->at);
}

static long long position(const struct stream_in *in)
{
    return (long long)(in->taken - (int64_t)(in->n - in->at));
}

int stream_damaged(const struct stream_in *in, const char *what, const char *why, struct err *e)
{
    return err_set(e, "read %s: damaged %s data before byte %lld of the file (%s)", in->name, what,
                   position(in), why);
}

int stream_cut(const struct stream_in *in, const char *what, struct err *e)
{
    return err_set(e, "read %s: the %s data ends too early, at byte %lld of the file", in->name,
                   what, position(in));
}

struct stream *stream_open(const char *path, struct err *e)
{
    struct stream *s = mem_zero(sizeof *s);
    bool is_stdin = strcmp(path, "-") == 0;
    struct stat st;

    s->name = mem_strdup(is_stdin ? "standard input" : path);
    s->in = (struct stream_in){.fd = is_stdin ? STDIN_FILENO : -1, .name = s->name};
    s->in.p = mem_alloc(IN_SIZE);
    s->text = mem_alloc(LINE_SIZE);
    while (!is_stdin && (s->in.fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (s->in.fd < 0) {
        err_sys(e, "open %s", s->name);
        goto fail;
    }
    if (fstat(s->in.fd, &st) != 0) {
        err_sys(e, "stat %s", s->name);
        goto fail;
    }
    if (S_ISDIR(st.st_mode)) {
        err_set(e, "open %s: it is a folder, want a file", s->name);
        goto fail;
    }
    s->size = S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0;
    ssize_t got = stream_fill(&s->in, 4, e);
    if (got < 0)
        goto fail;
    for (int i = 0; codecs[i] && !s->codec; i++)
        if (codecs[i]->sniff(s->in.p, (size_t)got))
            s->codec = codecs[i];
    if (s->codec && !(s->state = s->codec->open())) {
        err_set(e, "open %s: cannot start to read %s data", s->name, s->codec->name);
        goto fail;
    }
    return s;
fail:
    stream_close(s);
    return NULL;
}

/* Decoded bytes past the line buffer. */
static ssize_t decode(struct stream *s, void *p, size_t n, struct err *e)
{
    ssize_t got;

    if (s->failed)
        return err_set(e, "read %s: it failed before", s->name);
    if (s->ended || n == 0)
        return 0;
    if (s->codec) {
        got = s->codec->read(s->state, &s->in, p, n, e);
    } else {
        got = stream_fill(&s->in, 1, e);
        if (got > 0) {
            got = (size_t)got < n ? got : (ssize_t)n;
            memcpy(p, s->in.p + s->in.at, (size_t)got);
            s->in.at += (size_t)got;
        }
    }
    s->failed = got < 0;
    s->ended = got == 0;
    return got;
}

ssize_t stream_read(struct stream *s, void *p, size_t n, struct err *e)
{
    size_t kept = s->n - s->at;

    if (kept == 0)
        return decode(s, p, n, e);
    n = n < kept ? n : kept;
    memcpy(p, s->text + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

int stream_line(struct stream *s, struct buf *line, size_t max, struct err *e)
{
    bool any = false;

    buf_cut(line, 0);
    line->over = false;
    if (!max)
        max = (size_t)1 << 30;
    for (;;) {
        if (s->at == s->n) {
            ssize_t got = decode(s, s->text, LINE_SIZE, e);
            if (got < 0)
                return -1;
            s->at = 0;
            s->n = (size_t)got;
            if (got == 0) {
                s->lineno += any;
                return any;
            }
        }
        const char *from = s->text + s->at;
        const char *lf = memchr(from, '\n', s->n - s->at);
        size_t n = lf ? (size_t)(lf - from) : s->n - s->at;
        if (n > max - line->n || buf_add(line, from, n) != 0) {
            s->failed = true;
            return err_set(e, "read %s: line %lld is longer than the %zu bytes allowed", s->name,
                           (long long)s->lineno + 1, max);
        }
        any = true;
        s->at += n + (lf != NULL);
        if (lf) {
            s->lineno++;
            return 1;
        }
    }
}

int64_t stream_lineno(const struct stream *s)
{
    return s->lineno;
}

double stream_fraction(const struct stream *s)
{
    if (s->ended)
        return 1;
    double f = s->size > 0 ? (double)position(&s->in) / (double)s->size : 0;
    return f < 1 ? f : 1;
}

void stream_close(struct stream *s)
{
    if (!s)
        return;
    if (s->state)
        s->codec->close(s->state);
    if (s->in.fd > STDIN_FILENO)
        close(s->in.fd);
    free(s->in.p);
    free(s->text);
    free(s->name);
    free(s);
}
