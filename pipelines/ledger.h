/* ledger: result files found and read, from files, run folders or folders of runs.
 *
 * Readers take no lock: results appear by rename and notes are a journal, so a reader sees what was
 * whole when it looked. In a folder of runs one that cannot be read is listed as unreadable and said on
 * stderr; a path that was named is an error. A run folder without a result is listed too: its status says whether it is
 * running, was killed (and at which step), failed (with its sentence) or has not begun.
 */
#ifndef PIPELINES_LEDGER_H
#define PIPELINES_LEDGER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/note.h"
#include "formats/result.h"

struct ledger {
    struct result *v;
    const char **path; /* where each came from; a run folder where there is no result */
    bool *whole;       /* read with curve and per-item values */
    size_t n;
    struct map names; /* how often each name stood */
    struct map files; /* that were read, by their real paths */
    size_t again;     /* how often one was named again, and which first */
    const char *first_again;
    struct arena arena;
};
/* Each path: a result file, a run folder (its result.msgpack), or a folder of run folders. A name
 * that stands twice gets "#2"; a file or folder that stands twice is read once, and it is said. Nothing found is an error that names the path. */
int ledger_load(struct ledger *l, struct strs paths, struct err *e);
/* As ledger_load, without curves and per-item values: a thousand results in a fraction of a second. */
int ledger_heads(struct ledger *l, struct strs paths, struct err *e);
/* Keeps and orders the results: conditions and fields of pipelines/query.h. None left is no error. */
int ledger_select(struct ledger *l, struct strs where, struct strs by, struct err *e);
/* Reads what heads left out. */
int ledger_fill(struct ledger *l, struct err *e);
/* Adds what a panel (pipelines/panel.h) says of these runs as a metric a pass, "judge_joint" of task
 * "PANEL pass N". Runs must be whole; a panel that judged none of them is an error. */
int ledger_panel(struct ledger *l, const char *dir, struct err *e);
void ledger_release(struct ledger *l);
/* One of a folder that could not be read: nothing of it is known but its name. */
bool ledger_unreadable(const struct result *r);

/* The journal of notes that belongs to a result file or run folder. */
char *ledger_notes_path(const char *path, struct arena *a);
/* Appends one note, under the journal's lock. Another writer is waited for up to 5 s, then it fails. */
struct clock;
int ledger_note(const char *path, const struct note *n, struct clock *c, struct err *e);
/* The notes of `path` over the result that was read there. */
int ledger_add_notes(struct result *r, const char *path, struct arena *a, struct err *e);

#endif
