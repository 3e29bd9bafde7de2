/* judge: prompts, questions and keys. See scoring/judge.h; verdicts are read in judge_verdict.c. */
#include "scoring/judge.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"

enum { PROMPT_MAX = 1 << 20 };

const char *const judge_protocol_names[] = {"single", "joint", "pairwise", NULL};

enum { INSTRUCTION, INPUT, REFERENCE, ANSWER, ANSWERS, LABEL, LABELS, LEFT, RIGHT, FIELDS };
static const char *const field_names[] = {"instruction", "input",  "reference", "answer", "answers",
                                          "label",       "labels", "a",         "b",      NULL};

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

/* ---- loading -------------------------------------------------------------------------------- */

/* "#scale LO HI" and "#tokens N" in front. */
static int read_head(struct judge_prompt *p, struct err *e)
{
    p->lo = 0;
    p->hi = 100;
    while (str_starts(p->text, "#scale ") || str_starts(p->text, "#tokens ")) {
        struct str line = str_trim(str_cut(&p->text, '\n'));
        bool scale = str_starts(line, "#scale");
        struct str rest = line;
        str_cut(&rest, ' ');
        struct str first = str_cut(&rest, ' ');
        bool bad =
            scale ? str_i64(first, &p->lo) || str_i64(str_trim(rest), &p->hi) || p->lo < 0 ||
                        p->hi <= p->lo || p->hi > 99999
                  : str_i64(first, &p->tokens) || rest.n || p->tokens < 1 || p->tokens > 1 << 20;
        if (bad)
            return err_code(e, EXIT_USAGE, "\"%.*s\": want #scale LO HI or #tokens N",
                            STR_ARG(line));
    }
    return 0;
}

/* Which protocol the fields make; every other mix is an error. */
static int find_protocol(struct judge_prompt *p, const bool *seen, bool block, struct err *e)
{
    bool pair = seen[LEFT] || seen[RIGHT], joint = block || seen[LABEL] || seen[LABELS];
    if (!seen[INSTRUCTION])
        return err_code(e, EXIT_USAGE, "it lacks {instruction}");
    if (pair) {
        if (!seen[LEFT] || !seen[RIGHT] || joint || seen[ANSWER])
            return err_code(e, EXIT_USAGE, "{a} and {b} stand together, and without other answers");
        p->protocol = JUDGE_PAIRWISE;
    } else if (joint) {
        if (!block || !seen[LABEL] || !seen[ANSWER])
            return err_code(e, EXIT_USAGE, "it lacks {?answers}...{label}...{answer}...{/answers}");
        p->protocol = JUDGE_JOINT;
    } else if (!seen[ANSWER]) {
        return err_code(e, EXIT_USAGE, "it lacks {answer}");
    } else {
        p->protocol = JUDGE_SINGLE;
    }
    return 0;
}

static int prompt_check(struct judge_prompt *p, struct err *e)
{
    bool seen[FIELDS] = {false}, block = false, outside = false;
    int open = -1;
    for (size_t i = 0; i < p->text.n; i++) {
        struct mark m;
        if (!mark_at(p->text, i, &m))
            continue;
        if (m.field < 0)
            return err_code(e, EXIT_USAGE,
                            "unknown field {%.*s} at byte %zu; known are {instruction} {input} "
                            "{reference} {answer} {answers} {label} {labels} {a} {b}",
                            STR_ARG(m.word), i);
        if (m.kind == '?' && open >= 0)
            return err_code(e, EXIT_USAGE, "{?%.*s} at byte %zu stands inside {?%s}",
                            STR_ARG(m.word), i, field_names[open]);
        if (m.kind == '/' && open != m.field)
            return err_code(e, EXIT_USAGE, "{/%.*s} at byte %zu closes nothing", STR_ARG(m.word),
                            i);
        if (m.kind == '=' && m.field == ANSWERS)
            return err_code(e, EXIT_USAGE, "{answers} is a block: {?answers}...{/answers}");
        if (m.kind == '=' && m.field == LABEL && open != ANSWERS)
            return err_code(e, EXIT_USAGE, "{label} stands only inside {?answers}...{/answers}");
        outside = outside || (m.kind == '=' && m.field == ANSWER && open != ANSWERS);
        open = m.kind == '?' ? m.field : m.kind == '/' ? -1 : open;
        block = block || (m.kind == '?' && m.field == ANSWERS);
        seen[m.field] = seen[m.field] || m.kind == '=';
        i += m.n - 1;
    }
    if (open >= 0)
        return err_code(e, EXIT_USAGE, "{?%s} is never closed", field_names[open]);
    if (block && outside)
        return err_code(e, EXIT_USAGE, "{answer} stands outside of the block of answers");
    return find_protocol(p, seen, block, e);
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
            return err_wrap(
                e, "judge prompt %.*s (neither a file nor score100, rubric5, joint100 or pairwise)",
                STR_ARG(name));
    }
    sha256_hex(p->text, p->hash);
    if (read_head(p, e) || prompt_check(p, e))
        return err_wrap(e, "judge prompt %.*s", STR_ARG(name));
    return 0;
}

/* ---- questions ------------------------------------------------------------------------------ */

static void add_labels(size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s\"%c\"", i == 0 ? "" : i + 1 == n ? " and " : ", ", (char)('A' + i));
}

struct filler {
    const struct item *it;
    const struct str *answer;
    size_t n, at; /* at: the answer that {label} and {answer} mean */
};

static void put_field(const struct filler *f, int field, struct buf *out)
{
    switch (field) {
    case INSTRUCTION:
        buf_adds(out, f->it->instruction);
        break;
    case INPUT:
        buf_adds(out, f->it->input);
        break;
    case REFERENCE:
        buf_adds(out, f->it->reference);
        break;
    case LABEL:
        buf_addc(out, (char)('A' + f->at));
        break;
    case LABELS:
        add_labels(f->n, out);
        break;
    case RIGHT:
        buf_adds(out, f->answer[1]);
        break;
    default:
        buf_adds(out, f->answer[f->at]);
    }
}

static bool is_empty(const struct filler *f, int field)
{
    switch (field) {
    case INSTRUCTION:
        return !f->it->instruction.n;
    case INPUT:
        return !f->it->input.n;
    case REFERENCE:
        return !f->it->reference.n;
    case RIGHT:
        return !f->answer[1].n;
    case LABEL:
    case LABELS:
        return false;
    default:
        return !f->answer[f->at].n;
    }
}

static void fill(struct str text, struct filler *f, struct buf *out)
{
    size_t from = 0;
    bool skip = false;
    for (size_t i = 0; i < text.n; i++) {
        struct mark m;
        if (!mark_at(text, i, &m))
            continue;
        if (!skip)
            buf_add(out, text.p + from, i - from);
        if (m.kind == '?' && m.field == ANSWERS) {
            struct str rest = {text.p + i + m.n, text.n - i - m.n};
            struct str body = {rest.p, (size_t)str_find(rest, STR_LIT("{/answers}"))};
            for (f->at = 0; f->at < f->n; f->at++)
                fill(body, f, out);
            f->at = 0;
            i += m.n + body.n;
            mark_at(text, i, &m);
        } else if (m.kind == '=' && !skip) {
            put_field(f, m.field, out);
        } else if (m.kind == '?') {
            skip = is_empty(f, m.field);
        } else if (m.kind == '/') {
            skip = false;
        }
        i += m.n - 1;
        from = i + 1;
    }
    if (!skip)
        buf_add(out, text.p + from, text.n - from);
}

void judge_question(const struct judge_prompt *p, bool structured, const struct item *it,
                    const struct str *answer, size_t n, struct buf *out)
{
    struct filler f = {.it = it, .answer = answer, .n = n};
    fill(p->text, &f, out);
    if (structured && p->protocol == JUDGE_SINGLE)
        buf_addz(out, "\n\nGive the score as JSON: {\"score\": N}");
    if (structured && p->protocol == JUDGE_PAIRWISE)
        buf_addz(out, "\n\nGive the verdict as JSON: {\"verdict\": \"A\"}, \"B\" or \"tie\"");
}

void judge_schema(const struct judge_prompt *p, size_t n, struct buf *out)
{
    if (p->protocol == JUDGE_PAIRWISE) {
        buf_addz(out, "{\"type\":\"object\",\"properties\":{\"verdict\":{\"type\":\"string\","
                      "\"enum\":[\"A\",\"B\",\"tie\"]}},\"required\":[\"verdict\"],"
                      "\"additionalProperties\":false}");
        return;
    }
    buf_addz(out, "{\"type\":\"object\",\"properties\":{");
    for (size_t i = 0; i < n; i++) {
        if (p->protocol == JUDGE_SINGLE)
            buf_addz(out, "\"score\"");
        else
            buf_printf(out, "%s\"%c\"", i ? "," : "", (char)('A' + i));
        buf_printf(out, ":{\"type\":\"integer\",\"minimum\":%lld,\"maximum\":%lld}",
                   (long long)p->lo, (long long)p->hi);
    }
    buf_addz(out, "},\"required\":[");
    for (size_t i = 0; i < n; i++) {
        if (p->protocol == JUDGE_SINGLE)
            buf_addz(out, "\"score\"");
        else
            buf_printf(out, "%s\"%c\"", i ? "," : "", (char)('A' + i));
    }
    buf_addz(out, "],\"additionalProperties\":false}");
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

void judge_key(const struct item *it, const struct str *answer, size_t n, struct str identity,
               const struct judge_prompt *p, int64_t repeat, char hex[65])
{
    struct sha256 h;
    struct buf count = {0};
    buf_printf(&count, "%zu %lld", n, (long long)repeat);
    sha256_begin(&h);
    key_part(&h, it->id);
    key_part(&h, it->instruction);
    key_part(&h, it->input);
    key_part(&h, it->reference);
    for (size_t i = 0; i < n; i++)
        key_part(&h, answer[i]);
    key_part(&h, identity);
    key_part(&h, str_z(p->hash));
    key_part(&h, buf_str(&count));
    sha256_end_hex(&h, hex);
    buf_release(&count);
}
