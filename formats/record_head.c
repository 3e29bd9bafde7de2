/* record_head: see record_head.h. Works on the bytes of msgpack: kept pairs are copied as they are, and a
 * map that lost pairs gets a new head. */
#include "formats/record_head.h"

#include <string.h>

#include "formats/record_pack.h"

struct slim {
    struct str in; /* what is left */
    const char *const *without;
    struct buf *out;
};

/* Whether the key with this full name goes, or (*below) a key inside it does. */
static bool goes(const struct slim *s, const char *prefix, struct str key, bool *below)
{
    size_t np = strlen(prefix);
    *below = false;
    for (const char *const *w = s->without; *w; w++) {
        if (strncmp(*w, prefix, np) != 0 || strncmp(*w + np, key.p, key.n) != 0)
            continue;
        char end = (*w)[np + key.n];
        if (end == '\0')
            return true;
        *below = *below || end == '.';
    }
    return false;
}

/* Takes n bytes of the input, or fails: what was measured is always there. */
static struct str take(struct slim *s, size_t n)
{
    struct str v = {s->in.p, n};
    s->in.p += n;
    s->in.n -= n;
    return v;
}

/* The head of a map (map = true) or array at the input: its count and the bytes of the head. */
static bool box_head(struct str in, bool map, size_t *count, size_t *head)
{
    const unsigned char *p = (const unsigned char *)in.p;
    unsigned small = map ? 0x80 : 0x90, wide = map ? 0xde : 0xdc;
    if (in.n && (p[0] & 0xf0) == small) {
        *count = p[0] & 15;
        *head = 1;
    } else if (in.n >= 3 && p[0] == wide) {
        *count = (size_t)p[1] << 8 | p[2];
        *head = 3;
    } else if (in.n >= 5 && p[0] == wide + 1) {
        *count = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        *head = 5;
    } else {
        return false;
    }
    return true;
}

/* The text of a key; binary and long keys are none of ours and stay. */
static struct str key_text(struct str v)
{
    const unsigned char *p = (const unsigned char *)v.p;
    if (v.n && p[0] >= 0xa0 && p[0] <= 0xbf)
        return (struct str){v.p + 1, v.n - 1};
    if (v.n > 2 && p[0] == 0xd9)
        return (struct str){v.p + 2, v.n - 2};
    return (struct str){0};
}

static int slim_map(struct slim *s, const char *prefix, struct err *e);

/* A value under a key below which something goes: a map, a list of maps, or something else. */
static int slim_value(struct slim *s, const char *prefix, struct err *e)
{
    size_t count, head;
    if (box_head(s->in, true, &count, &head))
        return slim_map(s, prefix, e);
    if (!box_head(s->in, false, &count, &head)) {
        size_t n = record_measure(s->in, e);
        return n ? buf_adds(s->out, take(s, n)) : -1;
    }
    buf_adds(s->out, take(s, head));
    for (size_t i = 0; i < count; i++) {
        size_t c, h, n;
        if (box_head(s->in, true, &c, &h)) {
            if (slim_map(s, prefix, e))
                return -1;
        } else {
            if (!(n = record_measure(s->in, e)))
                return -1;
            buf_adds(s->out, take(s, n));
        }
    }
    return 0;
}

static int slim_map(struct slim *s, const char *prefix, struct err *e)
{
    size_t count, head, at = s->out->n;
    uint32_t kept = 0;
    if (!box_head(s->in, true, &count, &head))
        return err_set(e, "no map");
    take(s, head);
    buf_add(s->out, "\xdf\0\0\0\0", 5); /* the count is put in below */
    for (size_t i = 0; i < count; i++) {
        size_t n = record_measure(s->in, e);
        bool below;
        if (!n)
            return -1;
        struct str key = take(s, n), text = key_text(key);
        if (text.n && goes(s, prefix, text, &below)) {
            if (!(n = record_measure(s->in, e)))
                return -1;
            take(s, n);
            continue;
        }
        kept++;
        buf_adds(s->out, key);
        if (text.n && below) {
            char full[256];
            snprintf(full, sizeof full, "%s%.*s.", prefix, (int)(text.n < 200 ? text.n : 200),
                     text.p);
            if (slim_value(s, full, e))
                return -1;
        } else {
            if (!(n = record_measure(s->in, e)))
                return -1;
            buf_adds(s->out, take(s, n));
        }
    }
    for (int i = 0; i < 4; i++)
        s->out->p[at + 1 + (size_t)i] = (char)(kept >> (24 - 8 * i));
    return 0;
}

int record_slim(struct str payload, const char *const *without, struct buf *out, struct err *e)
{
    struct slim s = {payload, without, out};
    if (slim_map(&s, "", e))
        return -1;
    return s.in.n ? err_set(e, "%zu bytes stand behind the map", s.in.n) : 0;
}
