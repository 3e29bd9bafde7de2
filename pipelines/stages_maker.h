/* stages_maker: what the files that write a run's rules share. Others include stages.h. */
#ifndef PIPELINES_STAGES_MAKER_H
#define PIPELINES_STAGES_MAKER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/mem.h"
#include "pipelines/stages.h"

/* What the rules of one run are made of. Paths are make text. */
struct maker {
    const struct stages_in *in;
    const struct run *r;
    struct buf *mk;
    struct arena *a;
    const char *dir;      /* $(RUNS_DIR)/NAME */
    const char *data_dir; /* of the run that data, vocabulary and shards come from */
    const char *vocab, *vocab_dep, *shards, *shards_dep;
    const char *instruct; /* folder with instruct_*.msgpack, or NULL */
    const char *init, *init_dep;
    struct buf results; /* manifests that the result needs */
    bool needs_data;
    const char *guard; /* shell text before the next command line, or NULL */
};

/* A path of a run file as make text: $DATA and ${DATA} become $(DATA); other dollars and blanks can't
 * be said in make and are refused. */
const char *stages_path(struct maker *m, struct str path, struct err *e);
/* The stamp of a section of options. */
const char *stages_stamp(struct maker *m, const char *section);
/* Opens a rule. */
void stages_rule(struct maker *m, const char *target, const char *deps);
/* A stage whose bulk stayed on another machine is left alone (UNSEALED, run.mk): only then is it asked
 * for data, and run. */
void stages_line(struct maker *m, bool computes, const char *command);
/* The next line needs $(DATA) and says so when it is not given. */
void stages_guard(struct maker *m);
/* The result needs this manifest. */
void stages_needs(struct maker *m, const char *manifest);

void stages_losses(struct maker *m);
int stages_tasks(struct maker *m, struct err *e);
/* Fine-tuning, answers and their scores. */
void stages_instruct(struct maker *m);

#endif
