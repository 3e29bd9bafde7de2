/* json_write: values as text, see json.h. Knows nothing of jansson.
 *
 * Our own writer, because a number must read back to the same bits in the fewest digits, and because
 * what is not UTF-8 is written as U+FFFD instead of failing half-way.
 */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_mend(struct str s, struct buf *out)
{
    while (s.n) {
        size_t good = utf8_valid(s);
        buf_add(out, s.p, good);
        s = (struct str){s.p + good, s.n - good};
        if (s.n) {
            size_t bad = utf8_bad(s);
            buf_addz(out, "\xEF\xBF\xBD");
            s = (struct str){s.p + bad, s.n - bad};
        }
    }
}

static void write_string(struct str s, struct buf *out)
{
    size_t from = 0;
    buf_addc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        static const char short_for[] = "btn\0fr"; /* 8, 9, 10, 12, 13 */
        buf_add(out, s.p + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c >= 8 && c <= 13 && c != 11)
            buf_printf(out, "\\%c", short_for[c - 8]);
        else
            buf_printf(out, "\\u%04x", c);
    }
    buf_add(out, s.p + from, s.n - from);
    buf_addc(out, '"');
}

void json_quote(struct str s, struct buf *out)
{
    if (s.n == 0 || utf8_valid(s) == s.n) {
        write_string(s.n ? s : STR_LIT(""), out);
        return;
    }
    struct buf b = {0};
    json_mend(s, &b);
    write_string(buf_str(&b), out);
    buf_release(&b);
}

/* The fewest digits that read back to the same bits; always looks like a real. */
static void write_real(double v, struct buf *out)
{
    char t[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(t, sizeof t, "%.*g", digits, v);
        if (strtod(t, NULL) == v)
            break;
    }
    buf_addz(out, t);
    if (!strpbrk(t, ".e"))
        buf_addz(out, ".0");
}

static void indent(int level, struct buf *out)
{
    if (level < 0)
        return;
    buf_addc(out, '\n');
    for (int i = 0; i < level; i++)
        buf_addz(out, "  ");
}

/* level < 0: compact. Depth is bounded by the parser and by the tables that make values. */
static void write_value(const struct json *v, int level, struct buf *out)
{
    int inner = level < 0 ? -1 : level + 1;
    const char *key;
    const struct json *val;
    void *it = NULL;
    size_t n = json_size(v);
    switch (json_kind(v)) {
    case JSON_NULL:
        buf_addz(out, "null");
        break;
    case JSON_BOOL:
        buf_addz(out, json_bool(v) ? "true" : "false");
        break;
    case JSON_INT:
        buf_printf(out, "%lld", (long long)json_int(v, 0));
        break;
    case JSON_REAL:
        write_real(json_num(v), out);
        break;
    case JSON_STR:
        write_string(json_str(v), out);
        break;
    case JSON_ARR:
        buf_addc(out, '[');
        for (size_t i = 0; i < n; i++) {
            if (i)
                buf_addc(out, ',');
            indent(inner, out);
            write_value(json_at(v, i), inner, out);
        }
        if (n)
            indent(level, out);
        buf_addc(out, ']');
        break;
    case JSON_OBJ:
        buf_addc(out, '{');
        for (size_t i = 0; json_each(v, &it, &key, &val); i++) {
            if (i)
                buf_addc(out, ',');
            indent(inner, out);
            write_string(str_z(key), out);
            buf_addz(out, level < 0 ? ":" : ": ");
            write_value(val, inner, out);
        }
        if (n)
            indent(level, out);
        buf_addc(out, '}');
        break;
    }
}

void json_write(const struct json *v, struct buf *out)
{
    write_value(v, -1, out);
}

void json_write_pretty(const struct json *v, struct buf *out)
{
    write_value(v, 0, out);
    buf_addc(out, '\n');
}
