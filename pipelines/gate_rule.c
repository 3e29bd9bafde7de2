/* gate_rule: rules as text, see gate.h. */
#include <math.h>

#include "base/file.h"
#include "pipelines/gate.h"

static struct str word(struct str *rest)
{
    *rest = str_trim(*rest);
    size_t n = 0;
    while (n < rest->n && rest->p[n] != ' ' && rest->p[n] != '\t')
        n++;
    struct str w = {rest->p, n};
    rest->p += n;
    rest->n -= n;
    return w;
}

/* "95%" or "0.95"; *share says that it had a % sign. */
static int number(struct str w, double *v, bool *percent)
{
    *percent = w.n && w.p[w.n - 1] == '%';
    w.n -= *percent;
    if (str_f64(w, v) != 0)
        return -1;
    *v /= *percent ? 100 : 1;
    return 0;
}

static int bad(const struct gate_rule *r, const char *what, struct err *e)
{
    return err_code(e, EXIT_USAGE,
                    "rule \"%.*s\": %s; want METRIC not_worse_by MARGIN at LEVEL, or METRIC "
                    "not_significantly_worse at LEVEL, then maybe \"over seeds\"",
                    STR_ARG(r->text), what);
}

int gate_rule_parse(struct gate_rule *r, struct str text, struct arena *a, struct err *e)
{
    struct str rest = str_trim(text), name, kind;
    bool percent;
    *r = (struct gate_rule){.text = str_copy(a, rest)};
    rest = r->text;
    name = word(&rest);
    r->metric = str_cut(&name, '/');
    r->task = name;
    kind = word(&rest);
    if (!r->metric.n || !kind.n)
        return bad(r, "too short", e);
    if (str_eqz(kind, "not_worse_by")) {
        r->kind = GATE_MARGIN;
        if (number(word(&rest), &r->margin, &r->relative) != 0 || !(r->margin > 0))
            return bad(r, "the margin is no number above 0", e);
    } else if (str_eqz(kind, "not_significantly_worse")) {
        r->kind = GATE_SIGNIFICANT;
    } else {
        return bad(r, arena_printf(a, "\"%.*s\" is none of its words", STR_ARG(kind)), e);
    }
    if (!str_eqz(word(&rest), "at") || number(word(&rest), &r->level, &percent) != 0)
        return bad(r, "no \"at LEVEL\"", e);
    if (!(r->level >= 0.5 && r->level < 1))
        return bad(r, "the level is not between 50% and 100%", e);
    struct str more = word(&rest), over = word(&rest);
    if (more.n && (!str_eqz(more, "over") || !(str_eqz(over, "items") || str_eqz(over, "seeds"))))
        return bad(r, arena_printf(a, "\"%.*s\" is left over", STR_ARG(more)), e);
    r->over = str_eqz(over, "seeds") ? GATE_SEEDS : GATE_ITEMS;
    return str_trim(rest).n ? bad(r, "too long", e) : 0;
}

int gate_rules_load(struct gate_rule **rules, size_t *n, const char *path, struct arena *a,
                    struct err *e)
{
    struct buf b = {0};
    size_t line = 0, lines = 1;
    int rc = -1;
    *n = 0;
    if (file_read(path, &b, 1 << 20, e) != 0)
        return -1;
    for (size_t i = 0; i < b.n; i++)
        lines += b.p[i] == '\n';
    *rules = arena_array(a, lines, sizeof **rules);
    for (struct str rest = buf_str(&b); rest.n;) {
        struct str whole = str_cut(&rest, '\n'), text = str_trim(str_cut(&whole, '#'));
        line++;
        if (!text.n)
            continue;
        if (gate_rule_parse(&(*rules)[(*n)++], text, a, e) != 0) {
            err_wrap(e, "%s, line %zu", path, line);
            goto out;
        }
    }
    rc = *n ? 0 : err_code(e, EXIT_USAGE, "%s: holds no rule", path);
out:
    buf_release(&b);
    return rc;
}
