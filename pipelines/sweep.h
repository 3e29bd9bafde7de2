/* sweep: a grid or list of options as ordinary runs, and what they say together.
 *
 * A sweep file (pipelines/sweeps/NAME.ini) names a run file and what to vary. Each cell is a run file
 * of its own, resolved, in OUT/files; it becomes a run folder like any other, so make resumes it,
 * compare compares it and nothing of a sweep is special. Cells share data, vocabulary and shards of
 * the run they start from unless an option of those sections varies. Seeds of one cell are one group.
 */
#ifndef PIPELINES_SWEEP_H
#define PIPELINES_SWEEP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "formats/result.h"
#include "formats/run.h"
#include "pipelines/sweep_fit.h"
#include "pipelines/table.h"

struct sweep_config {
    struct str run;  /* of the folder of run files */
    struct str grid; /* "train.batch: 4 8 16 | train.lr: 1e-3 2e-3" */
    struct str list; /* "train.batch=4 train.lr=1e-3 | train.batch=8" */
    int64_t seeds;   /* of each cell; train.seed, counted up */
    struct str fit;  /* option that the curve is over; empty: the first of the grid */
    struct str metric;
    double level;                /* of the intervals */
    double max_hours, max_money; /* 0: no limit; measured by finished runs */
};
struct cell {
    const char *name, *group; /* of the run */
    struct strs set;          /* section.key=value over the run */
    const char *others;       /* its options but the fitted one: the curve it belongs to */
    struct run run;           /* resolved */
    double x;                 /* of the option that is fitted; NaN: it is no number */
    bool done;                /* its result is there */
    double value;             /* the metric; NaN */
    double seconds, money;    /* spent on it */
};
struct sweep {
    struct sweep_config c;
    const char *name, *fit, *data; /* data: the run whose data the cells take; NULL: their own */
    struct cell *v;
    size_t n;
    bool higher;
    struct arena arena;
};

/* Reads the file and resolves every cell against its run file in `run_files`; sets go over every cell.
 * Refuses an option that does not exist, a value out of range and doubled cells. */
int sweep_load(struct sweep *s, const char *path, const char *run_files, struct strs sets,
               struct err *e);
void sweep_release(struct sweep *s);
/* Writes OUT/files/CELL.ini and that of the run whose data they take; files that did not change are left
 * as they are. */
int sweep_write(const struct sweep *s, const char *run_files, const char *out, struct err *e);
/* Looks which results are there below `runs`. */
int sweep_look(struct sweep *s, const char *runs, struct err *e);
/* The next cell to run behind `after` (NULL: from the first), seeds last; NULL: none. With the budget
 * at its end *why says so. */
const struct cell *sweep_next(const struct sweep *s, const char *after, char why[256]);
/* What can be known before anything is trained: that the metric exists and these runs measure it, that
 * cells have the fitted option, and, if cells are left, that money has a price (an hour of the machine;
 * NaN: unknown). EXIT_USAGE with the sentence. */
int sweep_check(const struct sweep *s, double price_hour, bool will_run, struct err *e);
/* Whether this machine can train the cells that have not trained yet: backend and precision. */
int sweep_starts(const struct sweep *s, const char *runs, struct err *e);
/* The curve over the cells whose other options are these: two settings are no two seeds. */
void sweep_fit(const struct sweep *s, const char *others, struct fit *f);
/* Cells, spending, a curve for each setting of the other options. */
void sweep_print(const struct sweep *s, enum table_format f, struct buf *out);

#endif
