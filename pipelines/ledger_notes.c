/* ledger_notes: tags and notes beside results, see ledger.h. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "formats/record.h"
#include "pipelines/ledger.h"

char *ledger_notes_path(const char *path, struct arena *a)
{
    if (file_is_dir(path))
        return path_join(a, path, "result.notes.msgpack");
    size_t n = strlen(path), end = strlen(".msgpack");
    if (n > end && strcmp(path + n - end, ".msgpack") == 0)
        n -= end;
    return arena_printf(a, "%.*s.notes.msgpack", (int)n, path);
}

/* Opens a journal of notes. Another writer holds it for the blink of an append, so that is waited for;
 * its sentence is the only sign that it was the lock which refused us. */
static struct records *open_notes(const char *path, struct clock *c, struct err *e)
{
    const double most = 5, nap = 0.02;
    for (double waited = 0;; waited += nap) {
        struct records *j = records_open(path, &note_schema, RECORD_APPEND, e);
        if (j || waited >= most || !strstr(e->msg, "another process is appending"))
            return j;
        c->sleep(c, nap);
    }
}

int ledger_note(const char *path, const struct note *n, struct clock *c, struct err *e)
{
    struct arena a = {0};
    struct records *j = open_notes(ledger_notes_path(path, &a), c, e);
    int rc = -1;
    if (j && records_append(j, n, e) == 0) {
        rc = records_close(j, e);
        j = NULL;
    }
    records_abort(j);
    arena_release(&a);
    return rc;
}

static bool has_tag(const struct strs *tags, struct str t)
{
    for (size_t i = 0; i < tags->n; i++)
        if (str_eq(tags->v[i], t))
            return true;
    return false;
}

static void apply_note(struct result *r, const struct note *n, struct arena *a)
{
    struct strs tags = {0};
    for (size_t i = 0; i < r->tags.n; i++)
        if (!has_tag(&n->remove, r->tags.v[i]))
            strs_push(&tags, r->tags.v[i], a);
    for (size_t i = 0; i < n->add.n; i++)
        if (!has_tag(&tags, n->add.v[i]))
            strs_push(&tags, n->add.v[i], a);
    r->tags = tags;
    if (n->clear || n->notes.n)
        r->notes = n->notes;
}

int ledger_add_notes(struct result *r, const char *path, struct arena *a, struct err *e)
{
    const char *notes = ledger_notes_path(path, a);
    struct note n;
    int got = 0;
    if (!file_exists(notes))
        return 0;
    struct records *j = records_open(notes, &note_schema, RECORD_READ, e);
    if (!j)
        return -1;
    while ((got = records_next(j, &n, a, e)) == 1)
        apply_note(r, &n, a);
    records_abort(j);
    return got;
}
