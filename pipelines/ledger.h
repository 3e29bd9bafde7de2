/* ledger: result files found and read, from files, run folders or folders of runs. */
#ifndef PIPELINES_LEDGER_H
#define PIPELINES_LEDGER_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/result.h"

struct ledger {
    struct result *v;
    const char **path; /* where each came from */
    size_t n;
    struct arena arena;
};
/* Each path: a result file, a run folder (its result.msgpack), or a folder of run folders. A name
 * that stands twice gets "#2". Nothing found is an error that names the path. */
int ledger_load(struct ledger *l, struct strs paths, struct err *e);
void ledger_release(struct ledger *l);

#endif
