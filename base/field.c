/* field: texts to values and back through tables of rows, see field.h.
 *
 * A value is refused with the row's range and help, so the sentence says what would be right.
 * Whole structs are in schema.c, the command line in args.c, files in config.c, JSON in
 * json_struct.c.
 */
#include "base/field.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 60 /* bytes of a refused value that a sentence repeats */

static struct str shown(struct str s)
{
    return s.n > SHOWN ? (struct str){s.p, SHOWN} : s;
}

static int refuse(const struct field *f, const char *want, struct str got, struct err *e)
{
    struct buf b = {0};
    buf_printf(&b, "\"%s\" must be %s, got \"%.*s\"", f->name, want, STR_ARG(shown(got)));
    if (f->help && *f->help)
        buf_printf(&b, " (%s)", f->help);
    err_code(e, EXIT_USAGE, "%s", b.p);
    buf_release(&b);
    return -1;
}

void strs_push(struct strs *s, struct str x, struct arena *a)
{
    if ((s->n & (s->n - 1)) == 0) { /* full at 0 and every power of two */
        struct str *v = arena_array(a, s->n ? 2 * s->n : 1, sizeof *v);
        if (s->n)
            memcpy(v, s->v, s->n * sizeof *v);
        s->v = v;
    }
    s->v[s->n++] = x;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool in_range(const struct field *f, double v)
{
    if (f->min == 0 && f->max == 0)
        return true;
    bool low = f->flags & FIELD_ABOVE ? v > f->min : v >= f->min;
    return low && (f->max < f->min || v <= f->max);
}

/* "a number from 0 to 1", "a number above 0 and up to 1", "a whole number, at least 1"; bounds beyond
 * 1e15 are not said. */
static void want_number(const struct field *f, bool whole, struct buf *b)
{
    bool low = f->min > -1e15, high = f->max >= f->min && f->max < 1e15;
    buf_addz(b, whole ? "a whole number" : "a number");
    if (f->min == 0 && f->max == 0)
        return;
    if (f->flags & FIELD_ABOVE) {
        buf_printf(b, " above %.15g", f->min);
        if (high)
            buf_printf(b, " and up to %.15g", f->max);
    } else if (low && high)
        buf_printf(b, " from %.15g to %.15g", f->min, f->max);
    else if (low)
        buf_printf(b, ", at least %.15g", f->min);
    else if (high)
        buf_printf(b, ", at most %.15g", f->max);
}

static int refuse_number(const struct field *f, bool whole, struct str got, struct err *e)
{
    struct buf b = {0};
    want_number(f, whole, &b);
    refuse(f, b.p, got, e);
    buf_release(&b);
    return -1;
}

int field_check(const struct field *f, double v, struct err *e)
{
    char t[40];
    if (in_range(f, v))
        return 0;
    snprintf(t, sizeof t, "%.15g", v);
    return refuse_number(f, f->type == FIELD_I64 || f->type == FIELD_I64S, str_z(t), e);
}

static int parse_i64(const struct field *f, struct str text, int64_t *out, struct err *e)
{
    int64_t v;
    if (f->choices && str_eqz(text, f->choices[0])) {
        *out = 0;
        return 0;
    }
    if (str_i64(text, &v) != 0 || v == FIELD_NONE_I64 || !in_range(f, (double)v))
        return refuse_number(f, true, text, e);
    *out = v;
    return 0;
}

static int parse_f64(const struct field *f, struct str text, double *out, struct err *e)
{
    double v;
    if (str_f64(text, &v) != 0 || !in_range(f, v))
        return refuse_number(f, false, text, e);
    *out = v;
    return 0;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Takes a "quoted" element off *rest (its first byte is the quote) and the comma behind it. */
static int cut_quoted(struct str *rest, struct arena *a, struct str *out)
{
    char *q = arena_alloc(a, rest->n + 1);
    size_t i = 1, n = 0;
    for (; i < rest->n && rest->p[i] != '"'; i++) {
        char c = rest->p[i];
        if (c == '\\') {
            if (++i == rest->n)
                return -1;
            c = rest->p[i];
            if (c == 'x') {
                int hi = i + 2 < rest->n ? hex_digit(rest->p[i + 1]) : -1;
                int lo = i + 2 < rest->n ? hex_digit(rest->p[i + 2]) : -1;
                if (hi < 0 || lo < 0)
                    return -1;
                c = (char)(hi * 16 + lo);
                i += 2;
            } else if (c == 'n' || c == 'r' || c == 't') {
                c = c == 'n' ? '\n' : c == 'r' ? '\r' : '\t';
            } else if (c != '"' && c != '\\') {
                return -1;
            }
        }
        q[n++] = c;
    }
    if (i == rest->n)
        return -1;
    struct str tail = {rest->p + i + 1, rest->n - i - 1};
    struct str between = str_cut(&tail, ',');
    if (str_trim(between).n)
        return -1;
    *out = (struct str){q, n};
    *rest = tail;
    return 0;
}

/* Elements of a comma-separated list, in the arena. "" is the empty list. */
static int split(const struct field *f, struct str text, struct strs *out, struct arena *a,
                 struct err *e)
{
    struct strs list = {0};
    struct str rest = str_trim(text);
    if (rest.n && rest.p[rest.n - 1] == ',')
        return refuse(f, "a list that does not end with a comma", text, e);
    while (rest.n) {
        struct str one;
        while (rest.n && (rest.p[0] == ' ' || rest.p[0] == '\t'))
            rest = (struct str){rest.p + 1, rest.n - 1};
        if (rest.n && rest.p[0] == '"') {
            if (cut_quoted(&rest, a, &one) != 0)
                return refuse(f, "a list like a, b, \"c, d\"", text, e);
        } else {
            one = str_copy(a, str_trim(str_cut(&rest, ',')));
            if (one.n == 0)
                return refuse(f, "a list like a, b without empty places", text, e);
        }
        strs_push(&list, one, a);
    }
    *out = list;
    return 0;
}

static int parse_list(const struct field *f, void *member, struct str text, struct arena *a,
                      struct err *e)
{
    struct strs parts;
    if (split(f, text, &parts, a, e) != 0)
        return -1;
    if (f->type == FIELD_STRS) {
        *(struct strs *)member = parts;
        return 0;
    }
    int64_t *iv = f->type == FIELD_I64S ? arena_array(a, parts.n, sizeof *iv) : NULL;
    double *dv = f->type == FIELD_F64S ? arena_array(a, parts.n, sizeof *dv) : NULL;
    for (size_t i = 0; i < parts.n; i++) {
        if (iv ? parse_i64(f, parts.v[i], &iv[i], e) : parse_f64(f, parts.v[i], &dv[i], e))
            return -1;
    }
    if (iv)
        *(struct i64s *)member = (struct i64s){iv, parts.n};
    else
        *(struct f64s *)member = (struct f64s){dv, parts.n};
    return 0;
}

/* ---- one value ------------------------------------------------------------------------------ */

static int parse_bool(const struct field *f, bool *out, struct str t, struct err *e)
{
    if (str_eqz(t, "true") || str_eqz(t, "yes") || str_eqz(t, "on") || str_eqz(t, "1"))
        *out = true;
    else if (str_eqz(t, "false") || str_eqz(t, "no") || str_eqz(t, "off") || str_eqz(t, "0"))
        *out = false;
    else
        return refuse(f, "true or false", t, e);
    return 0;
}

static int parse_enum(const struct field *f, int *out, struct str t, struct err *e)
{
    struct buf b = {0};
    const char *near = NULL;
    int best = 3;
    char z[64];
    snprintf(z, sizeof z, "%.*s", STR_ARG(t));
    for (int i = 0; f->choices[i]; i++) {
        if (str_eqz(t, f->choices[i])) {
            *out = i;
            buf_release(&b);
            return 0;
        }
        int d = str_distance(z, f->choices[i]);
        if (d < best) {
            best = d;
            near = f->choices[i];
        }
        buf_printf(&b, "%s%s", i ? ", " : "one of ", f->choices[i]);
    }
    if (near)
        buf_printf(&b, " (did you mean %s?)", near);
    refuse(f, b.p ? b.p : "nothing at all", t, e);
    buf_release(&b);
    return -1;
}

/* def is "": the value may be unset. */
static bool may_be_unset(const struct field *f)
{
    return f->def && !*f->def;
}

int field_parse(const struct field *f, void *member, struct str text, struct arena *a,
                struct err *e)
{
    switch (f->type) {
    case FIELD_BOOL:
        return parse_bool(f, member, text, e);
    case FIELD_I64:
        if (text.n == 0 && may_be_unset(f)) {
            *(int64_t *)member = FIELD_NONE_I64;
            return 0;
        }
        return parse_i64(f, text, member, e);
    case FIELD_F64:
        if (text.n == 0 && may_be_unset(f)) {
            *(double *)member = NAN;
            return 0;
        }
        return parse_f64(f, text, member, e);
    case FIELD_STR:
        *(struct str *)member = text.n ? str_copy(a, text) : (struct str){0};
        return 0;
    case FIELD_ENUM:
        return parse_enum(f, member, text, e);
    case FIELD_STRS:
    case FIELD_F64S:
    case FIELD_I64S:
        return parse_list(f, member, text, a, e);
    case FIELD_STRUCT:
    case FIELD_LIST:
    case FIELD_REST:
        break;
    }
    return err_code(e, EXIT_USAGE, "\"%s\" holds other keys, so it cannot be set itself", f->name);
}

static void text_f64(double v, struct buf *out)
{
    char t[40];
    if (isnan(v))
        return;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(t, sizeof t, "%.*g", digits, v);
        if (strtod(t, NULL) == v)
            break;
    }
    buf_addz(out, t);
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7F;
}

static void text_escape(char c, struct buf *out)
{
    if (c == '\n' || c == '\r' || c == '\t')
        buf_printf(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else
        buf_printf(out, "\\x%02x", (unsigned char)c);
}

static void text_element(struct str s, struct buf *out)
{
    bool quote = s.n == 0 || s.p[0] == '"' || str_trim(s).n != s.n;
    for (size_t i = 0; i < s.n; i++)
        quote = quote || s.p[i] == ',' || is_control(s.p[i]);
    if (!quote) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (is_control(c))
            text_escape(c, out);
        else
            buf_addc(out, c);
    }
    buf_addc(out, '"');
}

void field_text(const struct field *f, const void *member, struct buf *out)
{
    const struct strs *strs = member;
    const struct i64s *i64s = member;
    const struct f64s *f64s = member;
    size_t n = 0;
    switch (f->type) {
    case FIELD_BOOL:
        buf_addz(out, *(const bool *)member ? "true" : "false");
        break;
    case FIELD_I64:
        if (*(const int64_t *)member != FIELD_NONE_I64)
            buf_printf(out, "%lld", (long long)*(const int64_t *)member);
        break;
    case FIELD_F64:
        text_f64(*(const double *)member, out);
        break;
    case FIELD_STR:
        buf_adds(out, *(const struct str *)member);
        break;
    case FIELD_ENUM:
        while (f->choices[n])
            n++;
        assert(*(const int *)member >= 0 && (size_t) * (const int *)member < n);
        buf_addz(out, f->choices[*(const int *)member]);
        break;
    case FIELD_STRS:
        for (size_t i = 0; i < strs->n; i++) {
            buf_addz(out, i ? ", " : "");
            text_element(strs->v[i], out);
        }
        break;
    case FIELD_I64S:
        for (size_t i = 0; i < i64s->n; i++)
            buf_printf(out, "%s%lld", i ? ", " : "", (long long)i64s->v[i]);
        break;
    case FIELD_F64S:
        for (size_t i = 0; i < f64s->n; i++) {
            buf_addz(out, i ? ", " : "");
            text_f64(f64s->v[i], out);
        }
        break;
    case FIELD_STRUCT:
    case FIELD_LIST:
    case FIELD_REST:
        break;
    }
}
