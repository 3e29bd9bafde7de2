/* stages: a run file becomes make rules. One stage, one rule: target manifest, prerequisite
 * manifests and option stamps, one command line.
 *
 * make decides by times what to look at, each command decides by its key whether to work; so `make
 * -n` tells the truth and a rule that make runs needlessly costs milliseconds. Rules are written for
 * the variables TOOL, RUNS_DIR, DATA, LOCK and HARDWARE of pipelines/run.mk.
 */
#ifndef PIPELINES_STAGES_H
#define PIPELINES_STAGES_H

#include "base/buf.h"
#include "base/err.h"
#include "formats/run.h"

/* Sections of a run file, the units of stamps. */
extern const char *const stage_sections[]; /* "data", "vocab", ..., NULL */

/* Where sources are fetched when nobody said DATA=folder. */
#define STAGES_FETCHED "data"

struct stages_in {
    const char *name;   /* of the run */
    const char *stamps; /* folder of the stamp files */
    const struct run *run;
};

/* The make text of a run's stages. */
int stages_write(const struct stages_in *in, struct buf *mk, struct arena *a, struct err *e);
/* The whole run file, resolved: every key, in table order, without includes. */
void stages_ini(const struct run *r, struct buf *out);
/* One section of it. */
void stages_section(const struct run *r, const char *section, struct buf *out);

/* Scorers of a generate task's answers, NULL-ended: IFEval's four where that is its metric, else those
 * of [score]. NULL: a choice task, or one whose file can't be read yet. *metric: the task's own. */
const char *const *stages_task_scorers(const struct run *r, struct str task, struct str *metric,
                                       struct arena *a);

/* How many files of 1e8 tokens a run of public shards reads: its token budget, rounded up, and the
 * validation file; 0: unknown. */
int64_t stages_shard_files(const struct run *r);

/* What the artefacts of an entry of eval.tasks are called: its file's name without .ini. */
const char *stages_task_name(struct str task, struct arena *a);

/* A scorer's own name, by which its scores are called: score.scorers may name it by its metric. */
const char *stages_scorer_name(struct str name, struct arena *a);

#endif
