/* template: built-in prompt texts, and a scanner for their three marks. */
#include "formats/template.h"

#include <string.h>

#include "base/file.h"

#define MAX_TEXT ((size_t)1 << 20)

static const struct {
    const char *name, *text;
} builtin[] = {
    {"alpaca", "Below is an instruction that describes a task. Write a response that appropriately "
               "completes the request.\n\n### Instruction:\n{instruction}{?input}\n\n### Input:\n"
               "{input}{/input}\n\n### Response:\n"},
    {"bare", "{instruction}{?input}\n{input}{/input}"},
    {"plain", "Q: {instruction}{?input}\n{input}{/input}\nA:"},
};

enum mark {
    MARK_END,
    MARK_TEXT,
    MARK_BRACE,
    MARK_INSTRUCTION,
    MARK_INPUT,
    MARK_IF,
    MARK_FI,
    MARK_BAD
};

/* The next piece of *rest; *piece is its text. */
static enum mark next_mark(struct str *rest, struct str *piece)
{
    static const struct {
        const char *text;
        enum mark mark;
    } marks[] = {
        {"{{", MARK_BRACE},      {"{instruction}", MARK_INSTRUCTION},
        {"{input}", MARK_INPUT}, {"{?input}", MARK_IF},
        {"{/input}", MARK_FI},
    };
    enum mark m = MARK_TEXT;
    size_t n = 0;
    if (!rest->n)
        return MARK_END;
    while (n < rest->n && rest->p[n] != '{')
        n++;
    if (!n) {
        m = MARK_BAD;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (str_starts(*rest, marks[i].text)) {
                m = marks[i].mark;
                n = strlen(marks[i].text);
                break;
            }
    }
    *piece = (struct str){rest->p, n};
    rest->p += n;
    rest->n -= n;
    return m;
}

static int template_check(struct str text, struct err *e)
{
    struct str rest = text, piece;
    bool open = false, asked = false;
    enum mark m;
    while ((m = next_mark(&rest, &piece)) != MARK_END) {
        size_t at = (size_t)(piece.p - text.p);
        if (m == MARK_BAD)
            return err_set(e,
                           "byte %zu: \"%.*s\" is no field; want {instruction}, {input}, "
                           "{?input}, {/input} or {{",
                           at, (int)(rest.n < 20 ? rest.n : 20), rest.p);
        if ((m == MARK_IF && open) || (m == MARK_FI && !open))
            return err_set(e, "byte %zu: %s", at,
                           open ? "{?input} inside another" : "{/input} without {?input}");
        if (m == MARK_IF || m == MARK_FI)
            open = m == MARK_IF;
        asked |= m == MARK_INSTRUCTION && !open;
    }
    if (open)
        return err_set(e, "{?input} without {/input}");
    if (!asked)
        return err_set(e, "{instruction} is missing");
    return 0;
}

int template_load(struct template *t, const char *name, struct arena *a, struct err *e)
{
    struct buf file = {0};
    int rc = -1;
    *t = (struct template){.name = arena_strdup(a, name)};
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (!strcmp(name, builtin[i].name))
            t->text = str_z(builtin[i].text);
    if (!t->text.n) {
        if (!file_exists(name))
            return err_code(e, EXIT_USAGE,
                            "template \"%s\": neither alpaca, bare, plain nor a file", name);
        if (file_read(name, &file, MAX_TEXT, e))
            goto out;
        t->text = str_copy(a, buf_str(&file));
    }
    if (template_check(t->text, e)) {
        err_wrap(e, "template %s", name);
        goto out;
    }
    sha256_hex(t->text, t->hash);
    rc = 0;
out:
    buf_release(&file);
    return rc;
}

void template_prompt(const struct template *t, struct str instruction, struct str input,
                     struct buf *out)
{
    struct str rest = t->text, piece;
    bool skip = false;
    enum mark m;
    while ((m = next_mark(&rest, &piece)) != MARK_END) {
        if (m == MARK_IF || m == MARK_FI)
            skip = m == MARK_IF && !input.n;
        else if (skip)
            continue;
        else if (m == MARK_TEXT)
            buf_adds(out, piece);
        else if (m == MARK_BRACE)
            buf_addc(out, '{');
        else
            buf_adds(out, m == MARK_INSTRUCTION ? instruction : input);
    }
}
