/* clean: tidying one text (see clean.h). */
#include <string.h>

#include "datasets/clean.h"

bool clean_text(struct str text, struct buf *out)
{
    size_t was = text.n, before = out->n,
           ends = 1; /* line ends in a row; the start counts as one */
    if (str_starts(text, "\xEF\xBB\xBF")) {
        text.p += 3;
        text.n -= 3;
    }
    while (text.n) {
        const char *lf = memchr(text.p, '\n', text.n);
        size_t n = lf ? (size_t)(lf - text.p) : text.n, skip = lf ? n + 1 : n;
        while (lf && n && text.p[n - 1] == '\r')
            n--;
        ends = n ? 0 : ends;
        if (n)
            buf_add(out, text.p, n);
        if (lf && ++ends <= 2)
            buf_addc(out, '\n');
        text.p += skip;
        text.n -= skip;
    }
    return out->n - before != was;
}

/* Offset behind the first blank-line run at or behind `from`, and where it starts; s.n if none. */
static size_t next_gap(struct str s, size_t from, size_t *start)
{
    for (size_t i = from; i + 1 < s.n; i++) {
        const char *lf = memchr(s.p + i, '\n', s.n - i);
        if (!lf)
            break;
        i = (size_t)(lf - s.p);
        size_t end = i + 1, lines = 1;
        while (end < s.n && (s.p[end] == '\n' || s.p[end] == '\r'))
            lines += s.p[end++] == '\n';
        if (lines > 1) {
            *start = i;
            return end;
        }
    }
    *start = s.n;
    return s.n;
}

bool clean_piece(struct str *rest, size_t bytes, struct str *piece)
{
    size_t start = 0, end = 0;
    while (rest->n && (rest->p[0] == '\n' || rest->p[0] == '\r')) {
        rest->p++;
        rest->n--;
    }
    if (!rest->n)
        return false;
    do
        end = next_gap(*rest, end, &start);
    while (end < rest->n && start < bytes);
    if (start > 2 * bytes) { /* a text without blank lines: the next line end must do */
        const char *lf = memchr(rest->p + bytes, '\n', start - bytes);
        if (lf) {
            start = (size_t)(lf - rest->p);
            end = start + 1;
        }
    }
    if (rest->n - end < bytes / 2)
        start = end = rest->n;
    *piece = (struct str){rest->p, start};
    while (piece->n && (piece->p[piece->n - 1] == '\n' || piece->p[piece->n - 1] == '\r'))
        piece->n--;
    rest->p += end;
    rest->n -= end;
    return true;
}
