/* judge: question and verdict of the single protocol. See scoring/judge.h.
 *
 * The parser is a small scanner, not a search: each accepted shape is matched from the first byte
 * of a line to its last, so "grade A is not earned, 3 of 10" can't become a number.
 */
#include "scoring/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "scoring/stats.h"

enum { PROMPT_MAX = 1 << 20, DETAIL_MAX = 160 };

static const char *const field_names[] = {"instruction", "input", "reference", "answer", NULL};

/* A mark in a prompt: {name}, {?name} or {/name}. */
struct mark {
    int field; /* index into field_names; -1: a word that is no field */
    char kind; /* '=', '?', '/' */
    struct str word;
    size_t n; /* bytes of the whole mark */
};

static bool mark_at(struct str text, size_t at, struct mark *m)
{
    size_t i = at + 1;
    if (at >= text.n || text.p[at] != '{')
        return false;
    m->kind = '=';
    if (i < text.n && (text.p[i] == '?' || text.p[i] == '/'))
        m->kind = text.p[i++];
    size_t from = i;
    while (i < text.n && text.p[i] >= 'a' && text.p[i] <= 'z')
        i++;
    if (i == from || i >= text.n || text.p[i] != '}')
        return false; /* a plain brace, e.g. of JSON */
    m->word = (struct str){text.p + from, i - from};
    m->n = i + 1 - at;
    m->field = -1;
    for (int k = 0; field_names[k]; k++)
        if (str_eqz(m->word, field_names[k]))
            m->field = k;
    return true;
}

static int prompt_check(const struct judge_prompt *p, struct err *e)
{
    bool seen[4] = {false};
    int open = -1;
    for (size_t i = 0; i < p->text.n; i++) {
        struct mark m;
        if (!mark_at(p->text, i, &m))
            continue;
        if (m.field < 0)
            return err_code(e, EXIT_USAGE,
                            "unknown field {%.*s} at byte %zu; known are {instruction} {input} "
                            "{reference} {answer}",
                            STR_ARG(m.word), i);
        if (m.kind == '?' && open >= 0)
            return err_code(e, EXIT_USAGE, "{?%.*s} at byte %zu stands inside {?%s}",
                            STR_ARG(m.word), i, field_names[open]);
        if (m.kind == '/' && open != m.field)
            return err_code(e, EXIT_USAGE, "{/%.*s} at byte %zu closes nothing", STR_ARG(m.word),
                            i);
        open = m.kind == '?' ? m.field : m.kind == '/' ? -1 : open;
        seen[m.field] = seen[m.field] || m.kind == '=';
        i += m.n - 1;
    }
    if (open >= 0)
        return err_code(e, EXIT_USAGE, "{?%s} is never closed", field_names[open]);
    if (!seen[0] || !seen[3])
        return err_code(e, EXIT_USAGE, "it lacks {%s}", seen[0] ? "answer" : "instruction");
    return 0;
}

int judge_prompt_load(struct judge_prompt *p, struct str name, struct arena *a, struct err *e)
{
    memset(p, 0, sizeof *p);
    p->name = str_copy(a, name);
    for (const struct judge_prompt_text *t = judge_prompts; t->name; t++)
        if (str_eqz(name, t->name))
            p->text = str_z(t->text);
    if (!p->text.p) {
        struct buf b = {0};
        int rc = file_read(str_dup(a, name), &b, PROMPT_MAX, e);
        if (rc == 0) {
            p->text = str_copy(a, str_trim(buf_str(&b)));
            size_t bad = utf8_valid(p->text);
            if (bad < p->text.n)
                rc = err_set(e, "byte %zu is not UTF-8", bad);
        }
        buf_release(&b);
        if (rc)
            return err_wrap(e, "judge prompt %.*s", STR_ARG(name));
    }
    if (prompt_check(p, e))
        return err_wrap(e, "judge prompt %.*s", STR_ARG(name));
    sha256_hex(p->text, p->hash);
    return 0;
}

void judge_question(const struct judge_prompt *p, const struct item *it, struct str answer,
                    struct buf *out)
{
    const struct str value[] = {it->instruction, it->input, it->reference, answer};
    size_t from = 0;
    bool skip = false;
    for (size_t i = 0; i < p->text.n; i++) {
        struct mark m;
        if (!mark_at(p->text, i, &m))
            continue;
        if (!skip)
            buf_add(out, p->text.p + from, i - from);
        if (m.kind == '=' && !skip)
            buf_adds(out, value[m.field]);
        else if (m.kind == '?')
            skip = value[m.field].n == 0;
        else if (m.kind == '/')
            skip = false;
        i += m.n - 1;
        from = i + 1;
    }
    buf_add(out, p->text.p + from, p->text.n - from);
}

static void key_part(struct sha256 *h, struct str s)
{
    uint64_t n = s.n;
    unsigned char le[8];
    for (int i = 0; i < 8; i++)
        le[i] = (unsigned char)(n >> (8 * i));
    sha256_add(h, le, sizeof le);
    sha256_add(h, s.p, s.n);
}

void judge_key(const struct item *it, struct str answer, struct str identity,
               const struct judge_prompt *p, char hex[65])
{
    struct sha256 h;
    sha256_begin(&h);
    key_part(&h, it->id);
    key_part(&h, it->instruction);
    key_part(&h, it->input);
    key_part(&h, it->reference);
    key_part(&h, answer);
    key_part(&h, identity);
    key_part(&h, str_z(p->hash));
    sha256_end_hex(&h, hex);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

static bool take_word(struct str *s, const char *lower)
{
    size_t n = strlen(lower);
    if (s->n < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s->p[i];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != lower[i])
            return false;
    }
    s->p += n;
    s->n -= n;
    return true;
}

static void take_space(struct str *s)
{
    while (s->n && (*s->p == ' ' || *s->p == '\t')) {
        s->p++;
        s->n--;
    }
}

/* 1 to 6 digits without a leading zero; -1: none. */
static long take_int(struct str *s)
{
    long v = 0;
    size_t n = 0;
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9' && n < 6)
        v = v * 10 + (s->p[n++] - '0');
    if (n == 0 || n == 6 || (n > 1 && *s->p == '0'))
        return -1;
    s->p += n;
    s->n -= n;
    return v;
}

struct shape {
    long value;
    bool labelled; /* "Score:" stood in front */
    bool scaled;   /* "/100" stood behind */
};

/* The whole line has a verdict's shape; the number may still be out of range. Bold marks may stand
 * around the line, the label or the number, in pairs. */
static bool line_shape(struct str line, struct shape *out)
{
    static const char *const scales[] = {"/100", "out of 100", NULL};
    struct str s = str_trim(line);
    int bold = take_word(&s, "**");
    out->labelled = take_word(&s, "score") || take_word(&s, "grade") || take_word(&s, "rating");
    if (out->labelled) {
        bold += take_word(&s, "**");
        take_space(&s);
        if (!take_word(&s, ":") && !take_word(&s, "="))
            return false;
        bold += take_word(&s, "**");
        take_space(&s);
        bold += take_word(&s, "**");
    }
    out->value = take_int(&s);
    if (out->value < 0)
        return false;
    bold += take_word(&s, "**");
    take_space(&s);
    out->scaled = false;
    for (int i = 0; scales[i] && !out->scaled; i++)
        out->scaled = take_word(&s, scales[i]);
    if (!out->scaled && take_word(&s, "/")) { /* "85 / 100" */
        take_space(&s);
        if (!take_word(&s, "100"))
            return false;
        out->scaled = true;
    }
    bold += take_word(&s, "**");
    return s.n == 0 && bold % 2 == 0;
}

static struct str quote(struct arena *a, const char *why, struct str text)
{
    struct str t = str_trim(text);
    size_t n = t.n;
    if (n > DETAIL_MAX) {
        n = DETAIL_MAX;
        while (n && ((unsigned char)t.p[n] & 0xC0) == 0x80)
            n--;
    }
    return str_printf(a, "%s: \"%.*s%s\"", why, (int)n, t.p ? t.p : "", n < t.n ? "..." : "");
}

/* Drops a closed <think> block in front. false: it never closes. */
static bool drop_think(struct str *s)
{
    *s = str_trim(*s);
    if (!str_starts(*s, "<think>"))
        return true;
    ptrdiff_t end = str_find(*s, STR_LIT("</think>"));
    if (end < 0)
        return false;
    *s = str_trim((struct str){s->p + end + 8, s->n - (size_t)end - 8});
    return true;
}

static int verdict_of_text(struct str text, double *value, struct str *detail, struct arena *a)
{
    struct shape last = {0}, other;
    struct str rest = text, line = {0};
    size_t lines = 0;
    bool got = false;
    while (rest.n) {
        struct str l = str_trim(str_cut(&rest, '\n'));
        if (!l.n)
            continue;
        lines++;
        line = l;
        bool hit = line_shape(l, &other);
        /* Behind prose only a labelled or scaled number is a verdict. */
        if (got && hit && other.value != last.value) {
            *detail = quote(a, "two different numbers", text);
            return OUTCOME_PARSE_FAILED;
        }
        if (hit) {
            last = other;
            got = true;
        }
    }
    if (!lines) {
        *detail = STR_LIT("empty answer");
        return OUTCOME_PARSE_FAILED;
    }
    if (!line_shape(line, &last) || (lines > 1 && !last.labelled && !last.scaled)) {
        *detail = quote(a, "no verdict", text);
        return OUTCOME_PARSE_FAILED;
    }
    if (last.value > 100) {
        *detail = quote(a, "out of 0..100", text);
        return OUTCOME_PARSE_FAILED;
    }
    *value = (double)last.value;
    *detail = quote(a, "matched", line);
    return OUTCOME_SCORED;
}

int judge_verdict(const struct response *r, double *value, struct str *detail, struct arena *a)
{
    *value = NAN;
    *detail = (struct str){0};
    if (!r)
        return OUTCOME_NOT_RUN;
    struct str text = r->text;
    switch (r->finish) {
    case FINISH_STOP:
        if (!drop_think(&text)) {
            *detail = STR_LIT("<think> never closes");
            return OUTCOME_TRUNCATED;
        }
        return verdict_of_text(text, value, detail, a);
    case FINISH_LENGTH: /* "10" may be the head of "100" */
        *detail = quote(a, "cut at the token limit", text);
        return OUTCOME_TRUNCATED;
    case FINISH_FILTER:
        *detail = r->detail.n ? str_copy(a, r->detail) : STR_LIT("the server's filter");
        return OUTCOME_REFUSED;
    default:
        *detail = r->detail.n ? str_copy(a, r->detail) : STR_LIT("no answer");
        return OUTCOME_TRANSPORT_FAILED;
    }
}

/* ---- summary -------------------------------------------------------------------------------- */

/* Dense cluster ids in order of first sight. n is some hundreds, but stay below n^2 compares of
 * long texts: hash first. */
static void cluster_ids(const struct score *const *v, size_t n, int32_t *id)
{
    uint64_t *h = mem_array(n ? n : 1, sizeof *h);
    int32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        struct str c = v[i]->cluster.n ? v[i]->cluster : v[i]->item;
        h[i] = hash64(c.p, c.n, 0);
        id[i] = -1;
        for (size_t k = 0; k < i && id[i] < 0; k++)
            if (h[k] == h[i] && str_eq(c, v[k]->cluster.n ? v[k]->cluster : v[k]->item))
                id[i] = id[k];
        if (id[i] < 0)
            id[i] = next++;
    }
    free(h);
}

void judge_summarise(const struct score *v, size_t n, struct judge_summary *out)
{
    *out = (struct judge_summary){.n = (int64_t)n, .mean = NAN, .lo = NAN, .hi = NAN};
    const struct score **kept = mem_array(n ? n : 1, sizeof *kept);
    double *num = mem_array(n ? n : 1, sizeof *num), *den = mem_array(n ? n : 1, sizeof *den);
    int32_t *cluster = mem_array(n ? n : 1, sizeof *cluster);
    size_t k = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        out->count[v[i].outcome]++;
        if (v[i].outcome != OUTCOME_SCORED)
            continue;
        kept[k] = &v[i];
        num[k] = v[i].value;
        den[k++] = 1;
        sum += v[i].value;
    }
    out->lo_all = n ? sum / (double)n : NAN;
    out->hi_all = n ? (sum + 100.0 * (double)(n - k)) / (double)n : NAN;
    out->why = "no answer was scored";
    if (k) {
        cluster_ids(kept, k, cluster);
        struct estimate est = stats_ratio(num, den, cluster, k, 0.95);
        out->mean = sum / (double)k;
        out->lo = est.lo;
        out->hi = est.hi;
        out->why = est.why;
    }
    free(kept);
    free(num);
    free(den);
    free(cluster);
}
