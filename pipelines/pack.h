/* pack: a run's small files as one archive, so that a run goes home from a rented machine.
 *
 * An archive NAME.tar holds the folder NAME: all manifests, run.ini, metrics, evaluations,
 * responses, scores, the result with its tags and notes, and every artefact of at most `small` bytes whole; models and
 * optimisers only when asked for. Its first file is NAME/packed.json, the list of all others with
 * size and SHA-256 and of what stayed behind. Equal folders give equal archives.
 *
 * Unpacked, a stage that has its manifest but not its bulk (or not that of its inputs) is sealed:
 * pack_sealed tells make so, and refuses when the options that decide it (seal.c has a table) are no
 * longer those that it was made with.
 */
#ifndef PIPELINES_PACK_H
#define PIPELINES_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct pack_options {
    bool model, optimizer;
    int64_t small; /* bytes of an artefact that goes along whole */
};
struct packed {
    int64_t files, bytes, left; /* left: artefacts whose manifest is there and an output is not */
    int64_t kept;               /* files of a replaced run that the archive lacks */
    struct str run;             /* in the arena */
};
int pack_run(const char *dir, const char *out, const struct pack_options *o, struct packed *p,
             struct arena *a, struct err *e);
/* The folder appears whole or not at all. A run of that name that is there is refused, or replaced. */
int pack_open(const char *archive, const char *runs, bool replace, struct packed *p,
              struct arena *a, struct err *e);
/* Before folder `to` takes the place of `from`: files of `from` that `to` lacks are linked into it where
 * its manifests name their very bytes; any other is named and the answer is -1. */
int pack_keep(const char *from, const char *to, int64_t *kept, struct arena *a, struct err *e);
/* Removes what killed unpacks left in `runs`, but for a run that one had put aside. */
int pack_sweep(const char *runs, struct arena *a, struct err *e);

/* Is the stage of `artefact` sealed in the run folder `dir`? 1: its manifest was touched and it was
 * said; 0: no, the stage can decide for itself; -1: it is, but its options or inputs have changed.
 * sections: of the run file that decide the stage. */
int pack_sealed(const char *dir, const char *artefact, struct strs sections, struct arena *a,
                struct err *e);

#endif
