/* regex: PCRE2 behind one door, see regex.h. This is its only includer.
 *
 * A pattern that nests alternatives can exhaust the machine stack that the JIT was given long before
 * the text is long: (?:[a-z]|x)+ needs more than the default 32 KiB from some ten thousand letters.
 * So the stack of each match object grows to 64 MiB on demand; what still fails is tried once more
 * by the interpreter with raised limits; only then is it an error. UTF-8 is never checked here:
 * PCRE2 would validate the whole rest of the subject for each match, which is quadratic.
 */
#include "base/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define JIT_STACK_MAX  (64u << 20) /* bytes of address space, touched only when needed */
#define MATCH_LIMIT    200000000u  /* backtracks; PCRE2's default is 10 million */
#define HEAP_LIMIT_KIB (1u << 20)  /* of the interpreter: 1 GiB */
#define PATTERN_MAX    (1u << 16)  /* bytes; patterns may come from files */

struct regex {
    pcre2_code *code;
    bool jit;
};
struct regex_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int groups; /* of the last match, with group 0 */
};

/* PCRE2 answers NULL when memory ran out; then we die like everybody else (base/mem.h). */
static void *must(void *p)
{
    if (!p)
        mem_alloc(SIZE_MAX);
    return p;
}

/* Memory of PCRE2 comes from mem_alloc, so running out dies with the usual sentence. */
static void *give(PCRE2_SIZE n, void *unused)
{
    (void)unused;
    return mem_alloc(n);
}

static void take(void *p, void *unused)
{
    (void)unused;
    free(p);
}

static uint32_t options(unsigned flags)
{
    uint32_t o = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK;
    o |= flags & REGEX_CASELESS ? PCRE2_CASELESS : 0;
    o |= flags & REGEX_MULTILINE ? PCRE2_MULTILINE : 0;
    o |= flags & REGEX_DOTALL ? PCRE2_DOTALL : 0;
    return o;
}

struct regex *regex_new(struct str pattern, unsigned flags, struct err *e)
{
    int why = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR text[160];
    if (pattern.n > PATTERN_MAX) {
        err_set(e, "the pattern has %zu bytes, at most %u are allowed", pattern.n, PATTERN_MAX);
        return NULL;
    }
    if (utf8_valid(pattern) != pattern.n) {
        err_set(e, "the pattern is not UTF-8 at byte %zu", utf8_valid(pattern));
        return NULL;
    }
    pcre2_general_context *general = must(pcre2_general_context_create(give, take, NULL));
    pcre2_compile_context *context = must(pcre2_compile_context_create(general));
    /* \C would match a byte, and the rest of assay trusts that matches end between characters. */
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)(pattern.p ? pattern.p : ""), pattern.n,
                                     options(flags) | PCRE2_NEVER_BACKSLASH_C, &why, &at, context);
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (!code) {
        pcre2_get_error_message(why, text, sizeof text);
        err_set(e, "pattern \"%.*s\": %s at offset %zu", (int)(pattern.n > 200 ? 200 : pattern.n),
                pattern.p ? pattern.p : "", (const char *)text, (size_t)at);
        return NULL;
    }
    struct regex *r = mem_zero(sizeof *r);
    r->code = code;
    r->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    return r;
}

void regex_free(struct regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    free(r);
}

struct regex_match *regex_match_new(const struct regex *r)
{
    struct regex_match *m = mem_zero(sizeof *m);
    m->data = must(pcre2_match_data_create_from_pattern(r->code, NULL));
    m->context = must(pcre2_match_context_create(NULL));
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    pcre2_set_depth_limit(m->context, MATCH_LIMIT);
    pcre2_set_heap_limit(m->context, HEAP_LIMIT_KIB);
    return m;
}

void regex_match_free(struct regex_match *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    free(m);
}

/* The JIT with its built-in stack, then with a growing one, then the interpreter. */
static int match(const struct regex *r, struct regex_match *m, PCRE2_SPTR p, size_t n, size_t from)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (r->jit) {
        rc = pcre2_jit_match(r->code, p, n, from, 0, m->data, m->context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !m->stack) {
            m->stack = pcre2_jit_stack_create(64u << 10, JIT_STACK_MAX, NULL);
            pcre2_jit_stack_assign(m->context, NULL, m->stack);
            rc = pcre2_jit_match(r->code, p, n, from, 0, m->data, m->context);
        }
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(r->code, p, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data,
                         m->context);
    return rc;
}

int regex_find(const struct regex *r, struct regex_match *m, struct str subject, size_t from,
               size_t *start, size_t *end, struct err *e)
{
    PCRE2_SPTR p = (PCRE2_SPTR)(subject.p ? subject.p : "");
    assert(from <= subject.n);
    m->groups = 0;
    int rc = match(r, m, p, subject.n, from);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc == PCRE2_ERROR_NOMEMORY)
        mem_alloc(SIZE_MAX);
    if (rc < 0) {
        PCRE2_UCHAR text[160];
        pcre2_get_error_message(rc, text, sizeof text);
        return err_set(e, "matching failed at byte %zu: %s", from, (const char *)text);
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    /* \K in a look-ahead can put the start behind the end; then the match is empty at its end. */
    *end = span[1];
    *start = span[0] < span[1] ? span[0] : span[1];
    m->groups = rc;
    return 1;
}

bool regex_group(const struct regex_match *m, struct str subject, int k, struct str *out)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    *out = (struct str){0};
    if (k < 0 || k >= m->groups || span[2 * k] == PCRE2_UNSET || span[2 * k] > span[2 * k + 1])
        return false;
    *out = (struct str){subject.p + span[2 * k], span[2 * k + 1] - span[2 * k]};
    return true;
}

/* PCRE2 writes into memory of ours, so the strings live in static buffers; they are constant for a
 * library, and a second writer writes the same bytes. */
const char *regex_version(void)
{
    static char text[64];
    if (!text[0])
        pcre2_config(PCRE2_CONFIG_VERSION, text);
    return text;
}

const char *regex_unicode(void)
{
    static char text[64];
    if (!text[0])
        pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, text);
    return text;
}
